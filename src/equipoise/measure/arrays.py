"""Checks that every array passes before it is measured: shape, length, finite numbers, unit length.

A metric never sees a NaN, a vector of the wrong length or an empty array: the caller gets one sentence that names
the argument and the first offending row instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import AnyVectors, Floats, Vectors
from equipoise.errors import InputError, UnknownNameError
from equipoise.pace import steps

_ROWS = 8192
"""So many rows are divided at a time."""

COSINE_TIE = 1e-12
"""Two cosines closer than this are equal: the same sum in another order differs by rounding."""


def as_matrix(values: Any, name: str, *, min_rows: int = 1) -> Floats:
    """``values`` as a finite float64 matrix with at least ``min_rows`` rows, or an error that names ``name``.

    >>> as_matrix([[1, 2], [3, 4]], "embeddings").shape
    (2, 2)
    >>> as_matrix([[1.0, float("nan")]], "embeddings")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: embeddings is not finite (nan) in row 0, column 1; drop or recompute that row
    """
    matrix = _as_floats(values, name)
    if matrix.ndim != 2:
        raise InputError(f"{name} must have two dimensions (rows, features), not shape {matrix.shape}")
    if matrix.shape[0] < min_rows or matrix.shape[1] < 1:
        raise InputError(f"{name} needs at least {min_rows} rows and one column, it has shape {matrix.shape}")
    _refuse_non_finite(matrix, name)
    return matrix


def as_vector(values: Any, name: str, *, length: int | None = None, min_length: int = 1) -> Floats:
    """``values`` as a finite float64 vector of ``length`` (any length if None), or an error that names ``name``.

    >>> as_vector([1, 2], "scores", length=3)
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: scores has 2 values where 3 are needed
    """
    vector = _as_floats(values, name)
    if vector.ndim != 1:
        raise InputError(f"{name} must have one dimension, not shape {vector.shape}")
    if length is not None and len(vector) != length:
        raise InputError(f"{name} has {len(vector)} values where {length} are needed")
    if len(vector) < min_length:
        raise InputError(f"{name} needs at least {min_length} values, it has {len(vector)}")
    _refuse_non_finite(vector, name)
    return vector


def unit_rows(values: Any, name: str, *, min_rows: int = 1) -> Floats:
    """The rows of ``values`` scaled to length one; a row of zeros has no direction and is refused.

    >>> unit_rows([[3.0, 4.0]], "embeddings").tolist()
    [[0.6, 0.8]]
    """
    matrix = as_matrix(values, name, min_rows=min_rows)
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not ((norms > 1e-150) & (norms < 1e150)).all():
        # squares under- or overflow in such rows: divide their largest value out first
        largest = np.abs(matrix).max(axis=1, keepdims=True)
        zero = np.flatnonzero(largest[:, 0] == 0)
        if len(zero):
            raise InputError(f"{name} row {zero[0]} is all zeros and has no direction; drop that row")
        matrix = matrix / largest
        norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    unit: Floats = matrix / norms[:, None]
    return unit


def unit_vectors(
    vectors: AnyVectors, what: str, names: Sequence[str] | None = None, *, unseen: bool = False
) -> Vectors:
    """(n, d) embeddings as rows of length one; one that is not finite or has no length is refused by name or number.

    ``unseen``: rows of NaN stay as they are, such as those of images that could not be read.

    >>> unit_vectors(np.array([[3.0, 4.0], [np.nan, np.nan]]), "clip", unseen=True).tolist()
    [[0.6000000238418579, 0.800000011920929], [nan, nan]]
    >>> unit_vectors(np.zeros((1, 2)), "clip", ["a.jpg"])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: clip: the vector of 'a.jpg' is not finite or has no length (1 such); compute it again \
