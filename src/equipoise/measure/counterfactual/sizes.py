"""How large a gap inside counterfactual sets is, in numbers that mean the same for every model.

A gap of 0.01 in cosine is a lot for one model and nothing for another. Two sizes do not depend on the scale of scores:

- ``standard_gap``: the gap over the spread between sets of the same group (:class:`~.cells.Spread`). At 1, who is
  shown moves the score as far as one standard deviation of everything else that differs between pictures of a subject.
- ``outranks``: how often a picture of the first group scores above its twin.

Both have a direction, and cancel where subjects point opposite ways. ``standard_gap_size`` does not: the root mean
square over subjects of the standard gap, with the noise taken out. The square of a subject's gap is estimated by the
product of the gaps of two different sets, averaged over all pairs of its sets: the noise of one set cannot meet itself,
so that noise alone gives 0 on average, before the root.

>>> from equipoise.measure.counterfactual.cells import gap_cells
>>> from equipoise.measure.groups import Groups
>>> rng = np.random.default_rng(0)
>>> groups = Groups.from_values(["f", "m"] * 60)
>>> subjects = np.repeat(["nurse", "pilot", "cook", "judge", "clerk", "smith"], 20)
>>> scene = np.repeat(rng.normal(size=60), 2)
>>> leaning = np.tile([0.5, 0.0], 60) * np.where(np.arange(120) < 60, 1, -1)  # half the subjects each way
>>> scores = scene + leaning + rng.normal(scale=0.1, size=120)
>>> cells = gap_cells(scores, np.repeat(np.arange(60), 2), groups, subjects=subjects)
>>> signed, size = standard_gaps(cells)[0].estimate, standard_gap_sizes(cells)[0].estimate
>>> abs(signed.value) < 0.1, 0.5 < size.value < 0.7, size.p_value < 0.01
(True, True, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats as sps

from equipoise.array_types import Floats
from equipoise.measure.counterfactual.cells import GapCells, PairOfSets
from equipoise.measure.counterfactual.units import Units, parts_of, repeated, share_interval, t_interval
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval, pair_keys
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.group_range import size_of
from equipoise.measure.stats.laws import normal_below, t_quantile
from equipoise.measure.stats.permutation import p_values
from equipoise.pace import steps

PIVOTS = 4000
"""Draws of the pivots behind the interval of a size."""
FLIPS = 9999
"""Flips behind the p-value of the size of one subject's gap, which is that of its mean."""
NO_SPREAD = "no standard gap: all sets of a group score the same, so there is no spread to measure it in"


@dataclass(frozen=True)
class SizedGap:
    """One number about the gap ``first`` - ``second``, of one subject or of all (``subject`` is ``None``)."""

    metric: str
    subject: str | None
    first: str
    second: str
    estimate: Estimate

    def row(self, **keys: Any) -> dict[str, Any]:
        """One row of a results table."""
        own = {"metric": self.metric, "subject": self.subject, **pair_keys(self.first, self.second)}
        return self.estimate.row(**(own | keys))


@metric(
    "standard_gap",
    takes="scores",
    title="signed gap inside sets",
    summary="Score gap between twins of two groups in units of the spread between sets of the same group.",
    citation="as Cohen's d, Statistical Power Analysis for the Behavioral Sciences, 1988",
    formula="mean over subjects of (mean gap of its sets) / s; s^2 = pooled variance between sets of one subject, "
    "group and level of the other axes",
    range="(-inf, inf)",
    direction="0 is parity; above: the first group fits the neutral text better; 0.2 is small, 0.8 large",
    chance="0; signs of subjects flipped (of sets, for one subject)",
    when_it_lies="sets that hardly differ make a small spread and a large gap; opposite stereotypes cancel",
    unit="spreads",
)
def standard_gaps(
    cells: GapCells, *, by_subject: bool = False, draws: int = 9999, seed: int = 0, level: float = 0.95
) -> list[SizedGap]:
    """The gap of every pair of groups in units of the spread, over all subjects or for each subject.

    Over all subjects: d = mean over subjects of (mean gap of its sets) / s. The t interval is over subjects and counts
    the error of s too; the p-value flips the signs of subjects (chance 0). For one subject, or without subjects, sets
    take their place. Sets that are linked over subjects flip together, and widen the interval by what they share.
    """
    if not cells.spread.measurable:
        return []
    rows, scale = [], cells.spread.value
    for pair, subject, members in parts_of(cells, by_subject):
        units = Units.of(cells, pair.gaps, members, whole=subject is None)
        p_value, null_sd = units.flip_test(draws, seed)
        value, error = float(units.values.mean()) / scale, units.error / scale
        spread_part = units.spread_part() if subject is None else (value * cells.spread.error / 2) ** 2
        total = float(np.sqrt(max(error**2 + spread_part, error**2 / 4)))
        few = units.independent
        interval = t_interval(value, total, few, level) if error > 0 and few > 1 else None
        estimate = Estimate(value, null_mean=0.0, null_sd=null_sd / scale, p_value=p_value, level=level)
        notes = (f"spread {scale:.4g}", *_told(units))
        rows.append(_signed("standard_gap", pair, subject, units, interval, estimate, notes))
    return rows


