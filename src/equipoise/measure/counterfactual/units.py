"""The independent units behind a gap inside sets, subjects or sets, and how sure their mean is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.measure.counterfactual.cells import GapCells, PairOfSets
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.bootstrap import no_interval_note
from equipoise.measure.stats.laws import normal_quantile, t_quantile
from equipoise.measure.stats.permutation import sign_flip
from equipoise.measure.stats.shares import ClusteredShare


def parts_of(cells: GapCells, by_subject: bool) -> Iterator[tuple[PairOfSets, str | None, NDArray[np.intp]]]:
    """Each pair of groups with the sets that hold twins of it, together (the subject is ``None``) or by subject."""
    for pair in cells.pairs():
        if not by_subject:
            yield pair, None, np.flatnonzero(pair.usable)
            continue
        for code, name in enumerate(cells.subject_names):
            members = np.flatnonzero(pair.usable & (cells.subjects == code))
            if members.size:
                yield pair, name, members


def repeated(cells: GapCells, members: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of ``members`` whose subject has two of them or more."""
    counts = np.bincount(cells.subjects[members], minlength=len(cells.subject_names))
    return members[counts[cells.subjects[members]] > 1]


def links_of(cells: GapCells, members: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Numbers of the links among ``members``; ``None`` where no two sets share one."""
    if cells.links is None:
        return None
    distinct, codes = np.unique(cells.links[members], return_inverse=True)
    return None if len(distinct) == len(members) else codes


@dataclass(frozen=True)
class Units:
    """What counts as independent in a mean over sets, and how sure that mean is."""

    cells: GapCells
    members: NDArray[np.intp]
    """(m,) the numbers of the sets."""
    of_sets: Floats
    """(m,) their values."""
    values: Floats
    """(n,) those of the units."""

    @classmethod
    def of(cls, cells: GapCells, values: Floats, members: NDArray[np.intp], *, whole: bool) -> Units:
        """From ``values`` (S,) of all sets: means of subjects, or the sets themselves where there is one subject."""
        mine, subject = values[members], cells.subjects[members]
        if not whole or len(np.unique(subject)) == 1:
            return cls(cells, members, mine, mine)
        _, codes = np.unique(subject, return_inverse=True)
        return cls(cells, members, mine, np.asarray(np.bincount(codes, mine) / np.bincount(codes)))

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def links(self) -> NDArray[np.intp] | None:
        """(m,) the number of each set's link; ``None`` where no two sets share one."""
        return links_of(self.cells, self.members)

    @property
    def independent(self) -> int:
        """How many things vary on their own: the units, or the links where sets share them and these are fewer."""
        return len(self) if self.links is None else min(len(self), int(self.links.max()) + 1)

    @cached_property
    def _weights(self) -> Floats:
        """(m,) how much a set counts in the mean over subjects; they sum to 1."""
        _, codes, counts = np.unique(self.cells.subjects[self.members], return_inverse=True, return_counts=True)
        return np.asarray(1.0 / (counts[codes] * len(counts)))

    @cached_property
    def error(self) -> float:
        """Standard error of the mean; with links, two-way clustered (Cameron, Gelbach and Miller 2011)."""
        if len(self) < 2:
            return 0.0
        plain = float(self.values.std(ddof=1) / np.sqrt(len(self)))
        if self.links is None:
            return plain
        parts = self._weights * (self.of_sets - self.values.mean())
        sums = np.bincount(self.links, parts)
        if len(sums) < 2:
            return plain
        by_link = len(sums) / (len(sums) - 1) * float((sums**2).sum())
        both = plain**2 + by_link - float((parts**2).sum())
        return float(np.sqrt(max(plain**2, by_link, both)))

    def least_error(self, level: float) -> float:
        """The error for ``mean_interval(least_error=...)``, where links are fewer than units.

        That takes it times a normal quantile; the ratio of quantiles makes it a t interval of the independent units.
        """
        upper = 0.5 + level / 2
        ratio = float(t_quantile(upper, max(1, self.independent - 1)) / normal_quantile(upper))
        return self.error * ratio

    def why_no_interval(self) -> str:
        """Why the mean has no interval: all sets share one link, there is one unit, or all are alike."""
        if len(self) > 1 and self.independent < 2:
            return no_interval("one independent link")
        return no_interval_note(self.values)

    def flip_test(self, draws: int, seed: int, about: float = 0.0) -> tuple[float, float]:
        """P-value and sd of the mean when units, and links where sets share them, flip ``about`` it: the larger."""
        tests = [sign_flip(self.values - about, draws=draws, seed=seed)]
        if self.links is not None:
            parts = np.bincount(self.links, self._weights * (self.of_sets - about))
            tests.append(sign_flip(parts * len(parts), draws=draws, seed=seed))
        return max(float(test.p_value) for test in tests), max(float(test.null_sd) for test in tests)

    def spread_part(self) -> float:
        """What the error of the spread adds to the variance of mean / spread, with their covariance over units."""
        spread, n = self.cells.spread, len(self)
        if n < 2:
            return 0.0
        value = float(self.values.mean()) / spread.value
        subjects = np.unique(self.cells.subjects[self.members])
        parts = spread.by_subject[subjects] if len(subjects) > 1 else spread.by_set[self.members]
        gaps = (self.values - self.values.mean()) / (spread.value * n)
        together = n / (n - 1) * float((gaps * parts).sum())
        return -value * together + (value * spread.error / 2) ** 2


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
