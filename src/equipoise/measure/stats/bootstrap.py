"""Intervals for a mean over queries that come in clusters (sets, subjects, prompts)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.arrays import as_keys
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.laws import normal_below, normal_quantile, t_quantile
from equipoise.pace import steps

IntervalMethod = Literal["t", "percentile", "bca", "bootstrap_t"]
METHODS = ("t", "percentile", "bca", "bootstrap_t")
ALIKE = "the resamples do not differ"
NO_WIDTH = 1e-8
"""Scores that differ by less are alike: BLEU, say, adds a billionth to its counts."""


@dataclass(frozen=True)
class ClusterSums:
    """The sum of the values and the number of rows of each cluster: all that a mean needs."""

    sums: Floats
    """(C, M)"""
    sizes: Floats
    """(C,)"""

    @property
    def mean(self) -> Floats:
        """(M,) mean over rows."""
        return np.asarray(self.sums.sum(axis=0) / self.sizes.sum())

    @property
    def standard_error(self) -> Floats:
        """(M,) cluster-robust standard error of the mean (ratio estimator, C / (C - 1) correction)."""
        n_clusters = len(self.sizes)
        residuals = self.sums - self.sizes[:, None] * self.mean
        scale = n_clusters / (n_clusters - 1)
        return np.asarray(np.sqrt(scale * (residuals**2).sum(axis=0)) / self.sizes.sum())


def cluster_sums(values: ArrayLike, clusters: ArrayLike | None = None) -> ClusterSums:
    """Sums of ``values`` (n,) or (n, M) over each distinct key of ``clusters`` (n,); without keys, each row alone.

    >>> cluster_sums([1.0, 2.0, 6.0], ["a", "a", "b"]).sums.ravel().tolist()
    [3.0, 6.0]
    """
    given = np.asarray(values, dtype=np.float64)
    table = given[:, None] if given.ndim == 1 else given
    if table.ndim != 2 or len(table) == 0:
        raise InputError(f"values has shape {given.shape}; give at least one value")
    if not np.isfinite(table).all():
        row = int(np.argmin(np.isfinite(table).all(axis=1)))
        raise InputError(f"values: row {row} is not finite; drop it first and report it as dropped")
    if clusters is None:
        return ClusterSums(table, np.ones(len(table)))
    _, codes = np.unique(as_keys(clusters, "clusters", len(table), "value"), return_inverse=True)
    sizes = np.bincount(codes).astype(np.float64)
    sums = np.stack([np.bincount(codes, column) for column in table.T], axis=1).astype(np.float64)
    return ClusterSums(sums, sizes)


def has_spread(sums: ClusterSums) -> bool:
    """Whether the clusters differ at all in their mean (of the first column), beyond rounding.

    >>> has_spread(cluster_sums([0.1, 0.1, 0.1])), has_spread(cluster_sums([0.1, 0.2]))
    (False, True)
    """
    if len(sums.sizes) < 2:
        return False
    return float(sums.standard_error[0]) > 1e-12 * float(np.abs(sums.sums[:, 0] / sums.sizes).max())


def no_interval_note(values: ArrayLike, clusters: ArrayLike | None = None) -> str:
    """Why :func:`mean_interval` is ``None``.

    Args:
        values: (n,) the values whose mean has no interval.
        clusters: (n,) the clusters given with them; ``None``: each value is independent.

    Returns:
        The note, which begins with "no interval".

    >>> no_interval_note([2.0]), no_interval_note([2.0, 2.0])
    ('no interval: one independent unit', 'no interval: all 2 independent units have the same value')
    """
    sums = cluster_sums(values, clusters)
    units = len(sums.sizes)
    if units < 2:
        return no_interval("one independent unit")
    if has_spread(sums):
        return no_interval(ALIKE)
    return no_interval(f"all {units} independent units have the same value")


def no_width_note(draws: ArrayLike) -> str:
    """Why quantiles of bootstrap ``draws`` (B,) make no interval: one without width would pass for certainty.

    >>> no_width_note([1.0, 1.0]), no_width_note([1.0] * 99 + [0.0])
    ('no interval: the resamples do not differ', 'no interval: nearly all resamples are alike')
    """
    some = np.asarray(draws, dtype=np.float64)
    return no_interval("nearly all resamples are alike" if some.size and np.ptp(some) > NO_WIDTH else ALIKE)


def resampling_weights(
    n_clusters: int, replicates: int, rng: np.random.Generator, chunk: int = 4_000_000
) -> Iterator[Floats]:
    """Blocks (b, C) of how often each cluster is drawn; all blocks together are ``replicates`` rows.

    How often, not which: a mean of resampled rows is then one matrix product.
    """
    if replicates < 1:
        raise InputError(f"replicates = {replicates}: a bootstrap needs at least one")
    step = max(1, chunk // n_clusters)
    for start in steps(range(0, replicates, step)):
        rows = min(step, replicates - start)
        drawn = rng.integers(0, n_clusters, size=(rows, n_clusters))
        drawn += np.arange(rows)[:, None] * n_clusters
        counts = np.bincount(drawn.ravel(), minlength=rows * n_clusters)
        yield counts.reshape(rows, n_clusters).astype(np.float64)


def bootstrap_means(
    values: ArrayLike, *, clusters: ArrayLike | None = None, replicates: int = 1000, seed: int = 0
) -> Floats:
    """Bootstrap replicates of the mean of ``values``.

    Whole clusters are drawn with replacement; each replicate's mean is over the rows it drew.

    Args:
        values: (n,), or (n, M) for the mean of each column.
        clusters: (n,) values with one key are drawn together; ``None``: each value is independent.
        replicates: how many, B.
        seed: which resamples are drawn.

    Returns:
        (B,) means, or (B, M).

    >>> draws = bootstrap_means(np.arange(100.0), replicates=500)
    >>> draws.shape, bool(abs(draws.std() - np.arange(100.0).std() / 10) < 0.3)
    ((500,), True)
    """
    sums = cluster_sums(values, clusters)
    rng = np.random.default_rng(seed)
    parts = [_weighted_means(w, sums) for w in resampling_weights(len(sums.sizes), replicates, rng)]
    means = np.concatenate(parts)
    return means[:, 0] if np.ndim(values) == 1 else means


def _weighted_means(weights: Floats, sums: ClusterSums) -> Floats:
    return np.asarray((weights @ sums.sums) / (weights @ sums.sizes)[:, None])


def bootstrap_statistic(
    counts: ArrayLike,
    statistic: Callable[[Floats], Floats],
    *,
    clusters: ArrayLike | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> Floats:
    """Bootstrap replicates of a function of summed counts.

    Only the counts are resampled, never the rows behind them.

    Args:
        counts: (n, G) what each query or item adds to each of the sums.
        statistic: the function, from sums (b, G) to values (b,), called for a block of replicates at a time.
        clusters: (n,) rows with one key are drawn together; ``None``: each row is independent.
        replicates: how many, B.
        seed: which resamples are drawn.

    Returns:
        (B,) values of ``statistic``.

    >>> hits = np.array([[1, 1], [0, 1], [1, 1], [0, 1]])
    >>> draws = bootstrap_statistic(hits, lambda c: c[:, 0] / c[:, 1], replicates=200)
    >>> draws.shape, bool(0.3 < draws.mean() < 0.7)
    ((200,), True)
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2:
        raise InputError(f"counts has shape {table.shape}; give one row per query and one column per count")
    sums = cluster_sums(table, clusters).sums
    rng = np.random.default_rng(seed)
    parts = [statistic(w @ sums) for w in resampling_weights(len(sums), replicates, rng)]
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


