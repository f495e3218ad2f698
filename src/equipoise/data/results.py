"""What differs between two tables: rows that only one has, and columns that changed.

Seeded draws by name: which rows are taken depends on their ids and the seed, never on their order.

The results table as one file: every number an audit gives, with its chance level, interval and n.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from equipoise.array_types import Ints
from equipoise.data.arrays import batches_of
from equipoise.data.atomic import atomic_file
from equipoise.data.schema import TableSchema, schema_for
from equipoise.data.shards import open_parquet, read_columns
from equipoise.data.table import Table
from equipoise.errors import InputError, one_line
from equipoise.text.labels import read_labels

RANDOM_RANKING = "random ranking"
"""What stands in the column ``model`` of rows that no model gave: images ranked blindly, as a yardstick."""
RANDOM_RANKING_TOLD = f"{RANDOM_RANKING}: no model, the same pool ranked blindly"
"""What a table with such rows says below itself."""
_FACTS = ("dropped", "published", "side", "codes")


def draw_order(names: Sequence[str], seed: int, purpose: str) -> Ints:
    """A permutation of ``names`` as positions: each name has a fixed place in the lottery of ``(purpose, seed)``.

    A name's draw is a keyed BLAKE2 hash of it, so the order of the rows does not matter, and taking rows away does
    not change the order of the others.

    >>> draw_order(["a", "b", "c"], 0, "example").tolist()
    [0, 1, 2]
    >>> draw_order(["c", "b", "a"], 0, "example").tolist()
    [2, 1, 0]
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise InputError(f"seed={seed!r}: a whole number is expected")
    key = hashlib.blake2b(f"{purpose}:{int(seed)}".encode(), digest_size=32).digest()
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8, key=key).digest() for name in names)
    draws = np.frombuffer(digests, dtype=">u8")
    order = np.argsort(draws, kind="stable")
    if len(np.unique(draws)) < len(draws):  # two draws alike: the name decides
        order = np.array(sorted(range(len(names)), key=lambda i: (draws[i], names[i])), dtype=np.int64)
    return order.astype(np.int64)


def ids_of(frame: pd.DataFrame, column: str = "image_id") -> list[str]:
    """The ids of the rows: text, none missing, none twice."""
    if column not in frame:
        raise InputError(f"the frame has no column {column!r}; its columns are: {', '.join(map(str, frame.columns))}")
    values = frame[column].tolist()
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise InputError(f"column {column!r} holds {value!r} in row {position}; an id is text")
    if len(set(values)) < len(values):
        twice = frame[column][frame[column].duplicated()].iloc[0]
        raise InputError(f"column {column!r} holds {twice!r} more than once; an id names one row")
    return values


def axis_names(axes: str | Sequence[str]) -> tuple[str, ...]:
    """The names of one or several axes, at least one and none twice."""
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    if not names:
        raise InputError("no axis was named")
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InputError(f"the axis {twice!r} is named twice; name every axis once")
    return names


def labels_of(frame: pd.DataFrame, axes: str | Sequence[str]) -> tuple[tuple[str, ...], list[tuple[Any, ...] | None]]:
    """The axes, and each row's group on all of them together; None where one of them is undefined.

    Labels are read as everywhere (:func:`equipoise.text.labels.read_labels`): spellings that differ in case are one.

    >>> labels_of(pd.DataFrame({"gender": ["f", None], "race": ["x", "y"]}), ["gender", "race"])[1]
    [('f', 'x'), None]
    """
    names = axis_names(axes)
    for name in names:
        if name not in frame:
            shown = ", ".join(map(str, frame.columns))
            raise InputError(f"the frame has no column {name!r} to take as an axis; its columns are: {shown}")
    columns = [read_labels(frame[name]).values().tolist() for name in names]
    return names, [None if None in row else row for row in zip(*columns, strict=True)]


