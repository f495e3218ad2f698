"""Layers: columns added to a table beside it, joined when it is read. No image is copied to add a column.

A layer is a table of kind ``layer`` in ``<table>/_layers/<name>`` (or anywhere else): ``image_id`` and some columns,
its parent's fingerprint, and one shard for each shard of the parent, holding only image ids of that shard. So a
join needs one shard of each in memory, whatever the size of the table.

For the images it names, a layer's column replaces what the table or an earlier layer says; other images keep it.
Two columns combine instead: an image is kept if every filter keeps it (unknown if one has no answer and none drops
it), and ``dropped_by`` names the first filter that dropped it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from equipoise.data.arrays import batches_of, with_own_columns
from equipoise.data.manifest import Manifest
from equipoise.data.schema import TableSchema, arrow_type, schema_for
from equipoise.data.shard_writer import ShardWriter
from equipoise.data.shards import ShardInfo
from equipoise.errors import InputError, UnknownNameError

LAYERS_FOLDER = "_layers"
_VERDICT = ("keep", "dropped_by")


class AnyTable(Protocol):
    """What joining and validating read of a :class:`equipoise.data.Table`, which stands above both."""

    path: Path
    fingerprint: str
    types: dict[str, str]

    @property
    def layers(self) -> Sequence[AnyTable]:
        """The layers that are joined at reading."""

    @property
    def kind(self) -> str:
        """What the rows are."""

    @property
    def schema(self) -> TableSchema:
        """The columns of the table itself."""

    @property
    def shards(self) -> tuple[ShardInfo, ...]:
        """Its files."""

    @property
    def parents(self) -> tuple[str, ...]:
        """What it was made from."""

    @property
    def columns(self) -> list[str]:
        """All columns, those of the layers included."""

    @property
    def image_root(self) -> Path:
        """Where relative image paths start."""

    def without_layers(self) -> AnyTable:
        """The table as it is on disk."""

    def own_batches(self, index: int, columns: Sequence[str], batch_size: int) -> Iterator[Any]:
        """One shard in batches, no layer joined."""

    def own_columns(self, index: int, columns: Sequence[str]) -> Any:
        """One shard as an Arrow table, no layer joined."""

    def shard_batches(self, index: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """One shard in batches, layers joined."""

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Columns of all rows as one Arrow table."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """All rows in batches, layers joined."""


def layer_place(table: AnyTable, name: str, path: str | Path | None = None) -> Path:
    """The folder of the layer ``name``: beside ``table`` unless ``path`` says otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise InputError(f"layer name {name!r} is not usable; use letters, digits, '_' and '-'")
    if table.kind != "images":
        raise InputError(f"{table.path} is a table of kind {table.kind!r}; only a table of images has layers")
    return Path(path) if path is not None else table.path / LAYERS_FOLDER / name


def layer_schema(
    table: AnyTable, name: str, *, columns: Mapping[str, str] | Iterable[str] = (), axes: Iterable[str] = ()
) -> TableSchema:
    """The schema of a layer with these columns; one that does not fit ``table`` is refused."""
    schema = schema_for("layer", axes=axes, columns=columns)
    check_layer_columns(table, schema, name)
    return schema


def write_layer(
    table: AnyTable,
    name: str,
    data: Any,
    *,
    columns: Mapping[str, str] | Iterable[str] = (),
    axes: Iterable[str] = (),
    config: Mapping[str, Any] | None = None,
    uses: Iterable[str] = (),
    path: str | Path | None = None,
    wait: float = 0.0,
) -> Path:
    """Write a layer from rows, an Arrow table or a DataFrame in any order, dealt out to the table's shards.

    Returns its folder. Without ``columns`` and ``axes``, the columns of an Arrow table or a DataFrame are taken with
    their own types.
    """
    if not columns and not axes:
        data, columns = with_own_columns(data)
    schema = schema_for("layer", axes=axes, columns=columns)
    batches = batches_of(data, schema, where=f"layer {name}")
    content = pa.Table.from_batches(batches, schema=schema.arrow).combine_chunks()
    ids = content["image_id"].combine_chunks()
    check_once(content["image_id"], f"the layer {name!r}")
    place = layer_place(table, name, path)
    check_layer_columns(table, schema, name)
    own = table.without_layers().to_arrow(["image_id"])["image_id"].combine_chunks()
    # Once for all shards: every call hashes all of the layer's ids.
    positions = pc.index_in(own, value_set=ids)
    if len(positions) - positions.null_count < len(ids):
        strange = ids.filter(pc.invert(pc.is_in(ids, value_set=own)))
        raise InputError(f"layer {name!r} names {len(strange)} images that are not in {table.path}: {strange[0]!s}")
    parents = (table.fingerprint, *uses)
    with ShardWriter(place, schema, config=config, parents=parents, resume=False, wait=wait) as writer:
        start = 0
        for shard in table.shards:
            taken = positions.slice(start, shard.rows).drop_null()
            writer.write_shard(shard.index, content.take(taken))
            start += shard.rows
        writer.publish(len(table.shards))
    return place


