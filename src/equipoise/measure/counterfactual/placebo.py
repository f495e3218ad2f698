"""Is an axis more than one visible difference among others? Its gaps beside those of placebo axes.

A model may react to everything that changes in a picture: a bag, mirroring, brightness. Such *placebo axes* are no
group of people. What a gap says about people is what it has beyond them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.counterfactual.cells import GapCells
from equipoise.measure.counterfactual.sizes import PIVOTS, squared_gaps, squared_pivots
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval, note
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import sign_flip

NO_PIVOTS = "too few independent units, or no noise between sets"


@metric(
    "placebo_excess",
    takes="scores",
    title="gap inside sets beyond that of the placebo",
    summary="Standard gap size of an axis minus that of things that are not a group of people.",
    citation="Equipoise",
    formula="sqrt(mean q) - sqrt(mean q of placebos), q = squared standard gap of a subject without noise",
    range="(-inf, inf)",
    direction="0: no more than a placebo; above: the axis moves scores more",
    chance="0; signs of subjects' differences of squares flipped",
    when_it_lies="a placebo that changes few pixels is easily beaten; name several",
    unit="spreads",
)
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
    of subject u, pairs of groups averaged first; chance 0, the p-value flips the signs of the D_u. The value is
    sqrt(mean over subjects of the axis) - sqrt(that of the placebos), each cut at 0, in spreads, and its interval comes
    from the pivots of both (``squared_pivots``). Squares are skew, and an axis with
    more noise than its placebos would often pass for smaller: below 0 the p-value is at least that of the pivots.

    >>> from equipoise.measure.counterfactual.cells import gap_cells
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
    test = sign_flip(own - placebo, draws=draws, seed=seed)
    p_value = float(test.p_value)
    size, beside = (float(np.sqrt(max(0.0, part.mean()))) for part in (own, placebo))
    low = high = None
    axes = [axis, *placebos.values()]
    drawn = [_pivots(cells, seed, normals) for cells, normals in zip(axes, _related_normals(axes, seed), strict=True)]
    pivots = [part for part in drawn if part is not None]
    if len(pivots) == len(drawn):
        squares, other_squares = pivots[0], np.mean(pivots[1:], axis=0)
        if own.mean() < placebo.mean():
            p_value = max(p_value, _both_sides(squares - other_squares))
        excess = np.sqrt(np.maximum(squares, 0.0)) - np.sqrt(np.maximum(other_squares, 0.0))
        ends = np.quantile(excess, [(1 - level) / 2, (1 + level) / 2])
        low, high = min(float(ends[0]), size - beside), max(float(ends[1]), size - beside)
    notes = [note("beside_placebos", size=size, beside=beside, placebos=", ".join(placebos)), "n is subjects"]
    if low is None:
        notes.append(no_interval(NO_PIVOTS if len(names) > 1 else "one independent unit"))
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


def _pivots(cells: GapCells, seed: int, normals: Floats) -> Floats | None:
    """Pivots of the squared size of an axis; its pairs share the draws, since they share images."""
    parts = [squared_pivots(cells, pair, seed, normals) for pair in cells.pairs()]
    there = [part for part in parts if part is not None]
    return np.mean(there, axis=0) if there else None


def _related_normals(axes: Sequence[GapCells], seed: int) -> Floats:
    """(axes, 3, PIVOTS) standard normals behind the pivots, as much alike as the errors of the axes are.

    Axes share pictures: every placebo is compared with the same unchanged ones. Draws of its own for each make the
    interval of three placebos too short (it covers .91), the same draws for all too long (.98). Where the gaps of
    subjects correlate at r, so do their means; their variances and noise correlate at r².
    """
    alike = _correlations(axes)
    normals = np.random.default_rng([seed, 1]).normal(size=(3, len(axes), PIVOTS))
    parts = zip((alike, alike**2, alike**2), normals, strict=True)
    return np.stack([_root(correlation) @ part for correlation, part in parts], axis=1)


def _correlations(axes: Sequence[GapCells]) -> Floats:
    """(axes, axes) how the mean gaps of subjects correlate, averaged over pairs of groups; 0 where nothing says so."""
    gaps = [_gaps_of_subjects(cells) for cells in axes]
    names = [name for name in gaps[0] if all(name in other for other in gaps)]
    alike = np.eye(len(axes))
    if len(names) < 3:
        return alike
    tables = [np.stack([part[name] for name in names]) for part in gaps]
    centred = [table - table.mean(axis=0) for table in tables]
    units = [table / np.maximum(np.sqrt((table**2).sum(axis=0)), np.finfo(float).tiny) for table in centred]
    for i, j in combinations(range(len(axes)), 2):
        alike[i, j] = alike[j, i] = float((units[i].T @ units[j]).mean())
    return alike


def _gaps_of_subjects(cells: GapCells) -> dict[str, Floats]:
    """(pairs,) the mean gaps of every subject that has all of them."""
    table = np.stack([cells.subject_means(pair.gaps) for pair in cells.pairs()], axis=1)
    return {name: row for name, row in zip(cells.subject_names, table, strict=True) if not np.isnan(row).any()}


def _root(correlations: Floats) -> Floats:
    """A matrix whose product with independent normals correlates like that."""
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root / np.sqrt((root**2).sum(axis=1, keepdims=True)))


def _both_sides(differences: Floats) -> float:
    """Two-sided p-value that a difference is 0, from its pivots."""
    below = float((differences <= 0).mean())
    return min(1.0, 2 * min(below, 1 - below) + 2 / len(differences))
