"""PHASE (Garcia et al., CVPR 2023): perceived attributes of people in Conceptual Captions images.

Files: ``phase_gcc_{train,val}_regions_20221101.json`` (one label per region after the authors' vote) or
``phase_gcc_{train,val}_all_20221101.json`` (three annotators per region; the vote is taken here, two of three). A file
is an object from image name to ``{"caption": ..., "person1": {"region": [...], "annotations": ...}, ...}``; the
annotations have the keys ``age``, ``gender``, ``skintone``, ``ethnicity``, ``emotion``, ``activity`` (and ``worker``
in the file of all). The keys are those that public code reads; the file itself could not be seen here. ``region`` is
taken as left, top, right, bottom, because public code crops with it so.

The authors label regions, not images. Here an image has a label only if all its annotated regions have it; where two
regions differ it has none and the axis is noted in ``mixed``. "unsure" and "disagreement" are no label.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from equipoise.data.people import agreed, person
from equipoise.data.readers.files import existing, files_of, read_json
from equipoise.data.readers.files.records import split_named
from equipoise.data.readers.files.values import (
    GivenIds,
    Pictures,
    RowError,
    attempt,
    group,
    mapping,
    number,
    optional_text,
    row,
    text,
)
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

KEYS = {
    "gender": "gender",
    "race": "ethnicity",
    "age": "age",
    "skin_tone": "skintone",
    "emotion": "emotion",
    "activity": "activity",
}
"""Our name of an attribute, and the file's."""

GROUPS = {
    "gender": ("female", "male"),
    "race": (
        "black",
        "east asian",
        "indian",
        "latino",
        "middle eastern",
        "other",
        "southeast asian",
        "white",
    ),
    "age": ("adult", "baby", "child", "senior", "young"),
    "skin_tone": ("darker", "lighter"),
}
UNDEFINED = ("unsure", "disagreement", "none")


def read(path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> Iterator[Row | Rejected]:
    """One row per image.

    ``path``: an annotation file, or a folder with some (the region files are preferred). ``images``: the folder of
    the images; by default ``images/<split>`` or ``<split>`` beside the file or one above, if it is there.
    """
    start = existing(path)
    if start.is_dir() and any(start.glob("phase_gcc_*_regions_*.json")):
        files = files_of(start, "phase_gcc_*_regions_*.json")
    else:
        files = files_of(start, "phase_gcc_*_all_*.json")
    seen = GivenIds()
    for file in files:
        split = next((s for part in file.stem.split("_") if (s := split_named(part))), None)
        document = read_json(file)
        if not isinstance(document, dict):
            raise InputError(f"{file} is not a PHASE file; a JSON object from image to annotations is expected")
        folders = (f"images/{split}", "phase_images", split) if split else ()
        pictures = Pictures.at(images, *(root / name for root in (file.parent, file.parent.parent) for name in folders))
        for name, entry in document.items():
            shown = name[:60].encode("utf-8", "replace").decode()
            yield attempt(f"{file.name} {shown}", _row, name, entry, split, pictures, seen=seen)


def _row(name: str, entry: Any, split: str | None, pictures: Pictures) -> Row:
    name = text(name, "image name")
    entry = mapping(entry, "entry")
    caption = optional_text(entry.get("caption"), "caption")
    people = [_person(key, value) for key, value in entry.items() if key.startswith("person")]
    labels = {ours: agreed((p["attributes"] or {}).get(ours) for p in people) for ours in KEYS}
    return row(
        image=pictures.any_suffix(name),
        image_id=name,
        captions=[caption] if caption else [],
        label_source="annotator",
        split=split,
        people=people,
        mixed=[ours for ours in KEYS if labels[ours][1]],
        **{ours: label for ours, (label, _) in labels.items()},
    )


def _person(key: str, value: Any) -> dict[str, Any]:
    value = mapping(value, key)
    region = value.get("region")
    if not isinstance(region, list) or len(region) != 4:
        raise RowError(f"the region of {key} is not four numbers")
    left, top, right, bottom = (number(v, f"region of {key}") for v in region)
    if right < left or bottom < top:
        raise RowError(f"the region of {key} is {region}; left, top, right, bottom are expected")
    votes = value.get("annotations")
    answers = votes if isinstance(votes, list) else [votes]
    labels = {ours: _voted([_answer(answer, ours, key) for answer in answers]) for ours in KEYS}
    return person(person_id=text(key, "key"), box=[left, top, right - left, bottom - top], attributes=labels)


def _answer(answer: Any, ours: str, key: str) -> str | None:
    said = mapping(answer, f"annotation of {key}").get(KEYS[ours])
    plain = said.replace("_", " ") if isinstance(said, str) else said
    return group(plain, KEYS[ours], UNDEFINED, GROUPS.get(ours))


def _voted(answers: list[str | None]) -> str | None:
    """What more than half of the annotators say; None if no label has so many.

    >>> _voted(["young", "adult", "young"]), _voted(["young", "adult", None])
    ('young', None)
    """
    if not answers:
        return None
    label, votes = Counter(answers).most_common(1)[0]
    return label if 2 * votes > len(answers) else None
