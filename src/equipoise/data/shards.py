"""One Parquet file of a table: written whole or not at all, the same bytes for the same rows.

Row groups are closed after 100 images, 64 MiB of image bytes or 10,000 rows, whichever comes first, so that a reader
never holds more than that. ``image.bytes`` is stored plain: no dictionary, no compression, no statistics. Every page
has a checksum that is verified when it is read: a flipped bit is an error, never a wrong row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from equipoise.data.arrays import batches_of
from equipoise.data.atomic import HashingFile, atomic_file, reached, sha256_of
from equipoise.data.schema import Rejected, TableSchema, arrow_type, type_name
from equipoise.errors import InputError

IMAGES_PER_GROUP = 100
BYTES_PER_GROUP = 64 << 20
ROWS_PER_GROUP = 10_000
ERRORS_FOLDER = "_errors"

_ERRORS_SCHEMA = pa.schema([("where", pa.string()), ("reason", pa.string()), ("row", pa.string())])
_REPEATING = {
    *("subject", "label_source", "generator", "split", "dropped_by", "model", "annotator", "question"),
    *("answer", "metric", "variant", "suite", "pool", "axis", "group", "notes", "set_id", "text_id"),
}


@dataclass(frozen=True)
class ShardInfo:
    """What ``_table.json`` says of one shard."""

    index: int
    rows: int
    bytes: int
    sha256: str
    n_errors: int = 0
    errors_sha256: str = ""

    @property
    def file(self) -> str:
        """The shard's file name."""
        return shard_name(self.index)


def shard_name(index: int) -> str:
    """The file name of a shard.

    >>> shard_name(3)
    'part-00003.parquet'
    """
    return f"part-{index:05d}.parquet"


def existing_shards(folder: Path) -> list[int]:
    """The indexes of the shards in ``folder``, in order."""
    indexes = []
    for path in folder.glob("part-*.parquet"):
        digits = path.name[len("part-") : -len(".parquet")]
        if digits.isdigit() and path.name == shard_name(int(digits)):
            indexes.append(int(digits))
    return sorted(indexes)


def write_shard(
    folder: Path, index: int, rows: Any, schema: TableSchema, *, errors: Iterable[Rejected] = ()
) -> ShardInfo:
    """Write one shard of a table, and its failed rows.

    Any process may call this for any shard: it takes no lock and looks at no other file. The shard takes its name
    after its errors have theirs: a shard that exists has its errors beside it.

    Args:
        folder: of the table.
        index: the number of the shard, from 0; its file is named by it.
        rows: mappings (a generator of them will do), Arrow data or a DataFrame.
        schema: of the table; a column that ``rows`` lack is null, and a value that does not fit is an InputError.
        errors: the failed rows, looked at after the last row, so a list may be filled while the rows are made.

    Returns:
        What ``_table.json`` says of the shard (rows, size, hashes).
    """
    path = folder / shard_name(index)
    errors_path = folder / ERRORS_FOLDER / path.name
    reached("shard.before_write")
    with atomic_file(path) as file:
        n_rows = _write_parquet(file, batches_of(rows, schema, where=path.name), schema)
        reached("shard.before_errors")
        failed = list(errors)
        errors_hash = _write_errors(errors_path, failed) if failed else ""
        if not failed:
            errors_path.unlink(missing_ok=True)
        reached("shard.before_rename")
    reached("shard.after_rename")
    return ShardInfo(index, n_rows, file.size, file.sha256, len(failed), errors_hash)


def shard_info(folder: Path, index: int) -> ShardInfo:
    """What is to be known of a shard that exists, from its files."""
    path = folder / shard_name(index)
    n_rows = open_parquet(path).metadata.num_rows
    errors_path = folder / ERRORS_FOLDER / path.name
    n_errors, errors_hash = 0, ""
    if errors_path.exists():
        n_errors = open_parquet(errors_path).metadata.num_rows
        errors_hash = sha256_of(errors_path)
    return ShardInfo(index, n_rows, path.stat().st_size, sha256_of(path), n_errors, errors_hash)


def open_parquet(path: Path) -> Any:
    """The opened Parquet file; what is wrong with it otherwise, by name."""
    with reading(path):
        return pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what Arrow says of a missing or damaged file into a sentence that names it."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path} is missing; the table is not complete, write it again") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path} is not a readable Parquet file ({reason}); write it again") from None


def read_columns(path: Path, names: Sequence[str], schema: TableSchema | None = None) -> Any:
    """Some columns of a Parquet file as an Arrow table, and nothing else read from disk.

    With ``schema`` the file is refused if its columns are not those.
    """
    with open_checked(path, schema) as file, reading(path):
        content = file.read(columns=list(names), use_threads=False).select(list(names))
        _check_count(path, len(content), file)
        return content


