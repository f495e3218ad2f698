"""The mean of a value in every group, and the gap between the highest and the lowest, against shuffled labels.

One gap of means is at the bottom of many metrics: accuracy per group, preference per group, brightness per group.
Its chance level is not 0: the largest of several noisy means always differs from the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_vector
from equipoise.measure.groups import Groups
from equipoise.measure.notes import minus, no_interval
from equipoise.measure.stats import summarise
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import shuffled_labels
from equipoise.measure.stats.group_range import (
    Bounds,
    PairErrors,
    ends_of,
    mover_bounds,
    range_interval,
    size_of,
    t_bounds,
)
from equipoise.measure.stats.laws import t_quantile
from equipoise.measure.stats.permutation import with_chance
from equipoise.measure.stats.shares import independent_difference, share_bounds, share_estimate

STILL = "no label can move under chance, so that the p-value says nothing: what could exchange labels shows one group"
"""Said where every set shows one group, or clusters of two groups are never of similar size."""


@dataclass(frozen=True)
class GroupMeans:
    """One mean per group and the gap between the extreme groups."""

    by_group: Mapping[str, Estimate]
    gap: Estimate
    """Highest minus lowest group mean; chance from shuffled labels; the interval is that of the range of the true
    means, whichever groups are the extremes, and never below 0; ``None`` where the notes say why."""
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
    """Mean of ``values`` in each group, and the gap between highest and lowest.

    Chance of the gap: labels shuffled over all images of a defined group, or as ``clusters`` and ``shuffle_within``
    say. Paired data give the sets as both: labels then move inside each. The gap's interval is :func:`gap_interval`.

    Args:
        values: (n,) one number per image, finite.
        groups: the group of each image; images of an undefined group are left out and counted.
        clusters: (n,) the values of one cluster are not independent of each other: clusters exchange their labels as
            wholes (inside ``shuffle_within`` too), and a few that hold several groups inside themselves.
        shuffle_within: (n,) sets or strata; labels are shuffled only inside each.
        share: says that the values are in [0, 1], so that intervals are those of shares.
        null_value: the chance level of a single group's mean, where it has one.
        permutations: how many times labels are shuffled.
        seed: which shuffles are drawn, and which signs are flipped against ``null_value``.
        level: confidence of the intervals.

    Returns:
        The mean of each group that has images, and the gap with its chance level.

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
    estimator = share_estimate if share else summarise
    by_group = {}
    for label in kept:
        inside = groups.labels == label
        cluster = None if keys is None else keys[inside]
        by_group[groups.names[label]] = estimator(
            numbers[inside], clusters=cluster, null_value=null_value, level=level, seed=seed
        )
    means = {name: estimate.value for name, estimate in by_group.items()}
    highest, lowest = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    if highest == lowest:  # all means equal: the gap is 0 between any two
        highest, lowest = list(means)[:2]
    within = None if shuffle_within is None else np.asarray(shuffle_within)
    if within is not None and len(within) != len(numbers):
        raise InputError(f"shuffle_within has {len(within)} entries for {len(numbers)} values")
    rng = np.random.default_rng(seed)
    observed, draws, moved = _observed_and_shuffled(numbers, groups, kept, keys, within, permutations, rng)
    low, high, why = gap_interval(numbers, groups, keys, share=share, level=level)
    gap = Estimate(
        observed,
        low,
        high,
        n=int(groups.defined.sum()),
        n_groups=len(kept),
        dropped=dropped,
        notes=(minus(highest, lowest), *(() if moved else (STILL,)), *why),
        level=level,
    )
    return GroupMeans(by_group, with_chance(gap, draws, rng=rng), highest, lowest, numbers, dropped)


