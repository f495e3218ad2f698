"""Open Images with MIAP (Schumann et al., 2021): boxes of all people, with perceived gender and age presentation.

Files: ``open_images_extended_miap_boxes_{train,val,test}.csv`` with the columns ``ImageID``, ``LabelName``,
``XMin``, ``XMax``, ``YMin``, ``YMax`` (fractions of the image's size), ``IsOccluded``, ``IsTruncated``,
``IsGroupOf``, ``IsDepictionOf``, ``IsInsideOf``, ``GenderPresentation`` (Predominantly Feminine, Predominantly
Masculine, Unknown) and ``AgePresentation`` (Young, Middle, Older, Unknown). Image labels, optional:
``*-annotations-human-imagelabels.csv`` (``ImageID``, ``LabelName``, ``Confidence``; 1 is verified as present, 0 as
absent) and the names ``*class-descriptions*.csv`` (``/m/011k07,Tortoise``, with or without a header).

MIAP labels boxes. Here an image has a label only if all its boxes have it; where two differ it has none and the axis
is noted in ``mixed``. Boxes stay fractions, because an image is never opened to list it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equipoise.data.people import agreed, person
from equipoise.data.readers.files import csv_records, existing, files_of
from equipoise.data.readers.files.records import split_named
from equipoise.data.readers.files.values import GivenIds, Pictures, RowError, attempt, brief, group, number, row, text
from equipoise.data.schema import Rejected, Row

AXES = ("gender", "age")
GROUPS = {
    "gender": ("Predominantly Feminine", "Predominantly Masculine"),
    "age": ("Middle", "Older", "Young"),
}
_PRESENTATION = {"gender": "GenderPresentation", "age": "AgePresentation"}
_FLAGS = ("IsOccluded", "IsTruncated", "IsGroupOf", "IsDepictionOf", "IsInsideOf")


def read(
    path: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str] | None = None,
    labels: str | os.PathLike[str] | None = None,
    names: str | os.PathLike[str] | None = None,
) -> Iterator[Row | Rejected]:
    """One row per image that MIAP annotates.

    ``path``: a MIAP file, or a folder with some. ``images``: a folder with ``<ImageID>.jpg``. ``labels``: the CSV of
    image labels, for ``objects``. ``names``: the CSV of class names; without it the labels stay codes.
    """
    pictures = Pictures.at(images)
    known: dict[str, str] = {}
    if names is not None:
        for record in csv_records(existing(names), header=("LabelName", "DisplayName")):
            if isinstance(record, Rejected):
                yield record
            else:
                known[record[1]["LabelName"].strip()] = record[1]["DisplayName"].strip()
    seen = GivenIds()
    for file in files_of(path, "open_images_extended_miap_boxes_*.csv"):
        people: dict[str, list[dict[str, Any]]] = {}
        doubtful: set[str] = set()
        yield from _read_boxes(file, people, doubtful)
        objects: dict[str, set[str]] = {}
        if labels is not None:
            yield from _read_labels(existing(labels), people, known, objects)
        split = next((s for part in file.stem.split("_") if (s := split_named(part))), None)
        for image_id, persons in people.items():
            named = objects.get(image_id, set()) if labels is not None else None
            outcome = attempt(f"{file.name} {image_id}", _row, image_id, persons, named, split, pictures, seen=seen)
            if image_id in doubtful and not isinstance(outcome, Rejected):
                outcome |= dict.fromkeys(AXES)  # a box could not be read: the others do not speak for the image
            yield outcome


def _read_boxes(file: Path, people: dict[str, list[dict[str, Any]]], doubtful: set[str]) -> Iterator[Rejected]:
    required = ("ImageID", "XMin", "XMax", "YMin", "YMax", *_PRESENTATION.values())
    for record in csv_records(file, required):
        if isinstance(record, Rejected):
            yield record
            continue
        where, fields = record
        try:
            person = _person(fields, where)
            people.setdefault(_image_id(fields["ImageID"]), []).append(person)
        except RowError as error:
            doubtful.add(fields["ImageID"].strip())
            yield Rejected(where, str(error), brief(fields))


def _image_id(value: str) -> str:
    name = text(value, "ImageID")
    if not re.fullmatch(r"[0-9a-f]{16}", name):
        raise RowError(f"the ImageID is {name[:40]!r}; 16 hexadecimal digits are expected")
    return name


def _person(fields: dict[str, str], where: str) -> dict[str, Any]:
    left, right, top, bottom = (number(fields[name], name, 0, 1) for name in ("XMin", "XMax", "YMin", "YMax"))
    if right < left or bottom < top:
        raise RowError("the box ends before it begins")
    presented = {
        axis: group(fields[column], column, ("unknown",), GROUPS[axis]) for axis, column in _PRESENTATION.items()
    }
    flags = {name: fields[name].strip() == "1" for name in _FLAGS if name in fields}
    return person(
        person_id=where.rpartition(" ")[2],
        box=[left, top, right - left, bottom - top],
        unit="fraction",
        iscrowd=flags.get("IsGroupOf", False),
        attributes=presented | flags,
    )


def _read_labels(
    file: Path, people: dict[str, list[dict[str, Any]]], names: dict[str, str], objects: dict[str, set[str]]
) -> Iterator[Rejected]:
    for record in csv_records(file, ("ImageID", "LabelName", "Confidence")):
        if isinstance(record, Rejected):
            yield record
            continue
        where, fields = record
        if fields["ImageID"] not in people:
            continue  # millions of images are not in MIAP
        try:
            if number(fields["Confidence"], "Confidence", 0, 1) == 1:
                code = text(fields["LabelName"], "LabelName")
                objects.setdefault(fields["ImageID"], set()).add(names.get(code, code))
        except RowError as error:
            yield Rejected(where, str(error), brief(fields))


def _row(
    image_id: str,
    people: list[dict[str, Any]],
    objects: set[str] | None,
    split: str | None,
    pictures: Pictures,
) -> Row:
    attributes = {axis: agreed(p["attributes"][axis] for p in people) for axis in AXES}
    return row(
        image=pictures.any_suffix(image_id),
        image_id=image_id,
        label_source="annotator",
        split=split,
        people=people,
        objects=None if objects is None else sorted(text(name, "class name") for name in objects),
        mixed=[axis for axis in AXES if attributes[axis][1]],
        **{axis: label for axis, (label, _) in attributes.items()},
    )
