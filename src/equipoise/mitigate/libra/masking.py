"""Which words of a caption are replaced, and the caption with them replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence

from equipoise.models.hf.fillers import generator_for
from equipoise.text import Lexicon
from equipoise.text.english.hiding import mask_count
from equipoise.text.english.tagging import tag_tokens
from equipoise.text.lexicon.rewriting import apply_edits, article_edit, in_case_of

Span = tuple[int, int]
_TOKEN = re.compile(r"\w+(?:-\w+)*|['’]\w+|[^\w\s]")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def is_word(text: str) -> bool:
    """Whether ``text`` is one word of letters, perhaps with hyphens.

    >>> is_word("t-shirt"), is_word("7"), is_word("hot dog")
    (True, False, False)
    """
    return _WORD.fullmatch(text) is not None


def content_spans(text: str, lexicon: Lexicon, tagger: str = "rules") -> list[Span]:
    """Where the content words stand (nouns, verbs, adjectives, adverbs) that the lexicon does not know.

    >>> text = "A man is riding his old bike."
    >>> [text[start:end] for start, end in content_spans(text, Lexicon.load("equipoise"))]
    ['riding', 'old', 'bike']
    """
    spans = [match.span() for match in _TOKEN.finditer(text)]
    tags = tag_tokens([text[start:end].lower() for start, end in spans], tagger=tagger)
    named = [(match.start, match.end) for match in lexicon.find(text)]
    return [
        (start, end)
        for (start, end), tag in zip(spans, tags, strict=True)
        if tag != "function" and is_word(text[start:end]) and not any(a < end and start < b for a, b in named)
    ]


def with_masks(text: str, spans: Sequence[Span], share: float, mask: str, *, seed: int) -> tuple[str, tuple[Span, ...]]:
    """``text`` with the share of ``spans`` masked, drawn by the text and the seed, and which they are.

    >>> with_masks("A man on a bike", [(11, 15)], 0.15, "[MASK]", seed=0)
    ('A man on a [MASK]', ((11, 15),))
    """
    chosen = generator_for(text, seed).choice(len(spans), mask_count(len(spans), share), replace=False)
    taken = tuple(spans[place] for place in sorted(chosen.tolist()))
    return apply_edits(text, [(start, end, mask) for start, end in taken]), taken


def filled(text: str, spans: Sequence[Span], words: Sequence[str]) -> str:
    """``text`` with ``words`` at ``spans``, written as the old ones were; "a" or "an" before them follows.

    >>> filled("A man holds a bat.", [(14, 17)], ["umbrella"])
    'A man holds an umbrella.'
    """
    low, edits = text.lower(), []
    for (start, end), word in zip(spans, words, strict=True):
        edits.append((start, end, in_case_of(text[start:end], word)))
        fitting = article_edit(text, low, start, low[start:end], word) if len(low) == len(text) else None
        if fitting is not None:
            edits.append(fitting)
    return apply_edits(text, edits)
