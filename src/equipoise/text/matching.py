"""Find many words in a text in one pass: a compiled alternation that shares prefixes.

A lexicon has a few hundred words and a caption fifty letters; one regular expression a word is slow and replaces
what it has just written. One pattern for all of them does neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["fold_phrase", "lower", "words_pattern"]

# A letter written as base and combining accent is one letter: "man" does not end before an accent.
_ENDS_HERE = r"(?![\w\u0300-\u036f])"
_SPACE = r"[\s\-]+"
_QUOTES = str.maketrans("\u2019\u2018\u02bc", "'''")

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
    """A matched phrase as the lexicon writes it: single spaces, straight apostrophes.

    >>> fold_phrase("queen-size"), fold_phrase("men’s  room")
    ('queen size', "men's room")
    """
    return " ".join(re.split(_SPACE, found.translate(_QUOTES)))


def words_pattern(words: Iterable[str]) -> re.Pattern[str]:
    """One pattern that finds any of ``words`` as whole words in lower-case text, the longest first.

    A space in a word stands for any run of white space and hyphens, an apostrophe for any kind of apostrophe.

    >>> pattern = words_pattern(["man", "men", "police man"])
    >>> [m.group() for m in pattern.finditer("a police-man, a man's hat, a woman, mankind")]
    ['police-man', 'man']
    """
    trie: Trie = {}
    for word in words:
        node = trie
        for character in fold_phrase(word):
            node = node.setdefault(character, {})
        node[""] = {}
    if not trie:
        return re.compile(r"(?!)")
    # The first letter stands before the look-behind: a pattern that begins with a set of letters is searched for
    # in C, letter by letter, and one that begins with \b is not. That alone halves the time.
    branches = [f"{re.escape(c)}(?<![\\w]{re.escape(c)}){_branches(node)}" for c, node in sorted(trie.items())]
    return re.compile(f"(?:{'|'.join(branches)}){_ENDS_HERE}")


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
