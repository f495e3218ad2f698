"""Blocks of scores: some queries, some images, -inf where a query may not have an image.

Ranked lists of groups: checked, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import AnyFloats, Floats, Ints
from equipoise.errors import InputError


def discounts(length: int) -> Floats:
    """1 / log2(i + 1) for i = 1..length: the attention a rank gets.

    >>> discounts(3).round(3).tolist()
    [1.0, 0.631, 0.5]
    """
    return np.asarray(1.0 / np.log2(np.arange(2, length + 2)))


def ranked_lists(ranked: ArrayLike, desired: ArrayLike) -> tuple[Ints, NDArray[np.bool_], Floats]:
    """The labels (..., T), where there is an image, and the shares (..., G), all checked."""
    labels = np.asarray(ranked)
    share = np.asarray(desired, dtype=np.float64)
    if labels.ndim == 0 or labels.shape[-1] == 0:
        raise InputError(f"ranked has shape {labels.shape}; give at least one ranked image")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"ranked has type {labels.dtype}; give group labels as integers")
    if int(labels.max()) >= share.shape[-1]:
        raise InputError(f"ranked holds label {int(labels.max())} but desired has {share.shape[-1]} groups")
    there = labels >= 0
    if (there[..., 1:] & ~there[..., :-1]).any():
        raise InputError("ranked holds an undefined image before a defined one; remove undefined images first")
    share = np.broadcast_to(share, (*labels.shape[:-1], share.shape[-1]))
    return labels.astype(np.int64), there, share


def group_counts(ranked: NDArray[np.integer], n_groups: int) -> NDArray[np.int64]:
    """How often each group occurs in ranked lists.

    Args:
        ranked: (..., T) the number of the group of each image; negative ones count for none.
        n_groups: G, how many groups there are; no label is as large.

    Returns:
        (..., G) counts.

    >>> group_counts(np.array([[0, 1, 1, -1]]), 3).tolist()
    [[1, 2, 0]]
    """
    if ranked.max(initial=0) >= n_groups:
        raise InputError(f"ranked holds label {int(ranked.max())}, but there are {n_groups} groups, numbered from 0")
    if n_groups <= 3 or ranked.size == 0:
        return np.stack([(ranked == group).sum(axis=-1) for group in range(n_groups)], axis=-1)
    lists = ranked.reshape(-1, ranked.shape[-1])
    flat = lists + np.arange(len(lists))[:, None] * n_groups
    counts = np.bincount(flat[lists >= 0], minlength=len(lists) * n_groups)
    return counts.reshape(*ranked.shape[:-1], n_groups)


BLOCK_ROWS = 1024
PIECE_ROWS = 256
BLOCK_COLUMNS = 4096
BLOCK_CELLS = 8_000_000
"""No block holds more scores than this (32 MB in float32)."""


@dataclass(frozen=True)
class Block:
    """Scores (r, n) of queries ``rows`` (r,) and images ``index`` (n,), or (r, n) when each query has its own.

    The scores hold until the next block is asked for: its source may write into the same memory.
    """

    rows: Ints
    index: Ints
    scores: AnyFloats
    target_scores: AnyFloats | None = None
    """(r, P) the scores of each query's targets; -inf where there is none."""
    tolerance: AnyFloats | None = None
    """(r,) scores closer to a target's than this count as equal to it: rounding of float32 products."""

    def pieces(self) -> Iterator[Block]:
        """The same, some rows at a time: passes over a piece find it in the processor's cache."""
        for start in range(0, len(self.rows), PIECE_ROWS):
            part = slice(start, start + PIECE_ROWS)
            yield Block(
                self.rows[part],
                self.index if self.index.ndim == 1 else self.index[part],
                self.scores[part],
                None if self.target_scores is None else self.target_scores[part],
                None if self.tolerance is None else self.tolerance[part],
            )


@dataclass(frozen=True)
class Candidates:
    """Which images a query may retrieve.

    With pools, a query sees only the images whose ``image_pool`` (N,) equals its ``query_pool`` (Q,): a subject's own
    images. With owners, a query never sees the images whose ``image_owner`` (N,) equals its ``query_owner`` (Q,): its
    own picture, or captions of it.
    """

    image_pool: ArrayLike | None = None
    query_pool: ArrayLike | None = None
    image_owner: ArrayLike | None = None
    query_owner: ArrayLike | None = None

    def part(self, start: int, stop: int) -> Candidates:
        """The same for some of the queries."""
        pool = None if self.query_pool is None else np.asarray(self.query_pool)[start:stop]
        owner = None if self.query_owner is None else np.asarray(self.query_owner)[start:stop]
        return Candidates(self.image_pool, pool, self.image_owner, owner)

    def checked(self, n_queries: int, n_images: int) -> PairedKeys:
        """The same as integer keys; refuses keys of the wrong length."""
        return PairedKeys(
            *_paired(self.query_pool, self.image_pool, "pool", n_queries, n_images),
            *_paired(self.query_owner, self.image_owner, "owner", n_queries, n_images),
        )


