"""Does a filter drop one group more than another? A permutation test within sets or subjects.

Under the null, who fails inside a set (or a subject) does not depend on the group shown. The failures of a group are
compared with what its share of each set makes even; the largest deviation, in units of its own spread, is compared
with the largest of shuffled labels, so the p-values of the groups of an axis hold for all of them together. Labels of
one axis move among images with the same levels of the others (:mod:`equipoise.filters.bias_strata`).

Counts have ties, and a test that counts every tie against the finding would raise the alarm too seldom. So every image
weighs a little more or less than one, drawn by the seed: ties are broken by chance, and the level is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.filters.bias_strata import Within
from equipoise.measure.groups import Groups
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import permuted_labels
from equipoise.measure.stats.shares import share_interval

EXACT_LIMIT = 40_000_000
"""Images times draws up to which labels are shuffled; beyond it, draws come from the normal law with the same
mean and covariance, which sums over so many sets follow closely."""

_TIE = 1e-9
_JITTER = 0.1
"""How far apart equal counts are brought: well under one image."""


@dataclass(frozen=True)
class BiasTest:
    """One filter on one axis."""

    axis: str
    names: tuple[str, ...]
    rates: Floats
    """(G,) share of each group's images that failed."""
    expected: Floats
    """(G,) the share if failures fell evenly within each stratum."""
    sd: Floats
    """(G,) standard deviation of the share under the null."""
    p_group: Floats
    """(G,) p-values that hold for all groups of the axis together (largest deviation, Westfall and Young 1993)."""
    n: NDArray[np.int64]
    intervals: tuple[tuple[float, float] | None, ...]
    null_largest: Floats
    """(R,) in each draw of the null, how far the group that is farthest from even (in its own spread) is from it."""
    within: str
    notes: tuple[str, ...] = ()

    @property
    def p_value(self) -> float:
        """The p-value of the axis."""
        return float(self.p_group.min())

    @property
    def worst(self) -> str:
        """The group that ``p_value`` is of: farthest from even in units of its own spread, on either side.

        Of two that are equally far (the groups of a pair always are) it is the one that fails more.
        """
        z = _scaled(self.rates - self.expected, self.sd)
        return self.names[min(range(len(z)), key=lambda g: (self.p_group[g], -round(abs(float(z[g])), 6), -z[g]))]

    @property
    def excess(self) -> float:
        """The rate of ``worst`` less what would be even: negative where that group fails less."""
        at = self.names.index(self.worst)
        return float(self.rates[at] - self.expected[at])

    def estimates(self) -> dict[str, Estimate]:
        """The rate of each group with its chance level, interval and p-value."""
        estimates = {}
        for g, name in enumerate(self.names):
            low, high = self.intervals[g] or (None, None)
            estimates[name] = Estimate(
                float(self.rates[g]),
                low,
                high,
                null_mean=float(self.expected[g]),
                null_sd=float(self.sd[g]),
                p_value=float(self.p_group[g]),
                n=int(self.n[g]),
                n_groups=len(self.names),
                notes=(f"shuffled within {self.within}; p holds for all groups of the axis", *self.notes),
            )
        return estimates


def bias_test(
    failed: Any, groups: Groups, within: Within | Any = None, *, draws: int = 999, seed: int = 0
) -> BiasTest | None:
    """Whether failures fall evenly on groups.

    Args:
        failed: (n,) which images failed.
        groups: of the n images; those without a group do not count.
        within: what labels are exchanged within, or (n,) the stratum of each image; the whole table unless given.
        draws: how often labels are shuffled, at least 19.
        seed: which shuffles are drawn, and how ties are broken.

    Returns:
        The test, or ``None`` where nothing can be said because no stratum has both images that failed and images that
        did not, of two groups (when whole sets go, say, every group loses the same).

    >>> groups = Groups.from_values(["f", "m"] * 40, axis="gender")
    >>> sets = np.repeat(np.arange(40), 2)
    >>> test = bias_test(np.arange(80) % 2 == 0, groups, sets)
    >>> test.worst, test.rates.tolist(), test.expected.tolist(), test.p_value
    ('f', [1.0, 0.0], [0.5, 0.5], 0.001)
    """
    if draws < 19:
        raise InputError(f"draws = {draws}: give at least 19, or no p-value can be below 0.05")
    y = np.asarray(failed, dtype=np.float64)
    groups.check_length(len(y))
    chosen = _as_within(within, len(y))
    problem = _Problem.of(y, groups, chosen)
    if problem is None:
        return None
    expected, variance = problem.moments()
    if not (variance > _TIE).any():
        return None
    rng = np.random.default_rng(seed)
    exact = len(problem.beyond) * draws <= EXACT_LIMIT
    weighed = _Problem.of(_without_ties(y, rng), groups, chosen)
    assert weighed is not None
    null = weighed.shuffled(draws, rng) if exact else weighed.normal(draws, rng)
    spread = np.sqrt(np.clip(variance, 0, None))
    far = np.abs(_scaled(null, spread))
    largest = far.max(axis=1)
    z = np.abs(_scaled(weighed.deviations(), spread))
    p = (1 + (largest[:, None] >= z - _TIE).sum(axis=0)) / (draws + 1)
    sizes = problem.n_images
    intervals = tuple(_interval(y, groups.labels == g, chosen) for g in problem.kept)
    note = () if exact else ("the null is the normal law with the permutation's mean and covariance",)
    return BiasTest(
        groups.axis,
        tuple(groups.names[g] for g in problem.kept),
        problem.failures / sizes,
        expected / sizes,
        spread / sizes,
        p,
        problem.n_images,
        intervals,
        np.abs(null / sizes)[np.arange(draws), far.argmax(axis=1)],
        chosen.name,
        note,
    )


