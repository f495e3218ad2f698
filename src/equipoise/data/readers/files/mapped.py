"""Rows from records with names of their own: which field is which column of a table, and what type the rest has."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from equipoise.data.readers.files.bands import Bands
from equipoise.data.readers.files.records import ReaderShape, pairs
from equipoise.data.readers.files.values import RowError, group, identifier, number, optional_text, row, text, whole
from equipoise.data.schema import AXES, Row
from equipoise.errors import InputError, closest

_TEXTS = ("caption", "subject", "label_source", "generator", "split")
_IDS = ("source_id", "set_id")
_MAX_FURTHER = 2**22  # a further column may hold JSON: the masks of a crowd
OURS = ("image", "image_id", "captions", "params", "seed", *_TEXTS, *_IDS)
"""The columns of a table that a field can be."""


@dataclass(frozen=True)
class Mapped:
    """Which field of a record is which column of the table."""

    fields: Mapping[str, str]
    """By our name, the field's."""
    shape: ReaderShape
    further: Mapping[str, str] = field(default_factory=dict)
    """By the column that keeps it, each other field."""
    bands: Mapping[str, Bands] = field(default_factory=dict)
    """By field, the bands that its numbers are put into."""


def axes_named(axes: str | Iterable[str], option: str = "axes") -> dict[str, str]:
    """The field of each axis, from names and from pairs ``axis=field``.

    >>> axes_named("gender=sex, age")
    {'gender': 'sex', 'age': 'age'}
    """
    names = axes.split(",") if isinstance(axes, str) else list(axes)
    parts = [str(name).partition("=") for name in names if str(name).strip()]
    fields = {left.strip(): right.strip() or left.strip() for left, _, right in parts}
    if "" in fields:
        raise InputError(f"{option}={axes!r}: names are expected, or axis=column")
    return fields


def mapped(
    counts: Mapping[str, Counter[str]],
    labels: Mapping[str, Counter[Any]],
    where: str,
    *,
    columns: str | Mapping[str, str] | None,
    axes: str | Iterable[str] | None,
    guesses: Mapping[str, tuple[str, ...]],
) -> Mapped:
    """The plan for records whose fields have these ``counts`` of types and these ``labels``.

    ``columns`` says which field is which, ``guesses`` which names are taken for ours unasked. A name that no field has
    is refused with the closest.
    """
    kinds = {name: _elected(tally) for name, tally in counts.items()}
    named = pairs(columns, "columns") if columns is not None else {}
    groups = {axis: axis for axis in AXES if axis in kinds and axis not in named.values()}
    groups = groups if axes is None else axes_named(axes)
    groups = {axis: named.get(axis, name) for axis, name in groups.items()}
    for ours in named:
        if ours not in (*OURS, *groups):
            near = closest(ours, (*OURS, *AXES), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(OURS)}"
            raise InputError(f"a table has no column {ours!r} of its own; {hint} An axis is named with --axis")
    for ours, theirs in (named | groups).items():
        if theirs not in kinds:
            likely = [name for name in (ours, *guesses.get(ours, ())) if name in kinds]
            offered = _axis_offered(ours, theirs, kinds) if ours in groups else _offered(ours, theirs, kinds, likely)
            raise InputError(f"{where} has no column {theirs!r} for {ours!r}; {offered}")
    fields = {ours: named[ours] for ours in OURS if ours in named}
    taken = {*fields.values(), *groups.values()}
    for ours in OURS:
        names = (name for name in (ours, *guesses.get(ours, ())) if name in kinds and name not in taken)
        if ours not in fields and (guess := next(names, None)):
            fields[ours] = guess
            taken.add(guess)
    rest = [name for name in kinds if name not in taken]
    further = {_column(name): name for name in rest}
    if len(further) != len(rest):
        raise InputError(f"two columns of {where} have the same name except for punctuation; rename one")
    clash = [column for column in further if column in (*OURS, *groups)]
    further = {(f"{c}_" if c in clash else c): name for c, name in further.items()}
    shape = ReaderShape(tuple(groups), {column: kinds[name] for column, name in further.items()})
    shape = shape.with_labels({axis: labels.get(name, {}) for axis, name in groups.items()})
    return Mapped(fields | groups, shape, further)


def kinds_of(values: Mapping[str, Any], counts: dict[str, Counter[str]], labels: dict[str, Counter[Any]]) -> None:
    """Count the types of one record's values, and the values that could be labels."""
    for name, value in values.items():
        counts.setdefault(name, Counter())[_kind(value)] += 1
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            some = labels.setdefault(name, Counter())
            if value in some or len(some) <= MOST_LABELS:
                some[value] += 1


MOST_LABELS = 2000
"""A column of more values holds no groups: its values are not remembered."""


