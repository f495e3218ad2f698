"""What flows between a reader and a table: rows, and rows that were rejected with a reason.

What a table's columns are: the kinds of table, their column types, and what other tools are told about them.

A type is written as text (``"string"``, ``"float64"``, ``"list<string>"``, ``"vector<512>"``, …) so that it can stand
in ``_table.json`` and in an error message; :func:`arrow_type` gives the Arrow type it means.

>>> schema_for("images", axes=["gender"]).type_of("gender")
'string'
>>> schema_for("embeddings", dim=512).type_of("vector")
'vector<512>'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from equipoise.errors import InputError, UnknownNameError

SCHEMA_VERSION = 1

AXES = ("gender", "race", "age", "skin_tone", "physical")
"""The axes that the public datasets label most; a table may have any others."""

_BEFORE_AXES = {
    "image": "image",
    "image_id": "string",
    "source_id": "string",
    "set_id": "string",
    "caption": "string",
    "captions": "list<string>",
    "subject": "string",
}
_AFTER_AXES = {
    "label_source": "string",
    "generator": "string",
    "params": "json",
    "seed": "int64",
    "split": "string",
}
_VERDICT = {"keep": "bool", "dropped_by": "string"}

RESULT_COLUMNS = {
    **dict.fromkeys(("metric", "variant", "suite", "pool", "model", "subject", "axis", "group"), "string"),
    "k": "int64",
    **dict.fromkeys(("value", "null_mean", "null_sd", "excess", "ci_low", "ci_high", "p_value"), "float64"),
    "n": "int64",
    "n_groups": "int64",
    "notes": "string",
    "dropped": "json",
    "published": "float64",
    "side": "string",
    "codes": "json",
}
"""The columns of a results table; the last four came later, and an older file may lack them."""

_SMALL_KINDS: dict[str, dict[str, str]] = {
    "embeddings": {"id": "string", "vector": "vector<0>", "model": "string"},
    "scores": {"image_id": "string", "text_id": "string", "score": "float64"},
    "captions": {"image_id": "string", "model": "string", "caption": "string"},
    "labels": {"image_id": "string", "annotator": "string", "question": "string", "answer": "string"},
    "results": RESULT_COLUMNS,
}

KINDS = ("images", "layer", *_SMALL_KINDS)

_KEYS: dict[str, tuple[str, ...]] = {
    "images": ("image_id",),
    "layer": ("image_id",),
    "embeddings": ("id", "model"),
    "scores": ("image_id", "text_id"),
}
_NEVER_NULL: dict[str, tuple[str, ...]] = {
    **_KEYS,
    "embeddings": ("id", "vector", "model"),
    "scores": ("image_id", "text_id", "score"),
    "captions": ("image_id", "model"),
    "labels": ("image_id", "annotator", "question"),
    "results": ("metric",),
}

_SIMPLE_TYPES: dict[str, Any] = {
    "string": pa.string(),
    "json": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "bool": pa.bool_(),
    "binary": pa.binary(),
    "image": pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())]),
}
_COLUMN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class TableSchema:
    """The kind of a table, its axes, and its columns in order with their types as text."""

    kind: str
    axes: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]

    @cached_property
    def types(self) -> dict[str, str]:
        """Type by column name, in the order of the file."""
        return dict(self.columns)

    @property
    def names(self) -> list[str]:
        """The column names in the order of the file."""
        return list(self.types)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that together name a row; empty where rows need no name."""
        return _KEYS.get(self.kind, ())

    @property
    def never_null(self) -> tuple[str, ...]:
        """The columns that every row must fill."""
        return _NEVER_NULL[self.kind]

    def type_of(self, column: str) -> str:
        """The type of ``column``; an unknown one is answered with the closest names."""
        if column not in self.types:
            raise UnknownNameError(f"column of a table of kind {self.kind!r}", column, self.types)
        return self.types[column]

    @cached_property
    def arrow(self) -> Any:
        """The Arrow schema of a shard, with what Hugging Face ``datasets`` wants to know in its metadata."""
        fields = [pa.field(name, arrow_type(kind)) for name, kind in self.columns]
        features = {name: _feature(kind) for name, kind in self.columns}
        own = {"schema_version": SCHEMA_VERSION, "kind": self.kind, "axes": list(self.axes)}
        return pa.schema(
            fields,
            metadata={
                b"equipoise": json.dumps(own, sort_keys=True).encode(),
                b"huggingface": json.dumps({"info": {"features": features}}).encode(),
            },
        )


