"""Intersecting axes taken apart: how much of a score gap is gender, how much race, how much their combination.

In a complete set every combination of levels has one score, so the usual split of a balanced table into main
effects and interactions is exact inside every set (and orthogonal), whatever else the set shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.counterfactual.cells import gap_cells
from equipoise.measure.counterfactual.units import Units, links_of
from equipoise.measure.groups import Groups, intersect
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.bootstrap import mean_interval, no_interval_note
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import sign_flip, with_chance
from equipoise.pace import steps


@dataclass(frozen=True)
class Term:
    """A main effect (one axis) or an interaction (several)."""

    axes: tuple[str, ...]
    effects: Floats
    """One number for each combination of the axes' levels; they sum to 0 along every axis."""
    levels: Mapping[str, Estimate]
    """The same as estimates, by the names of the levels."""
    size: Estimate
    """The root mean square of the effects; noise alone gives a value above 0, which is its chance level."""
    share: float
    """The share of the variance between the cells' mean scores that this term makes up; all terms sum to 1."""

    @property
    def name(self) -> str:
        """The axes, joined by a colon."""
        return ":".join(self.axes)


@dataclass(frozen=True)
class Decomposition:
    """All terms, main effects first."""

    terms: Mapping[str, Term]
    cell_means: Floats
    """(L1, L2, ...) mean score of each combination of levels."""
    n_sets: int
    n_units: int
    """Independent units: subjects when there are several, else sets."""
    dropped: Mapping[str, int]


@metric(
    "counterfactual_effect",
    takes="scores",
    title="effect of the axis inside sets",
    summary="Main effects and interactions of intersecting axes on the score inside sets.",
    citation="Equipoise",
    formula="balanced-table effects by inclusion and exclusion; size = root mean square over levels",
    range="[0, inf); shares of variance sum to 1",
    direction="0 is parity",
    alternative="greater",
    chance="above 0 from noise alone; signs of units flipped",
    when_it_lies="only complete sets take part; if filters drop sets by group, what is left is not a fair sample",
    unit="score",
)
def decompose(
    scores: ArrayLike,
    sets: ArrayLike,
    axes: Sequence[Groups],
    *,
    subjects: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    links: ArrayLike | None = None,
    draws: int = 9999,
    seed: int = 0,
    level: float = 0.95,
) -> Decomposition:
    """Main effects and interactions of two or more axes on the scores inside sets.

    The effect of a combination is its mean score less what the smaller terms explain (inclusion and exclusion over
    a balanced table). Only sets with every combination take part; the others are counted. The p-value of a term flips
    the signs of whole units: it holds if their effects scatter symmetrically about 0 under the null.

    Args:
        scores: (N,) one per image.
        sets: (N,) the counterfactual set of each image.
        axes: the groups of the images on each axis, two axes or more, of different names.
        subjects: (N,) the subject of each image, the same all over a set. With several, a subject's mean over its sets
            is one unit; else each set is.
        strata: (N,) levels that are none of the axes (a placebo), as whole numbers: only images of the same make up a
            table, and a set's tables are averaged. -1 leaves an image out.
        links: (N,) sets that share a key are linked, over subjects or within one: links are flipped too, the larger
            p-value counts, and intervals are two-way clustered.
        draws: how many random sign patterns; the tests of single levels try all patterns up to 12 units.
        seed: which signs are drawn.
        level: confidence level of the intervals.

    Returns:
        All terms by the names of their axes, main effects first, and the mean score of each combination.

    >>> gender = Groups.from_values(list("fmfm") * 6, axis="gender")
    >>> race = Groups.from_values(list("AABB") * 6, axis="race")
    >>> noise = np.random.default_rng(0).normal(scale=0.01, size=24)
    >>> planted = np.tile([0.1, -0.1, 0.1, -0.1], 6) + noise
    >>> found = decompose(planted, np.repeat(np.arange(6), 4), [gender, race])
    >>> list(found.terms), found.terms["gender"].effects.round(2).tolist(), found.terms["gender"].share > 0.95
    (['gender', 'race', 'gender:race'], [0.1, -0.1], True)
    """
    if len(axes) < 2:
        raise InputError(f"axes: {len(axes)} given; a decomposition needs two or more")
    names = tuple(axis.axis or f"axis {i}" for i, axis in enumerate(axes))
    if len(set(names)) < len(names):
        raise InputError(f"axes: {names} are not distinct; name each axis")
    table = gap_cells(scores, sets, intersect(*axes), subjects, strata=strata, links=links)
    shape = tuple(axis.n_groups for axis in axes)
    whole = table.block_sets[table.complete]
    if len(whole) == 0:
        n_sets = len(table.subjects)
        raise InputError(f"sets: none of {n_sets} has all {prod(shape)} combinations of {', '.join(names)}")
    cells = _means_by(table.scores[table.complete].reshape(-1, *shape), whole)
    members = np.unique(whole)
    subject_of = table.subjects[members]
    n_subjects = len(np.unique(subject_of))
    several = n_subjects > 1
    units = _means_by(cells, subject_of) if several else cells
    linked = None
    if table.links is not None and (several or links_of(table, members) is not None):
        weight = 1 / np.bincount(subject_of)[subject_of] / n_subjects
        linked = _effects(_sums_by(cells * weight.reshape(-1, *([1] * len(shape))), table.links[members]))
    means = units.mean(axis=0)
    total = float(((means - means.mean()) ** 2).sum())
    effects, of_sets = _effects(units), _effects(cells)
    terms = {}
    for place, chosen in enumerate(sorted(effects, key=lambda c: (len(c), c))):
        title = tuple(names[i] for i in chosen)
        labels = [" & ".join(combo) for combo in product(*(axes[i].names for i in chosen))]
        outside = prod(shape) / prod(shape[i] for i in chosen)
        shared = None
        if linked is not None:
            columns = zip(_flat(of_sets[chosen]).T, _flat(effects[chosen]).T, strict=True)
            each = [Units(table, members, own, mean) for own, mean in columns]
            errors = [0.0 if term.links is None else term.least_error(level) for term in each]
            shared = _Shared(_flat(linked[chosen]), np.array(errors))
        terms[":".join(title)] = _term(
            title, effects[chosen], labels, outside, total, draws, seed + place, level, shared
        )
    return Decomposition(terms, means, len(cells), len(units), table.dropped)


