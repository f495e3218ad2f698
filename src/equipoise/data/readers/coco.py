"""COCO, 2014 and 2017: captions, instances (boxes, polygons, run lengths) and person keypoints.

Layout: ``annotations/captions_<split>.json``, ``annotations/instances_<split>.json``,
``annotations/person_keypoints_<split>.json`` and the images in ``<split>/``, where ``<split>`` is ``train2014``,
``val2014``, ``train2017`` or ``val2017``. Keys used: ``images[].id, file_name, height, width``;
``annotations[].image_id, id`` with ``caption``, or with ``category_id, bbox, segmentation, area, iscrowd`` and
``keypoints``; ``categories[].id, name``. The format is that of https://cocodataset.org/#format-data.

The ids of 2014 and 2017 are the same images in other splits: the column ``release`` says which.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.data import masks
from equipoise.data.people import person
from equipoise.data.readers.files import existing, read_json
from equipoise.data.readers.files.values import (
    Pictures,
    RowError,
    attempt,
    box,
    brief,
    identifier,
    mapping,
    number,
    row,
    text,
)
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

PARTS = ("captions", "instances", "person_keypoints")


def read(
    path: str | os.PathLike[str],
    *,
    split: str | None = None,
    parts: Sequence[str] = ("captions", "instances"),
    images: str | os.PathLike[str] | None = None,
) -> Iterator[Row | Rejected]:
    """One row per image, with its captions, its people, the names of the objects in it, and where those are.

    ``path``: the folder that holds ``annotations/``, or one annotation file. ``split``: for example ``"val2017"``;
    needed when the folder has several. ``parts``: which files to join; ``"person_keypoints"`` adds keypoints.
    ``images``: the folder of the images, by default ``<path>/<split>``; where there is none the rows have no image.
    """
    start = existing(path)
    files, name = ([start], split or split_of(start.name)) if start.is_file() else _files(start, split, parts)
    root = start if start.is_dir() else start.parent
    pictures = Pictures.at(images, *((root / name, root.parent / name) if name else ()))
    gathered = Gathered()
    for file in files:
        yield from gather(file, gathered)
    yield from rows(gathered, pictures, name)


@dataclass
class Annotated:
    """What the annotation files say about one image."""

    file_name: str
    height: int | None = None
    width: int | None = None
    captions: list[str] = field(default_factory=list)
    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)
    things: list[str] = field(default_factory=list)
    """JSON of each object that is no person; as text, for a whole split of outlines would fill the memory."""


@dataclass
class Gathered:
    """Images by id, and whether a file that tells of people and objects was among the files read."""

    images: dict[str, Annotated] = field(default_factory=dict)
    has_instances: bool = False


def gather(file: Path, gathered: Gathered) -> Iterator[Rejected]:
    """Add the images and annotations of one file to ``gathered``; yield what cannot be used."""
    yield from gather_document(read_json(file), file, gathered)


def gather_document(document: Any, file: Path, gathered: Gathered) -> Iterator[Rejected]:
    """The same for JSON that was read from ``file`` already."""
    if not isinstance(document, dict) or not isinstance(document.get("images"), list):
        raise InputError(f"{file} is not a COCO annotation file; a JSON object with a list 'images' is expected")
    if not isinstance(document.get("annotations", []), list):
        raise InputError(f"{file} has 'annotations' that are not a list; it is not a COCO annotation file")
    in_this_file: set[str] = set()
    for i, entry in enumerate(document["images"]):
        try:
            _add_image(entry, gathered.images, in_this_file)
        except RowError as error:
            yield Rejected(f"{file.name} images[{i}]", str(error), _shown(entry))
    categories = _categories(document.get("categories"))
    gathered.has_instances |= "categories" in document
    for i, entry in enumerate(document.get("annotations", [])):
        try:
            _add_annotation(entry, gathered.images, categories)
        except (RowError, InputError) as error:
            yield Rejected(f"{file.name} annotations[{i}]", str(error), _shown(entry))


def rows(gathered: Gathered, pictures: Pictures, split: str | None) -> Iterator[Row | Rejected]:
    """The rows of gathered images, in the order of the files."""
    release, part = _release_and_part(split)

    def row_of(image_id: str, image: Annotated) -> Row:
        return row(
            image=pictures.cell(image.file_name),
            image_id=image_id,
            captions=image.captions,
            people=list(image.people.values()) if gathered.has_instances else None,
            objects=sorted(image.objects) if gathered.has_instances else None,
            object_boxes=f"[{', '.join(image.things)}]" if gathered.has_instances else None,
            height=image.height,
            width=image.width,
            release=release,
            split=part,
        )

    for image_id, image in gathered.images.items():
        yield attempt(f"image {image_id}", row_of, image_id, image, shown={"image_id": image_id})


def split_of(name: str) -> str | None:
    """The split that a file name speaks of.

    >>> split_of("captions_val2017.json"), split_of("mine.json")
    ('val2017', None)
    """
    match = re.search(r"(train|val|test)(2014|2015|2017)", name)
    return match[0] if match else None


def _files(folder: Path, split: str | None, parts: Sequence[str]) -> tuple[list[Path], str]:
    if isinstance(parts, str):
        parts = [part.strip() for part in parts.split(",")]
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise InputError(f"parts={list(parts)!r}: the parts of COCO are {', '.join(PARTS)}")
    annotations = folder / "annotations" if (folder / "annotations").is_dir() else folder
    there = [p for part in parts for p in sorted(annotations.glob(f"{part}_*.json"))]
    splits = sorted({s for p in there if (s := split_of(p.name))})
    if not there:
        expected = f"{parts[0]}_{split or 'val2017'}.json"
        raise InputError(
            f"{annotations} has no annotation files; files such as {expected} are expected there or in annotations/"
        )
    if split is None:
        if not splits:
            raise InputError(
                f"{annotations} has annotation files whose names tell no split (such as {there[0].name!r}); "
                "give one of the files instead of the folder"
            )
        with_images = [s for s in splits if any((f / s).is_dir() for f in (folder, annotations.parent))]
        known = splits if len(splits) == 1 else with_images
        if len(known) != 1:
            raise InputError(
                f"{annotations} has annotations of {', '.join(splits)}; say which with --option split={splits[-1]} "
                f"(in Python split={splits[-1]!r})"
            )
        split = known[0]
    files = [p for part in parts if (p := annotations / f"{part}_{split}.json").is_file()]
    if not files:
        raise InputError(f"{annotations} has no {' or '.join(parts)} of split {split!r}; it has: {', '.join(splits)}")
    return files, split


def _release_and_part(split: str | None) -> tuple[str | None, str | None]:
    part = split_of(split or "")
    return (part[-4:], part[:-4]) if part else (None, split)


def _add_image(entry: Any, images: dict[str, Annotated], in_this_file: set[str]) -> None:
    entry = mapping(entry, "image")
    image_id = identifier(entry.get("id"), "image id")
    if image_id in in_this_file:
        raise RowError(f"the image id {image_id!r} was given before; the first stays")
    file_name = text(entry.get("file_name"), "file name")
    height, width = _whole(entry.get("height"), "height"), _whole(entry.get("width"), "width")
    in_this_file.add(image_id)
    known = images.setdefault(image_id, Annotated(file_name, height, width))
    if known.file_name != file_name:
        raise RowError(f"image {image_id} is {known.file_name!r} in one annotation file and {file_name!r} in another")


def _add_annotation(entry: Any, images: dict[str, Annotated], categories: dict[str, str]) -> None:
    entry = mapping(entry, "annotation")
    image_id = identifier(entry.get("image_id"), "image id")
    if image_id not in images:
        raise RowError(f"it belongs to image {image_id!r}, which is not among the images")
    image = images[image_id]
    if "caption" in entry:
        image.captions.append(text(entry["caption"], "caption"))
        return
    category = identifier(entry.get("category_id"), "category id")
    if category not in categories:
        raise RowError(f"category {category!r} is not among the categories")
    if categories[category] == "person":
        _add_person(entry, image)
    else:
        image.things.append(json.dumps(_thing(entry, categories[category])))
    image.objects.add(categories[category])


def _thing(entry: dict[str, Any], name: str) -> dict[str, Any]:
    """An object with its box and outline; see :mod:`equipoise.data.people`."""
    outline = entry.get("segmentation") or None
    if outline is not None:
        masks.check(outline)
    where = None if entry.get("bbox") is None else box(entry["bbox"])
    return {"name": name, "box": where, "mask": outline, "iscrowd": _is_crowd(entry)}


def _add_person(entry: dict[str, Any], image: Annotated) -> None:
    person_id = identifier(entry.get("id"), "annotation id")
    keypoints = keypoints_of(entry.get("keypoints"), "keypoints")
    known = image.people.get(person_id)
    if known is not None:
        if keypoints is None or known["keypoints"] is not None:
            raise RowError(f"the annotation id {person_id!r} was given before; the first stays")
        known["keypoints"] = keypoints  # the same person, from the keypoint file
        return
    image.people[person_id] = person(
        person_id=person_id,
        box=box(entry.get("bbox")),
        mask=entry.get("segmentation"),
        area=None if entry.get("area") is None else number(entry["area"], "area", 0),
        iscrowd=_is_crowd(entry),
        keypoints=keypoints,
    )


def _is_crowd(entry: dict[str, Any]) -> bool:
    crowd = entry.get("iscrowd", 0)
    if crowd not in (0, 1):
        raise RowError(f"iscrowd is {str(crowd)[:40]!r}; 0 or 1 is expected")
    return bool(crowd)


def keypoints_of(value: Any, name: str) -> list[float] | None:
    """Keypoints ``x, y, v, x, y, v, ...`` as numbers; None for none."""
    if value is None or value == []:
        return None
    if not isinstance(value, list) or len(value) % 3:
        raise RowError(f"the {name} are not triples x, y, visibility")
    return [number(v, name) for v in value]


def _categories(entries: Any) -> dict[str, str]:
    """Names by id; what is not a category is left out, so that its annotations are rejected."""
    names: dict[str, str] = {}
    for entry in entries if isinstance(entries, list) else []:
        try:
            names[identifier(entry["id"])] = text(entry["name"], "category name")
        except (RowError, TypeError, KeyError):
            continue
    return names


def _whole(value: Any, name: str) -> int | None:
    if value is None:
        return None
    checked = number(value, name, 0, 2**31)
    if checked != int(checked):
        raise RowError(f"the {name} is {value!r}; a whole number is expected")
    return int(checked)


def _shown(entry: Any) -> dict[str, str]:
    return brief(entry) if isinstance(entry, dict) else brief({"entry": str(type(entry).__name__)})
