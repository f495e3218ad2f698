"""Hugging Face Parquet, any dataset: say which column is which; SocialCounterfactuals is described already.

An image is a struct ``{bytes, path}`` (the Hugging Face convention), bytes, or a path below the file's folder. A column
that ``datasets`` stores as class numbers (``ClassLabel``) is read with its names.

The preset ``social-counterfactuals`` is for ``Intel/SocialCounterfactuals``: ``image``, ``caption``,
``counterfactual_set``, and two axes per image, named by ``a1_type`` and ``a2_type`` with their groups in ``a1`` and
``a2``. These names are those that public code reads from the dataset; the files could not be seen here. The subject
is the caption's text after the second group, as in "A picture of an Indian male plumber".
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.data.readers.files.parquet import (
    class_names,
    name_below,
    parquet_files,
    parquet_records,
    schema_of,
    type_text,
    value_counts,
)
from equipoise.data.readers.files.records import ReaderShape, name_list, pairs, split_named
from equipoise.data.readers.files.values import (
    GivenIds,
    Pictures,
    RowError,
    attempt,
    group,
    identifier,
    number,
    row,
    text,
)
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError, UnknownNameError

_TEXTS = ("caption", "subject", "label_source", "generator", "split")
_IDS = ("image_id", "source_id", "set_id")
_OURS = ("image", *_IDS, *_TEXTS, "captions")


@dataclass(frozen=True)
class ColumnMap:
    """Which column of the file is which of ours."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Our name to theirs: image, image_id, source_id, set_id, caption, captions, subject, split, or an axis."""
    axes: tuple[str, ...] = ()
    typed_axes: tuple[tuple[str, str], ...] = ()
    """Pairs of columns: one names the axis of the row, the other the group on it."""
    id_from: tuple[str, ...] = ()
    """Columns that together make the image id."""
    subject_after: str | None = None
    """The subject is the caption's text after the group in this column."""
    label_source: str | None = None
    extra: tuple[str, ...] = ()
    """Further columns to keep under their own names."""


PRESETS = {
    "social-counterfactuals": ColumnMap(
        columns={"image": "image", "caption": "caption", "set_id": "counterfactual_set"},
        axes=("race", "gender", "physical"),
        typed_axes=(("a1_type", "a1"), ("a2_type", "a2")),
        id_from=("counterfactual_set", "a1", "a2"),
        subject_after="a2",
        label_source="prompt",
    )
}


def read(
    path: str | os.PathLike[str],
    *,
    preset: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    axes: str | Iterable[str] = (),
    extra: str | Iterable[str] = (),
    label_source: str | None = None,
) -> Iterator[Row | Rejected]:
    """One row per row of the files. ``path``: a Parquet file, or a folder of them (searched below).

    ``columns``: our names to the file's, as a mapping or as text ``"caption=text,gender=sex"``; a column with one of
    our names is found by itself. ``axes``: which columns are groups. ``extra``: further columns to keep. A
    ``preset`` says all of these, so none is given beside it.
    """
    files = parquet_files(path)
    plan = _plan(files, preset, columns, axes, extra, label_source)
    wanted = [*plan.columns.values(), *(name for pair in plan.typed_axes for name in pair), *plan.id_from, *plan.extra]
    if not wanted:
        raise InputError(f"no column of {path} is known; say which is which with columns='image=...,caption=...'")
    schema = schema_of(files)
    names = class_names(schema)
    kinds = _further(schema, plan)
    labels = ReaderShape().with_labels(_label_counts(files, plan))
    seen = GivenIds()
    for record in parquet_records(files, wanted):
        if isinstance(record, Rejected):
            yield record
        else:
            file, i, values = record
            place = name_below(path, file)
            yield attempt(f"{file.name} row {i}", _row, values, file, place, i, plan, names, kinds, labels, seen=seen)


def shape(path: str | os.PathLike[str], **options: Any) -> ReaderShape:
    """The axes and further columns of the rows that :func:`read` gives with the same options."""
    files = parquet_files(path)
    plan = _plan(files, **options)
    return ReaderShape(plan.axes, _further(schema_of(files), plan)).with_labels(_label_counts(files, plan))


def _further(schema: Any, plan: ColumnMap) -> dict[str, str]:
    """The further columns that are there, with their types."""
    return {name: type_text(schema.field(name).type) for name in plan.extra if name in schema.names}


def _label_counts(files: list[Path], plan: ColumnMap) -> dict[str, Counter[Any]]:
    """How often each cell occurs on the axes that have a column of their own; only those columns are read."""
    columns = {axis: plan.columns[axis] for axis in plan.axes if axis in plan.columns}
    counts: dict[str, Counter[Any]] = {axis: Counter() for axis in columns}
    if not columns:
        return counts
    names = class_names(schema_of(files))
    for axis, theirs in columns.items():
        if theirs not in names:  # class names are spelled once, in the file's description
            counts[axis].update(value_counts(files, theirs))
    return counts


