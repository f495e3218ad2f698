"""FairFace (Kärkkäinen and Joo, WACV 2021): faces with perceived race, gender and age.

Files: ``fairface_label_train.csv`` and ``fairface_label_val.csv`` with the columns ``file`` (``val/1.jpg``),
``age`` (0-2, 3-9, ... , more than 70), ``gender`` (Male, Female), ``race`` (seven, among them ``Latino_Hispanic``)
and ``service_test``. Groups keep the file's spelling. The images come in two croppings; measurements of people in
context use the wide one (padding 1.25, ``fairface-img-margin125-trainval``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from equipoise.data.readers.files import existing, files_of
from equipoise.data.readers.files.records import csv_rows
from equipoise.data.readers.files.values import GivenIds, Pictures, RowError, group, optional_text, row, text
from equipoise.data.schema import Rejected, Row

AXES = ("gender", "race", "age")
GROUPS = {
    "gender": ("Female", "Male"),
    "race": ("Black", "East Asian", "Indian", "Latino_Hispanic", "Middle Eastern", "Southeast Asian", "White"),
    "age": ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70"),
}
FOLDERS = ("fairface-img-margin125-trainval", "fairface-img-margin025-trainval")


def read(path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> Iterator[Row | Rejected]:
    """One row per face. ``images``: the folder that holds ``train/`` and ``val/``; found beside the labels if there."""
    seen = GivenIds()
    for file in files_of(path, "fairface_label_*.csv"):
        pictures = Pictures(existing(images) if images is not None else _folder(file.parent))
        yield from csv_rows(file, ("file", *AXES), _row, pictures, seen=seen)


def _row(fields: dict[str, str], pictures: Pictures) -> Row:
    name = text(fields["file"], "file")
    if not re.fullmatch(r"(train|val)/\d+\.jpg", name):
        raise RowError(f"the file is {name[:40]!r}; train/<number>.jpg or val/<number>.jpg is expected")
    return row(
        image=pictures.cell(name),
        image_id=name.rpartition(".")[0] or name,
        label_source="annotator",
        split=name.partition("/")[0],
        service_test=optional_text(fields.get("service_test"), "service_test"),
        **{axis: group(fields[axis], axis, known=GROUPS[axis]) for axis in AXES},
    )


def _folder(beside: Path) -> Path | None:
    for candidate in (beside, *(beside / name for name in FOLDERS)):
        if (candidate / "val").is_dir() or (candidate / "train").is_dir():
            return candidate
    return None
