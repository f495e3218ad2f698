"""People in an image, one form for all datasets, and the label of an image from the labels of its people.

The column ``people`` is JSON: a list of objects, always with these fields (null where a dataset says nothing):

- ``person_id``: the annotation's id, as text;
- ``box``: ``[x, y, width, height]``; ``unit`` says in what: ``"pixel"`` or ``"fraction"`` of the image's size;
- ``mask``: what COCO calls a segmentation (:func:`equipoise.data.masks.decode` draws it); ``area`` in pixels;
- ``iscrowd``: the region is a group of people drawn as one;
- ``keypoints``: ``x, y, visibility`` for each of COCO's 17 points;
- ``parts``: the boxes of body parts by name;
- ``attributes``: the labels of this person by axis, as the dataset spells them.

The column ``objects`` is the list of distinct category names in the image, sorted; ``object_boxes`` (JSON), where a
dataset says it, is a list of ``{name, box, mask, iscrowd}`` of everything that is no person, boxes in pixels;
``mixed`` is the list of axes on which the people of the image differ, so that the image has no label there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from equipoise.data import masks
from equipoise.errors import InputError

PEOPLE_COLUMNS = {"people": "json", "objects": "list<string>", "mixed": "list<string>"}
"""Columns that readers of annotated people add to a table, with their types."""


def person(
    *,
    person_id: str | None = None,
    box: Sequence[float] | None = None,
    unit: str = "pixel",
    mask: Any = None,
    area: float | None = None,
    iscrowd: bool = False,
    keypoints: Sequence[float] | None = None,
    parts: Mapping[str, Sequence[float]] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One person with all the fields of the column ``people``; a mask of no known form is an InputError.

    >>> sorted(name for name, value in person(box=[0, 0, 2, 3]).items() if value)
    ['box', 'unit']
    """
    if mask is not None and mask != []:
        masks.check(mask)
    return {
        "person_id": person_id,
        "box": None if box is None else [float(v) for v in box],
        "unit": unit,
        "mask": mask or None,
        "area": area,
        "iscrowd": iscrowd,
        "keypoints": None if keypoints is None else [float(v) for v in keypoints],
        "parts": {name: [float(v) for v in part] for name, part in parts.items()} if parts else None,
        "attributes": dict(attributes) if attributes else None,
    }


def people_of(cell: str | None) -> list[dict[str, Any]]:
    """The people in a cell of the column ``people``, as a table keeps it.

    >>> people_of('[{"box": [0, 0, 2, 3], "iscrowd": false}]')[0]["box"]
    [0, 0, 2, 3]
    """
    if cell is None:
        return []
    try:
        people = json.loads(cell)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"the column 'people' is not JSON: {str(cell)[:60]!r}") from error
    if not isinstance(people, list) or not all(isinstance(p, dict) for p in people):
        raise InputError(f"the column 'people' holds {str(cell)[:60]!r}; a list of objects is expected")
    return people


def box_in_pixels(person: Mapping[str, Any], width: int, height: int) -> list[float]:
    """``[x, y, width, height]`` in pixels, from the box or else from the mask.

    >>> box_in_pixels({"box": [0.5, 0, 0.25, 1], "unit": "fraction"}, 200, 100)
    [100.0, 0.0, 50.0, 100.0]
    """
    box = person.get("box")
    if box is None:
        return masks.to_box(masks.decode(person["mask"], height, width))
    if person.get("unit", "pixel") == "fraction":
        return [float(v * s) for v, s in zip(box, (width, height, width, height), strict=True)]
    return [float(v) for v in box]


def agreed(labels: Iterable[str | None]) -> tuple[str | None, bool]:
    """The label of an image from those of its people, and whether they differ (*mixed*).

    The image has a label only if every person has it: one person without a label leaves the image without one, and
    two different labels make it mixed.

    >>> agreed(["female", "female"]), agreed(["female", None]), agreed(["female", "male"]), agreed([])
    (('female', False), (None, False), (None, True), (None, False))
    """
    values = list(labels)
    distinct = {label for label in values if label is not None}
    if len(distinct) > 1:
        return None, True
    return (values[0] if distinct and None not in values else None), False
