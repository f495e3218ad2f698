"""What chance would give for a retrieval result, and the result as estimates with that beside it.

Three nulls, all exact in law:

- ``random_ranking``: each query ranks its own pool at random. For queries that each have their own pool.
- ``label_shuffle``: the rankings stay, the labels are shuffled over each pool. For queries that share a pool: what they
  share (hub images that everything retrieves) stays shared.
- ``within_set``: the rankings stay, the labels are shuffled inside each counterfactual set, so that the near-identical
  images of a set stay together. The right one for paired data. A set that shows one group cannot be shuffled inside:
  such sets exchange their labels with each other, whole sets of the same size in the same pool. Left as they are, they
  would make chance equal to what was found, however biased that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.evaluate import Retrieved
from equipoise.measure.lists import list_metrics, pair_metrics
from equipoise.measure.nulls import LabelShuffler, random_rankings
from equipoise.measure.prefixes import group_counts

__all__ = ["Chance", "chance"]

FloatArray = NDArray[np.float64]
Kind = Literal["random_ranking", "label_shuffle", "within_set"]
KINDS = ("random_ranking", "label_shuffle", "within_set")

CELLS = 8_000_000
"""Labels drawn at a time."""
KEPT_CELLS = 4_000_000
"""Per-query draws are kept for p-values and quantiles of single queries up to this many numbers a metric."""


@dataclass(frozen=True)
class Chance:
    """Draws of the null for every metric of a result."""

    kind: Kind
    draws: int
    suite: Mapping[str, FloatArray]
    """(R,) or (R, G): the mean over all queries in each draw."""
    mean: Mapping[str, FloatArray]
    """(Q',) or (Q', G): each query's chance level."""
    sd: Mapping[str, FloatArray]
    by_query: Mapping[str, FloatArray] = field(default_factory=dict)
    """(R, Q') every draw of every query, when they are few enough to keep."""
    notes: tuple[str, ...] = ()
    """What a reader must know: sets whose labels could not be shuffled inside them."""


def chance(
    found: Retrieved,
    *,
    sets: ArrayLike | None = None,
    kind: Kind | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Chance:
    """The null of every metric in ``found``.

    ``sets`` (N,) names the counterfactual set of each image and selects ``within_set``; without it, queries with a pool
    of their own get ``random_ranking`` and queries that share one ``label_shuffle``. Ties stay as they were broken in
    every draw. Where no label could move inside sets or between them, the null is that of no sets, and says so.
    """
    if draws < 2:
        raise InputError(f"draws = {draws}: a null needs at least 2 draws")
    chosen = kind or _kind(found, sets)
    if chosen not in KINDS:
        raise UnknownNameError("null", chosen, KINDS)
    if chosen == "within_set" and sets is None:
        raise InputError("kind='within_set' needs sets: the counterfactual set of each image")
    rng = np.random.default_rng(seed)
    tally = _Tally(draws, len(found.queries))
    notes: tuple[str, ...] = ()
    if chosen == "within_set":
        lists = _relabelled(found, sets, found.indices, found.groups.defined)
        notes = lists.notes
        if not lists.moves:
            chosen = _kind(found, None)
    if chosen == "random_ranking":
        for columns, block in _random_draws(found, draws, rng):
            tally.add(columns, block)
    else:
        everyone = np.arange(len(found.queries))
        for block in _shuffled_draws(found, None if chosen == "label_shuffle" else sets, draws, rng):
            tally.add(everyone, block)
    return replace(tally.chance(chosen), notes=notes)


def _kind(found: Retrieved, sets: ArrayLike | None) -> Kind:
    if sets is not None:
        return "within_set"
    return "random_ranking" if len(np.unique(found.pool)) == len(found.pool) else "label_shuffle"


class _Tally:
    """Adds up blocks of draws: for some queries all draws, or for all queries some draws."""

    def __init__(self, draws: int, n_queries: int) -> None:
        self.draws, self.n_queries = draws, n_queries
        self.suite: dict[str, FloatArray] = {}
        self.sums: dict[str, FloatArray] = {}
        self.squares: dict[str, FloatArray] = {}
        self.kept: dict[str, FloatArray] = {}
        self._at: dict[str, int] = {}

    def add(self, queries: NDArray[np.intp], block: dict[str, FloatArray]) -> None:
        """``block[name]`` (r, q) or (r, q, G): r draws of ``queries`` (q,)."""
        for name, values in block.items():
            rows = len(values)
            if name not in self.suite:
                tail = values.shape[2:]
                self.suite[name] = np.zeros((self.draws, *tail))
                self.sums[name] = np.zeros((self.n_queries, *tail))
                self.squares[name] = np.zeros((self.n_queries, *tail))
                self._at[name] = 0
                if not tail and self.draws * self.n_queries <= KEPT_CELLS:
                    self.kept[name] = np.zeros((self.draws, self.n_queries))
            start = self._at[name] % self.draws
            here = slice(start, start + rows)
            self._at[name] += rows
            self.suite[name][here] += values.sum(axis=1)
            self.sums[name][queries] += values.sum(axis=0)
            self.squares[name][queries] += (values**2).sum(axis=0)
            if name in self.kept:
                self.kept[name][here, queries] = values

    def chance(self, kind: Kind) -> Chance:
        mean = {name: total / self.draws for name, total in self.sums.items()}
        sd = {
            name: np.sqrt(np.maximum(0.0, total / self.draws - mean[name] ** 2)) for name, total in self.squares.items()
        }
        suite = {name: total / self.n_queries for name, total in self.suite.items()}
        return Chance(kind, self.draws, suite, mean, sd, self.kept)


def _without_plain_skew(values: dict[str, FloatArray], shape: tuple[int, int]) -> dict[str, FloatArray]:
    """Blocks (r, q, ...) of the metrics that have a finite null; the skew of a group is minus infinity when absent."""
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in values.items() if name != "skew"}


