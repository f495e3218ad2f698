"""Opening the files of public datasets: JSON, JSON lines and CSV as they are, not as they should be.

A byte-order mark, CRLF, a line that is not UTF-8, a stray quote, a field of a hundred megabytes or JSON nested ten
thousand deep cost their own row, or end in one sentence; never a traceback and never a shifted row. Text files are
read line by line.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from equipoise.data.schema import Rejected
from equipoise.errors import InputError, like_it

__all__ = [
    "MAX_LINE",
    "Record",
    "csv_records",
    "existing",
    "files_of",
    "json_lines",
    "plain_lines",
    "read_json",
    "text_lines",
]

MAX_LINE = 16 * 2**20
"""Bytes; a longer line is rejected, not read into memory."""

MAX_FIELD = 2**20
"""Characters; a longer field of a CSV file is rejected."""

Record = tuple[str, dict[str, str]]
"""Where a record stands ("labels.csv line 7") and its fields by column name."""


def existing(path: str | os.PathLike[str]) -> Path:
    """``path`` as a Path, if there is something there.

    >>> existing("/no/such/folder")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: there is nothing at '/no/such/folder'; give the folder or file of the dataset
    """
    place = Path(path)
    try:
        there = place.exists()
    except (OSError, ValueError):
        there = False
    if not there:
        near = like_it(path) or "; give the folder or file of the dataset"
        raise InputError(f"there is nothing at {str(path)!r}{near}")
    return place


def files_of(path: str | os.PathLike[str], *patterns: str) -> list[Path]:
    """The files of a dataset that is one file, or a folder of files.

    Args:
        path: the file or folder.
        *patterns: which files of a folder are meant, as in ``"*.csv"``; each that fits one of them is.

    Returns:
        The file itself, or the files of the folder, sorted; a folder without any is an InputError.
    """
    start = existing(path)
    if start.is_file():
        return [start]
    files = sorted({p for pattern in patterns for p in start.glob(pattern) if p.is_file()})
    if not files:
        raise InputError(f"{start} has no file {' or '.join(patterns)}; give the folder of the dataset or one file")
    return files


def read_json(path: Path) -> Any:
    """The whole JSON document at ``path``, in any Unicode encoding, with or without a byte-order mark."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    return _parsed(data, str(path))


def json_lines(path: Path) -> Iterator[tuple[str, Any] | Rejected]:
    """Each line of a JSON-lines file with where it stands; a line that is not JSON is rejected."""
    for number, line in text_lines(path):
        where = f"{path.name} line {number}"
        if isinstance(line, Rejected):
            yield line
        elif line.strip():
            try:
                yield where, _parsed(line.encode("utf-8", "surrogateescape"), where)
            except InputError as error:
                yield Rejected(where, str(error).removeprefix(f"{where} "), {"line": line[:200]})


def text_lines(path: Path) -> Iterator[tuple[int, str | Rejected]]:
    """The lines of a text file, numbered from 1, without line ends and byte-order mark.

    Bytes that are not UTF-8 come as lone surrogates, so that the fields around them are still found; whoever takes
    a field checks it.
    """
    with _opened(path) as file:
        start = file.read(4)
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(f"{path} is UTF-16 text; save it as UTF-8")
        file.seek(3 if start.startswith(b"\xef\xbb\xbf") else 0)
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                _skip_line(file)
                yield number, Rejected(f"{path.name} line {number}", f"the line is longer than {MAX_LINE} bytes")
            else:
                yield number, line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def plain_lines(path: Path) -> Iterator[tuple[int, str | Rejected]]:
    """The lines of a file in which a line is a record: not the blank ones, and none with a carriage return inside."""
    for number, line in text_lines(path):
        if isinstance(line, str) and "\r" in line:
            reason = "there is a carriage return inside the line; save the file with usual line ends"
            yield number, Rejected(f"{path.name} line {number}", reason)
        elif isinstance(line, Rejected) or line.strip():
            yield number, line


