"""Captions as the classifiers see them: words of the group masked, tokens, and words outside a vocabulary hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from equipoise.text import Lexicon

MASK = "groupword"
"""What stands for a word of the lexicon (LIC's "genderword")."""
HIDDEN = "<unk>"
"""What stands for a word of the references that the model never says: one token, in no caption's own words."""
_TOKEN = re.compile(r"\w+|'\w+|[^\w\s]")


def masked(captions: Iterable[str], lexicon: Lexicon | None) -> list[str]:
    """The captions in lower case, words of the lexicon replaced by one word that says no group.

    >>> masked(["A man rides his bike."], Lexicon.load("lic"))
    ['a groupword rides groupword bike.']
    """
    lower = [caption.lower() for caption in captions]
    return lower if lexicon is None else lexicon.mask_all(lower, MASK)


def tokens_of(captions: Iterable[str]) -> list[list[str]]:
    """Words, clitics and signs of each caption.

    >>> tokens_of(["a dog's t-shirt ."])
    [['a', 'dog', "'s", 't', '-', 'shirt', '.']]
    """
    return [_TOKEN.findall(caption) for caption in captions]


def vocabulary_of(tokens: Iterable[Sequence[str]]) -> frozenset[str]:
    """Every word that occurs."""
    return frozenset(word for caption in tokens for word in caption)


def hide_unknown(tokens: Iterable[Sequence[str]], vocabulary: frozenset[str]) -> list[list[str]]:
    """The captions of people as the model could have said them: words it never says become one token.

    >>> hide_unknown([["a", "shiny", "dog"]], frozenset({"a", "dog"}))
    [['a', '<unk>', 'dog']]
    """
    return [[word if word in vocabulary else HIDDEN for word in caption] for caption in tokens]
