"""Does a filter drop one group more than another? A permutation test within sets or subjects.

Under the null, who fails inside a set (or a subject) does not depend on the group shown. The failures of a group are
compared with what its share of each set makes even; the largest deviation, in units of its own spread, is compared
with the largest of shuffled labels, so the p-values of the groups of an axis hold for all of them together.

Counts have ties, and a test that counts every tie against the finding would raise the alarm too seldom. So every image
weighs a little more or less than one, drawn by the seed: ties are broken by chance, and the level is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.measure.estimate import Estimate
from equipoise.measure.group_means import permuted_labels
from equipoise.measure.groups import Groups
from equipoise.measure.stats import mean_interval

__all__ = ["BiasTest", "Within", "bias_test", "global_p_values", "strata_of"]

Floats = NDArray[np.float64]

EXACT_LIMIT = 40_000_000
"""Images times draws up to which labels are shuffled; beyond it, draws come from the normal law with the same
mean and covariance, which sums over so many sets follow closely."""

_TIE = 1e-9
_JITTER = 0.1
"""How far apart equal counts are brought: well under one image."""


@dataclass(frozen=True)
class Within:
    """What labels are exchanged within: (n,) ``strata``, and (n,) ``units`` whose label moves as one, or ``None``."""

    strata: NDArray[np.int64]
    name: str
    units: NDArray[np.int64] | None = None


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
        found = {}
        for g, name in enumerate(self.names):
            low, high = self.intervals[g] or (None, None)
            found[name] = Estimate(
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
        return found


def bias_test(
    failed: Any, groups: Groups, within: Within | Any = None, *, draws: int = 999, seed: int = 0
) -> BiasTest | None:
    """Whether ``failed`` (n,) falls evenly on ``groups``; ``None`` where nothing can be said.

    Nothing can be said where no stratum has both images that failed and images that did not, of two groups: when
    whole sets go, say, every group loses the same.

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
    observed = problem.observed()
    rng = np.random.default_rng(seed)
    exact = len(problem.y) * draws <= EXACT_LIMIT
    weighed = replace(problem, y=_without_ties(problem.y, rng))
    null = weighed.shuffled(draws, rng) if exact else weighed.normal(draws, rng)
    spread = np.sqrt(np.clip(variance, 0, None))
    far = np.abs(_scaled(null, spread))
    largest = far.max(axis=1)
    z = np.abs(_scaled(weighed.observed() - weighed.moments()[0], spread))
    p = (1 + (largest[:, None] >= z - _TIE).sum(axis=0)) / (draws + 1)
    sizes = problem.n_images
    intervals = tuple(_interval(y, groups.labels == g, chosen) for g in problem.kept)
    note = () if exact else ("the null is the normal law with the permutation's mean and covariance",)
    return BiasTest(
        groups.axis,
        tuple(groups.names[g] for g in problem.kept),
        observed / sizes,
        expected / sizes,
        spread / sizes,
        p,
        problem.n_images,
        intervals,
        np.abs(null / sizes)[np.arange(draws), far.argmax(axis=1)],
        chosen.name,
        note,
    )


def global_p_values(
    failed: Any, groups: Groups, strata: Any, *, draws: int = 999, seed: int = 0, chunk: int = 64
) -> Floats:
    """(b,) p-values of b filters at once, ``failed`` (b, n): the same test, by one matrix product a block of draws.

    For simulations: all filters share their shuffles.

    >>> groups = Groups.from_values(["f", "m"] * 40)
    >>> global_p_values(np.arange(80)[None] % 2 == 0, groups, np.repeat(np.arange(40), 2)).tolist()
    [0.001]
    """
    y = np.asarray(failed, dtype=np.float32)
    defined = groups.labels >= 0
    rng = np.random.default_rng(seed)
    y, labels = _without_ties(y[:, defined], rng).astype(np.float32), groups.labels[defined]
    codes = np.unique(np.asarray(strata)[defined], return_inverse=True)[1]
    shares = _shares(labels, codes, groups.n_groups)
    sums = np.stack([np.bincount(codes, row, len(shares)) for row in y])
    squares = np.stack([np.bincount(codes, row.astype(np.float64) ** 2, len(shares)) for row in y])
    size = np.bincount(codes).astype(np.float64)
    scatter = np.clip(squares - sums**2 / size, 0, None)
    weight = np.where(size > 1, scatter * size / np.maximum(size - 1, 1), 0.0)
    expected = sums @ shares
    spread = np.sqrt(np.clip(weight @ (shares * (1 - shares)), 0, None))
    own = np.stack([y @ (labels == g).astype(np.float32) for g in range(groups.n_groups)], axis=1)
    z = np.abs(_scaled(own - expected, spread)).max(axis=1)
    above = np.zeros(len(y), dtype=np.int64)
    left = draws
    while left:
        now = min(chunk, left)
        for block in permuted_labels(labels, now, rng, codes):
            largest = np.zeros((len(block), len(y)))
            for g in range(groups.n_groups):
                counts = (block == g).astype(np.float32) @ y.T
                largest = np.maximum(largest, np.abs(_scaled(counts - expected[:, g], spread[:, g])))
            above += (largest >= z - _TIE).sum(axis=0)
        left -= now
    return np.asarray((1 + above) / (draws + 1))


