"""Captioners of the study: trained on the same sets, asked about whole, masked and redrawn test photographs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from equipoise.audit.captions.run import CaptionSettings, audit_captions
from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.measure.captions.mentions import Mentions
from equipoise.measure.captions.ratio import ratio
from equipoise.measure.classify import artefact_delta
from equipoise.measure.groups import Groups
from equipoise.measure.stats.estimate import Estimate
from equipoise.recipes.inpainting.arms import EVERY_ARM
from equipoise.recipes.inpainting.photographs import set_of
from equipoise.text import Lexicon
from equipoise.train import fit

__all__ = ["CAPTIONS", "audit_of", "caption_delta", "caption_ratio", "train_captioner_arm", "write_captions"]

CAPTIONS = "gendered_captions"
"""What a captioner learns: captions that name the gender."""
INIT, ENCODER, LEXICON = "mini:captioner", "mini:clip-fair", "equipoise"
LEXICONS = {"gender": LEXICON, "skin_tone": "skin_tone"}
"""Whose words are hidden from the classifier of LIC, by axis."""


def train_captioner_arm(arm: str, sets: Path, out: Path, steps: int, seed: int) -> None:
    """Train the miniature captioner on the set of an arm."""
    table = set_of(EVERY_ARM[arm], sets)
    settings: dict[str, Any] = {"steps": steps, "batch": 32, "rate": 5e-4, "val_share": 0.0, "seed": seed}
    fit("captioner", table, out, init=INIT, options={"caption": CAPTIONS}, quiet=True, **settings)


def write_captions(model: Path, table: Table, path: Path) -> None:
    """A caption of every picture, one line each."""
    from equipoise.engine.answers import captions
    from equipoise.models import load

    said = captions(load(f"hf:{model}", kind="captioner"), table, seed=0)
    write_lines(path, ({"image_id": i, "caption": text} for i, text in said if isinstance(text, str)))


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def read_lines(path: Path) -> dict[str, str]:
    """Captions by image."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["image_id"]: row["caption"] for row in rows}


def audit_of(captions: Path, people: Path, images: Path, out: Path, seed: int, axis: str = "gender") -> None:
    """LIC by ``axis``, quality and CLIPScore of the captions of whole pictures."""
    settings = CaptionSettings(lexicon=LEXICONS[axis], permutations=20, ba_least=20, seeds=5, seed=seed)
    audit_captions([f"captions={captions}"], people, axis, out, images=images, encoder=ENCODER, settings=settings)


def caption_ratio(path: Path, pair: tuple[str, str]) -> Any:
    """Captions of masked pictures that name ``pair[0]`` over those that name ``pair[1]``, folded."""
    said = Mentions.of(read_lines(path).values(), LEXICON)
    return ratio(said, pair, convention="folded").estimate


def caption_delta(before: Path, after: Path, sources: Mapping[str, str], pair: tuple[str, str]) -> Estimate:
    """The artefact test on captions: which group they name before and after a body part was drawn anew."""
    lexicon = Lexicon.load(LEXICON)
    whole, redrawn = read_lines(before), read_lines(after)

    def group(text: str) -> str | None:
        groups = lexicon.groups_in(text) & set(pair)
        return next(iter(groups)) if len(groups) == 1 else None

    twins = [(whole[sources[name]], text) for name, text in redrawn.items()]
    named: list[Any] = [[group(texts[side]) for texts in twins] for side in (0, 1)]
    first, second = (Groups.from_values(some, list(pair)) for some in named)
    return artefact_delta(first, second, pair)
