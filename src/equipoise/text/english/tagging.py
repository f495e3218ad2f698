"""Which words of a caption carry content: nouns, verbs, adjectives and adverbs, told from function words.

A small tagger of word lists, endings and the neighbouring words, made for the short plain sentences of captions. By
convention:

- forms of be, have and do and the modals are function words, also where they are the only verb;
- prepositions and particles ("up", "off", "on") are function words, as are numbers, pronouns and "'s";
- a participle before the noun it describes is an adjective ("a parked car"), elsewhere a verb ("a car parked there");
- the first part of a compound is a noun ("a living room", "a glass table").

spaCy is used instead by ``tagger="spacy"`` where it is installed with its small English model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.english.ptb import ptb_tokens
from equipoise.text.english.tagging_context import tag_at, word_tags

Tag = Literal["noun", "verb", "adjective", "adverb", "function"]
TAGS: tuple[Tag, ...] = ("noun", "verb", "adjective", "adverb", "function")
TAGGERS = ("rules", "spacy")
SPACY_MODEL = "en_core_web_sm"


@dataclass(frozen=True)
class ContentWord:
    """A content word, the tag it has most often, and how often it stands in the captions."""

    word: str
    tag: str
    count: int


def is_function_word(word: str) -> bool:
    """Whether ``word`` is of a closed class (article, pronoun, preposition, conjunction, auxiliary, number).

    >>> is_function_word("the"), is_function_word("dog")
    (True, False)
    """
    return word_tags(word) == ("function",)


def tag_tokens(tokens: Sequence[str], *, tagger: str = "rules") -> list[str]:
    """The tag of each of ``tokens``, one caption in lower case, with ``rules`` or ``spacy``.

    >>> tag_tokens("a parked car stands near the man riding a wave".split())
    ['function', 'adjective', 'noun', 'verb', 'function', 'function', 'noun', 'verb', 'function', 'noun']
    """
    return _tagged([tokens], tagger)[0]


def content_vocabulary(
    captions: Iterable[str | Sequence[str]], top: int = 1000, *, tagger: str = "rules"
) -> list[ContentWord]:
    """The content words among the ``top`` most common words of ``captions``, most common first.

    A caption is a text or its tokens. A word is a content word if most of its uses are. Words that are equally common
    come in alphabetical order.

    >>> content_vocabulary(["A dog ran.", "A dog and the cat"], top=2)
    [ContentWord(word='dog', tag='noun', count=2)]
    """
    if top < 1:
        raise InputError(f"top = {top}: ask for at least one word")
    listed = [ptb_tokens(caption) if isinstance(caption, str) else list(caption) for caption in captions]
    totals = Counter(token for tokens in listed for token in tokens)
    common = sorted(totals, key=lambda word: (-totals[word], word))[:top]
    uses = Counter(
        use
        for tokens, tags in zip(listed, _tagged(listed, tagger), strict=True)
        for use in zip(tokens, tags, strict=True)
    )
    words = []
    for word in common:
        tag = max(TAGS, key=lambda tag: uses[word, tag])
        content = totals[word] - uses[word, "function"]
        if 2 * content > totals[word]:
            best = tag if tag != "function" else max(TAGS[:-1], key=lambda tag: uses[word, tag])
            words.append(ContentWord(word, best, totals[word]))
    return words


def _tagged(captions: Sequence[Sequence[str]], tagger: str) -> list[list[str]]:
    if tagger not in TAGGERS:
        raise UnknownNameError("tagger", tagger, TAGGERS)
    return _tagged_by_spacy(captions) if tagger == "spacy" else [_tagged_by_rules(tokens) for tokens in captions]


def _tagged_by_rules(tokens: Sequence[str]) -> list[str]:
    words = [token.lower() for token in tokens]
    tags: list[str] = []
    for i, word in enumerate(words):
        known = word_tags(word)
        tags.append(known[0] if len(known) == 1 else tag_at(i, words, tags))
    return tags


_OF_SPACY = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "ADJ": "adjective", "ADV": "adverb"}


def _tagged_by_spacy(captions: Sequence[Sequence[str]]) -> list[list[str]]:
    pipeline, doc = _spacy()
    documents = (doc(pipeline.vocab, words=list(tokens)) for tokens in captions)
    return [[_OF_SPACY.get(token.pos_, "function") for token in done] for done in pipeline.pipe(documents)]


@lru_cache(maxsize=1)
def _spacy() -> tuple[Any, Any]:
    try:
        spacy = import_module("spacy")
    except ModuleNotFoundError:
        raise InputError(
            "tagger='spacy' needs spaCy, which is not installed; install it with: pip install spacy, or use 'rules'"
        ) from None
    try:
        return spacy.load(SPACY_MODEL, disable=["parser", "ner", "lemmatizer"]), spacy.tokens.Doc
    except OSError:
        raise InputError(
            f"tagger='spacy' needs the model {SPACY_MODEL}, which is not installed; install it with: python -m spacy "
            f"download {SPACY_MODEL}, or use 'rules'"
        ) from None
