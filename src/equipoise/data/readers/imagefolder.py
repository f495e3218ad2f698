"""An image folder with ``metadata.csv`` or ``metadata.jsonl``: the Hugging Face ``imagefolder`` convention.

``file_name`` is the image, relative to the metadata file; every other column or key is a column of the table. Names
that tables know (``image_id``, ``caption``, ``captions``, ``set_id``, ``subject``, ``split``, ...) mean here what
they mean there, and ``text`` is the caption where there is no ``caption``. Metadata files may stand in subfolders; a
first folder called ``train``, ``val``, ``validation`` or ``test`` gives the split. ``metadata.parquet`` is not read.
Folders without metadata, one class a folder, are read by ``classfolder``.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from equipoise.data.readers.files import csv_records, existing, json_lines
from equipoise.data.readers.files.records import ReaderShape, name_list, split_named
from equipoise.data.readers.files.values import (
    IMAGE_SUFFIXES,
    GivenIds,
    Pictures,
    RowError,
    attempt,
    brief,
    group,
    identifier,
    mapping,
    number,
    optional_text,
    row,
    text,
    whole,
)
from equipoise.data.schema import AXES, Rejected, Row
from equipoise.errors import InputError

__all__ = ["read", "shape"]

_TEXTS = ("caption", "subject", "label_source", "generator", "split")
_IDS = ("source_id", "set_id")
_MAX_FURTHER = 2**22  # a further column may hold JSON: the masks of a crowd
_OURS = ("file_name", "image_id", "captions", "params", "seed", *_TEXTS, *_IDS)


def read(path: str | os.PathLike[str], *, axes: str | Iterable[str] | None = None) -> Iterator[Row | Rejected]:
    """One row per image. ``axes``: which columns are groups; by default those called gender, race, age, ..."""
    root = _folder(path)
    columns = shape(root, axes=axes)
    seen = GivenIds()
    listed: set[Path] = set()
    for file in _metadata_files(root):
        for record in _records(file):
            if isinstance(record, Rejected):
                yield record
            else:
                where, fields = record
                yield attempt(where, _row, fields, file, root, columns, listed, shown=_shown(fields), seen=seen)
    for image in _images_below(root):
        if image not in listed:
            yield Rejected(str(image.relative_to(root)), "the image has no row in the metadata")


def shape(path: str | os.PathLike[str], *, axes: str | Iterable[str] | None = None) -> ReaderShape:
    """The axes and further columns that the metadata has, with their types."""
    votes: dict[str, Counter[str]] = {}
    asked = AXES if axes is None else name_list(axes, "axes")
    labels: dict[str, Counter[Any]] = {}
    for file in _metadata_files(_folder(path)):
        for record in _records(file):
            if not isinstance(record, Rejected) and isinstance(record[1], dict):
                for name, value in record[1].items():
                    votes.setdefault(name, Counter())[_kind(value)] += 1
                    if name in asked and isinstance(value, str | int | float) and not isinstance(value, bool):
                        labels.setdefault(name, Counter())[value] += 1
    kinds = {name: _elected(counts) for name, counts in votes.items()}
    if axes is None:
        groups = tuple(axis for axis in AXES if axis in kinds)
    else:
        groups = name_list(axes, "axes")
        for axis in groups:
            if axis not in kinds:
                raise InputError(f"axes names {axis!r}, but the metadata of {path} has: {', '.join(sorted(kinds))}")
    taken = (*_OURS, *groups, *(["text"] if "caption" not in kinds else []))
    further = {name: kind for name, kind in kinds.items() if name not in taken}
    columns = {_column(name): kind for name, kind in further.items()}
    if len(columns) != len(further):
        raise InputError(f"two columns of the metadata of {path} have the same name but for punctuation")
    return ReaderShape(groups, columns).with_labels({axis: labels.get(axis, {}) for axis in groups})


def _folder(path: str | os.PathLike[str]) -> Path:
    root = existing(path)
    return root if root.is_dir() else root.parent


def _metadata_files(root: Path) -> list[Path]:
    files = sorted(p for name in ("metadata.csv", "metadata.jsonl") for p in root.rglob(name))
    if not files:
        raise InputError(
            f"{root} has no metadata.csv or metadata.jsonl; for one class a folder use the reader 'classfolder'"
        )
    return files


def _records(file: Path) -> Iterator[tuple[str, Any] | Rejected]:
    return csv_records(file, ("file_name",)) if file.suffix == ".csv" else json_lines(file)


def _images_below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders.sort()
        yield from (Path(folder, f) for f in sorted(files) if f.lower().endswith(IMAGE_SUFFIXES))


def _row(fields: Any, file: Path, root: Path, columns: ReaderShape, listed: set[Path]) -> Row:
    fields = mapping(fields, "line")
    name = text(fields.get("file_name"), "file_name")
    cell = Pictures(file.parent).cell(name)
    assert cell is not None
    image = Path(cell["path"])
    listed.add(image)
    inside = image.relative_to(root)
    stem = str(inside.with_suffix("")).replace(os.sep, "/")
    get = fields.get
    image_id = stem if _is_empty(get("image_id")) else identifier(get("image_id"), "image_id")
    cells = row(image=cell, image_id=image_id)
    cells |= {key: optional_text(get(key), key) for key in _TEXTS if key in fields}
    cells |= {key: None if _is_empty(get(key)) else identifier(get(key), key) for key in _IDS if key in fields}
    if "caption" not in fields:
        cells["caption"] = optional_text(get("text"), "text")
    cells["captions"] = _captions(get("captions"), cells["caption"])
    cells["caption"] = cells["caption"] or next(iter(cells["captions"]), None)
    cells["split"] = cells["split"] or (split_named(inside.parts[0]) if len(inside.parts) > 1 else None)
    if not _is_empty(get("params")):
        cells["params"] = fields["params"] if isinstance(fields["params"], str) else _json(fields["params"], "params")
    if not _is_empty(get("seed")):
        cells["seed"] = whole(fields["seed"], "seed")
    cells |= {axis: columns.group(axis, group(get(axis), axis)) for axis in columns.axes}
    by_column = {_column(key): value for key, value in fields.items()}
    return cells | {key: _value(by_column.get(key), kind, key) for key, kind in columns.columns.items()}


def _captions(value: Any, caption: str | None) -> list[str]:
    if _is_empty(value):
        return [caption] if caption else []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = [value]
    if not isinstance(value, list):
        raise RowError("the captions are not a list")
    return [text(v, "caption") for v in value]


def _column(name: str) -> str:
    """A name that a table can use: letters, digits and ``_``, a letter first, and not one that means the image."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    plain = plain if re.match(r"[A-Za-z]", plain) else f"x_{plain}"
    return f"{plain}_" if plain == "image" else plain


