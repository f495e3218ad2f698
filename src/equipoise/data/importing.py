"""From a dataset to a table: drive a reader, keep what is usable, and say what was not and why.

The dataset is a file or folder that a reader knows, or what is in memory: a pandas frame, a Hugging Face dataset.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any

from equipoise.data.arrays import checked_row
from equipoise.data.atomic import locked
from equipoise.data.images import check, image_bytes
from equipoise.data.manifest import MANIFEST, UNFINISHED
from equipoise.data.readers import READERS, ReaderShape, read, shape_of
from equipoise.data.readers.files.memory import RecordsDigest, records_of
from equipoise.data.readers.files.values import IMAGE_SUFFIXES, OwnPictures, attempt
from equipoise.data.readers.own import plan_for, record_row
from equipoise.data.schema import Rejected, Row, TableSchema, schema_for
from equipoise.data.shards import ERRORS_FOLDER, open_parquet, read_columns, shard_name
from equipoise.data.table import Table
from equipoise.data.writer import TableWriter
from equipoise.errors import InputError, OtherSettingsError
from equipoise.formatting import plural, shown

_REASONS = 5
GIVEN_BEFORE = "was given before"
STORES = ("bytes", "paths")
_LISTS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".token", ".lst", ".txt", ".tar", ".bin")
"""How files end that readers take rows and labels from."""

RowReader = Callable[..., Iterator[Row | Rejected]]


@dataclass(frozen=True)
class ImportSummary:
    """What an import gave: the table, and the rejected rows counted by kind of reason, most first."""

    table: Table
    n_rows: int
    n_rejected: int
    reasons: Mapping[str, int]
    was_there: bool = False
    """The table was finished by an earlier import with the same arguments; the dataset was not read again."""
    notes: tuple[str, ...] = ()
    """What was joined or taken for unknown among the labels, and image files that the dataset does not name."""
    examples: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By kind of reason, the reason of the first such row, with its names and numbers."""

    def __str__(self) -> str:
        lines = [f"{self.table.path}: rows {self.n_rows}, rejected {self.n_rejected}"]
        if self.was_there:
            lines.append("  it was there already and nothing was read again; delete it if the dataset has changed")
        lines += [f"  {shown(self._told(reason, count))}" for reason, count in islice(self.reasons.items(), _REASONS)]
        if len(self.reasons) > _REASONS:
            lines.append(f"  and {len(self.reasons) - _REASONS:,} other reasons")
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    def _told(self, reason: str, count: int) -> str:
        """How often a kind of reason occurred, with the first row's own."""
        first = self.examples.get(reason, reason)
        return f"{count} x {first}" if count == 1 or first == reason else f"{count} x {reason}, the first: {first}"

    @property
    def warning(self) -> str:
        """One sentence where more rows were rejected than taken; empty where most are in the table."""
        if self.n_rejected <= self.n_rows:
            return ""
        usual = next(iter(self.reasons), "")
        why = f"most often because {self.examples.get(usual, usual)}"
        how = "mend the list or the options, and import again with --overwrite"
        if GIVEN_BEFORE in usual:
            how = f"give the column that names each image with --id-column COLUMN, and {how.partition(', and ')[2]}"
        return f"{self.n_rejected:,} of {self.n_rejected + self.n_rows:,} rows were rejected, {why}; {how}"