def read_batches(path: Path, names: Sequence[str], batch_size: int, schema: TableSchema | None = None) -> Iterator[Any]:
    """As :func:`read_columns`, in Arrow batches of at most ``batch_size`` rows."""
    with open_checked(path, schema) as file, reading(path):
        n_rows = 0
        for batch in file.iter_batches(batch_size=batch_size, columns=list(names), use_threads=False):
            n_rows += len(batch)
            yield batch.select(list(names))
        _check_count(path, n_rows, file)


def check_columns(path: Path, arrow: Any, schema: TableSchema) -> None:
    """Refuse an Arrow schema that is not the table's, naming file, column, expected and found type."""
    there = {field.name: field.type for field in arrow}
    for name, kind in schema.columns:
        if name not in there:
            raise InputError(f"{path}: column {name!r} is missing, expected {kind}; write the table again")
        if not there[name].equals(arrow_type(kind)):
            raise InputError(
                f"{path}: column {name!r} is {type_name(there[name])}, expected {kind}; write the table again"
            )
    extra = [name for name in there if name not in schema.types]
    if extra:
        raise InputError(
            f"{path}: column {extra[0]!r} ({type_name(there[extra[0]])}) is not one of the table's, expected none; "
            "write the table again"
        )


def _check_count(path: Path, n_rows: int, file: Any) -> None:
    """A page whose damaged head says that it is no data is skipped by Arrow without a word."""
    if n_rows != file.metadata.num_rows:
        missing = f"it gives {n_rows} rows of {file.metadata.num_rows}"
        raise InputError(f"{path} is not a readable Parquet file ({missing}); write it again")


def open_checked(path: Path, schema: TableSchema | None) -> Any:
    """The opened Parquet file, refused if its columns are not those of ``schema`` (where one is given)."""
    file = open_parquet(path)
    if schema is not None:
        with reading(path):
            check_columns(path, file.schema_arrow, schema)
    return file


def _write_errors(path: Path, errors: Sequence[Rejected]) -> str:
    path.parent.mkdir(exist_ok=True)
    columns = {
        "where": [_clean(error.where) for error in errors],
        "reason": [_clean(error.reason) for error in errors],
        "row": [json.dumps(_plain(error.row), sort_keys=True) for error in errors],
    }
    with atomic_file(path) as file:
        pq.write_table(pa.table(columns, schema=_ERRORS_SCHEMA), file, compression="zstd", use_dictionary=["reason"])
    return file.sha256


