"""Exact top-k and exact ranks in one pass over the scores: memory is bounded by the block, never Q x N.

Order is (-score, image index), or (-score, place) with places given for the images. Scores computed from embeddings
are float32 products: two identical images among others can differ in the last bit, as in every other library; where all
images of a pool have one vector, they have one score. Scores given as scores are compared exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Ints
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.retrieval.blocks import BLOCK_COLUMNS, Block, Candidates, PairedKeys, Plan, Source
from equipoise.measure.retrieval.select import Best

Order = Literal["stable", "reverse"]
ORDERS = ("stable", "reverse")


@dataclass(frozen=True)
class Ranking:
    """The best images of each query, best first."""

    indices: Ints
    """(Q, T) image numbers; -1 beyond the end of a short pool."""
    scores: NDArray[Any]
    """(Q, T) their scores; -inf there."""
    left_out: NDArray[np.int64]
    """(Q, C) images that tie with the last one but did not fit, by code (one code unless codes were given)."""
    k: int
    """The k that was asked for."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(Q,) images ranked: k, or all a smaller pool has."""
        return np.asarray((self.indices >= 0).sum(axis=1))

    @property
    def n_tied(self) -> NDArray[np.int64]:
        """(Q,) images tied with the last one that did not fit."""
        return np.asarray(self.left_out.sum(axis=1))

    def some(self, queries: NDArray[Any] | slice) -> Ranking:
        """The ranking of some queries, by number, by a mask or as a slice."""
        return Ranking(self.indices[queries], self.scores[queries], self.left_out[queries], self.k)

    def all_equal(self, pool_sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(Q,) whether all images of a query's pool, two or more, have the same score: the model gave no ranking."""
        lowest = np.where(self.indices >= 0, self.scores, np.inf).min(axis=1, initial=np.inf)
        highest = self.scores.max(axis=1, initial=-np.inf)
        everybody = self.lengths + self.n_tied >= pool_sizes
        return np.asarray((self.lengths > 0) & (pool_sizes > 1) & everybody & (highest == lowest))

    def labels(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """(Q, T) the label of each ranked image; -1 undefined, -2 beyond the end."""
        return np.append(labels, np.int32(-2))[self.indices]


@dataclass(frozen=True)
class Want:
    """One top-k to keep during a pass: the ``k`` best among ``mask`` (N,), ties left out counted by ``codes`` (N,)."""

    k: int
    mask: NDArray[np.bool_] | None = None
    codes: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Scan:
    """What one pass found."""

    rankings: tuple[Ranking, ...]
    ranks: NDArray[np.float64] | None = None
    """(Q,) rank of each query's best target, 1 is first; ties in order of index, or by the places given."""
    ties: NDArray[np.int64] | None = None
    """(Q,) images that tie with the best target."""


def rank(
    source: Source,
    k: int,
    *,
    mask: ArrayLike | None = None,
    candidates: Candidates | None = None,
    order: Order | NDArray[Any] = "stable",
) -> Ranking:
    """The ``k`` best images of each query by (-score, index).

    Args:
        source: the scores of Q queries for N images.
        k: how many images are kept; of a smaller pool, all.
        mask: (N,) says which images take part; ``None``: all.
        candidates: which images each query may retrieve; ``None``: all.
        order: of equal scores ``"stable"`` puts the first index first, ``"reverse"`` the last; (N,) whole numbers put
            the image with the lowest number first.

    Returns:
        The images of each query, best first, with their scores and how many more tie with the last.

    >>> from equipoise.measure.retrieval.sources import Scores
    >>> r = rank(Scores([[0.1, 0.9, 0.9, 0.3]]), 2)
    >>> r.indices.tolist(), rank(Scores([[0.5, 0.5, 0.5]]), 2).n_tied.tolist()
    ([[1, 2]], [1])
    >>> rank(Scores([[0.5, 0.5, 0.5]]), 2, order=np.array([2, 0, 1])).indices.tolist()
    [[1, 2]]
    """
    want = Want(k, None if mask is None else np.asarray(mask, dtype=bool))
    return scan(source, [want], candidates=candidates, order=order).rankings[0]


def scan(
    source: Source,
    wants: Sequence[Want],
    *,
    candidates: Candidates | None = None,
    order: Order | NDArray[Any] = "stable",
    targets: ArrayLike | None = None,
) -> Scan:
    """Several top-k and the ranks of targets in one pass over the scores.

    Args:
        source: the scores of Q queries for N images.
        wants: the top-k to keep, each with its own k and mask.
        candidates: which images each query may retrieve; ``None``: all.
        order: as in :func:`rank`; but ``"reverse"`` leaves the ranks of targets in order of index.
        targets: (Q,) or (Q, P) the image(s) each query should find, -1 for padding; the best of them is ranked among
            all images the query may retrieve.

    Returns:
        One ranking per want, in their order, and the ranks and ties of targets where these are given.
    """
    n_queries, n_images = source.n_queries, source.n_images
    places = None if isinstance(order, str) else _checked_places(order, n_images)
    if isinstance(order, str) and order not in ORDERS:
        raise UnknownNameError("order of ties", order, ORDERS)
    if n_queries == 0 or n_images == 0:
        raise InputError(f"{n_queries} queries and {n_images} images: nothing to rank")
    keys = (candidates or Candidates()).checked(n_queries, n_images)
    keepers = [_Keeper(want, n_queries, n_images, places) for want in wants]
    counter = None if targets is None else _RankCounter(targets, n_queries, n_images, keys, places)
    plan = Plan(
        keys,
        keep=_anyone_asks(wants, counter),
        reverse=isinstance(order, str) and order == "reverse",
        targets=None if counter is None else counter.targets,
        block_columns=max([BLOCK_COLUMNS, *(2 * min(want.k, n_images) for want in wants)]),
    )
    for piece in (piece for block in source.blocks(plan) for piece in block.pieces()):
        for keeper in keepers:
            keeper.add(piece)
        if counter is not None:
            counter.add(piece)
    rankings = tuple(keeper.ranking() for keeper in keepers)
    if counter is None:
        return Scan(rankings)
    return Scan(rankings, counter.ranks, counter.ties)


def _checked_places(order: NDArray[Any], n_images: int) -> Ints:
    places = np.asarray(order)
    if places.shape != (n_images,) or not np.issubdtype(places.dtype, np.integer):
        raise InputError(f"order has shape {places.shape} for {n_images} images; give one whole number per image")
    return places.astype(np.int64)


def _anyone_asks(wants: Sequence[Want], counter: _RankCounter | None) -> NDArray[np.bool_] | None:
    masks = [want.mask for want in wants]
    if counter is not None or any(mask is None for mask in masks):
        return None
    asked = np.logical_or.reduce([mask for mask in masks if mask is not None])
    return None if asked.all() else np.asarray(asked)


class _Keeper:
    """One want's best images, for every block of rows."""

    def __init__(self, want: Want, n_queries: int, n_images: int, places: Ints | None) -> None:
        if want.k < 1:
            raise InputError(f"k = {want.k}: give at least 1")
        for name, values in (("mask", want.mask), ("codes", want.codes)):
            if values is not None and values.shape != (n_images,):
                raise InputError(f"{name} has shape {values.shape} for {n_images} images; give one per image")
        self.k = want.k
        self.mask = None if want.mask is None or want.mask.all() else want.mask
        self.codes = np.zeros(n_images, dtype=np.int32) if want.codes is None else want.codes
        self.n_codes = int(self.codes.max()) + 1
        self.width = min(want.k, n_images if self.mask is None else int(self.mask.sum()))
        self.n_queries = n_queries
        self.places = places
        self.found: dict[int, tuple[Ints, Best]] = {}

    def add(self, block: Block) -> None:
        if self.width == 0:
            return
        first = int(block.rows[0])
        if first not in self.found:
            best = Best(len(block.rows), self.width, self.codes, self.n_codes, self.mask, self.places)
            self.found[first] = (block.rows, best)
        self.found[first][1].add(block.scores, block.index)

    def ranking(self) -> Ranking:
        shape = (self.n_queries, self.width)
        indices = np.full(shape, -1, dtype=np.int64)
        scores: NDArray[Any] | None = None
        left_out = np.zeros((self.n_queries, self.n_codes), dtype=np.int64)
        for rows, best in self.found.values():
            index, values, ties = best.result()
            if scores is None:
                scores = np.full(shape, -np.inf, dtype=values.dtype)
            indices[rows, : index.shape[1]] = index
            scores[rows, : index.shape[1]] = values
            left_out[rows] = ties
        return Ranking(indices, np.full(shape, -np.inf) if scores is None else scores, left_out, self.k)


class _RankCounter:
    """Counts, for each query, the images before its best target."""

    def __init__(
        self, targets: ArrayLike, n_queries: int, n_images: int, keys: PairedKeys, places: Ints | None
    ) -> None:
        given = np.asarray(targets)
        table = given[:, None] if given.ndim == 1 else given
        if table.ndim != 2 or len(table) != n_queries:
            raise InputError(f"targets has shape {given.shape} for {n_queries} queries; give one row per query")
        if not np.issubdtype(table.dtype, np.integer):
            raise InputError(f"targets has type {table.dtype}; give image numbers, -1 for padding")
        self.targets: Ints = table.astype(np.int64)
        self._check(n_images, keys)
        self._places = np.arange(n_images) if places is None else places
        self._before = np.zeros(n_queries, dtype=np.int64)
        self.ties = np.zeros(n_queries, dtype=np.int64)

    def _check(self, n_images: int, keys: PairedKeys) -> None:
        targets = self.targets
        wrong = (targets >= n_images) | (targets < -1)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InputError(f"targets of query {row}: there is no image {targets[row, column]} among {n_images}")
        none = (targets < 0).all(axis=1)
        if none.any():
            raise InputError(f"targets of query {int(np.argmax(none))}: it has none; leave such queries out")
        for what, query, image, must_match in (
            ("is not in its pool", keys.query_pool, keys.image_pool, True),
            ("is excluded as its own", keys.query_owner, keys.image_owner, False),
        ):
            if query is None or image is None:
                continue
            same = query[:, None] == image[np.maximum(targets, 0)]
            bad = (targets >= 0) & (same != must_match)
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise InputError(f"targets of query {row}: image {targets[row, column]} {what}")

    @property
    def ranks(self) -> NDArray[np.float64]:
        return np.asarray(1.0 + self._before, dtype=np.float64)

    def add(self, block: Block) -> None:
        assert block.target_scores is not None
        assert block.tolerance is not None
        best = block.target_scores.max(axis=1)
        reach = block.tolerance
        kind = block.scores.dtype
        above = block.scores > (best + reach).astype(kind)[:, None]
        at_least = block.scores >= (best - reach).astype(kind)[:, None]
        n_above, n_at_least = _row_counts(above), _row_counts(at_least)
        self._before[block.rows] += n_above
        if (n_at_least > n_above).any():
            self._add_ties(block, np.flatnonzero(at_least ^ above), best - reach)

    def _add_ties(self, block: Block, flat: Ints, least: NDArray[Any]) -> None:
        row, column = np.divmod(flat, block.scores.shape[1])
        items = block.index[column] if block.index.ndim == 1 else block.index[row, column]
        targets = self.targets[block.rows]
        rival = ~(targets[row] == items[:, None]).any(axis=1)
        row, items = row[rival], items[rival]
        assert block.target_scores is not None
        as_good = block.target_scores >= least[:, None]
        first = np.where(as_good & (targets >= 0), self._places[targets], np.iinfo(np.int64).max).min(axis=1)
        ahead = self._places[items] < first[row]
        self.ties[block.rows] += np.bincount(row, minlength=len(block.rows))
        self._before[block.rows] += np.bincount(row[ahead], minlength=len(block.rows))


_BITS = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


def _row_counts(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many are true in each row; bits are packed first, several times faster than a sum of booleans."""
    return np.asarray(_BITS[np.packbits(mask, axis=1)].sum(axis=1, dtype=np.int64))
