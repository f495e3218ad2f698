"""CIDEr-D of captions: agreement with the references in what is rare among images (Vedantam 2015)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.captions.quality.tokens import (
    MAX_ORDER,
    Caption,
    CaptionPairs,
    GramCounts,
    as_tokens,
    gram_counts,
    pair_captions,
    positions,
)
from equipoise.measure.metric import metric
from equipoise.measure.stats import summarise
from equipoise.measure.stats.shares import ItemScores

CIDER_SIGMA = 6.0
"""Width of the penalty for a length that differs from the reference's."""


@metric(
    "cider",
    takes="captions",
    title="CIDEr",
    summary="Agreement with the references in what is rare (CIDEr-D).",
    citation="Vedantam 2015",
    formula="10 mean over n of the clipped cosine of n-gram counts times log rarity, times a length penalty",
    bounds=(0.0, 10.0),
    better="higher",
    chance="captions of other images: about 0.06",
    when_it_lies="Depends on which images are judged together; compare equal sets only.",
    unit="score",
)
def cider(
    candidates: Sequence[Caption] | CaptionPairs,
    references: Sequence[Sequence[Caption]] | None = None,
    *,
    documents: Sequence[Sequence[Caption]] | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> ItemScores:
    """CIDEr-D of captions against their references, in [0, 10].

    Each caption is a vector of n-gram counts times log(N / images whose references hold the n-gram); the score is the
    clipped cosine with each reference, times a penalty for another length, averaged over references and n = 1 to 4,
    times 10. The interval is a bootstrap over captions, or over whole images, with the rarities held.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.
        documents: the captions of each image of another set, two images at least, to count rarity there. If None it is
            counted over the references themselves, so that the value depends on which images are judged together.
        clusters: (n,) the image of each caption, where one has several: whole images are drawn.
        level: confidence level of the interval.
        seed: which resamples are drawn.

    Returns:
        The mean with its interval, and ``values`` (n,) of the captions.

    >>> scores = cider(["a red dog", "two cats"], [["a red dog", "a dog"], ["a bird"]])
    >>> scores.values.round(4).tolist(), round(scores.estimate.value, 4)
    ([4.6217, 0.0], 2.3108)
    """
    pairs = pair_captions(candidates, references)
    n = len(pairs.candidates)
    owner = pairs.reference_of
    if documents is None:
        if n < 2:
            raise InputError(
                "candidates: CIDEr of one image is always 0, as no word is rarer than another; give more images, or "
                "the captions of others as documents"
            )
        values = _cider(pairs.grams, [_rarity(grams, n, n) for grams in pairs.grams], n, owner)
    else:
        values = _cider(*_with_documents(pairs, documents), n, owner)
    estimate = summarise(values, clusters=clusters, level=level, method="percentile", seed=seed, notes=pairs.notes)
    return ItemScores(values, estimate, np.ones(n, dtype=bool))


def _with_documents(
    pairs: CaptionPairs, documents: Sequence[Sequence[Caption]]
) -> tuple[list[GramCounts], list[Floats]]:
    """The n-grams of the pairs, and how rare each is in ``documents``."""
    if isinstance(documents, str) or len(documents) < 2:
        raise InputError("documents: give the captions of at least two images, a list each")
    tokens = [[as_tokens(c, f"documents[{i}]") for c in several] for i, several in enumerate(documents)]
    flat = [caption for several in tokens for caption in several]
    n = len(pairs.candidates)
    image = np.repeat(np.arange(len(tokens)), [len(several) for several in tokens])
    groups = np.concatenate([np.arange(n), n + pairs.reference_of, 2 * n + image])
    together = gram_counts([*pairs.candidates, *pairs.flat_references, *flat], groups)
    rarities = [_rarity(grams, 2 * n, len(tokens)) for grams in together]
    return [_before(grams, 2 * n) for grams in together], rarities


def _before(grams: GramCounts, group: int) -> GramCounts:
    """The n-grams of the groups before ``group``."""
    end = int(np.searchsorted(grams.group, group))
    return GramCounts(grams.group[:end], grams.gram[:end], grams.caption[:end], grams.count[:end], grams.kinds)


def _rarity(grams: GramCounts, first: int, images: int) -> Floats:
    """(kinds,) log(images / images that hold the n-gram), of the groups from ``first`` on; unseen counts as once."""
    start = int(np.searchsorted(grams.group, first))
    group, gram = grams.group[start:], grams.gram[start:]
    fresh = (np.diff(group, prepend=-1) != 0) | (np.diff(gram, prepend=-1) != 0)
    held = np.bincount(gram[fresh], minlength=grams.kinds)
    return np.asarray(np.log(images) - np.log(np.maximum(1, held)))


def _cider(grams: list[GramCounts], rarities: list[Floats], n: int, owner: NDArray[np.int64]) -> Floats:
    m = len(owner)
    total = np.zeros(m)
    for counts, rarity in zip(grams, rarities, strict=True):
        total += _clipped_cosines(counts, rarity, n, owner)
    # The evaluation takes the number of pairs of words for the length.
    pairs = np.bincount(grams[1].caption, grams[1].count, minlength=n + m)
    gap = pairs[:n][owner] - pairs[n:]
    total *= np.exp(-(gap**2) / (2 * CIDER_SIGMA**2))
    each = np.bincount(owner, minlength=n)
    return np.asarray(10 * np.bincount(owner, total, minlength=n) / (MAX_ORDER * each))


def _clipped_cosines(grams: GramCounts, rarity: Floats, n: int, owner: NDArray[np.int64]) -> Floats:
    """(m,) sum of min(candidate, reference) * reference over n-grams, over the two lengths; one order."""
    m = len(owner)
    weight = grams.count * rarity[grams.gram]
    norms = np.sqrt(np.bincount(grams.caption, weight**2, minlength=n + m))
    own = int(np.searchsorted(grams.group, n))
    keys = grams.group[:own] * grams.kinds + grams.gram[:own]
    reference = grams.caption[own:] - n
    at, hit = positions(keys, (grams.group[own:] - n) * grams.kinds + grams.gram[own:])
    matched = np.minimum(weight[:own][at[hit]], weight[own:][hit]) * weight[own:][hit]
    sums = np.bincount(reference[hit], matched, minlength=m)
    lengths = norms[:n][owner] * norms[n:]
    return np.asarray(np.divide(sums, lengths, out=np.zeros(m), where=lengths > 0))
