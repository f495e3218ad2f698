"""What flows between a reader and a table: rows, and rows that were rejected with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Reader", "Rejected", "Row"]

Row = dict[str, Any]
"""One image: values by column name, as :mod:`equipoise.data.schema` describes them."""


@dataclass(frozen=True)
class Rejected:
    """A row that cannot be used: where it stood, and why. It is kept in ``_errors/``, never dropped silently.

    >>> Rejected("captions.json: annotation 12", "image 99 is not in the file").reason
    'image 99 is not in the file'
    """

    where: str
    reason: str
    row: Mapping[str, Any] = field(default_factory=dict)


class Reader(Protocol):
    """A function that reads one public dataset: yields a row for each image and a ``Rejected`` for each bad one.

    It raises :class:`equipoise.errors.InputError` only when nothing at all can be read (a missing file, JSON
    of the wrong shape).
    """

    def __call__(self, path: str, **options: Any) -> Iterator[Row | Rejected]:
        """Read ``path``; ``options`` are the reader's own."""
