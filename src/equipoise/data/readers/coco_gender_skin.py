"""Perceived gender and skin tone of people in COCO val2014 (Zhao, Wang and Russakovsky, ICCV 2021), as CSV.

File: ``images_val2014.csv``, given on request by the authors. Columns used: ``id`` (COCO image id), ``bb_gender``
(Male, Female, Both, Unsure), ``bb_skin`` (Light, Dark, Both, Unsure) and, if it is there, ``split``. The names are
those that public code reads from the file; the file itself could not be seen here, so the options name them. The
file of single people (``instances_*.csv``) is not read: its columns could not be confirmed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from equipoise.data.readers import coco
from equipoise.data.readers.files import existing, files_of
from equipoise.data.readers.files.records import csv_rows
from equipoise.data.readers.files.values import GivenIds, Pictures, RowError, group, row, text
from equipoise.data.schema import Rejected, Row

AXES = ("gender", "skin_tone")
GROUPS = {"gender": ("Female", "Male"), "skin_tone": ("Dark", "Light")}
UNDEFINED = ("unsure", "both", "nan")


def read(
    path: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str] | None = None,
    captions: str | os.PathLike[str] | None = None,
    id_column: str = "id",
    gender_column: str = "bb_gender",
    skin_column: str = "bb_skin",
) -> Iterator[Row | Rejected]:
    """One row per annotated image; "Both" and "Unsure" are no label, and "Both" is noted in ``mixed``.

    ``images``: the folder of COCO val2014. ``captions``: COCO's ``captions_val2014.json``, to add the captions.
    """
    known = coco.Gathered()
    if captions is not None:
        yield from coco.gather(existing(captions), known)
    pictures = Pictures.at(images)
    seen = GivenIds()

    def row_of(fields: dict[str, str]) -> Row:
        number = text(fields[id_column], "id")
        if not (number.isascii() and number.isdigit() and len(number) <= 12):
            raise RowError(f"the id is {number[:40]!r}; a COCO image id is a whole number of at most 12 digits")
        number = str(int(number))
        texts = known.images[number].captions if number in known.images else []
        raw = {"gender": fields[gender_column], "skin_tone": fields[skin_column]}
        return row(
            image=pictures.cell(f"COCO_val2014_{int(number):012d}.jpg"),
            image_id=number,
            captions=texts,
            label_source="annotator",
            split=group(fields.get("split"), "split", known=("train", "val", "test")),
            mixed=[axis for axis in AXES if raw[axis].strip().casefold() == "both"],
            **{axis: group(value, axis, UNDEFINED, GROUPS[axis]) for axis, value in raw.items()},
        )

    for file in files_of(path, "images_val2014.csv", "images_*.csv"):
        yield from csv_rows(file, (id_column, gender_column, skin_column), row_of, seen=seen)
