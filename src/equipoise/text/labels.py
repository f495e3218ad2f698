"""Group labels as data holds them: spellings of one name joined, and words that mean "not known" read as null.

The one place for the rule, wherever labels come in: ``male``, ``Male`` and ``" MALE "`` are one group; ``N/A``,
``nan``, ``none``, ``null``, ``unknown``, ``undefined`` and empty text are no group. Everything else is a group under
the name that the data gives it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import UnknownNameError

UNKNOWN_WORDS = frozenset({"", "n/a", "na", "#n/a", "<na>", "nan", "none", "null", "unknown", "undefined"})
"""What a cell holds in place of a group, in small letters; "other" and "prefer not to say" are groups."""

_UNKNOWN = -1
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0+\Z")
_EXACT = 2**53
"""From here on a float has lost digits, and is no whole number that someone wrote."""
_SHOWN = 5
"""Spellings of one group that a note lists."""


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: ``None``, NaN, NaT or ``pandas.NA``.

    >>> is_missing(float("nan")), is_missing("nan"), is_missing(0)
    (True, False, False)
    """
    # NaN, NaT and pandas.NA are the values that do not equal themselves (NA says neither yes nor no)
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def label_text(value: Any) -> str:
    """A label as text, without space around it; whole numbers have no decimals.

    >>> label_text("  East   Asian "), label_text(1), label_text(1.0), label_text("1.0"), label_text(0.5)
    ('East Asian', '1', '1', '1', '0.5')
    """
    number = _plain(value)
    if isinstance(number, float) and number.is_integer() and abs(number) < _EXACT:
        return str(int(number))
    text = " ".join(str(number).split())
    whole = _WHOLE.match(text)
    return whole[1] if whole else text


def means_unknown(value: Any) -> bool:
    """Whether a cell names no group: it is missing, or a word for that in any case.

    >>> [word for word in ("N/A", "None", " ", "nonbinary", "other", "Unknown", None) if not means_unknown(word)]
    ['nonbinary', 'other']
    """
    return is_missing(value) or _key(label_text(value)) in UNKNOWN_WORDS


def same_label(one: Any, other: Any) -> bool:
    """Whether two cells name one group: they differ in case and space at most.

    >>> same_label("East Asian", " east  asian"), same_label(1, "1.0"), same_label("f", "female")
    (True, True, False)
    """
    return bool(one == other) or _key(label_text(one)) == _key(label_text(other))


