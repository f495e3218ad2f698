"""How kindly a caption speaks: a count of kind and unkind words from a small list of our own.

A screen, not a sentiment model: it knows a few hundred words that captions use of people and scenes, turns them round
after "not" and "no", and knows neither irony nor context.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

SENTIMENT_LIST = "equipoise-small"
"""The name of the word list, for results and notes."""

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_REACH = 2
_NEGATIONS = frozenset({"not", "no", "never", "without", "isn't", "aren't", "doesn't", "don't", "wasn't"})


@cache
def sentiment_words() -> dict[str, int]:
    """Each word of the list with +1 or -1."""
    source = files("equipoise.text") / "sentiment_words.toml"
    data = tomllib.loads(source.read_text(encoding="utf-8"))
    return {word: sign for side, sign in (("positive", 1), ("negative", -1)) for word in data[side].split()}


def sentiment(text: str) -> float:
    """Kind minus unkind words over all that are either, in [-1, 1]; 0 where there are none.

    >>> sentiment("A beautiful, smiling woman"), sentiment("an ugly dirty street"), sentiment("a man on a bench")
    (1.0, -1.0, 0.0)
    >>> sentiment("not a happy man")
    -1.0
    """
    signs = sentiment_words()
    words = _WORD.findall(text.lower())
    scores = []
    for place, word in enumerate(words):
        sign = signs.get(word, 0)
        if sign:
            turned = any(before in _NEGATIONS for before in words[max(0, place - _REACH) : place])
            scores.append(-sign if turned else sign)
    return sum(scores) / len(scores) if scores else 0.0


def sentiment_all(texts: Iterable[str]) -> list[float]:
    """:func:`sentiment` of each text."""
    return [sentiment(text) for text in texts]
