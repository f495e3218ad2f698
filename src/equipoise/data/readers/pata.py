"""PATA (Seth et al., CVPR 2023): people in 24 scenes, with captions that flatter and captions that insult.

Files: ``pata_fairness.files.lst``, a line ``<scene>_<race>_<gender>_<age>|<address>`` each, and
``pata_fairness.captions.json``, a list of ``{"short": scene, "pos": {"races": [...], "gender": [...], "age": [...]},
"neg": {...}}``, as in the public repository. A scene's name may hold ``_``. The captions belong to the scene, not to
the image: they are in ``positive`` and ``negative`` (JSON, by axis), and ``caption`` is empty.

The images are web addresses, and many are dead: fetch them yourself and name each after its line, counted from 0
(``0.jpg``), or ``<label>_<line>`` with the label of the line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equipoise.data.readers.files import existing, files_of, plain_lines, read_json
from equipoise.data.readers.files.values import Pictures, RowError, address, attempt, group, mapping, row, text
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

GROUPS = {
    "gender": ("female", "male"),
    "race": ("black", "caucasian", "eastasian", "hispanic", "indian"),
    "age": ("old", "young"),
}
_KEYS = {"race": "races", "gender": "gender", "age": "age"}


def read(
    path: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str] | None = None,
    captions: str | os.PathLike[str] | None = None,
) -> Iterator[Row | Rejected]:
    """One row per image; ``subject`` is the scene.

    ``path``: the list, or the folder that holds it. ``captions``: the captions file, by default the one beside the
    list if it is there. ``images``: a folder with the images; without it the rows have an address and no image.
    """
    file = files_of(path, "*.files.lst", "*.lst")[0]
    beside = file.with_name("pata_fairness.captions.json")
    texts_file = existing(captions) if captions is not None else beside if beside.is_file() else None
    texts: dict[str, dict[str, str]] = {}
    if texts_file is not None:
        yield from _read_texts(texts_file, texts)
    pictures = Pictures.at(images)
    for number, line in plain_lines(file):
        if isinstance(line, Rejected):
            yield line
        else:
            where = f"{file.name} line {number}"
            yield attempt(where, _row, line, number - 1, pictures, texts, shown={"line": line})


def _row(line: str, index: int, pictures: Pictures, texts: Mapping[str, Mapping[str, str]]) -> Row:
    label, bar, url = line.partition("|")
    parts = text(label, "label").rsplit("_", 3)
    if not bar or len(parts) != 4:
        raise RowError("the line is not '<scene>_<race>_<gender>_<age>|<address>'")
    scene, race, gender, age = (text(part, "part of the label") for part in parts)
    return row(
        image=pictures.any_suffix(str(index), f"{label.strip()}_{index}"),
        image_id=str(index),
        subject=scene.replace("_", " "),
        label_source="annotator",
        gender=group(gender, "gender", known=GROUPS["gender"]),
        race=group(race, "race", known=GROUPS["race"]),
        age=group(age, "age", known=GROUPS["age"]),
        url=address(url),
        positive=texts.get(scene, {}).get("pos"),
        negative=texts.get(scene, {}).get("neg"),
    )


def _read_texts(file: Path, texts: dict[str, dict[str, str]]) -> Iterator[Rejected]:
    document = read_json(file)
    if not isinstance(document, list):
        raise InputError(f"{file} is not PATA's captions file; a JSON list of scenes is expected")
    for i, entry in enumerate(document):
        try:
            entry = mapping(entry, "scene")
            scene = text(entry.get("short"), "scene")
            texts[scene] = {side: _by_axis(entry.get(side)) for side in ("pos", "neg")}
        except RowError as error:
            yield Rejected(f"{file.name} [{i}]", str(error))


def _by_axis(value: Any) -> str:
    captions = mapping(value, "captions")
    by_axis = {}
    for axis, key in _KEYS.items():
        if not isinstance(captions.get(key), list):
            raise RowError(f"the captions of {key} are not a list")
        by_axis[axis] = [text(v, "caption") for v in captions[key]]
    return json.dumps(by_axis, sort_keys=True)
