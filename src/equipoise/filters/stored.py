"""Vectors from embeddings tables, in any order, a block at a time: one pass over the file, no copy of it in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from equipoise.array_types import Ints, Vectors
from equipoise.data import Table
from equipoise.errors import InputError

BLOCK = 12_288
"""Rows read at a time: 25 MB of 512 numbers."""


@dataclass(frozen=True)
class StoredVectors:
    """Where the vector of each of n ids lies in some embeddings tables; -1 where there is none."""

    tables: tuple[Table, ...]
    positions: Ints

    @classmethod
    def of(cls, tables: Sequence[Table], ids: Any) -> StoredVectors:
        """``ids`` (n,): an Arrow array, a pandas Series or a list of texts."""
        widths = {table.types["vector"]: table.path for table in tables}
        if len(widths) > 1:
            lengths = " and ".join(
                f"{path} of {width[len('vector<') : -1]}" for width, path in list(widths.items())[:2]
            )
            raise InputError(
                f"vectors of different lengths cannot be compared: {lengths} numbers; give those of one model"
            )
        wanted = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else _texts(ids)
        there = pa.chunked_array(
            [chunk for table in tables for chunk in table.to_arrow(["id"])["id"].chunks], pa.string()
        )
        if isinstance(wanted, pa.Array):
            wanted = pa.chunked_array([wanted])
        wanted = wanted.cast(pa.string())
        rest = there.slice(len(wanted))  # captions, say
        first = there.slice(0, len(wanted)).equals(wanted)
        if first and not pc.any(pc.is_in(wanted, value_set=rest.combine_chunks())).as_py():  # the usual case is quick
            return cls(tuple(tables), np.arange(len(wanted), dtype=np.int64))
        if len(pc.unique(there)) < len(there):
            twice = next(entry["values"] for entry in pc.value_counts(there).to_pylist() if entry["counts"] > 1)
            raise InputError(f"{tables[0].path}: {twice!r} has two vectors; keep those of one model in one table")
        positions = pc.fill_null(pc.index_in(wanted, value_set=there.combine_chunks()), -1)
        return cls(tuple(tables), positions.to_numpy().astype(np.int64))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """(n,) which ids have no vector."""
        return self.positions < 0

    @property
    def dim(self) -> int:
        """The length of the vectors."""
        return int(self.tables[0].types["vector"][len("vector<") : -1])

    @property
    def in_order(self) -> bool:
        """Whether the vectors come in the order of the ids, those that are missing left out."""
        positions = self.positions[self.positions >= 0]
        return bool((np.diff(positions) > 0).all())

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[Ints, Vectors]]:
        """Rows of the ids (b,) and their vectors (b, d), in the order of the file; missing ones are left out."""
        rows = np.arange(len(self.positions)) if self.in_order else np.argsort(self.positions, kind="stable")
        rows = rows[self.positions[rows] >= 0]
        places = self.positions[rows]
        start = done = 0
        for table, shard in [(home, shard) for home in self.tables for shard in home.shards]:
            if done == len(places) or places[done] >= start + shard.rows:  # nothing of it is asked for
                start += shard.rows
                continue
            for batch in table.shard_batches(shard.index, ["vector"], batch_size=size):
                end = start + len(batch)
                upto = done + int(np.searchsorted(places[done:], end))
                if upto > done:
                    vectors = batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
                    whole = upto - done == len(batch)
                    yield rows[done:upto], vectors if whole else vectors[places[done:upto] - start]
                start, done = end, upto

    def matrix(self) -> Vectors:
        """(n, d) all vectors; NaN rows for what is missing."""
        out = np.full((len(self.positions), self.dim), np.nan, dtype=np.float32)
        for rows, vectors in self.blocks():
            out[rows] = vectors
        return out


def _texts(ids: Any) -> Any:
    """Texts as Arrow data; those of pandas are Arrow data already, and a million are not gone through one by one."""
    return pa.array(ids, from_pandas=True) if hasattr(ids, "dtype") else pa.array(list(ids), pa.string())


def set_blocks(stored: StoredVectors, sets: Ints, size: int = BLOCK) -> Iterator[tuple[Ints, Vectors]]:
    """Blocks of whole sets: rows (b,), the images of a set one after the other, and their vectors (b, d).

    Sets that lie together in the table stream; others need all vectors in memory. An image without a vector has NaN.
    """
    runs = 1 + int((np.diff(sets) != 0).sum()) if len(sets) else 0
    together = runs == len(np.unique(sets))
    if together and stored.in_order and not stored.missing.any():
        yield from _streamed(stored, sets, size)
        return
    everything = stored.matrix()
    order = np.argsort(sets, kind="stable")
    edges = np.flatnonzero(np.diff(sets[order])) + 1
    start = 0
    while start < len(order):
        later = edges[edges > start + size - 1]
        stop = int(later[0]) if len(later) else len(order)
        yield order[start:stop], everything[order[start:stop]]
        start = stop


def _streamed(stored: StoredVectors, sets: Ints, size: int) -> Iterator[tuple[Ints, Vectors]]:
    held_rows, held = np.empty(0, dtype=np.int64), np.empty((0, stored.dim), dtype=np.float32)
    for rows, vectors in stored.blocks(size):
        # What is at the end may be the beginning of a set: it waits for the rest.
        first = int(np.argmax(sets[rows] == sets[rows[-1]]))
        if len(held_rows):
            head = int(np.argmin(np.append(sets[rows] == sets[held_rows[0]], False)))
            if head == len(rows):
                held_rows, held = np.concatenate([held_rows, rows]), np.concatenate([held, vectors])
                continue
            yield np.concatenate([held_rows, rows[:head]]), np.concatenate([held, vectors[:head]])
        else:
            head = 0
        if first > head:
            yield rows[head:first], vectors[head:first]
        # A copy, or the whole block stays in memory.
        held_rows, held = rows[max(first, head) :].copy(), vectors[max(first, head) :].copy()
    if len(held_rows):
        yield held_rows, held