or drop it
    """
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    bad = np.flatnonzero(~(np.isfinite(lengths) | (unseen & np.isnan(lengths))) | (lengths == 0))
    if len(bad):
        which = f"in row {bad[0]}" if names is None else f"of {names[bad[0]]!r}"
        raise InputError(
            f"{what}: the vector {which} is not finite or has no length ({len(bad)} such); compute it again or drop it"
        )
    units = np.empty_like(rows)
    for start in range(0, len(rows), _ROWS):  # in float64, and in parts, so that memory holds no such copy of all
        part = slice(start, start + _ROWS)
        units[part] = rows[part] / lengths[part, None]
    return units


def same_length(first: Any, first_name: str, second: Any, second_name: str) -> int:
    """The common length of two sequences, or an error that gives both lengths.

    >>> same_length([1, 2], "images", [1], "captions")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: images has 2 items and captions has 1; they must have the same length
    """
    n, m = len(first), len(second)
    if n != m:
        raise InputError(f"{first_name} has {n} items and {second_name} has {m}; they must have the same length")
    return n


def same_width(first: Floats, first_name: str, second: Floats, second_name: str) -> int:
    """The common number of columns of two matrices, or an error that gives both.

    >>> same_width(np.ones((1, 2)), "images", np.ones((1, 3)), "texts")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: images has 2 columns and texts has 3; they must come from one model
    """
    n, m = int(first.shape[1]), int(second.shape[1])
    if n != m:
        raise InputError(f"{first_name} has {n} columns and {second_name} has {m}; they must come from one model")
    return n


def as_keys(values: Any, name: str, n: int, of: str = "image") -> NDArray[Any]:
    """``values`` as an array with one key for each of ``n`` things, or an error that names ``name``.

    >>> as_keys(["a", "b"], "clusters", 3)
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: clusters has shape (2,) for 3 images; give one key per image
    """
    keys = np.asarray(values)
    if keys.shape != (n,):
        raise InputError(f"{name} has shape {keys.shape} for {n} {of}s; give one key per {of}")
    return keys


def as_count(value: Any, name: str, *, least: int = 1) -> int:
    """``value`` as a whole number of at least ``least``.

    >>> as_count(0, "k")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: k must be a whole number of at least 1, not 0
    """
    if isinstance(value, bool) or int(value) != value or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def chosen(value: str, name: str, known: tuple[str, ...]) -> str:
    """``value`` if it is one of ``known``; otherwise an error with the closest names.

    >>> chosen("strickt", "tie rule", ("strict", "half"))
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no tie rule named 'strickt'; did you mean 'strict'?
    """
    if value not in known:
        raise UnknownNameError(name, str(value), known)
    return value


def row_blocks(n_rows: int, n_columns: int, *, cells: int = 4_000_000) -> Iterator[slice]:
    """Slices over ``n_rows`` such that a block of rows by ``n_columns`` holds about ``cells`` numbers.

    >>> [(s.start, s.stop) for s in row_blocks(5, 10, cells=20)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, cells // max(1, n_columns))
    for start in steps(range(0, n_rows, step)):
        yield slice(start, min(n_rows, start + step))


def occurrence(keys: NDArray[np.integer]) -> NDArray[np.int64]:
    """(..., T) the number of each entry among those of its row with the same key, from 1.

    One stable sort puts the entries of each key in a run; an entry's place in its run is its number.

    >>> occurrence(np.array([[0, 1, 0, 0, 1]])).tolist()
    [[1, 1, 2, 3, 2]]
    """
    small = keys.astype(np.int16) if keys.max(initial=0) < 2**15 else keys
    order = np.argsort(small, axis=-1, kind="stable")
    run = np.take_along_axis(small, order, axis=-1)
    place = np.arange(keys.shape[-1])
    starts = np.zeros(keys.shape, dtype=np.int64)
    starts[..., 1:] = np.where(run[..., 1:] != run[..., :-1], place[1:], 0)
    number = place - np.maximum.accumulate(starts, axis=-1) + 1
    out = np.empty(keys.shape, dtype=np.int64)
    np.put_along_axis(out, order, number, axis=-1)
    return out


def _as_floats(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} cannot be read as an array of numbers: {error}") from error


def _refuse_non_finite(array: Floats, name: str) -> None:
    finite = np.isfinite(array)
    if finite.all():
        return
    where = tuple(int(i) for i in np.argwhere(~finite)[0])
    place = f"row {where[0]}, column {where[1]}" if len(where) == 2 else f"position {where[0]}"
    raise InputError(f"{name} is not finite ({array[where]}) in {place}; drop or recompute that row")
