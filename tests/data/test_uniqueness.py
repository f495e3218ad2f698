from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.data import shards as uniqueness
from equipoise.data.shards import first_duplicate


def batches(ids: list[str], size: int = 3) -> Any:
    def keys() -> Iterator[tuple[str, Any]]:
        for start in range(0, len(ids), size):
            yield f"file {start // size}", pa.record_batch({"id": ids[start : start + size]})

    return keys


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.text(max_size=2), max_size=20), st.integers(1, 30))
def test_a_duplicate_is_found_if_and_only_if_there_is_one(ids: list[str], rows_per_pass: int) -> None:
    before = uniqueness._ROWS_PER_PASS
    uniqueness._ROWS_PER_PASS = rows_per_pass
    try:
        found = first_duplicate(batches(ids), len(ids))
    finally:
        uniqueness._ROWS_PER_PASS = before
    assert (found is None) == (len(set(ids)) == len(ids))
    if found is not None:
        (key,), first, second = found
        places = [f"file {i // 3}" for i, value in enumerate(ids) if value == key]
        assert (first, second) == tuple(places[:2])


def test_equal_hashes_of_different_keys_are_no_duplicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniqueness, "_hashes", lambda batch: np.zeros(len(batch), dtype=np.uint64))
    assert first_duplicate(batches(["a", "b", "c", "d"]), 4) is None
    assert first_duplicate(batches(["a", "b", "c", "b"]), 4) == (("b",), "file 0", "file 1")


def test_keys_of_two_columns_differ_if_one_does() -> None:
    rows = pa.record_batch({"a": ["x", "x", "y"], "b": ["1", "2", "1"]})
    assert first_duplicate(lambda: iter([("f", rows)]), 3) is None
    again = pa.record_batch({"a": ["y"], "b": ["1"]})
    assert first_duplicate(lambda: iter([("f", rows), ("g", again)]), 4) == (("y", "1"), "f", "g")
