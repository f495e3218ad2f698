"""Captions in files: plain lines, JSONL, CSV and COCO's JSON, read in a stream and written as they were.

The output appears whole or not at all: a broken row, a caption of ten megabytes or a full disk leaves no half file.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol, TextIO

from equipoise.errors import InputError, UnknownNameError, closest
from equipoise.formatting import delimiter_in, for_spreadsheet, from_spreadsheet


@contextmanager
def opened(path: str | Path) -> Iterator[TextIO]:
    """A text file at ``path`` that appears whole when the block ends well, and not at all when it fails."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced by a file.
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


FORMATS = ("lines", "jsonl", "csv", "tsv", "coco")
MAX_LINE = 1_000_000
"""Bytes in one line. A longer one is not a caption but a file of another kind, and could fill the memory."""
_BY_SUFFIX = {".txt": "lines", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".json": "coco"}
_CHUNK = 2048
_EXAMPLES = 5


@dataclass(frozen=True)
class Operation:
    """What is done to captions, which come in records: all texts of a line, a row or an image."""

    work: Callable[[list[list[str]]], list[Any]]
    """Gives a label for each record (a name or ``None``), or its rewritten texts."""
    column: str | None = None
    """The name under which a label is written; ``None`` when the texts themselves are rewritten."""


@dataclass
class Summary:
    """What happened: how many captions, how many of each group, how many changed, with examples."""

    captions: int = 0
    records: int = 0
    unit: str = "captions"
    """What a label was given to: captions, or images with all their captions."""
    groups: Counter[str | None] = field(default_factory=Counter)
    changed: int = 0
    replaced: int = 0
    """Labels that the file had already, and that are others now."""
    examples: list[tuple[str, str]] = field(default_factory=list)

    def count(self, texts: list[str], outcome: Any) -> None:
        """Take one record into account."""
        self.records += 1
        self.captions += len(texts)
        if not isinstance(outcome, list):
            self.groups[outcome] += 1
            return
        for old, new in zip(texts, outcome, strict=True):
            if old != new:
                self.changed += 1
                if len(self.examples) < _EXAMPLES:
                    self.examples.append((old.strip(), new.strip()))


def format_of(path: str, given: str | None) -> str:
    """The format of a file: the one given, or the one its name tells.

    >>> format_of("captions.jsonl", None), format_of("-", None)
    ('jsonl', 'lines')
    """
    if given is not None:
        if given not in FORMATS:
            raise UnknownNameError("format", given, FORMATS)
        return given
    if path == "-":
        return "lines"
    if Path(path).is_dir():
        raise InputError(f"{path}: is a directory; give a file of captions")
    suffix = Path(path).suffix.lower()
    if suffix not in _BY_SUFFIX:
        raise InputError(f"{path}: cannot tell the format from {suffix or 'the name'!r}; give it with --format")
    return _BY_SUFFIX[suffix]


def process(
    source: str,
    target: str,
    operation: Operation,
    *,
    format: str | None = None,
    column: str = "caption",
    on_progress: Callable[[int], None] = lambda n: None,
) -> Summary:
    """Apply ``operation`` to every caption of ``source`` and write ``target`` (``"-"`` is standard input or output).

    ``column`` is the field of a JSON object or the column of a CSV file that holds the caption (or, in JSON, a list
    of captions). ``on_progress`` is called with the number of bytes read since the last call.
    """
    kind = format_of(source, format)
    _check_target(source, target, kind)
    reader = _Lines(source, on_progress)
    with _whole_file(target) as out:
        if kind == "coco":
            summary = _process_coco(reader, out, operation, column)
        else:
            form: _Form = _Plain() if kind == "lines" else _JsonLines(column)
            if kind in ("csv", "tsv"):
                form = _Csv(column, "\t" if kind == "tsv" else ",")
            summary = _process_stream(form, reader, out, operation)
        if summary.captions == 0:
            raise InputError(f"{reader.name}: holds no captions")
    return summary


def _check_target(source: str, target: str, kind: str) -> None:
    """Refuse to write over the input, or one kind of file under the name of another."""
    if "-" in (source, target):
        return
    if Path(target).exists() and Path(source).exists() and Path(target).samefile(source):
        raise InputError(f"{target}: is the input itself; write to another file, so that nothing is lost")
    form = _BY_SUFFIX.get(Path(target).suffix.lower())
    if form is not None and form != kind:
        raise InputError(f"{target}: the output is of the same kind as the input ({kind}), not {form}; name it so")


@dataclass
class _Record:
    where: str
    texts: list[str]
    payload: Any


class _Form(Protocol):
    def records(self, reader: _Lines, out: IO[str], label: str | None) -> Iterator[_Record]: ...

    def emit(self, record: _Record, outcome: Any, out: IO[str], label: str | None) -> Any:
        """Write one record; the label that it had before, if any."""


