"""One small mechanism for everything that has a name: metrics, models, readers, filters, suites, remedies, …

A package keeps one :class:`Registry` and adds a line for each thing it offers. The line holds a *target*
(``"package.module:attribute"``) that is imported only when the thing is asked for, so a long catalogue costs
nothing. Another package adds things by an entry point in the group ``equipoise``; see :func:`plugins`.

>>> shapes = Registry("metric")
>>> _ = shapes.add("sqrt", "math:sqrt", summary="Square root.", citation="Euclid", licence="public domain")
>>> shapes.load("sqrt")(9.0)
3.0
>>> shapes.load("sqr")
Traceback (most recent call last):
    ...
equipoise.errors.UnknownNameError: there is no metric named 'sqr'; did you mean 'sqrt'?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from equipoise.errors import InputError, MissingExtraError, UnknownNameError

GROUP = "equipoise"
KINDS = (
    "captioner",
    "classifier",
    "detector",
    "encoder",
    "export",
    "filter",
    "generator",
    "lexicon",
    "loss",
    "metric",
    "model",
    "reader",
    "recipe",
    "remedy",
    "suite",
    "task",
)


@dataclass(frozen=True)
class Entry:
    """One registered thing: where it is and what a user must know before using it."""

    name: str
    target: str
    summary: str
    citation: str
    licence: str
    needs: str = ""
    """The extra that must be installed (``pip install 'equipoise[needs]'``); empty for the light core."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Anything else worth knowing: revision, known harms, range, direction, …"""

    def __post_init__(self) -> None:
        for required in ("name", "target", "summary", "citation", "licence"):
            if not str(getattr(self, required)).strip():
                raise InputError(f"registry entry {self.name or self.target!r} lacks its {required}")
        if ":" not in self.target:
            raise InputError(f"registry entry {self.name!r}: target {self.target!r} is not 'module:attribute'")

    def load(self) -> Any:
        """Import and return the target; say which extra to install if its packages are missing."""
        module_name, _, attribute = self.target.partition(":")
        try:
            thing: Any = import_module(module_name)
        except ModuleNotFoundError as error:
            if self.needs and not (error.name or "").startswith("equipoise"):
                raise MissingExtraError(f"{self.name!r}", self.needs) from error
            raise
        for part in attribute.split("."):
            thing = getattr(thing, part)
        return thing


class Registry:
    """Names of one kind, built in or added by another package, each imported on first use."""

    def __init__(self, kind: str) -> None:
        if kind not in KINDS:
            raise UnknownNameError("kind of registry", kind, KINDS)
        self.kind = kind
        self._built_in: dict[str, Entry] = {}

    def add(
        self,
        name: str,
        target: str,
        *,
        summary: str,
        citation: str,
        licence: str,
        needs: str = "",
        **info: Any,
    ) -> Entry:
        """Register ``target`` under ``name``; a name can be taken once."""
        if name in self._built_in:
            raise InputError(f"the {self.kind} {name!r} is registered twice")
        entry = Entry(name, target, summary, citation, licence, needs, info)
        self._built_in[name] = entry
        return entry

    def entries(self) -> dict[str, Entry]:
        """All entries by name; a plugin cannot replace what is built in."""
        by_name = dict(self._built_in)
        for plugin in plugins():
            for entry in plugin.entries.get(self.kind, ()):
                by_name.setdefault(entry.name, entry)
        return dict(sorted(by_name.items()))

    def names(self) -> list[str]:
        """All names, sorted."""
        return list(self.entries())

    def get(self, name: str) -> Entry:
        """The entry under ``name``; an unknown name is answered with the closest ones."""
        entry = self._built_in.get(name)
        if entry is None:
            entries = self.entries()
            if name not in entries:
                raise UnknownNameError(self.kind, name, entries)
            entry = entries[name]
        return entry

    def load(self, name: str) -> Any:
        """Import and return what is registered under ``name``."""
        return self.get(name).load()

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self.entries()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries().values())

    def __len__(self) -> int:
        return len(self.entries())


@dataclass(frozen=True)
class Plugin:
    """What one installed package adds, or why it could not."""

    name: str
    entries: Mapping[str, tuple[Entry, ...]]
    problem: str = ""


@cache
def plugins() -> tuple[Plugin, ...]:
    """Everything other packages add through the entry-point group ``equipoise``.

    The entry point names a function that is called once with ``add(kind, name, target, **metadata)``. A plugin
    that fails is reported (``equipoise doctor`` lists it) and does not stop anything else.
    """
    from importlib.metadata import entry_points

    return tuple(_collect(point.name, point.load) for point in sorted(entry_points(group=GROUP), key=lambda p: p.name))


def _collect(name: str, load: Callable[[], Callable[..., None]]) -> Plugin:
    added: dict[str, list[Entry]] = {}

    def add(kind: str, name: str, target: str, **metadata: Any) -> None:
        added.setdefault(kind, []).append(Registry(kind).add(name, target, **metadata))

    try:
        load()(add)
    except Exception as error:  # another package's code may fail in any way; it must not take us down
        return Plugin(name, {}, f"{type(error).__name__}: {error}")
    return Plugin(name, {kind: tuple(entries) for kind, entries in added.items()})
