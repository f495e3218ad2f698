"""Estimates of shares (values between 0 and 1) and of smooth statistics: the intervals a plain mean does not give.

A share of 20 hits in 20 is not certain: its bootstrap or t interval would be [1, 1]. Plain yes/no values get
Wilson's interval and an exact binomial test; clustered or fractional ones the exact interval of as many independent
yes/no values as would be as certain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats as sps

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_vector
from equipoise.measure.metric import Alternative
from equipoise.measure.notes import no_interval
from equipoise.measure.stats import summarise
from equipoise.measure.stats.bootstrap import ClusterSums, IntervalMethod, cluster_sums, has_spread, mean_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.laws import beta_below, beta_quantile, normal_above, normal_quantile, t_quantile


@dataclass(frozen=True)
class ItemScores:
    """One value per item, and their mean with its interval.

    >>> ItemScores.of(np.array([1.0, 2.0, 3.0])).estimate
    2 [-0.4841, 4.484] n = 3
    """

    values: Floats
    estimate: Estimate
    kept: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Which of the items given have a value; ``values`` holds only those."""

    @classmethod
    def of(
        cls,
        values: Floats,
        *,
        clusters: ArrayLike | None = None,
        kept: NDArray[np.bool_] | None = None,
        level: float = 0.95,
        dropped: Mapping[str, int] | None = None,
        notes: tuple[str, ...] = (),
    ) -> ItemScores:
        """The mean of ``values`` (n,) with a t interval, over ``clusters`` of values that are not independent."""
        estimate = summarise(values, clusters=clusters, level=level, dropped=dropped, notes=notes)
        return cls(values, estimate, np.ones(len(values), dtype=bool) if kept is None else kept)


