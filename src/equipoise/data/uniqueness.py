"""Whether the rows of many files have names of their own, found with eight bytes a row and bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["first_duplicate"]

_ROWS_A_PASS = 20_000_000
_MIX = np.uint64(0x9E3779B97F4A7C15)

Keys = Callable[[], Iterator[tuple[str, Any]]]
"""Gives, every time it is called, ``(place, batch of key columns)`` for all rows in order."""


def first_duplicate(keys: Keys, n_rows: int) -> tuple[tuple[str, ...], str, str] | None:
    """The first key that occurs twice and the two places it occurs in; ``None`` if all differ.

    Only 64-bit hashes are held, in as many passes over the keys as it takes to hold at most 160 MB of them; equal
    hashes are then compared in full, so that chance cannot make a duplicate.

    >>> import pyarrow as pa
    >>> batches = [("a.parquet", pa.record_batch({"id": ["x", "y"]})), ("b.parquet", pa.record_batch({"id": ["x"]}))]
    >>> first_duplicate(lambda: iter(batches), 3)
    (('x',), 'a.parquet', 'b.parquet')
    """
    n_passes = -(-max(1, n_rows) // _ROWS_A_PASS)
    for turn in range(n_passes):
        suspects = _repeated(
            [hashes[hashes % np.uint64(n_passes) == turn] for hashes in (_hashes(b) for _, b in keys())]
        )
        found = _confirmed(keys, suspects) if len(suspects) else None
        if found:
            return found
    return None


def _repeated(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    if not parts:
        return np.empty(0, dtype=np.uint64)
    hashes = np.sort(np.concatenate(parts))
    repeated: NDArray[np.uint64] = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    return repeated


def _confirmed(keys: Keys, suspects: NDArray[np.uint64]) -> tuple[tuple[str, ...], str, str] | None:
    seen: dict[tuple[str, ...], str] = {}
    for place, batch in keys():
        rows = np.flatnonzero(np.isin(_hashes(batch), suspects))
        for row in rows:
            key = tuple(str(column[int(row)].as_py()) for column in batch.columns)
            if key in seen:
                return key, seen[key], place
            seen[key] = place
    return None


def _hashes(batch: Any) -> NDArray[np.uint64]:
    from pandas.util import hash_array

    total = np.zeros(len(batch), dtype=np.uint64)
    for column in batch.columns:
        values = column.to_numpy(zero_copy_only=False).astype(object)
        total = total * _MIX + hash_array(values, categorize=False).astype(np.uint64)
    return total
