"""An image folder with ``metadata.csv`` or ``metadata.jsonl``: the Hugging Face ``imagefolder`` convention.

``file_name`` is the image, relative to the metadata file; every other column or key is a column of the table. Names
that tables know (``image_id``, ``caption``, ``captions``, ``set_id``, ``subject``, ``split``, ...) mean here what
they mean there, and ``text`` is the caption where there is no ``caption``; ``columns`` says which has another name.
Metadata files may stand in subfolders; a first folder called ``train``, ``val``, ``validation`` or ``test`` gives the
split. ``metadata.parquet`` is not read. Folders without metadata, one class per folder, are read by ``classfolder``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from equipoise.data.readers.files import csv_records, existing, json_lines
from equipoise.data.readers.files.mapped import Mapped, kinds_of, mapped, mapped_row
from equipoise.data.readers.files.records import ReaderShape, pairs, split_named
from equipoise.data.readers.files.values import IMAGE_SUFFIXES, GivenIds, Pictures, attempt, mapping, text
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

_GUESSES = {"image": ("file_name",), "caption": ("text",)}


def read(
    path: str | os.PathLike[str],
    *,
    columns: str | Mapping[str, str] | None = None,
    axes: str | Iterable[str] | None = None,
) -> Iterator[Row | Rejected]:
    """One row per image. ``columns``: our names to the file's, as in ``"caption=text,subject=job"``. ``axes``: which
    columns are groups, as in ``"gender=sex,age"``; by default those called gender, race, age, ..."""
    root = _folder(path)
    plan = _plan(root, columns, axes)
    seen = GivenIds()
    listed: set[Path] = set()
    for file in _metadata_files(root):
        for record in _records(file, plan.fields.get("image", "file_name")):
            if isinstance(record, Rejected):
                yield record
            else:
                where, fields = record
                yield attempt(where, _row, fields, file, root, plan, listed, shown=fields, seen=seen)
    for image in _images_below(root):
        if image not in listed:
            yield Rejected(str(image.relative_to(root)), "the image has no row in the metadata")


def shape(
    path: str | os.PathLike[str],
    *,
    columns: str | Mapping[str, str] | None = None,
    axes: str | Iterable[str] | None = None,
) -> ReaderShape:
    """The axes and further columns that the metadata has, with their types."""
    return _plan(_folder(path), columns, axes).shape


def _plan(root: Path, columns: str | Mapping[str, str] | None, axes: str | Iterable[str] | None) -> Mapped:
    counts: dict[str, Counter[str]] = {}
    labels: dict[str, Counter[Any]] = {}
    image = (pairs(columns, "columns") if columns is not None else {}).get("image", "file_name")
    for file in _metadata_files(root):
        for record in _records(file, image):
            if not isinstance(record, Rejected) and isinstance(record[1], dict):
                kinds_of(record[1], counts, labels)
    plan = mapped(counts, labels, f"the metadata of {root}", columns=columns, axes=axes, guesses=_GUESSES)
    if counts and "image" not in plan.fields:
        raise InputError(f"the metadata of {root} has no column 'file_name'; its columns are: {', '.join(counts)}")
    return plan


def _folder(path: str | os.PathLike[str]) -> Path:
    root = existing(path)
    return root if root.is_dir() else root.parent


def _metadata_files(root: Path) -> list[Path]:
    files = sorted(p for name in ("metadata.csv", "metadata.jsonl") for p in root.rglob(name))
    if not files:
        raise InputError(
            f"{root} has no metadata.csv or metadata.jsonl; for one folder per class use the reader 'classfolder', for "
            "labels in a file of another name the reader 'csv' with that file"
        )
    return files


def _records(file: Path, image: str = "file_name") -> Iterator[tuple[str, Any] | Rejected]:
    return csv_records(file, (image,)) if file.suffix == ".csv" else json_lines(file)


def _images_below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders.sort()
        yield from (Path(folder, f) for f in sorted(files) if f.lower().endswith(IMAGE_SUFFIXES))


def _row(fields: Any, file: Path, root: Path, plan: Mapped, listed: set[Path]) -> Row:
    fields = mapping(fields, "line")
    name = text(fields.get(plan.fields.get("image", "file_name")), "file_name")
    cell = Pictures(file.parent).cell(name)
    assert cell is not None
    image = Path(cell["path"])
    listed.add(image)
    inside = image.relative_to(root)
    stem = str(inside.with_suffix("")).replace(os.sep, "/")
    split = split_named(inside.parts[0]) if len(inside.parts) > 1 else None
    return mapped_row(fields, plan, image=cell, image_id=stem, split=split)
