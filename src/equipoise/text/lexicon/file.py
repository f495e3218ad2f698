"""Read a lexicon from TOML and check it, naming the file, the line and the reason when something is wrong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, closest

ROLES = ("noun", "adjective", "subject", "object", "determiner", "possessive", "reflexive")
# A word may stand in two rows only where its position tells them apart.
_TOLD_APART = ({"object", "determiner"}, {"determiner", "possessive"})
_FILE_KEYS = {"id", "axis", "groups", "source", "notes", "rows", "phrases", "lists", "neutral_words"}
_FILE_KEYS |= {"language", "agreement", "endings"}
_ROW_KEYS = {"neutral", "role", "before", "not_before", "typo"}


@dataclass(frozen=True)
class Row:
    """Words that mean the same of different groups, and the word that means it of anyone.

    The first word of a group is the one written on a swap, as it stands in the file; the others are only recognised.
    """

    words: Mapping[str, tuple[str, ...]]
    neutral: Mapping[str, str]
    role: str = "noun"
    before: str = ""
    not_before: str = ""
    typo: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LexiconContents:
    """A lexicon file as it was read."""

    id: str
    axis: str
    groups: tuple[str, ...]
    source: str
    notes: str
    rows: tuple[Row, ...]
    phrases: Mapping[str, str | None]
    lists: Mapping[str, frozenset[str]]
    language: str = ""
    """Its code, such as "en"; empty where the file does not say."""
    agreement: tuple[Mapping[str, str], ...] = ()
    """Words that agree with a noun and belong to no group: by group and as ``neutral``."""
    endings: tuple[Mapping[str, str], ...] = ()
    """The same of endings."""


class _Problem(InputError):
    """A complaint with its place in the file."""


def parse(text: str, name: str) -> LexiconContents:
    """The contents of lexicon ``text``; ``name`` (the file's) begins every complaint.

    >>> parse('id = "x"\\naxis = "g"\\ngroups = ["a", "b"]\\nrows = [ { a = "one", c = "two" } ]', "my.toml")
    Traceback (most recent call last):
        ...
    equipoise.text.lexicon.file._Problem: my.toml:4: row 1: 'c' is not a group of this lexicon; groups: a, b
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        where = f"{name}:{line.group(1)}" if line else name
        raise _Problem(f"{where}: not valid TOML: {error}") from None
    return _Parser(text, name).contents(data)


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.lines = text.splitlines()
        self.name = name

    def contents(self, data: Mapping[str, Any]) -> LexiconContents:
        for key in data:
            if key not in _FILE_KEYS:
                near = closest(key, _FILE_KEYS, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(sorted(_FILE_KEYS))}"
                raise self.problem(f"unknown key {key!r}{hint}", f"^\\s*{re.escape(key)}\\s*=")
        axis = self.string(data, "axis")
        groups = data.get("groups")
        if not isinstance(groups, list) or not groups or not all(isinstance(g, str) and g for g in groups):
            raise self.problem("`groups` must be a list of at least one name", r"^\s*groups\s*=")
        if len(set(groups)) != len(groups) or set(groups) & _ROW_KEYS:
            raise self.problem("`groups` must differ from each other and from the keys of a row", r"^\s*groups\s*=")
        rows_data = data.get("rows")
        if not isinstance(rows_data, list) or not rows_data:
            raise self.problem("`rows` must be a list of at least one table", r"^\s*rows\s*=|^\[\[rows")
        lists = self.word_lists(data.get("lists", {}))
        rows = tuple(self.row(i, row, groups, lists) for i, row in enumerate(rows_data))
        phrases = self.phrases(data.get("phrases", []))
        self.check_words(rows, phrases)
        return LexiconContents(
            id=self.string(data, "id"),
            axis=axis,
            groups=tuple(groups),
            source=str(data.get("source", "")),
            notes=str(data.get("notes", "")).strip(),
            rows=rows,
            phrases=phrases,
            lists=lists,
            language=str(data.get("language", "")).strip().lower(),
            agreement=self.agreeing(data.get("agreement", []), "agreement", groups),
            endings=self.agreeing(data.get("endings", []), "endings", groups),
        )

    def agreeing(self, data: Any, key: str, groups: list[str]) -> tuple[Mapping[str, str], ...]:
        """Rows with one form for each group, and one for anyone."""
        wanted = {*groups, "neutral"}
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            raise self.problem(f"`{key}` must be a list of tables with a form for each group", rf"^\s*{key}\s*=")
        for row in data:
            if set(row) != wanted or not all(isinstance(form, str) for form in row.values()):
                raise self.problem(
                    f"a row of `{key}` has one text for each of: {', '.join(sorted(wanted))}", rf"^\s*{key}\s*="
                )
        return tuple(data)

    def string(self, data: Mapping[str, Any], key: str) -> str:
        value = data.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.problem(f"`{key}` is missing or not a text", rf"^\s*{key}\s*=")
        return value

    def word_lists(self, data: Any) -> dict[str, frozenset[str]]:
        if not isinstance(data, dict):
            raise self.problem("`lists` must be a table of word lists", r"^\[lists\]|^\s*lists\s*=")
        for key, words in data.items():
            if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
                raise self.problem(f"list {key!r} must hold only words", rf"^\s*{re.escape(key)}\s*=")
        return {key: frozenset(w.lower() for w in words) for key, words in data.items()}

    def row(self, index: int, data: Any, groups: list[str], lists: Mapping[str, frozenset[str]]) -> Row:
        def wrong(reason: str) -> _Problem:
            return _Problem(f"{self.place_of_row(index)}: row {index + 1}: {reason}")

        if not isinstance(data, dict):
            raise wrong("not a table of words by group")
        for key in data:
            if key not in _ROW_KEYS and key not in groups:
                raise wrong(f"{key!r} is not a group of this lexicon; groups: {', '.join(groups)}")
        words: dict[str, tuple[str, ...]] = {}
        for group in groups:
            if group in data:
                cell = data[group] if isinstance(data[group], list) else [data[group]]
                if not cell or not all(isinstance(w, str) and re.search(r"\w", w) for w in cell):
                    raise wrong(f"the words of {group!r} must be one word or a list of words, none empty")
                words[group] = tuple(w.strip() for w in cell)
        if not words:
            raise wrong("no word for any group")
        role = data.get("role", "noun")
        if role not in ROLES:
            raise wrong(f"role {role!r} is not one of {', '.join(ROLES)}")
        neutral = data.get("neutral", None)
        if isinstance(neutral, str):
            neutral = dict.fromkeys(words, neutral)
        if (
            not isinstance(neutral, dict)
            or set(neutral) != set(words)
            or not all(isinstance(v, str) and (v or role == "adjective") for v in neutral.values())
        ):
            raise wrong("`neutral` must be a text, or a text for each group of the row (empty only for an adjective)")
        before, not_before = data.get("before", ""), data.get("not_before", "")
        for key, value in (("before", before), ("not_before", not_before)):
            if value and value != "name" and value not in lists:
                raise wrong(f"`{key}` names the list {value!r}, which is not under [lists]")
        typo = data.get("typo", {})
        if not isinstance(typo, dict) or not set(typo) <= set(words):
            raise wrong("`typo` must hold a text for a group of the row")
        return Row(words, neutral, role, before, not_before, typo)

    def phrases(self, data: Any) -> dict[str, str | None]:
        phrases: dict[str, str | None] = {}
        if not isinstance(data, list):
            raise self.problem("`phrases` must be a list of tables with `text`", r"^\s*phrases\s*=")
        for item in data:
            if not isinstance(item, dict) or not isinstance(item.get("text"), str) or set(item) - {"text", "neutral"}:
                raise self.problem("a phrase is a table with `text` and perhaps `neutral`", r"^\s*phrases\s*=")
            phrases[item["text"].lower()] = item.get("neutral")
        return phrases

    def check_words(self, rows: tuple[Row, ...], phrases: Mapping[str, str | None]) -> None:
        first: dict[str, tuple[int, str, str]] = {}
        for index, row in enumerate(rows):
            for group, words in row.words.items():
                for word in map(str.lower, words):
                    if word in phrases:
                        raise _Problem(f"{self.place_of_row(index)}: {word!r} is a word and a phrase")
                    if word in first:
                        other, other_group, other_role = first[word]
                        if other_group != group or {row.role, other_role} not in _TOLD_APART:
                            raise _Problem(
                                f"{self.place_of_row(index)}: row {index + 1}: {word!r} stands already in row "
                                f"{other + 1} as {other_group}"
                            )
                    first[word] = (index, group, row.role)
        for index, row in enumerate(rows):
            for neutral in row.neutral.values():
                for part in re.findall(r"[\w'’]+", neutral.lower()):
                    if part in first:
                        raise _Problem(
                            f"{self.place_of_row(index)}: row {index + 1}: the neutral form {neutral!r} holds "
                            f"{part!r}, a word of {first[part][1]!r}"
                        )

    def place_of_row(self, index: int) -> str:
        """File and line of a row: the line of its table header, or of its opening brace."""
        inside = False
        seen = -1
        for number, line in enumerate(self.lines, start=1):
            inside = inside or re.match(r"\s*rows\s*=", line) is not None
            if re.match(r"\s*\[\[\s*rows\s*\]\]", line):
                seen += 1
            elif inside:
                seen += len(re.findall(r"(?:^|[\[,]|=\s*\[)\s*\{(?!\s*text\b)", line.split("#")[0]))
            if seen >= index:
                return f"{self.name}:{number}"
        return self.name

    def problem(self, reason: str, pattern: str) -> _Problem:
        for number, line in enumerate(self.lines, start=1):
            if re.search(pattern, line):
                return _Problem(f"{self.name}:{number}: {reason}")
        return _Problem(f"{self.name}: {reason}")


def read(path: Path) -> LexiconContents:
    """Read and check the lexicon file at ``path``."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save the lexicon as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    return parse(text, str(path))