def mapped_row(values: Mapping[str, Any], plan: Mapped, *, image: Any, image_id: str, split: str | None = None) -> Row:
    """The row of one record; ``image_id`` and ``split`` where the record names none."""

    def get(ours: str) -> Any:
        return values.get(plan.fields[ours]) if ours in plan.fields else None

    cells = row(image=image, image_id=image_id)
    if not _is_empty(get("image_id")):
        cells["image_id"] = identifier(get("image_id"), "image_id")
    cells |= {key: _as_text(get(key), key) for key in _TEXTS if key in plan.fields}
    cells |= {key: None if _is_empty(get(key)) else identifier(get(key), key) for key in _IDS if key in plan.fields}
    cells["captions"] = _captions(get("captions"), cells["caption"])
    cells["caption"] = cells["caption"] or next(iter(cells["captions"]), None)
    cells["split"] = cells["split"] or split
    if not _is_empty(get("params")):
        params = get("params")
        cells["params"] = params if isinstance(params, str) else _json(params, "params")
    if not _is_empty(get("seed")):
        cells["seed"] = whole(get("seed"), "seed")
    cells |= {axis: plan.shape.group(axis, group(get(axis), axis)) for axis in plan.shape.axes}
    kinds = plan.shape.columns
    return cells | {column: _value(values.get(name), kinds[column], column) for column, name in plan.further.items()}


def _as_text(value: Any, name: str) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return optional_text(value, name)


_FLAGS = {"image": "--image ", "caption": "--caption ", "subject": "--subject ", "image_id": "--id-column "}


def _offered(ours: str, name: str, known: Iterable[str], likely: list[str]) -> str:
    """What to type for a column that was not found; ``likely`` are those that usually hold it."""
    near = closest(name, known, n=2)
    flag = _FLAGS.get(ours, f"--column {ours}=")
    if near:
        return f"did you mean {' or '.join(map(repr, near))}? Type {flag}{near[0]}"
    if likely:
        return f"type {flag}COLUMN, for example {flag}{likely[0]}"
    return f"type {flag}COLUMN; its columns are: {', '.join(sorted(known))[:300]}"


_ALSO_CALLED = {
    "gender": ("sex", "gender", "geschlecht"),
    "race": ("ethnicity", "ethnic", "race"),
    "age": ("age", "years"),
    "skin_tone": ("skin", "tone", "fitzpatrick", "monk"),
}
"""What a column that holds an axis is often called, or has in its name."""


def _axis_offered(axis: str, name: str, known: Iterable[str]) -> str:
    """What to type for an axis whose column was not found."""
    names = sorted(known)
    words = _ALSO_CALLED.get(axis, ())
    alike = [column for column in names if any(re.search(rf"(?:^|_){word}(?:s?$|_)", column.lower()) for word in words)]
    near = [*closest(name, names, n=1), *alike]
    if near:
        return f"type --axis {axis}=COLUMN, for example --axis {axis}={near[0]}"
    return f"type --axis {axis}=COLUMN; its columns are: {', '.join(names)[:300]}"


def _captions(value: Any, caption: str | None) -> list[str]:
    if _is_empty(value):
        return [caption] if caption else []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = [value]
    if not isinstance(value, list):
        raise RowError("the captions are not a list")
    return [text(v, "caption") for v in value]


def _column(name: str) -> str:
    """A name that a table can use: letters, digits and ``_``, a letter first, and not one that means the image."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    plain = plain if re.match(r"[A-Za-z]", plain) else f"x_{plain}"
    return f"{plain}_" if plain == "image" else plain


def _kind(value: Any) -> str:
    """The type of one value; "" for none."""
    if _is_empty(value):
        return ""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if abs(value) < 2**63 else "json"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return "list<string>"
    return "json"


def _elected(counts: Counter[str]) -> str:
    """The type that most values have; whole numbers among others make numbers.

    >>> _elected(Counter({"string": 5, "int64": 1})), _elected(Counter({"int64": 5, "float64": 1, "": 9}))
    ('string', 'float64')
    """
    votes = Counter({kind: n for kind, n in counts.items() if kind})
    if votes["float64"] and votes["int64"]:
        votes["float64"] += votes.pop("int64")
    return min(votes, key=lambda kind: (-votes[kind], kind), default="string")


def _value(value: Any, kind: str, name: str) -> Any:
    if _is_empty(value):
        return None
    if kind == "json":
        return _json(value, name)
    if kind == "float64" and _kind(value) in ("int64", "float64"):
        return number(value, name)
    if _kind(value) != kind:
        raise RowError(f"column {name!r} is {kind} in most lines; here it is {_shown_type(value)}")
    if kind == "string":
        return text(value, name, _MAX_FURTHER)
    return [text(v, name) for v in value] if kind == "list<string>" else value


def _shown_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", bytes: "bytes"}
    return names.get(type(value), "a number")


def _json(value: Any, name: str) -> str:
    try:
        dumped = json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"column {name!r} holds a value that is not JSON: {error}") from error
    return dumped


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
