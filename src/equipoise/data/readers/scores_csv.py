"""Scores of images against texts as CSV: for a model behind an API.

Two layouts. Long: ``image_id``, ``text_id``, ``score``. Wide: ``image_id`` and then one column per text, the column's
name being the text's id; an empty cell is no score. The format is this project's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from equipoise.data.readers.files import csv_records, files_of
from equipoise.data.readers.files.values import RowError, brief, number, text
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

__all__ = ["read"]


def read(path: str | os.PathLike[str]) -> Iterator[Row | Rejected]:
    """Rows ``{image_id, text_id, score}``."""
    seen: set[tuple[str, ...]] = set()
    for file in files_of(path, "*.csv"):
        yield from _rows(file, seen)


def _rows(file: Path, seen: set[tuple[str, ...]]) -> Iterator[Row | Rejected]:
    for record in csv_records(file, ("image_id",)):
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
