"""Seeded draws by name: which rows are taken depends on their ids and the seed, never on their order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.text.labels import read_labels

__all__ = ["Positions", "axis_names", "draw_order", "ids_of", "labels_of"]

Positions = NDArray[np.int64]
"""Row numbers of a frame, as ``frame.iloc`` takes them."""


def draw_order(names: Sequence[str], seed: int, purpose: str) -> Positions:
    """A permutation of ``names`` as positions: each name has a fixed place in the lottery of ``(purpose, seed)``.

    A name's draw is a keyed BLAKE2 hash of it, so the order of the rows does not matter, and taking rows away does
    not change the order of the others.

    >>> draw_order(["a", "b", "c"], 0, "example").tolist()
    [0, 1, 2]
    >>> draw_order(["c", "b", "a"], 0, "example").tolist()
    [2, 1, 0]
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise InputError(f"seed={seed!r}: a whole number is expected")
    key = hashlib.blake2b(f"{purpose}:{int(seed)}".encode(), digest_size=32).digest()
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8, key=key).digest() for name in names)
    draws = np.frombuffer(digests, dtype=">u8")
    order = np.argsort(draws, kind="stable")
    if len(np.unique(draws)) < len(draws):  # two draws alike: the name decides
        order = np.array(sorted(range(len(names)), key=lambda i: (draws[i], names[i])), dtype=np.int64)
    return order.astype(np.int64)


def ids_of(frame: pd.DataFrame, column: str = "image_id") -> list[str]:
    """The ids of the rows: text, none missing, none twice."""
    if column not in frame:
        raise InputError(f"the frame has no column {column!r}; its columns are: {', '.join(map(str, frame.columns))}")
    values = frame[column].tolist()
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise InputError(f"column {column!r} holds {value!r} in row {position}; an id is text")
    if len(set(values)) < len(values):
        twice = frame[column][frame[column].duplicated()].iloc[0]
        raise InputError(f"column {column!r} holds {twice!r} more than once; an id names one row")
    return values


def axis_names(axes: str | Sequence[str]) -> tuple[str, ...]:
    """The names of one or several axes, at least one and none twice."""
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    if not names:
        raise InputError("no axis was named")
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InputError(f"the axis {twice!r} is named twice; name every axis once")
    return names


def labels_of(frame: pd.DataFrame, axes: str | Sequence[str]) -> tuple[tuple[str, ...], list[tuple[Any, ...] | None]]:
    """The axes, and each row's group on all of them together; None where one of them is undefined.

    Labels are read as everywhere (:func:`equipoise.text.labels.read_labels`): spellings that differ in case are one.

    >>> labels_of(pd.DataFrame({"gender": ["f", None], "race": ["x", "y"]}), ["gender", "race"])[1]
    [('f', 'x'), None]
    """
    names = axis_names(axes)
    for name in names:
        if name not in frame:
            shown = ", ".join(map(str, frame.columns))
            raise InputError(f"the frame has no column {name!r} to take as an axis; its columns are: {shown}")
    columns = [read_labels(frame[name]).values().tolist() for name in names]
    return names, [None if None in row else row for row in zip(*columns, strict=True)]