def _plan(
    files: list[Path],
    preset: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    axes: str | Iterable[str] = (),
    extra: str | Iterable[str] = (),
    label_source: str | None = None,
) -> ColumnMap:
    if preset is not None:
        if preset not in PRESETS:
            raise UnknownNameError("preset", preset, PRESETS)
        options = {"columns": columns, "axes": axes, "extra": extra, "label_source": label_source}
        for option, value in options.items():
            if value:
                raise InputError(f"{option}= was given beside preset={preset!r}, which says it already; leave one out")
        return PRESETS[preset]
    schema = schema_of(files)
    there = schema.names
    given = pairs(columns, "columns") if columns is not None else {}
    groups = name_list(axes, "axes")
    known = {name: name for name in (*_OURS, *groups) if name in there} | given
    for name, theirs in known.items():
        if name not in (*_OURS, *groups):
            raise InputError(
                f"columns names {name!r}, which is not a column of ours; if it is an axis, add it to axes="
            )
        if theirs not in there:
            raise InputError(
                f"columns says {name!r} is {theirs!r}, but the columns of the file are: {', '.join(there)[:300]}"
            )
    for axis in groups:
        if axis not in known:
            raise InputError(f"axes names {axis!r}, but no column is that axis; add columns='{axis}=...'")
    named = class_names(schema)
    for axis in groups:
        kind = type_text(schema.field(known[axis]).type)
        if kind not in ("string", "int64", "float64") and known[axis] not in named:
            raise InputError(
                f"the axis {axis!r} is the column {known[axis]!r}, which holds neither text nor numbers; write the "
                "groups as text first"
            )
    return ColumnMap(known, groups, extra=name_list(extra, "extra"), label_source=label_source)


def _row(
    values: dict[str, Any],
    file: Path,
    place: str,
    i: int,
    plan: ColumnMap,
    names: Mapping[str, list[str]],
    kinds: Mapping[str, str],
    labels: ReaderShape,
) -> Row:
    def get(ours: str) -> Any:
        theirs = plan.columns.get(ours)
        return None if theirs is None else _named(values[theirs], names.get(theirs), theirs)

    cells = row(image=_image(get("image"), file) if "image" in plan.columns else None)
    cells |= {name: None if (v := get(name)) is None else text(v, name) for name in _TEXTS if name in plan.columns}
    cells |= {name: None if (v := get(name)) is None else identifier(v, name) for name in _IDS if name in plan.columns}
    cells |= dict.fromkeys(plan.axes)
    cells |= {axis: labels.group(axis, group(get(axis), axis)) for axis in plan.axes if axis in plan.columns}
    for kind_column, group_column in plan.typed_axes:
        cells[_axis(values[kind_column], plan.axes)] = group(values[group_column], group_column)
    if plan.id_from:
        cells["image_id"] = "-".join(identifier(values[name], name) for name in plan.id_from)
    cells["image_id"] = cells["image_id"] or f"{place}-{i:07d}"
    cells["captions"] = _captions(get("captions"), cells["caption"])
    cells["caption"] = cells["caption"] or next(iter(cells["captions"]), None)
    if plan.subject_after:
        cells["subject"] = _after(cells["caption"], values[plan.subject_after])
    cells["split"] = cells["split"] or _split(place)
    cells["label_source"] = cells["label_source"] or plan.label_source
    return cells | {name: _kept(values[name], kind, name) for name, kind in kinds.items()}


def _split(place: str) -> str | None:
    """The split that the file, or else the nearest folder, is named after.

    >>> _split("default/partial-test/0000"), _split("data/train-00000-of-00061"), _split("0000")
    ('test', 'train', None)
    """
    parts = (part.removeprefix("partial-") for part in reversed(place.split("/")))
    return next((name for part in parts if (name := split_named(part))), None)


def _named(value: Any, names: list[str] | None, column: str) -> Any:
    if names is None or not isinstance(value, int) or isinstance(value, bool):
        return value
    if value == -1:
        return None
    if not 0 <= value < len(names):
        raise RowError(f"column {column!r} has class {value}, but there are {len(names)} classes")
    return names[value]


def _image(value: Any, file: Path) -> dict[str, Any]:
    if isinstance(value, bytes):
        value = {"bytes": value, "path": None}
    if isinstance(value, str):
        value = {"bytes": None, "path": value}
    if not isinstance(value, dict) or not (value.get("bytes") or value.get("path")):
        raise RowError("there is no image")
    data, path = value.get("bytes"), value.get("path")
    if data:
        if not isinstance(data, bytes):
            raise RowError("the image is not bytes")
        return {"bytes": data, "path": text(path, "image path") if path else None}
    cell = Pictures(file.parent).cell(text(path, "image path"))
    assert cell is not None
    return cell


def _axis(value: Any, axes: tuple[str, ...]) -> str:
    name = text(value, "name of the axis").casefold()
    match = next((axis for axis in axes if name == axis or name.startswith(axis)), None)
    if match is None:
        raise RowError(f"the axis is {name[:40]!r}; {', '.join(axes)} are expected")
    return match


def _captions(value: Any, caption: str | None) -> list[str]:
    if value is None:
        return [caption] if caption else []
    if not isinstance(value, list):
        raise RowError("the captions are not a list")
    return [text(v, "caption") for v in value]


def _after(caption: str | None, word: Any) -> str | None:
    if caption is None or not isinstance(word, str):
        return None
    _, separator, after = caption.rpartition(f" {word} ")
    return after.strip() or None if separator else None


def _kept(value: Any, kind: str, name: str) -> Any:
    if value is None:
        return None
    if kind == "float64":
        return number(value, name)
    if kind == "string":
        return text(value, name) if value.strip() else None
    if kind == "list<string>":
        return [None if v is None else text(v, name) for v in value]
    if kind == "json":
        try:
            return json.dumps(value, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise RowError(f"column {name!r} cannot be kept as JSON: {error}") from error
    return value
