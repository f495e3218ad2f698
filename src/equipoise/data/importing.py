"""From a public dataset to a table: drive a reader, keep what is usable, and say what was not and why.

Options as the command line gives them (``key=value``), turned into what a function's signature wants.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any

from equipoise.data.arrays import checked_row
from equipoise.data.images import check, image_bytes
from equipoise.data.readers import READERS, ReaderShape, read, shape_of
from equipoise.data.schema import Rejected, Row, TableSchema, schema_for
from equipoise.data.shards import read_columns, shard_name
from equipoise.data.table import Table
from equipoise.data.writer import TableWriter
from equipoise.errors import InputError, closest
from equipoise.formatting import shown

__all__ = ["ImportSummary", "import_table", "numbers_from_text", "options_from_text"]


_LISTS = ("Sequence[str]", "Iterable[str]", "Collection[str]", "list[str]", "tuple[str")


def options_from_text(function: Callable[..., Any], texts: Iterable[str]) -> dict[str, Any]:
    """The keyword arguments of ``function`` from ``key=value`` texts.

    Where the annotation is a list of text the value is split at commas; where it allows text, the value is taken
    as it is; otherwise it is read as JSON (numbers, ``true``, ``null``). A function with ``**options`` gets what its
    signature does not name as text.

    >>> def read(path, *, split: str | None = None, parts: Sequence[str] = (), limit: int = 0): ...
    >>> options_from_text(read, ["split=2017", "parts=captions,instances", "limit=5"])
    {'split': '2017', 'parts': ['captions', 'instances'], 'limit': 5}
    >>> options_from_text(read, ["splits=2017"])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: there is no option 'splits'; did you mean 'split'?
    """
    parameters = inspect.signature(function).parameters.values()
    wanted = {p.name: str(p.annotation) for p in parameters if p.kind is p.KEYWORD_ONLY}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise InputError(f"the option {text!r} is not of the form key=value")
        if key not in wanted and not takes_any:
            near = closest(key, wanted, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(wanted) or 'none'}"
            raise InputError(f"there is no option {key!r}; {hint}")
        options[key] = _value(key, value, wanted.get(key, "str"))
    return options


def numbers_from_text(text: str, option: str) -> dict[str, float]:
    """Numbers by name from ``name=number`` with commas between.

    >>> numbers_from_text("train=0.8, test=0.2", "--fractions")
    {'train': 0.8, 'test': 0.2}
    """
    numbers: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            numbers[name.strip()] = float(number)
        except ValueError:
            raise InputError(f"{option} {text!r}: {part.strip()!r} is not of the form name=number") from None
    return numbers


def _value(key: str, text: str, annotation: str) -> Any:
    if annotation.startswith(_LISTS):
        return [part.strip() for part in text.split(",") if part.strip()]
    if "str" in annotation:
        return text
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        raise InputError(f"the option {key}={text} is not what is expected: {annotation}") from None


_REASONS = 5
STORES = ("bytes", "paths")

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
    """What was joined or taken for unknown among the labels."""

    def __str__(self) -> str:
        lines = [f"{self.table.path}: rows {self.n_rows}, rejected {self.n_rejected}"]
        if self.was_there:
            lines.append("  it was there already and nothing was read again; delete it if the dataset has changed")
        lines += [f"  {count} x {shown(reason)}" for reason, count in islice(self.reasons.items(), _REASONS)]
        if len(self.reasons) > _REASONS:
            lines.append(f"  and {len(self.reasons) - _REASONS:,} other reasons")
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


def import_table(
    reader: str | RowReader,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    shape: ReaderShape | None = None,
    store: str = "bytes",
    rows_per_shard: int = 1000,
    wait: float = 0.0,
    **options: Any,
) -> ImportSummary:
    """Read the dataset at ``path`` with ``reader`` and write it as a table to ``out``.

    ``reader``: the name of one (``equipoise.data.readers.READERS``), or a function of your own with the ``shape``
    (axes and columns) of its rows. ``options`` are the reader's own. ``store``: ``"bytes"`` copies the images into
    the table; ``"paths"`` stores where they are. Rows whose image is missing or no image, whose id was given before, or
    whose values do not fit, are kept in ``_errors`` with the reason.

    ``rows_per_shard`` counts what the reader gives, rejected or not. An import that was interrupted goes on where it
    stopped when it is called again with the same arguments, and ends with the same files. A table that is finished is
    not made again: the summary says so (``was_there``), whether or not the dataset has changed since.

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
    first = list(islice(items, 1))  # a dataset that cannot be read at all must not leave a folder behind
    config = _config(name, path, options, store, rows_per_shard)
    with TableWriter(Path(out), schema, config=config, plan=_source_state(path), wait=wait) as writer:
        was_there = writer.finished
        if not was_there:
            _write(writer, chain(first, items), _Intake(schema, name, store), rows_per_shard)
        table = writer.finish()
    return _summary(table, was_there, shape.notes)


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


def _write(writer: TableWriter, items: Iterator[Row | Rejected], intake: _Intake, rows_per_shard: int) -> None:
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
    writer.finish(index)


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
                    raise InputError(f"{named} was given before; the first row stays")
                if row.get("image") is not None:
                    row["image"] = self._stored_image(row["image"])
            except InputError as error:
                errors.append(Rejected(_place(self.name, item), str(error), _without_bytes(item)))
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


def _place(reader: str, item: Any) -> str:
    name = item.get("image_id") or item.get("id") if isinstance(item, Mapping) else None
    return f"{reader}: {name}" if name else reader


def _without_bytes(item: Any) -> dict[str, Any]:
    return {str(key): value for key, value in item.items()} if isinstance(item, Mapping) else {"value": repr(item)}


def _counted(items: Iterator[Row | Rejected], bar: Any) -> Iterator[Row | Rejected]:
    for item in items:
        bar.update()
        yield item


def _progress(name: str) -> Any:
    from tqdm import tqdm

    return tqdm(desc=name, unit=" rows", disable=None, leave=False)  # None: only where there is a terminal


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


def _source_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What tells that a file is still the one an interrupted import began with."""
    source = Path(path)
    if not source.is_file():
        return {}
    state = source.stat()
    return {"source_bytes": state.st_size, "source_modified": state.st_mtime_ns}


def _summary(table: Table, was_there: bool, notes: tuple[str, ...]) -> ImportSummary:
    reasons = Counter(_kind_of_reason(reason) for reason in table.errors()["reason"])
    return ImportSummary(table, len(table), table.n_errors, dict(reasons.most_common()), was_there, notes)


def _kind_of_reason(reason: str) -> str:
    """The reason without the names and numbers of the one row, so that like reasons are counted together.

    >>> _kind_of_reason("the image '/a/b.jpg' of 12 bytes is missing")
    "the image '…' of … bytes is missing"
    """
    return re.sub(r"'[^']*'|\"[^\"]*\"|(?<!\w)/\S+|\b\d[\d.]*\b", lambda m: "'…'" if m[0][0] in "'\"" else "…", reason)