@metric(
    "outranks",
    takes="scores",
    title="share of sets in which the first group comes first",
    summary="Probability that a picture of the first group scores above its twin of the second.",
    citation="McGraw and Wong, A common language effect size statistic, Psychological Bulletin 1992",
    formula="mean over subjects of the share of twins in the same set with s(a) > s(b), ties half",
    bounds=(0.0, 1.0),
    direction="0.5 is parity; above: the first group wins",
    chance="0.5; subjects flipped about it (sets, for one subject)",
    when_it_lies="near 1 for a tiny gap that is always there: it says how sure, standard_gap says how much",
    unit="share",
)
def outranks(
    cells: GapCells, *, by_subject: bool = False, draws: int = 9999, seed: int = 0, level: float = 0.95
) -> list[SizedGap]:
    """The probability that a picture of the first group scores above its twin of the second; ties count half.

    Twins are in the same set and have the same level of all other axes. A subject's share is one unit (a set's, for one
    subject); chance is 0.5, the p-value flips units about it. The interval is exact for as many independent yes/no
    values as would be as certain (see ``share_interval``), so it stays inside [0, 1].
    """
    rows = []
    for pair, subject, members in parts_of(cells, by_subject):
        units = Units.of(cells, pair.wins, members, whole=subject is None)
        p_value, null_sd = units.flip_test(draws, seed, about=0.5)
        value = float(units.values.mean())
        interval = share_interval(value, units.error, units.independent, level)
        estimate = Estimate(value, null_mean=0.5, null_sd=null_sd, p_value=p_value, level=level)
        rows.append(_signed("outranks", pair, subject, units, interval, estimate, _told(units)))
    return rows


def _signed(
    metric: str,
    pair: PairOfSets,
    subject: str | None,
    units: Units,
    interval: tuple[float, float] | None,
    estimate: Estimate,
    notes: tuple[str, ...],
) -> SizedGap:
    """The row of a mean over units, with its interval or the reason why there is none."""
    low, high = interval or (None, None)
    whole = replace(
        estimate,
        ci_low=low,
        ci_high=high,
        n=len(units),
        n_groups=2,
        dropped=_dropped(units.cells, pair, subject),
        notes=notes if interval else (*notes, units.why_no_interval()),
    )
    return SizedGap(metric, subject, pair.first, pair.second, whole)