def mean_interval(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    method: IntervalMethod = "t",
    replicates: int = 1000,
    seed: int = 0,
    least_error: float = 0.0,
) -> tuple[float, float] | None:
    """Confidence interval for the mean of ``values``; ``None`` with fewer than two clusters, or all alike.

    Values that happen to be all alike do not say how far others would lie: an interval without width would pass for
    certainty. Nor do resamples that are: those of two clusters by ``bootstrap_t``. :func:`no_interval_note` says which
    it is.

    - ``t``: mean ± t(C - 1) times the cluster-robust standard error. With a few dozen subjects it keeps its
      level where the percentile bootstrap is too narrow, and it needs no resampling: the default.
    - ``percentile``: quantiles of the cluster bootstrap.
    - ``bca``: the same, corrected for bias and skewness (Efron 1987, jackknife over clusters).
    - ``bootstrap_t``: the cluster bootstrap of (mean* - mean) / se*.

    Args:
        values: (n,) one number per query or item.
        clusters: (n,) values with one key are not independent of each other; ``None``: all are independent.
        level: confidence of the interval, between 0 and 1.
        method: one of the four above.
        replicates: how many resamples the bootstrap methods draw.
        seed: which resamples these are.
        least_error: a standard error that is known from elsewhere (the spread of chance) and bounds the interval of
            ``t``, and of no other method, from below by its normal quantile, where values that happen to be all alike
            would give no interval.

    Returns:
        The lower and the upper end, or ``None``.

    >>> [round(x, 3) for x in mean_interval([1.0, 2.0, 3.0, 4.0])]
    [0.446, 4.554]
    """
    if method not in METHODS:
        raise UnknownNameError("interval method", method, METHODS)
    if not 0 < level < 1:
        raise InputError(f"level = {level}: a confidence level is between 0 and 1, such as 0.95")
    sums = cluster_sums(values, clusters)
    if len(sums.sizes) < 2:
        return None
    mean, error = float(sums.mean[0]), float(sums.standard_error[0])
    if not has_spread(sums) and (method != "t" or least_error <= 0):
        return None
    tail = (1 - level) / 2
    if method == "t":
        reach = float(t_quantile(1 - tail, len(sums.sizes) - 1)) * error
        reach = max(reach, float(normal_quantile(1 - tail)) * least_error)
        return mean - reach, mean + reach
    rng = np.random.default_rng(seed)
    if method == "bootstrap_t":
        return _bootstrap_t(sums, mean, error, tail, replicates, rng)
    weights = resampling_weights(len(sums.sizes), replicates, rng)
    draws = np.concatenate([_weighted_means(w, sums)[:, 0] for w in weights])
    tails = (tail, 1 - tail) if method == "percentile" else _bca_tails(draws, sums, mean, tail)
    low, high = np.quantile(draws, tails)
    return float(low), float(high)


