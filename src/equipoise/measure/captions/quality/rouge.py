"""ROUGE-L of captions: the longest common subsequence with a reference (Lin 2004), as the COCO evaluation has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from equipoise.measure.captions.quality.tokens import Caption, CaptionPairs, pair_captions
from equipoise.measure.metric import metric
from equipoise.measure.stats import summarise
from equipoise.measure.stats.shares import ItemScores

ROUGE_BETA = 1.2
"""How much more recall counts than precision."""


@metric(
    "rouge_l",
    takes="captions",
    title="ROUGE-L",
    summary="Longest common subsequence with a reference.",
    citation="Lin 2004",
    formula="mean F, beta 1.2, of the best precision and the best recall over references",
    bounds=(0.0, 1.0),
    better="higher",
    chance="captions of other images: about 0.24",
    when_it_lies="Common function words alone give half of what a person reaches.",
    unit="share",
)
def rouge_l(
    candidates: Sequence[Caption] | CaptionPairs,
    references: Sequence[Sequence[Caption]] | None = None,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> ItemScores:
    """ROUGE-L of captions against their references, in [0, 1]: the mean F with beta 1.2.

    Precision and recall are of the longest common subsequence, each the best over the references, which may be two
    different ones. The interval is a bootstrap over captions, or over whole images.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.
        clusters: (n,) the image of each caption, where one has several: whole images are drawn.
        level: confidence level of the interval.
        seed: which resamples are drawn.

    Returns:
        The mean with its interval, and ``values`` (n,) of the captions.

    >>> rouge_l(["a dog runs"], [["a brown dog runs", "dog"]]).values.round(4).tolist()
    [1.0]
    >>> rouge_l(["a dog runs"], [["a dog sleeps"]]).values.round(4).tolist()
    [0.6667]
    """
    pairs = pair_captions(candidates, references)
    values = np.array([_f_score(c, several) for c, several in zip(pairs.candidates, pairs.references, strict=True)])
    estimate = summarise(values, clusters=clusters, level=level, method="percentile", seed=seed, notes=pairs.notes)
    return ItemScores(values, estimate, np.ones(len(values), dtype=bool))


def _f_score(candidate: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    if not candidate:
        return 0.0
    places = _places(candidate)
    common = [common_length(places, len(candidate), reference) for reference in references]
    precision = max(common) / len(candidate)
    recall = max(
        length / len(reference) if reference else 0.0 for length, reference in zip(common, references, strict=True)
    )
    if precision == 0 or recall == 0:
        return 0.0
    square = ROUGE_BETA**2
    return (1 + square) * precision * recall / (recall + square * precision)


def _places(tokens: Sequence[str]) -> dict[str, int]:
    """Of each token, the positions where it stands, as bits."""
    places: dict[str, int] = {}
    for i, token in enumerate(tokens):
        places[token] = places.get(token, 0) | 1 << i
    return places


def common_length(places: Mapping[str, int], length: int, other: Sequence[str]) -> int:
    """The length of the longest common subsequence of ``other`` and ``length`` tokens that stand at ``places``.

    A whole row of the usual table is one integer here, a bit for each token (Crochemore 2001).

    >>> common_length({"a": 0b001, "dog": 0b010, "runs": 0b100}, 3, ["a", "cat", "runs"])
    2
    """
    row = full = (1 << length) - 1
    for token in other:
        match = row & places.get(token, 0)
        if match:
            row = (row + match) | (row - match)
    return length - (row & full).bit_count()
