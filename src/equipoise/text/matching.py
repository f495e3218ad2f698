"""Find many words in a text in one pass: a compiled alternation that shares prefixes.

A lexicon has a few hundred words and a caption fifty letters; one regular expression a word is slow and replaces
what it has just written. One pattern for all of them does neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ["SEPARATOR", "WordFinder", "fold_phrase", "lower"]

# Soft hyphens and zero-width characters are not seen: a word does not end, or begin, at one inside "wo\u00adman".
_UNSEEN = "\u00ad\u200b\u200c\u200d"
# A letter written as base and combining accent is one letter: "man" does not end before an accent.
_ENDS_HERE = rf"(?![{_UNSEEN}]*[\w\u0300-\u036f])"
_SPACE = r"[\s\-]+"
SEPARATOR = "\x00"
"""Parts texts that are searched in one go; no word and no phrase reaches across it."""
_QUOTES = str.maketrans("\u2019\u2018\u02bc", "'''")

_LETTER = re.compile(r"[\w\u0300-\u036f]")

Trie = dict[str, "Trie"]


def lower(text: str) -> str:
    """``text`` in lower case, letter for letter: the result is exactly as long as ``text``.

    Some capitals become two characters when lowered; those are kept, so that positions stay true.

    >>> lower("WOMAN"), len(lower("İstanbul")) == len("İstanbul")
    ('woman', True)
    """
    low = text.lower()
    if len(low) != len(text):
        low = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    return low


def fold_phrase(found: str) -> str:
    """A matched phrase with single spaces and straight apostrophes, however it was written.

    >>> fold_phrase("queen-size"), fold_phrase("men’s  room")
    ('queen size', "men's room")
    """
    return " ".join(re.split(_SPACE, found.translate(_QUOTES)))


class WordFinder:
    """Finds any of ``words`` as whole words in lower-case text, the longest first.

    A space in a word stands for any run of white space and hyphens, an apostrophe for any kind of apostrophe; a
    hyphen stands for itself.

    >>> finder = WordFinder(["man", "men", "police man"])
    >>> list(finder.spans("a police-man, a man's hat, a woman, mankind"))
    [(2, 12), (16, 19)]
    """

    def __init__(self, words: Iterable[str]) -> None:
        trie: Trie = {}
        for word in words:
            node = trie
            for character in word:
                node = node.setdefault(character, {})
            node[""] = {}
        # The pattern begins with the character before the word, given as a plain set: such a pattern is searched for
        # in C, character by character, and one that begins with \\b is not. That alone halves the time.
        starts_here = r"[^a-z0-9_](?<!\w)"
        self.pattern = re.compile(f"{starts_here}{_branches(trie)}{_ENDS_HERE}" if trie else "(?!)")

    def spans(self, low: str) -> Iterator[tuple[int, int]]:
        """Start and end of each word found in ``low``."""
        for hit in self.pattern.finditer(SEPARATOR + low):
            start = hit.start()
            if not (start and low[start - 1] in _UNSEEN and _goes_on(low, start)):
                yield start, hit.end() - 1


def _goes_on(low: str, start: int) -> bool:
    """Whether a word goes on at ``start``, behind characters that are not seen."""
    while start and low[start - 1] in _UNSEEN:
        start -= 1
    return start > 0 and _LETTER.match(low, start - 1) is not None


def _branches(node: Trie) -> str:
    ends = "" in node
    parts = [_character(c) + _branches(child) for c, child in sorted(node.items()) if c]
    if not parts:
        return ""
    if len(parts) == 1 and not ends:
        return parts[0]
    return f"(?:{'|'.join(parts)}){'?' if ends else ''}"


def _character(character: str) -> str:
    if character == " ":
        return _SPACE
    if character == "'":
        return "['\u2019\u2018\u02bc]"
    return re.escape(character)
