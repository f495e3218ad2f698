"""Scores of counterfactual sets laid out so that a gap compares twins alone, and the spread that gaps are measured in.

A set may vary several axes. The twin of an image is the one of the same set with the same levels of all other axes
(the same *stratum*), so that an effect of skin tone never enters the gap of gender, not even where images are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats, Ints
from equipoise.errors import InputError
from equipoise.measure.groups import Groups
from equipoise.measure.stats.exchange import keys_of, named_keys

NO_SPREAD = 1e-9
"""A spread below this share of the largest score is rounding."""


@dataclass(frozen=True)
class Spread:
    """How far the scores of one subject scatter between sets that show the same group.

    s² = sum of (score - mean of its cell)² / sum of (scores in the cell - 1); a cell holds the images of one subject,
    one group and one level of every other axis, one of each set. All subjects are pooled: one yardstick for all.
    """

    value: float
    """s; 0 where all sets score the same."""
    degrees: int
    """Scores less cells."""
    by_subject: Floats
    """(subjects,) each subject's part in the error of log s²; the parts sum to 0."""
    by_set: Floats
    """(S,) the same for each set, the sets of a subject about their mean."""

    @property
    def measurable(self) -> bool:
        """Whether there is a spread to measure gaps in."""
        return self.value > 0

    effective: float
    """Independent scores that would say as much about s: the images of a set move together."""

    @property
    def error(self) -> float:
        """The standard error of log s², over subjects if there are several, else over sets.

        Few units may happen to be alike: at least that of normal scores, sqrt(2 / effective).
        """
        if not self.measurable:
            return 0.0
        least = float(np.sqrt(2 / self.effective))
        parts = self.by_subject if len(self.by_subject) > 1 else self.by_set
        if len(parts) < 2:
            return least
        return max(least, float(np.sqrt(len(parts) / (len(parts) - 1) * (parts**2).sum())))


@dataclass(frozen=True)
class PairOfSets:
    """One pair of groups: what each set says of it."""

    first: str
    second: str
    gaps: Floats
    """(S,) the mean over strata of score(first) - score(second); NaN where no stratum has both."""
    wins: Floats
    """(S,) the share of strata in which ``first`` scores higher, ties half; NaN as above."""

    @property
    def name(self) -> str:
        """As in the ``group`` column of results."""
        return f"{self.first} - {self.second}"

    @property
    def usable(self) -> NDArray[np.bool_]:
        """(S,) the sets that hold twins of the two groups."""
        return np.asarray(~np.isnan(self.gaps))


@dataclass(frozen=True)
class GapCells:
    """The score of each group in each stratum of each set."""

    scores: Floats
    """(B, G) one row for each stratum of each set; NaN where it has no image of the group."""
    block_sets: Ints
    """(B,) the number of the set."""
    block_strata: Ints
    """(B,) the number of the stratum."""
    subjects: Ints
    """(S,) the number of each set's subject."""
    subject_names: tuple[str, ...]
    groups: Groups
    links: Ints | None
    """(S,) sets that show the same people (over subjects) have the same number; ``None``: all sets are independent."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Images without a group or a level; sets that lack a group."""
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> NDArray[np.bool_]:
        """(B,) whether a stratum of a set has every group."""
        return np.asarray(~np.isnan(self.scores).any(axis=1))

    def pairs(self) -> list[PairOfSets]:
        """All pairs of groups that some set holds twins of, the groups in their order."""
        n_groups = self.groups.n_groups
        both = [self.pair(a, b) for a in range(n_groups) for b in range(a + 1, n_groups)]
        return [pair for pair in both if pair.usable.any()]

    def pair(self, first: int, second: int) -> PairOfSets:
        """The gaps of two groups, by their numbers."""
        difference = self.scores[:, first] - self.scores[:, second]
        there = ~np.isnan(difference)
        sets, gaps = self.block_sets[there], difference[there]
        counts = np.bincount(sets, minlength=len(self.subjects))
        won = np.where(gaps > 0, 1.0, np.where(gaps == 0, 0.5, 0.0))
        some = counts > 0
        sums = [np.bincount(sets, part, minlength=len(counts)) for part in (gaps, won)]
        means = [np.where(some, total / np.maximum(counts, 1), np.nan) for total in sums]
        return PairOfSets(self.groups.names[first], self.groups.names[second], means[0], means[1])

    def subject_means(self, values: Floats) -> Floats:
        """(subjects,) the mean of ``values`` (S,) over each subject's sets; NaN where it has none."""
        there = ~np.isnan(values)
        counts = np.bincount(self.subjects[there], minlength=len(self.subject_names))
        sums = np.bincount(self.subjects[there], values[there], minlength=len(self.subject_names))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    @cached_property
    def spread(self) -> Spread:
        """The spread between sets of the same subject, group and stratum."""
        n_subjects, n_sets = len(self.subject_names), len(self.subjects)
        rows, columns = np.nonzero(~np.isnan(self.scores))
        values = self.scores[rows, columns]
        sets = self.block_sets[rows]
        subject = self.subjects[sets]
        keys = np.stack([subject, self.block_strata[rows], columns], axis=1)
        cell = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        sizes = np.bincount(cell)
        residuals = values - (np.bincount(cell, values) / sizes)[cell]
        squares = residuals**2
        # a score's share of its cell's degrees of freedom
        free = 1.0 - 1.0 / sizes[cell]
        degrees = round(float(free.sum()))
        variance = float(squares.sum() / degrees) if degrees > 0 else 0.0
        if variance <= (NO_SPREAD * float(np.abs(values).max(initial=0.0))) ** 2:
            return Spread(0.0, degrees, np.zeros(n_subjects), np.zeros(n_sets), 0.0)
        excess = (squares - variance * free) / (variance * degrees)
        by_set = np.bincount(sets, excess, minlength=n_sets).astype(np.float64)
        by_subject = np.bincount(subject, excess, minlength=n_subjects).astype(np.float64)
        effective = _effective(residuals, sets, degrees, variance)
        return Spread(float(np.sqrt(variance)), degrees, by_subject, by_set, effective)


