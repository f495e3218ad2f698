"""Rows into Arrow batches: every value is checked against its column's type, and the first wrong one is named.

Arrow itself would cut 3.5 down to 3 and take bytes for text; here a value of the wrong type is an error that names
the row, the column, the type expected and the value found.
"""

from __future__ import annotations

import json
import math
import numbers
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from equipoise.data.schema import TableSchema, arrow_type, type_name
from equipoise.errors import InputError, closest
from equipoise.text.labels import is_missing, label_text

_ROWS_AT_ONCE = 100
"""How many rows become one batch: as many images as are held in memory at once."""


def checked_row(row: Mapping[str, Any], schema: TableSchema) -> dict[str, Any]:
    """``row`` with every value in the form its column stores it; :class:`InputError` says which value is wrong.

    >>> from equipoise.data.schema import schema_for
    >>> row = checked_row({"image_id": "a", "params": {"steps": 20}}, schema_for("images"))
    >>> row["params"]
    '{"steps": 20}'
    >>> checked_row({"image_id": "a", "seed": 1.5}, schema_for("images"))
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: column 'seed' expects int64 but found 1.5 (float)
    """
    if not isinstance(row, Mapping):
        raise InputError(f"a row is a mapping from column to value, not {_shown(row)}")
    checked: dict[str, Any] = {}
    types = schema.types
    for name, value in row.items():
        if name not in types:
            near = closest(str(name), types, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "declare it with columns={name: type} or leave it out"
            raise InputError(f"column {name!r} is not in the table's schema; {hint}")
        if value is None:
            checked[name] = None
            continue
        try:
            convert = _as_label if name in schema.axes else _converter(types[name])
            checked[name] = convert(value)
        except _WrongTypeError as error:
            if _is_no_value(value, types[name]):
                checked[name] = None
                continue
            reason = f" {error}" if str(error) else ""
            raise InputError(f"column {name!r} expects {types[name]} but found {_shown(value)}{reason}") from None
    for name in schema.never_null:
        value = checked.get(name)
        if value is None or (isinstance(value, str) and not value):
            raise InputError(f"column {name!r} is empty, and every row must fill it")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"column {name!r} is {value}, and every row must hold a finite number there")
    return checked


def _is_no_value(value: Any, kind: str) -> bool:
    """Whether a value of a record says that there is none, as in a DataFrame: NaN in a column that holds no floats."""
    return not kind.startswith(("float", "vector")) and not hasattr(value, "__len__") and is_missing(value)


