"""Scores of images against texts computed elsewhere: for a model behind an API.

CSV, TSV and Parquet in two layouts. Long: ``image_id``, ``text_id``, ``score``. Wide: ``image_id`` and then one column
per text, the column's name being the text; an empty cell is no score. An ``.npz`` holds ``image_ids`` (n,), ``texts``
(m,) and ``scores`` (m, n) or (n, m); with as many texts as images the name says which are the rows, ``scores_by_text``
or ``scores_by_image``. The id of a text is the text itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from equipoise.data.readers.files import Record, csv_records, files_of
from equipoise.data.readers.files.parquet import parquet_records, schema_of
from equipoise.data.readers.files.values import RowError, brief, number, text
from equipoise.data.readers.files.vectors import named_arrays
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

_ARRAYS = ("scores_by_text", "scores_by_image", "scores")
"""What an npz calls its scores: with a row for each text, for each image, or either."""


def read(path: str | os.PathLike[str]) -> Iterator[Row | Rejected]:
    """Rows ``{image_id, text_id, score}``."""
    seen: set[tuple[str, ...]] = set()
    for file in files_of(path, "*.csv", "*.tsv", "*.parquet", "*.npz"):
        suffix = file.suffix.lower()
        if suffix == ".npz":
            yield from _of_arrays(file)
        elif suffix in (".csv", ".tsv", ".parquet"):
            yield from _rows(file, seen, _parquet(file) if suffix == ".parquet" else _lines(file))
        else:
            raise InputError(f"{file}: scores are read from CSV, TSV, Parquet and npz files; save them as one of these")


def _lines(file: Path) -> Iterator[Record | Rejected]:
    return csv_records(file, ("image_id",), delimiter="\t" if file.suffix.lower() == ".tsv" else ",")


def _parquet(file: Path) -> Iterator[Record | Rejected]:
    """The rows of a Parquet file as if they were lines: every value as text."""
    names = schema_of([file]).names
    if "image_id" not in names:
        raise InputError(f"{file} has no column 'image_id'; its columns are: {', '.join(names)[:200]}")
    for record in parquet_records([file], names):
        if isinstance(record, Rejected):
            yield record
        else:
            _, row, values = record
            yield f"{file.name} row {row}", {k: "" if v is None else str(v) for k, v in values.items()}


def _of_arrays(file: Path) -> Iterator[Row | Rejected]:
    arrays = named_arrays(file)
    images = next((arrays[n] for n in ("image_ids", "image_id", "ids", "images") if n in arrays), None)
    texts = next((arrays[n] for n in ("texts", "text_ids", "text_id", "prompts") if n in arrays), None)
    name = next((n for n in _ARRAYS if n in arrays), next((n for n, a in arrays.items() if a.ndim == 2), ""))
    if images is None or texts is None or not name:
        raise InputError(
            f"{file} holds {', '.join(arrays) or 'nothing'}; scores are saved as np.savez(FILE, image_ids=..., "
            "texts=..., scores=...), with one row per text"
        )
    scores = arrays[name]
    if name not in _ARRAYS[:2] and scores.shape == (len(images), len(texts)) and 1 < len(images) == len(texts):
        raise InputError(
            f"{file}: as many texts as images ({len(texts)}), so {name} fits with its rows as texts or as images; save "
            f"it as {_ARRAYS[0]}= if each row is a text, as {_ARRAYS[1]}= if each is an image"
        )
    if name == _ARRAYS[1] or (name != _ARRAYS[0] and scores.shape == (len(images), len(texts))):
        scores = scores.T
    if scores.shape != (len(texts), len(images)):
        raise InputError(
            f"{file}: scores of shape {scores.shape} do not fit {len(texts)} texts and {len(images)} images"
        )
    for text_id, row in zip(texts.tolist(), scores, strict=True):
        for image_id, score in zip(images.tolist(), row.tolist(), strict=True):
            if score == score:  # a cell that is no number is no score
                yield {"image_id": str(image_id), "text_id": str(text_id), "score": float(score)}


def _rows(file: Path, seen: set[tuple[str, ...]], records: Iterator[Record | Rejected]) -> Iterator[Row | Rejected]:
    for record in records:
        if isinstance(record, Rejected):
            yield record
            continue
        where, fields = record
        if ("text_id" in fields) != ("score" in fields):
            raise InputError(f"{file} has only one of the columns 'text_id' and 'score'; it needs both or neither")
        try:
            yield from (_long if "score" in fields else _wide)(fields, seen)
        except RowError as error:
            yield Rejected(where, str(error), brief(fields))


def _long(fields: dict[str, str], seen: set[tuple[str, ...]]) -> list[Row]:
    image_id, text_id = text(fields["image_id"], "image id"), text(fields["text_id"], "text id")
    score = number(fields["score"], "score")
    _once((image_id, text_id), seen)
    return [{"image_id": image_id, "text_id": text_id, "score": score}]


def _wide(fields: dict[str, str], seen: set[tuple[str, ...]]) -> list[Row]:
    image_id = text(fields["image_id"], "image id")
    cells = {name: value for name, value in fields.items() if name != "image_id" and value.strip()}
    scores = {text(name, "text id"): number(value, f"score of text {name!r}") for name, value in cells.items()}
    _once((image_id,), seen)
    return [{"image_id": image_id, "text_id": text_id, "score": score} for text_id, score in scores.items()]


def _once(key: tuple[str, ...], seen: set[tuple[str, ...]]) -> None:
    if key in seen:
        raise RowError(f"scores of {' and '.join(map(repr, key))} were given before; the first stay")
    seen.add(key)
