"""Does retrieval work equally well for every group: recall@K, reciprocal rank and median rank by group, with the gap.

Ranks come from ``scan`` with ``targets``. The group is that of the image to be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_keys
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.notes import minus, no_interval, no_null, note, of_sources
from equipoise.measure.stats import summarise
from equipoise.measure.stats.bootstrap import no_interval_note, resampling_weights
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import keys_of, shuffled_labels
from equipoise.measure.stats.group_range import ends_of, mover_bounds, range_interval, size_of
from equipoise.measure.stats.laws import t_quantile
from equipoise.measure.stats.permutation import with_chance
from equipoise.measure.stats.shares import independent_difference, share_bounds, share_estimate
from equipoise.pace import steps

CELLS = 4_000_000
NOTHING: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class GroupGap:
    """One number per group, and the gap between the highest and the lowest."""

    by_group: Mapping[str, Estimate]
    gap: Estimate
    """Highest minus lowest. Chance: the groups' labels shuffled over the images; some gap is always there. The
    interval is that of the range over all groups, from their own intervals, and never below 0; ``None`` where one of
    these has none."""
    highest: str
    lowest: str


def recall_at_k(ranks: ArrayLike, k: int) -> Floats:
    """1 where the target is among the top ``k``, else 0.

    Args:
        ranks: (Q,) the rank of each query's target; 1 is first.
        k: the last rank that counts as found.

    Returns:
        (Q,) ones and zeros.

    >>> recall_at_k([1, 6, 3], 5).tolist()
    [1.0, 0.0, 1.0]
    """
    if k < 1:
        raise InputError(f"k = {k}: give at least 1")
    return (_ranks(ranks) <= k).astype(np.float64)


@metric(
    "recall_at_k",
    takes="ranks",
    summary="Recall@K of the queries about each group, and the gap.",
    citation="Garcia et al., Uncurated Image-Text Datasets (PHASE), CVPR 2023",
    formula="share of a group's queries whose target is among the top K; gap = highest - lowest",
    bounds=(0.0, 1.0),
    direction="higher is better; the gap should be 0",
    better="higher",
    chance="gap: above 0, from labels shuffled over images; recall: no null, K / N for a blind model",
    when_it_lies="one hit of 16 images moves it by six points; harder captions of one group look like bias",
    unit="share",
    rows={"recall_gap": {"main": 12, "alternative": "greater", "bounds": (0.0, 1.0)}},
)
def recall_by_group(
    ranks: ArrayLike,
    groups: Groups,
    k: int,
    *,
    clusters: ArrayLike | None = None,
    sources: ArrayLike | None = None,
    shuffle_within: ArrayLike | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> GroupGap:
    """Recall@K of each group's queries and the gap (as reported for PHASE, CVPR 2023).

    Args:
        ranks: (Q,) the rank of each query's target; 1 is first.
        groups: labels the queries by the group of their target.
        k: the last rank that counts as found.
        clusters: (Q,) names the target, so that its several captions are drawn and shuffled together.
        sources: (Q,) as in :func:`gap_by_group`.
        shuffle_within: (Q,) as in :func:`gap_by_group`.
        draws: how many times labels are shuffled for the chance of the gap.
        seed: which shuffles are drawn.
        level: confidence of the intervals.

    Returns:
        Recall of each group that has queries, and the gap with its chance level.

    >>> groups = Groups.from_values(["a", "a", "b", "b"])
    >>> recall_by_group([1, 2, 9, 1], groups, 1, draws=99).gap.value
    0.0
    """
    hits = recall_at_k(ranks, k)
    related = {"clusters": clusters, "sources": sources, "shuffle_within": shuffle_within}
    return gap_by_group(hits, groups, mean_of, **related, draws=draws, seed=seed, level=level)


@metric(
    "mrr",
    takes="ranks",
    summary="Mean reciprocal rank of the queries about each group, and the gap.",
    citation="Equipoise",
    formula="mean of 1 / rank of the target; gap = highest - lowest",
    range="(0, 1]",
    bounds=(0.0, 1.0),
    direction="higher is better; the gap should be 0",
    better="higher",
    chance="gap: above 0, from labels shuffled over images",
    when_it_lies="decided by the very first ranks",
    unit="share",
)
def mrr_by_group(
    ranks: ArrayLike,
    groups: Groups,
    *,
    clusters: ArrayLike | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> GroupGap:
    """Mean reciprocal rank of each group's queries and the gap.

    Args:
        ranks: (Q,) the rank of each query's target; 1 is first.
        groups: labels the queries by the group of their target.
        clusters: (Q,) names the target, so that its several captions are drawn and shuffled together.
        draws: how many times labels are shuffled for the chance of the gap.
        seed: which shuffles are drawn.
        level: confidence of the intervals.

    Returns:
        The mean of each group that has queries, and the gap with its chance level.

    >>> groups = Groups.from_values(["a", "a", "b", "b"])
    >>> mrr_by_group([1, 2, 4, 4], groups, draws=99).by_group["b"].value
    0.25
    """
    inverse = 1.0 / _ranks(ranks)
    return gap_by_group(inverse, groups, mean_of, clusters=clusters, draws=draws, seed=seed, level=level)


@metric(
    "median_rank",
    takes="ranks",
    summary="Median rank of the targets of each group, and the gap.",
    citation="Equipoise",
    formula="median of the rank of the target; gap = highest - lowest",
    range="1 to N",
    direction="lower is better; the gap should be 0",
    better="lower",
    chance="gap: above 0, from labels shuffled over images; about N / 2 for a blind model",
    when_it_lies="depends on N: never compare pools of different size",
    unit="ranks",
)
def median_rank_by_group(
    ranks: ArrayLike,
    groups: Groups,
    *,
    clusters: ArrayLike | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> GroupGap:
    """Median rank of each group's queries and the gap; lower is better.

    Args:
        ranks: (Q,) the rank of each query's target; 1 is first.
        groups: labels the queries by the group of their target.
        clusters: (Q,) names the target, so that its several captions are drawn and shuffled together.
        draws: how many shuffles for the chance of the gap, and resamples for each group's interval.
        seed: which shuffles and resamples are drawn.
        level: confidence of the intervals.

    Returns:
        The median of each group that has queries, and the gap with its chance level.

    >>> groups = Groups.from_values(["a", "a", "a", "b"])
    >>> median_rank_by_group([1, 2, 40, 7], groups, draws=99).by_group["a"].value
    2.0
    """
    given = _ranks(ranks)
    return gap_by_group(given, groups, median_of, clusters=clusters, draws=draws, seed=seed, level=level)


def _ranks(ranks: ArrayLike) -> Floats:
    given = np.asarray(ranks, dtype=np.float64)
    if given.ndim != 1 or given.size == 0:
        raise InputError(f"ranks has shape {given.shape}; give one rank per query")
    if not (given >= 1).all():
        raise InputError(f"ranks[{int(np.argmin(given >= 1))}] is below 1; the first rank is 1")
    return given


Statistic = Callable[[Floats, Floats], Floats]
"""From values (Q,), rising, and weights (B, Q) to one number per row (B,)."""


def mean_of(values: Floats, weights: Floats) -> Floats:
    """Weighted means (B,); NaN where a row has no weight.

    >>> mean_of(np.array([1.0, 3.0]), np.array([[1.0, 1.0], [0.0, 2.0]])).tolist()
    [2.0, 3.0]
    """
    total = weights.sum(axis=1)
    return np.asarray(np.where(total > 0, weights @ values, np.nan) / np.where(total > 0, total, 1.0))


def median_of(values: Floats, weights: Floats) -> Floats:
    """Medians (B,) of rising ``values`` repeated ``weights`` times; NaN where a row has no weight.

    >>> median_of(np.array([1.0, 2.0, 9.0]), np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])).tolist()
    [1.5, 2.0]
    """
    running = np.cumsum(weights, axis=1)
    total = running[:, -1:]
    lower = (running < (total + 1) // 2).sum(axis=1)
    upper = (running < (total + 2) // 2).sum(axis=1)
    last = len(values) - 1
    middle = (values[np.minimum(lower, last)] + values[np.minimum(upper, last)]) / 2
    return np.asarray(np.where(total[:, 0] > 0, middle, np.nan))


def gap_by_group(
    values: ArrayLike,
    groups: Groups,
    statistic: Statistic = mean_of,
    *,
    clusters: ArrayLike | None = None,
    sources: ArrayLike | None = None,
    shuffle_within: ArrayLike | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> GroupGap:
    """``statistic`` of the values of each group, and highest minus lowest, against shuffled labels.

    A mean of values in [0, 1] has the interval of ``share_estimate`` over clusters, other means a t interval, anything
    else quantiles of the cluster bootstrap. A group in one cluster has none, nor has a median of so few clusters that
    even their whole range would miss it too often (fewer than 6 at 95%), nor one that is the same in all draws: an
    interval without width would pass for certainty.

    Args:
        values: (Q,) one number per query.
        groups: labels the queries; those of an undefined group are left out and counted.
        statistic: from rising values (Q,) and weights (B, Q), how often each counts, to one number per row (B,).
        clusters: (Q,) queries with one key, all of one group, are drawn and shuffled together.
        sources: (Q,) names what clusters share, such as a person or a counterfactual set: intervals are over sources.
        shuffle_within: (Q,) cells inside which labels move; without them sources exchange their labels as wholes.
        draws: how many shuffles, and resamples where the interval is a bootstrap's.
        seed: which shuffles and resamples are drawn.
        level: confidence of the intervals.

    Returns:
        The number of each group that has queries, and the gap with its chance level.
    """
    as_count(draws, "draws")
    given = np.asarray(values, dtype=np.float64)
    groups.check_length(len(given))
    data = _Sorted.of(given, groups, clusters, sources, shuffle_within)
    counts = np.bincount(data.labels, minlength=groups.n_groups)
    kept = np.flatnonzero(counts)
    if len(kept) < 2:
        raise InputError(f"a gap needs two groups with queries; only {[groups.names[g] for g in kept]} have any")
    rng = np.random.default_rng(seed)
    names = [groups.names[g] for g in kept]
    by_group = {groups.names[g]: data.estimate(statistic, int(g), draws, rng, level) for g in kept}
    observed = np.array([by_group[name].value for name in names])
    high, low = int(np.argmax(observed)), int(np.argmin(observed))
    if high == low:
        low = 1
    null = data.shuffled_gaps(statistic, kept, draws, rng)
    absent = ", ".join(groups.names[g] for g in range(groups.n_groups) if g not in kept)
    missing = (note("no_queries", groups=absent),) if absent else ()
    without = [no_interval(f"{name} has none") for name in names if by_group[name].ci_low is None]
    interval = NOTHING if without else data.gap_interval(statistic, kept, list(by_group.values()), level)
    gap = Estimate(
        float(observed[high] - observed[low]),
        *interval,
        n=int(counts.sum()),
        n_groups=len(kept),
        dropped={"query of an undefined group": groups.n_undefined},
        notes=(minus(names[high], names[low]), *of_sources(data.sources), *missing, *without),
        level=level,
    )
    return GroupGap(by_group, with_chance(gap, null, ddof=0, rng=rng), names[high], names[low])


def _interval(
    statistic: Statistic,
    values: Floats,
    keys: NDArray[np.intp],
    draws: int,
    rng: np.random.Generator,
    level: float,
    shares: bool,
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Interval of ``statistic`` of rising ``values`` over the clusters ``keys``, and why there is none."""
    units = int(keys.max()) + 1
    if units < 2:
        return None, None, (no_interval_note(values, keys),)
    if shares:
        estimate = share_estimate(values, clusters=None if units == len(values) else keys, level=level)
        return estimate.ci_low, estimate.ci_high, ()
    if statistic is mean_of:
        mean = summarise(values, clusters=keys, level=level)
        return mean.ci_low, mean.ci_high, mean.notes
    if 2 * 0.5**units > 1 - level:
        return None, None, (no_interval(f"{units} independent units are too few for one of {level:.0%}"),)
    blocks = resampling_weights(units, draws, rng, chunk=CELLS)
    drawn = np.concatenate([statistic(values, block[:, keys]) for block in blocks])
    low, high = np.quantile(drawn, (0.5 - level / 2, 0.5 + level / 2))
    if low == high:
        return None, None, (no_interval(f"the draws of {units} independent units all give {low:g}"),)
    return float(low), float(high), ()


