"""A filler without a model: the words that stand between the same neighbours in the captions themselves.

And the words that no filler may put in, because they mean the same: by WordNet, where nltk has it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

import numpy as np

from equipoise.errors import InputError
from equipoise.models.hf.fillers import check_sampling, drawn_place, generator_for

_MASK = "[MASK]"
_TOKEN = re.compile(r"\[MASK\]|\w+(?:-\w+)*|['’]\w+|[^\w\s]")
_EDGE = ""


class NeighbourFiller:
    """Draws words by how often they stand between two neighbours in ``captions``.

    Where no caption has both neighbours, or one is masked itself, the left one alone counts, then the right one, then
    none.

    >>> filler = NeighbourFiller(["a dog runs", "a cat runs", "a cat runs", "the bird flies"])
    >>> filler.fill(["A [MASK] runs"], top=2)[0][0][0], filler.sample(["the [MASK] sings"])
    ('cat', [['bird']])
    """

    name = key = "captions"
    mask = _MASK

    def __init__(self, captions: Sequence[str]) -> None:
        self._between: dict[tuple[str | None, str | None], Counter[str]] = defaultdict(Counter)
        for caption in captions:
            words = [_EDGE, *_tokens(caption), _EDGE]
            for left, word, right in zip(words, words[1:], words[2:], strict=False):
                if word[0].isalpha():
                    for around in ((left, right), (left, None), (None, right), (None, None)):
                        self._between[around][word] += 1
        if not self._between:
            raise InputError("the captions hold no words to fill others with")

    def fill(self, texts: Sequence[str], *, top: int = 5) -> list[list[tuple[str, float]]]:
        """For each text, which holds ``mask`` once, the most frequent words with their shares."""
        by_text = []
        for text in texts:
            here = self._at_masks(text)
            if len(here) != 1:
                raise InputError(f"{text!r} holds {self.mask} {len(here)} times; it must stand there once")
            total = here[0].total()
            by_text.append([(word, count / total) for word, count in here[0].most_common(top)])
        return by_text

    def sample(
        self, texts: Sequence[str], *, temperature: float = 1.0, top_k: int = 50, seed: int = 0
    ) -> list[list[str]]:
        """For each text a word for every ``mask`` in it; see :class:`~equipoise.models.protocols.Filler`."""
        check_sampling(texts, self.mask, temperature, top_k)
        rows = []
        for text in texts:
            rng, row = generator_for(text, seed), []
            for counts in self._at_masks(text):
                words = list(counts)
                row.append(words[drawn_place(np.array(list(counts.values())), temperature, top_k, rng)])
            rows.append(row)
        return rows

    def _at_masks(self, text: str) -> list[Counter[str]]:
        words = [_EDGE, *_tokens(text), _EDGE]
        places = [place for place, word in enumerate(words) if word == _MASK.lower()]
        return [self._counts(words[place - 1], words[place + 1]) for place in places]

    def _counts(self, left: str, right: str) -> Counter[str]:
        for around in ((left, right), (left, None), (None, right)):
            if around in self._between:
                return self._between[around]
        return self._between[None, None]


def _tokens(text: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(text)]


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