def import_table(
    reader: str | RowReader,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    shape: ReaderShape | None = None,
    store: str = "bytes",
    rows_per_shard: int = 1000,
    wait: float = 0.0,
    overwrite: bool = False,
    limit: int = 0,
    **options: Any,
) -> ImportSummary:
    """Read a dataset and write it as a table.

    Rows whose image is missing or no image, whose id was given before, or whose values do not fit, are kept in
    ``_errors`` with the reason. Where no row at all can be used, that is an InputError with the reasons, and nothing is
    left behind. An import that was interrupted goes on where it stopped when it is called again with the same
    arguments, and ends with the same files. A table that is finished is not made again, whether or not the dataset has
    changed since.

    Args:
        reader: the name of one (``equipoise.data.readers.READERS``), or a function of your own, called as
            ``reader(path, **options)``.
        path: the file or folder of the dataset.
        out: the folder of the table.
        shape: the axes and columns of the rows; a function of your own needs it.
        store: ``"bytes"`` copies the images into the table; ``"paths"`` stores where they are.
        rows_per_shard: how many rows a shard is made from, counted as the reader gives them, rejected or not.
        wait: seconds to wait for another process that is writing this table.
        overwrite: replace a table that is there, finished or not, however it was made.
        limit: only so many rows of the dataset, to try things out; 0 is all.
        **options: the reader's own.

    Returns:
        The table, with the rejected rows by reason, and whether it was there already (``was_there``).

    >>> import tempfile
    >>> def two(path):
    ...     yield {"image_id": "a", "caption": "a dog"}
    ...     yield {"image_id": "a", "caption": "the dog again"}
    >>> summary = import_table(two, ".", tempfile.mkdtemp() + "/dogs", shape=ReaderShape())
    >>> summary.n_rows, dict(summary.reasons)
    (1, {"image_id '…' was given before; the first row stays": 1})
    """
    if store not in STORES:
        raise InputError(f"store={store!r} is not known; use 'bytes' or 'paths'")
    if rows_per_shard < 1:
        raise InputError(f"rows_per_shard must be at least 1, not {rows_per_shard}")
    name, items, shape = _items(reader, path, shape, options)
    schema = schema_for(shape.kind, axes=shape.axes, columns=shape.columns, dim=shape.dim)
    named = _NamedFiles()
    if name in READERS and READERS.get(name).info.get("names_every_image") and not limit:
        items = named.noted(items)
    items = islice(items, limit) if limit else items
    first = list(islice(items, 1))  # a dataset that cannot be read at all must not leave a folder behind
    config = _config(name, path, options, store, rows_per_shard) | ({"limit": limit} if limit else {})
    plan = _source_state(name, path, out, options)
    if overwrite:
        _remove_table(Path(out))
    try:
        with TableWriter(Path(out), schema, config=config, plan=plan, wait=wait) as writer:
            was_there = writer.finished
            if not was_there:
                n_shards = _write(writer, chain(first, items), _Intake(schema, name, store), rows_per_shard)
                _refuse_empty(writer, path)
                writer.finish(n_shards)
            table = writer.finish()
    except OtherSettingsError:
        raise InputError(
            f"{out} holds a table, finished or not, that was made with other settings or from other data; choose "
            "another folder, or replace it with --overwrite (in Python overwrite=True)"
        ) from None
    return _summary(table, was_there, (*shape.notes, *(() if was_there else named.notes())))


def _remove_table(path: Path) -> None:
    """Take away a table, finished or not; a folder that holds anything else is left to the writer to refuse."""
    if (path / MANIFEST).is_file() or (path / UNFINISHED).is_file():
        with locked(path / ".lock", what=f"the table at {path}"):
            for entry in path.iterdir():
                if entry.name != ".lock":
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _refuse_empty(writer: TableWriter, path: str | os.PathLike[str]) -> None:
    """End an import of which no row can be used, with the most usual reasons; the folder is as it was before."""
    given: list[str] = []
    for index in writer.completed_shards():
        if open_parquet(writer.path / shard_name(index)).metadata.num_rows:
            return
        errors = writer.path / ERRORS_FOLDER / shard_name(index)
        given += read_columns(errors, ["reason"])["reason"].to_pylist() if errors.is_file() else ()
    if not given:
        return
    reasons, examples = _counted_reasons(given)
    usual = "; ".join(f"{count:,} x {examples[kind]}" for kind, count in reasons.most_common(2))
    writer.abandon()
    raise InputError(f"no row of {path} can be used, so no table was made: {usual}")


def import_rows(
    data: Any,
    out: str | os.PathLike[str],
    *,
    columns: str | Mapping[str, str] | None = None,
    axes: str | Iterable[str] | None = None,
    images: str | os.PathLike[str] = ".",
    bands: Mapping[str, Any] | None = None,
    store: str = "bytes",
    overwrite: bool = False,
) -> ImportSummary:
    """A table of images from what is in memory.

    A table of the same rows and arguments goes on or is accepted as with :func:`import_table`; of other rows or
    arguments it is refused.

    Args:
        data: a pandas frame, a Hugging Face ``Dataset``, or a list of mappings; an image may be a path, encoded bytes,
            or a picture of Pillow's.
        out: the folder of the table.
        columns: our names to those of the data, as for the reader ``csv``; usual names need not be said.
        axes: which columns hold groups, as for ``csv``; by default those called gender, race, age, ...
        images: the folder that paths start from; the current one unless given.
        bands: the numbers at which a column is cut into groups, as for ``csv``.
        store: ``"bytes"`` copies the images into the table; ``"paths"`` keeps the paths of those that were given so.
        overwrite: replace a table that is there, finished or not.

    Returns:
        The table, with the rejected rows by reason.

    >>> import pandas as pd, tempfile
    >>> from PIL import Image
    >>> frame = pd.DataFrame({"photo": [Image.new("RGB", (8, 8))], "sex": ["female"], "job": ["cook"]})
    >>> named = {"image": "photo", "subject": "job"}
    >>> found = import_rows(frame, tempfile.mkdtemp() + "/t", columns=named, axes=["gender=sex"])
    >>> found.n_rows, found.table.axes
    (1, ('gender',))
    """
    records = records_of(data)
    axes = axes if axes is None or isinstance(axes, str) else list(axes)
    digest = RecordsDigest()
    plan = plan_for(digest.noted(records()), "the data", columns, axes, bands)
    pictures = OwnPictures(Path(images))

    def rows(path: str, **recorded: Any) -> Iterator[Row | Rejected]:
        for number, fields in enumerate(records()):
            yield attempt(f"row {number}", record_row, fields, plan, pictures, f"row {number}", shown=fields)

    # no file says what the rows were, so the table's config does
    options: dict[str, Any] = {"columns": columns, "axes": axes, "bands": bands, "rows": digest.text}
    return import_table(rows, images, out, shape=plan.shape, store=store, overwrite=overwrite, **options)