@dataclass(frozen=True)
class _Sorted:
    """Values in rising order, with the group, the cluster and the source of each."""

    values: Floats
    labels: NDArray[np.int64]
    clusters: NDArray[np.int64]
    cluster_labels: NDArray[np.int64]
    sources: NDArray[np.int64]
    cluster_sources: NDArray[np.int64] | None
    """The source of each cluster; ``None``: every cluster is one."""
    cluster_cells: NDArray[np.int64] | None
    """Inside which each cluster's label may move; ``None``: sources exchange theirs as wholes."""

    @classmethod
    def of(
        cls,
        values: Floats,
        groups: Groups,
        clusters: ArrayLike | None,
        sources: ArrayLike | None,
        shuffle_within: ArrayLike | None,
    ) -> _Sorted:
        keys = np.arange(len(values)) if clusters is None else as_keys(clusters, "clusters", len(values), "value")
        order = np.argsort(values, kind="stable")
        order = order[groups.defined[order]]
        if order.size == 0:
            raise InputError("groups: no query has a group")
        names, codes = np.unique(keys[order], return_inverse=True)
        labels = groups.labels[order].astype(np.int64)

        def of_clusters(given: NDArray[np.int64], what: str) -> NDArray[np.int64]:
            """What all queries of each cluster have in common."""
            common = np.zeros(len(names), dtype=np.int64)
            common[codes] = given
            mixed = common[codes] != given
            if mixed.any():
                raise InputError(f"clusters: {names[codes[np.argmax(mixed)]]!r} holds queries of two {what}")
            return common

        source = None if sources is None else keys_of(sources, len(values), "sources")[order]
        cell = None if shuffle_within is None else keys_of(shuffle_within, len(values), "shuffle_within")[order]
        return cls(
            values[order],
            labels,
            codes.astype(np.int64),
            of_clusters(labels, "groups"),
            codes.astype(np.int64) if source is None else source,
            None if source is None else of_clusters(source, "sources"),
            None if cell is None else of_clusters(cell, "cells of shuffle_within"),
        )

    def estimate(
        self, statistic: Statistic, group: int, draws: int, rng: np.random.Generator, level: float
    ) -> Estimate:
        """One group's number with its interval over clusters, or a note that says why there is none."""
        mine = self.labels == group
        values, keys = self.values[mine], np.unique(self.sources[mine], return_inverse=True)[1]
        value = float(statistic(values, np.ones((1, len(values))))[0])
        low, high, why = _interval(statistic, values, keys, draws, rng, level, self.are_shares(statistic))
        notes = (no_null("quality of one group"), *of_sources(keys), *why)
        return Estimate(value, low, high, n=len(values), notes=notes, level=level)

    def gap_interval(
        self, statistic: Statistic, kept: NDArray[np.intp], estimates: list[Estimate], level: float
    ) -> tuple[float, float]:
        """Interval of the range of the true values from the groups' own intervals."""
        if len(estimates) == 2:
            return size_of(*(independent_difference(estimates[0], estimates[1]) or (0.0, np.inf)))
        values = np.array([estimate.value for estimate in estimates])
        pairs = zip(kept, estimates, strict=True)
        ends = ends_of([self.bounds(statistic, int(g), estimate) for g, estimate in pairs])
        low, high = ends(1.0)
        error = (high - low) / 2
        shortest, longest = range_interval(values, np.diag(error**2), mover_bounds(values, ends), level=level)
        return shortest, min(longest, 1.0) if self.are_shares(statistic) else longest

    def are_shares(self, statistic: Statistic) -> bool:
        """Whether the groups' numbers are means of values in [0, 1]."""
        return statistic is mean_of and float(self.values[0]) >= 0 and float(self.values[-1]) <= 1

    def bounds(self, statistic: Statistic, group: int, estimate: Estimate) -> Callable[[float], tuple[float, float]]:
        """One group's interval as a function of its level."""
        mine = self.labels == group
        values, keys = self.values[mine], np.unique(self.sources[mine], return_inverse=True)[1]
        alone = int(keys.max()) + 1 == len(values)
        if self.are_shares(statistic):
            return share_bounds(values, None if alone else keys)
        low, high = float(estimate.ci_low or 0.0), float(estimate.ci_high or 0.0)
        freedom = int(keys.max()) if statistic is mean_of else np.inf
        full = float(t_quantile(0.5 + estimate.level / 2, freedom))

        def stretched(level: float) -> tuple[float, float]:
            part = float(t_quantile(0.5 + level / 2, freedom)) / full
            return estimate.value - (estimate.value - low) * part, estimate.value + (high - estimate.value) * part

        return stretched

    def shuffled_gaps(
        self, statistic: Statistic, kept: NDArray[np.intp], draws: int, rng: np.random.Generator
    ) -> Floats:
        step = max(1, CELLS // len(self.values))
        parts = []
        for start in steps(range(0, draws, step)):
            for block in self.shuffled(min(step, draws - start), rng):
                labels = block[:, self.clusters]
                each = [statistic(self.values, (labels == group).astype(np.float64)) for group in kept]
                parts.append(np.max(each, axis=0) - np.min(each, axis=0))
        return np.concatenate(parts)

    def shuffled(self, draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Blocks (r, clusters) of their labels in random order, ``draws`` rows in all."""
        if self.cluster_sources is None and self.cluster_cells is None:
            yield rng.permuted(np.tile(self.cluster_labels, (draws, 1)), axis=1)
        else:
            yield from shuffled_labels(self.cluster_labels, draws, rng, self.cluster_cells, self.cluster_sources)
