"""An interval for the range of several true means, highest minus lowest, when nobody knows which two are the extremes.

The interval of the two groups that happen to be extreme is that of a pair chosen after looking: with seven equal groups
it excludes the true 0 in two of five cases. Here every possible range is tested, and those that stand are the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.array_types import Floats
from equipoise.measure.arrays import row_blocks
from equipoise.measure.stats.laws import normal_below, normal_quantile, t_quantile

Bounds = Callable[[float], Floats]
"""From z to the bounds (G, G) of value i minus value j, as far out as z standard errors of a normal mean would be:
upper bounds for z above 0, lower ones for z below."""
Ends = Callable[[float], tuple[Floats, Floats]]
"""From z > 0 to the lower and upper ends (G,) of each group's own interval."""

NEAR = 0.5
"""Groups nearer to an extreme than this many standard errors of a difference may be tied with it, or may not be."""
CELLS, LEAST_DRAWS, MOST_DRAWS = 1_000_000, 500, 2000
HALVINGS = 9
WINDOWS = 41


def range_interval(
    values: Floats, covariance: Floats, bounds: Bounds, *, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Interval of highest minus lowest true mean, from ``values`` (G,), their ``covariance`` (G, G) and pairs' bounds.

    A range r stands while the largest of (difference - r) / its error over all pairs is no further out than it would
    be in ``level`` of draws, were r the range. What it would be depends on how many groups are tied at the ends. Below
    the observed range the observed means are moved as little as makes their range r, and groups near an end are tied
    with it; above it the two extremes are moved apart, and groups near an end are moved away from it. Both choices keep
    coverage. The lower end is 0 where equal groups would often differ as much. Two groups need none of this.

    >>> equal = np.array([0.0, 0.1, 0.25])
    >>> low, high = range_interval(equal, 0.01 * np.eye(3), t_bounds(equal, np.full((3, 3), 0.02**0.5), np.inf))
    >>> low, bool(0.45 < high < 0.53)
    (0.0, True)
    """
    task = _Task(np.asarray(values), np.asarray(covariance), bounds, seed)
    tail = (1 - level) / 2
    most = float(values.max() - values.min())
    reach = float(task.furthest(float(normal_quantile(1 - tail / 10))))
    low = _boundary(0.0, most, lambda r: task.furthest(-task.quantile(r, 1 - tail, task.tied(r))) <= r)
    high = _boundary(0.0, reach, lambda r: task.furthest(-task.quantile(r, tail, task.apart(r))) < r)
    # groups more alike than chance allows say nothing against a range as large as the one seen
    return low, max(high, most) if most > 0 else task.furthest(float(normal_quantile(1 - tail)))


def resampled_range(values: Floats, draws: Floats, level: float) -> tuple[float, float] | None:
    """Interval of highest minus lowest of ``values`` (G,), whichever are the extremes, from bootstrap ``draws`` (B, G).

    ``None`` where resamples do not move some difference. The range of a resample would be too large a centre: it is
    above 0 even for equal groups.

    >>> draws = np.random.default_rng(0).normal([0.5, 0.4], 0.1, (99, 2))
    >>> low, high = resampled_range(np.array([0.5, 0.4]), draws, 0.95)
    >>> low, bool(0.3 < high < 0.5)
    (0.0, True)
    """
    kept = np.sort(np.unique(draws, axis=1, return_index=True)[1])  # groups that agree in all resamples are one
    values, draws = values[kept], draws[:, kept]
    if len(draws) < 2 or len(values) < 2:
        return None
    tails = ((1 - level) / 2, (1 + level) / 2)
    pairs = [np.quantile(draws - draws[:, [other]], tails, axis=0) for other in range(len(values))]
    low, high = np.stack([pair[0] for pair in pairs], axis=1), np.stack([pair[1] for pair in pairs], axis=1)
    if not (high > low)[~np.eye(len(values), dtype=bool)].all():
        return None
    if len(values) == 2:
        return size_of(float(low[0, 1]), float(high[0, 1]))
    return range_interval(values, np.cov(draws.T), stretched_bounds(values, low, high, level), level=level)


def size_of(low: float, high: float) -> tuple[float, float]:
    """Interval of |difference| from that of a difference.

    >>> size_of(-0.5, 0.75), size_of(-3.0, -1.0)
    ((0.0, 0.75), (1.0, 3.0))
    """
    return max(0.0, low, -high), max(high, -low)


def _boundary(low: float, high: float, stands: Callable[[float], bool]) -> float:
    """The least number from ``low`` to ``high`` at which ``stands`` turns true."""
    if stands(low):
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if stands(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class _Task:
    """What the test of one range asks again and again."""

    values: Floats
    covariance: Floats
    bounds: Bounds
    seed: int

    def furthest(self, z: float) -> float:
        """The largest bound of a difference at z."""
        return float(self.bounds(z)[self.pairs].max())

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        first, second = np.nonzero(~np.eye(len(self.values), dtype=bool))
        return first, second

    @cached_property
    def error(self) -> Floats:
        """(P,) the standard error of each pair's difference."""
        first, second = self.pairs
        own = np.diag(self.covariance)
        square = own[first] + own[second] - 2 * self.covariance[first, second]
        return np.asarray(np.sqrt(np.maximum(square, 1e-300)))

    @cached_property
    def own_error(self) -> Floats:
        """(G,) what a group adds to the error of a difference; what all groups of a set share is not in it."""
        square = np.bincount(self.pairs[0], self.error**2) / (len(self.values) - 1)
        return np.asarray(np.sqrt(square / 2))

    @cached_property
    def noise(self) -> Floats:
        """(B, G) draws of the errors of the means."""
        draws = int(np.clip(CELLS // len(self.error), LEAST_DRAWS, MOST_DRAWS))
        roots, vectors = np.linalg.eigh(self.covariance)
        normal = np.random.default_rng(self.seed).normal(size=(draws, len(self.values)))
        return np.asarray(normal * np.sqrt(np.maximum(roots, 0.0)) @ vectors.T)

    def quantile(self, r: float, share: float, truth: Floats) -> float:
        """Quantile of the largest (difference - r) / error, were ``truth`` (G,) the means."""
        first, second = self.pairs
        shift = (truth[first] - truth[second] - r) / self.error
        near = shift > -8.0  # others never are the largest
        first, second, error, shift = first[near], second[near], self.error[near], shift[near]
        largest = np.empty(len(self.noise))
        for rows in row_blocks(len(self.noise), len(error)):
            noise = self.noise[rows]
            largest[rows] = ((noise[:, first] - noise[:, second]) / error + shift).max(axis=1)
        return float(np.quantile(largest, share))

    def tied(self, r: float) -> Floats:
        """Means of range r below the observed one: the observed ones cut to the window that moves them least."""
        starts = np.linspace(self.values.max() - r, self.values.min(), WINDOWS)
        inside = np.clip(self.values, starts[:, None], starts[:, None] + r)
        best = int((((self.values - inside) / self.own_error) ** 2).sum(axis=1).argmin())
        start, means = starts[best], inside[best]
        near = NEAR * np.sqrt(2) * self.own_error
        above, below = start + r - means, means - start
        top = (above < near) & (above <= below)
        return np.asarray(np.where(top, start + r, np.where((below < near) & ~top, start, means)))

    def apart(self, r: float) -> Floats:
        """Means of range r: the two extremes moved as their errors allow, the others away from the ends."""
        means = self.values.copy()
        high, low = int(means.argmax()), int(means.argmin())
        part = self.own_error[high] ** 2 / (self.own_error[high] ** 2 + self.own_error[low] ** 2)
        more = r - (means[high] - means[low])
        top, bottom = means[high] + more * part, means[low] - more * (1 - part)
        middle, away = (top + bottom) / 2, NEAR * np.sqrt(2) * self.own_error
        upper = np.maximum(middle, np.minimum(means, top) - away)
        lower = np.minimum(middle, np.maximum(means, bottom) + away)
        moved = np.where(means > middle, upper, lower)
        moved[high], moved[low] = top, bottom
        return np.asarray(moved)


def t_bounds(values: Floats, error: Floats, freedom: Floats | float) -> Bounds:
    """Bounds of t intervals of each pair, ``error`` and ``freedom`` (G, G).

    >>> t_bounds(np.array([1.0, 0.0]), np.ones((2, 2)), np.inf)(1.0).round(6).tolist()
    [[1.0, 2.0], [0.0, 1.0]]
    """
    difference = values[:, None] - values
    return lambda z: np.asarray(difference + t_quantile(normal_below(z), freedom) * error)


def ends_of(by_level: Sequence[Callable[[float], tuple[float, float]]]) -> Ends:
    """The ends of the groups' own intervals at z, from each interval as a function of its level.

    >>> low, high = ends_of([lambda level: (-level, level)])(1.0)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([-0.683], [0.683])
    """

    def ends(z: float) -> tuple[Floats, Floats]:
        level = float(max(normal_below(z) - normal_below(-z), 1e-9))
        intervals = np.array([interval(level) for interval in by_level])
        return intervals[:, 0], intervals[:, 1]

    return ends


def mover_bounds(values: Floats, ends: Ends) -> Bounds:
    """Bounds of differences of independent groups from their own intervals (Newcombe 1998; Zou and Donner 2008).

    >>> upper = mover_bounds(np.array([1.0, 0.0]), lambda z: (np.array([0.4, -0.4]), np.array([1.3, 0.8])))(1.96)
    >>> upper[0, 1], upper[1, 0]
    (np.float64(1.5), np.float64(0.0))
    """
    difference = values[:, None] - values

    def bounds(z: float) -> Floats:
        low, high = ends(abs(z))
        below, above = values - low, high - values
        if z < 0:
            return np.asarray(difference - np.hypot(below[:, None], above))
        return np.asarray(difference + np.hypot(above[:, None], below))

    return bounds


def stretched_bounds(values: Floats, low: Floats, high: Floats, level: float) -> Bounds:
    """Bounds that reach as far as ``low`` and ``high`` (G, G) at ``level``, and in proportion to z elsewhere.

    >>> low, high = np.array([[0.0, 0.5], [-2.0, 0.0]]), np.array([[0.0, 2.0], [-0.5, 0.0]])
    >>> stretched_bounds(np.array([1.0, 0.0]), low, high, 0.95)(-4 * 1.959964).round(4).tolist()
    [[0.0, -1.0], [-5.0, 0.0]]
    """
    difference, scale = values[:, None] - values, float(normal_quantile(0.5 + level / 2))
    return lambda z: np.asarray(difference + (high - difference if z > 0 else difference - low) * z / scale)


@dataclass(frozen=True)
class PairErrors:
    """The means of all groups, how sure they are, and how sure their differences are, over clusters.

    For each pair the error and the degrees of freedom are those of
    :func:`equipoise.measure.stats.group_means.difference_interval`.
    """

    means: Floats
    units: NDArray[np.int64]
    """(G,) clusters with values of the group."""
    covariance: Floats
    """(G, G) of the means."""
    error: Floats
    """(G, G) of each difference."""
    freedom: Floats
    """(G, G)"""
    together: NDArray[np.bool_]
    """(G, G) whether a cluster holds values of both."""

    @classmethod
    def of(
        cls, values: Floats, labels: NDArray[np.integer], clusters: NDArray[np.integer], n_groups: int
    ) -> PairErrors:
        """From ``values``, ``labels`` from 0 and codes of ``clusters`` (n,); each group in two clusters or more.

        >>> found = PairErrors.of(np.array([5.0, 6, 7, 1, 2, 3]), np.repeat([0, 1], 3), np.arange(6), 2)
        >>> found.means.tolist(), found.error[0].round(4).tolist(), found.freedom[0].round(6).tolist()
        ([6.0, 2.0], [0.0, 0.8165], [2.0, 4.0])
        """
        sizes = np.bincount(labels, minlength=n_groups).astype(np.float64)
        means = np.bincount(labels, values, minlength=n_groups) / sizes
        cell, codes = np.unique(clusters.astype(np.int64) * n_groups + labels, return_inverse=True)
        unit, group = cell // n_groups, cell % n_groups
        count = np.bincount(codes).astype(np.float64)
        weight = 1 / (sizes[group] * np.sqrt(np.maximum(1 - count / sizes[group], 1e-12)))

        def table(numbers: Floats) -> sparse.csr_matrix:
            return sparse.csr_matrix((numbers, (unit, group)), shape=(int(unit.max()) + 1, n_groups))

        moved = table(weight * np.bincount(codes, values - means[labels]))
        own, shared = table(count * weight**2), table(count * weight / np.sqrt(sizes[group]))
        covariance = (moved.T @ moved).toarray()
        variance = np.diag(covariance)
        products = (shared.T @ shared).toarray()
        squares, mixed = (own.T @ own).toarray(), (own.T @ shared.power(2)).toarray()
        length = np.diag(products)
        lost = np.asarray(own.sum(axis=0)).ravel() - length
        trace = lost[:, None] + lost
        # own @ own + (v @ v)² + (w @ w)² + 2 (v @ w)² - 2 own @ (v² + w²), for each pair of groups at once
        square = _both(np.diag(squares)) + 2 * squares + _both(length**2) + 2 * products**2
        square -= 2 * (_both(np.diag(mixed)) + mixed + mixed.T)
        return cls(
            means,
            np.bincount(group, minlength=n_groups),
            covariance,
            np.sqrt(np.maximum(_both(variance) - 2 * covariance, 0.0)),
            trace**2 / np.maximum(square, 1e-300),
            products > 0,
        )


def _both(per_group: Floats) -> Floats:
    """(G, G) the sum of both groups' numbers."""
    return np.asarray(per_group[:, None] + per_group)
