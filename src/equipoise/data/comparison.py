"""What differs between two tables: rows that only one has, and columns that changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from equipoise.data.table import Table
from equipoise.errors import InputError

__all__ = ["TableDiff", "diff"]

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
    hash a row).

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
    made = hashlib.blake2b(digest_size=16)
    made.update(repr((path, data is None, len(data or b""))).encode())
    made.update(data or b"")
    return made.digest()


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
