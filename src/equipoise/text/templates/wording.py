"""How a group is said in a caption: words that are replaced, terms that are put in, and other names of the same group.

A lexicon knows single words; a *form* is a phrase whose counterpart for another group stands in the same row ("with
dark skin", "with light skin"). Where a caption has neither, a term is put in: before the person noun, or behind it if
it begins with "with" or "who". *Aliases* are what tables call a group that the words call otherwise ("older", "old").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.english.articles import article
from equipoise.text.templates.files import shipped, toml_in

_KEYS = ("terms", "forms", "aliases", "lexicons")
_BEHIND = ("with ", "who ", "of ")

Words = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Forms:
    """Phrases of one axis, aligned by rows; replaces those of one group by those of another, as a lexicon does.

    >>> tones = Forms(({"light": "with light skin", "dark": "with dark skin"},))
    >>> tones.swap("a man with dark skin", to="light"), sorted(tones.groups_in("a man with dark skin"))
    ('a man with light skin', ['dark'])
    """

    rows: tuple[Mapping[str, str], ...]

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Every group that a row names."""
        return tuple(dict.fromkeys(group for row in self.rows for group in row))

    @cached_property
    def _places(self) -> dict[str, tuple[int, str]]:
        places: dict[str, tuple[int, str]] = {}
        for i, row in enumerate(self.rows):
            for group, text in row.items():
                places.setdefault(text.lower(), (i, group))  # a phrase of two rows is read as the first's
        return places

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest = sorted(self._places, key=lambda text: (-len(text), text))
        return re.compile(rf"(?:\b(an?) )?(?<![\w-])({'|'.join(map(re.escape, longest))})(?![\w-])", re.IGNORECASE)

    def groups_in(self, text: str) -> frozenset[str]:
        """The groups that ``text`` names."""
        return frozenset(self._places[match.group(2).lower()][1] for match in self._pattern.finditer(text))

    def swap(self, text: str, to: str) -> str:
        """``text`` said of the group ``to``; a phrase that has no counterpart stays."""
        if to not in self.groups:
            raise UnknownNameError("group of these words", to, self.groups)
        return self._pattern.sub(lambda match: self._said(match, to), text)

    def _said(self, match: re.Match[str], to: str) -> str:
        row, group = self._places[match.group(2).lower()]
        if group == to or to not in self.rows[row]:
            return match.group()
        new = self.rows[row][to]
        new = new[:1].upper() + new[1:] if match.group(2)[0].isupper() else new
        if match.group(1) is None:
            return new
        chosen = article(new)
        return f"{chosen.capitalize() if match.group(1)[0] == 'A' else chosen} {new}"


@dataclass(frozen=True)
class Wording:
    """The words of groups by axis."""

    terms: Words = field(default_factory=dict)
    """What is put in where a caption names no group: axis -> group -> words."""
    forms: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """Phrases that are replaced: axis -> rows of group -> words."""
    aliases: Words = field(default_factory=dict)
    """Axis -> what a table calls a group -> what the words above call it."""
    lexicons: Mapping[str, str] = field(default_factory=dict)
    """The lexicon of an axis, by name or path."""

    def known(self, axis: str, group: str) -> str:
        """What the words call ``group``; one that no word is known for is refused, where the axis has words.

        >>> shipped_wording().known("age", "older")
        'old'
        """
        name, groups = self.meant(axis, group), self.groups(axis)
        if groups and name not in groups:
            raise UnknownNameError(f"group on the axis {axis!r}", group, (*groups, *self.aliases.get(axis, {})))
        return name

    def meant(self, axis: str, group: str) -> str:
        """The group that is meant, whatever a table calls it; a name that no words have stays as it is.

        >>> words = shipped_wording()
        >>> words.meant("gender", "woman"), words.meant("gender", "Male"), words.meant("gender", "somebody")
        ('female', 'male', 'somebody')
        """
        aliases, groups = self.aliases.get(axis, {}), self.groups(axis)
        names = [aliases.get(spelt, spelt) for spelt in (group, group.casefold())]
        return next((name for name in names if name in groups), names[0])

    def groups(self, axis: str) -> tuple[str, ...]:
        """Every group of an axis that there are words for; none where the axis is not known."""
        names = list(self.terms.get(axis, {})) + [group for row in self.forms.get(axis, ()) for group in row]
        if axis in self.lexicons:
            names += self._lexicon(axis).groups
        return tuple(dict.fromkeys(names))

    def replacer(self, axis: str) -> Any:
        """What replaces the words of an axis: its phrases, its lexicon, or nothing."""
        if axis in self.forms:
            return Forms(tuple(dict(row) for row in self.forms[axis]))
        return self._lexicon(axis) if axis in self.lexicons else None

    def term(self, axis: str, group: str) -> str:
        """What is put in for a group: its own term, that of the group it is an alias of, or that group's name.

        >>> shipped_wording().term("gender", "F")
        'female'
        """
        terms, meant = self.terms.get(axis, {}), self.meant(axis, group)
        term = terms.get(group, terms.get(meant, meant))
        if not term.strip():
            raise InputError(f"the term for group {group!r} on the axis {axis!r} is empty; give a word to insert")
        return term.strip()

    def _lexicon(self, axis: str) -> Any:
        from equipoise.text.lexicon import Lexicon  # here, because most templates need no lexicon

        return Lexicon.load(self.lexicons[axis])

    def over(self, other: Wording) -> Wording:
        """This wording, and that of ``other`` for what it does not say."""
        return Wording(
            terms=_merged(self.terms, other.terms),
            forms={**other.forms, **self.forms},
            aliases=_merged(self.aliases, other.aliases),
            lexicons={**other.lexicons, **self.lexicons},
        )


def _merged(first: Words, second: Words) -> Words:
    return {axis: {**second.get(axis, {}), **first.get(axis, {})} for axis in {**second, **first}}


def stands_behind(term: str) -> bool:
    """Whether a term stands behind the noun.

    >>> stands_behind("with dark skin"), stands_behind("elderly")
    (True, False)
    """
    return term.startswith(_BEHIND)


@cache
def shipped_wording() -> Wording:
    """The words that come with the package (``inpainting.toml``)."""
    content = shipped("inpainting")
    return Wording(**{key: content.get(key, {}) for key in _KEYS})


def read_wording(path: str | Path) -> Wording:
    """Words of your own from a TOML file: ``[terms.AXIS]``, ``[[forms.AXIS]]``, ``[aliases.AXIS]``, ``[lexicons]``.

    What the file does not say is as shipped; the phrases of an axis replace the shipped ones.
    """
    file = Path(path)
    content = toml_in(file, "a TOML file with [terms.AXIS]")
    for key in content:
        if key not in _KEYS:
            raise UnknownNameError(f"key in {file}", key, _KEYS)
    _check(content, file)
    return Wording(**content).over(shipped_wording())


def _check(content: Mapping[str, Any], file: Path) -> None:
    for key, by_axis in content.items():
        if not isinstance(by_axis, dict):
            raise InputError(f"{file}: {key} must be a table")
        for axis, words in by_axis.items():
            rows = {"forms": words, "lexicons": [{axis: words}]}.get(key, [words])
            fits = isinstance(rows, list) and all(
                isinstance(row, dict) and all(isinstance(text, str) and text.strip() for text in row.values())
                for row in rows
            )
            if not fits:
                raise InputError(f"{file}: {key}.{axis} must hold words by group")
