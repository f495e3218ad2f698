"""What chance would give for a retrieval result, and the result as estimates with that beside it.

Three nulls, all exact in law:

- ``random_ranking``: each query ranks its own pool at random. For queries that each have their own pool.
- ``label_shuffle``: the rankings stay, the labels are shuffled over each pool. For queries that share a pool: what they
  share (hub images that everything retrieves) stays shared.
- ``within_set``: the rankings stay, the labels are shuffled inside each counterfactual set, among images that agree on
  every other axis (``strata``), and over linked sets at once (``links``): see ``measure.stats.exchange``. The
  right one for paired data. An image without a partner keeps its label, so that what is measured is conditional on it.

Labels move among images that have one. For Bias@K, images without a group keep their slots in every draw: whether a
model likes pictures of people at all is no matter of which group they show.

The draws of two models over the same labelled images with the same seed are draws of the same shuffles, so that their
difference has a null too (``Chance.shuffle`` says whether two results share theirs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.metric import METRICS
from equipoise.measure.retrieval.blocks import group_counts
from equipoise.measure.retrieval.evaluate import Retrieved
from equipoise.measure.retrieval.lists import list_metrics, pair_metrics
from equipoise.measure.retrieval.nulls import random_rankings
from equipoise.measure.stats.exchange import Exchange, LabelShuffler, in_pools, in_sets, keys_of
from equipoise.pace import steps

Kind = Literal["random_ranking", "label_shuffle", "within_set"]
KINDS = ("random_ranking", "label_shuffle", "within_set")

CELLS = 250_000
"""Labels measured at a time: few enough to stay in the processor's cache."""
SHUFFLED_CELLS = 2_000_000
MOST_SHUFFLES = 256
"""Shuffles are drawn in blocks whose size depends on the images alone, so that two models get the same ones."""
KEPT_CELLS = 4_000_000
"""Per-query draws are kept for p-values and quantiles of single queries up to this many numbers per metric."""


@dataclass(frozen=True)
class Chance:
    """Draws of the null for every metric of a result."""

    kind: Kind
    draws: int
    suite: Mapping[str, Floats]
    """(R,) or (R, G): the mean over all queries in each draw, without those to which all images are equal."""
    mean: Mapping[str, Floats]
    """(Q',) or (Q', G): each query's chance level."""
    sd: Mapping[str, Floats]
    by_query: Mapping[str, Floats] = field(default_factory=dict)
    """(R, Q') every draw of every query, when they are few enough to keep."""
    notes: tuple[str, ...] = ()
    """What a reader must know: images or sets whose labels could not move."""
    shuffle: str = ""
    """The same for two results whose draws shuffle the same labels alike; empty for random rankings."""
    linked: bool = False
    """Whether the labels of linked sets moved together: what different pools show is not independent then."""
    movable: NDArray[np.bool_] | None = None
    """(Q',) whether any label of a query's pool can move; ``None``: those of every pool can."""


