"""Pairs that LIBRA's are compared with: words perturbed at random without a filter, and captions that stay as they are.

Both are of Hirota et al., CVPR 2023: random perturbation replaces 15% of the content words and asks no classifier; an
editor that has seen no biased captions learns from hidden words alone, as caption editors such as ENT do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.mitigate.libra.masking import content_spans, filled, is_word, with_masks
from equipoise.mitigate.libra.neighbours import NeighbourFiller
from equipoise.mitigate.libra.pairs import CaptionPair, SynthesisSettings
from equipoise.mitigate.libra.synthesis import named_captions
from equipoise.text import Lexicon


def perturbed_pairs(
    captions: Sequence[str], images: Sequence[str], settings: SynthesisSettings | None = None, *, filler: Any = None
) -> list[CaptionPair]:
    """Every caption of one group with 15% of its content words replaced; no filter refuses any but the same words.

    >>> texts = [f"a {who} rides a {how} {what}" for who in ("man", "woman") for how in ("red", "green")
    ...          for what in ("bike", "kite")] * 8
    >>> pair = perturbed_pairs(texts, [str(i) for i in range(64)])[0]
    >>> pair.biased != pair.original, pair.says == pair.group
    (True, True)
    """
    how = settings or SynthesisSettings()
    lexicon = Lexicon.load(how.lexicon)
    named = named_captions(captions, images, lexicon)
    words_of = filler or NeighbourFiller(named.texts)
    spans = [content_spans(text, lexicon, how.tagger) for text in named.texts]
    rows = [row for row, content in enumerate(spans) if content]
    masks = [with_masks(named.texts[row], spans[row], how.share, words_of.mask, seed=how.seed) for row in rows]
    masked = [text for text, _ in masks]
    drawn = words_of.sample(masked, temperature=how.temperature, top_k=how.top_k, seed=how.seed)
    pairs = []
    for row, (_, places), words in zip(rows, masks, drawn, strict=True):
        text = named.texts[row]
        old = [text[start:end].lower() for start, end in places]
        new = [word.lower() for word in words]
        if new != old and all(map(is_word, new)):
            changed = filled(text, places, new)
            pairs.append(_pair(named.images[row], changed, text, named.groups[named.labels[row]], old, new))
    return pairs


def unchanged_pairs(
    captions: Sequence[str], images: Sequence[str], settings: SynthesisSettings | None = None
) -> list[CaptionPair]:
    """Every caption of one group beside itself: what is hidden of it is all there is to learn."""
    how = settings or SynthesisSettings()
    named = named_captions(captions, images, Lexicon.load(how.lexicon))
    return [
        _pair(image, text, text, named.groups[label], (), ())
        for text, image, label in zip(named.texts, named.images, named.labels, strict=True)
    ]


def _pair(image: str, biased: str, original: str, group: str, old: Sequence[str], new: Sequence[str]) -> CaptionPair:
    replaced = tuple(zip(old, new, strict=True))
    return CaptionPair(image, biased, original, "fill", group, group, float("nan"), float("nan"), None, replaced)