def _random_draws(
    found: Retrieved, draws: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.intp], dict[str, FloatArray]]]:
    """All draws of the queries whose pools have the same composition, one composition at a time."""
    recipe = found.recipe
    undefined = _undefined_by_pool(found)
    make_up = np.concatenate([found.pool_counts[found.pool], undefined[found.pool][:, None]], axis=1)
    kinds, which = np.unique(make_up, axis=0, return_inverse=True)
    length = recipe.k if recipe.extended else max(recipe.k, recipe.depth)
    pairs = recipe.pair is not None and recipe.variant.name != "intel_code"
    for number, counts in enumerate(kinds):
        queries = np.flatnonzero(which.ravel() == number)
        step = max(1, CELLS // (len(queries) * min(length, int(counts.sum()))))
        for start in range(0, draws, step):
            rows = min(step, draws - start)
            shape = (rows, len(queries))
            ranked = random_rankings(counts[:-1], length, rows * len(queries), rng)
            block = _without_plain_skew(list_metrics(ranked, counts[:-1], recipe), shape)
            if pairs:
                every = random_rankings(counts, recipe.k, rows * len(queries), rng)
                taken = np.full(len(every), every.shape[1])
                block |= _without_plain_skew(
                    pair_metrics(group_counts(every, recipe.n_groups + 1), taken, recipe), shape
                )
            yield queries, block


def _undefined_by_pool(found: Retrieved) -> NDArray[np.int64]:
    missing = ~found.groups.defined
    if found.image_pool is None:
        return np.array([missing.sum()])
    return np.bincount(found.image_pool[missing], minlength=len(found.pool_counts))


def _shuffled_draws(
    found: Retrieved, sets: ArrayLike | None, draws: int, rng: np.random.Generator
) -> Iterator[dict[str, FloatArray]]:
    recipe = found.recipe
    lists = _relabelled(found, sets, found.indices, found.groups.defined)
    pairs = None
    if recipe.pair is not None and found.pair_indices is not None and recipe.variant.name != "intel_code":
        pairs = _relabelled(found, sets, found.pair_indices, np.ones(len(found.groups), dtype=bool))
    pool = found.pool_counts[found.pool]
    step = max(1, CELLS // max(found.indices.size, 1))
    for start in range(0, draws, step):
        rows = min(step, draws - start)
        shape = (rows, len(found.queries))
        ranked = lists.draw(rows, rng)
        block = _without_plain_skew(list_metrics(ranked, np.tile(pool, (rows, 1)), recipe), shape)
        if pairs is not None:
            every = pairs.draw(rows, rng)
            counts, taken = group_counts(every, recipe.n_groups), (every > -2).sum(axis=1)
            block |= _without_plain_skew(pair_metrics(counts, taken, recipe), shape)
        yield block


def _relabelled(
    found: Retrieved, sets: ArrayLike | None, indices: NDArray[np.int32], takes_part: NDArray[np.bool_]
) -> _Relabelled:
    exchanged = _Exchanged.inside(_blocks(found, sets)[takes_part])
    if sets is not None:
        exchanged = exchanged.between(found.groups.labels[takes_part], _blocks(found, None)[takes_part])
    return _Relabelled(indices, found.groups.labels, takes_part, exchanged)


@dataclass(frozen=True)
class _Exchanged:
    """Which labels change places: those of units (an image, or a whole set) that lie in the same block."""

    sets: NDArray[np.int64]
    """(n,) the set, or the pool, of each image that takes part."""
    unit: NDArray[np.int64]
    """(n,) the number of an image that stands for the image's unit: its own, or the first of its set."""
    block: NDArray[np.int64]
    """(n,) the block of the image's unit."""

    @classmethod
    def inside(cls, sets: NDArray[np.int64]) -> _Exchanged:
        """Images inside sets."""
        return cls(sets, np.arange(len(sets)), sets)

    def between(self, labels: NDArray[np.int32], pools: NDArray[np.int64]) -> _Exchanged:
        """The same, but sets that show one group are whole units, in a block with those of their size and pool."""
        alone = _one_label(self.sets, labels)[self.sets]
        sizes = np.bincount(self.sets)[self.sets]
        first = np.zeros(int(self.sets.max(initial=0)) + 1, dtype=np.int64)
        first[self.sets[::-1]] = np.arange(len(self.sets))[::-1]
        alike = np.unique(np.stack([pools, sizes], axis=1), axis=0, return_inverse=True)[1].ravel()
        return _Exchanged(
            self.sets,
            np.where(alone, first[self.sets], self.unit),
            np.where(alone, len(first) + alike, self.sets),
        )


def _one_label(blocks: NDArray[np.int64], labels: NDArray[np.int32]) -> NDArray[np.bool_]:
    """(blocks,) whether all of a block have the same label."""
    lowest = np.full(int(blocks.max(initial=0)) + 1, np.iinfo(np.int32).max, dtype=np.int32)
    highest = np.full(len(lowest), -2, dtype=np.int32)
    np.minimum.at(lowest, blocks, labels)
    np.maximum.at(highest, blocks, labels)
    return np.asarray(lowest == highest)


class _Relabelled:
    """Ranked lists under shuffled labels; only blocks that some list touches are shuffled."""

    def __init__(
        self,
        indices: NDArray[np.int32],
        labels: NDArray[np.int32],
        takes_part: NDArray[np.bool_],
        exchanged: _Exchanged,
    ) -> None:
        mine = np.flatnonzero(takes_part)
        at = np.full(len(labels) + 1, -1, dtype=np.int64)
        at[mine] = np.arange(len(mine))
        ranked = at[indices[indices >= 0]]
        touched = np.zeros(int(exchanged.block.max(initial=0)) + 1, dtype=bool)
        touched[exchanged.block[ranked]] = True
        members = np.flatnonzero(touched[exchanged.block])
        units, unit_of = np.unique(exchanged.unit[members], return_inverse=True)
        self._shuffle = LabelShuffler(labels[mine][units], exchanged.block[units])
        place = np.full(len(labels) + 1, len(units), dtype=np.int64)
        place[mine[members]] = unit_of
        self._places = place[indices]
        still = _one_label(exchanged.block[units], labels[mine][units])
        self.moves = not still[exchanged.block[ranked]].all()
        """Whether any label in the lists can change at all."""
        self.notes = self._told(exchanged, ranked, still)

    def _told(self, exchanged: _Exchanged, ranked: NDArray[np.int64], still: NDArray[np.bool_]) -> tuple[str, ...]:
        if not self.moves:
            return ("labels cannot move inside sets, nor between them: chance shuffles them over each pool instead",)
        sets, first = np.unique(exchanged.sets[ranked], return_index=True)
        one = ranked[first]
        whole = exchanged.block[one] != exchanged.sets[one]
        fixed = still[exchanged.block[one]]
        notes = []
        if (whole & ~fixed).any():
            count = int((whole & ~fixed).sum())
            notes.append(f"{count} of {len(sets)} sets show one group; chance exchanges the labels of such sets")
        if fixed.any():
            notes.append(f"{int(fixed.sum())} of {len(sets)} sets cannot move under chance: the excess is too low")
        return tuple(notes)

    def draw(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """(rows * Q', T) labels of the lists in ``rows`` draws; -2 beyond the end of a list."""
        shuffled = self._shuffle(rows, rng)
        padded = np.concatenate([shuffled, np.full((rows, 1), -2, dtype=np.int32)], axis=1)
        return padded[:, self._places].reshape(-1, self._places.shape[1])


def _blocks(found: Retrieved, sets: ArrayLike | None) -> NDArray[np.int64]:
    """(N,) inside what labels are exchanged: a set within a pool, a pool, or everything."""
    n_images = len(found.groups)
    keys: list[Any] = [] if found.image_pool is None else [found.image_pool]
    if sets is not None:
        names = np.asarray(sets)
        if names.shape != (n_images,):
            raise InputError(f"sets has shape {names.shape} for {n_images} images; give one set per image")
        keys.append(np.unique(names.astype(str) if names.dtype == object else names, return_inverse=True)[1])
    code = np.zeros(n_images, dtype=np.int64)
    for key in keys:
        code = np.unique(code * (int(key.max()) + 1) + key, return_inverse=True)[1]
    return code