def record_batch(rows: Sequence[Mapping[str, Any]], schema: TableSchema, *, where: str = "") -> Any:
    """``rows`` as one Arrow ``RecordBatch`` with all columns of ``schema`` (absent ones are null)."""
    checked = []
    for position, row in enumerate(rows):
        try:
            checked.append(checked_row(row, schema))
        except InputError as error:
            name = _row_name(row, schema) or f"row {position}"
            raise InputError(f"{where + ': ' if where else ''}{name}: {error}") from None
    arrays = [pa.array([row.get(name) for row in checked], arrow_type(kind)) for name, kind in schema.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def batches_of(data: Any, schema: TableSchema, *, where: str = "") -> Iterator[Any]:
    """Arrow batches that conform to ``schema``, from rows, an Arrow table or batch, or a pandas DataFrame.

    Rows may come from a generator; only a hundred are held at a time. An iterable of Arrow batches works too.
    """
    if type(data).__module__.partition(".")[0] == "pandas":
        data = _from_pandas(data, where)
    if isinstance(data, pa.Table):
        yield from conform(data, schema, where=where).to_batches()
        return
    if isinstance(data, pa.RecordBatch):
        data = [data]
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise InputError(f"rows must be an iterable of rows, an Arrow table or a DataFrame, not {_shown(data)}")
    rest = iter(data)
    for first in rest:
        if isinstance(first, pa.RecordBatch):
            yield from conform(pa.Table.from_batches([first]), schema, where=where).to_batches()
        else:
            yield record_batch([first, *islice(rest, _ROWS_AT_ONCE - 1)], schema, where=where)


def with_own_columns(data: Any) -> tuple[Any, dict[str, str]]:
    """Arrow data or a DataFrame as an Arrow table, and its columns but ``image_id`` with the types that store them.

    >>> with_own_columns(pa.table({"image_id": ["a"], "score_x": pa.array([1], pa.int32())}))[1]
    {'score_x': 'int64'}
    """
    if type(data).__module__.partition(".")[0] == "pandas":
        data = _from_pandas(data, "")
    if not isinstance(data, pa.Table | pa.RecordBatch):
        raise InputError("rows need columns=[...] (names) or columns={name: type}, so that their columns are known")
    return data, {field.name: _stored_as(field.type) for field in data.schema if field.name != "image_id"}


def _stored_as(kind: Any) -> str:
    if pa.types.is_dictionary(kind):
        return _stored_as(kind.value_type)
    if pa.types.is_null(kind):
        return "string"
    simple = {"text": "string", "int": "int64", "float": "float64"}
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _family(kind.value_type) in simple:
        return f"list<{simple[_family(kind.value_type)]}>"
    return simple.get(_family(kind), type_name(kind))


def _from_pandas(frame: Any, where: str) -> Any:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = "; ".join(str(part) for part in error.args)
        raise InputError(f"{where + ': ' if where else ''}the DataFrame mixes types in a column: {reason}") from None


def conform(table: Any, schema: TableSchema, *, where: str = "") -> Any:
    """An Arrow table with exactly the columns of ``schema``: absent ones are null, safe casts are made.

    Text stays text and a number is never cut: what cannot be stored without loss is refused by column.
    """
    prefix = f"{where}: " if where else ""
    unknown = [name for name in table.column_names if name not in schema.types]
    if unknown:
        near = closest(unknown[0], schema.types, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; declare it with columns={name: type}"
        raise InputError(f"{prefix}column {unknown[0]!r} is not in the table's schema{hint}")
    columns = []
    for name, kind in schema.columns:
        wanted = arrow_type(kind)
        if name not in table.column_names:
            columns.append(pa.chunked_array([pa.nulls(len(table), wanted)], wanted))
            continue
        column = _label_column(table[name]) if name in schema.axes else table[name]
        if kind == "image" and not column.type.equals(wanted):
            values = column.to_pylist()
            column = pa.chunked_array([record_image_column(values, prefix, name)])
        columns.append(_safe_cast(column, wanted, kind, f"{prefix}column {name!r}"))
    conformed = pa.Table.from_arrays(columns, schema=schema.arrow)
    for name in schema.never_null:
        if conformed[name].null_count:
            raise InputError(f"{prefix}column {name!r} is empty in some rows, and every row must fill it")
        if not _finite(conformed[name], schema.types[name]):
            raise InputError(f"{prefix}column {name!r} holds values that are not finite")
    return conformed


def _label_column(column: Any) -> Any:
    """A column of groups with whole numbers as text; what is no whole number stays, and is refused by its type."""
    if _family(column.type) not in ("int", "float"):
        return column
    cells = [None if cell is None or cell != cell else cell for cell in column.to_pylist()]
    if any(cell is not None and (not math.isfinite(cell) or not float(cell).is_integer()) for cell in cells):
        return column
    return pa.chunked_array([pa.array([None if cell is None else label_text(cell) for cell in cells], pa.string())])


def _finite(column: Any, kind: str) -> bool:
    """Whether a vector or score can be computed with; other columns always can."""
    if kind.startswith("vector<"):
        values = [chunk.flatten() for chunk in column.chunks]
    elif kind in ("float32", "float64"):
        values = column.chunks
    else:
        return True
    return all(bool(np.isfinite(part.to_numpy(zero_copy_only=False)).all()) for part in values)


def record_image_column(values: Sequence[Any], prefix: str, name: str) -> Any:
    """Image values of any accepted form as an Arrow struct array."""
    try:
        cells = [None if value is None else _as_image(value) for value in values]
    except _WrongTypeError as error:
        raise InputError(f"{prefix}column {name!r} expects image but found a value that is not one {error}") from None
    return pa.array(cells, arrow_type("image"))


def _safe_cast(column: Any, wanted: Any, kind: str, what: str) -> Any:
    arrow = column.type
    if arrow.equals(wanted):
        return column.cast(wanted)  # only the names of inner fields may differ
    if pa.types.is_dictionary(arrow):
        column, arrow = column.cast(arrow.value_type), arrow.value_type
    if len(column) and column.null_count == len(column):  # a column of NaN alone has pandas call it numbers
        return pa.chunked_array([pa.nulls(len(column), wanted)], wanted)
    both_numbers = {_family(arrow), _family(wanted)} <= {"int", "float"}  # the cast refuses to lose anything
    if pa.types.is_null(arrow) or both_numbers or _family(arrow) == _family(wanted):
        try:
            return column.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{what} expects {kind} but found {type_name(arrow)}: {reason}") from None
    raise InputError(f"{what} expects {kind} but found {type_name(arrow)}")


def _family(arrow: Any) -> str:
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or str(arrow) == "string_view":
        return "text"
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
        return "binary"
    if pa.types.is_integer(arrow):
        return "int"
    if pa.types.is_floating(arrow):
        return "float"
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return f"list of {_family(arrow.value_type)}"
    return str(arrow)


class _WrongTypeError(Exception):
    """A value does not fit its column; the text, if any, says why."""


def _row_name(row: Any, schema: TableSchema) -> str:
    if not isinstance(row, Mapping):
        return ""
    parts = [f"{name} {row[name]!r}" for name in schema.key if isinstance(row.get(name), str) and row[name]]
    return ", ".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


@cache
def _converter(kind: str) -> Callable[[Any], Any]:
    simple: dict[str, Callable[[Any], Any]] = {
        "string": _as_text,
        "json": _as_json,
        "int64": _as_int,
        "float64": _as_float,
        "float32": _as_float,
        "bool": _as_bool,
        "binary": _as_bytes,
        "image": _as_image,
    }
    if kind in simple:
        return simple[kind]
    if match := re.fullmatch(r"list<(.+)>", kind):
        element = _converter(match[1])
        return lambda value: _as_list(value, element)
    length = int(kind[len("vector<") : -1])
    return lambda value: _as_vector(value, length)


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongTypeError
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _WrongTypeError("which is not valid Unicode") from None
    return str(value)


def _as_label(value: Any) -> str:
    """A group as text; whole numbers, which many datasets code groups with, are named as they are written."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        return _as_text(value)
    if not math.isfinite(value) or not float(value).is_integer():
        raise _WrongTypeError
    return label_text(value)


def _as_json(value: Any) -> str:
    if isinstance(value, str):
        return _json_text(value)
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _WrongTypeError(f"which is not JSON: {error}") from None


def _json_text(value: str) -> str:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        raise _WrongTypeError("which is not JSON") from None
    return _as_text(value)


def _as_int(value: Any) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise _WrongTypeError
    if not -(2**63) <= int(value) < 2**63:
        raise _WrongTypeError("which does not fit in 64 bits")
    return int(value)


def _as_float(value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise _WrongTypeError
    return float(value)


def _as_bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _WrongTypeError
    return bool(value)


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _WrongTypeError
    return bytes(value)


def _as_list(value: Any, element: Callable[[Any], Any]) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _WrongTypeError
    return [None if item is None else element(item) for item in value]


def _as_vector(value: Any, length: int) -> Any:
    try:
        vector = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        raise _WrongTypeError from None
    if vector.shape != (length,):
        raise _WrongTypeError(f"of shape {vector.shape}")
    if not math.isfinite(float(np.abs(vector).sum(dtype=np.float64))):
        raise _WrongTypeError("which holds values that are not finite")
    return vector


def _as_image(value: Any) -> dict[str, Any]:
    """``{bytes, path}`` from that, from encoded bytes, from a path, or from a Pillow image (stored as PNG)."""
    if isinstance(value, Mapping):
        if not set(value) <= {"bytes", "path"}:
            raise _WrongTypeError("with keys other than 'bytes' and 'path'")
        data, path = value.get("bytes"), value.get("path")
        return {
            "bytes": None if data is None else _as_bytes(data),
            "path": None if path is None else _as_text(os.fspath(path) if isinstance(path, os.PathLike) else path),
        }
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value), "path": None}
    if isinstance(value, str | os.PathLike):
        return {"bytes": None, "path": _as_text(os.fspath(value))}
    if hasattr(value, "save") and hasattr(value, "convert"):
        from equipoise.data.images import encode

        return {"bytes": encode(value), "path": None}
    raise _WrongTypeError