def _items(
    reader: str | RowReader, path: str | os.PathLike[str], shape: ReaderShape | None, options: Mapping[str, Any]
) -> tuple[str, Iterator[Row | Rejected], ReaderShape]:
    if isinstance(reader, str):
        return reader, iter(read(reader, path, **options)), shape or shape_of(reader, path, **options)
    if shape is None:
        raise InputError(
            "a reader of your own needs shape=ReaderShape(axes=..., columns=...), so that its columns are known"
        )
    name = f"{getattr(reader, '__module__', '')}:{getattr(reader, '__qualname__', type(reader).__name__)}"
    return name, iter(reader(os.fspath(path), **options)), shape


def _write(writer: TableWriter, items: Iterator[Row | Rejected], intake: _Intake, rows_per_shard: int) -> int:
    """Write shard after shard; how many there are."""
    done = set(writer.completed_shards())
    index = 0
    with _progress(intake.name) as bar:
        for first in items:
            part = chain([first], islice(items, rows_per_shard - 1))
            if index in done:
                for _ in part:
                    bar.update()
                intake.remember(writer.path / shard_name(index))
            else:
                errors: list[Rejected] = []
                writer.write_shard(index, intake.accepted(_counted(part, bar), errors), errors)
            index += 1
    return index


class _NamedFiles:
    """The image files that rows name, so that others in the same folders can be told of."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def noted(self, items: Iterator[Row | Rejected]) -> Iterator[Row | Rejected]:
        """The items as they are."""
        for item in items:
            image = item.get("image") if isinstance(item, Mapping) else None
            if isinstance(image, Mapping) and image["path"]:
                folder, file = os.path.split(image["path"])
                self._names.setdefault(folder, set()).add(file)
            yield item

    def notes(self) -> list[str]:
        """How many image files of each folder no row names."""
        notes = []
        for folder, names in self._names.items():
            others = sum(f not in names and f.lower().endswith(IMAGE_SUFFIXES) for f in os.listdir(folder))
            if others:
                files = plural(others, "image file")
                ending = "has no annotation and was left out" if others == 1 else "have no annotation and were left out"
                notes.append(f"{files} of {PurePath(folder).name} {ending}")
        return notes


class _Intake:
    """Decides which rows enter the table, and keeps the ids it has seen."""

    def __init__(self, schema: TableSchema, name: str, store: str) -> None:
        self.name = name
        self._schema = schema
        self._store = store
        self._seen: set[tuple[str, ...]] = set()

    def remember(self, path: Path) -> None:
        """Take the ids of a shard that an earlier run wrote."""
        if self._schema.key:
            columns = read_columns(path, self._schema.key).columns
            self._seen.update(zip(*(column.to_pylist() for column in columns), strict=True))

    def accepted(self, items: Iterator[Row | Rejected], errors: list[Rejected]) -> Iterator[Row]:
        """The rows that can be used; the others are appended to ``errors``."""
        for item in items:
            if isinstance(item, Rejected):
                errors.append(item)
                continue
            try:
                row = checked_row(item, self._schema)
                key = tuple(str(row[name]) for name in self._schema.key)
                if key and key in self._seen:
                    named = ", ".join(f"{n} {v!r}" for n, v in zip(self._schema.key, key, strict=True))
                    raise InputError(f"{named} {GIVEN_BEFORE}; the first row stays")
                if row.get("image") is not None:
                    row["image"] = self._stored_image(row["image"])
            except InputError as error:
                errors.append(_rejected(self.name, item, str(error)))
                continue
            if key:
                self._seen.add(key)
            yield row

    def _stored_image(self, image: Mapping[str, Any]) -> dict[str, Any]:
        path = image["path"]
        if image["bytes"] is None and path and "://" not in path and ".." in PurePath(path).parts:
            # the dataset was given as ../photos; that no name of its files leads out of it is seen to by the reader
            path = os.path.abspath(path)
            image = {"bytes": None, "path": path}
        if image["bytes"] is None and self._store == "paths":
            check(image)
            return {"bytes": None, "path": os.path.abspath(path)}
        data = image_bytes(image)
        check({"bytes": data, "path": path})
        return {"bytes": data, "path": None if path is None else PurePath(path).name}


def _rejected(reader: str, item: Any, reason: str) -> Rejected:
    if not isinstance(item, Mapping):
        return Rejected(reader, reason, {"value": repr(item)})
    name = item.get("image_id") or item.get("id")
    return Rejected(f"{reader}: {name}" if name else reader, reason, {str(key): cell for key, cell in item.items()})


def _counted(items: Iterator[Row | Rejected], bar: Any) -> Iterator[Row | Rejected]:
    for item in items:
        bar.update()
        yield item


def _progress(name: str) -> Any:
    from tqdm import tqdm

    # in a log a line now and then; of work that is done in a moment nothing
    seen = sys.stderr.isatty()
    return tqdm(desc=name, unit=" rows", leave=False, delay=0 if seen else 5, mininterval=0.1 if seen else 5)


def _config(
    name: str, path: str | os.PathLike[str], options: Mapping[str, Any], store: str, rows_per_shard: int
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "reader": name,
        "source": os.fspath(path),
        "options": {key: _plain(value) for key, value in options.items()},
        "store": store,
        "rows_per_shard": rows_per_shard,
    }
    if name in READERS:
        entry = READERS.get(name)
        config |= {"licence": entry.licence, "citation": entry.citation}
        config |= {key: entry.info[key] for key in ("revision", "harms") if key in entry.info}
    return config


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple | set | frozenset):
        items = [_plain(item) for item in value]
        return items if isinstance(value, list | tuple) else sorted(items)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _source_state(
    name: str, path: str | os.PathLike[str], out: str | os.PathLike[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """What tells that lists and labels are still those an interrupted import began with; images are not looked at."""
    source = Path(path)
    files = [(key, Path(value)) for key, value in options.items() if isinstance(value, str | os.PathLike)]
    named = {key: _file_state(file) for key, file in files if file.is_file()}
    if source.is_file():
        size, modified = _file_state(source)
        return {"source_bytes": size, "source_modified": modified} | ({"files": named} if named else {})
    if name in READERS:
        named |= {str(file.relative_to(source)): _file_state(file) for file in _lists_in(source, Path(out))}
    return {"files": named} if named else {}


def _file_state(file: Path) -> list[int]:
    state = file.stat()
    return [state.st_size, state.st_mtime_ns]


def _lists_in(folder: Path, out: Path) -> Iterator[Path]:
    """The files of a dataset that are no images, in its folder and one below; tables beside them are not part of it."""
    for place in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())):
        if place.resolve() == out.resolve() or (place / MANIFEST).is_file() or (place / UNFINISHED).is_file():
            continue
        yield from sorted(p for p in place.iterdir() if p.suffix.lower() in _LISTS and p.is_file())


def _summary(table: Table, was_there: bool, notes: tuple[str, ...]) -> ImportSummary:
    reasons, examples = _counted_reasons(table.errors()["reason"])
    return ImportSummary(table, len(table), table.n_errors, dict(reasons.most_common()), was_there, notes, examples)


def _counted_reasons(given: Iterable[str]) -> tuple[Counter[str], dict[str, str]]:
    """How often each kind of reason was given, and the first reason of each kind."""
    reasons: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for reason in given:
        kind = _kind_of_reason(reason)
        reasons[kind] += 1
        examples.setdefault(kind, reason)
    return reasons, examples


def _kind_of_reason(reason: str) -> str:
    """The reason without the names and numbers of the one row, so that like reasons are counted together.

    >>> _kind_of_reason("the image '/a/b.jpg' of 12 bytes is missing")
    "the image '…' of … bytes is missing"
    """
    return re.sub(r"'[^']*'|\"[^\"]*\"|(?<!\w)/\S+|\b\d[\d.]*\b", lambda m: "'…'" if m[0][0] in "'\"" else "…", reason)
