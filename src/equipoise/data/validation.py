"""Everything that can be wrong with a table on disk, each as one sentence.

Whether the rows of many files have names of their own, found with eight bytes a row and bounded memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from equipoise.data.atomic import sha256_of
from equipoise.data.manifest import MANIFEST
from equipoise.data.shards import ERRORS_FOLDER, existing_shards, open_checked, open_parquet, read_batches, shard_name
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.data.table import Table

__all__ = ["first_duplicate", "first_repeated_key", "problems"]


_ROWS_A_PASS = 20_000_000
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
    n_passes = -(-max(1, n_rows) // _ROWS_A_PASS)
    for turn in range(n_passes):
        suspects = _repeated(
            [hashes[hashes % np.uint64(n_passes) == turn] for hashes in (_hashes(b) for _, b in keys())]
        )
        found = _confirmed(keys, suspects) if len(suspects) else None
        if found:
            return found
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


_KEYS_AT_ONCE = 65_536


def problems(table: Table, *, deep: bool = True, decode: bool = False) -> Iterator[str]:
    """What is wrong with ``table`` and the layers it is read with, one sentence each; nothing if all is well.

    Always: every shard is there, opens, and has the columns, types and rows that ``_table.json`` says. ``deep``:
    also the SHA-256 of every file, keys that are empty or repeated, JSON that is none, a set that is in two splits,
    and layers that name images the table does not have. ``decode``: also every image, decoded.
    """
    broken = False
    for problem in _file_problems(table, deep):
        broken = True
        yield problem
    if broken:
        return  # the rest would read the same files and trip over the same stones
    if deep:
        yield from _content_problems(table)
        for layer in table.layers:
            found = list(problems(layer))
            yield from found or _layer_problems(table, layer)
    if decode and "image" in table.columns:
        yield from _image_problems(table)


def first_repeated_key(folder: Path, indexes: list[int], key: tuple[str, ...]) -> str | None:
    """A sentence about the first key that two rows of these shards share, if any."""
    n_rows = sum(open_parquet(folder / shard_name(i)).metadata.num_rows for i in indexes)

    def keys() -> Iterator[tuple[str, Any]]:
        for index in indexes:
            for batch in read_batches(folder / shard_name(index), key, _KEYS_AT_ONCE):
                yield shard_name(index), batch

    found = first_duplicate(keys, n_rows)
    if found is None:
        return None
    values, first, second = found
    named = ", ".join(f"{name} {value!r}" for name, value in zip(key, values, strict=True))
    return f"{folder / second}: {named} is in {first if first != second else 'the same file'} already"


def _file_problems(table: Table, deep: bool) -> Iterator[str]:
    listed = [shard.index for shard in table.shards]
    for index in sorted(set(existing_shards(table.path)) - set(listed)):
        yield f"{table.path / shard_name(index)} is not in {MANIFEST}; move it away, other tools would read it"
    for shard in table.shards:
        path = table.path / shard.file
        try:
            with open_checked(path, table.schema) as file:
                if file.metadata.num_rows != shard.rows:
                    yield f"{path} has {file.metadata.num_rows} rows, expected {shard.rows}"
            if shard.n_errors:
                open_parquet(table.path / ERRORS_FOLDER / shard.file).close()
        except InputError as error:
            yield str(error)
            continue
        if deep and sha256_of(path) != shard.sha256:
            yield f"{path} has another SHA-256 than {MANIFEST} says; the file was changed, write the table again"
        errors_path = table.path / ERRORS_FOLDER / shard.file
        if deep and shard.n_errors and sha256_of(errors_path) != shard.errors_sha256:
            yield f"{errors_path} has another SHA-256 than {MANIFEST} says; the file was changed"


def _content_problems(table: Table) -> Iterator[str]:
    own = table.without_layers()
    json_columns = [name for name, kind in table.schema.columns if kind == "json"]
    for shard in own.shards:
        place = str(own.path / shard.file)
        for batch in own.shard_batches(shard.index, list(dict.fromkeys([*own.schema.never_null, *json_columns]))):
            yield from _empty_keys(batch, own.schema.never_null, place)
            for name in json_columns:
                yield from _bad_json(batch.column(name), name, place)
    if own.schema.key:
        repeated = first_repeated_key(own.path, [shard.index for shard in own.shards], own.schema.key)
        if repeated:
            yield repeated
    if table.kind == "images":
        yield from _split_sets(table)


def _empty_keys(batch: Any, names: tuple[str, ...], place: str) -> Iterator[str]:
    for name in names:
        if batch.column(name).null_count:
            yield f"{place}: column {name!r} is empty in {batch.column(name).null_count} rows"


def _bad_json(column: Any, name: str, place: str) -> Iterator[str]:
    for value in pc.unique(column).drop_null().to_pylist():
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            yield f"{place}: column {name!r} holds {value[:60]!r}, expected JSON"
            return


def _split_sets(table: Table) -> Iterator[str]:
    """A counterfactual set must not be in two splits: its images differ in one attribute and in nothing else."""
    split_of: dict[str, str] = {}
    for batch in table.batches(["set_id", "split"]):
        both = batch.filter(pc.and_(pc.is_valid(batch.column("set_id")), pc.is_valid(batch.column("split"))))
        for pair in both.to_pandas().drop_duplicates().itertuples(index=False):
            if split_of.setdefault(pair.set_id, pair.split) != pair.split:
                yield f"{table.path}: set {pair.set_id!r} is in the splits {split_of[pair.set_id]!r} and {pair.split!r}"
                return


def _layer_problems(table: Table, layer: Table) -> Iterator[str]:
    for shard in layer.shards:
        ids = layer.own_columns(shard.index, ["image_id"])["image_id"]
        own = table.own_columns(shard.index, ["image_id"])["image_id"].combine_chunks()
        strange = ids.filter(pc.invert(pc.is_in(ids, value_set=own)))
        if len(strange):
            yield f"{layer.path / shard.file}: image {strange[0].as_py()!r} is not in that shard of {table.path}"


def _image_problems(table: Table) -> Iterator[str]:
    from equipoise.data.images import decode

    for shard in table.shards:
        for batch in table.shard_batches(shard.index, ["image_id", "image"]):
            for row in batch.to_pylist():
                if row["image"] is None:
                    continue  # a table of metadata has no images, and that is no fault
                try:
                    decode(row["image"], root=table.image_root)
                except InputError as error:
                    yield f"{table.path / shard.file}: image {row['image_id']!r}: {error}"