@metric(
    "standard_gap_size",
    takes="scores",
    title="gap inside sets",
    summary="Root mean square over subjects of the standard gap, noise taken out: how large, whichever way.",
    citation="Equipoise",
    formula="sqrt(max(0, mean over subjects of the mean over pairs of its sets t != t' of gap_t gap_t' / s^2))",
    range="[0, inf); the interval is that of the true size",
    direction="lower is better; compare the interval with the margin as it stands",
    better="lower",
    alternative="greater",
    chance="just above 0, because it is cut there; signs of whole sets flipped",
    when_it_lies="a quirk of every single subject counts as much as one common direction: read standard_gap too",
    unit="spreads",
    main=2,
)
def standard_gap_sizes(
    cells: GapCells, *, by_subject: bool = False, draws: int = 999, seed: int = 0, level: float = 0.95
) -> list[SizedGap]:
    """How large standard gaps are, whichever way they point: their root mean square over subjects, without noise.

    size² = mean over subjects of the mean over pairs t != t' of its sets of gap_t gap_t' / s², cut at 0: unbiased for
    the mean of the squared true gaps. The cut makes chance larger than 0: the mean of the same number when the signs of
    whole sets (of linked sets together) are flipped; the p-value comes from the same flips. The interval is that of the
    true size, so it is compared with a margin as it stands, without chance taken off. It is made of pivots for a normal
    scatter of subjects: (mean)², variance over subjects less noise, each with its own error, and never leaves [0, inf).
    Subjects with one set say nothing about their noise and are left out.
    """
    if not cells.spread.measurable:
        return []
    rows = []
    for pair, subject, members in parts_of(cells, by_subject):
        kept = repeated(cells, members)
        if not kept.size:
            continue
        n_kept = len(np.unique(cells.subjects[kept]))
        units = Units.of(cells, pair.gaps, kept, whole=subject is None)
        estimate = _size(pair, units, subject is not None or n_kept == 1, draws, seed, level)
        lost = len(np.unique(cells.subjects[members])) - n_kept
        note = f"{lost} subjects with one set left out" if lost else ""
        rows.append(SizedGap("standard_gap_size", subject, pair.first, pair.second, estimate.with_notes(note)))
    return rows


def squared_gaps(cells: GapCells, pair: PairOfSets) -> Floats:
    """(subjects,) the square of each subject's standard gap without noise; NaN with fewer than two sets.

    The product of the gaps of two different sets, averaged over all pairs of sets: it may be below 0.
    """
    members = repeated(cells, np.flatnonzero(pair.usable))
    squared = np.full(len(cells.subject_names), np.nan)
    if members.size and cells.spread.measurable:
        units = Units.of(cells, pair.gaps, members, whole=True)
        codes, squares = _products(units, np.ones((1, len(members))))
        squared[codes] = squares[0] / cells.spread.value**2
    return squared


def _size(pair: PairOfSets, units: Units, alone: bool, draws: int, seed: int, level: float) -> Estimate:
    """The size of a gap over several subjects, or of one ``alone``, whose units are its sets."""
    cells, scale = units.cells, units.cells.spread.value
    codes, squares = _products(units, np.ones((1, len(units.members))))
    square = float(squares.mean())
    null = np.concatenate([_products(units, signs)[1].mean(axis=1) for signs in _flips(units, draws, seed)])
    sizes = np.sqrt(np.maximum(null, 0.0)) / scale
    interval: tuple[float, float] | None
    if alone:
        p: float = units.flip_test(FLIPS, seed)[0]
        mean, few = units.values.mean(), units.independent
        error = float(np.hypot(units.error / scale, mean / scale * cells.spread.error / 2))
        interval = size_of(*t_interval(float(mean) / scale, error, few, level)) if few > 1 else None
    else:
        p = p_values(square, null, rng=seed).value
        interval = _size_interval(pair, units, seed, level)
    low, high = interval or (None, None)
    what = "absolute gap" if alone else "root mean square over subjects"
    notes = [*_told(units), f"{what} without noise; the interval is that of the true size"]
    if interval is None:
        notes.append(no_interval("too few independent units, or all alike"))
    return Estimate(
        float(np.sqrt(max(square, 0.0))) / scale,
        low,
        high,
        null_mean=float(sizes.mean()),
        null_sd=float(sizes.std()),
        p_value=p,
        n=len(units),
        n_groups=2,
        dropped=_dropped(cells, pair, cells.subject_names[codes[0]] if alone else None),
        notes=(f"spread {scale:.4g}", *notes),
        level=level,
    )


