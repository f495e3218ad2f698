"""CSV of everything but the images: for a spreadsheet, R, or a look.

Nothing is null: an empty field. Lists and JSON are JSON text. UTF-8, a comma, quotes where needed. Text that a
spreadsheet would run as a formula (it begins with ``=``, ``+``, ``-`` or ``@`` and is no number) gets an apostrophe.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.data.atomic import atomic_file
from equipoise.data.exports.source import Exportable, free, kept_rows
from equipoise.errors import UnknownNameError
from equipoise.formatting import for_spreadsheet


def export(
    table: Exportable, out: str | os.PathLike[str], *, rows: str = "kept", columns: Sequence[str] | None = None
) -> Path:
    """Write one CSV file; return its path. ``columns``: which and in what order; by default all but ``image``."""
    if isinstance(columns, str):
        columns = [name.strip() for name in columns.split(",")]
    chosen = [name for name in table.columns if name != "image"] if columns is None else list(columns)
    for name in chosen:
        if name not in table.columns or name == "image":
            raise UnknownNameError("column to export as CSV", name, [c for c in table.columns if c != "image"])
    path = free(out)
    with atomic_file(path) as file:
        file.write(_line(chosen))
        for row in kept_rows(table, chosen, rows):
            file.write(_line([_cell(row[name]) for name in chosen]))
    return path


def _line(fields: Sequence[Any]) -> bytes:
    text = io.StringIO()
    # a field with either of the two characters is quoted; lines end in the second alone
    csv.writer(text, lineterminator="\r\n").writerow(map(for_spreadsheet, fields))
    return (text.getvalue()[:-2] + "\n").encode()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
