"""What the tests of readers share: run a reader and check every row against the table it would make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equipoise.data.arrays import checked_row
from equipoise.data.readers import read, shape_of
from equipoise.data.schema import Rejected, schema_for

Collect = Callable[..., tuple[list[dict[str, Any]], list[Rejected]]]


@pytest.fixture
def collect() -> Collect:
    """Rows and rejected rows of a reader; each row has only the columns the reader announces, with their types."""

    def run(name: str, path: Any, **options: Any) -> tuple[list[dict[str, Any]], list[Rejected]]:
        found = list(read(name, path, **options))
        good = [row for row in found if not isinstance(row, Rejected)]
        shape = shape_of(name, path, **options)
        schema = schema_for(shape.kind, axes=shape.axes, columns=dict(shape.columns), dim=shape.dim)
        for row in good:
            checked_row(row, schema)
            assert set(shape.axes) <= set(row)
        keys = [tuple(row[name] for name in schema.key) for row in good]
        assert len(set(keys)) == len(keys), "an id was given twice"
        return good, [row for row in found if isinstance(row, Rejected)]

    return run


@pytest.fixture
def touch() -> Callable[[Path], Path]:
    """Make a file that stands for an image: readers look for it and never open it."""

    def make(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not an image: a reader that opens it would fail")
        return path

    return make
