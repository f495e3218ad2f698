"""Words that agree with others: verbs with a subject that became "they", articles and endings with a noun.

"she is" becomes "they are", "he carries" becomes "they carry". With nouns English has no agreement that a lexicon must
name ("a"/"an" has a rule of its own). In Spanish "una persona" for "una mujer" still says female. A lexicon declares
its ``language``, its ``agreement`` words and its ``endings``; what it does not declare stays, and :func:`telltales`
finds it in captions that should say nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from equipoise.text.lexicon.positions import next_word
from equipoise.text.lexicon.rewriting import Edit, apply_edits, in_case_of

_IRREGULAR = {
    "is": "are",
    "isn't": "aren't",
    "was": "were",
    "wasn't": "weren't",
    "has": "have",
    "hasn't": "haven't",
    "does": "do",
    "doesn't": "don't",
    "goes": "go",
    "dies": "die",
    "lies": "lie",
    "ties": "tie",
    # Verbs whose own ending the rules below would take for that of the third person.
    "unties": "untie",
    "reties": "retie",
    "belies": "belie",
    "underlies": "underlie",
    "canoes": "canoe",
    "hoes": "hoe",
    "toes": "toe",
    "tiptoes": "tiptoe",
    "aches": "ache",
    "caches": "cache",
    "buses": "bus",
    "focuses": "focus",
    "refocuses": "refocus",
    "focusses": "focus",
    "quizzes": "quiz",
}
_INVERTED = frozenset(("is", "isn't", "was", "wasn't", "has", "hasn't", "does", "doesn't"))
# Words in -s that may follow a subject and are not verbs.
_NOT_VERBS = frozenset(
    "always sometimes perhaps afterwards besides nowadays thus as this yes us his its hers theirs towards upwards "
    "downwards backwards forwards sideways outdoors indoors upstairs downstairs across less plus versus".split()
)
_ADVERBS = frozenset(
    "also always already ever just never now often once only still sometimes soon then too usually really even almost "
    "quietly both all rarely seldom again perhaps first currently".split()
)
# After "she's": these tell "has" ("she's been") from "is" ("she's tall").
_PARTICIPLES = frozenset("been got had become gone done taken eaten seen made won lost found caught fallen".split())
_CONTRACTED = re.compile(r"['’]s(?!\w)")


def plural_verb(verb: str) -> str:
    """The form of a third-person verb that goes with "they"; anything else comes back as it is.

    >>> [plural_verb(v) for v in ("is", "carries", "watches", "does", "wears", "ran", "pass")]
    ['are', 'carry', 'watch', 'do', 'wear', 'ran', 'pass']
    """
    verb = verb.replace("’", "'")
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if not verb.endswith("s") or verb.endswith(("ss", "us", "'s")) or verb in _NOT_VERBS or len(verb) < 3:
        return verb
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    if verb.endswith(("sses", "shes", "ches", "xes", "zzes", "tzes", "oes")) and not verb.endswith("shoes"):
        return verb[:-2]
    return verb[:-1]


def agreed_verb(low: str, start: int, end: int) -> list[tuple[int, int, str]]:
    """The edits that make the verb agree once the subject at ``low[start:end]`` reads "they".

    Each edit is (start, end, new text): a contraction, a verb in front ("is she") or the verbs behind, past adverbs
    and through "and" ("she sits and reads").

    >>> agreed_verb("she often sits and reads", 0, 3)
    [(10, 14, 'sit'), (19, 24, 'read')]
    """
    contracted = _CONTRACTED.match(low, end)
    if contracted:
        _, word, _ = next_word(low, contracted.end())
        return [(end + 1, contracted.end(), "ve" if word in _PARTICIPLES else "re")]
    edits = _verbs_behind(low, end)
    if edits:
        return edits
    before = re.search(r"([\w'’]+)\s+$", low[max(0, start - 20) : start])
    if before and before.group(1).replace("’", "'") in _INVERTED:
        first = max(0, start - 20) + before.start(1)
        return [(first, first + len(before.group(1)), plural_verb(before.group(1)))]
    return []


def _verbs_behind(low: str, end: int) -> list[tuple[int, int, str]]:
    edits: list[tuple[int, int, str]] = []
    position = end
    while True:
        gap, word, position = next_word(low, position)
        while word and not gap.strip() and (word in _ADVERBS or (word.endswith("ly") and len(word) > 4)):
            gap, word, position = next_word(low, position)
        if not word or gap.strip():
            return edits
        plural = plural_verb(word)
        if plural == word.replace("’", "'"):
            return edits
        edits.append((position - len(word), position, plural))
        gap, conjunction, after = next_word(low, position)
        if gap.strip() or conjunction not in ("and", "or", "then"):
            return edits
        position = after


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
    telling: dict[str, tuple[int, str]] = {}
    for group, mine in counts.items():
        for word, n in mine.items():
            others = [counts[other][word] / sizes[other] for other in counts if other != group]
            if others and n >= least and n / sizes[group] >= share and max(others) <= most:
                telling[word] = (-n, group)
    return {word: telling[word][1] for word in sorted(telling, key=lambda word: (telling[word][0], word))}