def _process_stream(form: _Form, reader: _Lines, out: IO[str], operation: Operation) -> Summary:
    summary = Summary()
    records = form.records(reader, out, operation.column)
    while chunk := list(islice(records, _CHUNK)):
        for record in chunk:
            _refuse_empty(record.texts, record.where)
        for record, outcome in zip(chunk, operation.work([r.texts for r in chunk]), strict=True):
            summary.count(record.texts, outcome)
            summary.replaced += _is_another(form.emit(record, outcome, out, operation.column), outcome)
    return summary


def _is_another(before: Any, now: Any) -> bool:
    return before not in (None, "") and before != now


class _Plain:
    """One caption per line; a label goes before it, with a tab. Empty lines at the end are no captions."""

    def records(self, reader: _Lines, out: IO[str], label: str | None) -> Iterator[_Record]:
        first_empty = None
        for number, line in reader.numbered():
            text = line.rstrip("\r\n")
            if not text.strip():
                first_empty = first_empty or number
                continue
            if first_empty is not None:
                _refuse_empty([""], f"{reader.name}:{first_empty}")
            yield _Record(f"{reader.name}:{number}", [text], line[len(text) :])

    def emit(self, record: _Record, outcome: Any, out: IO[str], label: str | None) -> None:
        text = outcome[0] if label is None else f"{outcome or ''}\t{record.texts[0]}"
        out.write(text + record.payload)


class _JsonLines:
    """One JSON object per line; ``column`` holds a caption or a list of captions."""

    def __init__(self, column: str) -> None:
        self.column = column

    def records(self, reader: _Lines, out: IO[str], label: str | None) -> Iterator[_Record]:
        for number, line in reader.numbered():
            where = f"{reader.name}:{number}"
            if not line.strip():
                continue
            data = _json(line, where)
            if not isinstance(data, dict):
                raise InputError(f"{where}: expected a JSON object with {self.column!r}, found {type(data).__name__}")
            yield _Record(where, _texts(data, self.column, where), data)

    def emit(self, record: _Record, outcome: Any, out: IO[str], label: str | None) -> Any:
        data = record.payload
        before = None if label is None else data.get(label)
        if label is not None:
            data[label] = outcome
        else:
            data[self.column] = outcome if isinstance(data[self.column], list) else outcome[0]
        out.write(_dumped(data) + "\n")
        return before


_WHICH = "--caption-column says which holds the captions"


