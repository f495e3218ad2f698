"""Whether an adjective is said of a person: alone before the noun, or joined to others by "and", "or" and commas."""

from __future__ import annotations

import re
from collections.abc import Container

from equipoise.text.lexicon.positions import BREAK, CHAIN, FOLLOWS_AN_OBJECT, fold_phrase, head_of, next_word


def begins_list(low: str, start: int, adjectives: Container[str]) -> bool:
    """Whether the phrase of the adjective at ``start`` begins with it or with ``adjectives`` and commas before it.

    Then a comma behind it goes on with the phrase: "a young, blonde woman", not "the car is black, tall men pass".
    """
    for _ in range(CHAIN):
        if _LEADS.search(low, max(0, start - 16), start):
            return True
        before = _LISTED.search(low, max(0, start - 40), start)
        if before is None or before.group(1) not in adjectives:
            return False
        start = before.start(1)
    return False


def describes(
    low: str, end: int, nouns: Container[str], adjectives: Container[str] = (), *, commas: bool = False
) -> bool:
    """Whether the adjective that ends at ``end`` stands before one of ``nouns``: "a black man", "a young tall man".

    Up to three words are looked at, and none beyond a break or a word that ends the phrase. Further ``adjectives``
    joined to it by "and" or "or", or by ``commas``, are passed over: what stands behind the last is said of all.

    >>> describes("a black man", 7, {"man"}), describes("a black car and a man", 7, {"man"})
    (True, False)
    >>> describes("old and young men", 3, {"men"}, {"old", "young"})
    True
    """
    position = _behind_coordinated(low, end, adjectives, commas)
    for n in range(3):
        gap, word, position = next_word(low, position)
        if commas and n == 0 and gap.strip() == "," and head_of(word) not in nouns:
            gap = " "
        if not word or BREAK.search(gap) or word in FOLLOWS_AN_OBJECT:
            return False
        if word.endswith(("haired", "shirted", "suited", "clad", "striped", "coated")):
            return False  # "a black haired woman": the colour is the hair's
        if word in _PICTURES:
            return False  # "a black and white photo shows men": the colours are the photo's
        if head_of(word) in nouns:
            return True
    return False


_LEADS = re.compile(
    r"(?:^|[\x00.!?:;\"“])\s*$|"
    r"\b(?:an?|the|this|that|these|those|some|two|three|four|five|six|several|many|both|all|of|with)\s+$"
)
_LISTED = re.compile(r"([\w'’\-]+),\s+(?:(?:and|or)\s+)?$")

_PICTURES = frozenset("photo photos photograph photographs picture pictures image images portrait portraits".split())


def _behind_coordinated(low: str, end: int, adjectives: Container[str], commas: bool) -> int:
    """Where the last of the ``adjectives`` ends that "and", "or" or a comma joins to the one that ends at ``end``."""
    for _ in range(CHAIN):
        behind = joined_end(low, end, adjectives, commas)
        if behind is None:
            break
        end = behind
    return end


def joined_end(low: str, end: int, adjectives: Container[str], commas: bool) -> int | None:
    """Where the one of ``adjectives`` ends that "and", "or" or, with ``commas``, a comma joins to one at ``end``."""
    gap, word, position = next_word(low, end)
    comma = commas and gap.strip() == ","
    if gap.strip() and not comma:
        return None
    if word in ("and", "or"):
        return adjective_end(low, position, adjectives)
    return adjective_end(low, position - len(word), adjectives) if comma else None


def adjective_end(low: str, end: int, adjectives: Container[str]) -> int | None:
    """Where the one of ``adjectives`` ends that begins right behind ``end``, of two words before one of one.

    >>> adjective_end("white African American men".lower(), 5, {"african", "african american"})
    22
    """
    gap, first, first_end = next_word(low, end)
    if gap.strip():
        return None
    gap, second, second_end = next_word(low, first_end)
    if not gap.strip() and f"{first} {second}" in adjectives:
        return second_end
    # "middle-aged" is listed with its hyphen, "middle-eastern" with a space that stands for one.
    return first_end if first in adjectives or fold_phrase(first) in adjectives else None