def _means_by(cells: Floats, keys: NDArray[np.int64]) -> Floats:
    counts = np.unique(keys, return_counts=True)[1].reshape(-1, *([1] * (cells.ndim - 1)))
    return np.asarray(_sums_by(cells, keys) / counts)


def _sums_by(cells: Floats, keys: NDArray[np.int64]) -> Floats:
    _, codes = np.unique(keys, return_inverse=True)
    sums = np.zeros((int(codes.max()) + 1, *cells.shape[1:]))
    np.add.at(sums, codes, cells)
    return sums


def _effects(units: Floats) -> dict[tuple[int, ...], Floats]:
    """For every choice of axes, (units, levels...) its effect: the marginal mean less all smaller terms."""
    n_axes = units.ndim - 1
    effects: dict[tuple[int, ...], Floats] = {}
    terms: dict[tuple[int, ...], Floats] = {(): units.mean(axis=tuple(range(1, n_axes + 1)), keepdims=True)}
    for size in range(1, n_axes + 1):
        for chosen in combinations(range(n_axes), size):
            others = tuple(i + 1 for i in range(n_axes) if i not in chosen)
            effect = units.mean(axis=others, keepdims=True)
            for smaller in range(size):
                for part in combinations(chosen, smaller):
                    effect = effect - terms[part]
            terms[chosen] = effect
            effects[chosen] = np.squeeze(effect, axis=others) if others else effect
    return effects


@dataclass(frozen=True)
class _Shared:
    """What linked sets have in common, of one term."""

    by_link: Floats
    """(L, levels) what the sets of each link add to the mean effects."""
    errors: Floats
    """(levels,) the least standard error of the mean effects."""


def _flat(effects: Floats) -> Floats:
    """(n, levels) the same with all combinations of levels side by side."""
    return effects.reshape(len(effects), -1)


def _term(
    title: tuple[str, ...],
    effects: Floats,
    labels: Sequence[str],
    outside: float,
    total: float,
    draws: int,
    seed: int,
    level: float,
    shared: _Shared | None,
) -> Term:
    flat = _flat(effects)
    mean = flat.mean(axis=0)
    levels = dict(zip(labels, _levels(flat, draws, seed, level, shared), strict=True))
    rng = np.random.default_rng(seed)
    plain = Estimate(
        float(np.sqrt((mean**2).mean())),
        n=len(flat),
        n_groups=len(labels),
        notes=(no_interval("a root mean square is bounded below by noise"),),
        level=level,
    )
    moved = [flat / len(flat)] if shared is None else [flat / len(flat), shared.by_link]
    tested = [with_chance(plain, _flipped_sizes(parts, draws, rng), ddof=0, rng=rng) for parts in moved]
    size = max(tested, key=lambda estimate: estimate.p_value or 0.0)  # of equals the first
    share = outside * float((mean**2).sum()) / total if total > 0 else 0.0
    return Term(title, mean.reshape(effects.shape[1:]), levels, size, share)


def _levels(effects: Floats, draws: int, seed: int, level: float, shared: _Shared | None) -> Iterator[Estimate]:
    """The mean of each column of ``effects`` (units, levels), with interval and sign-flip test."""
    test = sign_flip(effects, draws=draws, seed=seed)
    p_value, null_sd, errors = test.p_value, test.null_sd, np.zeros(effects.shape[1])
    one_link = False
    if shared is not None:
        linked = sign_flip(shared.by_link * len(shared.by_link), draws=draws, seed=seed)
        p_value, null_sd = np.maximum(p_value, linked.p_value), np.maximum(null_sd, linked.null_sd)
        errors, one_link = shared.errors, len(shared.by_link) < 2
    mean = effects.mean(axis=0)
    for place, column in enumerate(effects.T):
        interval = None if one_link else mean_interval(column, level=level, least_error=float(errors[place]))
        low, high = interval or (None, None)
        why = no_interval("one independent link") if one_link else no_interval_note(column)
        yield Estimate(
            float(mean[place]),
            low,
            high,
            null_mean=0.0,
            null_sd=float(null_sd[place]),
            p_value=float(p_value[place]),
            n=len(effects),
            notes=() if interval else (why,),
            level=level,
        )


BLOCK = 4_000_000
"""So many signs are drawn at a time."""


def _flipped_sizes(parts: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """(draws,) the root mean square of the sums of ``parts`` (n, levels) under random signs."""
    # a random word makes four int8: blocks of four rows leave none over, and draw what one large table would
    step = max(4, BLOCK // len(parts) // 4 * 4)
    sizes = []
    for start in steps(range(0, draws, step)):
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(min(step, draws - start), len(parts)), dtype=np.int8)
        sizes.append(np.sqrt(((signs @ parts) ** 2).mean(axis=1)))
    return np.concatenate(sizes)