class _Csv:
    """A table with a header; a label becomes a new last column.

    A cell that a spreadsheet would run is written with an apostrophe before it, which is taken off again when read.
    """

    def __init__(self, column: str, delimiter: str) -> None:
        self.column = column
        self.delimiter = delimiter

    def records(self, reader: _Lines, out: IO[str], label: str | None) -> Iterator[_Record]:
        csv.field_size_limit(MAX_LINE)
        lines = iter(reader)
        first = list(islice(lines, 1))
        if self.delimiter == ",":
            self.delimiter = delimiter_in("".join(first))
        rows = csv.reader(chain(first, lines), delimiter=self.delimiter, strict=True)
        try:
            header = [from_spreadsheet(cell) for cell in next(rows, ())]
            if not header:
                raise InputError(f"{reader.name}: empty file; expected a header with the column {self.column!r}")
            names = [name.strip() for name in header]  # a space behind a name is nobody's intention
            if self.column not in names:
                near = closest(self.column, header, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has: {', '.join(header[:20])}"
                raise InputError(f"{reader.name}: no column {self.column!r}{hint} ({_WHICH})")
            self.at = names.index(self.column)
            # A column of that name from an earlier labelling is replaced, not doubled.
            self.label_at = names.index(label) if label in names else None
            self.writer = csv.writer(out, delimiter=self.delimiter, lineterminator="\n")
            self._write(header if label is None or self.label_at is not None else [*header, label])
            for row in rows:
                where = f"{reader.name}:{reader.number}"
                if not row:
                    continue
                if len(row) != len(header):
                    raise InputError(f"{where}: {len(row)} fields in the row, {len(header)} in the header")
                row = [from_spreadsheet(cell) for cell in row]
                yield _Record(where, [row[self.at]], row)
        except csv.Error as error:
            raise InputError(f"{reader.name}:{reader.number}: not valid CSV: {error}") from None

    def emit(self, record: _Record, outcome: Any, out: IO[str], label: str | None) -> Any:
        row = list(record.payload)
        before = None if label is None or self.label_at is None else row[self.label_at]
        if label is None:
            row[self.at] = outcome[0]
        elif self.label_at is not None:
            row[self.label_at] = outcome or ""
        else:
            row.append(outcome or "")
        self._write(row)
        return before

    def _write(self, row: Iterable[str]) -> None:
        self.writer.writerow([for_spreadsheet(cell) for cell in row])


def _process_coco(reader: _Lines, out: IO[str], operation: Operation, column: str) -> Summary:
    """COCO captions: texts are rewritten in place; a label is given to each annotation and to each image."""
    data = _json(reader.whole(), reader.name)
    annotations = data.get("annotations") if isinstance(data, dict) else None
    if not isinstance(annotations, list) or not all(isinstance(a, dict) for a in annotations):
        raise InputError(f"{reader.name}: not a COCO captions file: it has no list of 'annotations'")
    summary = Summary()
    texts = []
    for number, annotation in enumerate(annotations):
        where = f"{reader.name}: annotation {number}"
        texts.append(_texts(annotation, column, where))
        _refuse_empty(texts[-1], where)
    label = operation.column
    outcomes = operation.work(texts)
    if label is None:
        for annotation, old, new in zip(annotations, texts, outcomes, strict=True):
            summary.count(old, new)
            annotation[column] = new if isinstance(annotation[column], list) else new[0]
    else:
        by_image: dict[str, list[str]] = {}
        ids: dict[str, Any] = {}
        for number, (annotation, captions, outcome) in enumerate(zip(annotations, texts, outcomes, strict=True)):
            summary.replaced += _is_another(annotation.get(label), outcome)
            annotation[label] = outcome
            key = _image_key(annotation.get("image_id"), f"{reader.name}: annotation {number}: 'image_id'")
            ids.setdefault(key, annotation["image_id"])
            by_image.setdefault(key, []).extend(captions)
        summary.unit = "images"
        images = _images(data.get("images"), reader.name)
        listed = [_image_key(image.get("id"), f"{reader.name}: image {n}: 'id'") for n, image in enumerate(images)]
        known = set(listed)
        further = [key for key in by_image if key not in known]
        images += [{"id": ids[key]} for key in further]
        in_images = [by_image.get(key, []) for key in (*listed, *further)]
        for image, captions, outcome in zip(images, in_images, operation.work(in_images), strict=True):
            summary.count(captions, outcome)
            summary.replaced += _is_another(image.get(label), outcome)
            image[label] = outcome
        data["images"] = images
    out.write(_dumped(data))
    return summary


def _images(given: Any, where: str) -> list[dict[str, Any]]:
    if given is not None and (not isinstance(given, list) or not all(isinstance(i, dict) for i in given)):
        raise InputError(f"{where}: not a COCO captions file: 'images' must be a list of objects")
    return list(given or [])


def _image_key(value: Any, what: str) -> str:
    """The id of an image as text: 42, 42.0 and "42" are one image."""
    if value is None or isinstance(value, (list, dict)):
        raise InputError(f"{what} must be a number or text, not {'null' if value is None else type(value).__name__}")
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def _texts(data: dict[str, Any], column: str, where: str) -> list[str]:
    if column not in data:
        near = closest(column, data, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; it has: {', '.join(map(str, list(data)[:20]))}"
        raise InputError(f"{where}: no field {column!r}{hint} ({_WHICH})")
    value = data[column]
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(t, str) for t in texts):
        raise InputError(f"{where}: {column!r} must be a text or a list of texts")
    return texts


def _refuse_empty(texts: Iterable[str], where: str) -> None:
    if not all(text.strip() for text in texts):
        raise InputError(f"{where}: empty caption; take the row out or fill it")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:  # also a number of more digits than Python reads
        raise InputError(f"{where}: not valid JSON: {error}") from None
    except RecursionError:
        raise InputError(f"{where}: not a caption file: JSON nested too deeply") from None


def _dumped(data: Any) -> str:
    """``data`` as JSON: as it reads, or escaped where half an emoji cannot be written as UTF-8."""
    text = json.dumps(data, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(data)
    return text


class _Lines:
    """Lines of a UTF-8 file or of standard input, each no longer than ``MAX_LINE`` bytes, counted."""

    def __init__(self, source: str, on_progress: Callable[[int], None]) -> None:
        self.name = "standard input" if source == "-" else source
        self.number = 0
        self._source = source
        self._on_progress = on_progress

    def __iter__(self) -> Iterator[str]:
        for _, line in self.numbered():
            yield line

    def numbered(self) -> Iterator[tuple[int, str]]:
        with self._stream() as stream:
            while line := stream.readline(MAX_LINE + 1):
                self.number += 1
                if len(line) > MAX_LINE:
                    raise InputError(
                        f"{self.name}:{self.number}: a line of more than {MAX_LINE:,} bytes is not a caption"
                    )
                self._on_progress(len(line))
                yield self.number, self._decoded(line, f"{self.name}:{self.number}")

    def whole(self) -> str:
        with self._stream() as stream:
            content = stream.read()
        self._on_progress(len(content))
        return self._decoded(content, self.name)

    def _stream(self) -> IO[bytes]:
        if self._source == "-":
            return sys.stdin.buffer
        try:
            return Path(self._source).open("rb")
        except OSError as error:
            raise InputError(f"{self.name}: {(error.strerror or 'cannot be read').lower()}") from None

    def _decoded(self, content: bytes, where: str) -> str:
        try:
            return content.decode("utf-8-sig" if self.number <= 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{where}: not UTF-8 text (byte 0x{content[error.start]:02x} at position {error.start}); "
                "convert it, for example with iconv"
            ) from None


@contextmanager
def _whole_file(target: str) -> Iterator[IO[str]]:
    """A place to write that becomes ``target`` only when everything went well."""
    if target == "-":
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as held:
            yield held
            held.seek(0)
            shutil.copyfileobj(held, sys.stdout)
            sys.stdout.flush()
        return
    with opened(target) as out:
        yield out
