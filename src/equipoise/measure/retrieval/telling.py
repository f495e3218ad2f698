"""Which queries can show anything: those whose pool could have been ranked so that a metric had another value.

A pool no larger than K, or of one group, gives the same value whatever the model does: it says nothing and is left
out. A query that happens to rank whole counterfactual sets first has the same value whichever way labels fall inside
these sets, and that is an outcome: it shows parity, and counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Flags, Floats
from equipoise.measure.metric import METRICS
from equipoise.measure.retrieval.blocks import group_counts
from equipoise.measure.retrieval.chance import Chance
from equipoise.measure.retrieval.evaluate import Retrieved
from equipoise.measure.retrieval.lists import Recipe, list_metrics, pair_metrics

SMALL = 1e-6


class Telling:
    """The queries of a result that can show something, for each metric, under one null."""

    def __init__(self, found: Retrieved, null: Chance | None) -> None:
        self.found, self.null = found, null
        self._differs: dict[int, dict[str, Flags]] = {}
        """By pool, as far as it was asked for: few pools have queries that hold still."""

    def queries(self, name: str, place: int | None = None) -> Flags:
        """(Q',) the queries that the mean of a metric (of the group at ``place``) is taken over."""
        found, null = self.found, self.null
        if null is None or name not in null.mean:
            return ~found.all_equal
        at = column(place)
        values = found.values[name] if place is None else found.by_group[name][at]
        tells = (null.sd[name][at] > SMALL) | (np.abs(values - null.mean[name][at]) > SMALL)
        movable = np.ones(len(tells), dtype=bool) if null.movable is None else null.movable
        for query in np.flatnonzero(~tells & movable & ~found.all_equal):
            differs = self._pool(int(found.pool[query]))[name]
            tells[query] = differs if place is None else differs[place]
        if METRICS.get(name).takes == "pair":
            # nobody with a group among the top K is an outcome, of value 0, though no shuffle of labels changes it
            tells |= _varies_with_undefined(found)
        return np.asarray(tells & ~found.all_equal)

    def _pool(self, pool: int) -> dict[str, Flags]:
        if pool not in self._differs:
            self._differs[pool] = _differs(self.found.pool_counts[pool], self.found.recipe)
        return self._differs[pool]

    def draws(self, name: str, place: int | None = None) -> Floats:
        """(R,) the mean over these queries in each draw of the null."""
        assert self.null is not None
        at, counted, tells = column(place), ~self.found.all_equal, self.queries(name, place)
        # a silent query has the same value in every draw, so that its part can be taken out of the mean
        rest = self.null.mean[name][at][counted & ~tells].sum()
        return np.asarray((self.null.suite[name][at] * counted.sum() - rest) / tells.sum())


def column(place: int | None) -> Any:
    """The index of one group's column; of all there is for a metric that is not by group."""
    return slice(None) if place is None else (slice(None), place)


def _differs(counts: NDArray[np.int64], recipe: Recipe) -> dict[str, Flags]:
    """() or (G,) of every metric: whether other rankings of a pool of ``counts`` (G,) give other values."""
    length = recipe.k if recipe.extended else max(recipe.k, recipe.depth)
    lists = extreme_lists(counts, min(length, int(counts.sum())))
    values = list_metrics(lists, counts, recipe)
    if recipe.pair is not None:
        top = lists[:, : recipe.k]
        values |= pair_metrics(group_counts(top, recipe.n_groups), (top >= 0).sum(axis=1), recipe)
    with np.errstate(invalid="ignore"):  # the skew of an absent group is minus infinity; it is no mean of its own
        return {name: np.asarray(np.ptp(value, axis=0) > SMALL) for name, value in values.items()}


def extreme_lists(counts: NDArray[np.int64], length: int) -> NDArray[np.int32]:
    """(M, length) rankings of a pool that are unlike: for each group one that puts it first, and one by turns.

    >>> extreme_lists(np.array([2, 0, 1]), 2).tolist()
    [[0, 0], [2, 0], [0, 2]]
    """
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    turn = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    orders = [np.argsort(labels != group, kind="stable") for group in np.flatnonzero(counts)]
    return np.stack([labels[order][:length] for order in (*orders, np.argsort(turn, kind="stable"))])


def _varies_with_undefined(found: Retrieved) -> Flags:
    """(Q,) whether Bias@K depends on which images of the pool, some without a group, are among the top K."""
    assert found.recipe.pair is not None
    missing = ~found.groups.defined
    pools = np.zeros(len(missing), dtype=np.int64) if found.image_pool is None else found.image_pool
    by_pool = np.bincount(pools[missing & (pools >= 0)], minlength=len(found.pool_counts))
    counts, undefined = found.pool_counts[found.pool], by_pool[found.pool]
    pair = counts[:, list(found.recipe.pair)]
    others = counts.sum(axis=1) + undefined - pair.sum(axis=1)
    k = found.recipe.k
    both, one = (pair > 0).all(axis=1), (pair > 0).any(axis=1)
    larger = pair.sum(axis=1) + others > k
    return np.asarray((undefined > 0) & larger & (both | (one & (others >= k))))
