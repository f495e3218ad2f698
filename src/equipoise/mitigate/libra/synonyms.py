"""Words that mean the same, by WordNet where nltk has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from equipoise.errors import InputError

__all__ = ["synonyms_by"]


def synonyms_by(wanted: str) -> tuple[Callable[[str], frozenset[str]], str]:
    """The synonyms of a word, and where they are from: ``wordnet``, or ``none`` where nobody can say.

    >>> synonyms_by("allowed")[1]
    'none'
    """
    if wanted == "allowed":
        return _no_synonyms, "none"
    try:
        wordnet = import_module("nltk.corpus").wordnet
        wordnet.ensure_loaded()
    except (ModuleNotFoundError, LookupError):
        if wanted == "wordnet":
            raise InputError(
                "synonyms = wordnet needs nltk with WordNet: pip install nltk, then python -m nltk.downloader wordnet; "
                "or say synonyms = allowed"
            ) from None
        return _no_synonyms, "none"

    @cache
    def synonyms(word: str) -> frozenset[str]:
        return frozenset(
            str(name).lower().replace("_", " ") for meaning in wordnet.synsets(word) for name in meaning.lemma_names()
        )

    return synonyms, "wordnet"


def _no_synonyms(word: str) -> frozenset[str]:
    return frozenset()
