"""Masks: hand-worked cases, round trips, brute force, and COCO's own annotations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from equipoise.data import masks
from equipoise.errors import InputError

PHOTOS = Path(__file__).parents[3] / "shared" / "data" / "photos"
small_masks = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=12))


def test_run_lengths_go_down_the_columns_and_begin_with_off() -> None:
    mask = masks.decode({"size": [3, 2], "counts": [0, 1, 3, 2]}, 3, 2)
    assert mask.astype(int).tolist() == [[1, 0], [0, 1], [0, 1]]
    assert masks.counts_of(masks.encode(mask)) == [0, 1, 3, 2]


def test_compressed_run_lengths_by_hand() -> None:
    # 40 = 0b101000: low five bits 01000 with "more" (48+8+32='X'), then 00001 (49='1')
    assert masks.compress_counts([40]) == "X1"
    # from the fourth count on, the difference to the count two before: 3-2=1, then 1-3=-2 (0b11110 -> 48+30='N')
    assert masks.compress_counts([1, 2, 3, 3, 1]) == "1231N"
    assert masks.decompress_counts("1231N") == [1, 2, 3, 3, 1]


@given(st.lists(st.integers(0, 2**31), max_size=30))
def test_compressed_run_lengths_come_back(counts: list[int]) -> None:
    assert masks.decompress_counts(masks.compress_counts(counts)) == counts


@given(small_masks)
@settings(deadline=None)
def test_a_mask_comes_back_from_its_run_lengths(mask: np.ndarray) -> None:
    height, width = mask.shape
    encoded = json.loads(json.dumps(masks.encode(mask)))
    masks.check(encoded)
    assert (masks.decode(encoded, height, width) == mask).all()
    plain = {"size": [height, width], "counts": masks.counts_of(encoded)}
    assert (masks.decode(plain, height, width) == mask).all()


@given(small_masks)
@settings(deadline=None)
def test_the_box_is_the_smallest_that_holds_the_mask(mask: np.ndarray) -> None:
    box = masks.to_box(mask)
    inside = masks.from_box(box, *mask.shape)
    assert not (mask & ~inside).any()
    if mask.any():
        rows, columns = np.nonzero(mask)
        assert box == [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]


@given(st.lists(st.tuples(st.floats(-3, 15), st.floats(-3, 15)), min_size=3, max_size=7))
@settings(deadline=None)
def test_a_polygon_holds_the_pixels_whose_centre_is_inside(points: list[tuple[float, float]]) -> None:
    ring = [v for point in points for v in point]
    found = masks.decode([ring], 10, 12)
    for row in range(10):
        for column in range(12):
            x, y = column + 0.5, row + 0.5
            crossings = 0
            edge_is_near = False
            for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
                if (y0 <= y) != (y1 <= y):
                    at = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
                    crossings += at > x
                    edge_is_near |= abs(at - x) < 1e-9
            if not edge_is_near:
                assert found[row, column] == (crossings % 2 == 1)


def test_rings_are_joined_and_a_box_polygon_is_a_box() -> None:
    two = masks.decode([[0, 0, 2, 0, 2, 2, 0, 2], [1, 1, 4, 1, 4, 3, 1, 3]], 4, 5)
    assert (two == (masks.from_box([0, 0, 2, 2], 4, 5) | masks.from_box([1, 1, 3, 2], 4, 5))).all()


@pytest.mark.parametrize(
    ("segmentation", "reason"),
    [
        (None, "a list of polygons or run lengths"),
        ("abc", "a list of polygons or run lengths"),
        ([[1, 2, 3, 4]], "at least three corners"),
        ([[1, 2, 3, 4, 5, float("nan")]], "a list of numbers"),
        ([[1, 2, 3, 4, 5, 1e300]], "a list of numbers"),
        ([[1, 2, 3, 4, 5, True]], "a list of numbers"),
        ([1, 2, 3], "a list of numbers"),
        ({"counts": [4]}, "[height, width] is expected"),
        ({"size": [2, 2], "counts": [3]}, "add up to 3"),
        ({"size": [2, 2], "counts": [5, -1]}, "whole numbers from 0 up"),
        ({"size": [2, 2], "counts": [2.0, 2]}, "whole numbers from 0 up"),
        ({"size": [2, 2], "counts": 4}, "a list or a text"),
        ({"size": [2, 2], "counts": "\x00"}, "damaged"),
        ({"size": [2, 2], "counts": "X"}, "in the middle of a number"),
        ({"size": [2, 2], "counts": "O"}, "negative"),
        ({"size": [2, 2], "counts": "o" * 50}, "damaged"),
        ({"size": [10**9, 10**9], "counts": [1]}, "larger than the limit"),
        ({"size": [-1, 2], "counts": [1]}, "from 0 up"),
        ({"size": [2, 2], "counts": [10**400]}, "add up"),
    ],
)
def test_what_is_no_mask_is_refused(segmentation: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason.replace("[", r"\[").replace("]", r"\]")):
        masks.check(segmentation)


def test_a_mask_of_another_size_than_the_image_is_refused() -> None:
    with pytest.raises(InputError, match="2 x 2 pixels but the image is 3 x 2"):
        masks.decode({"size": [2, 2], "counts": [4]}, 3, 2)


@pytest.mark.skipif(not PHOTOS.exists(), reason="the COCO photographs are not here")
@pytest.mark.parametrize("split", [pytest.param("train2017", marks=pytest.mark.slow), "val2017"])
def test_on_cocos_own_annotations(split: str) -> None:
    document = json.loads((PHOTOS / "annotations" / f"instances_{split}.json").read_text())
    sizes = {image["id"]: (image["height"], image["width"]) for image in document["images"]}
    difference = total = crowds = 0.0
    annotations = document["annotations"]
    if split == "val2017":  # a third of them in the default suite, and every crowd
        annotations = [one for i, one in enumerate(annotations) if i % 3 == 0 or one["iscrowd"]]
    for annotation in annotations:
        if annotation["image_id"] not in sizes:
            continue
        mask = masks.decode(annotation["segmentation"], *sizes[annotation["image_id"]])
        assert (masks.decode(masks.encode(mask), *mask.shape) == mask).all()
        if annotation["iscrowd"]:
            x, y, width, height = masks.to_box(mask)
            assert [x, y, width - 1, height - 1] == annotation["bbox"]  # COCO's crowd boxes leave out the last pixel
            assert mask.sum() <= annotation["area"]  # and their areas count holes
            crowds += 1
        else:
            difference += abs(mask.sum() - annotation["area"])
            total += annotation["area"]
    assert crowds >= 1
    assert difference / total < 0.001  # COCO's areas are those of the polygons, not of pixels
