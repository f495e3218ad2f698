"""Train a debiasing caption generator on pairs of captions and the pictures that they are of."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.data.manifest import UNFINISHED
from equipoise.data.runs import beside
from equipoise.errors import InputError
from equipoise.train.fitting import Trained, fit

_COLUMNS = {"biased": "list<string>", "original": "list<string>"}
LibraPairs = Mapping[str, tuple[Sequence[str], Sequence[str]]]
"""Biased captions and their originals, by image id."""


def pairs_in(path: str | Path) -> dict[str, tuple[list[str], list[str]]]:
    """The pairs of a file ``pairs.jsonl``, or of the folder that ``equipoise libra synthesise`` wrote, by image."""
    place = Path(path)
    file = place / "pairs.jsonl" if place.is_dir() else place
    if not file.is_file():
        raise InputError(f"{path}: no pairs there; make them with: equipoise libra synthesise CAPTIONS -o {place}")
    by_image: dict[str, tuple[list[str], list[str]]] = {}
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text; give the pairs.jsonl of equipoise libra synthesise") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            image, biased, original = str(row["image_id"]), row["biased"], row["original"]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{file}:{number}: expected an object with image_id, biased and original") from None
        if not all(isinstance(text, str) and text.strip() for text in (biased, original)):
            raise InputError(f"{file}:{number}: biased and original must be texts with words in them")
        texts = by_image.setdefault(image, ([], []))
        texts[0].append(biased)
        texts[1].append(original)
    if not by_image:
        raise InputError(f"{file}: holds no pairs")
    return by_image


def start_of(encoder: str, decoder: str, folder: Path, *, share: float, seed: int = 0) -> str:
    """The name of a reviser made of a ViLT and a GPT-2, written to ``folder`` unless it is there."""
    from equipoise.models.hf.revisers import join

    names = {"encoder": encoder, "decoder": decoder, "share": share, "seed": seed}
    said = folder / "made_of.json"
    if said.is_file() and json.loads(said.read_text(encoding="utf-8")) != names:
        shutil.rmtree(folder)
    if not said.is_file():
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder}: is there already; move it away, or give another name with -o")
        stage = folder.with_name(f".{folder.name}.stage")  # a run that was killed may have left it
        shutil.rmtree(stage, ignore_errors=True)
        join(encoder.removeprefix("hf:"), decoder.removeprefix("hf:"), stage, share=share, seed=seed)
        (stage / said.name).write_text(json.dumps(names), encoding="utf-8")
        os.replace(stage, folder)
    return f"hf:{folder}"


def fit_reviser(
    pairs: LibraPairs,
    pictures: Table | Mapping[str, Path],
    out: str | Path,
    *,
    init: str,
    options: Mapping[str, Any] | None = None,
    device: str = "auto",
    overwrite: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Trained:
    """Train a reviser on pairs of captions and the pictures that they are of.

    A stopped run goes on with the same call.

    Args:
        pairs: biased captions and their originals by image id, as :func:`pairs_in` reads them.
        pictures: a table of images, or the files by image id; pairs whose picture is not there are left out, and if
            none is left that is an InputError.
        out: the folder of the model, which opens as ``hf:<out>`` with kind ``reviser``; the pairs go to
            ``<out>-pairs``.
        init: the reviser to start from, as ``hf:<repo or folder>`` or ``mini:dcg``.
        options: those of the task ``dcg``, such as ``share``, the share of words that are hidden.
        device: where it is trained, such as ``cuda``; ``auto`` is a GPU where there is one.
        overwrite: train anew where ``out`` holds something other than this training.
        quiet: show no progress.
        **settings: fields of :class:`~equipoise.train.settings.TrainSettings`, such as ``steps`` and ``batch``.

    Returns:
        The folder, the steps taken and the losses.
    """
    table, layers = _table(pairs, pictures, beside(out, "pairs"))
    return fit(
        "dcg",
        table,
        out,
        init=init,
        layers=layers,
        options=options,
        device=device,
        overwrite=overwrite,
        quiet=quiet,
        **settings,
    )


def _table(pairs: LibraPairs, pictures: Table | Mapping[str, Path], home: Path) -> tuple[Table, list[str]]:
    """The pictures of pairs: a table read with a layer, or a new table of paths; the pairs lie in ``home``."""
    ids = pictures.to_pandas(["image_id"])["image_id"].tolist() if isinstance(pictures, Table) else list(pictures)
    shared = [image for image in ids if image in pairs]
    if not shared:
        raise InputError(
            f"none of the {len(pairs):,} images that pairs are of is among the {len(ids):,} given; an id of a pair "
            f"looks like {next(iter(pairs))!r}"
        )
    plain = json.dumps({image: [list(texts) for texts in pairs[image]] for image in shared}, sort_keys=True)
    if isinstance(pictures, Table):
        of = list(pictures.fingerprints)
    else:
        of = [str(pictures[image].absolute()) for image in shared]
    config = {"pairs": hashlib.sha256((plain + json.dumps(of)).encode()).hexdigest()}
    rows = [{"image_id": i, "biased": list(pairs[i][0]), "original": list(pairs[i][1])} for i in shared]
    if home.exists() and not _is_of(home, config):
        if not _is_ours(home):
            raise InputError(f"{home}: is there already and holds something else; give another name with -o")
        shutil.rmtree(home)
    if isinstance(pictures, Table):
        if not home.exists():
            kept = [row | {"keep": True} for row in rows]
            pictures.add_layer("libra", kept, columns=_COLUMNS | {"keep": "bool"}, config=config, path=home)
        return pictures, [str(home)]
    if not home.exists():
        places = [{"path": str(pictures[image].absolute())} for image in shared]
        paths = [{**row, "image": place} for row, place in zip(rows, places, strict=True)]
        return Table.create(home, paths, columns=_COLUMNS, config=config), []
    return Table.open(home), []


def _is_of(home: Path, config: Mapping[str, Any]) -> bool:
    try:
        return bool(Table.open(home).config.get("pairs") == config["pairs"])
    except InputError:  # cut off while it was written
        return False


def _is_ours(home: Path) -> bool:
    """Whether a folder holds pairs of an earlier run, whole or cut off."""
    try:
        return "pairs" in Table.open(home).config
    except InputError:
        # Killed before the first file had its name, a writer leaves its lock and a file that has none yet.
        unnamed = all(path.name == ".lock" or path.match(".*.tmp") for path in home.iterdir())
        return (home / UNFINISHED).is_file() or unnamed
