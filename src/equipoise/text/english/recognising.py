"""Is this English? A rough look at short texts: enough to say that a word list of English does not fit them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import islice

_ENGLISH = frozenset(
    "a an the of with and in on at is are to his her their while near by for from that this next up it its who".split()
)
_OTHERS = {
    "Spanish": "un una unos unas el la los las de del con en y que su al está están por para junto cerca sobre",
    "Portuguese": "um uma uns umas o os as de do da dos das com em no na e que seu sua ao está estão para perto sobre",
    "Italian": "un una uno il lo la gli le di del della con su sul sulla nel nella e che è sono per vicino mentre",
    "French": "un une des le la les de du avec dans sur et est qui sont son sa au aux près en devant",
    "German": "ein eine einer einem einen der das den dem und mit auf im ist sind neben vor seine ihre sitzt steht",
    "Dutch": "een de het van met op en zijn naast voor aan bij haar zit staat die naar",
}
_WORDS = {name: frozenset(words.split()) for name, words in _OTHERS.items()}
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LOOKED_AT = 500
"""Texts; more say nothing new."""
_LEAST_WORDS = 60
"""Of fewer words nothing is said."""
_LEAST_SHARE = 0.12
"""Of words that only tie others together. English captions have about a third; lists of keywords have none."""


def other_language(texts: Iterable[str]) -> str:
    """The language of ``texts`` if it is another than English, as far as small words and letters tell; else empty.

    A few European languages are known by name; one that is not written in Latin letters is said to be so. Lists of
    keywords, short texts and languages that are not known give an empty answer.

    >>> other_language(["Una mujer sentada en la calle con un perro."] * 20)
    'Spanish'
    >>> other_language(["A woman is sitting on the street with a dog."] * 20), other_language(["man surf sea"] * 50)
    ('', '')
    """
    some = list(islice((text for text in texts if text.strip()), _LOOKED_AT))
    letters = "".join(some)[:20_000]
    known = [letter for letter in letters if letter.isalpha()]
    if known and sum(not unicodedata.name(letter, "").startswith("LATIN") for letter in known) > len(known) / 2:
        return "a language that is not written in Latin letters"
    words = [word for text in some for word in _WORD.findall(text.lower())]
    if len(words) < _LEAST_WORDS:
        return ""
    english = sum(word in _ENGLISH for word in words)
    counts = {name: sum(word in small for word in words) for name, small in _WORDS.items()}
    most = max(counts, key=lambda name: counts[name])
    return most if counts[most] > max(2 * english, _LEAST_SHARE * len(words)) else ""
