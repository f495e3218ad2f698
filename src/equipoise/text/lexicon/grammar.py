"""Words that agree with a noun and so say who it is: articles, adjective endings; and what is left to say it.

English has none that a lexicon must name ("a"/"an" has a rule of its own). In Spanish "una persona" for "una mujer"
still says female. A lexicon declares its ``language``, its ``agreement`` words and its ``endings``; what it does not
declare stays, and :func:`telltales` finds it in captions that should say nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from equipoise.text.lexicon.rewriting import Edit, apply_edits, in_case_of

__all__ = ["Agrees", "agreed", "telltales"]

Agrees = Mapping[str, str]
"""By group, and under ``neutral``, the form of one word or ending."""

NEUTRAL = "neutral"
_WORD = re.compile(r"\w+(?:['’]\w+)*")


class Found(Protocol):
    """A word of the lexicon in a text."""

    @property
    def start(self) -> int:
        """Where it begins."""

    @property
    def end(self) -> int:
        """Where it ends."""

    @property
    def group(self) -> str:
        """Whose word it is."""


def agreed(
    text: str, found: Sequence[Found], words: Sequence[Agrees], endings: Sequence[Agrees], to: str = NEUTRAL
) -> str:
    """``text`` with the words that agree with those ``found`` in the form of ``to``; without any, as it is.

    Words change wherever they stand, endings only in the words right before and behind a word that was found.

    >>> from types import SimpleNamespace as Word
    >>> articles = [{"m": "un", "f": "una", "neutral": "une"}]
    >>> endings = [{"m": "o", "f": "a", "neutral": "e"}]
    >>> agreed("una mujer alta come una manzana", [Word(start=4, end=9, group="f")], articles, endings)
    'une mujer alte come une manzana'
    """
    if not found:
        return text
    edits: list[Edit] = []
    spans = [match.span() for match in _WORD.finditer(text)]
    forms = {row[group].casefold(): row for row in words for group in row if group != NEUTRAL}
    for start, end in spans:
        row = forms.get(text[start:end].casefold())
        if row is not None and to in row:
            edits.append((start, end, in_case_of(text[start:end], row[to])))
    for match in found:
        before = max((s for s in spans if s[1] <= match.start), default=None)
        behind = min((s for s in spans if s[0] >= match.end), default=None)
        for span in (before, behind):
            if span is not None and text[span[0] : span[1]].casefold() not in forms:
                edits += _ending(text, span, match.group, endings, to)
    return apply_edits(text, dict.fromkeys(edits))


def _ending(text: str, span: tuple[int, int], group: str, endings: Sequence[Agrees], to: str) -> list[Edit]:
    word = text[span[0] : span[1]].casefold()
    for row in endings:
        form = row.get(group, "").casefold()
        if form and to in row and word.endswith(form) and len(word) > len(form) + 1:
            return [(span[1] - len(form), span[1], row[to])]
    return []


def telltales(
    texts: Iterable[str], groups: Iterable[str | None], *, least: int = 20, share: float = 0.2, most: float = 0.01
) -> dict[str, str]:
    """Words of ``texts`` that as good as only one of the ``groups`` has, with that group, the most frequent first.

    A word is one if at least ``least`` texts of its group have it, and ``share`` of them, and at most ``most`` of each
    other group's.

    >>> captions = ["una persona come", "una persona lee"] * 20 + ["un persona come", "un persona lee"] * 20
    >>> telltales(captions, ["female"] * 40 + ["male"] * 40)
    {'un': 'male', 'una': 'female'}
    """
    sizes: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {}
    for text, group in zip(texts, groups, strict=True):
        if group is not None:
            sizes[group] += 1
            counts.setdefault(group, Counter()).update(set(_WORD.findall(text.casefold())))
    told: dict[str, tuple[int, str]] = {}
    for group, mine in counts.items():
        for word, n in mine.items():
            others = [counts[other][word] / sizes[other] for other in counts if other != group]
            if others and n >= least and n / sizes[group] >= share and max(others) <= most:
                told[word] = (-n, group)
    return {word: told[word][1] for word in sorted(told, key=lambda word: (told[word][0], word))}