def schema_for(
    kind: str = "images",
    *,
    axes: Iterable[str] = (),
    columns: Mapping[str, str] | Iterable[str] = (),
    dim: int | None = None,
) -> TableSchema:
    """The schema of a table.

    Args:
        kind: of table, one of ``KINDS``.
        axes: attributes that groups are shown on, each a text column (kinds ``images`` and ``layer``).
        columns: further columns, as ``{name: type}`` or, for columns whose type is known by name (``score_*``,
            ``keep``, ``dropped_by``, ``split``, …), as names alone.
        dim: length of the vectors (kind ``embeddings``, which needs it).

    Returns:
        The schema, with the columns of the kind, the axes and the further columns.

    >>> schema_for("layer", columns=["score_sharpness", "keep", "dropped_by"]).names
    ['image_id', 'score_sharpness', 'keep', 'dropped_by']
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of table", kind, KINDS)
    if isinstance(axes, str):
        raise InputError(f"axes must be a list of names, not the text {axes!r}; write axes=[{axes!r}]")
    if isinstance(columns, str):
        raise InputError(f"columns must be a list of names, not the text {columns!r}; write columns=[{columns!r}]")
    axes = tuple(axes)
    if axes and kind not in ("images", "layer"):
        raise InputError(f"a table of kind {kind!r} has no axes, but axes={list(axes)} was given")
    types = _base_columns(kind, axes, dim)
    further = columns if isinstance(columns, Mapping) else {name: _type_by_name(name) for name in columns}
    for name, type_text in further.items():
        if name in types:
            raise InputError(f"column {name!r} is in every table of kind {kind!r} already; do not declare it")
        arrow_type(type_text)
        types[name] = type_text
    for name in types:
        if not _COLUMN_NAME.match(name):
            raise InputError(
                f"column name {name!r} is not usable; use letters, digits and '_', beginning with a letter"
            )
    return TableSchema(kind, axes, tuple(types.items()))


def _base_columns(kind: str, axes: tuple[str, ...], dim: int | None) -> dict[str, str]:
    if kind == "images":
        fixed = _BEFORE_AXES | _AFTER_AXES | _VERDICT
        _check_axes(axes, fixed)
        return {**_BEFORE_AXES, **dict.fromkeys(axes, "string"), **_AFTER_AXES}
    if kind == "layer":
        _check_axes(axes, {"image_id": "string"})
        return {"image_id": "string", **dict.fromkeys(axes, "string")}
    columns = dict(_SMALL_KINDS[kind])
    if kind == "embeddings":
        if dim is None or dim < 1:
            raise InputError(f"an embeddings table needs the length of its vectors, but dim={dim!r} was given")
        columns["vector"] = f"vector<{dim}>"
    return columns


def _check_axes(axes: tuple[str, ...], taken: Mapping[str, str]) -> None:
    for position, axis in enumerate(axes):
        if axis in taken:
            raise InputError(f"axis {axis!r} has the name of a column that means something else; rename it")
        if axis in axes[:position]:
            raise InputError(f"axis {axis!r} is named twice")


def _type_by_name(name: str) -> str:
    known = _BEFORE_AXES | _AFTER_AXES | _VERDICT | dict.fromkeys(AXES, "string")
    if name.startswith("score_"):
        return "float64"
    if name not in known:
        raise InputError(f"the type of column {name!r} is not known; give it as {{{name!r}: 'string'}}")
    return known[name]


def arrow_type(type_text: str) -> Any:
    """The Arrow type that ``type_text`` means.

    >>> str(arrow_type("list<list<float64>>")).replace("item", "element")
    'list<element: list<element: double>>'
    """
    if type_text in _SIMPLE_TYPES:
        return _SIMPLE_TYPES[type_text]
    if match := re.fullmatch(r"list<(.+)>", type_text):
        return pa.list_(pa.field("element", arrow_type(match[1])))
    if match := re.fullmatch(r"vector<([1-9][0-9]*)>", type_text):
        return pa.list_(pa.field("element", pa.float32()), int(match[1]))
    known = [*_SIMPLE_TYPES, "list<string>", "vector<512>"]
    raise UnknownNameError("column type", type_text, known)


def type_name(arrow: Any) -> str:
    """The text for an Arrow type, as error messages say it.

    >>> type_name(arrow_type("vector<3>")), type_name(arrow_type("list<string>"))
    ('vector<3>', 'list<string>')
    """
    for name, known in _SIMPLE_TYPES.items():
        if arrow.equals(known):
            return name
    if pa.types.is_fixed_size_list(arrow) and arrow.value_type.equals(pa.float32()):
        return f"vector<{arrow.list_size}>"
    if pa.types.is_list(arrow):
        return f"list<{type_name(arrow.value_type)}>"
    return str(arrow)


def _feature(type_text: str) -> Any:
    """The Hugging Face feature of a type; ``Sequence`` is what old and new versions of ``datasets`` understand."""
    if type_text == "image":
        return {"_type": "Image"}
    if match := re.fullmatch(r"list<(.+)>", type_text):
        return {"_type": "Sequence", "feature": _feature(match[1])}
    if match := re.fullmatch(r"vector<(\d+)>", type_text):
        return {"_type": "Sequence", "length": int(match[1]), "feature": {"_type": "Value", "dtype": "float32"}}
    return {"_type": "Value", "dtype": {"json": "string"}.get(type_text, type_text)}


Row = dict[str, Any]
"""One image: values by column name, as :mod:`equipoise.data.schema` describes them."""


@dataclass(frozen=True)
class Rejected:
    """A row that cannot be used: where it stood, and why. It is kept in ``_errors/``, never dropped silently.

    >>> Rejected("captions.json: annotation 12", "image 99 is not in the file").reason
    'image 99 is not in the file'
    """

    where: str
    reason: str
    row: Mapping[str, Any] = field(default_factory=dict)


class DatasetReader(Protocol):
    """A function that reads one public dataset: yields a row for each image and a ``Rejected`` for each bad one.

    It raises :class:`equipoise.errors.InputError` only when nothing at all can be read (a missing file, JSON
    of the wrong shape).
    """

    def __call__(self, path: str, **options: Any) -> Iterator[Row | Rejected]:
        """Read ``path``; ``options`` are the reader's own."""
