"""Embeddings computed elsewhere, one vector per name: for a model that cannot be run here.

CSV and TSV in two layouts. Wide: ``id`` and then one column per dimension, in order. Narrow: ``id`` and ``vector``, the
numbers as a JSON list or separated by spaces or semicolons. npz, npy with ids, Parquet, safetensors and JSON lines as
:mod:`equipoise.data.readers.files.vectors` tells. An id is an image's id, or a text itself. A column ``model`` names
the model of the line; otherwise the option does, and without it the name of the file or folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from equipoise.data.readers.files import files_of, text_lines
from equipoise.data.readers.files.records import ReaderShape, csv_rows
from equipoise.data.readers.files.values import RowError, number, text
from equipoise.data.readers.files.vectors import ARRAY_SUFFIXES, named_vectors
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

_TABS = (".tsv", ".tab")


def read(
    path: str | os.PathLike[str], *, model: str | None = None, ids: str | os.PathLike[str] | None = None
) -> Iterator[Row | Rejected]:
    """Rows ``{id, vector, model}``; every vector as long as the first good one.

    ``model``: the name of the model, where no column says it; by default the name of the file or folder. ``ids``: the
    file of ids, one per line, of an npy or safetensors file; by default one beside it (``vectors.ids.txt``).
    """
    seen: set[tuple[str, str]] = set()
    length: list[int] = []
    stem = Path(path).stem
    for file in files_of(path, "*.csv", *(f"*{suffix}" for suffix in (*_TABS, *ARRAY_SUFFIXES))):
        if file.suffix.lower() in ARRAY_SUFFIXES:
            yield from _array_rows(file, model, stem, ids, seen, length)
        else:
            tabs = "\t" if file.suffix.lower() in _TABS else ","
            _check_header(file, tabs)
            yield from csv_rows(file, ("id",), _row, model, stem, seen, length, delimiter=tabs)


def shape(
    path: str | os.PathLike[str], *, model: str | None = None, ids: str | os.PathLike[str] | None = None
) -> ReaderShape:
    """The kind of table and the length of the vectors."""
    first: Rejected | None = None
    for row in islice(read(path, model=model, ids=ids), 1000):
        if not isinstance(row, Rejected):
            return ReaderShape(kind="embeddings", dim=len(row["vector"]))
        first = first or row
    why = f"the first reason: {first.where}: {first.reason}" if first else "it has no line below the header"
    raise InputError(f"{path} holds no embedding that can be read in its first 1,000 lines; {why}")


def _check_header(file: Path, delimiter: str) -> None:
    """Refuse a table of something else, such as labels, and columns that are no part of a vector."""
    _, header = next(text_lines(file), (0, ""))
    names = [name.strip().strip('"') for name in header.split(delimiter)] if isinstance(header, str) else ["id"]
    if header and "id" not in names:
        shown = ", ".join(names)[:200].encode("utf-8", "replace").decode()
        raise InputError(
            f"{file} holds no vectors: it has no column 'id'; a CSV file of vectors has the columns id and vector, or "
            f"id and one column for each number (its columns are: {shown})"
        )
    if "id" in names and "vector" not in names:
        _refuse_unnamed(file, names)


def _refuse_unnamed(file: Path, names: Sequence[str]) -> None:
    """Refuse a column that would become a part of every vector though it is most likely the number of the line."""
    for place, name in enumerate(names, 1):
        if not name or name.startswith("Unnamed:"):
            raise InputError(
                f"{file}: column {place} has no name of its own; if pandas put its line numbers there, save the file "
                "again with index=False"
            )


def _array_rows(
    file: Path,
    model: str | None,
    stem: str,
    ids: str | os.PathLike[str] | None,
    seen: set[tuple[str, str]],
    length: list[int],
) -> Iterator[Row | Rejected]:
    place = 0
    for names, vectors, makers in named_vectors(file, ids):
        for i, (name, vector) in enumerate(zip(names, vectors, strict=True)):
            place += 1
            try:
                if not np.isfinite(vector).all():
                    raise RowError("the vector holds a value that is not a finite number")
                maker = _maker(makers[i] if makers else None, model, stem, has_column=makers is not None)
                yield _named(text(name, "id"), np.asarray(vector, np.float64).tolist(), maker, seen, length)
            except RowError as error:
                yield Rejected(f"{file.name} vector {place}", str(error), {"id": name[:200]})


def _row(fields: dict[str, str], model: str | None, stem: str, seen: set[tuple[str, str]], length: list[int]) -> Row:
    maker = _maker(fields.get("model"), model, stem, has_column="model" in fields)
    return _named(text(fields["id"], "id"), _vector(fields), maker, seen, length)


def _maker(told: str | None, model: str | None, stem: str, *, has_column: bool) -> str:
    """The model of a vector: what its line tells, else the option, else the name of the file or folder."""
    # A gap in a column that names the models is damage; the file's name would be a guess
    maker = told or model or ("" if has_column else stem)
    if not maker:
        raise RowError("no model is named; fill the column 'model' or give model=")
    return text(maker, "model")


def _named(name: str, vector: list[float], model: str, seen: set[tuple[str, str]], length: list[int]) -> Row:
    if not vector:
        raise RowError("the vector is empty")
    length[:] = length or [len(vector)]
    if len(vector) != length[0]:
        raise RowError(f"the vector has {len(vector)} numbers, but the first has {length[0]}")
    if (name, model) in seen:
        raise RowError(f"the id {name!r} was given before for this model; the first stays")
    seen.add((name, model))
    return {"id": name, "vector": vector, "model": model}


def _vector(fields: dict[str, str]) -> list[float]:
    if "vector" in fields:
        parts = fields["vector"].strip().strip("[]").replace(";", " ").replace(",", " ").split()
        return [number(part, "vector", -1e38, 1e38) for part in parts]
    return [number(v, f"column {k!r}", -1e38, 1e38) for k, v in fields.items() if k not in ("id", "model")]
