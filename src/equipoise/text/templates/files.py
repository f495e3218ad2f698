"""The TOML files behind the templates: the shipped ones and a user's own, with errors that name file and reason."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from equipoise.errors import InputError
from equipoise.text.templates.captions import PREFIXES, SUBJECT, Axis, CaptionPlan

Made = TypeVar("Made")
_KEYS = frozenset({"id", "citation", "harms", "notes", "prefixes", "subjects", "axes", "segment", "dimensions"})
_SEGMENT_KEYS = frozenset({"name", "order", "hold"})


class CaptionFile:
    """Axes, prefixes, subjects and segments, as a TOML file gives them.

    The file holds a table ``axes`` (each axis a list of groups, or a table of group = word) and may hold
    ``prefixes``, ``subjects``, ``citation``, ``harms`` and one or more ``[[segment]]`` with a ``name``, an
    ``order`` and axes to ``hold``. Without a segment, all axes make one. ``subjects`` is a list, or the word
    ``"occupations"`` for the 260 shipped ones.
    """

    def __init__(self, content: Mapping[str, Any], where: str) -> None:
        self.where = where
        self.content = content
        for key in content:
            if key not in _KEYS:
                self._fail(f"unknown key {key!r}; known: {', '.join(sorted(_KEYS))}")
        axes = content.get("axes")
        if not isinstance(axes, dict) or not axes:
            self._fail("has no table [axes] with at least one axis, such as race = ['Asian', 'Black']")
        self.axes = {name: self._axis(name, groups) for name, groups in axes.items()}
        self.prefixes = tuple(self._strings("prefixes", content.get("prefixes", list(PREFIXES))))
        self.plans = tuple(self._plan(segment) for segment in self._segments())

    @property
    def subjects(self) -> str | tuple[str, ...]:
        """The file's subjects, or the name of a shipped list of them; empty when the file gives none."""
        given = self.content.get("subjects", [])
        return given if isinstance(given, str) else tuple(self._strings("subjects", given))

    def _axis(self, name: str, groups: Any) -> Axis:
        if isinstance(groups, dict):
            self._strings(f"axes.{name}", list(groups.values()))
        else:
            self._strings(f"axes.{name}", groups)
        return self._checked(Axis.of, name, groups)

    def _segments(self) -> Sequence[Mapping[str, Any]]:
        segments = self.content.get("segment", [{}])
        if not isinstance(segments, list) or not all(isinstance(s, dict) for s in segments):
            self._fail("segment must be written as [[segment]]")
        for key in {key for segment in segments for key in segment} - _SEGMENT_KEYS:
            self._fail(f"a segment has the unknown key {key!r}; known: {', '.join(sorted(_SEGMENT_KEYS))}")
        return list(segments)

    def _plan(self, segment: Mapping[str, Any]) -> CaptionPlan:
        order = self._strings("order", segment.get("order", [*self.axes, SUBJECT]))
        unknown = [name for name in order if name != SUBJECT and name not in self.axes]
        if unknown:
            self._fail(f"order names {unknown[0]!r}, which is not an axis; the axes are {', '.join(self.axes)}")
        axes = tuple(self.axes[name] for name in order if name != SUBJECT)
        hold = tuple(self._strings("hold", segment.get("hold", [])))
        (name,) = self._strings("name", [segment.get("name", "")])
        return self._checked(CaptionPlan, axes, self.prefixes, tuple(order), hold, name)

    def _strings(self, key: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._fail(f"{key} must be a list of strings, not {value!r}")
        return list(value)

    def _checked(self, make: Callable[..., Made], *arguments: Any) -> Made:
        try:
            return make(*arguments)
        except InputError as error:
            self._fail(str(error))

    def _fail(self, reason: str) -> NoReturn:
        raise InputError(f"{self.where}: {reason}")


@cache
def shipped(name: str) -> Mapping[str, Any]:
    """The content of the shipped file ``name`` (without ``.toml``), read on first use.

    >>> shipped("socialcounterfactuals")["axes"]["gender"]
    ['male', 'female']
    """
    text = (files("equipoise.text") / "presets" / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def caption_file(name: str) -> CaptionFile:
    """The shipped caption file ``name``, checked.

    >>> [plan.segment for plan in caption_file("religion").plans]
    ['religion-gender']
    """
    return CaptionFile(shipped(name), f"{name}.toml")


def read_caption_file(path: str | Path) -> CaptionFile:
    """A user's own caption file; what is wrong with it is said with its name and the line or the key."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a file; give the path of a TOML file with [axes]")  # a device has no end
    return CaptionFile(toml_in(path, "the path of a TOML file with [axes]"), str(path))


def toml_in(path: Path, wanted: str) -> dict[str, Any]:
    """The content of a TOML file; where there is none, the sentence says to give what is ``wanted``."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; give {wanted}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML in UTF-8 ({error})") from error


def read_subjects(path: str | Path) -> tuple[list[str], list[str]]:
    """The subjects in a text file, one per line, and those left out because an earlier line says the same.

    Empty lines and lines that begin with ``#`` are skipped; case does not tell subjects apart.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; give a text file with one subject per line") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text in UTF-8 ({error})") from error
    pairs: dict[str, str] = {}
    twins = []
    for line in lines:
        subject = " ".join(line.split())
        if not subject or subject.startswith("#"):
            continue
        if subject.casefold() in pairs:
            twins.append(subject)
        pairs.setdefault(subject.casefold(), subject)
    if not pairs:
        raise InputError(f"{path} holds no subjects; write one per line")
    return list(pairs.values()), twins
