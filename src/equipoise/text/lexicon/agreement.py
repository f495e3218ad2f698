"""Verb agreement for a subject that became "they": "she is" -> "they are", "he carries" -> "they carry"."""

from __future__ import annotations

import re

from equipoise.text.lexicon.positions import next_word

__all__ = ["agreed_verb", "plural_verb"]

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
    if verb.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
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
