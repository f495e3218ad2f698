"""Persons in photographs: which one is meant, and which pixels are theirs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import distance_transform_edt

from equipoise.array_types import Mask
from equipoise.data import masks
from equipoise.data.people import box_in_pixels
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.models.protocols import Outliner

SECOND_OVER = 55_000
"""A second person is drawn anew too if its box has more pixels than this (Hirota et al., EMNLP 2024)."""


def placed_rows(table: Table, columns: Sequence[str]) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """Every row that no filter dropped with its place, shard and row, in order; a missing column is named."""
    if table.kind != "images":
        raise InputError(f"{table.path}: holds {table.kind}, not images; give a table of images")
    for name in columns:
        if name not in table.columns:
            raise UnknownNameError(f"column in {table.path}", name, table.columns)
    hidden = ["keep"] if "keep" in table.columns and "keep" not in columns else []
    for shard in range(len(table.shards)):
        row = 0
        for batch in table.shard_batches(shard, [*columns, *hidden]):
            for cells in batch.to_pylist():
                if "keep" not in cells or cells["keep"]:
                    yield [shard, row], {name: cells[name] for name in columns}
                row += 1


def people_in(people: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The single persons that have a box or a mask; groups drawn as one region are left out."""
    return [dict(p) for p in people if not p.get("iscrowd") and (p.get("box") is not None or p.get("mask") is not None)]


def whole_pixels(box: Sequence[float], width: int, height: int) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of the pixels that a box touches; one of no pixels is refused.

    >>> whole_pixels([10.2, 5.0, 3.5, 2.0], 20, 20)
    (10, 5, 14, 7)
    """
    x, y, w, h = box
    edges = (max(0, math.floor(x)), max(0, math.floor(y)), min(width, math.ceil(x + w)), min(height, math.ceil(y + h)))
    if edges[0] >= edges[2] or edges[1] >= edges[3]:
        raise InputError(f"the person's box {list(box)} holds no pixel of the image ({width} x {height})")
    return edges


def targets(
    people: Sequence[Mapping[str, Any]], width: int, height: int, *, second_over: float = SECOND_OVER
) -> list[dict[str, Any]]:
    """The person with the largest box, and the second if its box has more than ``second_over`` pixels.

    >>> boxes = [{"box": [0, 0, 10, 10]}, {"box": [0, 0, 300, 200]}, {"box": [0, 0, 300, 300]}]
    >>> [person["box"][3] for person in targets(boxes, 640, 480)]
    [300, 200]
    """
    sized = [(box[2] * box[3], dict(p)) for p in people for box in [box_in_pixels(p, width, height)]]
    ordered = sorted(sized, key=lambda pair: -pair[0])  # stable: of two alike the first stays first
    return [p for i, (area, p) in enumerate(ordered[:2]) if i == 0 or area > second_over]


def mask_of(person: Mapping[str, Any], width: int, height: int, by: str = "segment") -> Mask:
    """The person's pixels: from the segment (polygons or run lengths) where there is one, else from the box."""
    if by == "segment" and person.get("mask") is not None:
        return masks.decode(person["mask"], height, width)
    return masks.from_box(box_in_pixels(person, width, height), height, width)


def outlined(box: Sequence[float], image: Image.Image, finder: Any) -> Mask:
    """The outline of what is in ``box`` (x, y, width, height), no pixel outside it.

    ``finder``: a model that outlines boxes (SAM), or a segmenter, whose outline that overlaps the box most is taken.
    Where nothing is outlined, or none overlaps by half, the box itself.
    """
    whole = masks.from_box(box, image.height, image.width)
    if isinstance(finder, Outliner):
        x, y, width, height = box
        inside: Mask = finder.outline(image, [(x, y, x + width, y + height)])[0] & whole
        return inside if inside.any() else whole
    detections = finder.detect([image])[0]
    if detections.masks is None:
        raise InputError(f"{finder.name} gives boxes and no outlines; name a segmenter, or none to take the box")
    best, overlap = whole, 0.5
    for outline in detections.masks:
        shared = np.logical_and(outline, whole).sum() / max(1, np.logical_or(outline, whole).sum())
        if shared > overlap:
            best, overlap = np.logical_and(outline, whole), shared
    return best


def dilated(mask: Mask, radius: float) -> Mask:
    """``mask`` and every pixel within ``radius`` of it.

    >>> dilated(np.array([[False, False, True]]), 1).tolist()
    [[False, True, True]]
    """
    if radius < 0:
        raise InputError(f"dilation={radius}: a number of pixels from 0 up is expected")
    if not radius or not mask.any():
        return mask
    grown: Mask = distance_transform_edt(~mask) <= radius
    return grown


def composited(before: Image.Image, after: Image.Image, mask: Mask) -> Image.Image:
    """``after`` where ``mask`` is true and ``before``, untouched to the bit, elsewhere."""
    if after.size != before.size:
        after = after.resize(before.size, Image.Resampling.LANCZOS)
    pixels = np.where(mask[:, :, None], np.asarray(after.convert("RGB")), np.asarray(before.convert("RGB")))
    return Image.fromarray(np.ascontiguousarray(pixels))
