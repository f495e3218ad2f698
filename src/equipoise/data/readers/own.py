"""A list of one's own images: CSV, TSV, JSON lines, Parquet, or a folder that Hugging Face ``datasets`` saved.

One line per image, with columns of any name: ``columns`` says which is which (``image=path,caption=text,subject=job``)
and ``axes`` which hold groups (``gender=sex,age``). Names that tables know need not be said, nor usual names of the
image's column (``path``, ``file_name``, ...). Every other column is kept. Images are found from where the list stands,
from the folder where the command is given, or below ``images``; full paths are taken as they are. Web addresses are
not downloaded.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from equipoise.data.readers.files import csv_records, existing, json_lines, read_json, text_lines
from equipoise.data.readers.files.bands import bands_named, numbers_note
from equipoise.data.readers.files.mapped import Mapped, kinds_of, mapped, mapped_row
from equipoise.data.readers.files.parquet import class_names, parquet_records, schema_of
from equipoise.data.readers.files.records import ReaderShape, split_named
from equipoise.data.readers.files.values import IMAGE_SUFFIXES, GivenIds, OwnPictures, attempt, mapping, plain_fields
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError
from equipoise.formatting import delimiter_in

GUESSES = {
    "image": ("file_name", "filename", "path", "image_path", "img_path", "filepath", "file_path", "file", "img"),
    "image_id": ("id",),
    "caption": ("text",),
}
SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")


class NoRecordsError(InputError):
    """A list of images without a line that can be read."""


OwnRecord = tuple[str, Any, Path, str | None]
"""Where a record stands, its fields, the folder from which its paths go, and its split."""


def read(
    path: str | os.PathLike[str],
    *,
    columns: str | Mapping[str, str] | None = None,
    axes: str | Iterable[str] | None = None,
    images: str | os.PathLike[str] | None = None,
    bands: Mapping[str, Any] | None = None,
) -> Iterator[Row | Rejected]:
    """One row per line. ``columns``: our names to the file's, as in ``"image=path,caption=text,subject=job"``.

    ``axes``: which columns are groups, as in ``"gender=sex,age"``; by default those called gender, race, age, ...
    ``images``: the folder that paths start from; by default the list's own folder, then the current one. ``bands``:
    the numbers at which a column such as age is cut into groups, as in ``{"age": "30,60"}``.
    """
    plan = _plan(path, columns, axes, bands)
    seen = GivenIds()
    for record in _records(existing(path)):
        if isinstance(record, Rejected):
            yield record
        else:
            where, fields, base, split = record
            pictures = OwnPictures(*_bases(images, base))
            yield attempt(where, record_row, fields, plan, pictures, where, split, shown=fields, seen=seen)


def shape(
    path: str | os.PathLike[str],
    *,
    columns: str | Mapping[str, str] | None = None,
    axes: str | Iterable[str] | None = None,
    images: str | os.PathLike[str] | None = None,
    bands: Mapping[str, Any] | None = None,
) -> ReaderShape:
    """The axes and further columns of the rows that :func:`read` gives."""
    return _plan(path, columns, axes, bands).shape


def record_row(fields: Any, plan: Mapped, pictures: OwnPictures, where: str, split: str | None = None) -> Row:
    """The row of one record; without a column of images, one that is all labels."""
    fields = mapping(fields, "line")
    fields = {name: plan.bands[name].of(value) if name in plan.bands else value for name, value in fields.items()}
    if "image" not in plan.fields:
        return mapped_row(fields, plan, image=None, image_id=where, split=split)
    value = fields.get(plan.fields["image"])
    cell = pictures.own_cell(value)
    name = value if isinstance(value, str) else cell["path"]
    return mapped_row(fields, plan, image=cell, image_id=name or where, split=split)


def plan_for(
    records: Iterable[Mapping[str, Any]],
    where: str,
    columns: str | Mapping[str, str] | None,
    axes: str | Iterable[str] | None,
    bands: Mapping[str, Any] | None = None,
) -> Mapped:
    """Which field of these records is which column; refused where none says which image, or which id."""
    counts: dict[str, Counter[str]] = {}
    labels: dict[str, Counter[Any]] = {}
    for fields in records:
        kinds_of({name: None if isinstance(value, bytes) else value for name, value in fields.items()}, counts, labels)
    if not counts:
        raise NoRecordsError(f"{where} holds no line below the column names")
    cuts = bands_named(bands, counts)
    for name, cut in cuts.items():
        counts[name] = Counter({"string": counts[name].total()})
        labels[name] = Counter(dict.fromkeys(cut.names, 1))
    plan = mapped(counts, labels, where, columns=columns, axes=axes, guesses=GUESSES)
    notes = (numbers_note(axis, labels.get(plan.fields[axis], ()), plan.fields[axis]) for axis in plan.shape.axes)
    shape = dataclasses.replace(plan.shape, notes=(*plan.shape.notes, *filter(None, notes)))
    plan = dataclasses.replace(plan, shape=shape, bands=cuts)
    if "image" not in plan.fields and "image_id" not in plan.fields:
        raise InputError(
            f"{where}: no column is known to hold the images; say which with --image COLUMN or, where there are labels "
            f"alone, which names each row with --id-column COLUMN (columns: {', '.join(map(str, counts))[:300]})"
        )
    return plan


def _plan(
    path: str | os.PathLike[str],
    columns: str | Mapping[str, str] | None,
    axes: str | Iterable[str] | None,
    bands: Mapping[str, Any] | None = None,
) -> Mapped:
    refused: list[Rejected] = []

    def fields() -> Iterator[Mapping[str, Any]]:
        for record in _records(existing(path)):
            if isinstance(record, Rejected):
                refused[:1] = refused[:1] or [record]
            elif isinstance(record[1], dict):
                yield record[1]

    try:
        return plan_for(fields(), str(path), columns, axes, bands)
    except NoRecordsError:
        if refused:
            raise InputError(f"no line of {path} can be used; {refused[0].where}: {refused[0].reason}") from None
        raise


def _bases(images: str | os.PathLike[str] | None, base: Path) -> tuple[Path, ...]:
    if images is None:
        return base, Path.cwd()
    folder = existing(images)
    if not folder.is_dir():
        raise InputError(f"{images} is a file; --images names the folder that the paths start from")
    return (folder,)


def _records(path: Path) -> Iterator[OwnRecord | Rejected]:
    for file, split in _files(path):
        base = file.parent
        if file.suffix == ".arrow":
            yield from _arrow_records(file, split)
        elif file.suffix.lower() == ".parquet":
            yield from _parquet_records(file, split)
        elif file.suffix.lower() == ".json":
            yield from _listed_records(file, split)
        else:
            for record in _line_records(file):
                yield record if isinstance(record, Rejected) else (*record, base, split)


def _line_records(file: Path) -> Iterator[tuple[str, Any] | Rejected]:
    if file.suffix.lower() in (".jsonl", ".ndjson"):
        return json_lines(file)
    if file.suffix.lower() in (".tsv", ".tab"):
        return _unquoted(csv_records(file, delimiter="\t"))
    _, header = next(text_lines(file), (0, ""))
    return csv_records(file, delimiter=delimiter_in(header) if isinstance(header, str) else ",")


def _unquoted(records: Iterable[tuple[str, Any] | Rejected]) -> Iterator[tuple[str, Any] | Rejected]:
    """Fields of tab-separated lines without the quotes that spreadsheets and pandas put around them."""
    for record in records:
        if isinstance(record, Rejected):
            yield record
        else:
            where, fields = record
            yield where, {name: _plain(value) for name, value in fields.items()}


def _plain(value: str) -> str:
    inside = value[1:-1].replace('""', "")
    quoted = len(value) > 1 and value[0] == value[-1] == '"' and '"' not in inside
    return value[1:-1].replace('""', '"') if quoted else value


def _files(path: Path) -> list[tuple[Path, str | None]]:
    """The files to read with their split: the one, those of a saved dataset, or the lists in a folder."""
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            if path.suffix.lower() in SPREADSHEETS:
                raise InputError(
                    f"{path} is a spreadsheet; save its sheet as CSV (Save As), and type: equipoise table import csv "
                    f"{path.with_suffix('.csv')} OUT"
                )
            known = ", ".join(SUFFIXES)
            raise InputError(f"{path}: a list of images is a file that ends in one of {known}; this one does not")
        return [(path, None)]
    if (path / "dataset_dict.json").is_file():
        splits = read_json(path / "dataset_dict.json").get("splits", [])
        return [(file, split_named(split)) for split in splits for file in _saved(path / split)]
    if (path / "state.json").is_file():
        return [(file, None) for file in _saved(path)]
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
    if not files:
        pictures = any(p.name.lower().endswith(IMAGE_SUFFIXES) for p in path.rglob("*"))
        hint = "for folders of images use the reader 'imagefolder' or 'classfolder'" if pictures else "give the file"
        raise InputError(f"{path} holds no list of images (a CSV, TSV, JSONL or Parquet file); {hint}")
    return [(file, split_named(file.name)) for file in files]


def _saved(folder: Path) -> list[Path]:
    """The Arrow files of one split that ``datasets`` saved with ``save_to_disk``."""
    state = read_json(existing(folder / "state.json"))
    names = [entry.get("filename", "") for entry in state.get("_data_files", []) if isinstance(entry, dict)]
    files = [folder / Path(name).name for name in names]
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        raise InputError(f"{folder}: the file {missing[0].name if missing else '*.arrow'} is missing; save it again")
    return files


def _arrow_records(file: Path, split: str | None) -> Iterator[OwnRecord | Rejected]:
    try:
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as stream:
            names = class_names(stream.schema)
            number = 0
            for batch in stream:
                for start in range(0, batch.num_rows, 64):
                    for fields in batch.slice(start, 64).to_pylist():
                        yield f"{file.name} row {number}", plain_fields(fields, names), file.parent, split
                        number += 1
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read: {str(error).splitlines()[0]}; save the dataset again") from None


def _parquet_records(file: Path, split: str | None) -> Iterator[OwnRecord | Rejected]:
    schema = schema_of([file])
    names = class_names(schema)
    for record in parquet_records([file], schema.names):
        if isinstance(record, Rejected):
            yield record
        else:
            _, number, fields = record
            yield f"{file.name} row {number}", plain_fields(fields, names), file.parent, split


def _listed_records(file: Path, split: str | None) -> Iterator[OwnRecord | Rejected]:
    listed = read_json(file)
    if not isinstance(listed, list):
        coco = isinstance(listed, dict) and "annotations" in listed
        hint = "; it looks like a COCO file: use the reader 'coco'" if coco else ""
        raise InputError(f"{file} is no JSON list with one object per image{hint}")
    for number, fields in enumerate(listed):
        yield f"{file.name} entry {number}", fields, file.parent, split
