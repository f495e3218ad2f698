"""Numbers as groups: ages and the like put into bands, and a note where each number would be a group of its own."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from equipoise.data.readers.files.values import RowError
from equipoise.errors import InputError
from equipoise.text.labels import means_unknown

MANY_NUMBERS = 12
"""An axis with more groups than this, all of them numbers, was most likely meant to be put into bands."""


class Bands:
    """The bands between ascending ``edges``; an edge belongs to the band above it.

    >>> bands = Bands("age", [30, 60])
    >>> [bands.of(value) for value in (29, "30", 59, 60, None, "N/A")]
    ['under 30', '30 to 59', '30 to 59', '60 and over', None, 'N/A']
    >>> Bands("score", [0.5]).of(0.7)
    '0.5 and over'
    """

    def __init__(self, column: str, edges: Iterable[float]) -> None:
        self.column, self.edges = column, [float(edge) for edge in edges]
        if not self.edges or any(not a < b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise InputError(f"--bands {column}: give ascending numbers, as in --bands {column}=30,60")
        whole = all(edge.is_integer() for edge in self.edges)
        told = [f"{edge:g}" for edge in self.edges]
        upto = [f"to {edge - 1:g}" if whole else f"to under {edge:g}" for edge in self.edges[1:]]
        between = [f"{low} {high}" for low, high in zip(told, upto, strict=False)]
        self.names = [f"under {told[0]}", *between, f"{told[-1]} and over"]

    def of(self, value: Any) -> Any:
        """The band of a number; what says that it is not known stays as it is, and another text is a RowError."""
        if means_unknown(value):
            return value
        number = _number(value)
        if number is None:
            raise RowError(f"column {self.column!r} is put into bands, but {str(value)[:40]!r} is not a number")
        return self.names[bisect_right(self.edges, number)]


def bands_named(bands: Mapping[str, Any] | None, known: Iterable[str]) -> dict[str, Bands]:
    """The bands of each column, from ``{"age": "30,60"}``; a column that is not among the ``known`` is refused.

    >>> bands_named({"age": "30,60"}, ["age", "sex"])["age"].names
    ['under 30', '30 to 59', '60 and over']
    """
    names, found = list(known), {}
    for column, edges in (bands or {}).items():
        if column not in names:
            raise InputError(f"--bands {column}: there is no such column; the columns are: {', '.join(names)[:300]}")
        parts = edges.split(",") if isinstance(edges, str) else list(edges)
        numbers = [_number(part) for part in parts]
        if not numbers or None in numbers:
            raise InputError(
                f"--bands {column}={edges}: give numbers separated by commas, as in --bands {column}=30,60"
            )
        found[column] = Bands(column, [number for number in numbers if number is not None])
    return found


def numbers_note(axis: str, values: Iterable[Any], column: str = "") -> str:
    """One sentence on an axis with many groups that are all numbers; empty for any other.

    >>> numbers_note("age", range(18, 65))
    'age: 47 different numbers, each a group of its own; put them into bands at the import, as in --bands age=30,50'
    >>> numbers_note("gender", ["f", "m"])
    ''
    """
    numbers = {_number(value) for value in values if not means_unknown(value)}
    if len(numbers) <= MANY_NUMBERS or None in numbers:
        return ""
    found = sorted(number for number in numbers if number is not None)
    step = 10.0 ** math.floor(math.log10(found[-1] - found[0]))
    thirds = {round(found[len(found) * part // 3] / step) * step for part in (1, 2)}
    edges = ",".join(f"{edge:g}" for edge in sorted(thirds))
    return (
        f"{axis}: {len(numbers)} different numbers, each a group of its own; put them into bands at the import, as in "
        f"--bands {column or axis}={edges}"
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
