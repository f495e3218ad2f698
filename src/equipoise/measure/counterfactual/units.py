"""The independent units behind a gap inside sets, subjects or sets, and how sure their mean is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from equipoise.measure.counterfactual.cells import GapCells, PairOfSets
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.bootstrap import no_interval_note
from equipoise.measure.stats.laws import normal_quantile, t_quantile
from equipoise.measure.stats.permutation import sign_flip
from equipoise.measure.stats.shares import ClusteredShare

__all__ = [
    "covaried",
    "error_of_mean",
    "flip_test",
    "independent_units",
    "least_error",
    "links_of",
    "parts_of",
    "repeated",
    "share_interval",
    "t_interval",
    "units_of",
    "why_no_interval",
]

FloatArray = NDArray[np.float64]


def parts_of(cells: GapCells, pair: PairOfSets, by_subject: bool) -> Iterator[tuple[str | None, NDArray[np.intp]]]:
    """The sets that hold twins, together or by subject."""
    if not by_subject:
        yield None, np.flatnonzero(pair.usable)
        return
    for code, name in enumerate(cells.subject_names):
        members = np.flatnonzero(pair.usable & (cells.subjects == code))
        if members.size:
            yield name, members


def repeated(cells: GapCells, members: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of ``members`` whose subject has two of them or more."""
    counts = np.bincount(cells.subjects[members], minlength=len(cells.subject_names))
    return members[counts[cells.subjects[members]] > 1]


def units_of(cells: GapCells, values: FloatArray, members: NDArray[np.intp], *, whole: bool) -> FloatArray:
    """What counts as independent: means of subjects, or sets where there is one subject."""
    mine, subject = values[members], cells.subjects[members]
    if not whole or len(np.unique(subject)) == 1:
        return mine
    _, codes = np.unique(subject, return_inverse=True)
    return np.asarray(np.bincount(codes, mine) / np.bincount(codes))


def _weights(cells: GapCells, members: NDArray[np.intp]) -> FloatArray:
    """(len(members),) how much a set counts in the mean over subjects; they sum to 1."""
    _, codes, counts = np.unique(cells.subjects[members], return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (counts[codes] * len(counts)))


def links_of(cells: GapCells, members: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Numbers of the links among ``members``; ``None`` where no two sets share one."""
    if cells.links is None:
        return None
    distinct, codes = np.unique(cells.links[members], return_inverse=True)
    return None if len(distinct) == len(members) else codes


def error_of_mean(cells: GapCells, values: FloatArray, members: NDArray[np.intp], units: FloatArray) -> float:
    """Standard error of the mean of ``units``; with links, two-way clustered (Cameron, Gelbach and Miller 2011)."""
    if len(units) < 2:
        return 0.0
    plain = float(units.std(ddof=1) / np.sqrt(len(units)))
    codes = links_of(cells, members)
    if codes is None:
        return plain
    parts = _weights(cells, members) * (values[members] - units.mean())
    sums = np.bincount(codes, parts)
    if len(sums) < 2:
        return plain
    by_link = len(sums) / (len(sums) - 1) * float((sums**2).sum())
    both = plain**2 + by_link - float((parts**2).sum())
    return float(np.sqrt(max(plain**2, by_link, both)))


def independent_units(cells: GapCells, members: NDArray[np.intp], units: FloatArray) -> int:
    """How many things vary on their own: the units, or the links where sets share them and these are fewer."""
    codes = links_of(cells, members)
    return len(units) if codes is None else min(len(units), int(codes.max()) + 1)


def least_error(
    cells: GapCells, values: FloatArray, members: NDArray[np.intp], units: FloatArray, level: float
) -> float:
    """:func:`error_of_mean` for ``mean_interval(least_error=...)``, where links are fewer than units.

    That takes it times a normal quantile; the ratio of quantiles makes it a t interval of the independent units.
    """
    upper, few = 0.5 + level / 2, independent_units(cells, members, units)
    ratio = float(t_quantile(upper, max(1, few - 1)) / normal_quantile(upper))
    return error_of_mean(cells, values, members, units) * ratio


def why_no_interval(cells: GapCells, members: NDArray[np.intp], units: FloatArray) -> str:
    """Why the mean of ``units`` has no interval: all sets share one link, there is one unit, or all are alike."""
    if len(units) > 1 and independent_units(cells, members, units) < 2:
        return no_interval("one independent link")
    return no_interval_note(units)


def flip_test(
    cells: GapCells, values: FloatArray, members: NDArray[np.intp], units: FloatArray, draws: int, seed: int
) -> tuple[float, float]:
    """P-value and sd of the mean under flipped signs of units, and of links where sets share them: the larger."""
    test = sign_flip(units, draws=draws, seed=seed)
    codes = links_of(cells, members)
    if codes is None:
        return float(test.p_value), float(test.null_sd)
    parts = np.bincount(codes, _weights(cells, members) * values[members])
    linked = sign_flip(parts * len(parts), draws=draws, seed=seed)
    return max(float(test.p_value), float(linked.p_value)), max(float(test.null_sd), float(linked.null_sd))


def covaried(cells: GapCells, units: FloatArray, members: NDArray[np.intp]) -> float:
    """What the error of the spread adds to the variance of mean / spread, with their covariance over units."""
    value = float(units.mean()) / cells.spread.value
    several = len(np.unique(cells.subjects[members])) > 1
    if several:
        parts = cells.spread.by_subject[np.unique(cells.subjects[members])]
    else:
        parts = cells.spread.by_set[members]
    n = len(units)
    if n < 2:
        return 0.0
    gaps = (units - units.mean()) / (cells.spread.value * n)
    together = n / (n - 1) * float((gaps * parts).sum())
    return -value * together + (value * cells.spread.error / 2) ** 2


def t_interval(value: float, error: float, n: int, level: float) -> tuple[float, float]:
    """The t interval of a mean of ``n`` units with this standard ``error``."""
    reach = float(t_quantile((1 + level) / 2, n - 1)) * error
    return value - reach, value + reach


def share_interval(value: float, error: float, n: int, level: float) -> tuple[float, float] | None:
    """Korn and Graubard's interval from a standard error; all units alike count as one yes/no value each."""
    if n < 2:
        return None
    low, high = ClusteredShare(value, error, n, float(n)).interval(level)
    return min(low, value), max(high, value)