def _bootstrap_t(
    sums: ClusterSums, mean: float, error: float, tail: float, replicates: int, rng: np.random.Generator
) -> tuple[float, float] | None:
    n_clusters = len(sums.sizes)
    total, size = sums.sums[:, 0], sums.sizes
    means = total / size
    parts = []
    for w in resampling_weights(n_clusters, replicates, rng):
        rows = w @ size
        centre = (w @ total) / rows
        square = w @ total**2 - 2 * centre * (w @ (total * size)) + centre**2 * (w @ size**2)
        spread = np.sqrt(np.maximum(square, 0.0) * n_clusters / (n_clusters - 1)) / rows
        # one cluster drawn all the time has no spread but that of rounding
        least, most = (end(np.where(w > 0, means, fill), axis=1) for end, fill in ((np.min, np.inf), (np.max, -np.inf)))
        usable = (spread > 0) & (least < most)
        parts.append((centre[usable] - mean) / spread[usable])
    ratios = np.concatenate(parts)
    if ratios.size == 0 or np.ptp(ratios) <= 1e-12:
        return None
    low, high = np.quantile(ratios, (tail, 1 - tail))
    return mean - float(high) * error, mean - float(low) * error


def _bca_tails(draws: Floats, sums: ClusterSums, mean: float, tail: float) -> tuple[float, float]:
    total, size = sums.sums[:, 0], sums.sizes
    left_out = (total.sum() - total) / (size.sum() - size)
    gaps = left_out.mean() - left_out
    spread = float((gaps**2).sum())
    acceleration = float((gaps**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    share = ((draws < mean).mean() + (draws <= mean).mean()) / 2
    shift = float(normal_quantile(np.clip(share, 0.5 / len(draws), 1 - 0.5 / len(draws))))

    def moved(z: float) -> float:
        return float(normal_below(shift + (shift + z) / (1 - acceleration * (shift + z))))

    z = float(normal_quantile(tail))
    return moved(z), moved(-z)