def gap_interval(
    values: Any, groups: Groups, clusters: Any = None, *, share: bool = False, level: float = 0.95
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Interval of highest minus lowest true mean of ``values`` (n,) over the groups, at least 0; and why there is none.

    Two groups: that of their difference, without what lies below 0 (:func:`difference_interval`, of shares
    :func:`share_difference_interval`). More: simultaneous, so that the two extremes may be chosen after looking
    (:func:`equipoise.measure.stats.group_range.range_interval`).

    >>> low, high, _ = gap_interval([5.0, 6, 7, 1, 2, 3, 4, 4, 5], Groups.from_values([*"aaabbbccc"]))
    >>> bool(0 < low < 2.4 < 4 < high < 6.5)
    True
    """
    numbers, inside = as_vector(values, "values"), groups.defined
    present, labels = np.unique(groups.labels[inside], return_inverse=True)
    keys = np.arange(len(numbers)) if clusters is None else np.asarray(clusters)
    codes = np.unique(keys[inside], return_inverse=True)[1]
    numbers = numbers[inside]
    if len(present) == 2:
        interval = share_difference_interval if share else difference_interval
        low, high, why = interval(numbers, labels == 0, None if clusters is None else codes, level=level)
        return (None, None, why) if low is None or high is None else (*size_of(low, high), ())
    pairs = PairErrors.of(numbers, labels, codes, len(present))
    if pairs.units.min() < 2:
        names = [groups.names[present[at]] for at in np.flatnonzero(pairs.units < 2)]
        return (
            None,
            None,
            (no_interval(f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} one independent unit"),),
        )
    if share:
        parts = [labels == label for label in range(len(present))]
        each = [share_bounds(numbers[mine], None if clusters is None else codes[mine]) for mine in parts]
        covariance, bounds = _share_bounds(pairs, each)
    else:
        least = 1e-12 * float(np.abs(numbers).max())
        if (pairs.error + np.eye(len(present)) <= least).any():
            return None, None, (no_interval("nothing varies between independent units of two of the groups"),)
        covariance, bounds = pairs.covariance, t_bounds(pairs.means, pairs.error, pairs.freedom)
    low, high = range_interval(pairs.means, covariance, bounds, level=level)
    return low, min(high, 1.0) if share else high, ()


def _share_bounds(
    pairs: PairErrors, by_group: Sequence[Callable[[float], tuple[float, float]]]
) -> tuple[Floats, Bounds]:
    """Covariance and bounds of shares: from the groups' own intervals where these stand apart or a group does not
    vary, t intervals where sets hold both groups and what they share cancels."""
    ends = ends_of(by_group)
    low, high = ends(1.0)
    still = np.diag(pairs.covariance) <= 1e-24
    covariance = pairs.covariance + np.diag(np.where(still, ((high - low) / 2) ** 2, 0.0))
    by_t = pairs.together & ~still[:, None] & ~still & (pairs.error > 1e-12)
    apart, paired = mover_bounds(pairs.means, ends), t_bounds(pairs.means, pairs.error, pairs.freedom)
    cancel = pairs.together & ~by_t & (pairs.error <= 1e-12) & ~still[:, None] & ~still
    if np.triu(cancel, 1).any():  # sets in which two groups always agree: their shares' own errors are on the safe side
        covariance = np.diag(np.diag(covariance))
    if not by_t.any():
        return covariance, apart
    return covariance, lambda z: np.asarray(np.where(by_t, paired(z), apart(z)))


def _observed_and_shuffled(
    values: Floats,
    groups: Groups,
    kept: list[int],
    clusters: NDArray[Any] | None,
    within: NDArray[Any] | None,
    permutations: int,
    rng: np.random.Generator,
) -> tuple[float, Floats, bool]:
    """The gap, (R,) that of shuffled labels, and whether any label moved."""
    defined = groups.defined
    place = np.full(groups.n_groups, -1)
    place[kept] = np.arange(len(kept))
    labels, numbers = place[groups.labels[defined]], values[defined]
    strata, keys = (None if given is None else given[defined] for given in (within, clusters))
    parts, moved = [], False
    for block in shuffled_labels(labels, permutations, rng, strata, keys):
        parts.append(_gaps(block, numbers, len(kept)))
        moved = moved or bool((block != labels).any())
    return float(_gaps(labels[None], numbers, len(kept))[0]), np.concatenate(parts), moved


def _gaps(labels: NDArray[Any], values: Floats, n_groups: int) -> Floats:
    """(b,) highest minus lowest group mean for each row of ``labels`` (b, n)."""
    counts = [(labels == g).sum(axis=1) for g in range(n_groups)]
    means = np.stack([((labels == g) @ values) / np.maximum(counts[g], 1) for g in range(n_groups)], axis=1)
    there = np.stack(counts, axis=1) > 0  # whole clusters that change their labels may leave a group without any
    return np.asarray(np.where(there, means, -np.inf).max(axis=1) - np.where(there, means, np.inf).min(axis=1))


def difference_interval(
    values: Any, first: Any, clusters: Any = None, *, level: float = 0.95
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Interval of the mean of ``values`` (n,) where ``first`` (n,) is true minus the mean where it is not.

    Both ends are ``None``, and a note says why, where a side lies in one of the ``clusters`` (n,) or where nothing
    varies between them. Clusters may hold values of both sides: sets with everybody, jobs with images of all groups.

    A t interval. A value moves the difference by its residual / its side's n; clusters add these up, each enlarged
    by 1 / sqrt(1 - the cluster's part of the side), which makes the variance unbiased for independent values, and t
    has Satterthwaite's degrees of freedom (Bell and McCaffrey 2002). Without clusters the error is Welch's; with one
    value of each side in every cluster it is the paired t interval.

    >>> low, high, _ = difference_interval([5.0, 6, 7, 1, 2, 3], [1, 1, 1, 0, 0, 0])
    >>> round(low, 3), round(high, 3)
    (1.733, 6.267)
    >>> difference_interval([5.0, 6, 7, 1], [1, 1, 1, 0])
    (None, None, ('no interval: one of the two groups has one independent unit',))
    """
    numbers, side = as_vector(values, "values"), np.asarray(first, dtype=bool)
    codes = np.arange(len(numbers)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    units = int(codes.max()) + 1
    moved, own, means, shared = np.zeros(units), np.zeros(units), [], []
    for sign, inside in ((1.0, side), (-1.0, ~side)):
        n = int(inside.sum())
        counts = np.bincount(codes[inside], minlength=units)
        if np.count_nonzero(counts) < 2:
            return None, None, (no_interval("one of the two groups has one independent unit"),)
        weight = 1 / (n * np.sqrt(1 - counts / n))
        mean = float(numbers[inside].mean())
        moved += sign * weight * np.bincount(codes[inside], numbers[inside] - mean, minlength=units)
        own += counts * weight**2
        means.append(mean)
        shared.append(counts * weight / np.sqrt(n))
    error = float(np.sqrt((moved**2).sum()))
    if error <= 1e-12 * float(np.abs(numbers).max()):
        return None, None, (no_interval("nothing varies between independent units"),)
    # variances and covariances of ``moved``, were the values independent: diag(own) - v v' - w w'
    v, w = shared
    trace = own.sum() - v @ v - w @ w
    square = own @ own + (v @ v) ** 2 + (w @ w) ** 2 + 2 * (v @ w) ** 2 - 2 * own @ (v**2 + w**2)
    reach = float(t_quantile(0.5 + level / 2, trace**2 / square)) * error
    return means[0] - means[1] - reach, means[0] - means[1] + reach, ()


def share_difference_interval(
    values: Any, first: Any, clusters: Any = None, *, level: float = 0.95
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """:func:`difference_interval` of two shares, ``values`` (n,) in [0, 1]; inside [-1, 1], and never without width.

    Where no cluster holds both sides, or where a side or the difference does not vary, it comes from the two shares'
    own intervals (``independent_difference``; for sets that hold both sides that is on
    the safe side, since what they share would cancel).

    >>> low, high, _ = share_difference_interval([1.0] * 40, [True] * 20 + [False] * 20)
    >>> round(low, 3), round(high, 3)
    (-0.161, 0.161)
    """
    numbers, side = as_vector(values, "values"), np.asarray(first, dtype=bool)
    keys = np.arange(len(numbers)) if clusters is None else np.asarray(clusters)
    low, high, why = difference_interval(numbers, side, keys, level=level)
    here, there = np.unique(keys[side]), np.unique(keys[~side])
    if min(len(here), len(there)) < 2:
        return None, None, why
    apart = not np.isin(here, there).any()
    if low is None or high is None or apart or np.ptp(numbers[side]) == 0 or np.ptp(numbers[~side]) == 0:
        shares = [
            share_estimate(numbers[mine], clusters=None if clusters is None else keys[mine], level=level)
            for mine in (side, ~side)
        ]
        difference = independent_difference(*shares)
        return (None, None, why) if difference is None else (*difference, ())
    return max(-1.0, low), min(1.0, high), ()
