"""Rows of Parquet files that other people wrote, a batch at a time, without trusting a byte of them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from equipoise.data.readers.files import existing
from equipoise.data.schema import Rejected
from equipoise.errors import InputError

BATCH = 64
"""Rows in memory at once: images of some hundred kilobytes each."""

_BROKEN = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)


def parquet_files(path: str | os.PathLike[str]) -> list[Path]:
    """``path`` itself, or every Parquet file below that folder, sorted; ``_`` or ``.`` first is not data."""
    start = existing(path)
    if start.is_file():
        return [start]
    hidden = ("_", ".")
    files = [p for p in start.rglob("*.parquet") if not any(q.startswith(hidden) for q in p.relative_to(start).parts)]
    if not files:
        raise InputError(f"{start} has no Parquet file")
    return sorted(files)


def name_below(path: str | os.PathLike[str], file: Path) -> str:
    """What to call a file of :func:`parquet_files`: its path below the folder that was given, without the suffix.

    Files of equal names in several folders, as the Hugging Face hub converts datasets, have names of their own.

    >>> name_below("mmlu", Path("mmlu/default/test/0000.parquet")), name_below("a/b.parquet", Path("a/b.parquet"))
    ('default/test/0000', 'b')
    """
    start = Path(path)
    return file.stem if file == start else file.relative_to(start).with_suffix("").as_posix()


def schema_of(files: Sequence[Path]) -> Any:
    """The Arrow schema of the first file that opens."""
    problem = ""
    for file in files:
        try:
            return pq.read_schema(file)
        except _BROKEN as error:
            problem = problem or f"{file} is not a Parquet file that can be read: {_first_line(error)}"
    raise InputError(problem)


def parquet_records(
    files: Sequence[Path], columns: Sequence[str]
) -> Iterator[tuple[Path, int, dict[str, Any]] | Rejected]:
    """File, row number and values by column, for each row of each file.

    A file that cannot be opened is rejected as a whole; if none can, that is an InputError.
    """
    problem = ""
    opened = False
    for file in files:
        try:
            source = pq.ParquetFile(file, page_checksum_verification=True)
            missing = [name for name in columns if name not in source.schema_arrow.names]
        except _BROKEN as error:
            problem = problem or f"{file} is not a Parquet file that can be read: {_first_line(error)}"
            yield Rejected(file.name, f"the file cannot be opened: {_first_line(error)}")
            continue
        with source:
            if missing:
                names = ", ".join(source.schema_arrow.names)[:200]
                raise InputError(f"{file} has no column {missing[0]!r}; its columns are: {names}")
            opened = True
            yield from _records(file, source, columns)
    if not opened:
        raise InputError(problem)


def value_counts(files: Sequence[Path], column: str) -> Counter[Any]:
    """How often each text or number occurs in a column of all files; a part that cannot be read is not counted."""
    counts: Counter[Any] = Counter()
    for file in files:
        try:
            with pq.ParquetFile(file) as source:
                for batch in source.iter_batches(columns=[column]):
                    batch.validate(full=True)
                    for entry in batch.column(0).value_counts().to_pylist():
                        if isinstance(entry["values"], str | int | float):
                            counts[entry["values"]] += entry["counts"]
        except _BROKEN:
            continue  # parquet_records says what is wrong with it
    return counts


def _records(file: Path, source: Any, columns: Sequence[str]) -> Iterator[tuple[Path, int, dict[str, Any]] | Rejected]:
    done = 0
    batches = source.iter_batches(batch_size=BATCH, columns=list(dict.fromkeys(columns)))
    while True:
        try:
            batch = next(batches, None)
        except _BROKEN as error:
            yield Rejected(file.name, f"the file cannot be read after row {done}: {_first_line(error)}")
            return
        if batch is None:
            # a page of a kind that Arrow does not know is skipped in silence
            if done != source.metadata.num_rows:
                reason = f"the file says it has {source.metadata.num_rows} rows, but {done} could be read"
                yield Rejected(file.name, reason)
            return
        for i, values in enumerate(_values(batch)):
            if isinstance(values, str):
                yield Rejected(f"{file.name} row {done + i}", values)
            else:
                yield file, done + i, values
        done += batch.num_rows


def _values(batch: Any) -> Iterator[dict[str, Any] | str]:
    """The rows of a batch as dicts; for a row with a value that cannot be read, the reason as text."""
    try:
        batch.validate(full=True)
        yield from batch.to_pylist()
        return
    except _BROKEN:
        pass
    for i in range(batch.num_rows):
        values: dict[str, Any] = {}
        try:
            for name in batch.schema.names:
                values[name] = batch.column(name)[i].as_py()
        except _BROKEN as error:
            yield f"column {name!r} cannot be read: {_first_line(error)}"
            continue
        yield values


def class_names(schema: Any) -> dict[str, list[str]]:
    """The names of the classes of columns that Hugging Face ``datasets`` stores as numbers, by column.

    >>> hf = {"info": {"features": {"gender": {"_type": "ClassLabel", "names": ["Male", "Female"]}}}}
    >>> class_names(pa.schema([("gender", pa.int64())], metadata={"huggingface": json.dumps(hf)}))
    {'gender': ['Male', 'Female']}
    """
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            name: feature["names"]
            for name, feature in features.items()
            if isinstance(feature, dict)
            and feature.get("_type") == "ClassLabel"
            and isinstance(feature.get("names"), list)
            and all(isinstance(n, str) for n in feature["names"])
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return {}


def type_text(arrow: Any) -> str:
    """How a table keeps a column of this Arrow type.

    >>> type_text(pa.int32()), type_text(pa.list_(pa.string())), type_text(pa.struct([("a", pa.int8())]))
    ('int64', 'list<string>', 'json')
    """
    if pa.types.is_dictionary(arrow):
        return type_text(arrow.value_type)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return "string"
    if pa.types.is_boolean(arrow):
        return "bool"
    if pa.types.is_integer(arrow) and not pa.types.is_uint64(arrow):
        return "int64"
    if pa.types.is_floating(arrow):
        return "float64"
    if (pa.types.is_list(arrow) or pa.types.is_large_list(arrow)) and type_text(arrow.value_type) == "string":
        return "list<string>"
    return "json"


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:200].encode("utf-8", "replace").decode()