def _effective(residuals: Floats, sets: Ints, degrees: int, variance: float) -> float:
    """Degrees of freedom of the variance of scores that share what is common to their set (Satterthwaite)."""
    counts = np.bincount(sets)
    images = float(counts.sum() / (counts > 0).sum())
    free = degrees / images  # sets less one for each subject
    means = np.bincount(sets, residuals) / np.maximum(counts, 1)
    common = min(images, images * float((means**2).sum()) / free / variance)
    apart = (images - common) / (images - 1) if images > 1 else 0.0
    return free * images**2 / (common**2 + (images - 1) * apart**2)


def gap_cells(
    scores: ArrayLike,
    sets: ArrayLike,
    groups: Groups,
    subjects: ArrayLike | None = None,
    *,
    strata: ArrayLike | None = None,
    links: ArrayLike | None = None,
) -> GapCells:
    """Scores of images, laid out by set, stratum and group.

    Several images of one group in a stratum are averaged.

    Args:
        scores: (N,) one per image, all finite.
        sets: (N,) the counterfactual set of each image.
        groups: of the images; an image without a group is left out.
        subjects: (N,) the subject of each image, the same all over a set; ``None``: all sets are of one subject.
        strata: (N,) numbers the combination of levels of the other axes that vary in the sets: twins have the same one;
            an image with -1 (a level is missing) is left out. ``None``: no other axis varies.
        links: (N,) names what sets share, such as the people they show, the same all over a set; ``None``: all sets are
            independent.

    Returns:
        One score for each group in each stratum of each set, with the sets' subjects and links.

    >>> groups = Groups.from_values(["f", "m", "f", "m"])
    >>> cells = gap_cells([0.3, 0.1, 0.9, 0.8], ["a"] * 4, groups, strata=[0, 0, 1, 1])
    >>> pair = cells.pairs()[0]
    >>> pair.name, pair.gaps.round(3).tolist(), pair.wins.tolist()
    ('f - m', [0.15], [1.0])
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"scores has shape {values.shape}; give one score per image")
    groups.check_length(len(values))
    if not np.isfinite(values).all():
        raise InputError(f"scores[{int(np.argmin(np.isfinite(values)))}] is not finite; every score must be a number")
    names, set_code = named_keys(sets, len(values), "sets")
    topics = np.zeros(len(values), dtype=int) if subjects is None else subjects
    subject_names, subject_code = named_keys(topics, len(values), "subjects")
    subject_of = _of_sets(names, set_code, subject_code, "subjects")
    stratum = np.zeros(len(values), dtype=np.int64)
    if strata is not None:
        stratum = np.asarray(strata)
        if stratum.shape != (len(values),) or not np.issubdtype(stratum.dtype, np.integer):
            raise InputError(f"strata has shape {stratum.shape} for {len(values)} images; give one number per image")
    linked = None
    if links is not None:
        linked = _of_sets(names, set_code, keys_of(links, len(values), "links"), "links")
    there = groups.defined & (stratum >= 0)
    keys = np.stack([set_code[there], stratum[there]], axis=1)
    blocks, block = np.unique(keys, axis=0, return_inverse=True)
    flat = block.ravel() * groups.n_groups + groups.labels[there]
    size = len(blocks) * groups.n_groups
    counts = np.bincount(flat, minlength=size)
    sums = np.bincount(flat, values[there], minlength=size)
    table = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).reshape(len(blocks), groups.n_groups)
    repeated = int((counts > 1).sum())
    lacking = len(np.unique(blocks[np.isnan(table).any(axis=1), 0])) + len(names) - len(np.unique(blocks[:, 0]))
    return GapCells(
        table,
        blocks[:, 0],
        blocks[:, 1],
        subject_of,
        tuple(map(str, subject_names)),
        groups,
        linked,
        {
            "image without a group": groups.n_undefined,
            "image without a level of another axis": int((groups.defined & (stratum < 0)).sum()),
            "set that lacks a group": lacking,
        },
        (f"{repeated} groups have several images in one set; their mean is used",) if repeated else (),
    )


def _of_sets(names: NDArray[Any], set_code: Ints, code: Ints, what: str) -> Ints:
    """(S,) the one code of each set's images."""
    codes = np.zeros(len(names), dtype=np.int64)
    codes[set_code] = code
    mixed = codes[set_code] != code
    if mixed.any():
        raise InputError(f"sets: {str(names[set_code[int(np.argmax(mixed))]])!r} holds images of two {what}")
    return codes