def csv_records(
    path: Path, required: Sequence[str] = (), *, delimiter: str = ",", header: Sequence[str] | None = None
) -> Iterator[Record | Rejected]:
    """The records of a CSV file by column name.

    A record with another number of fields than there are columns is rejected, never shifted.

    Args:
        path: of the file.
        required: columns that must be among those that the first line names.
        delimiter: what stands between fields; where it is a tab, quotes have no meaning.
        header: names the columns of a file that has no first line of names; ``required`` is not looked at then.

    Returns:
        Where each record stands and its fields, or why it is rejected, one by one.
    """
    lines = _Lines(path)
    # Tab-separated files of this kind hold stray quotes in captions, and no quoting
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    old_limit = csv.field_size_limit(MAX_FIELD)
    try:
        reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
        names = list(header) if header is not None else _header(path, reader, required, lines)
        while True:
            csv.field_size_limit(MAX_FIELD)  # the limit is the whole process's: set it again after each pause
            lines.new_record()
            try:
                fields = next(reader, None)
            except csv.Error as error:
                yield from lines.rejected()
                yield Rejected(lines.where(), f"the record cannot be read: {error}")
                if delimiter != "\t" and lines.quote_is_open():
                    # what follows may be the inside of a quoted field: reading on could give wrong rows
                    yield Rejected(lines.where(), "a quote is not closed; the rest of the file was not read")
                    return
                continue
            yield from lines.rejected()
            if fields is None:
                return
            if fields in ([], [""]):
                continue
            if len(fields) == len(names):
                yield lines.where(), dict(zip(names, fields, strict=True))
            else:
                yield Rejected(
                    lines.where(),
                    f"the record has {len(fields)} fields but there are {len(names)} columns",
                    {"fields": ", ".join(fields)[:200].encode("utf-8", "replace").decode()},
                )
    finally:
        csv.field_size_limit(old_limit)


class _Lines:
    """The lines that csv reads, remembering where the current record began."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._source = text_lines(path)
        self._bad: list[Rejected] = []
        self._number = self._before = self._quotes = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        while True:
            self._number, line = next(self._source)
            if isinstance(line, str):
                self._quotes += line.count('"')
                return line + "\n"
            self._bad.append(line)

    def new_record(self) -> None:
        self._before, self._quotes = self._number, 0

    def where(self) -> str:
        first = self._before + 1
        if first >= self._number:
            return f"{self.name} line {self._number}"
        return f"{self.name} lines {first}-{self._number}"

    def rejected(self) -> Iterable[Rejected]:
        bad, self._bad = self._bad, []
        return bad

    def quote_is_open(self) -> bool:
        return self._quotes % 2 == 1


def _header(path: Path, reader: Iterator[list[str]], required: Sequence[str], lines: _Lines) -> list[str]:
    try:
        names = next(reader, None)
    except csv.Error as error:
        raise InputError(f"the first line of {path} cannot be read as column names: {error}") from error
    for bad in lines.rejected():  # it stands before the names or among them: the next line is none of names
        raise InputError(f"the first line of {path} cannot be read as column names: {bad.reason}")
    if names is None:
        raise InputError(f"{path} is empty; a first line with the column names is expected")
    names = [name.strip() for name in names]
    shown = ", ".join(names)[:200].encode("utf-8", "replace").decode()
    if any("\udc80" <= letter <= "\udcff" for name in names for letter in name):
        raise InputError(f"the column names of {path} are not UTF-8 text: {shown}")
    if len(set(names)) != len(names):
        raise InputError(f"{path} names a column twice: {shown}")
    missing = [name for name in required if name not in names]
    if missing:
        raise InputError(f"{path} has no column {missing[0]!r}; its columns are: {shown}")
    return names


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _skip_line(file: BinaryIO) -> None:
    while (part := file.readline(MAX_LINE)) and not part.endswith(b"\n"):
        pass


def _parsed(data: bytes, where: str) -> Any:
    if not data.strip():
        raise InputError(f"{where} is empty; JSON is expected")
    try:
        return json.loads(data.decode(json.detect_encoding(data)))
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not {error.encoding} at byte {error.start}; save it as UTF-8") from error
    except RecursionError as error:
        raise InputError(f"{where} is JSON nested too deep to be a dataset") from error
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}") from error
