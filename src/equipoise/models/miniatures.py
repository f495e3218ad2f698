"""``mini``: the miniature models that come with the package, genuine checkpoints trained on the pictogram world."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.formatting import joined
from equipoise.models.folders import open_checkpoint
from equipoise.text.english.articles import with_article

FOLDER = Path(__file__).parent / "mini"
PARTS = {
    "clip": ("encoder", "A CLIP trained on the biased world."),
    "clip-fair": ("encoder", "The same, trained on the fair world: the control."),
    "clip-binding": ("encoder", "The control, trained further on captions that lean in who does what."),
    "captioner": ("captioner", "A captioner trained on captions of the biased world."),
    "dcg": ("reviser", "A reviser of captions that learnt from biased ones of the biased world."),
    "judge": ("classifier", "A classifier of every attribute, for evaluation only."),
    "vae": ("autoencoder", "The autoencoder of the generators."),
    "diffusion": ("generator", "A text-to-image pipeline trained on the fair world."),
    "diffusion-biased": ("generator", "The same, trained further from there on the biased world."),
    "inpaint": ("generator", "A pipeline that draws the person anew, from a mask and a prompt."),
    "edit": ("generator", "A pipeline that changes the person as an instruction says."),
    "text": ("filler", "A masked language model trained on captions of the biased world."),
    "detector": ("detector", "A segmentation model that finds people and things."),
    "safety": ("classifier", "A classifier of the sign for unsafe content."),
}
_DEFAULTS = {
    "encoder": "clip",
    "captioner": "captioner",
    "classifier": "judge",
    "generator": "diffusion",
    "detector": "detector",
    "filler": "text",
    "reviser": "dcg",
}


@dataclass(frozen=True)
class Miniature:
    """One part: whether it is there, how large, and what its card says."""

    name: str
    kind: str
    about: str
    present: bool
    n_bytes: int = 0
    figures: tuple[tuple[str, str], ...] = ()
    """Names and values of the tables in its card."""

    @property
    def folder(self) -> Path:
        """Where it lies, if it is there."""
        return FOLDER / self.name


def from_mini(rest: str, *, kind: str = "encoder", **options: Any) -> Any:
    """The part ``rest`` as what it is; without a part, the one that ``kind`` asks for (an encoder is the CLIP)."""
    part = rest or _DEFAULTS[kind]
    if part not in PARTS:
        raise UnknownNameError("miniature", part, PARTS)
    if part == "vae":
        raise InputError(f"mini:vae is a part of the generators; diffusers.AutoencoderKL loads {FOLDER / part}")
    if PARTS[part][0] != kind:
        which = joined([f"mini:{name}" for name, (of, _) in PARTS.items() if of == kind], "or")
        raise InputError(
            f"mini:{part} is {with_article(PARTS[part][0])}, and {with_article(kind)} is needed here; give {which}"
        )
    if not (FOLDER / part).is_dir():
        there = [m.name for m in miniatures() if m.present]
        raise InputError(
            f"the miniature {part!r} is not in this installation ({FOLDER / part}); "
            f"there {'is' if len(there) == 1 else 'are'}: {', '.join(there) or 'none'}; train it with: "
            f"equipoise mini train {part}"
        )
    name = f"mini:{rest}" if rest else "mini"
    if kind == "generator":
        from equipoise.models.diffusers.generator import open_pipeline

        return open_pipeline(FOLDER / part, name=name, **options)
    from equipoise.models.hf.adapter import from_folder

    return from_folder(open_checkpoint(FOLDER / part), name=name, kind=kind, **options)


def miniatures() -> list[Miniature]:
    """Every part, present or not."""
    return [_miniature(part, kind, about) for part, (kind, about) in PARTS.items()]


def _miniature(part: str, kind: str, about: str) -> Miniature:
    folder = FOLDER / part
    if not folder.is_dir():
        return Miniature(part, kind, about, present=False)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8") if card.is_file() else ""
    return Miniature(part, kind, about, True, size, tuple(figures_of(text)))


def figures_of(card: str) -> list[tuple[str, str]]:
    """The rows of a model card's tables whose second cell is a number.

    >>> figures_of("| figure | value |\\n| --- | --- |\\n| gender | 0.998 |\\n| n | 24 subjects |")
    [('gender', '0.998'), ('n', '24 subjects')]
    """
    rows = (re.fullmatch(r"\|([^|]+)\|([^|]+)(\|.*)?\|?", line.strip()) for line in card.splitlines())
    cells = [(row[1].strip(" *`"), row[2].strip(" *`")) for row in rows if row]
    return [(name, value) for name, value in cells if re.match(r"[-+≥>]?\s*\d", value)]
