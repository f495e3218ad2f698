"""Replace words in a text and leave the rest as it is: case, spaces, punctuation; only "a"/"an" follows."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from functools import lru_cache

from equipoise.text.english.articles import article
from equipoise.text.lexicon.describing import adjective_end, joined_end
from equipoise.text.lexicon.positions import CHAIN, SEPARATOR, next_word

Edit = tuple[int, int, str]
"""Start, end and the new text between them."""

Runs = dict[tuple[int, bool], tuple[str, str, int]]
"""For the ends of adjectives in one text, the gap, the word and its end behind the adjectives that follow: each run is
read once, however long it is, with commas between them or without."""

_ARTICLE_BEFORE = re.compile(r"(?<![\w'’])(an?)\s+$")

_SENTENCE_STARTS = re.compile(r"(?:^|[\x00.!?:\"“])\s*$")

_POSSESSIVE = re.compile(r"['’](?:(s)(?!\w)|(?=\s+\w))")
# A mark that opens a quotation, and one that can only close it; behind an "s" it may as well be a possessive.
_OPENING = re.compile(r"(?<![^\s\x00(\[{\"“])['‘](?=\S)")
_CLOSING = re.compile(r"(?<=[^\s\x00s(\[{\"“])['’](?!\w)")
_QUOTATION = 300
"""Characters in which an opening mark is looked for: a text of nothing but possessives is read in one pass."""
_PLURALS_WITHOUT_S = ("men", "people", "children", "folk")

_WORD_BEFORE = re.compile(r"([\w'’\-]+)(,?)\s+$")
# "the" only where a sentence begins: "in the open, male surfers wait" has a comma of its own.
_BEGINS_PHRASE = re.compile(
    r"\b(?:an?|this|that|these|those|some|several|many|two|three|four|five|six|his|her|its|their|my|your|our)\s+$"
    r"|(?:^|[\x00.!?:;\"“])\s*the\s+$"
)

_article = lru_cache(maxsize=4096)(article)


def in_case_of(old: str, new: str) -> str:
    """``new`` written as ``old`` was: in capitals, with a capital, or as it is.

    >>> in_case_of("WOMAN", "person"), in_case_of("Woman", "person"), in_case_of("woman", "person")
    ('PERSON', 'Person', 'person')
    """
    if old.isupper() and len(old) > 1:
        return new.upper()
    if old[:1].isupper():
        return new[:1].upper() + new[1:]
    return new


def same_article(old: str, new: str) -> bool:
    """Whether the same indefinite article fits both words."""
    return _article(old) == _article(new)


def article_edit(text: str, low: str, start: int, old: str, new: str) -> Edit | None:
    """The edit that makes an "a" or "an" right before ``start`` fit ``new``, if it fitted ``old``.

    >>> article_edit("An actress", "an actress", 3, "actress", "performer")
    (0, 2, 'A')
    """
    article = _ARTICLE_BEFORE.search(low, max(0, start - 12), start)
    if article is None or article.group(1) != _article(old) or article.group(1) == _article(new):
        return None
    written = text[article.start(1) : article.end(1)]
    fitting = _article(new)
    # "A" alone says nothing about the case of the rest, so a capital "A" becomes "An".
    fitting = fitting.upper() if written == "AN" else in_case_of(written[:1], fitting)
    return article.start(1), article.end(1), fitting


def possessive_edit(text: str, low: str, start: int, end: int, new: str) -> Edit | None:
    """The edit that makes the possessive behind the noun ``text[start:end]`` fit ``new``, if it does not.

    The bare apostrophe of "boys'" needs its "s" behind "children", and that of "firemen's" none behind "firefighters".
    An apostrophe that may be the end of a quotation stays as it is.

    >>> possessive_edit("boys' bikes", "boys' bikes", 0, 4, "children")
    (4, 5, "'s")
    >>> possessive_edit("‘two boys’ by Ann", "‘two boys’ by ann", 5, 9, "children") is None
    True
    """
    ending = _POSSESSIVE.match(low, end)
    if ending is None:
        return None
    old, mark = low[start:end], text[end]
    if ending.group(1):
        if old.endswith(_PLURALS_WITHOUT_S) and new.endswith("s") and not new.endswith("ss"):
            return end, ending.end(), mark
        return None
    if not old.endswith("s") or (new.endswith("s") and not new.endswith("'s")) or _in_quotation(low, start, end):
        return None
    if new.endswith("'s"):  # "mens' hats" became "people's"
        return end, ending.end(), ""
    return end, ending.end(), mark + ("S" if text[start:end].isupper() else "s")


def _in_quotation(low: str, start: int, end: int) -> bool:
    """Whether more quotations open than close before the word at ``low[start:end]``."""
    first = max(0, start - _QUOTATION, low.rfind(SEPARATOR, max(0, start - _QUOTATION), start))
    # A mark right before the word is told by the word's first letter, so the search goes on to its end.
    return len(_OPENING.findall(low, first, end)) > len(_CLOSING.findall(low, first, end))


def drop_edits(
    text: str, low: str, start: int, end: int, adjectives: Container[str], runs: Runs, *, commas: bool = False
) -> list[Edit] | None:
    """The edits that take the adjectives at ``text[start:end]`` out; ``None`` if no noun follows after a space.

    Further ``adjectives`` and the "and" between them go with it: "male and female surfers" -> "surfers"; with
    ``commas`` those too: "a young, blonde woman" -> "a blonde woman".

    >>> apply_edits("A male athlete", drop_edits("A male athlete", "a male athlete", 2, 6, {"male"}, {}))
    'An athlete'
    """
    gap, word, word_end = _behind_run(low, end, adjectives, runs, commas)
    if not gap or gap.strip() not in ("", "," if commas else "") or not word:
        return None
    noun = word_end - len(word)
    edits: list[Edit] = [(start, noun, "")]
    if (
        text[start].isupper()
        and not text[start:end].isupper()
        and _SENTENCE_STARTS.search(low, max(0, start - 8), start)
    ):
        edits = [(start, noun + 1, text[noun].upper())]
    fitted = article_edit(text, low, start, low[start:end], word)
    return edits if fitted is None else [fitted, *edits]


def comma_edit(low: str, start: int) -> Edit | None:
    """The edit that takes out the comma before the adjective at ``start``, which goes, if it joined it to others.

    "A tall, male surfer" becomes "a tall surfer"; a comma that ends a phrase ("on a beach, male surfers") stays.

    >>> comma_edit("a tall, male surfer", 8), comma_edit("on a beach, male surfers", 12)
    ((6, 7, ''), None)
    """
    before = _WORD_BEFORE.search(low, max(0, start - 40), start)
    if before is None or not before.group(2):
        return None
    from equipoise.text.english.tagging_context import word_tags  # here: its lists are long, and few texts come so far

    comma = before.start(2)
    for _ in range(CHAIN):
        if before is None or "adjective" not in word_tags(before.group(1)):
            return None
        if _BEGINS_PHRASE.search(low, max(0, before.start() - 16), before.start()):
            return comma, comma + 1, ""
        before = _WORD_BEFORE.search(low, max(0, before.start() - 40), before.start())
    return None


def _behind_run(low: str, end: int, adjectives: Container[str], runs: Runs, commas: bool) -> tuple[str, str, int]:
    """What stands behind the ``adjectives`` that go on from ``end``; noted in ``runs`` for every one of them."""
    passed = []
    while (end, commas) not in runs:
        passed.append((end, commas))
        gap, word, word_end = next_word(low, end)
        behind = word_end if word in ("and", "or") else adjective_end(low, end, adjectives)
        if gap.strip():
            behind = joined_end(low, end, adjectives, commas)
        if behind is None:
            runs[end, commas] = gap, word, word_end
        else:
            end = behind
    runs.update(dict.fromkeys(passed, runs[end, commas]))
    return runs[end, commas]


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """``text`` after ``edits``; of two that overlap the earlier stands, so nothing is replaced twice."""
    pieces: list[str] = []
    done = 0
    for start, end, new in sorted(edits):
        if start >= done:
            pieces += (text[done:start], new)
            done = end
    pieces.append(text[done:])
    return "".join(pieces)
