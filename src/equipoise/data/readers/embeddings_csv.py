"""Embeddings as CSV, one vector per line: for a model that cannot be run here.

Two layouts. Wide: ``id`` and then one column a dimension, in order. Narrow: ``id`` and ``vector``, the numbers as a
JSON list or separated by spaces or semicolons. A column ``model`` names the model of the line; otherwise the option
does, and without it the name of the file or folder. The format is this project's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.data.readers.files import files_of
from equipoise.data.readers.files.records import ReaderShape, csv_rows
from equipoise.data.readers.files.values import RowError, number, text
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

__all__ = ["read", "shape"]


def read(path: str | os.PathLike[str], *, model: str | None = None) -> Iterator[Row | Rejected]:
    """Rows ``{id, vector, model}``; every vector as long as the first good one.

    ``model``: the name of the model, where no column says it; by default the name of the file or folder.
    """
    seen: set[tuple[str, str]] = set()
    length: list[int] = []
    stem = Path(path).stem
    for file in files_of(path, "*.csv"):
        yield from csv_rows(file, ("id",), _row, model, stem, seen, length)


def shape(path: str | os.PathLike[str], **options: Any) -> ReaderShape:
    """The kind of table and the length of the vectors."""
    first: Rejected | None = None
    for row in islice(read(path, **options), 1000):
        if not isinstance(row, Rejected):
            return ReaderShape(kind="embeddings", dim=len(row["vector"]))
        first = first or row
    why = f"the first reason: {first.where}: {first.reason}" if first else "it has no line below the header"
    raise InputError(f"{path} holds no embedding that can be read in its first 1,000 lines; {why}")


def _row(fields: dict[str, str], model: str | None, stem: str, seen: set[tuple[str, str]], length: list[int]) -> Row:
    name = text(fields["id"], "id")
    # A gap in a column that names the models is damage; the file's name would be a guess
    maker = fields.get("model") or model or ("" if "model" in fields else stem)
    if not maker:
        raise RowError("no model is named; fill the column 'model' or give model=")
    vector = _vector(fields)
    if not vector:
        raise RowError("the vector is empty")
    length[:] = length or [len(vector)]
    if len(vector) != length[0]:
        raise RowError(f"the vector has {len(vector)} numbers, but the first has {length[0]}")
    key = (name, text(maker, "model"))
    if key in seen:
        raise RowError(f"the id {name!r} was given before for this model; the first stays")
    seen.add(key)
    return {"id": name, "vector": vector, "model": key[1]}


def _vector(fields: dict[str, str]) -> list[float]:
    if "vector" in fields:
        parts = fields["vector"].strip().strip("[]").replace(";", " ").replace(",", " ").split()
        return [number(part, "vector", -1e38, 1e38) for part in parts]
    return [number(v, f"column {k!r}", -1e38, 1e38) for k, v in fields.items() if k not in ("id", "model")]
