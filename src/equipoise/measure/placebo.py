"""Is an axis more than one visible difference among others? Its gaps beside those of placebo axes.

A model may react to everything that changes in a picture: a bag, mirroring, brightness. Such *placebo axes* are no
group of people. What a gap says about people is what it has beyond them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.bootstrap import no_interval_note
from equipoise.measure.estimate import Estimate
from equipoise.measure.gap_cells import GapCells
from equipoise.measure.gap_sizes import squared_gaps
from equipoise.measure.permutation import sign_flip

__all__ = ["placebo_excess", "squared_sizes"]

FloatArray = NDArray[np.float64]


def placebo_excess(
    axis: GapCells,
    placebos: Mapping[str, GapCells],
    *,
    draws: int = 9999,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate | None:
    """The standard gap size of ``axis`` less that of the ``placebos``, paired over subjects; ``None`` without subjects.

    Squares of sizes are compared, because only they are free of noise: the axis is averaged over more or fewer twins
    than a placebo, and noise must not decide. D_u = (squared standard gap of the axis) - (mean of that over placebos)
    of subject u, pairs of groups averaged first; chance 0. Squares are skew, and an axis with more noise than its
    placebos would often pass for smaller: the p-value is the larger of that of sign flips of the D_u and that of a t
    test corrected for skewness (Hall 1992). The value is sqrt(mean over subjects of the axis) - sqrt(that of the
    placebos), each cut at 0, in spreads; the ends of the corrected t interval of the mean D are brought to that scale
    with the placebos' size held.

    >>> from equipoise.measure.gap_cells import gap_cells
    >>> from equipoise.measure.groups import Groups
    >>> rng = np.random.default_rng(0)
    >>> subjects, sets = np.repeat(np.arange(8), 12), np.repeat(np.arange(32), 3)
    >>> gender, bag = np.tile([0, 1, 0], 32), np.tile([0, 0, 1], 32)
    >>> scores = np.repeat(rng.normal(size=32), 3) + 0.8 * gender + 0.2 * bag + rng.normal(scale=0.1, size=96)
    >>> people = gap_cells(scores, sets, Groups(gender, ("f", "m")), subjects=subjects, strata=bag)
    >>> bags = gap_cells(scores, sets, Groups(bag, ("no", "yes")), subjects=subjects, strata=gender)
    >>> excess = placebo_excess(people, {"placebo_bag": bags})
    >>> 0.4 < excess.value < 0.8, excess.ci_low > 0.3, excess.p_value < 0.01
    (True, True, True)
    """
    if not placebos:
        raise InputError("placebos is empty; give at least one placebo axis")
    mine, others = squared_sizes(axis), [squared_sizes(cells) for cells in placebos.values()]
    names = [name for name in mine if all(name in other for other in others)]
    if not names:
        return None
    own = np.array([mine[name] for name in names])
    placebo = np.array([np.mean([other[name] for other in others]) for name in names])
    differences = own - placebo
    test = sign_flip(differences, draws=draws, seed=seed)
    p_value = max(float(test.p_value), _skewed_p(differences))
    size, beside = (float(np.sqrt(max(0.0, part.mean()))) for part in (own, placebo))
    interval = _interval(differences, placebo, level)
    low, high = interval or (None, None)
    notes = [f"{size:.3g} beside {beside:.3g} of placebos: {', '.join(placebos)}", "n is subjects"]
    if interval is None:
        notes.append(no_interval_note(differences))
    scale = size + beside if size + beside > 0 else 1.0
    return Estimate(
        size - beside,
        low,
        high,
        null_mean=0.0,
        null_sd=float(test.null_sd) / scale,
        p_value=p_value,
        n=len(names),
        n_groups=axis.groups.n_groups,
        notes=tuple(notes),
        level=level,
    )


def squared_sizes(cells: GapCells) -> dict[str, float]:
    """The squared standard gap of each subject that has one, averaged over pairs of groups; noise taken out."""
    pairs = cells.pairs()
    if not pairs:
        return {}
    table = np.stack([squared_gaps(cells, pair) for pair in pairs])
    there = ~np.isnan(table)
    counts = there.sum(axis=0)
    means = np.where(there, table, 0.0).sum(axis=0) / np.maximum(counts, 1)
    return {name: float(means[i]) for i, name in enumerate(cells.subject_names) if counts[i]}


def _skewness(values: FloatArray) -> tuple[float, float]:
    """Standard deviation (divided by n) and skewness; both 0 where all values are alike."""
    deviations = values - values.mean()
    spread = float(np.sqrt((deviations**2).mean()))
    if spread <= 1e-12 * float(np.abs(values).max(initial=0.0)):
        return 0.0, 0.0
    return spread, float((deviations**3).mean()) / spread**3


def _skewed_p(values: FloatArray) -> float:
    """Two-sided p-value for a mean of 0 by Hall's transformed t; 0 where it cannot be had, and flips alone must say."""
    n, (spread, skew) = len(values), _skewness(values)
    if n < 2 or spread == 0.0:
        return 0.0
    ratio = float(values.mean()) / spread
    moved = ratio + skew * ratio**2 / 3 + skew**2 * ratio**3 / 27 + skew / (6 * n)
    return 2 * float(sps.t.sf(abs(moved) * np.sqrt(n - 1), n - 1))


def _interval(differences: FloatArray, placebo: FloatArray, level: float) -> tuple[float, float] | None:
    """Hall's interval for the mean difference of squares, brought to the scale of sizes."""
    n, (spread, skew) = len(differences), _skewness(differences)
    if n < 2 or spread == 0.0:
        return None
    reach = float(sps.t.ppf((1 + level) / 2, n - 1)) / np.sqrt(n - 1)
    mean, held = float(differences.mean()), max(0.0, float(placebo.mean()))
    ends = []
    for side in (reach, -reach):
        moved = side - skew / (6 * n)
        # the inverse of Hall's cubic, which is a shifted cube
        ratio = moved if abs(skew) < 1e-6 else 3 / skew * (float(np.cbrt(1 + skew * moved)) - 1)
        ends.append(float(np.sqrt(max(0.0, held + mean - spread * ratio)) - np.sqrt(held)))
    value = float(np.sqrt(max(0.0, held + mean)) - np.sqrt(held))
    return min(ends[0], value), max(ends[1], value)
