"""Thresholds learned from people: the counts that agree best with what annotators accepted.

SocialCounterfactuals (CVPR 2024, Section 8.3) looked at sets by hand and searched the grid of thresholds for the best
agreement with that. The agreement at the best threshold is flattered by the search; a cross-fitted one is beside it.

Values of a column side by side: groups of an axis, or expected against unexpected scenes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Flags
from equipoise.data import Table
from equipoise.data.labels import set_names, sets_by_name
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.remaining import RemainingImages
from equipoise.measure.groups import Groups
from equipoise.measure.stats.group_means import group_means
from equipoise.text.labels import read_labels

EXPECTED = "expected"
"""No column, but read from one: the cells E1, E2, U1, U2 of scenes of who does what (GABInsight)."""
_CELL = "cell"
_WORDS = {"E": "expected", "U": "unexpected"}


def columns_for(by: Sequence[str]) -> tuple[str, ...]:
    """The columns that a table must have to be compared by these.

    >>> columns_for(["gender", "expected"])
    ('gender', 'cell')
    """
    return tuple(_CELL if name == EXPECTED else name for name in by)


def compared(remaining: RemainingImages, by: Sequence[str]) -> list[tuple[str, Groups]]:
    """The groups of each name in ``by`` (the axes unless given) of which more than one is there."""
    groupings = []
    for name in by or remaining.axes:
        read = read_labels(_values(remaining, name))
        if len(read.names) > 1:
            groupings.append((name, Groups(read.codes.astype(np.int32), read.names, axis=name)))
    return groupings


def _values(remaining: RemainingImages, name: str) -> list[str | None]:
    if name == EXPECTED and name not in remaining.table.types:
        return [None if pd.isna(cell) else _WORDS.get(str(cell)[:1]) for cell in remaining.column(_CELL)]
    return remaining.column(name).tolist()


def mean_rows(
    metric: str, values: Any, groups: Groups, *, variant: str, draws: int, seed: int, sets: Any = None
) -> list[dict[str, Any]]:
    """Rows of a results table: the mean of ``values`` (n,) in each group, and the gap against shuffled labels.

    ``sets`` (n,): images of one set are not independent of each other.
    """
    means = group_means(values, groups, clusters=sets, permutations=draws, seed=seed)
    keys = {"variant": variant, "axis": groups.axis}
    rows = [estimate.row(metric=metric, **keys, group=name) for name, estimate in means.by_group.items()]
    return [*rows, means.gap.row(metric=f"{metric}_gap", **keys)]


_MOST = 200_000


@dataclass(frozen=True)
class LearnedThresholds:
    """The thresholds, and how well every other choice would agree."""

    thresholds: Mapping[str, int]
    agreement: float
    """Share of sets on which rule and people agree, on the sets the thresholds were learned from."""
    crossfitted: float
    """The same on sets that the thresholds were not learned from (five folds)."""
    majority: float
    """What always saying the commoner answer gives: the chance level."""
    n: int
    curve: pd.DataFrame
    """One row per choice of thresholds: one column per axis, and ``agreement``."""
    ambiguous: int = 0
    """So many answers were left out, because they name a ``set_id`` that several subjects have."""

    def curve_of(self, axis: str) -> pd.DataFrame:
        """The best agreement at each threshold of one axis, the others free."""
        return self.curve.groupby(axis)["agreement"].max().reset_index()

    def toml(self) -> str:
        """A preset of one's own, with where it is from: a file for ``equipoise filter --config``.

        >>> print(learn_thresholds({"gender": [12, 11, 12, 8]}, [True, False, True, False]).toml().splitlines()[-1])
        thresholds = { "gender" = 12 }
        """
        thresholds = ", ".join(f"{json.dumps(name)} = {value}" for name, value in self.thresholds.items())
        axes = ", ".join(json.dumps(name) for name in self.thresholds)
        return (
            f"# learned from {self.n} sets that people rated: agreement {self.agreement:.3f}, cross-fitted "
            f"{self.crossfitted:.3f}, the commoner answer alone {self.majority:.3f}\n"
            f'[[step]]\nfilter = "detectability"\naxes = [{axes}]\nthresholds = {{ {thresholds} }}\n'
        )


def learn_thresholds(counts: Mapping[str, Any], accepted: Any, *, folds: int = 5, seed: int = 0) -> LearnedThresholds:
    """Thresholds on counts of detected images that agree best with what people accepted.

    A set passes if every count reaches its threshold. All combinations are tried; among equals, those nearest the
    middle of the plateau that holds the first win, so that noise-free labels give the true threshold or one that acts
    the same.

    Args:
        counts: by axis, (n,) how many images of each set were detected.
        accepted: (n,) whether people accepted the set.
        folds: in how many parts the sets are dealt for the cross-fitted agreement; at most one per set.
        seed: which sets go into which part.

    Returns:
        The thresholds, with the agreement of every other choice.

    >>> found = learn_thresholds({"gender": [12, 11, 12, 8], "race": [9, 12, 4, 10]}, [True, False, False, False])
    >>> dict(found.thresholds), found.agreement
    ({'gender': 12, 'race': 7}, 1.0)
    """
    names = list(counts)
    if not names:
        raise InputError("counts is empty; give the detected images of each set on at least one axis")
    columns = np.stack([_counts(counts[name], name) for name in names], axis=1)
    wanted = np.asarray(accepted)
    if wanted.shape != (len(columns),):
        raise InputError(f"accepted has shape {wanted.shape} for {len(columns)} sets")
    if wanted.dtype != bool and not np.isin(wanted, (0, 1)).all():
        raise InputError("accepted must hold yes and no for each set")
    wanted = wanted.astype(bool)
    ranges = [range(int(columns[:, i].max()) + 2) for i in range(len(names))]
    n_choices = int(np.prod([len(r) for r in ranges]))
    if n_choices > _MOST:
        raise InputError(f"{n_choices:,} combinations of thresholds are too many; learn fewer axes at a time")
    grid = np.array(list(product(*ranges)), dtype=np.int64)
    agreements = _agreements(columns, wanted, grid)
    best = _best(agreements, grid)
    curve = pd.DataFrame(grid, columns=names).assign(agreement=agreements)
    share = float(wanted.mean())
    return LearnedThresholds(
        {name: int(value) for name, value in zip(names, grid[best], strict=True)},
        float(agreements[best]),
        _crossfitted(columns, wanted, grid, folds, seed),
        max(share, 1 - share),
        len(wanted),
        curve,
    )


def recognised_counts(table: Table, axes: Sequence[str] = ()) -> pd.DataFrame:
    """How many images of each set were recognised on each axis: what thresholds are learned from.

    Args:
        table: read with the layer of a run of the filter ``detectability`` (``score_detect_<axis>``; above 0 is
            recognised).
        axes: those to count on; unless given, all axes of the table that have scores.

    Returns:
        One row per set and one column per axis. Sets of which no image has a score, because an earlier filter dropped
        them, have no row. Rows are named as by :func:`equipoise.data.labels.set_names`.
    """
    prefix = "score_detect_"
    known = [name.removeprefix(prefix) for name in table.columns if name.startswith(prefix)]
    if not known:
        raise InputError(f"{table.path} has no score_detect_… column; read it with the layer of a detectability run")
    for axis in axes:
        if axis not in known:
            raise UnknownNameError("axis with scores of detectability", axis, known)
    chosen = list(axes) or [axis for axis in known if axis in table.axes]
    frame = table.to_pandas(["set_id", "subject", *(prefix + axis for axis in chosen)])
    sets = pd.Series(set_names(frame), index=frame.index, name="set_id")
    judged = frame[[prefix + axis for axis in chosen]].notna().any(axis=1)
    inside = sets.notna() & sets.isin(sets[judged])
    frame, sets = frame[inside], sets[inside]
    hits = pd.DataFrame({axis: frame[prefix + axis].fillna(-1) > 0 for axis in chosen})
    return hits.groupby(sets, sort=True).sum().astype(int)


def learned_from_people(table: Table, accepted: pd.Series[Any], axes: Sequence[str] = ()) -> LearnedThresholds:
    """Thresholds from a review of the sets of a table.

    Args:
        table: as for :func:`recognised_counts`.
        accepted: by set, named as in the counts, whether people would let it stay, from
            :func:`equipoise.review.labels.accepted_items`. A ``set_id`` without its subject, as reviews used to keep
            it, is read where one subject alone has such a set; others are left out and counted
            (:attr:`LearnedThresholds.ambiguous`).
        axes: as for :func:`recognised_counts`.

    Returns:
        The thresholds, learned from the sets that people looked at.
    """
    counts = recognised_counts(table, axes)
    frame = table.to_pandas(["set_id", "subject"])
    called = sets_by_name(frame)
    names = accepted.index.astype(str)
    unclear = sum(name not in called for name in names[names.isin(frame["set_id"].dropna().astype(str))])
    meant = accepted.set_axis(pd.Index([called.get(name) for name in names], dtype=object))
    meant = meant[~meant.index.duplicated()]
    looked_at = counts[counts.index.isin(meant.index.dropna())]
    if looked_at.empty:
        raise InputError(
            f"{table.path}: several subjects have a set of the same name, and people's answers name only the set; ask "
            "again in a new review, which keeps such sets apart"
            if unclear
            else "people looked at no set of this table; learn from the review of the same sets"
        )
    wanted = meant.reindex(looked_at.index).to_numpy(dtype=bool)
    learned = learn_thresholds({str(axis): looked_at[axis].to_numpy() for axis in looked_at.columns}, wanted)
    return replace(learned, ambiguous=unclear)


def _agreements(columns: NDArray[np.int64], wanted: Flags, grid: NDArray[np.int64]) -> NDArray[np.float64]:
    """(t,) the share of sets on which each choice agrees with people, by counting sets once in a cumulative table."""
    shape = tuple(int(top) + 1 for top in grid.max(axis=0))
    signed = np.zeros(shape)
    np.add.at(signed, tuple(columns.T), np.where(wanted, 1.0, -1.0))
    for axis in range(len(shape)):  # sum over all counts that reach the threshold
        signed = np.flip(np.cumsum(np.flip(signed, axis), axis), axis)
    rejected = float((~wanted).sum())
    return np.asarray((signed[tuple(grid.T)] + rejected) / len(wanted), dtype=np.float64)


def _best(agreements: NDArray[np.float64], grid: NDArray[np.int64]) -> int:
    """The first best choice, moved along each axis to the middle of the equally good ones."""
    top = agreements.max() - 1e-12
    place = {tuple(choice): i for i, choice in enumerate(grid.tolist())}
    now = list(grid[int(np.argmax(agreements >= top))])
    for axis in range(grid.shape[1]):
        low = high = int(now[axis])
        while (at := place.get((*now[:axis], high + 1, *now[axis + 1 :]))) is not None and agreements[at] >= top:
            high += 1
        now[axis] = (low + high + 1) // 2
    return place[tuple(int(v) for v in now)]


def _crossfitted(columns: Any, wanted: Flags, grid: Any, folds: int, seed: int) -> float:
    n = len(wanted)
    folds = min(folds, n)
    if folds < 2:
        return float("nan")
    fold = np.random.default_rng(seed).permutation(np.arange(n) % folds)
    right = np.zeros(n, dtype=bool)
    for f in range(folds):
        learn = fold != f
        chosen = grid[_best(_agreements(columns[learn], wanted[learn], grid), grid)]
        right[~learn] = (columns[~learn] >= chosen).all(axis=1) == wanted[~learn]
    return float(right.mean())


def _counts(values: Any, name: str) -> NDArray[np.int64]:
    numbers = np.asarray(values)
    if numbers.ndim != 1 or not len(numbers) or not np.equal(np.mod(numbers, 1), 0).all() or (numbers < 0).any():
        raise InputError(f"counts[{name!r}] must hold a whole number of at least 0 for each set")
    return numbers.astype(np.int64)
