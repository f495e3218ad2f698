"""The mean of a value in every group, and the gap between the highest and the lowest, against shuffled labels.

One gap of means is at the bottom of many metrics: accuracy per group, preference per group, brightness per group.
Its chance level is not 0: the largest of several noisy means always differs from the smallest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.arrays import Floats, as_count, as_vector, row_blocks
from equipoise.measure.estimate import Estimate
from equipoise.measure.groups import Groups
from equipoise.measure.permutation import p_values
from equipoise.measure.shares import share_estimate
from equipoise.measure.stats import summarise

__all__ = ["GroupMeans", "group_means", "kept_groups", "permuted_labels"]


@dataclass(frozen=True)
class GroupMeans:
    """A mean a group and the gap between the extreme groups."""

    by_group: Mapping[str, Estimate]
    gap: Estimate
    """Highest minus lowest group mean; chance from shuffled labels; the interval is that of the two groups
    named."""
    highest: str
    lowest: str
    values: Floats
    """(n,) the value of every item given, of a defined group or not."""
    dropped: Mapping[str, int] = field(default_factory=dict)


def kept_groups(groups: Groups, least: int) -> tuple[list[int], dict[str, int]]:
    """The labels of groups with at least ``least`` images, and what falls out: too small groups by name,
    undefined.

    >>> kept_groups(Groups.from_values(["a", "a", "b", None]), 2)
    ([0], {'undefined group': 1, "group 'b' has fewer than 2": 1})
    """
    counts = groups.counts()
    kept = [label for label in range(groups.n_groups) if counts[label] >= least]
    dropped = {"undefined group": groups.n_undefined} if groups.n_undefined else {}
    for label, name in enumerate(groups.names):
        if counts[label] < least:
            dropped[f"group {name!r} has fewer than {least}"] = int(counts[label])
    return kept, dropped


def permuted_labels(
    labels: NDArray[Any], count: int, rng: np.random.Generator, within: NDArray[Any] | None = None
) -> Iterator[NDArray[Any]]:
    """Blocks (b, n) of ``labels`` (n,) in random order, ``count`` rows in all; ``within`` (n,) keeps them in
    their set.

    >>> rng = np.random.default_rng(0)
    >>> next(permuted_labels(np.array([0, 1, 2, 3]), 5, rng, np.array([0, 0, 1, 1])))[:, :2].max()
    np.int64(1)
    """
    n = len(labels)
    sets = np.zeros(n) if within is None else np.unique(within, return_inverse=True)[1].astype(np.float64)
    by_set = np.argsort(sets, kind="stable")
    for rows in row_blocks(count, n):
        order = np.argsort(sets + rng.random((rows.stop - rows.start, n)), axis=1)
        shuffled = np.empty(order.shape, dtype=labels.dtype)
        shuffled[:, by_set] = labels[order]
        yield shuffled


def group_means(
    values: Any,
    groups: Groups,
    *,
    clusters: Any = None,
    shuffle_within: Any = None,
    share: bool = False,
    null_value: float | None = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> GroupMeans:
    """Mean of ``values`` (n,) in each group, and the gap between highest and lowest.

    Chance of the gap: labels shuffled over all images of a defined group, or only inside each set of
    ``shuffle_within`` (n,) for paired data. ``clusters`` (n,) are not independent of each other. ``share`` says
    that the values are in [0, 1]; ``null_value`` is the chance level of a single group's mean, where it has one.

    >>> found = group_means([1.0, 0.0, 1.0, 1.0], Groups.from_values(["a", "a", "b", "b"]), share=True)
    >>> found.highest, found.lowest, found.gap.value
    ('b', 'a', 0.5)
    """
    numbers = as_vector(values, "values")
    groups.check_length(len(numbers))
    as_count(permutations, "permutations")
    kept, dropped = kept_groups(groups, 1)
    if len(kept) < 2:
        raise InputError(f"a gap needs two groups with images; only {[groups.names[g] for g in kept]} have any")
    keys = None if clusters is None else np.asarray(clusters)
    if keys is not None and len(keys) != len(numbers):
        raise InputError(f"clusters has {len(keys)} entries for {len(numbers)} values")
    by_group = {}
    for label in kept:
        inside = groups.labels == label
        cluster = None if keys is None else keys[inside]
        one = share_estimate if share else summarise
        by_group[groups.names[label]] = one(
            numbers[inside], clusters=cluster, null_value=null_value, level=level, seed=seed
        )
    means = {name: estimate.value for name, estimate in by_group.items()}
    highest, lowest = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    if highest == lowest:  # all means equal: the gap is 0 between any two
        highest, lowest = list(means)[:2]
    gap = _gap_estimate(numbers, groups, kept, shuffle_within, permutations, seed, level)
    pair = [groups.index(highest), groups.index(lowest)]
    low, high = _pair_interval(numbers, groups.labels, pair, keys, level)
    gap = replace(
        gap,
        ci_low=low,
        ci_high=high,
        n=int(groups.defined.sum()),
        n_groups=len(kept),
        dropped=dropped,
        notes=(f"{highest} minus {lowest}",),
    )
    return GroupMeans(by_group, gap, highest, lowest, numbers, dropped)


def _gap_estimate(
    values: Floats, groups: Groups, kept: list[int], within: Any, permutations: int, seed: int, level: float
) -> Estimate:
    defined = groups.defined
    place = np.full(groups.n_groups, -1)
    place[kept] = np.arange(len(kept))
    labels, numbers = place[groups.labels[defined]], values[defined]
    if within is not None:
        sets = np.asarray(within)
        if len(sets) != len(values):
            raise InputError(f"shuffle_within has {len(sets)} entries for {len(values)} values")
        within = sets[defined]
    observed = float(_gaps(labels[None], numbers, len(kept))[0])
    rng = np.random.default_rng(seed)
    draws = np.concatenate(
        [_gaps(block, numbers, len(kept)) for block in permuted_labels(labels, permutations, rng, within)]
    )
    tests = p_values(observed, draws, rng=rng)
    return Estimate(
        observed,
        null_mean=float(draws.mean()),
        null_sd=float(draws.std(ddof=1)) if len(draws) > 1 else None,
        p_value=tests.value,
        p_randomised=tests.randomised,
        level=level,
    )


def _gaps(labels: NDArray[Any], values: Floats, n_groups: int) -> Floats:
    """(b,) highest minus lowest group mean for each row of ``labels`` (b, n)."""
    means = np.stack([((labels == g) @ values) / (labels == g).sum(axis=1) for g in range(n_groups)], axis=1)
    return np.asarray(means.max(axis=1) - means.min(axis=1))


def _pair_interval(
    values: Floats, labels: NDArray[Any], pair: list[int], clusters: Any, level: float
) -> tuple[float | None, float | None]:
    """t interval of the difference of two group means; clusters may hold images of both groups.

    An item moves the difference by (value - its group's mean) / its group's size; clusters add these up.
    """
    inside = np.isin(labels, pair)
    side, numbers = labels[inside] == pair[1], values[inside]
    means = [numbers[~side].mean(), numbers[side].mean()]
    influence = np.where(side, -(numbers - means[1]) / side.sum(), (numbers - means[0]) / (~side).sum())
    if clusters is not None:
        influence = np.bincount(np.unique(np.asarray(clusters)[inside], return_inverse=True)[1], influence)
    units = len(influence)
    # a lone image has no spread of its own: its group's mean would pass for certain
    if units < 3 or (clusters is None and min(side.sum(), (~side).sum()) < 2):
        return None, None
    reach = float(sps.t.ppf(0.5 + level / 2, units - 2)) * float(np.sqrt((influence**2).sum() * units / (units - 2)))
    difference = float(means[0] - means[1])
    return difference - reach, difference + reach
