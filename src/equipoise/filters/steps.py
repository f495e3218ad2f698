"""From words to filters: ``similarity:ip2p,safety``, or a TOML file; and what a run would do, without doing it."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.data.labels import set_numbers
from equipoise.data.settings import fitting_all, toml_of
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.protocol import FILTERS, Filter


@dataclass(frozen=True)
class Step:
    """One filter of a run, under the name that ``dropped_by`` will say."""

    label: str
    name: str
    filter: Filter
    preset: str = ""

    @classmethod
    def of(cls, name: str, settings: Mapping[str, Any] | None = None, *, preset: str = "", label: str = "") -> Step:
        """The filter ``name`` with a preset's settings and then these.

        >>> Step.of("similarity", {"text_least": 0.25}, preset="ip2p").filter.text_least
        0.25
        >>> Step.of("similarty")
        Traceback (most recent call last):
            ...
        equipoise.errors.UnknownNameError: there is no filter named 'similarty'; did you mean 'similarity'?
        """
        kind = FILTERS.load(name)
        chosen: dict[str, Any] = {}
        if preset:
            if preset not in kind.presets:
                raise UnknownNameError(f"preset of the filter {name}", preset, kind.presets)
            chosen |= kind.presets[preset]
        chosen |= fitting_all(kind, settings or {}, what=f"setting of the filter {name}", label=label or name)
        try:
            return cls(label or name, name, kind(**chosen), preset)
        except TypeError as error:
            raise InputError(f"filter {name}: {error}") from None

    def plain(self) -> dict[str, Any]:
        """The step as plain data, for the record."""
        settings = {f.name: _plain(getattr(self.filter, f.name)) for f in dataclasses.fields(self.filter)}  # type: ignore[arg-type]
        return {"label": self.label, "filter": self.name, "preset": self.preset, "settings": settings}


def read_steps(words: str | Iterable[str], settings: Sequence[str] = ()) -> list[Step]:
    """The steps that words name, with changes to their settings.

    Args:
        words: filters in their order, such as ``similarity:ip2p,people``: separated by commas or in a list, each with a
            preset after its colon if wanted. A filter that comes twice is called ``people`` and ``people-2``.
        settings: changes such as ``similarity.text_least=0.25``, their values as in TOML; ``none`` is no value, and
            what is not TOML is text.

    Returns:
        The steps, in their order.

    >>> [step.label for step in read_steps("people:gab,similarity,people", ["people-2.exactly=1"])]
    ['people', 'similarity', 'people-2']
    """
    parts = words.split(",") if isinstance(words, str) else list(words)
    named = [part.strip().partition(":") for part in parts if part.strip()]
    if not named:
        raise InputError("no step is named; say which filters to run, such as similarity,safety")
    labels = _labels([name for name, _, _ in named])
    changes: dict[str, dict[str, Any]] = {}
    for text in settings:
        left, equals, value = text.partition("=")
        label, dot, key = left.strip().partition(".")
        if not equals or not dot or label not in labels:
            raise InputError(
                f"setting {text!r} is not understood; write <step>.<setting>=<value>, such as {labels[0]}.…=…"
            )
        changes.setdefault(label, {})[key] = _value(value.strip())
    return [
        Step.of(name, changes.get(label), preset=preset, label=label)
        for (name, _, preset), label in zip(named, labels, strict=True)
    ]


def steps_from_toml(path: str | Path) -> list[Step]:
    """The steps in a TOML file, each a ``[[step]]`` with ``filter``, ``preset`` and settings."""
    return settings_from_toml(path)[0]


def settings_from_toml(path: str | Path) -> tuple[list[Step], dict[str, Any]]:
    """The steps of a TOML file, and everything else it says."""
    data = toml_of(path)
    rows = data.pop("step", [])
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f'{path}: has no step; write [[step]] and filter = "similarity" under it')
    for row in rows:
        if "filter" not in row:
            raise InputError(f'{path}: a step lacks its filter; write filter = "similarity"')
    labels = _labels([str(row["filter"]) for row in rows])
    steps = [
        Step.of(
            str(row["filter"]),
            {key: value for key, value in row.items() if key not in ("filter", "preset")},
            preset=str(row.get("preset", "")),
            label=label,
        )
        for row, label in zip(rows, labels, strict=True)
    ]
    return steps, data


def planned(
    table: Table, steps: Sequence[Step], *, reference: Any = None, named: Mapping[str, Any] | None = None
) -> str:
    """What a run would do, in lines for a person; no model is loaded and nothing is written.

    Args:
        table: whose images are counted; one that lacks a column which a step needs is refused.
        steps: what would be done, in this order.
        reference: what to call the table of real images; ``None`` where they are rows of the table itself.
        named: by role (``model``, ``faces``, …) what filters would see with; empty names are left out.

    Returns:
        Lines on the table, on each step with its settings, and on the models.
    """
    check_columns(table, steps)
    sets = set_numbers(table.to_pandas(["set_id", "subject"], only_kept="keep" in table.columns))
    axes = ", ".join(table.axes) or "none"
    lines = [f"{table.path}: {len(sets):,} images, {sets.max(initial=-1) + 1:,} sets, axes {axes}"]
    for number, step in enumerate(steps, 1):
        preset = f" (preset {step.preset})" if step.preset else ""
        lines.append(f"{number}. {step.label}{preset}: {FILTERS.get(step.name).summary}")
        lines.append(f"   needs {', '.join(step.filter.needs) or 'nothing'}")
        settings = [
            f"{key} = {value}" for key, value in step.plain()["settings"].items() if value not in ("", {}, [], None)
        ]
        lines.append(f"   with {', '.join(settings)}")
    models = {key: value for key, value in (named or {}).items() if value}
    lines.append("seen by " + (", ".join(f"{key} {value}" for key, value in models.items()) or "no model"))
    lines.append(f"real images: {reference or 'those of the table itself'}")
    return "\n".join(lines)


def check_columns(table: Table, steps: Sequence[Step]) -> None:
    """Refuse steps that ask for a column the table lacks."""
    if table.kind != "images":
        raise InputError(f"{table.path} is a table of kind {table.kind!r}; filters look at a table of images")
    for step in steps:
        for column in step.filter.columns:
            if column not in table.types:
                error = UnknownNameError(f"column in {table.path}", column, table.types)
                raise InputError(f"the step {step.label!r} needs {column!r}: {error}")


def _labels(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        labels.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return labels


def _value(text: str) -> Any:
    """A setting as TOML reads it; what TOML does not read is text.

    >>> _value("0.25"), _value("none"), _value("first"), _value("[1, 2]")
    (0.25, None, 'first', [1, 2])
    """
    if text.casefold() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
