"""BLEU of captions: how many of their word runs stand in a reference (Papineni 2002), as the COCO evaluation has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.array_types import Floats
from equipoise.measure.captions.quality.tokens import MAX_ORDER, Caption, CaptionPairs, pair_captions, positions
from equipoise.measure.captions.splits import estimates_of_sums
from equipoise.measure.metric import metric
from equipoise.measure.stats.shares import ItemScores

# The evaluation's guards against 0 / 0; published per-caption values contain them.
_TINY, _SMALL = 1e-15, 1e-9

_BLEU: dict[str, Any] = {
    "takes": "captions",
    "citation": "Papineni 2002",
    "formula": "brevity penalty times the geometric mean of the clipped n-gram precisions of the summed counts",
    "bounds": (0.0, 1.0),
    "better": "higher",
    "when_it_lies": "More references give higher values; per-caption values do not average to it.",
    "unit": "share",
}
"""What the four orders have in common."""


def bleu(
    candidates: Sequence[Caption] | CaptionPairs,
    references: Sequence[Sequence[Caption]] | None = None,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> tuple[ItemScores, ItemScores, ItemScores, ItemScores]:
    """BLEU-1 to BLEU-4 of captions against their references, in [0, 1].

    The value is the corpus's: geometric mean of the clipped precisions of the summed counts, times the brevity
    penalty exp(1 - r / c) with the closest reference lengths. The interval resamples captions, or whole images, and
    sums their counts anew.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.
        clusters: (n,) the image of each caption, where one has several: whole images are drawn.
        level: confidence level of the interval.
        replicates: how many times the bootstrap draws the captions.
        seed: which resamples are drawn.

    Returns:
        BLEU-1 to BLEU-4, each with ``values`` (n,), the captions' own BLEU, whose mean is another number.

    >>> scores = bleu(["a dog runs on grass"], [["a dog runs on the grass", "dogs"]])
    >>> [round(score.estimate.value, 4) for score in scores]
    [0.8187, 0.709, 0.6498, 0.5789]
    """
    pairs = pair_captions(candidates, references)
    counts = bleu_counts(pairs)
    values = _bleu_of_sums(counts)
    estimates = estimates_of_sums(
        counts, _bleu_of_sums, clusters=clusters, level=level, replicates=replicates, seed=seed, notes=pairs.notes
    )
    every = np.ones(len(values), dtype=bool)
    one, two, three, four = (ItemScores(values[:, k], estimate, every) for k, estimate in enumerate(estimates))
    return one, two, three, four


@metric(
    "bleu_1",
    title="BLEU-1",
    summary="Share of words that stand in a reference.",
    chance="captions of other images: about 0.31",
    **_BLEU,
)
def bleu_1(
    candidates: Sequence[Caption] | CaptionPairs, references: Sequence[Sequence[Caption]] | None = None
) -> ItemScores:
    """BLEU-1: single words; see :func:`bleu`.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.

    Returns:
        The corpus's BLEU-1 with its interval, and that of each caption.
    """
    return bleu(candidates, references)[0]


@metric(
    "bleu_2",
    title="BLEU-2",
    summary="Share of runs of up to two words that stand in a reference.",
    chance="captions of other images: about 0.13",
    **_BLEU,
)
def bleu_2(
    candidates: Sequence[Caption] | CaptionPairs, references: Sequence[Sequence[Caption]] | None = None
) -> ItemScores:
    """BLEU-2: up to pairs of words; see :func:`bleu`.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.

    Returns:
        The corpus's BLEU-2 with its interval, and that of each caption.
    """
    return bleu(candidates, references)[1]


@metric(
    "bleu_3",
    title="BLEU-3",
    summary="Share of runs of up to three words that stand in a reference.",
    chance="captions of other images: about 0.05",
    **_BLEU,
)
def bleu_3(
    candidates: Sequence[Caption] | CaptionPairs, references: Sequence[Sequence[Caption]] | None = None
) -> ItemScores:
    """BLEU-3: up to three words in a row; see :func:`bleu`.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.

    Returns:
        The corpus's BLEU-3 with its interval, and that of each caption.
    """
    return bleu(candidates, references)[2]


@metric(
    "bleu_4",
    title="BLEU-4",
    summary="Share of runs of up to four words that stand in a reference.",
    chance="captions of other images: about 0.03",
    **_BLEU,
)
def bleu_4(
    candidates: Sequence[Caption] | CaptionPairs, references: Sequence[Sequence[Caption]] | None = None
) -> ItemScores:
    """BLEU-4: up to four words in a row; see :func:`bleu`.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.

    Returns:
        The corpus's BLEU-4 with its interval, and that of each caption.
    """
    return bleu(candidates, references)[3]


def bleu_counts(pairs: CaptionPairs) -> Floats:
    """(n, 10): of each caption the matched n-grams by order, the n-grams by order, its length, the closest reference's.

    Summed over captions they give the corpus's BLEU.
    """
    n = len(pairs.candidates)
    matched = np.zeros((n, MAX_ORDER))
    for k, grams in enumerate(pairs.grams):
        own = int(np.searchsorted(grams.group, n))
        keys = grams.group[:own] * grams.kinds + grams.gram[:own]
        theirs = (grams.group[own:] - n) * grams.kinds + grams.gram[own:]
        at, hit = positions(keys, theirs)
        most = np.zeros(own, dtype=np.int64)
        np.maximum.at(most, at[hit], grams.count[own:][hit])
        clipped = np.minimum(most, grams.count[:own])
        matched[:, k] = np.bincount(grams.caption[:own], clipped, minlength=n)
    length = pairs.candidate_lengths
    guesses = np.maximum(length[:, None] - np.arange(MAX_ORDER), 0)
    return np.column_stack([matched, guesses, length, _closest_lengths(pairs)]).astype(np.float64)


def _closest_lengths(pairs: CaptionPairs) -> Floats:
    """(n,) length of the reference whose length is closest to the candidate's; the shorter of two."""
    lengths = pairs.reference_lengths
    gap = np.abs(lengths - pairs.candidate_lengths[pairs.reference_of])
    order = np.lexsort((lengths, gap, pairs.reference_of))
    first = np.unique(pairs.reference_of[order], return_index=True)[1]
    return lengths[order][first].astype(np.float64)


def _bleu_of_sums(sums: Floats) -> Floats:
    """(b, 4) BLEU-1 to BLEU-4 of (b, 10) summed counts."""
    matched, guesses = sums[:, :MAX_ORDER], sums[:, MAX_ORDER : 2 * MAX_ORDER]
    length, closest = sums[:, -2], sums[:, -1]
    products = np.cumprod((matched + _TINY) / (guesses + _SMALL), axis=1)
    ratio = (length + _TINY) / (closest + _SMALL)
    penalty = np.where(ratio < 1, np.exp(np.minimum(0.0, 1 - 1 / ratio)), 1.0)
    return np.asarray(products ** (1 / np.arange(1, MAX_ORDER + 1)) * penalty[:, None])
