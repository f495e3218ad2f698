"""Quality of captions against references: the public door to BLEU, ROUGE-L, CIDEr-D and an approximation of METEOR.

All take captions and, for each, a list of references, as texts (cut by the rules of the COCO evaluation) or as tokens,
and give the value of the whole set with a bootstrap interval over images and one value per caption, so that groups of
images can be compared. On the same tokens BLEU, ROUGE-L and CIDEr-D equal the COCO evaluation's. METEOR and SPICE
themselves need Java: :mod:`equipoise.audit.captions.java`.

>>> scores = caption_quality(["a dog runs", "a red bus"], [["a dog runs fast"], ["the red bus", "a bus"]])
>>> list(scores)
['bleu_1', 'bleu_2', 'bleu_3', 'bleu_4', 'rouge_l', 'cider', 'meteor_approximate']
>>> scores["rouge_l"].values.round(3).tolist()
[0.836, 0.83]
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from equipoise.errors import UnknownNameError
from equipoise.measure.captions.quality.bleu import bleu, bleu_1, bleu_2, bleu_3, bleu_4
from equipoise.measure.captions.quality.cider import cider
from equipoise.measure.captions.quality.meteor import APPROXIMATION_NOTE, meteor_approximate
from equipoise.measure.captions.quality.rouge import rouge_l
from equipoise.measure.captions.quality.tokens import Caption, CaptionPairs, pair_captions
from equipoise.measure.stats.shares import ItemScores

__all__ = [
    "APPROXIMATION_NOTE",
    "CAPTION_METRICS",
    "Caption",
    "CaptionPairs",
    "bleu",
    "bleu_1",
    "bleu_2",
    "bleu_3",
    "bleu_4",
    "caption_quality",
    "cider",
    "meteor_approximate",
    "pair_captions",
    "rouge_l",
]

_BLEU = ("bleu_1", "bleu_2", "bleu_3", "bleu_4")
CAPTION_METRICS = (*_BLEU, "rouge_l", "cider", "meteor_approximate")
"""What :func:`caption_quality` can measure."""


def caption_quality(
    candidates: Sequence[Caption] | CaptionPairs,
    references: Sequence[Sequence[Caption]] | None = None,
    *,
    metrics: Sequence[str] = CAPTION_METRICS,
    documents: Sequence[Sequence[Caption]] | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, ItemScores]:
    """Several metrics of the same captions by name; the captions are read once.

    With one caption only and no documents CIDEr is left out, as it has no meaning.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.
        metrics: which of :data:`CAPTION_METRICS`.
        documents: the captions of each image over which CIDEr counts how rare words are; the references if None.
        clusters: (n,) the image of each caption, where one has several: whole images are drawn.
        level: confidence level of the intervals.
        seed: which resamples are drawn.

    Returns:
        The scores by the name of the metric, in the order of :data:`CAPTION_METRICS`.
    """
    for name in metrics:
        if name not in CAPTION_METRICS:
            raise UnknownNameError("caption metric", name, CAPTION_METRICS)
    pairs = pair_captions(candidates, references)
    scores: dict[str, ItemScores] = {}
    if set(metrics) & set(_BLEU):
        scores.update(zip(_BLEU, bleu(pairs, clusters=clusters, level=level, seed=seed), strict=True))
    if "rouge_l" in metrics:
        scores["rouge_l"] = rouge_l(pairs, clusters=clusters, level=level, seed=seed)
    if "cider" in metrics and (documents is not None or len(pairs.candidates) > 1):
        scores["cider"] = cider(pairs, documents=documents, clusters=clusters, level=level, seed=seed)
    if "meteor_approximate" in metrics:
        scores["meteor_approximate"] = meteor_approximate(pairs, clusters=clusters, level=level, seed=seed)
    return {name: scores[name] for name in CAPTION_METRICS if name in metrics and name in scores}
