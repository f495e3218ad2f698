"""Everything that can be wrong with a table on disk, each as one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc

from equipoise.data.atomic import sha256_of
from equipoise.data.layers import AnyTable
from equipoise.data.manifest import MANIFEST
from equipoise.data.shards import (
    ERRORS_FOLDER,
    existing_shards,
    first_repeated_key,
    open_checked,
    open_parquet,
    shard_name,
)
from equipoise.errors import InputError


def problems(table: AnyTable, *, deep: bool = True, decode: bool = False) -> Iterator[str]:
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
            of_layer = list(problems(layer))
            yield from of_layer or _layer_problems(table, layer)
    if decode and "image" in table.columns:
        yield from _image_problems(table)


def _file_problems(table: AnyTable, deep: bool) -> Iterator[str]:
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


def _content_problems(table: AnyTable) -> Iterator[str]:
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


def _split_sets(table: AnyTable) -> Iterator[str]:
    """A counterfactual set must not be in two splits: its images differ in one attribute and in nothing else."""
    split_of: dict[str, str] = {}
    for batch in table.batches(["set_id", "split"]):
        both = batch.filter(pc.and_(pc.is_valid(batch.column("set_id")), pc.is_valid(batch.column("split"))))
        for pair in both.to_pandas().drop_duplicates().itertuples(index=False):
            if split_of.setdefault(pair.set_id, pair.split) != pair.split:
                yield f"{table.path}: set {pair.set_id!r} is in the splits {split_of[pair.set_id]!r} and {pair.split!r}"
                return


def _layer_problems(table: AnyTable, layer: AnyTable) -> Iterator[str]:
    for shard in layer.shards:
        ids = layer.own_columns(shard.index, ["image_id"])["image_id"]
        own = table.own_columns(shard.index, ["image_id"])["image_id"].combine_chunks()
        strange = ids.filter(pc.invert(pc.is_in(ids, value_set=own)))
        if len(strange):
            yield f"{layer.path / shard.file}: image {strange[0].as_py()!r} is not in that shard of {table.path}"


def _image_problems(table: AnyTable) -> Iterator[str]:
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
