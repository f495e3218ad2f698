"""Counterfactual sets as a table: one row a set, one column a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.measure.groups import Groups

__all__ = ["SetTable", "set_table"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class SetTable:
    """The score of each group in each set."""

    scores: FloatArray
    """(S, G) NaN where the set has no image of the group."""
    sets: NDArray[Any]
    """(S,) the key of each set."""
    subjects: NDArray[np.int64]
    """(S,) the subject of each set, as a number."""
    subject_names: tuple[str, ...]
    groups: Groups
    dropped: Mapping[str, int]
    """Images without a group; sets that lack a group."""
    notes: tuple[str, ...]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """(S,) whether the set has every group."""
        return np.asarray(~np.isnan(self.scores).any(axis=1))


def set_table(scores: ArrayLike, sets: ArrayLike, groups: Groups, subjects: ArrayLike | None = None) -> SetTable:
    """Scores (N,) of images, laid out by set and group.

    A score is that of the image for its subject's own query. Several images of one group in a set are averaged.
    Sets that lack groups stay, with NaN, and are counted.

    >>> groups = Groups.from_values(["f", "m", "f"])
    >>> table = set_table([0.3, 0.1, 0.5], ["a", "a", "b"], groups)
    >>> table.scores.tolist(), dict(table.dropped)
    ([[0.3, 0.1], [0.5, nan]], {'image without a group': 0, 'set that lacks a group': 1})
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"scores has shape {values.shape}; give one score per image")
    groups.check_length(len(values))
    if not np.isfinite(values).all():
        raise InputError(f"scores[{int(np.argmin(np.isfinite(values)))}] is not finite; every score must be a number")
    keys = _keys(sets, len(values), "sets")
    topics = _keys(np.zeros(len(values), dtype=int) if subjects is None else subjects, len(values), "subjects")
    names, set_code = np.unique(keys, return_inverse=True)
    subject_names, subject_code = np.unique(topics, return_inverse=True)
    subject_of = np.zeros(len(names), dtype=np.int64)
    subject_of[set_code] = subject_code
    mixed = subject_of[set_code] != subject_code
    if mixed.any():
        raise InputError(f"sets: {str(names[set_code[int(np.argmax(mixed))]])!r} holds images of two subjects")
    there = groups.defined
    flat = set_code[there] * groups.n_groups + groups.labels[there]
    size = len(names) * groups.n_groups
    counts = np.bincount(flat, minlength=size)
    sums = np.bincount(flat, values[there], minlength=size)
    table = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).reshape(len(names), groups.n_groups)
    repeated = int((counts > 1).sum())
    return SetTable(
        table,
        names,
        subject_of,
        tuple(str(name) for name in subject_names),
        groups,
        {"image without a group": groups.n_undefined, "set that lacks a group": int(np.isnan(table).any(axis=1).sum())},
        (f"{repeated} groups have several images in one set; their mean is used",) if repeated else (),
    )


def _keys(values: ArrayLike, length: int, name: str) -> NDArray[Any]:
    keys = np.asarray(values)
    if keys.shape != (length,):
        raise InputError(f"{name} has shape {keys.shape} for {length} images; give one key per image")
    return keys.astype(str) if keys.dtype == object else keys
