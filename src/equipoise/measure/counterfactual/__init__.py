"""What only counterfactual sets can show: how a score changes when nothing but the group does.

Images of a set show the same scene and differ only in the perceived group, so their score gap is an effect of the
group. Unlike MaxSkew, which cannot exceed the log of the number of groups, the gap does not saturate.

>>> groups = Groups.from_values(["f", "m"] * 4)
>>> cells = gap_cells([0.30, 0.20, 0.28, 0.21, 0.31, 0.22, 0.27, 0.20], [0, 0, 1, 1, 2, 2, 3, 3], groups)
>>> gap = pair_gaps(cells)[0]
>>> gap.first, gap.second, round(gap.estimate.value, 4), gap.estimate.p_value, gap.won_first
('f', 'm', 0.0825, 0.125, 1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.counterfactual.cells import GapCells, PairOfSets, gap_cells
from equipoise.measure.counterfactual.decomposition import Decomposition, Term, decompose
from equipoise.measure.counterfactual.units import Units
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval, pair_keys
from equipoise.measure.stats.bootstrap import mean_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import EXACT_LIMIT, holm, sign_flip, with_chance

__all__ = [
    "Decomposition",
    "GapCells",
    "Groups",
    "PairGap",
    "Term",
    "decompose",
    "gap_cells",
    "pair_gaps",
    "size_of_gaps",
]


@dataclass(frozen=True)
class PairGap:
    """The score gap ``first`` minus ``second`` inside sets, of one subject or of all."""

    subject: str | None
    """``None`` for all subjects together, each counting once."""
    first: str
    second: str
    estimate: Estimate
    """The mean gap; chance level 0; sign-flip p-value."""
    effect_size: float | None
    """d_z: the mean gap over the standard deviation of the gaps; ``None`` with fewer than two, or without spread."""
    won_first: float
    """The share of sets in which ``first`` scores higher; ties count half."""
    won_second: float
    n_incomplete: int
    """Sets without an image of one of the two."""
    p_holm: float | None = None
    """The p-value, adjusted for all pairs (of all subjects) reported together."""

    def row(self, **keys: Any) -> dict[str, Any]:
        """One row of a results table."""
        own = {"metric": "counterfactual_gap", "subject": self.subject, **pair_keys(self.first, self.second)}
        return self.estimate.row(**(own | keys))


@metric(
    "counterfactual_gap",
    takes="scores",
    title="score gap inside sets",
    summary="Score gap between two groups inside counterfactual sets.",
    citation="Equipoise",
    formula="mean over sets of s(a) - s(b); d_z = mean / sd; share of sets won, ties half",
    range="that of the score",
    direction="0 is parity; above: the first group fits the neutral text better",
    chance="0; sign flips of whole sets",
    when_it_lies="the images of a set differ in more than the group when generation slips: filter first",
    unit="score",
)
def pair_gaps(
    cells: GapCells,
    *,
    pairs: Sequence[tuple[str, str]] | None = None,
    by_subject: bool = False,
    draws: int = 9999,
    seed: int = 0,
    level: float = 0.95,
) -> list[PairGap]:
    """The gap of every pair of groups, over all subjects, or for each subject apart.

    Over all subjects, a subject's mean gap is one unit, however many sets it has; for one subject (or without subjects)
    a set is. A set's gap is the mean over its strata that hold both groups. The p-value flips the signs of units. Where
    sets are linked, of different subjects or of one, what they share moves them together: links are flipped as well,
    the larger p-value counts, and the interval is two-way clustered.

    Args:
        cells: the scores, from :func:`gap_cells`.
        pairs: the names of the two groups of each pair, whose gap is the first less the second; ``None``: all pairs.
        by_subject: whether each subject gets gaps of its own, in place of those over all subjects.
        draws: how many random sign patterns with more than 12 units; up to 12 all patterns are tried.
        seed: which signs are drawn.
        level: confidence level of the intervals.

    Returns:
        One row per pair, or per subject and pair, their p-values adjusted together; none for a pair that no set holds.
    """
    held = _chosen_pairs(cells, pairs)
    parts: list[tuple[str | None, NDArray[np.intp]]] = [(None, np.arange(len(cells.subjects)))]
    if by_subject:
        parts = [(name, np.flatnonzero(cells.subjects == code)) for code, name in enumerate(cells.subject_names)]
    rows = [row for part in parts for row in _gaps_of(cells, *part, held, draws, seed, level)]
    adjusted = holm([row.estimate.p_value or 0.0 for row in rows])
    return [replace(row, p_holm=float(p)) for row, p in zip(rows, adjusted, strict=True)]


def _chosen_pairs(cells: GapCells, pairs: Sequence[tuple[str, str]] | None) -> list[PairOfSets]:
    groups = cells.groups
    if pairs is None:
        chosen = list(combinations(range(groups.n_groups), 2))
    else:
        chosen = [(groups.index(a), groups.index(b)) for a, b in pairs]
        for a, b in chosen:
            if a == b:
                raise InputError(f"pairs: {groups.names[a]!r} is paired with itself")
    if not chosen:
        raise InputError(f"pairs: {groups.n_groups} group makes no pair; give at least two groups")
    return [cells.pair(a, b) for a, b in chosen]


def _gaps_of(
    cells: GapCells,
    subject: str | None,
    members: NDArray[np.intp],
    held: Sequence[PairOfSets],
    draws: int,
    seed: int,
    level: float,
) -> list[PairGap]:
    pooled = subject is None and len(cells.subject_names) > 1
    columns = [cells.subject_means(pair.gaps) if pooled else pair.gaps[members] for pair in held]
    usable = [place for place, column in enumerate(columns) if not np.isnan(column).all()]
    if not usable:
        return []
    test = sign_flip(np.stack(columns, axis=1)[:, usable], draws=draws, seed=seed)
    rows = []
    for place, at in enumerate(usable):
        pair, column = held[at], columns[at]
        there = members[pair.usable[members]]
        units = Units(cells, there, pair.gaps[there], column[~np.isnan(column)])
        p_value, spread, shared = float(test.p_value[place]), float(test.null_sd[place]), 0.0
        if not test.exact and len(units) <= EXACT_LIMIT:  # other pairs have more units than this one
            p_value = float(sign_flip(units.values).p_value)
        notes = cells.notes if len(units) == len(there) else (*cells.notes, f"n is subjects, of {len(there)} sets")
        if units.links is not None or (subject is None and cells.links is not None):
            p_value, spread = units.flip_test(draws, seed)
            shared = units.least_error(level)
        if units.links is not None:
            notes = (*notes, "linked sets flip together")
        interval = mean_interval(units.values, level=level, least_error=shared)
        if units.independent < 2:
            interval = None
        low, high = interval or (None, None)
        missing = len(members) - len(there)
        estimate = Estimate(
            float(test.value[place]),
            low,
            high,
            null_mean=0.0,
            null_sd=spread,
            p_value=p_value,
            n=len(units),
            n_groups=2,
            dropped={f"set without {pair.first} or {pair.second}": missing},
            notes=notes if interval else (*notes, units.why_no_interval()),
            level=level,
        )
        won = float(pair.wins[there].mean())
        effect = _effect_size(units.values)
        rows.append(PairGap(subject, pair.first, pair.second, estimate, effect, won, 1 - won, missing))
    return rows


def _effect_size(gaps: Floats) -> float | None:
    if len(gaps) < 2 or float(gaps.std(ddof=1)) == 0.0:
        return None
    return float(gaps.mean() / gaps.std(ddof=1))


@metric(
    "counterfactual_gap_size",
    takes="scores",
    title="size of the score gap inside sets",
    summary="Mean over subjects of the absolute gap: how large, whichever way.",
    citation="Equipoise",
    formula="mean over subjects of |mean over its sets of s(a) - s(b)|",
    range="[0, inf)",
    better="lower",
    alternative="greater",
    chance="above 0 from noise alone; signs of sets flipped",
    when_it_lies="without its null: few sets per subject make it large",
    unit="score",
    main=3,
)
def size_of_gaps(
    cells: GapCells, *, pairs: Sequence[tuple[str, str]] | None = None, draws: int = 999, seed: int = 0
) -> list[PairGap]:
    """How large the gaps are, whichever way they point: the mean over subjects of the absolute mean gap.

    Signed gaps of opposite stereotypes cancel over subjects; this does not. Noise alone gives a value above 0, so
    the chance level comes from flipping the signs of single sets, of linked sets together.

    Args:
        cells: the scores, from :func:`gap_cells`.
        pairs: the names of the two groups of each pair; ``None``: all pairs.
        draws: how many random sign patterns make the chance level.
        seed: which signs are drawn.

    Returns:
        One row per pair, without an interval; none for a pair that no set holds.

    >>> groups = Groups.from_values(["f", "m"] * 20)
    >>> scores = np.random.default_rng(0).normal(size=40) + np.tile([0.0, 2.0], 20) * np.repeat([1, -1], 20)
    >>> cells = gap_cells(scores, np.repeat(np.arange(20), 2), groups, np.repeat(["nurse", "pilot"], 20))
    >>> signed, size = pair_gaps(cells)[0].estimate, size_of_gaps(cells)[0].estimate
    >>> abs(signed.value) < 1, size.value > 1.5, size.p_value < 0.01
    (True, True, True)
    """
    held = [pair for pair in _chosen_pairs(cells, pairs) if pair.usable.any()]
    if not held:
        return []
    rng = np.random.default_rng(seed)
    # one coin per link, the same for every subject; without links one per set, drawn subject by subject to save memory
    coins = None
    if cells.links is not None:
        coins = rng.integers(0, 2, size=(draws, int(cells.links.max()) + 1), dtype=np.int8)
    gaps = np.stack([np.where(pair.usable, pair.gaps, 0.0) for pair in held], axis=1)
    there = np.stack([pair.usable for pair in held], axis=1)
    total, null, n_subjects = np.zeros(len(held)), np.zeros((draws, len(held))), np.zeros(len(held))
    for subject in range(len(cells.subject_names)):
        members = np.flatnonzero(cells.subjects == subject)
        counts = there[members].sum(axis=0)
        n_subjects += counts > 0
        total += np.abs(gaps[members].sum(axis=0)) / np.maximum(counts, 1)
        if coins is None or cells.links is None:
            tossed = rng.integers(0, 2, size=(draws, len(members)), dtype=np.int8)
        else:
            tossed = coins[:, cells.links[members]]
        null += np.abs((1.0 - 2.0 * tossed) @ gaps[members]) / np.maximum(counts, 1)
    rows = []
    for place, pair in enumerate(held):
        value, chance = total[place] / n_subjects[place], null[:, place] / n_subjects[place]
        missing = int((~pair.usable).sum())
        estimate = Estimate(
            float(value),
            n=int(n_subjects[place]),
            n_groups=2,
            dropped={f"set without {pair.first} or {pair.second}": missing},
            notes=(*cells.notes, "mean over subjects of the absolute gap", no_interval("it is bounded below by noise")),
        )
        estimate = with_chance(estimate, chance, ddof=0, rng=rng)
        won = float(pair.wins[pair.usable].mean())
        rows.append(PairGap(None, pair.first, pair.second, estimate, None, won, 1 - won, missing))
    return rows