def squared_pivots(cells: GapCells, pair: PairOfSets, seed: int = 0, normals: Floats | None = None) -> Floats | None:
    """(PIVOTS,) draws that are to the squared size what a t interval's are to a mean; ``None`` where there are none.

    Generalised pivots (Weerahandi 1993) for mean² + variance - noise over subjects, centred so that they have no bias,
    in squared spreads. Normal scatter of subjects and of sets is assumed; a draw may be below 0. Axes that are compared
    share the draws of the spread, and give the ``normals`` (3, PIVOTS) behind the draws of mean, scatter and noise.
    """
    kept = repeated(cells, np.flatnonzero(pair.usable))
    if not cells.spread.measurable or len(np.unique(cells.subjects[kept])) < 2:
        return None
    moments = _scatter(Units.of(cells, pair.gaps, kept, whole=True))
    if moments is None:
        return None
    n, centre, variance, noise, free, shared = moments
    if normals is None:
        normals = np.random.default_rng([seed, 1]).normal(size=(3, PIVOTS))
    of_scatter, of_noise = normal_below(normals[1]), normal_below(normals[2])
    # the spread that gaps are measured in is known to its own error, the same for every axis
    sure = 2 / cells.spread.error**2
    yardstick = cells.spread.value**2 * sure / np.random.default_rng([seed, 0]).chisquare(sure, PIVOTS)
    scatter = variance * (n - 1) / sps.chi2.ppf(of_scatter, n - 1)
    error = scatter / n + shared
    moved = centre + normals[0] * np.sqrt(error)
    # a squared mean is too large by its error, and its pivot once more
    squares = moved**2 - 2 * error + scatter - noise * free / sps.chi2.ppf(of_noise, free)
    return np.asarray(squares / yardstick)


def _scatter(units: Units) -> tuple[int, float, float, float, float, float] | None:
    """Of subjects: how many, mean and variance of their gaps, noise and its degrees of freedom, what links add."""
    means, subject = units.values, np.unique(units.cells.subjects[units.members], return_inverse=True)[1]
    counts = np.bincount(subject)
    noise = np.bincount(subject, (units.of_sets - means[subject]) ** 2) / ((counts - 1) * counts)
    n, variance = len(means), float(means.var(ddof=1))
    if variance <= 0 or noise.sum() <= 0:
        return None
    free = float(noise.sum() ** 2 / (noise**2 / (counts - 1)).sum())
    shared = max(0.0, units.error**2 - variance / n)
    return n, float(means.mean()), variance, float(noise.mean()), free, shared


def _size_interval(pair: PairOfSets, units: Units, seed: int, level: float) -> tuple[float, float] | None:
    squares, moments = squared_pivots(units.cells, pair, seed), _scatter(units)
    if squares is None or moments is None:
        return None
    n, centre, variance, _, _, shared = moments
    low, high = np.quantile(squares, [(1 - level) / 2, (1 + level) / 2])
    # no size is below that of the mean gap, so neither is its upper limit
    reach = abs(centre) + float(t_quantile((1 + level) / 2, n - 1)) * np.sqrt(variance / n + shared)
    high = max(high, (reach / units.cells.spread.value) ** 2)
    return float(np.sqrt(max(low, 0.0))), float(np.sqrt(high))


def _flips(units: Units, draws: int, seed: int) -> Iterator[Floats]:
    """Blocks (r, sets) of signs, the same for linked sets."""
    n, codes = len(units.members), units.links
    n_coins = n if codes is None else int(codes.max()) + 1
    rng = np.random.default_rng(seed)
    step = max(1, 1_000_000 // max(n, 1))
    for start in steps(range(0, draws, step)):
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(min(step, draws - start), n_coins), dtype=np.int8)
        yield np.asarray(signs if codes is None else signs[:, codes], dtype=np.float64)


def _products(units: Units, signs: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Numbers of the subjects, and (r, subjects) the mean product of the gaps of two different sets under ``signs``."""
    subjects, codes = np.unique(units.cells.subjects[units.members], return_inverse=True)
    counts = np.bincount(codes)
    member = np.zeros((len(codes), len(subjects)))
    member[np.arange(len(codes)), codes] = units.of_sets
    sums = signs @ member
    own = np.bincount(codes, units.of_sets**2)
    return subjects, np.asarray((sums**2 - own) / (counts * (counts - 1)))


def _dropped(cells: GapCells, pair: PairOfSets, subject: str | None) -> dict[str, int]:
    lost = ~pair.usable
    if subject is not None:
        lost &= cells.subjects == cells.subject_names.index(subject)
    return {f"set without {pair.first} or {pair.second}": int(lost.sum())}


def _told(units: Units) -> tuple[str, ...]:
    notes = []
    if len(units) < len(units.members):
        notes.append(f"n is subjects, of {len(units.members)} sets")
    if units.links is not None:
        notes.append("linked sets flip together")
    return tuple(notes)
