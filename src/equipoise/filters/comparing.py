"""Values of a column side by side: groups of an axis, or expected against unexpected scenes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from equipoise.filters.evidence import Evidence
from equipoise.measure.group_means import group_means
from equipoise.measure.groups import Groups
from equipoise.text.labels import read_labels

__all__ = ["EXPECTED", "columns_for", "compared", "mean_rows"]

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


def compared(evidence: Evidence, by: Sequence[str]) -> list[tuple[str, Groups]]:
    """The groups of each name in ``by`` (the axes unless given) of which more than one is there."""
    found = []
    for name in by or evidence.axes:
        read = read_labels(_values(evidence, name))
        if len(read.names) > 1:
            found.append((name, Groups(read.codes.astype(np.int32), read.names, axis=name)))
    return found


def _values(evidence: Evidence, name: str) -> list[str | None]:
    if name == EXPECTED and name not in evidence.table.types:
        return [None if pd.isna(cell) else _WORDS.get(str(cell)[:1]) for cell in evidence.column(_CELL)]
    return evidence.column(name).tolist()


def mean_rows(
    metric: str, values: Any, groups: Groups, *, variant: str, draws: int, seed: int, sets: Any = None
) -> list[dict[str, Any]]:
    """Rows of a results table: the mean of ``values`` (n,) in each group, and the gap against shuffled labels.

    ``sets`` (n,): images of one set are not independent of each other.
    """
    found = group_means(values, groups, clusters=sets, permutations=draws, seed=seed)
    keys = {"variant": variant, "axis": groups.axis}
    rows = [one.row(metric=metric, **keys, group=name) for name, one in found.by_group.items()]
    return [*rows, found.gap.row(metric=f"{metric}_gap", **keys)]
