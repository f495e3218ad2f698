"""What every remedy for embeddings is: fit, transform, save, load, and a state that can be kept without pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, UnknownNameError

Axes = Mapping[str, Sequence[str | None]]
"""For each axis the group of every vector; ``None`` where it is undefined."""

SIDES = ("image", "text")
"""Whose vectors ``transform`` is given."""


@dataclass(frozen=True)
class Queries:
    """What a query-conditional remedy may know of the texts whose vectors it changes, beside the vectors."""

    texts: Sequence[str]
    """The texts themselves, one for each vector."""
    naming: NDArray[np.floating] | None = None
    """(m, G, d) the vectors of the same texts with each group named: "a nurse" as "a female nurse", "a male nurse"."""


@dataclass(frozen=True)
class FittedOn:
    """What a remedy has seen: whoever judges it must judge it on something else."""

    n: int
    """Vectors with a group on every axis."""
    n_sets: int
    """Counterfactual sets among them; 0 where none were told apart."""
    groups: Mapping[str, tuple[str, ...]]
    """The groups of each axis."""
    n_left_out: int = 0
    """Vectors without a group on some axis, or alone in their set."""
    model: str = ""
    key: str = ""
    """The fingerprint of the model whose vectors they are."""
    table: str = ""
    """The fingerprint of the table."""
    learnt_from: str = "images"
    """Whose vectors they are: ``images`` or ``texts``."""
    subjects: tuple[str, ...] = ()
    """The subjects of the images it has seen; empty where it was fitted on vectors without subjects, so that no one
    can say what it has not seen. An audit of a repaired model carries them, and the report compares."""
    notes: tuple[str, ...] = ()
    """What a reader must know: images that could not be read."""

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> FittedOn:
        """The reverse of :meth:`plain`, also after a way through JSON."""
        groups = {axis: tuple(names) for axis, names in data["groups"].items()}
        return cls(
            **{**data, "groups": groups, "subjects": tuple(data["subjects"]), "notes": tuple(data.get("notes", ()))}
        )


@runtime_checkable
class Remedy(Protocol):
    """Learns from vectors with groups; then changes any vectors of the same model, one by one.

    :class:`equipoise.mitigate.base.BaseRemedy` has ``changes``, ``learns_from``, ``save`` and ``load`` for whoever
    inherits from it; :mod:`equipoise.mitigate.conformance` checks all of this.
    """

    name: str
    """What it is registered under."""
    changes: str
    """Whose vectors it is made for: ``both``, ``images`` or ``texts``."""
    learns_from: str
    """What ``fit`` is given: vectors of ``images``, or of ``texts`` that name the groups."""
    fitted_on: FittedOn | None
    """``None`` until it is fitted."""

    def fit(self, vectors: ArrayLike, groups: Axes, *, sets: Sequence[Any] | None = None) -> Self:
        """Learn from (n, d) vectors, the groups of each on every axis, and the set that each belongs to; gives itself
        back.
        """

    def transform(self, vectors: ArrayLike, side: str = "image", query: Queries | None = None) -> NDArray[np.float32]:
        """(m, d) vectors of images or of texts (``side``), repaired and of unit length: each by itself, whatever else
        is among ``vectors``. ``query`` is what is known of the texts.
        """

    def settings(self) -> dict[str, Any]:
        """The keywords that make such a remedy again."""

    def state(self) -> dict[str, NDArray[Any]]:
        """What it has learnt, as arrays."""

    def restore(self, state: Mapping[str, NDArray[Any]], fitted_on: FittedOn) -> Self:
        """Take a state that was kept; gives itself back."""

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Keep it in ``folder``: settings as JSON, state as safetensors."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The one that was kept in ``folder``."""


@dataclass(frozen=True)
class Labelled:
    """Vectors that can be learnt from: those with a group on every axis."""

    vectors: NDArray[np.float64]
    codes: dict[str, NDArray[np.int64]]
    names: dict[str, tuple[str, ...]]
    sets: NDArray[np.int64] | None
    rows: NDArray[np.int64] = field(repr=False)
    """Which of the given rows they are."""


def checked_side(side: str) -> str:
    """``side``, if it is one.

    >>> checked_side("text")
    'text'
    """
    if side not in SIDES:
        raise UnknownNameError("side", str(side), SIDES)
    return side