def write_results(path: str | Path, rows: Any) -> Path:
    """Write results to one file, whole or not at all.

    NaN is refused: a number that cannot be had is null, with a note.

    Args:
        path: the file (``results.parquet``); its folder is made, and a file that is there is replaced.
        rows: mappings or dataclasses with the columns of :data:`equipoise.data.schema.RESULT_COLUMNS` (absent ones
            are null), an Arrow table or a DataFrame.

    Returns:
        The path of the file.

    >>> import tempfile
    >>> file = write_results(tempfile.mkdtemp() + "/results.parquet", [{"metric": "maxskew", "value": 0.29, "n": 10}])
    >>> read_results(file)[["metric", "value", "n"]].values.tolist()
    [['maxskew', 0.29, 10]]
    """
    target = Path(path)
    schema = schema_for("results")
    content = pa.Table.from_batches(batches_of(_plain(rows), schema, where=target.name), schema=schema.arrow)
    for name, kind in schema.columns:
        if kind == "float64" and any(value != value for value in content[name].to_pylist() if value is not None):
            raise InputError(f"{target}: column {name!r} holds NaN; leave it empty and say why in the notes")
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(target) as file:
        pq.write_table(content, file, compression="zstd")
    return target


def read_results(path: str | Path) -> pd.DataFrame:
    """The results in ``path``: that file, or ``results.parquet`` in that folder.

    Files from before the columns of facts (``dropped``, ``published``, ``side``, ``codes``) are read as if these were
    empty.
    """
    source = Path(path)
    if source.is_dir():
        source = source / "results.parquet"
    schema = schema_for("results")
    if not set(_FACTS).intersection(open_parquet(source).schema_arrow.names):
        schema = TableSchema(schema.kind, (), tuple(c for c in schema.columns if c[0] not in _FACTS))
    content = read_columns(source, schema.names, schema)
    try:
        content.validate(full=True)  # text that is not UTF-8 would be met wherever it is read
    except pa.ArrowInvalid as error:
        raise InputError(f"{source}: damaged ({one_line(error)}); measure it again") from None
    frame: pd.DataFrame = content.to_pandas(types_mapper=_nullable)
    return frame.assign(**{name: None for name in _FACTS if name not in frame})


def _nullable(kind: Any) -> Any:
    """Whole numbers stay whole where some are missing."""
    return pd.Int64Dtype() if kind == pa.int64() else None


def _plain(rows: Any) -> Any:
    if hasattr(rows, "to_pandas") or hasattr(rows, "to_numpy") or isinstance(rows, Mapping):
        return rows
    return (dataclasses.asdict(r) if dataclasses.is_dataclass(r) and not isinstance(r, type) else r for r in rows)


_EXAMPLES = 5