@dataclass(frozen=True)
class Labels:
    """A column of labels as it was read: ``codes`` (N,) index into ``names``, -1 where the group is not known.

    ``joined`` holds, by group, the other spellings that were read as it; ``unknown`` how many cells held which word for
    "not known" (cells that were empty of any value are not counted).
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    as_given: bool = False
    """Whether every label already was text in the spelling of its group, and nothing was taken for unknown."""

    def values(self) -> NDArray[np.object_]:
        """(N,) the group of each cell, ``None`` where it is not known."""
        return np.array([*self.names, None], dtype=object)[self.codes]

    def note(self, axis: str = "") -> str:
        """What was joined and what was taken for unknown, in a line; empty where nothing was.

        >>> read_labels(["male", "Male", "male", "MALE", "N/A"]).note("gender")
        "gender: 'MALE' and 'Male' read as 'male'; 1 'N/A' read as unknown"
        """
        parts = [
            f"{_listed([repr(spelling) for spelling in some])} read as {name!r}" for name, some in self.joined.items()
        ]
        if self.unknown:
            unknown = [f"{n:,} {repr(word) if word.strip() else 'empty'}" for word, n in self.unknown.items()]
            parts.append(f"{_listed(unknown)} read as unknown")
        return f"{axis}: {'; '.join(parts)}" if parts and axis else "; ".join(parts)


def read_labels(values: Any, names: Sequence[str] | None = None, *, asked: Iterable[str] = ()) -> Labels:
    """Read a column of labels (N,): text, numbers or missing values, as a list, an array or a pandas column.

    Labels that differ only in case or in space are one group, under the spelling that most cells have (of equally
    frequent ones, the one in small letters); a label in one spelling keeps it. Words for "not known"
    (:data:`UNKNOWN_WORDS`) are no group. Whole numbers are groups named "0", "1", … The groups are sorted, by value
    where all are whole numbers. ``names`` declares the groups and their order: a declared name is a group whatever it
    says ("none"), in its declared spelling, and a label that is no spelling of one is an error. ``asked`` are names
    that win over other spellings, and are groups whatever they say, where groups are found and not declared.

    >>> found = read_labels(["White", "East Asian", "white ", "White", None, "unknown"])
    >>> found.names, found.codes.tolist()
    (('East Asian', 'White'), [1, 0, 1, 1, -1, -1])
    >>> read_labels([1, 0, 1.0, float("nan")]).values().tolist()
    ['1', '0', '1', None]
    >>> read_labels(["None", "hat"], names=["hat", "none"]).codes.tolist()
    [1, 0]
    """
    codes, cells = _distinct(values)
    counts = np.bincount(codes[codes >= 0], minlength=len(cells)).tolist()
    texts = [label_text(cell) for cell in cells]
    group_of = _declared(texts, names) if names is not None else _spelled(texts, counts, frozenset(map(str, asked)))
    known = tuple(map(str, names)) if names is not None else _sorted(set(filter(None, group_of)))
    place: dict[str | None, int] = {name: i for i, name in enumerate(known)}
    place[None] = _UNKNOWN
    of_cell = np.array([*(place[name] for name in group_of), _UNKNOWN], dtype=np.int64)
    joined: dict[str, list[str]] = {}
    unknown: dict[str, int] = {}
    for cell, count, name in sorted(zip(map(_plain, cells), counts, group_of, strict=True), key=lambda c: str(c[0])):
        if name is None:
            unknown[str(cell)] = unknown.get(str(cell), 0) + count
        elif isinstance(cell, str) and cell != name:
            joined.setdefault(name, []).append(cell)
    return Labels(
        of_cell[codes],
        known,
        {name: tuple(joined[name]) for name in known if name in joined},
        unknown,
        as_given=all(isinstance(cell, str) and cell == name for cell, name in zip(cells, group_of, strict=True)),
    )


def _distinct(values: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """(N,) which of the distinct cells each cell is, -1 for a missing one; and the distinct cells."""
    import pandas as pd

    column = values if isinstance(values, pd.Series | pd.Index) else np.asarray(_cells(values))
    if isinstance(column, np.ndarray) and column.dtype.kind not in "biufO":
        column = column.astype(object)
    if isinstance(column, np.ndarray):
        column = column.ravel()
    try:
        codes, cells = pd.factorize(column)
    except TypeError:  # lists and other things without a hash: by what they print
        texts = np.array([None if is_missing(cell) else str(cell) for cell in column], dtype=object)
        codes, cells = pd.factorize(texts)
    return np.asarray(codes, dtype=np.int64), list(cells)


def _cells(values: Any) -> Any:
    """A list as an array of objects: numpy would read [1, "a"] and [1, None] as text and as floats."""
    if isinstance(values, np.ndarray) or hasattr(values, "__array__"):
        return values
    return np.asarray(list(values) if not isinstance(values, Sequence) else values, dtype=object)


def _spelled(texts: Sequence[str], counts: Sequence[int], asked: frozenset[str]) -> list[str | None]:
    """The group of each distinct text: the spelling of it that most cells have; ``None`` for words for "not known"."""
    totals: dict[str, dict[str, int]] = {}
    for text, count in zip(texts, counts, strict=True):
        spellings = totals.setdefault(_key(text), {})
        spellings[text] = spellings.get(text, 0) + count
    best = {
        key: min(spellings, key=lambda text: (text not in asked, -spellings[text], text != text.lower(), text))
        for key, spellings in totals.items()
    }
    unknown = UNKNOWN_WORDS - {_key(name) for name in asked}
    return [None if (key := _key(text)) in unknown else best[key] for text in texts]


def _declared(texts: Sequence[str], names: Sequence[str]) -> list[str | None]:
    """The declared name of each distinct text; a text that is none, and no word for "not known", is refused."""
    exact = {str(name): str(name) for name in names}
    by_key: dict[str, str | None] = {}
    for name in exact:
        by_key[_key(name)] = None if _key(name) in by_key else name  # two names of one key are told apart by case
    groups_of_texts = [exact.get(text) or by_key.get(_key(text)) for text in texts]
    for text, group in sorted(zip(texts, groups_of_texts, strict=True), key=lambda pair: pair[0]):
        if group is None and _key(text) not in UNKNOWN_WORDS:
            raise UnknownNameError("group", text, list(exact))
    return groups_of_texts


def _key(text: str) -> str:
    """What spellings of one name have in common."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _plain(value: Any) -> Any:
    """A numpy number as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    in_order = sorted(names)
    if all(re.fullmatch(r"[+-]?[0-9]{1,15}", name) for name in in_order):
        in_order.sort(key=int)  # "10" behind "9"
    return tuple(in_order)


def _listed(parts: Iterable[str]) -> str:
    shown = list(parts)
    if len(shown) > _SHOWN:
        shown = [*shown[: _SHOWN - 1], f"{len(shown) - _SHOWN + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
