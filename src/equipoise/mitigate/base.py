"""What remedies share: keeping themselves, the product of linear ones, and what differs inside counterfactual sets.

A covariance inside sets needs no copy of the vectors with the means taken away: X'X less the means' own part is the
same, and with indicators that have no mean in any set the means of the vectors fall out of the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.mitigate.keeping import load, save
from equipoise.mitigate.protocol import (
    NOTHING,
    Axes,
    FittedOn,
    Labelled,
    Queries,
    as_single,
    checked_groups,
    checked_side,
    checked_vectors,
    finite_lengths,
    refuse_nothing,
)

Learnt = TypeVar("Learnt")
_ROWS = 4096
"""So many vectors at a time: what is between the product and the result stays in the processor's cache."""


def checked_share(share: float) -> float:
    """How much of a change is made, above 0 and at most 1."""
    if not 0 < share <= 1:
        raise InputError(f"share={share}: how much of the change is made, above 0 and at most 1")
    return float(share)


def fitted_on(known: Labelled, n_given: int, learnt_from: str) -> FittedOn:
    """What a remedy has seen, from what it could use of so many vectors."""
    n_sets = 0 if known.sets is None else int(known.sets.max()) + 1
    n = len(known.vectors)
    return FittedOn(n, n_sets, known.names, n_left_out=n_given - n, learnt_from=learnt_from)


def indicators(known: Labelled) -> NDArray[np.float64]:
    """(n, groups) which group of each axis a vector is of, all axes side by side."""
    return np.concatenate([np.eye(len(known.names[axis]))[codes] for axis, codes in known.codes.items()], axis=1)


class BaseRemedy:
    """Inherit from this, and write ``learn`` (or ``fit`` itself), ``transform``, ``state`` and ``restore``."""

    name: str = ""
    changes: str = "both"
    learns_from: str = "images"
    names_subjects: bool = False
    """Whether the prompts that it learns from should name subjects too, and not people alone."""
    compares: bool = False
    """Whether it compares the vectors of a set with each other, and cannot use one that is alone in its set."""
    fitted_on: FittedOn | None = None

    def fit(self, vectors: ArrayLike, groups: Axes, *, sets: Sequence[Any] | None = None) -> Self:
        """Learn from (n, d) ``vectors``, their ``groups`` on every axis and, if it ``compares``, their ``sets``."""
        every = checked_vectors(vectors)
        known = checked_groups(every, groups, sets, compares=self.compares)
        self.learn(known)
        self.fitted_on = fitted_on(known, len(every), self.learns_from)
        return self

    def learn(self, known: Labelled) -> None:
        """Learn from the vectors that have a group on every axis."""
        raise NotImplementedError

    def learnt(self, value: Learnt | None) -> Learnt:
        """What ``learn`` has set; refused where it is still ``None``."""
        if value is None:
            raise InputError(f"this {self.name} is not fitted; call fit first")
        return value

    def settings(self) -> dict[str, Any]:
        """The keywords that make such a remedy again: it keeps each under its name."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Keep it in ``folder``: settings as JSON, state as safetensors."""
        return save(self, folder, overwrite=overwrite)  # type: ignore[arg-type]

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The one that was kept in ``folder``; another kind of remedy is refused."""
        remedy: Any = load(folder)
        if not isinstance(remedy, cls):
            raise InputError(f"{folder}: holds a remedy {remedy.name!r}, not {cls.name!r}")
        return remedy


class LinearRemedy(BaseRemedy):
    """A vector x becomes A x + b, brought to unit length; ``fit`` sets the two."""

    def __init__(self) -> None:
        self._matrix: NDArray[np.float64] | None = None
        self._offset: NDArray[np.float64] | None = None

    @property
    def matrix(self) -> NDArray[np.float64]:
        """(d, d) what a vector is multiplied with, before it is brought to unit length."""
        return self.learnt(self._matrix)

    @property
    def offset(self) -> NDArray[np.float64]:
        """(d,) what is added then; zeros where nothing is."""
        return np.zeros(len(self.matrix)) if self._offset is None else self._offset

    def transform(self, vectors: ArrayLike, side: str = "image", query: Queries | None = None) -> NDArray[np.float32]:
        """(m, d) vectors, changed and of unit length.

        A vector of which nothing is left is refused: what remains of it would be rounding.
        """
        checked_side(side)
        width = len(self.matrix)
        rows = as_single(vectors, width)
        across = np.ascontiguousarray(self.matrix.T, dtype=np.float32)
        offset = self.offset.astype(np.float32) if self._offset is not None else None
        out = np.empty((len(rows), width), dtype=np.float32)
        for start in range(0, len(rows), _ROWS):
            some, changed = rows[start : start + _ROWS], out[start : start + _ROWS]
            np.matmul(some, across, out=changed)
            if offset is not None:
                changed += offset
            after = np.sqrt(np.einsum("ij,ij->i", changed, changed))
            refuse_nothing(after, NOTHING * finite_lengths(some, start), start)
            changed /= after[:, None]
        return out

    def state(self) -> dict[str, NDArray[Any]]:
        """The matrix and the offset."""
        return {"matrix": self.matrix, "offset": self.offset}

    def restore(self, state: Mapping[str, NDArray[Any]], fitted_on: FittedOn) -> Self:
        """Take a state that was kept."""
        matrix = np.asarray(state["matrix"], dtype=np.float64)
        offset = np.asarray(state["offset"], dtype=np.float64) if "offset" in state else None
        if (
            matrix.ndim != 2
            or matrix.shape[0] != matrix.shape[1]
            or (offset is not None and len(offset) != len(matrix))
        ):
            raise InputError(f"a matrix of shape {matrix.shape} and its offset do not belong together")
        self._matrix, self.fitted_on = matrix, fitted_on
        self._offset = None if offset is None or not offset.any() else offset
        return self

    def _set(self, matrix: NDArray[np.float64], offset: NDArray[np.float64] | None, share: float) -> None:
        """Make a ``share`` of the way from no change to this one."""
        self._matrix = share * matrix + (1 - share) * np.eye(len(matrix)) if share < 1 else matrix
        self._offset = None if offset is None or not offset.any() else share * offset


def within_sets(values: NDArray[np.float64], sets: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """``values`` (n, d) less the mean of their set, or of all where there are no sets.

    >>> within_sets(np.array([[1.0], [3.0], [10.0], [20.0]]), np.array([0, 0, 1, 1])).ravel().tolist()
    [-1.0, 1.0, -5.0, 5.0]
    """
    if sets is None:
        return np.asarray(values - values.mean(axis=0))
    sums, counts = _sums(values, sets)
    return np.asarray(values - (sums / counts[:, None])[sets])


def covariance_within(vectors: NDArray[np.float64], sets: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """(d, d) sums of products of ``vectors`` (n, d) less the means of their sets, or of all.

    >>> rows = np.array([[1.0, 0.0], [3.0, 1.0], [10.0, 5.0], [20.0, 5.0]])
    >>> covariance_within(rows, np.array([0, 0, 1, 1])).tolist()
    [[52.0, 1.0], [1.0, 0.5]]
    """
    sums, counts = (vectors.sum(axis=0)[None], np.array([len(vectors)])) if sets is None else _sums(vectors, sets)
    return np.asarray(vectors.T @ vectors - sums.T @ (sums / counts[:, None]))


def _sums(values: NDArray[np.float64], sets: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The sum and the number of each set's values; rows that lie set by set are not copied."""
    counts = np.bincount(sets)
    if (np.diff(sets) < 0).any():
        values = values[np.argsort(sets, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.asarray(np.add.reduceat(values, starts, axis=0)), counts