@dataclass(frozen=True)
class _Problem:
    """The units that are exchanged: what they fail beyond what is even, their label and stratum."""

    beyond: Floats
    """(u,) failures in each unit less what is even, which adds up to 0 in every stratum."""
    labels: NDArray[np.int64]
    codes: NDArray[np.int64]
    kept: tuple[int, ...]
    n_images: NDArray[np.int64]
    """(G,) images of each group."""
    failures: Floats
    """(G,) failures of each group."""

    @classmethod
    def of(cls, y: Floats, groups: Groups, within: Within) -> _Problem | None:
        defined = groups.labels >= 0
        counts = np.bincount(groups.labels[defined], minlength=groups.n_groups)
        kept = tuple(int(g) for g in np.flatnonzero(counts))
        if len(kept) < 2:
            return None
        renumbered = np.full(groups.n_groups, -1)
        renumbered[list(kept)] = range(len(kept))
        values, labels, strata = y[defined], renumbered[groups.labels[defined]], within.strata[defined]
        failures = np.bincount(labels, values, len(kept)).astype(np.float64)
        beyond = values - _rates(values, strata if within.cells is None else within.cells[defined])
        size = np.ones(len(values))
        if within.units is not None:
            first, units = np.unique(within.units[defined], return_index=True, return_inverse=True)[1:]
            beyond, size = np.bincount(units, beyond).astype(np.float64), np.bincount(units).astype(np.float64)
            labels, strata = labels[first], strata[first]
        codes = np.unique(strata, return_inverse=True)[1]
        left = np.bincount(codes, beyond) / np.bincount(codes, size)
        return cls(beyond - left[codes] * size, labels, codes, kept, counts[list(kept)], failures)

    def deviations(self) -> Floats:
        """(G,) failures of each group less what is even."""
        return np.bincount(self.labels, self.beyond, len(self.kept)).astype(np.float64)

    def moments(self) -> tuple[Floats, Floats]:
        """(G,) the failures that are even, by the rate among the images of each cell, and their variance."""
        shares = _shares(self.labels, self.codes, len(self.kept))
        return self.failures - self.deviations(), self._spread() @ (shares * (1 - shares))

    def shuffled(self, draws: int, rng: np.random.Generator) -> Floats:
        """(R, G) deviations from even when labels are shuffled within strata."""
        live = self._spread()[self.codes] > _TIE
        beyond, labels, codes = self.beyond[live], self.labels[live], self.codes[live]
        parts = [
            np.stack([(block == g) @ beyond for g in range(len(self.kept))], axis=1)
            for block in permuted_labels(labels, draws, rng, codes)
        ]
        return np.concatenate(parts)

    def normal(self, draws: int, rng: np.random.Generator) -> Floats:
        """(R, G) deviations from the normal law with the shuffles' covariance."""
        shares = _shares(self.labels, self.codes, len(self.kept))
        weight = self._spread()
        covariance = np.diag(weight @ shares) - (shares * weight[:, None]).T @ shares
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.clip(values, 0, None))
        return np.asarray(rng.standard_normal((draws, len(values))) @ root.T)

    def _spread(self) -> Floats:
        """(S,) m times the variance (m - 1 denominator) of what its m units fail beyond what is even, by stratum."""
        count = np.bincount(self.codes).astype(np.float64)
        scatter = np.bincount(self.codes, self.beyond**2)
        return np.where(count > 1, scatter * count / np.maximum(count - 1, 1), 0.0)


def _rates(values: Floats, cells: NDArray[Any]) -> Floats:
    """(n,) the mean of the values in each image's cell."""
    codes = np.unique(cells, return_inverse=True)[1]
    return np.asarray((np.bincount(codes, values) / np.bincount(codes))[codes])


def _without_ties(y: Any, rng: np.random.Generator) -> Floats:
    """``y`` (n,) or (b, n) with weights near 1, so that sums of equally many images differ a little."""
    total = np.maximum(1.0, np.asarray(y, dtype=np.float64).sum(axis=-1, keepdims=True))
    return np.asarray(y * (1 + _JITTER / np.sqrt(total) * rng.uniform(-1, 1, np.shape(y)[-1])))


def _shares(labels: NDArray[Any], codes: NDArray[Any], n_groups: int) -> Floats:
    """(S, G) the share of each group in each stratum."""
    n_strata = int(codes.max()) + 1
    counts = np.bincount(codes * n_groups + labels, minlength=n_strata * n_groups).reshape(n_strata, n_groups)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True), dtype=np.float64)


def _scaled(gap: Any, spread: Floats) -> Floats:
    shape = np.shape(gap)
    return np.asarray(np.divide(gap, spread, out=np.zeros(shape), where=np.broadcast_to(spread > 1e-6, shape)))


def _interval(y: Floats, mine: NDArray[np.bool_], within: Within) -> tuple[float, float] | None:
    """Inside [0, 1] and never without width; ``None`` where a group's images are all of one cluster."""
    for clusters in (within.clusters, within.units, within.strata):
        if clusters is not None and (clusters is not within.strata or len(np.unique(clusters[mine])) > 1):
            return share_interval(y[mine], clusters=clusters[mine])
    return share_interval(y[mine])


def _as_within(within: Any, n: int) -> Within:
    if isinstance(within, Within):
        return within
    if within is None:
        return Within(np.zeros(n, dtype=np.int64), "the table")
    codes = np.unique(np.asarray(within), return_inverse=True)[1]
    if len(codes) != n:
        raise InputError(f"within has {len(codes)} entries for {n} images")
    return Within(codes, "strata")
