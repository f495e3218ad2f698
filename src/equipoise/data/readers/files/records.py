"""Rows from records: what most readers of CSV files do, in one place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.readers.files import csv_records
from equipoise.data.readers.files.values import GivenIds, attempt
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError
from equipoise.text.labels import read_labels

SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val", "test": "test"}
"""Names of splits as datasets spell them, and as tables do."""


@dataclass(frozen=True)
class ReaderShape:
    """The columns of the table that a reader's rows make, beyond those every table of the kind has."""

    axes: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    kind: str = "images"
    dim: int | None = None
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    """By axis, the group that each label of the dataset is read as; a label that is not listed is its own group."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What was joined or taken for unknown in that."""

    def group(self, axis: str, label: str | None) -> str | None:
        """The group that ``label`` is read as on ``axis``."""
        return label if label is None else self.labels.get(axis, {}).get(label, label)

    def with_labels(self, counts: Mapping[str, Mapping[Any, int]]) -> ReaderShape:
        """The same, told how often each cell occurs on each axis: spellings of one group become one.

        >>> shape = ReaderShape(("gender",)).with_labels({"gender": {"male": 3, "Male": 1, "N/A": 2}})
        >>> shape.group("gender", "Male"), shape.notes
        ('male', ("gender: 'Male' read as 'male'; 2 'N/A' read as unknown",))
        """
        labels: dict[str, dict[str, str]] = {}
        notes = []
        for axis, cells in counts.items():
            read = read_labels(np.repeat(np.array([*cells, None], dtype=object)[:-1], list(cells.values())))
            labels[axis] = {cell.strip(): name for name, some in read.joined.items() for cell in some}
            if note := read.note(axis):
                notes.append(note)
        return replace(self, labels=labels, notes=tuple(notes))


def csv_rows(
    file: Path,
    required: Sequence[str],
    build: Callable[..., Row],
    *args: Any,
    delimiter: str = ",",
    header: Sequence[str] | None = None,
    seen: GivenIds | None = None,
) -> Iterator[Row | Rejected]:
    """``build(fields, *args)`` for each record of a CSV file; a RowError makes a Rejected."""
    for record in csv_records(file, required, delimiter=delimiter, header=header):
        if isinstance(record, Rejected):
            yield record
        else:
            where, fields = record
            yield attempt(where, build, fields, *args, shown=fields, seen=seen)


def split_named(name: str) -> str | None:
    """The split that a file or folder name begins with.

    >>> split_named("train-00000-of-00061.parquet"), split_named("validation"), split_named("photos")
    ('train', 'val', None)
    """
    word = re.match(r"[a-z]*", name.casefold())
    return SPLITS.get(word[0]) if word else None


def name_list(value: str | Iterable[str], option: str) -> tuple[str, ...]:
    """Names from a list or from text with commas.

    >>> name_list("gender, race", "axes")
    ('gender', 'race')
    """
    names = value.split(",") if isinstance(value, str) else list(value)
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise InputError(f"{option}={value!r}: names are expected, as a list or separated by commas")
    return tuple(name.strip() for name in names)


def pairs(value: str | Mapping[str, str], option: str) -> dict[str, str]:
    """``{name: name}`` from a mapping or from text like ``"caption=text,image=img"``.

    >>> pairs("caption=text, image=img", "columns")
    {'caption': 'text', 'image': 'img'}
    """
    if isinstance(value, str):
        items = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(equals and left.strip() and right.strip() for left, equals, right in items):
            raise InputError(f"{option}={value!r}: pairs like 'caption=text,image=img' are expected")
        return {left.strip(): right.strip() for left, _, right in items}
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise InputError(f"{option}={value!r}: a mapping from our column names to the file's is expected")
    return dict(value)