@dataclass(frozen=True)
class TableDiff:
    """The difference between two tables, by the key of their kind (``image_id`` for images)."""

    n_a: int
    n_b: int
    n_only_a: int
    n_only_b: int
    only_a: tuple[str, ...]
    """The first few keys that only the first table has."""
    only_b: tuple[str, ...]
    columns_only_a: tuple[str, ...]
    columns_only_b: tuple[str, ...]
    changed: Mapping[str, int] = field(default_factory=dict)
    """How many rows of both tables differ, by column; columns without a difference are left out."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """One changed row of each such column, as text."""

    @property
    def same(self) -> bool:
        """Whether the tables hold the same rows and columns, in whatever order."""
        return not (self.n_only_a or self.n_only_b or self.columns_only_a or self.columns_only_b or self.changed)


def diff(a: Table, b: Table) -> TableDiff:
    """Compare two tables of the same kind row by row, joined by their key; the order of rows does not matter.

    Images are compared by their bytes and path. One column of each table is in memory at a time (of images, only a
    hash per row).

    Args:
        a: one table, of a kind whose rows have a key (images, a layer, embeddings or scores).
        b: the other, of the same kind.

    Returns:
        The rows and columns that only one of them has, and how many rows of both differ in each column.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> a = Table.create(folder + "/a", [{"image_id": "1", "seed": 1}, {"image_id": "2", "seed": 2}])
    >>> b = Table.create(folder + "/b", [{"image_id": "2", "seed": 5}, {"image_id": "3", "seed": 3}])
    >>> found = diff(a, b)
    >>> found.only_a, found.only_b, found.changed, found.examples
    (('1',), ('3',), {'seed': 1}, {'seed': '2: 2 -> 5'})
    """
    if a.kind != b.kind:
        raise InputError(
            f"{a.path} is a table of kind {a.kind!r} and {b.path} of kind {b.kind!r}; compare like with like"
        )
    if not a.schema.key:
        raise InputError(f"a table of kind {a.kind!r} has no key to compare rows by")
    keys_a, keys_b = _keys(a), _keys(b)
    in_b = pc.index_in(keys_a, value_set=keys_b)
    both = pc.is_valid(in_b)
    only_a = keys_a.filter(pc.invert(both))
    only_b = keys_b.filter(pc.invert(pc.is_in(keys_b, value_set=keys_a)))
    rows_a = pa.array(np.flatnonzero(both.to_numpy(zero_copy_only=False)))
    rows_b = in_b.filter(both)
    changed, examples = {}, {}
    for name in a.columns:
        if name in a.schema.key or name not in b.columns:
            continue
        differs = np.flatnonzero(_differs(_values(a, name).take(rows_a), _values(b, name).take(rows_b)))
        if len(differs):
            changed[name] = len(differs)
            examples[name] = _example(
                a, b, name, keys_a, int(rows_a[differs[0]].as_py()), int(rows_b[differs[0]].as_py())
            )
    return TableDiff(
        n_a=len(a),
        n_b=len(b),
        n_only_a=len(only_a),
        n_only_b=len(only_b),
        only_a=tuple(_shown_key(key) for key in only_a[:_EXAMPLES].to_pylist()),
        only_b=tuple(_shown_key(key) for key in only_b[:_EXAMPLES].to_pylist()),
        columns_only_a=tuple(name for name in a.columns if name not in b.columns),
        columns_only_b=tuple(name for name in b.columns if name not in a.columns),
        changed=changed,
        examples=examples,
    )


def _keys(table: Table) -> Any:
    """The key of each row as one text; keys of several columns are joined by a character that text does not hold."""
    content = table.to_arrow(list(table.schema.key))
    columns = [content[name].combine_chunks() for name in table.schema.key]
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, "\x1f")


def _shown_key(key: str) -> str:
    return key.replace("\x1f", ", ")


def _values(table: Table, name: str) -> Any:
    if table.types[name] != "image":
        return table.to_arrow([name])[name].combine_chunks()
    return pa.array(_digests(table, name), pa.binary(16))


def _digests(table: Table, name: str) -> Iterator[bytes | None]:
    for batch in table.batches([name]):
        for value in batch.column(name):
            image = value.as_py()
            yield None if image is None else _digest(image["bytes"], image["path"])


def _digest(data: bytes | None, path: str | None) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((path, data is None, len(data or b""))).encode())
    digest.update(data or b"")
    return digest.digest()


def _differs(left: Any, right: Any) -> Any:
    if pa.types.is_nested(left.type) or not left.type.equals(right.type):
        return np.array([x != y for x, y in zip(left.to_pylist(), right.to_pylist(), strict=True)], dtype=bool)
    unequal = pc.fill_null(pc.not_equal(left, right), False)
    one_null = pc.xor(pc.is_null(left), pc.is_null(right))
    if pa.types.is_floating(left.type):
        unequal = pc.and_(unequal, pc.invert(pc.and_(_nan(left), _nan(right))))
    return pc.or_(unequal, one_null).to_numpy(zero_copy_only=False)


def _nan(column: Any) -> Any:
    return pc.fill_null(pc.is_nan(column), False)


def _example(a: Table, b: Table, name: str, keys: Any, row_a: int, row_b: int) -> str:
    key = _shown_key(keys[row_a].as_py())
    if a.types[name] == "image":
        return f"{key}: another image"
    before, after = (t.to_arrow([name])[name][row].as_py() for t, row in ((a, row_a), (b, row_b)))
    return f"{key}: {_short(before)} -> {_short(after)}"


def _short(value: Any) -> str:
    text = "empty" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