def _kind(value: Any) -> str:
    """The type of one value; "" for none."""
    if _is_empty(value):
        return ""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if abs(value) < 2**63 else "json"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return "list<string>"
    return "json"


def _elected(counts: Counter[str]) -> str:
    """The type that most values have; whole numbers among others make numbers.

    >>> _elected(Counter({"string": 5, "int64": 1})), _elected(Counter({"int64": 5, "float64": 1, "": 9}))
    ('string', 'float64')
    """
    votes = Counter({kind: n for kind, n in counts.items() if kind})
    if votes["float64"] and votes["int64"]:
        votes["float64"] += votes.pop("int64")
    return min(votes, key=lambda kind: (-votes[kind], kind), default="string")


def _value(value: Any, kind: str, name: str) -> Any:
    if _is_empty(value):
        return None
    if kind == "json":
        return _json(value, name)
    if kind == "float64" and _kind(value) in ("int64", "float64"):
        return number(value, name)
    if _kind(value) != kind:
        raise RowError(f"column {name!r} is {kind} in most lines; here it is {_shown_type(value)}")
    if kind == "string":
        return text(value, name, _MAX_FURTHER)
    return [text(v, name) for v in value] if kind == "list<string>" else value


def _shown_type(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "text", bool: "true or false"}.get(type(value), "a number")


def _json(value: Any, name: str) -> str:
    try:
        dumped = json.dumps(value, sort_keys=True, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise RowError(f"column {name!r} holds a value that is not JSON: {error}") from error
    return dumped


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _shown(fields: Any) -> dict[str, str]:
    return brief(fields) if isinstance(fields, dict) else {}
