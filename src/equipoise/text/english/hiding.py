"""Words of a text hidden at random, as masked language models and editors of captions learn from."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

_WORD = re.compile(r"\w+(?:[-'’]\w+)*")


def mask_count(tokens: int, share: float) -> int:
    """How many of ``tokens`` are masked: their share, halves rounded up, and at least one; none where it is 0.

    >>> [mask_count(n, 0.2) for n in (7, 8, 10, 12, 13)], mask_count(10, 0.15), mask_count(10, 0)
    ([1, 2, 2, 2, 3], 2, 0)
    """
    if share == 0:
        return 0
    # in decimals: 0.15 x 30 is 4.5 and rounds up, whatever the nearest binary number of 0.15 is
    return max(1, int((Decimal(str(share)) * tokens).quantize(Decimal(1), ROUND_HALF_UP)))


def with_hidden_words(text: str, share: float, mask: str, rng: np.random.Generator) -> str:
    """``text`` with a share of its words, drawn by ``rng``, replaced by ``mask``; no full stop is ever hidden.

    >>> with_hidden_words("A man rides a bike.", 0.2, "[MASK]", np.random.default_rng(0))
    'A man [MASK] a bike.'
    >>> with_hidden_words("...", 0.2, "[MASK]", np.random.default_rng(0))
    '...'
    """
    places = [match.span() for match in _WORD.finditer(text)]
    if not places:
        return text
    chosen = sorted(rng.permutation(len(places))[: mask_count(len(places), share)].tolist())
    for number in reversed(chosen):
        start, end = places[number]
        text = text[:start] + mask + text[end:]
    return text