@dataclass(frozen=True)
class PairedKeys:
    """Integer keys that are equal where a query and an image share a pool or an owner."""

    query_pool: Ints | None
    image_pool: Ints | None
    query_owner: Ints | None
    image_owner: Ints | None


def _paired(
    query: ArrayLike | None, image: ArrayLike | None, what: str, n_queries: int, n_images: int
) -> tuple[Ints | None, Ints | None]:
    if query is None and image is None:
        return None, None
    if query is None or image is None:
        given, missing = ("image", "query") if query is None else ("query", "image")
        raise InputError(f"{given}_{what} was given without {missing}_{what}; give both")
    keys = []
    for name, values, length in (("query", query, n_queries), ("image", image, n_images)):
        array = np.asarray(values)
        if array.shape != (length,):
            things = "queries" if name == "query" else "images"
            raise InputError(f"{name}_{what} has shape {array.shape} for {length} {things}; give one key each")
        keys.append(array)
    if keys[0].dtype == object or keys[1].dtype == object:
        keys = [key.astype(str) for key in keys]
    _, codes = np.unique(np.concatenate(keys), return_inverse=True)
    return codes[:n_queries].astype(np.int64), codes[n_queries:].astype(np.int64)


@dataclass(frozen=True)
class Plan:
    """What one pass over the scores must respect."""

    keys: PairedKeys
    keep: NDArray[np.bool_] | None = None
    """(N,) images that nobody asks for are not even scored."""
    reverse: bool = False
    """Images in falling order of index, so that among equal scores the last comes first."""
    targets: Ints | None = None
    block_columns: int = BLOCK_COLUMNS


class Source(Protocol):
    """Anything that can be ranked."""

    @property
    def n_queries(self) -> int:
        """Q."""

    @property
    def n_images(self) -> int:
        """N."""

    def blocks(self, plan: Plan) -> Iterator[Block]:
        """All scores the plan asks for, once."""

    def part(self, start: int, stop: int) -> Source:
        """The same for some of the queries."""


class Excluded:
    """Puts -inf where a query may not have an image."""

    def __init__(self, keys: PairedKeys, n_images: int) -> None:
        self.keys = keys
        self.active = keys.query_pool is not None or keys.query_owner is not None
        self._place = np.full(n_images, -1, dtype=np.int64)
        if keys.image_owner is not None:
            self._order = np.argsort(keys.image_owner, kind="stable")
            self._sorted = keys.image_owner[self._order]

    def blank(self, scores: AnyFloats, rows: Ints, index: Ints) -> None:
        """Write -inf into ``scores`` (r, n) of queries ``rows`` and images ``index`` (n,)."""
        keys = self.keys
        if keys.query_pool is not None and keys.image_pool is not None:
            np.copyto(scores, -np.inf, where=keys.query_pool[rows][:, None] != keys.image_pool[index])
        if keys.query_owner is not None:
            row, image = self._owned(rows)
            self._place[index] = np.arange(len(index))
            column = self._place[image]
            self._place[index] = -1
            scores[row[column >= 0], column[column >= 0]] = -np.inf

    def _owned(self, rows: Ints) -> tuple[Ints, Ints]:
        assert self.keys.query_owner is not None
        wanted = self.keys.query_owner[rows]
        low = np.searchsorted(self._sorted, wanted, side="left")
        counts = np.searchsorted(self._sorted, wanted, side="right") - low
        row = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        return row, self._order[np.repeat(low, counts) + within]


def as_float(values: AnyFloats, name: str) -> AnyFloats:
    """Real numbers as float32 or float64; half precision is raised, everything else becomes float64."""
    if not np.issubdtype(values.dtype, np.number) or np.issubdtype(values.dtype, np.complexfloating):
        raise InputError(f"{name} has type {values.dtype}; give real numbers")
    if values.dtype in (np.float32, np.float64):
        return values
    return values.astype(np.float32 if values.dtype == np.float16 else np.float64)


def finite_rows(table: AnyFloats, rows: Ints, name: str) -> AnyFloats:
    """Some rows of ``table`` as finite floats; contiguous runs are read as a slice."""
    if len(rows) == 0:
        return as_float(table[:0], name)
    steps = np.diff(rows)
    if (steps == 1).all():
        part = table[int(rows[0]) : int(rows[-1]) + 1]
    elif (steps == -1).all():
        part = table[int(rows[-1]) : int(rows[0]) + 1][::-1]
    else:
        part = table[rows]
    part = as_float(part, name)
    if not np.isfinite(part).all():
        row = int(np.argmin(np.isfinite(part).all(axis=1)))
        raise InputError(f"{name}: row {int(rows[row])} is not finite; drop that embedding or compute it again")
    return part