def unit_rows(vectors: NDArray[Any], before: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """Rows of unit length; one of which nothing is left, beside its length ``before``, is refused.

    >>> unit_rows(np.array([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    refuse_nothing(lengths, 0.0 if before is None else NOTHING * before)
    return np.asarray(vectors / lengths[:, None], dtype=np.float32)


def refuse_nothing(lengths: NDArray[Any], least: NDArray[Any] | float, start: int = 0) -> None:
    """Refuse vectors no longer than ``least``; ``start`` is the number of the first, for whoever reads which it is."""
    bad = np.flatnonzero(~(lengths > least))
    if len(bad):
        raise InputError(f"of the vector in row {start + bad[0]} nothing is left: all it says is what was taken out")


def finite_lengths(rows: NDArray[np.float32], start: int = 0) -> NDArray[np.float32]:
    """(n,) the lengths of some rows; what is no vector, or too long for a float, is refused. ``start`` as above."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        checked_vectors(rows)  # says which holds no number
        raise InputError(f"the vector in row {start + bad[0]} is too long; bring it to unit length first")
    return np.asarray(lengths)


NOTHING = 1e-5
"""A vector of which so little is left has lost everything that it said."""


def checked_vectors(vectors: ArrayLike, width: int | None = None) -> NDArray[np.float64]:
    """(n, d) finite numbers in double precision; anything else is refused in one sentence.

    >>> checked_vectors([[1.0, 2.0]]).shape
    (1, 2)
    >>> checked_vectors([[1.0, float("nan")]])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the vector in row 0 holds something that is not a number; compute it again or drop it
    """
    try:
        rows = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the vectors are not an array of numbers; give one row of numbers per vector") from None
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"the vectors have shape {rows.shape}; one row per vector is expected")
    if width is not None and rows.shape[1] != width:
        raise InputError(
            f"the vectors have {rows.shape[1]} numbers where {width} are expected; the remedy belongs to another model"
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise InputError(
            f"the vector in row {bad[0]} holds something that is not a number; compute it again or drop it"
        )
    return rows


def as_single(vectors: ArrayLike, width: int) -> NDArray[np.float32]:
    """(n, d) numbers in single precision, without a copy where they are that already; whether they are finite is left
    to :func:`unit_block`.
    """
    try:
        rows: NDArray[np.float32] = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError):
        rows = np.zeros(0, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != width:
        rows = checked_vectors(vectors, width).astype(np.float32)  # says what is wrong
    return rows


def unit_block(rows: NDArray[np.float32], start: int = 0) -> NDArray[np.float32]:
    """Some rows at unit length; ``start`` is the number of the first, for whoever reads that one is no vector."""
    lengths = finite_lengths(rows, start)
    refuse_nothing(lengths, 0.0, start)
    return np.asarray(rows / lengths[:, None], dtype=np.float32)


def checked_groups(
    vectors: NDArray[np.float64], groups: Axes, sets: Sequence[Any] | None, *, compares: bool = True
) -> Labelled:
    """The vectors that have a group on every axis, their groups as numbers, and their sets as numbers.

    A vector without a set, or alone in it, cannot be compared inside one and is left out. ``compares=False`` is for
    what compares nothing inside sets: it takes every vector that has its groups, and no set.
    """
    if not groups:
        raise InputError("groups is empty; name at least one axis with the group of every vector")
    usable = np.ones(len(vectors), dtype=bool)
    for axis, labels in groups.items():
        if len(labels) != len(vectors):
            raise InputError(f"groups[{axis!r}] has {len(labels)} labels for {len(vectors)} vectors; give one each")
        usable &= np.array([_known(label) for label in labels], dtype=bool)
    if sets is not None:
        if len(sets) != len(vectors):
            raise InputError(f"sets has {len(sets)} names for {len(vectors)} vectors; give one each")
        sets = sets if compares else None
    if sets is not None:
        usable &= np.array([_known(name) for name in sets], dtype=bool)
        names = pd.Index([str(name) for name in sets], dtype=object)
        number = pd.factorize(names)[0]
        usable &= np.bincount(number, weights=usable)[number] > 1 if len(number) else usable
    codes, known = {}, {}
    for axis, labels in groups.items():
        mine = pd.Index([str(label) for label, use in zip(labels, usable, strict=True) if use], dtype=object)
        codes[axis], distinct = pd.factorize(mine, sort=True)
        if len(distinct) < 2:
            shown = f"only {distinct[0]!r}" if len(distinct) else "no group"
            raise InputError(f"groups[{axis!r}] shows {shown}; two groups or more are needed to tell how they differ")
        known[axis] = tuple(map(str, distinct))
    # in order of appearance: sets that lie together stay together
    numbers = None if sets is None else pd.factorize(names[usable])[0]
    kept = vectors if usable.all() else vectors[usable]
    return Labelled(kept, codes, known, numbers, np.flatnonzero(usable))


def _known(label: Any) -> bool:
    return label is not None and label == label and label != ""