def layer_names(folder: Path) -> list[str]:
    """The finished layers that are kept beside the table in ``folder``."""
    return sorted(p.parent.name for p in (folder / LAYERS_FOLDER).glob("*/_table.json"))


def unread_axes(table: AnyTable) -> dict[str, str]:
    """Axes that only a layer beside ``table`` has which is not joined, each with the name of such a layer."""
    read = {*table.schema.axes, *(axis for layer in table.layers for axis in layer.schema.axes)}
    unread: dict[str, str] = {}
    for name in layer_names(table.path):
        try:
            axes = Manifest.load(table.path / LAYERS_FOLDER / name).schema.axes
        except InputError:  # who reads that layer is told what is wrong with it
            continue
        for axis in axes:
            if axis not in read:
                unread.setdefault(axis, name)
    return unread


def check_layer(table: AnyTable, opened: AnyTable) -> None:
    """Refuse a layer that was not made for this very table."""
    if opened.kind != "layer":
        raise InputError(f"{opened.path} is a table of kind {opened.kind!r}, not a layer")
    if opened.parents[:1] != (table.fingerprint,):
        of = opened.parents[0][:12] if opened.parents else "none"
        raise InputError(
            f"the layer {opened.path} belongs to another table (fingerprint {of}), not to {table.path} "
            f"({table.fingerprint[:12]}); make the layer again for this table"
        )
    if len(opened.shards) != len(table.shards):
        n_shards, expected = len(opened.shards), len(table.shards)
        raise InputError(
            f"the layer {opened.path} has {n_shards} shards, expected {expected} as {table.path} has; "
            "make the layer again"
        )
    check_layer_columns(table, opened.schema, opened.path.name)


def layer_path(table: AnyTable, layer: str | Path) -> Path:
    """Where a layer is that is given by its name or by its folder; an unknown name is an InputError."""
    if isinstance(layer, Path) or "/" in layer:
        return Path(layer)
    known = layer_names(table.path)
    if layer not in known:
        raise UnknownNameError(f"layer of {table.path}", layer, known)
    return table.path / LAYERS_FOLDER / layer


def check_layer_columns(table: AnyTable, schema: TableSchema, name: str) -> None:
    """Refuse a layer that holds images or gives a column of the table another type."""
    for column, kind in schema.columns:
        if kind in ("image", "binary"):
            raise InputError(f"layer {name!r}: column {column!r} is {kind}, and a layer holds no images")
        expected = table.schema.types.get(column, kind)
        if kind != expected:
            raise InputError(f"layer {name!r}: column {column!r} is {kind}, expected {expected} as in {table.path}")


def combined_types(table: AnyTable) -> dict[str, str]:
    """The columns of a table and its layers with their types, the table's own first."""
    types = dict(table.schema.types)
    for layer in table.layers:
        for column, kind in layer.schema.columns:
            if types.setdefault(column, kind) != kind:
                before = types[column]
                raise InputError(f"layer {layer.path.name!r}: column {column!r} is {kind}, expected {before} as before")
        if set(_VERDICT) & set(layer.schema.types):
            types.setdefault("keep", "bool")
            types.setdefault("dropped_by", "string")
    return types


