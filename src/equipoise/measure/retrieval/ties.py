"""Ties shared out: what each rank holds on average when equal scores are put in random order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from equipoise.array_types import Codes, Flags, Floats
from equipoise.errors import InputError
from equipoise.measure.retrieval.lists import Lists, Recipe, values_of
from equipoise.measure.retrieval.order import attention, shortfalls_of
from equipoise.measure.retrieval.topk import Ranking


def expected_places(ranking: Ranking, labels: Codes, n_groups: int) -> Floats:
    """(Q, T, G + 1) the share of each group at each rank; column 0 is undefined images, 0 beyond a short list.

    Images with equal scores share their ranks evenly, including those that tie with the last rank but did not fit:
    the ranking must count these by label + 1 (``Want.codes``).

    >>> from equipoise.measure.retrieval.sources import Scores
    >>> from equipoise.measure.retrieval.topk import Want, scan
    >>> labels = np.array([0, 1, 1], dtype=np.int32)
    >>> found = scan(Scores([[0.5, 0.5, 0.5]]), [Want(2, codes=labels + 1)]).rankings[0]
    >>> expected_places(found, labels, 2)[0, :, 1].round(3).tolist()
    [0.333, 0.333]
    """
    n_queries, length = ranking.indices.shape
    there = ranking.indices >= 0
    starts = np.ones((n_queries, length), dtype=bool)
    starts[:, 1:] = ranking.scores[:, 1:] != ranking.scores[:, :-1]
    run = np.cumsum(starts, axis=1) - 1 + np.arange(n_queries)[:, None] * length
    codes = np.where(there, ranking.labels(labels) + 1, 0)
    holds = np.zeros((n_queries * length, n_groups + 1))
    np.add.at(holds, (run[there], codes[there]), 1.0)
    full = ranking.lengths == length
    last = run[full, -1]
    holds[last, : ranking.left_out.shape[1]] += ranking.left_out[full]
    shares = holds / np.maximum(holds.sum(axis=1, keepdims=True), 1.0)
    return np.asarray(np.where(there[..., None], shares[run], 0.0))


def expected_counts(ranking: Ranking, labels: Codes, n_groups: int, k: int) -> Floats:
    """(Q, G) expected counts of each group among the top ``k``, ties shared out."""
    parts = [places[:, :k, 1:].sum(axis=1) for places in _in_parts(ranking, labels, n_groups)]
    return np.concatenate(parts)


class SharedLists(Lists):
    """Lists whose ranks hold shares (M, T, G) of the groups: images with equal scores share their ranks evenly."""

    def __init__(
        self, places: Floats, lengths: NDArray[np.int64], pool_counts: NDArray[np.int64], recipe: Recipe
    ) -> None:
        super().__init__(np.zeros((len(places), 0), dtype=np.int32), pool_counts, recipe)
        self._places = places
        self._there: Flags = np.arange(places.shape[1]) < lengths[:, None]
        self._lengths = lengths

    @cached_property
    def counts(self) -> Floats:
        """(M, G) expected counts among the top K."""
        return np.asarray(self._places[:, : self.recipe.k].sum(axis=1))

    @cached_property
    def taken(self) -> NDArray[np.int64]:
        """(M,) how many images the top K has."""
        return np.asarray(np.minimum(self._lengths, self.recipe.k))

    @cached_property
    def exposures(self) -> Floats:
        """(M, G) the expected share of attention that each group gets."""
        top = self._places[:, : self.recipe.k]
        weights = attention(top.shape[1], self.recipe.attention)
        weights = np.where(self._there[:, : self.recipe.k], weights, 0.0)
        return np.asarray(np.einsum("qt,qtg->qg", weights, top) / weights.sum(axis=1, keepdims=True))

    @cached_property
    def divergences(self) -> tuple[Floats, Flags]:
        """(M, T) of every prefix's expected shares from the desired ones."""
        prefix = np.cumsum(self._places[:, : self.recipe.depth], axis=1)
        lost = (self.desired <= 0) & (prefix[:, -1] > 0)
        if lost.any():
            group = int(np.argwhere(lost)[0][1])
            raise InputError(
                f"desired gives group {group} the share 0 but it was retrieved; its divergence is infinite"
            )
        share = prefix / np.maximum(prefix.sum(axis=2, keepdims=True), 1e-12)
        ratio = np.where(self.desired > 0, self.desired, 1.0)[:, None, :]
        there = self._there[:, : self.recipe.depth]
        return np.where(there, xlogy(share, share / ratio).sum(axis=2), 0.0), there

    @cached_property
    def shortfalls(self) -> tuple[Floats, Floats]:
        """(M,) prefixes, and pairs of prefix and group, whose expected number falls short of what is due."""
        prefix = np.cumsum(self._places[:, : self.recipe.k], axis=1)
        return shortfalls_of(lambda group: prefix[..., group], self._there[:, : self.recipe.k], self.desired)


def refuse_without_ties(recipe: Recipe) -> None:
    """Refuse, by name, metrics that have no form for shared ties."""
    own = (*recipe.variant.own, *recipe.variant.of_indices)
    without = [metric.name for metric in recipe.metrics if not metric.shares_ties or metric.name in own]
    if without:
        raise InputError(
            f"no form for shared ties: {', '.join(without)}; name other metrics, or break ties by tie_order"
        )


def expected_list_metrics(
    ranking: Ranking, labels: Codes, pool_counts: NDArray[np.int64], recipe: Recipe
) -> tuple[dict[str, Floats], Floats | None]:
    """The metrics of ``list_metrics`` from expected counts and expected exposure, and the summed divergences (T,)."""
    parts: list[dict[str, Floats]] = []
    curves: list[Floats] = []
    start = 0
    for places in _in_parts(ranking, labels, recipe.n_groups):
        rows = slice(start, start + len(places))
        start = rows.stop
        lists = SharedLists(places[..., 1:], ranking.lengths[rows], pool_counts[rows], recipe)
        parts.append(values_of(lists, recipe.of(pair=False)))
        if recipe.looks_deep:
            curves.append(lists.divergences[0].sum(axis=0))
    by_metric = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return by_metric, np.sum(curves, axis=0) if curves else None


def _in_parts(ranking: Ranking, labels: Codes, n_groups: int) -> Iterator[Floats]:
    """The expected places of a few queries at a time: they are T times G numbers each."""
    step = max(1, 4_000_000 // max(1, ranking.indices.shape[1] * (n_groups + 1)))
    for start in range(0, len(ranking.indices), step):
        yield expected_places(ranking.some(slice(start, start + step)), labels, n_groups)
