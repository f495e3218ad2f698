"""Helpers of the data room's tests."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image


def png_of(colour: tuple[int, int, int] = (10, 20, 30), size: tuple[int, int] = (4, 3)) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size, colour).save(target, format="PNG")
    return target.getvalue()


def rows_of(n: int, *, start: int = 0, images: bool = True) -> list[dict[str, Any]]:
    """Rows that differ in every column; every third has no gender."""
    return [
        {
            "image": png_of((i % 256, i // 256 % 256, 7)) if images else None,
            "image_id": f"img-{i:05d}",
            "set_id": f"set-{i // 4}",
            "caption": f"a photo of person {i}",
            "captions": [f"a photo of person {i}", "someone"],
            "subject": ("doctor", "nurse")[i % 2],
            "gender": (None, "female", "male")[i % 3],
            "label_source": "prompt",
            "params": {"steps": i},
            "seed": i,
        }
        for i in range(start, start + n)
    ]


@pytest.fixture
def make_png() -> Callable[..., bytes]:
    return png_of


@pytest.fixture
def make_rows() -> Callable[..., list[dict[str, Any]]]:
    return rows_of


@pytest.fixture
def people(tmp_path: Path) -> Any:
    """A table of 25 images in three shards."""
    from equipoise.data import Table

    return Table.create(tmp_path / "people", rows_of(25), axes=["gender"], rows_per_shard=10)