def chance(
    found: Retrieved,
    *,
    sets: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    links: ArrayLike | None = None,
    kind: Kind | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Chance:
    """The null of every metric in ``found``.

    Ties stay as they were broken in every draw. Where no label could move inside sets or between them, the null is that
    of no sets, and says so.

    Args:
        found: the metrics of each query.
        sets: (N,) the counterfactual set of each image, which selects ``within_set``; without it, queries with a pool
            of their own get ``random_ranking`` and queries that share one ``label_shuffle``.
        strata: (N,) the combination of levels of the other axes that vary inside sets, as whole numbers; labels move
            only among images of the same. -1 marks an image whose levels are not known: it keeps its label.
        links: (N,) sets that show the same people, or were made from the same seed, share a key: their labels move
            together.
        kind: one of the three nulls, if the choice above is not wanted.
        draws: how many draws of the null, at least 2.
        seed: which draws these are; two models over the same labelled images get the same shuffles from the same seed.

    Returns:
        The draws of every metric's mean, and the chance level of each query.
    """
    if draws < 2:
        raise InputError(f"draws = {draws}: a null needs at least 2 draws")
    if found.shared_ties:
        raise InputError("ties='expected' has no null, because tied images share their ranks; break ties by tie_order")
    chosen = kind or _kind(found, sets)
    if chosen not in KINDS:
        raise UnknownNameError("null", chosen, KINDS)
    if chosen == "within_set" and sets is None:
        raise InputError("kind='within_set' needs sets: the counterfactual set of each image")
    if chosen != "within_set" and (strata is not None or links is not None):
        remedy = "give sets too" if kind is None else f"they have no use with kind={chosen!r}, so leave them out"
        raise InputError(f"strata and links say how labels move inside sets; {remedy}")
    if chosen == "random_ranking":
        return _random(found, draws, seed)
    shuffles = _Shuffles(found, sets if chosen == "within_set" else None, strata, links)
    notes = shuffles.notes
    if not shuffles.moves:
        notes = ("labels cannot move inside sets, nor between them: chance shuffles them over each pool instead",)
        chosen = _kind(found, None)
        if chosen == "random_ranking":
            return replace(_random(found, draws, seed), notes=notes)
        shuffles = _Shuffles(found, None, None, None)
    tally = _Tally(draws, ~found.all_equal)
    everyone = np.arange(len(found.queries))
    for block in shuffles.draws(draws, seed):
        tally.add(everyone, block)
    return replace(
        tally.chance(chosen),
        notes=notes,
        shuffle=shuffles.digest(draws, seed),
        linked=links is not None,
        movable=shuffles.movable,
    )


def _random(retrieved: Retrieved, draws: int, seed: int) -> Chance:
    tally = _Tally(draws, ~retrieved.all_equal)
    for columns, block in _random_draws(retrieved, draws, np.random.default_rng(seed)):
        tally.add(columns, block)
    return tally.chance("random_ranking")


def _kind(retrieved: Retrieved, sets: ArrayLike | None) -> Kind:
    if sets is not None:
        return "within_set"
    return "random_ranking" if len(np.unique(retrieved.pool)) == len(retrieved.pool) else "label_shuffle"


class _Tally:
    """Adds up blocks of draws: for some queries all draws, or for all queries some draws."""

    def __init__(self, draws: int, counted: NDArray[np.bool_]) -> None:
        self.draws, self.n_queries, self.counted = draws, len(counted), counted
        self.suite: dict[str, Floats] = {}
        self.sums: dict[str, Floats] = {}
        self.squares: dict[str, Floats] = {}
        self.kept: dict[str, Floats] = {}
        self._at: dict[str, int] = {}

    def add(self, queries: NDArray[np.intp], block: dict[str, Floats]) -> None:
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
            self.suite[name][here] += values[:, self.counted[queries]].sum(axis=1)
            self.sums[name][queries] += values.sum(axis=0)
            self.squares[name][queries] += (values**2).sum(axis=0)
            if name in self.kept:
                self.kept[name][here, queries] = values

    def chance(self, kind: Kind) -> Chance:
        mean = {name: total / self.draws for name, total in self.sums.items()}
        sd = {
            name: np.sqrt(np.maximum(0.0, total / self.draws - mean[name] ** 2)) for name, total in self.squares.items()
        }
        counted = max(1, int(self.counted.sum()))
        suite = {name: total / counted for name, total in self.suite.items()}
        return Chance(kind, self.draws, suite, mean, sd, self.kept)


def _blocks(values: dict[str, Floats], shape: tuple[int, int]) -> dict[str, Floats]:
    """Blocks (r, q, ...) of the metrics that have a finite null; the skew of a group is minus infinity when absent."""
    return {
        name: value.reshape(*shape, *value.shape[1:])
        for name, value in values.items()
        if not METRICS.get(name).from_mean_of
    }


def _random_draws(
    retrieved: Retrieved, draws: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.intp], dict[str, Floats]]]:
    """All draws of the queries whose pools have the same composition, one composition at a time."""
    recipe = retrieved.recipe
    kinds, which = np.unique(retrieved.pool_counts[retrieved.pool], axis=0, return_inverse=True)
    lengths = (retrieved.indices >= 0).sum(axis=1)
    pairs = recipe.pair is not None and not recipe.variant.of_indices
    top = retrieved.indices[:, : recipe.k] if retrieved.pair_indices is None else retrieved.pair_indices
    taken, labelled = (top >= 0).sum(axis=1), np.append(retrieved.groups.defined, False)[top].sum(axis=1)
    for number, counts in enumerate(steps(kinds)):
        queries = np.flatnonzero(which.ravel() == number)
        step = max(1, CELLS // int(len(queries) * lengths[queries].max()))
        for start in steps(range(0, draws, step)):
            rows = min(step, draws - start)
            shape = (rows, len(queries))
            ranked = _random_lists(counts, lengths[queries], rows, rng)
            block = _blocks(list_metrics(ranked, counts, recipe), shape)
            if pairs:
                some = group_counts(_random_lists(counts, labelled[queries], rows, rng), recipe.n_groups)
                block |= _blocks(pair_metrics(some, np.tile(taken[queries], rows), recipe), shape)
            yield queries, block


def _random_lists(
    pool: NDArray[np.int64], lengths: NDArray[np.int64], rows: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """(rows * q, T) labels of random rankings of a pool, as long as the lists of q queries: ``lengths`` (q,)."""
    ranked = random_rankings(pool, int(lengths.max()), rows * len(lengths), rng)
    beyond = np.arange(ranked.shape[1]) >= lengths[:, None]
    return np.where(np.tile(beyond, (rows, 1)), np.int32(-2), ranked) if beyond.any() else ranked


class _Shuffles:
    """The metrics of the ranked lists under shuffled labels."""

    def __init__(
        self, retrieved: Retrieved, sets: ArrayLike | None, strata: ArrayLike | None, links: ArrayLike | None
    ) -> None:
        self.found, recipe = retrieved, retrieved.recipe
        exchange = _exchange(retrieved, sets, strata, links)
        self.lists = _Relabelled(retrieved.indices, exchange)
        self.pairs: _Relabelled | None = None
        if recipe.pair is not None and retrieved.pair_indices is not None and not recipe.variant.of_indices:
            self.pairs = _Relabelled(retrieved.pair_indices, exchange)
        self.moves = self.lists.moves
        self.notes = self.lists.exchange.notes

    @property
    def movable(self) -> NDArray[np.bool_]:
        """(Q',) whether any label of a query's pool can move."""
        exchange, mine = self.lists.exchange, self.lists.mine
        pools = self.found.image_pool
        moving = np.zeros(len(mine), dtype=np.int64) if pools is None else pools[mine]
        return np.isin(self.found.pool, moving[exchange.movable[exchange.unit]])

    def digest(self, draws: int, seed: int) -> str:
        """The same where the same labels are shuffled alike."""
        exchange, mine = self.lists.exchange, self.lists.mine
        whole = blake2b(f"{draws} {seed} {len(self.found.groups)}".encode(), digest_size=12)
        people = np.zeros(0) if exchange.person is None else exchange.person
        for array in (mine, exchange.unit, exchange.labels.astype(np.int64), exchange.block, people):
            whole.update(np.ascontiguousarray(array).tobytes())
        return whole.hexdigest()

    def draws(self, draws: int, seed: int) -> Iterator[dict[str, Floats]]:
        """Blocks of draws of every metric, (r, Q') or (r, Q', G)."""
        retrieved, recipe = self.found, self.found.recipe
        pool = retrieved.pool_counts[retrieved.pool]
        most = max(1, CELLS // max(retrieved.indices.size, 1))
        step = max(1, min(MOST_SHUFFLES, SHUFFLED_CELLS // max(len(self.lists.exchange.labels), 1)))
        for start in steps(range(0, draws, step)):
            rows = min(step, draws - start)
            shuffled = self.lists.shuffled(rows, np.random.default_rng([seed, start, 0]))
            both = None
            if self.pairs is not None:
                both = self.pairs.shuffled(rows, np.random.default_rng([seed, start, 1]))
            for first in steps(range(0, rows, most)):
                part = slice(first, min(first + most, rows))
                shape = (part.stop - part.start, len(retrieved.queries))
                ranked = self.lists.lists(shuffled[part])
                block = _blocks(list_metrics(ranked, np.tile(pool, (shape[0], 1)), recipe), shape)
                if self.pairs is not None and both is not None:
                    every = self.pairs.lists(both[part])
                    counts, taken = group_counts(every, recipe.n_groups), (every > -2).sum(axis=1)
                    block |= _blocks(pair_metrics(counts, taken, recipe), shape)
                yield block


def _exchange(
    retrieved: Retrieved, sets: ArrayLike | None, strata: ArrayLike | None, links: ArrayLike | None
) -> tuple[Exchange, NDArray[np.int64]]:
    """Which labels of the labelled images that some query may retrieve change places, and these images' numbers."""
    n = len(retrieved.groups)
    pools = np.zeros(n, dtype=np.int64) if retrieved.image_pool is None else retrieved.image_pool
    asked = np.zeros(int(max(pools.max(initial=0), retrieved.pool.max(initial=0))) + 1, dtype=bool)
    asked[retrieved.pool] = True
    mine = np.flatnonzero(retrieved.groups.defined & (pools >= 0) & asked[pools])
    labels = retrieved.groups.labels[mine]
    if sets is None:
        return in_pools(labels, pools[mine]), mine
    level = None if strata is None else np.asarray(strata)
    if level is not None and (level.shape != (n,) or not np.issubdtype(level.dtype, np.integer)):
        raise InputError(
            f"strata has shape {level.shape} and type {level.dtype} for {n} images; give one whole number per image"
        )
    strata_of = None if level is None else level[mine].astype(np.int64)
    linked = None if links is None else keys_of(links, n, "links")[mine]
    return in_sets(labels, pools[mine], keys_of(sets, n, "sets")[mine], strata_of, linked), mine


class _Relabelled:
    """Ranked lists under shuffled labels."""

    def __init__(self, indices: NDArray[np.int32], exchange: tuple[Exchange, NDArray[np.int64]]) -> None:
        self.exchange, self.mine = exchange
        self._shuffle = LabelShuffler(self.exchange.labels, self.exchange.block, self.exchange.person)
        n_units = len(self.exchange.labels)
        place = np.full(int(max(indices.max(initial=0), self.mine.max(initial=0))) + 2, n_units)
        place[self.mine] = self.exchange.unit
        place[-1] = n_units + 1  # what -1, beyond the end of a list, reads
        self._places = place[indices]
        self.moves = bool(np.append(self.exchange.movable, [False, False])[self._places].any())
        """Whether any label in the lists can change at all."""

    def shuffled(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """(rows, U + 2) the labels of the units in ``rows`` draws, -1 for undefined images and -2 beyond a list."""
        fixed = np.tile(np.array([-1, -2], dtype=np.int32), (rows, 1))
        return np.concatenate([self._shuffle(rows, rng), fixed], axis=1)

    def lists(self, shuffled: NDArray[np.int32]) -> NDArray[np.int32]:
        """(rows * Q', T) the labels of the lists."""
        return shuffled[:, self._places].reshape(-1, self._places.shape[1])
