"""Where a person is, as COCO writes it: polygons, run lengths (plain and compressed) and boxes, to and from masks.

A *mask* is a boolean array of shape (height, width). COCO stores one of three forms:

- **polygons**: ``[[x0, y0, x1, y1, ...], ...]`` in pixels, the corner of the image at (0, 0);
- **run lengths**: ``{"size": [height, width], "counts": [n0, n1, ...]}``: how many pixels are off, then on,
  then off, ..., going down the columns from left to right;
- **compressed run lengths**: the same, with ``counts`` packed into printable characters.

A table keeps any of them in the JSON of its column ``people`` (:mod:`equipoise.data.people`).

>>> mask = decode({"size": [2, 3], "counts": [2, 2, 2]}, 2, 3)
>>> mask.astype(int).tolist()
[[0, 1, 0], [0, 1, 0]]
>>> encode(mask)
{'size': [2, 3], 'counts': '222'}
>>> to_box(mask)
[1.0, 0.0, 1.0, 2.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Mask
from equipoise.errors import InputError

MAX_PIXELS = 2**28
"""A mask with more pixels is refused: a size in a broken file must not take all memory."""

_BITS = 5  # bits of a count that one character carries
_MORE = 0x20  # set when more characters of the same count follow
_FIRST = 48  # the character for zero, "0"


def decode(segmentation: Any, height: int, width: int) -> Mask:
    """The mask of a COCO ``segmentation``: polygons, plain or compressed run lengths.

    A pixel belongs to a polygon if its centre lies inside it (even-odd within one ring, union over rings). The
    COCO tools draw the outline too, so their masks can differ in pixels on the edge.

    >>> decode([[1, 0, 3, 0, 3, 2, 1, 2]], 2, 4).astype(int).tolist()
    [[0, 1, 1, 0], [0, 1, 1, 0]]
    """
    _check_size(height, width)
    if isinstance(segmentation, dict):
        return _mask_of_counts(counts_of(segmentation), *_size_of(segmentation, height, width))
    mask = np.zeros((height, width), dtype=np.bool_)
    for ring in _rings_of(segmentation):
        mask |= _fill(ring, height, width)
    return mask


def encode(mask: Mask) -> dict[str, Any]:
    """The compressed run lengths of ``mask`` (height, width), as a dict that can be written as JSON.

    >>> encode(np.array([[True, False], [True, True]]))
    {'size': [2, 2], 'counts': '021O'}
    """
    array = _as_mask(mask)
    return {"size": [array.shape[0], array.shape[1]], "counts": compress_counts(_counts_of_mask(array))}


def check(segmentation: Any) -> None:
    """Raise InputError unless ``segmentation`` has one of the three forms; no pixel is drawn.

    >>> check([[0, 0, 1]])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: a polygon has 3 numbers; it needs pairs x, y of at least three corners
    """
    if isinstance(segmentation, dict):
        counts = counts_of(segmentation)
        height, width = _size_of(segmentation, None, None)
        if sum(counts) != height * width:
            raise InputError(
                f"the run lengths of a mask add up to {sum(counts)} but its size is {height} x {width} pixels"
            )
    else:
        _rings_of(segmentation)


def counts_of(segmentation: dict[str, Any]) -> list[int]:
    """The plain run lengths of a run-length mask, unpacked if they are compressed.

    >>> counts_of({"size": [2, 3], "counts": "222"})
    [2, 2, 2]
    """
    counts = segmentation.get("counts")
    if isinstance(counts, (str, bytes)):
        return decompress_counts(counts)
    if not isinstance(counts, list):
        raise InputError(f"a run-length mask has counts {_shown(counts)}; a list or a text is expected")
    for n in counts:
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise InputError(f"a run-length mask has the count {str(n)[:40]!r}; counts are whole numbers from 0 up")
    return list(counts)


def decompress_counts(text: str | bytes) -> list[int]:
    """Unpack compressed run lengths: five bits per character, low bits first, from the third on as differences.

    >>> decompress_counts("0211")
    [0, 2, 1, 3]
    """
    data = text.encode("ascii", "replace") if isinstance(text, str) else text
    counts: list[int] = []
    value = shift = 0
    for byte in data:
        chunk = byte - _FIRST
        if not 0 <= chunk < 64 or shift > 60:
            raise InputError(f"compressed run lengths cannot be read at {data[:40]!r}; the mask is damaged")
        value |= (chunk & 0x1F) << shift
        shift += _BITS
        if chunk & _MORE:
            continue
        if chunk & 0x10:
            value -= 1 << shift
        if len(counts) > 2:
            value += counts[-2]
        if value < 0:
            raise InputError("compressed run lengths hold a negative count; the mask is damaged")
        counts.append(value)
        value = shift = 0
    if shift:
        raise InputError("compressed run lengths end in the middle of a number; the mask is damaged")
    return counts


def compress_counts(counts: Sequence[int]) -> str:
    """Pack run lengths as COCO does; the inverse of :func:`decompress_counts`.

    >>> compress_counts([0, 2, 1, 3])
    '0211'
    """
    characters: list[str] = []
    for i, count in enumerate(counts):
        value = int(count) - (int(counts[i - 2]) if i > 2 else 0)
        while True:
            chunk = value & 0x1F
            value >>= _BITS
            done = value == (-1 if chunk & 0x10 else 0)
            characters.append(chr(_FIRST + (chunk if done else chunk | _MORE)))
            if done:
                break
    return "".join(characters)


def to_box(mask: Mask) -> list[float]:
    """The smallest box ``[x, y, width, height]`` that holds every pixel of the mask; all 0 for an empty mask.

    >>> to_box(np.zeros((2, 2), bool))
    [0.0, 0.0, 0.0, 0.0]
    """
    array = _as_mask(mask)
    rows, columns = np.flatnonzero(array.any(axis=1)), np.flatnonzero(array.any(axis=0))
    if not rows.size:
        return [0.0, 0.0, 0.0, 0.0]
    left, top = float(columns[0]), float(rows[0])
    return [left, top, float(columns[-1]) + 1.0 - left, float(rows[-1]) + 1.0 - top]


def from_box(box: Sequence[float], height: int, width: int) -> Mask:
    """The mask of a box ``[x, y, width, height]``: every pixel whose centre lies inside it.

    >>> from_box([0.5, 0, 1, 1], 1, 3).astype(int).tolist()
    [[1, 0, 0]]
    """
    _check_size(height, width)
    if len(box) != 4 or not all(isinstance(v, (int, float)) and math.isfinite(v) for v in box):
        raise InputError(f"the box {list(box)!r} is not [x, y, width, height] in numbers")
    x, y, w, h = (float(v) for v in box)
    mask = np.zeros((height, width), dtype=np.bool_)
    top, bottom = _pixels_between(y, y + h, height)
    left, right = _pixels_between(x, x + w, width)
    mask[top:bottom, left:right] = True
    return mask


def _as_mask(mask: Any) -> Mask:
    array = np.asarray(mask)
    if array.ndim != 2 or array.dtype != np.bool_:
        raise InputError(f"a mask is a 2-d array of bool; this one has shape {array.shape} and type {array.dtype}")
    return array


def _check_size(height: Any, width: Any) -> None:
    for name, value in (("height", height), ("width", width)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise InputError(f"the {name} of a mask is {_shown(value)}; a whole number from 0 up is expected")
    if int(height) * int(width) > MAX_PIXELS:
        raise InputError(f"a mask of {height} x {width} pixels is larger than the limit of {MAX_PIXELS} pixels")


def _size_of(segmentation: dict[str, Any], height: int | None, width: int | None) -> tuple[int, int]:
    size = segmentation.get("size")
    if not isinstance(size, list) or len(size) != 2:
        raise InputError(f"a run-length mask has the size {_shown(size)}; [height, width] is expected")
    _check_size(*size)
    if height is not None and width is not None and (size[0], size[1]) != (height, width):
        raise InputError(f"a run-length mask is {size[0]} x {size[1]} pixels but the image is {height} x {width}")
    return size[0], size[1]


def _mask_of_counts(counts: Sequence[int], height: int, width: int) -> Mask:
    if sum(counts) != height * width:
        raise InputError(f"the run lengths of a mask add up to {sum(counts)} but its size is {height} x {width} pixels")
    on = np.arange(len(counts)) % 2 == 1
    return np.repeat(on, np.asarray(counts, dtype=np.int64)).reshape(width, height).T


def _counts_of_mask(mask: Mask) -> list[int]:
    flat = mask.T.reshape(-1)
    if not flat.size:
        return [0]
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate(([0], changes, [flat.size]))
    counts: list[int] = np.diff(edges).tolist()
    return [0, *counts] if flat[0] else counts


def _rings_of(segmentation: Any) -> list[NDArray[np.float64]]:
    if not isinstance(segmentation, list):
        raise InputError(f"a mask is {_shown(segmentation)}; a list of polygons or run lengths are expected")
    rings = []
    for ring in segmentation:
        if not isinstance(ring, list) or not all(_is_coordinate(v) for v in ring):
            raise InputError(f"a polygon is {_shown(ring)}; a list of numbers x0, y0, x1, y1, ... is expected")
        if len(ring) < 6 or len(ring) % 2:
            raise InputError(f"a polygon has {len(ring)} numbers; it needs pairs x, y of at least three corners")
        rings.append(np.asarray(ring, dtype=np.float64).reshape(-1, 2))
    return rings


def _is_coordinate(value: Any) -> bool:
    # 1e7: far beyond any image, and small enough that the arithmetic of the fill stays exact to a pixel
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e7


def _pixels_between(start: float, stop: float, limit: int) -> tuple[int, int]:
    """The half-open range of pixels whose centres lie in [start, stop)."""
    first = min(max(math.ceil(start - 0.5), 0), limit)
    return first, max(first, min(math.ceil(stop - 0.5), limit))


def _fill(ring: NDArray[np.float64], height: int, width: int) -> Mask:
    """Even-odd fill: each edge flips every pixel to its right in the rows it crosses."""
    flips = np.zeros((height, width + 1), dtype=np.int32)
    for (x0, y0), (x1, y1) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
        if y0 > y1:
            x0, y0, x1, y1 = x1, y1, x0, y0
        top, bottom = _pixels_between(y0, y1, height)
        if top == bottom:
            continue
        rows = np.arange(top, bottom)
        crossing = x0 + (rows + 0.5 - y0) * (x1 - x0) / (y1 - y0)
        columns = np.clip(np.ceil(crossing - 0.5), 0, width).astype(np.int64)
        flips[rows, columns] += 1
    inside: Mask = np.cumsum(flips[:, :width], axis=1) % 2 == 1
    return inside


def _shown(value: Any) -> str:
    try:
        return repr(value)[:40].encode("utf-8", "replace").decode()
    except ValueError:  # an int of more digits than Python prints
        return "a very long number"