def joined_batches(table: AnyTable, index: int, names: Sequence[str], batch_size: int) -> Iterator[Any]:
    """The rows of one shard with the columns ``names``, some of them from layers."""
    laid = _laid_over(table, index, names)
    schema = pa.schema([pa.field(name, arrow_type(table.types[name])) for name in names])
    own = [name for name in names if name not in laid]
    start = 0
    for batch in table.own_batches(index, own or ["image_id"], batch_size):
        columns = [laid[name].slice(start, len(batch)) if name in laid else batch.column(name) for name in names]
        start += len(batch)
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _laid_over(table: AnyTable, index: int, names: Sequence[str]) -> dict[str, Any]:
    """The columns of ``names`` that a layer touches, each for the whole shard."""
    in_layers = {column for layer in table.layers for column in layer.schema.types} - {"image_id"}
    if in_layers & set(_VERDICT):
        in_layers |= set(_VERDICT)
    touched = [name for name in names if name in in_layers]
    if not touched:
        return {}
    wanted = set(touched) | (set(_VERDICT) if set(touched) & set(_VERDICT) else set())
    own = table.own_columns(index, ["image_id", *(n for n in table.schema.names if n in wanted)])
    ids = own["image_id"].combine_chunks()
    values = {name: own[name].combine_chunks() for name in own.column_names[1:]}
    verdicts = [_verdict_of("table", values, len(ids))] if set(values) & set(_VERDICT) else []
    for layer in table.layers:
        asked = [name for name in layer.schema.names if name in wanted]
        if not asked:
            continue
        laid, present = _aligned(layer, index, ids, asked)
        if set(laid) & set(_VERDICT):
            verdicts.append(_verdict_of(layer.path.name, laid, len(ids)))
        for name in set(asked) - set(_VERDICT):
            before = values.get(name, pa.nulls(len(ids), laid[name].type))
            choose = _choose if pa.types.is_nested(laid[name].type) else pc.if_else
            values[name] = choose(present, laid[name], before)
    if verdicts:
        values["keep"], values["dropped_by"] = combine_verdicts(verdicts)
    return {name: values[name] for name in touched}


def _aligned(layer: AnyTable, index: int, ids: Any, names: list[str]) -> tuple[dict[str, Any], Any]:
    """A layer's columns in the order of ``ids``, null where it says nothing, and where it says something."""
    content = layer.own_columns(index, ["image_id", *names])
    layer_ids = content["image_id"].combine_chunks()
    columns = {name: content[name].combine_chunks() for name in names}
    if layer_ids.equals(ids):
        return columns, pc.is_valid(ids)
    positions = pc.index_in(ids, value_set=layer_ids)
    return {name: column.take(positions) for name, column in columns.items()}, pc.is_valid(positions)


def _verdict_of(name: str, columns: Mapping[str, Any], n_rows: int) -> tuple[Any, Any]:
    """``keep`` and ``dropped_by`` of one layer: the second says who, its own name where it says nothing."""
    dropped_by = columns.get("dropped_by", pa.nulls(n_rows, pa.string()))
    keep = columns.get("keep")
    if keep is None:
        keep = pc.is_null(dropped_by)
    dropped = pc.fill_null(pc.invert(keep), False)
    return keep, pc.if_else(dropped, pc.coalesce(dropped_by, pa.scalar(name)), pa.scalar(None, pa.string()))


def combine_verdicts(verdicts: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """``keep`` if all keep (null if one is null and none drops), and ``dropped_by`` of the first that dropped.

    >>> keep, by = combine_verdicts([
    ...     (pa.array([True, True, None]), pa.array([None, None, None], pa.string())),
    ...     (pa.array([True, False, True]), pa.array([None, "blur", None], pa.string())),
    ... ])
    >>> keep.to_pylist(), by.to_pylist()
    ([True, False, None], [None, 'blur', None])
    """
    keep, dropped_by = verdicts[0]
    for next_keep, next_dropped_by in verdicts[1:]:
        keep = pc.and_kleene(keep, next_keep)
        dropped_by = pc.coalesce(dropped_by, next_dropped_by)
    return keep, dropped_by


def _choose(present: Any, now: Any, before: Any) -> Any:
    """``if_else`` for lists, which Arrow's own does not choose from: by position in both, one after the other."""
    n_rows = len(present)
    positions = pc.if_else(present, pa.array(range(n_rows)), pa.array(range(n_rows, 2 * n_rows)))
    return pa.chunked_array([now, before.cast(now.type)]).combine_chunks().take(positions)


def check_once(ids: Any, what: str) -> None:
    """Refuse ids of which one stands twice."""
    if len(ids) == len(pc.unique(ids)):
        return
    counts = pc.value_counts(ids)
    twice = next(entry["values"] for entry in counts.to_pylist() if entry["counts"] > 1)
    raise InputError(f"{what} names image {twice!r} twice")