def wilson_interval(hits: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share ``hits / n`` (Wilson 1927); never empty, never outside [0, 1].

    >>> [round(x, 3) for x in wilson_interval(20, 20)]
    [0.839, 1.0]
    """
    if n < 1 or not 0 <= hits <= n:
        raise InputError(f"a share needs 0 <= hits <= n and n >= 1, not hits = {hits}, n = {n}")
    z = float(normal_quantile(0.5 + level / 2))
    share, scale = hits / n, 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    reach = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / scale
    # the interval contains the share itself; rounding must not say otherwise at 0 and 1
    return min(share, max(0.0, float(centre - reach))), max(share, min(1.0, float(centre + reach)))


def _exact_interval(share: float, n: float, level: float) -> tuple[float, float]:
    tail, hits = (1 - level) / 2, share * n
    low = float(beta_quantile(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(beta_quantile(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high


def share_interval(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    method: IntervalMethod = "t",
    seed: int = 0,
) -> tuple[float, float] | None:
    """Interval inside [0, 1] for the mean of ``values`` (n,) in [0, 1]; ``None`` with fewer than two clusters.

    Clopper and Pearson's with the number of independent yes/no values that would be as certain in place of n (Korn and
    Graubard 1998): p (1 - p) / se² times (z / t)², se the cluster-robust standard error, t that of C - 1 degrees of
    freedom. Another ``method`` of :func:`equipoise.measure.stats.mean_interval` is cut at 0 and 1; where it gives no
    interval, this one is taken. Where all clusters have the same mean, se says nothing: each cluster then counts as one
    value (nothing in [0, 1] spreads more; unequal clusters as (sum of sizes)² / sum of squared sizes, Kish 1965). It is
    still too narrow where a few clusters hold nearly all that is rare.

    >>> [round(x, 3) for x in share_interval([1.0] * 40, clusters=np.repeat(np.arange(4), 10))]
    [0.398, 1.0]
    """
    sums = cluster_sums(values, clusters)
    if len(sums.sizes) < 2:
        return None
    if method != "t" and has_spread(sums):
        interval = mean_interval(values, clusters=clusters, level=level, method=method, seed=seed)
        if interval is not None:
            return max(0.0, interval[0]), min(1.0, interval[1])
    return ClusteredShare.of(sums).interval(level)


@dataclass(frozen=True)
class ClusteredShare:
    """All that the interval of a share needs, at any level: :func:`share_interval`."""

    mean: float
    error: float
    units: int
    alike: float
    """The number of values that clusters without any spread count as."""

    @classmethod
    def of(cls, sums: ClusterSums) -> ClusteredShare:
        """From the sums of at least two clusters."""
        error = float(sums.standard_error[0]) if has_spread(sums) else 0.0
        alike = float(sums.sizes.sum() ** 2 / (sums.sizes**2).sum())
        return cls(min(1.0, max(0.0, float(sums.mean[0]))), error, len(sums.sizes), alike)

    def interval(self, level: float) -> tuple[float, float]:
        """The interval at this level."""
        if not self.error:
            return _exact_interval(self.mean, self.alike, level)
        upper = 0.5 + level / 2
        reach = float(t_quantile(upper, self.units - 1) / normal_quantile(upper)) * self.error
        return _exact_interval(self.mean, self.mean * (1 - self.mean) / reach**2, level)

    def p_value(self, null_value: float, alternative: Alternative) -> float:
        """Exact binomial p-value of as many independent yes/no values as would be as certain; two-sided: doubled."""
        n = self.mean * (1 - self.mean) / self.error**2 if self.error else self.alike
        hits = self.mean * n
        above = float(beta_below(null_value, hits, n - hits + 1)) if hits > 0 else 1.0
        below = float(beta_below(1 - null_value, n - hits, hits + 1)) if hits < n else 1.0
        tails = {"greater": above, "less": below, "two-sided": 2 * min(above, below)}
        return min(1.0, tails[alternative])


def share_bounds(values: ArrayLike, clusters: ArrayLike | None = None) -> Callable[[float], tuple[float, float]]:
    """The interval of :func:`share_estimate` as a function of its level, for values of two clusters or more.

    >>> [round(x, 3) for x in share_bounds([1.0] * 20)(0.95)]
    [0.839, 1.0]
    """
    given = as_vector(values, "values")
    if clusters is None and np.isin(given, (0.0, 1.0)).all():
        return lambda level: wilson_interval(float(given.sum()), len(given), level=level)
    return ClusteredShare.of(cluster_sums(given, clusters)).interval


def independent_difference(first: Estimate, second: Estimate) -> tuple[float, float] | None:
    """Interval of ``first`` minus ``second``, two independent estimates, from their own intervals; else ``None``.

    Each end is as far from the difference as the two intervals' ends are from their values, squared and added
    (Newcombe 1998, method 10, for shares; Zou and Donner 2008). Unlike a t interval it has a width where both
    shares are 1.

    >>> sure = share_estimate([1] * 20)
    >>> [round(x, 3) for x in independent_difference(sure, sure)]
    [-0.161, 0.161]
    """
    if first.ci_low is None or first.ci_high is None or second.ci_low is None or second.ci_high is None:
        return None
    value = first.value - second.value
    below = np.hypot(first.value - first.ci_low, second.ci_high - second.value)
    above = np.hypot(first.ci_high - first.value, second.value - second.ci_low)
    return float(value - below), float(value + above)


def share_estimate(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    null_value: float | None = None,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    method: IntervalMethod = "t",
    n_groups: int | None = None,
    dropped: Mapping[str, int] | None = None,
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> Estimate:
    """The mean of ``values`` (n,) in [0, 1] with an interval inside [0, 1] and, given ``null_value``, a p-value.

    Values that are all 0 or 1, without clusters: Wilson interval and exact binomial test. Otherwise:
    :func:`share_interval` (``method`` as there), and sign flips of whole clusters. Where chance is small for so few
    clusters, most miss by chance and their signs agree: there the p-value is at least the exact one of as many
    independent yes/no values.

    >>> share_estimate([1, 1, 1, 0], null_value=0.5)
    0.75 [0.3006, 0.9544] chance 0.5 ± 0.25, excess +0.25, p = 0.62, n = 4
    """
    given = as_vector(values, "values")
    outside = np.flatnonzero((given < 0) | (given > 1))
    if len(outside):
        raise InputError(f"values[{outside[0]}] = {given[outside[0]]}: a share is between 0 and 1")
    if clusters is None and np.isin(given, (0.0, 1.0)).all():
        n, hits = len(given), int(given.sum())
        low, high = wilson_interval(hits, n, level=level)
        binary = Estimate(
            hits / n, low, high, n=n, n_groups=n_groups, dropped=dict(dropped or {}), notes=notes, level=level
        )
        if null_value is None:
            return binary
        exact = min(1.0, float(sps.binomtest(hits, n, null_value, alternative=alternative).pvalue))
        null_sd = float(np.sqrt(null_value * (1 - null_value) / n))
        return replace(binary, null_mean=null_value, null_sd=null_sd, p_value=exact)
    interval = share_interval(given, clusters=clusters, level=level, method=method, seed=seed)
    estimate = summarise(
        given,
        clusters=clusters,
        null_value=null_value,
        alternative=alternative,
        level=level,
        method=method,
        n_groups=n_groups,
        dropped=dropped,
        notes=notes,
        seed=seed,
    )
    if interval is None:
        return estimate
    p_value = estimate.p_value
    if null_value is not None and p_value is not None:
        share = ClusteredShare.of(cluster_sums(given, clusters))
        if _is_skewed(null_value, share.units):
            p_value = max(p_value, share.p_value(null_value, alternative))
    return replace(estimate, ci_low=interval[0], ci_high=interval[1], p_value=p_value, notes=notes)


def _is_skewed(chance: float, n: int) -> bool:
    """Whether the mean of ``n`` yes/no values with this chance is too skewed for flips of signs (skewness above 1/2).

    >>> _is_skewed(0.5, 6), _is_skewed(0.1, 40), _is_skewed(0.02, 40)
    (False, False, True)
    """
    return abs(1 - 2 * chance) > 0.5 * float(np.sqrt(n * chance * (1 - chance)))


def normal_estimate(
    value: float,
    error: float,
    n: int,
    *,
    null_mean: float | None = None,
    level: float = 0.95,
    least: float = -np.inf,
    most: float = np.inf,
    dropped: Mapping[str, int] | None = None,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """An estimate whose interval is value ± z * ``error``, cut at the metric's own range.

    For smooth statistics of many items whose standard error comes from a jackknife or a delta method.

    >>> normal_estimate(1.0, 0.1, 50, least=0.9)
    1 [0.9, 1.196] n = 50
    """
    reach = float(normal_quantile(0.5 + level / 2)) * error
    low, high = max(least, value - reach), min(most, value + reach)
    return Estimate(value, low, high, null_mean=null_mean, n=n, dropped=dict(dropped or {}), notes=notes, level=level)


def jackknife_error(*left_out: Floats) -> float:
    """Standard error from the values with one item left out, (n,) for each independent sample (Efron 1982).

    Each sample adds (n - 1) / n * sum (theta_i - mean theta)^2 to the variance.

    >>> x = np.array([1.0, 2.0, 4.0])
    >>> bool(np.isclose(jackknife_error((x.sum() - x) / 2), x.std(ddof=1) / np.sqrt(3)))
    True
    """
    variance = sum((len(v) - 1) / len(v) * float(((v - v.mean()) ** 2).sum()) for v in left_out)
    return float(np.sqrt(variance))


def placements(higher: Floats, lower: Floats) -> tuple[Floats, Floats]:
    """For each of ``higher`` (n,) the share of ``lower`` (m,) below it, for each of ``lower`` the share above it.

    Ties count one half. The mean of either is the probability that a random pair is in order, the AUC.

    >>> [side.tolist() for side in placements(np.array([2.0, 1.0]), np.array([1.0]))]
    [[1.0, 0.5], [0.75]]
    """
    above = _n_below(higher, np.sort(lower)) / len(lower)
    below = 1 - _n_below(lower, np.sort(higher)) / len(higher)
    return above, below


def _n_below(values: Floats, ordered: Floats) -> Floats:
    """How many of ``ordered`` lie below each value; ties count one half."""
    return np.asarray((np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2)


def pair_probability(
    higher: ArrayLike,
    lower: ArrayLike,
    *,
    clusters: tuple[ArrayLike, ArrayLike] | None = None,
    level: float = 0.95,
) -> Estimate:
    """P(a > b) + P(a = b) / 2 for a random a of ``higher`` (n,) and b of ``lower`` (m,): all pairs, exactly (AUC).

    Interval by DeLong's components (1988), Wilson's of the smaller side where these do not vary;
    Mann-Whitney p-value against 1/2, ties taken into account. ``clusters`` of the values of each side that are not
    independent (captions of one image): the interval has the error of Obuchowski (1997) and a t quantile. Whole
    clusters exchange sides under the null (Rosner, Glynn and Lee 2003); where one has values on both sides, they
    cannot, and the p-value has the interval's error.

    >>> pair_probability([3.0, 2.0, 4.0], [1.0, 2.0]).value
    0.9166666666666666
    """
    a, b = as_vector(higher, "higher"), as_vector(lower, "lower")
    above, below = placements(a, b)
    value = float(above.mean())
    n, m = len(a), len(b)
    keys = None if clusters is None else _of_sides(clusters, n, m)
    units = (n, m) if keys is None else (len(np.unique(keys[:n])), len(np.unique(keys[n:])))
    if min(units) < 2:
        return Estimate(value, null_mean=0.5, n=n + m, notes=(no_interval("one item on a side"),), level=level)
    if keys is not None:
        return _clustered_pairs(np.concatenate([a, b]), above, below, keys, units, level)
    error = float(np.sqrt(above.var(ddof=1) / n + below.var(ddof=1) / m))
    _, ties = np.unique(np.concatenate([a, b]), return_counts=True)
    total = n + m
    spread = (total + 1 - float((ties.astype(np.float64) ** 3 - ties).sum()) / (total * (total - 1))) / 12
    null_sd = float(np.sqrt(max(0.0, spread) / (n * m)))
    return _pairs_estimate(value, error, null_sd, (n, m), total, level)


def _of_sides(clusters: tuple[ArrayLike, ArrayLike], n: int, m: int) -> NDArray[np.intp]:
    """(n + m,) the number of the cluster of each value of both sides."""
    first, second = (np.asarray(keys) for keys in clusters)
    if first.shape != (n,) or second.shape != (m,):
        raise InputError(
            f"clusters have shapes {first.shape}, {second.shape} for {n} and {m} values; give one for each"
        )
    return np.unique(np.concatenate([first, second]), return_inverse=True)[1]


def _clustered_pairs(
    values: Floats, above: Floats, below: Floats, keys: NDArray[np.intp], units: tuple[int, int], level: float
) -> Estimate:
    """From the ``values`` of both sides and their placements."""
    n, m, value = len(above), len(below), float(above.mean())
    total = int(keys.max()) + 1
    variance, both = 0.0, np.ones(total)
    for placed, mine, count in ((above, keys[:n], units[0]), (below, keys[n:], units[1])):
        sums = np.bincount(mine, placed - value, minlength=total)
        variance += count / (count - 1) * float((sums**2).sum()) / len(placed) ** 2
        both *= sums / len(placed)
    variance += 2 * total / (total - 1) * float(both.sum())  # 0 where every cluster is on one side
    upper = 0.5 + level / 2
    # clusters are few where items are many; two that are on both sides leave one degree of freedom
    ratio = float(t_quantile(upper, max(1, total - 2)) / normal_quantile(upper))
    error = float(np.sqrt(max(0.0, variance))) * ratio
    if sum(units) > total:
        alone = float(np.sqrt((sum(units) + 1) / (12 * units[0] * units[1])))  # of one value per cluster and side
        return _pairs_estimate(value, error, error if error > 1e-12 else alone, units, n + m, level)
    # the area less 1/2 is the sum of these over the clusters of one side, / (n m)
    ranks = np.bincount(keys, sps.rankdata(values) - (n + m + 1) / 2)
    null_sd = float(np.sqrt(units[0] * units[1] / total * ranks.var(ddof=1))) / (n * m)
    return _pairs_estimate(value, error, null_sd, units, n + m, level)


def _pairs_estimate(
    value: float, error: float, null_sd: float, units: tuple[int, int], n: int, level: float
) -> Estimate:
    p_value = 1.0 if null_sd == 0 else float(2 * normal_above(abs(value - 0.5) / null_sd))
    if error <= 1e-12:  # all in order, or all tied: as sure as yes/no values of the smaller side would be
        low, high = wilson_interval(value * min(units), min(units), level=level)
        shown = Estimate(value, low, high, null_mean=0.5, n=n, level=level)
    else:
        shown = normal_estimate(value, error, n, null_mean=0.5, least=0.0, most=1.0, level=level)
    return replace(shown, null_sd=null_sd, p_value=min(1.0, p_value))