def _clean(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


def _plain(value: Any) -> Any:
    """``value`` as JSON can hold it: whatever a bad row is made of, it must not fail a second time."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_clean(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    return _clean(value)


def _write_parquet(file: HashingFile, batches: Iterator[Any], schema: TableSchema) -> int:
    n_rows = 0
    with pq.ParquetWriter(file, schema.arrow, **_parquet_options(schema)) as writer:
        for group in row_groups(batches, schema):
            writer.write_table(group, row_group_size=max(1, len(group)))
            n_rows += len(group)
    return n_rows


def _parquet_options(schema: TableSchema) -> dict[str, Any]:
    leaves = [leaf for name, kind in schema.columns for leaf in _leaves(name, kind)]
    images = {f"{name}.bytes" for name, kind in schema.columns if kind == "image"}
    plain = images | {leaf for name, kind in schema.columns if kind == "binary" for leaf in _leaves(name, kind)}
    repeating = _REPEATING | set(schema.axes)
    return {
        "compression": {leaf: "none" if leaf in images else "zstd" for leaf in leaves},
        "use_dictionary": [leaf for leaf in leaves if leaf in repeating],
        "write_statistics": [leaf for leaf in leaves if leaf not in plain],
        "version": "2.6",
        "data_page_version": "1.0",
        "write_page_checksum": True,
    }


def _leaves(name: str, kind: str) -> list[str]:
    if kind == "image":
        return [f"{name}.bytes", f"{name}.path"]
    if kind.startswith("vector<"):
        return [f"{name}.list.element"]
    if kind.startswith("list<"):
        return _leaves(f"{name}.list.element", kind[len("list<") : -1])
    return [name]


def row_groups(batches: Iterable[Any], schema: TableSchema) -> Iterator[Any]:
    """The rows of ``batches`` as Arrow tables, each one row group; where they are cut depends on the rows alone."""
    image = next((name for name, kind in schema.columns if kind == "image"), None)
    held: list[Any] = []
    n_rows = n_images = n_bytes = 0
    for batch in batches:
        lengths = _image_lengths(batch, image)
        start = 0
        while start < len(batch):
            stop, full = _cut(lengths[start:], n_rows, n_images, n_bytes)
            taken = lengths[start : start + stop]
            held.append(batch.slice(start, stop))
            start += stop
            n_rows, n_images = n_rows + stop, n_images + int((taken >= 0).sum())
            n_bytes += int(taken[taken > 0].sum())
            if full:
                yield pa.Table.from_batches(held, schema=schema.arrow).combine_chunks()
                held, n_rows, n_images, n_bytes = [], 0, 0, 0
    if held:
        yield pa.Table.from_batches(held, schema=schema.arrow).combine_chunks()


def _image_lengths(batch: Any, image: str | None) -> Any:
    """Bytes of each row's image, -1 where it has none."""
    if image is None:
        return np.full(len(batch), -1, dtype=np.int64)
    lengths = pc.binary_length(pc.struct_field(batch.column(image), "bytes"))
    return pc.fill_null(lengths, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _cut(lengths: Any, n_rows: int, n_images: int, n_bytes: int) -> tuple[int, bool]:
    """How many of these rows go into the open group, and whether it is full with them."""
    full = (
        (n_rows + np.arange(1, len(lengths) + 1) >= ROWS_PER_GROUP)
        | (n_images + np.cumsum(lengths >= 0) >= IMAGES_PER_GROUP)
        | (n_bytes + np.cumsum(np.maximum(lengths, 0)) >= BYTES_PER_GROUP)
    )
    if not full.any():
        return len(lengths), False
    return int(full.argmax()) + 1, True


# Whether the rows of many files have names of their own, found with eight bytes per row and bounded memory.
_KEYS_AT_ONCE = 65_536
_ROWS_PER_PASS = 20_000_000
_MIX = np.uint64(0x9E3779B97F4A7C15)

Keys = Callable[[], Iterator[tuple[str, Any]]]
"""Gives, every time it is called, ``(place, batch of key columns)`` for all rows in order."""


def first_duplicate(keys: Keys, n_rows: int) -> tuple[tuple[str, ...], str, str] | None:
    """The first key that occurs twice and the two places it occurs in; ``None`` if all differ.

    Only 64-bit hashes are held, in as many passes over the keys as it takes to hold at most 160 MB of them; equal
    hashes are then compared in full, so that chance cannot make a duplicate.

    >>> import pyarrow as pa
    >>> batches = [("a.parquet", pa.record_batch({"id": ["x", "y"]})), ("b.parquet", pa.record_batch({"id": ["x"]}))]
    >>> first_duplicate(lambda: iter(batches), 3)
    (('x',), 'a.parquet', 'b.parquet')
    """
    n_passes = -(-max(1, n_rows) // _ROWS_PER_PASS)
    for turn in range(n_passes):
        suspects = _repeated(
            [hashes[hashes % np.uint64(n_passes) == turn] for hashes in (_hashes(b) for _, b in keys())]
        )
        duplicate = _confirmed(keys, suspects) if len(suspects) else None
        if duplicate:
            return duplicate
    return None


def _repeated(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    if not parts:
        return np.empty(0, dtype=np.uint64)
    hashes = np.sort(np.concatenate(parts))
    repeated: NDArray[np.uint64] = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    return repeated


def _confirmed(keys: Keys, suspects: NDArray[np.uint64]) -> tuple[tuple[str, ...], str, str] | None:
    seen: dict[tuple[str, ...], str] = {}
    for place, batch in keys():
        rows = np.flatnonzero(np.isin(_hashes(batch), suspects))
        for row in rows:
            key = tuple(str(column[int(row)].as_py()) for column in batch.columns)
            if key in seen:
                return key, seen[key], place
            seen[key] = place
    return None


def _hashes(batch: Any) -> NDArray[np.uint64]:
    from pandas.util import hash_array

    total = np.zeros(len(batch), dtype=np.uint64)
    for column in batch.columns:
        values = column.to_numpy(zero_copy_only=False).astype(object)
        total = total * _MIX + hash_array(values, categorize=False).astype(np.uint64)
    return total


def first_repeated_key(folder: Path, indexes: list[int], key: tuple[str, ...]) -> str | None:
    """A sentence about the first key that two rows of these shards share, if any."""
    n_rows = sum(open_parquet(folder / shard_name(i)).metadata.num_rows for i in indexes)

    def keys() -> Iterator[tuple[str, Any]]:
        for index in indexes:
            for batch in read_batches(folder / shard_name(index), key, _KEYS_AT_ONCE):
                yield shard_name(index), batch

    duplicate = first_duplicate(keys, n_rows)
    if duplicate is None:
        return None
    values, first, second = duplicate
    named = ", ".join(f"{name} {value!r}" for name, value in zip(key, values, strict=True))
    return f"{folder / second}: {named} is in {first if first != second else 'the same file'} already"
