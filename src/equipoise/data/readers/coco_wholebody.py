"""COCO-WholeBody (Jin et al., ECCV 2020): boxes of the face and the hands of people in COCO 2017.

File: ``coco_wholebody_train_v1.0.json`` or ``coco_wholebody_val_v1.0.json``, COCO keypoint annotations with, for
each person, ``face_box``, ``lefthand_box``, ``righthand_box`` (x, y, width, height) and ``face_valid``,
``lefthand_valid``, ``righthand_valid``; an invalid box is all zeros and is left out. The format is that of the
authors' ``data_format.md``. The dense keypoints of face, hands and feet are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equipoise.data.readers import coco
from equipoise.data.readers.files import files_of, read_json
from equipoise.data.readers.files.values import Pictures, RowError, box, brief, identifier
from equipoise.data.schema import Rejected, Row

PARTS = {"face": "face", "lefthand": "left_hand", "righthand": "right_hand"}
"""The name of a part in the file, and here."""


def read(path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> Iterator[Row | Rejected]:
    """One row per image, its people with ``parts``: the boxes of face, left hand and right hand where they are valid.

    ``path``: the annotation file, or a folder with one. ``images``: the folder of COCO train2017 or val2017.
    """
    files = files_of(path, "coco_wholebody_*.json", "annotations/coco_wholebody_*.json")
    pictures = Pictures.at(images)
    for file in files:
        gathered = coco.Gathered()
        document = read_json(file)
        yield from coco.gather_document(document, file, gathered)
        yield from _add_parts(document.get("annotations", []), file, gathered)
        split = "train2017" if "train" in file.name else "val2017" if "val" in file.name else None
        yield from coco.rows(gathered, pictures, split)


def _add_parts(annotations: list[Any], file: Path, gathered: coco.Gathered) -> Iterator[Rejected]:
    for i, entry in enumerate(annotations):
        if not isinstance(entry, dict):
            continue  # rejected already, when the annotations were gathered
        try:
            _add(entry, gathered)
        except RowError as error:
            yield Rejected(f"{file.name} annotations[{i}]", str(error), brief(entry))


def _add(entry: dict[str, Any], gathered: coco.Gathered) -> None:
    image = gathered.images.get(_id_or_none(entry.get("image_id")))
    person = image.people.get(_id_or_none(entry.get("id"))) if image else None
    if person is None:
        return
    parts = {}
    for theirs, ours in PARTS.items():
        valid = entry.get(f"{theirs}_valid", False)
        if not isinstance(valid, (bool, int)):
            raise RowError(f"{theirs}_valid is {str(valid)[:40]!r}; true or false is expected")
        if valid:
            parts[ours] = box(entry.get(f"{theirs}_box"), f"{theirs} box")
    person["parts"] = parts or None


def _id_or_none(value: Any) -> str:
    try:
        return identifier(value)
    except RowError:
        return ""