def strata_of(frame: pd.DataFrame, groups: Groups) -> Within:
    """What images may be exchanged with: the set or the source if its images show several groups, else the subject.

    Where all images of a set show the same group, whole sets are exchanged within their subject.

    >>> frame = pd.DataFrame({"set_id": ["a", "a", "b", "b"], "subject": ["s"] * 4})
    >>> strata_of(frame, Groups.from_values(["f", "m", "f", "m"])).name
    'sets'
    >>> strata_of(frame, Groups.from_values(["f", "f", "m", "m"])).name
    'subjects, whole sets at a time'
    """
    subjects = _codes(frame, "subject")
    place = "subjects" if subjects is not None else "the table"
    base = subjects if subjects is not None else np.zeros(len(frame), dtype=np.int64)
    for column, name in (("set_id", "sets"), ("source_id", "sources")):
        codes = _codes(frame, column)
        if codes is None:
            continue
        seen = pd.DataFrame({"set": codes, "group": groups.labels})[groups.labels >= 0]
        kinds = seen.groupby("set")["group"].nunique()
        sizes = seen.groupby("set")["group"].size()
        several = sizes >= 2
        if not several.any():
            continue
        if (kinds[several] > 1).any():
            return Within(codes, name)
        return Within(base, f"{place}, whole {name} at a time", codes)
    return Within(base, place)


@dataclass(frozen=True)
class _Problem:
    """The units that are exchanged: their value, label and stratum."""

    y: Floats
    """(u,) failures in each unit."""
    size: Floats
    """(u,) images in each unit."""
    labels: NDArray[np.int64]
    codes: NDArray[np.int64]
    kept: tuple[int, ...]
    n_images: NDArray[np.int64]

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
        size = np.ones(len(values))
        if within.units is not None:
            together = pd.DataFrame({"y": values, "g": labels, "s": strata, "u": within.units[defined]})
            of_unit = together.groupby("u", sort=True)
            found = of_unit.agg(y=("y", "sum"), size=("y", "size"), g=("g", "first"), s=("s", "first"))
            values, size = found["y"].to_numpy(), found["size"].to_numpy(dtype=np.float64)
            labels, strata = found["g"].to_numpy(), found["s"].to_numpy()
        codes = np.unique(strata, return_inverse=True)[1]
        return cls(values, size, labels, codes, kept, counts[list(kept)])

    def observed(self) -> Floats:
        """(G,) failures of each group."""
        return np.bincount(self.labels, self.y, len(self.kept)).astype(np.float64)

    def moments(self) -> tuple[Floats, Floats]:
        """(G,) the failures that are even, by each stratum's share of images that failed, and their variance."""
        shares = _shares(self.labels, self.codes, len(self.kept))
        even = np.bincount(self.labels, self._even(), len(self.kept)).astype(np.float64)
        return even, self._spread() @ (shares * (1 - shares))

    def shuffled(self, draws: int, rng: np.random.Generator) -> Floats:
        """(R, G) deviations from even when labels are shuffled within strata."""
        live = self._spread()[self.codes] > _TIE
        beyond, labels, codes = (self.y - self._even())[live], self.labels[live], self.codes[live]
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

    def _even(self) -> Floats:
        """(u,) the failures of each unit if every image of its stratum failed as often: large sets fail more."""
        rate = np.bincount(self.codes, self.y) / np.bincount(self.codes, self.size)
        return np.asarray(rate[self.codes] * self.size, dtype=np.float64)

    def _spread(self) -> Floats:
        """(S,) m times the variance (m - 1 denominator) of what its m units fail beyond what is even, by stratum."""
        count = np.bincount(self.codes).astype(np.float64)
        scatter = np.bincount(self.codes, (self.y - self._even()) ** 2)  # deviations of a stratum add up to 0
        return np.where(count > 1, scatter * count / np.maximum(count - 1, 1), 0.0)


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
    found = None
    for clusters in (within.strata, within.units):
        if found is None and clusters is not None and len(np.unique(clusters[mine])) > 1:
            found = mean_interval(y[mine], clusters=clusters[mine])
    found = found if found is not None or within.units is not None else mean_interval(y[mine])
    return None if found is None else (max(0.0, found[0]), min(1.0, found[1]))


def _as_within(within: Any, n: int) -> Within:
    if isinstance(within, Within):
        return within
    if within is None:
        return Within(np.zeros(n, dtype=np.int64), "the table")
    codes = np.unique(np.asarray(within), return_inverse=True)[1]
    if len(codes) != n:
        raise InputError(f"within has {len(codes)} entries for {n} images")
    return Within(codes, "strata")


def _codes(frame: pd.DataFrame, column: str) -> NDArray[np.int64] | None:
    """Numbers for the values of a column, one of its own for every missing one; ``None`` if all are missing."""
    if column not in frame or frame[column].isna().all():
        return None
    codes, names = pd.factorize(frame[column], use_na_sentinel=True)
    missing = codes < 0
    codes = codes.astype(np.int64)
    codes[missing] = len(names) + np.arange(int(missing.sum()))
    return codes
