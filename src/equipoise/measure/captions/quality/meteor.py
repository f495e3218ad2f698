"""An approximation of METEOR without Java: equal words and equal stems are matched, synonyms and paraphrases are not.

The score follows METEOR 1.5 for English (Denkowski 2014) with its published weights; what it lacks are WordNet's
synonyms and the table of paraphrases, and its list of function words is another. On captions of five captioning models
it was 0.95 to 0.97 of METEOR, kept their order, and correlated with it at 0.94 over captions. Never print it as METEOR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from equipoise.array_types import Floats
from equipoise.measure.captions.quality.tokens import Caption, CaptionPairs, pair_captions
from equipoise.measure.captions.splits import estimates_of_sums
from equipoise.measure.metric import metric
from equipoise.measure.stats.shares import ItemScores
from equipoise.text.english.stemming import stem
from equipoise.text.english.tagging import is_function_word

APPROXIMATION_NOTE = "an approximation of METEOR: words and stems, no synonyms, no paraphrases"
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
"""Weight of recall, shape and size of the fragmentation penalty, weight of content words: METEOR 1.5, English."""
STEM_WEIGHT = 0.6
"""What a match of stems counts beside a match of words."""


@metric(
    "meteor_approximate",
    takes="captions",
    title="METEOR (approximate)",
    column="METEOR~",
    summary="An approximation of METEOR without Java.",
    citation="after Denkowski 2014",
    formula="(1 - 0.6 (chunks / matches)^0.2) F of matched words and stems, of the summed counts",
    bounds=(0.0, 1.0),
    better="higher",
    chance="captions of other images: about 0.07",
    when_it_lies="Not METEOR: no synonyms, no paraphrases, and about 4% lower.",
    unit="share",
)
def meteor_approximate(
    candidates: Sequence[Caption] | CaptionPairs,
    references: Sequence[Sequence[Caption]] | None = None,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> ItemScores:
    """An approximation of METEOR of captions against their references, in [0, 1].

    Of each caption the best reference counts. F is the harmonic mean of precision and recall of matched words (content
    words weigh 0.75, function words 0.25, stems 0.6 of a word) with recall at 0.85. The interval is a bootstrap over
    captions or whole images.

    Args:
        candidates: (n,) the captions to judge, or these with their references, as :func:`pair_captions` pairs them.
        references: (n,) the references of each caption, one or more; None where they are paired already.
        clusters: (n,) the image of each caption, where one has several: whole images are drawn.
        level: confidence level of the interval.
        replicates: how many times the bootstrap draws the captions.
        seed: which resamples are drawn.

    Returns:
        The estimate, of the summed counts of all captions, as METEOR reports a corpus, and ``values`` (n,), which are
        (1 - 0.6 (chunks / matches)^0.2) F of each caption.

    >>> scores = meteor_approximate(["a dog runs"], [["a dog runs", "cats"]])
    >>> scores.values.round(3).tolist(), scores.estimate.notes[0]
    ([1.0], 'an approximation of METEOR: words and stems, no synonyms, no paraphrases')
    """
    pairs = pair_captions(candidates, references)
    rows = [_best_counts(c, several) for c, several in zip(pairs.candidates, pairs.references, strict=True)]
    counts = np.array(rows, dtype=np.float64)
    values = _score_of_sums(counts)[:, 0]
    estimate = estimates_of_sums(
        counts,
        _score_of_sums,
        clusters=clusters,
        level=level,
        replicates=replicates,
        seed=seed,
        notes=(APPROXIMATION_NOTE, *pairs.notes),
    )[0]
    return ItemScores(values, estimate, np.ones(len(values), dtype=bool))


@dataclass(frozen=True)
class _Words:
    """One caption made ready: tokens, stems, and the weight of each token."""

    tokens: tuple[str, ...]
    stems: tuple[str, ...]
    weights: tuple[float, ...]


@lru_cache(maxsize=4096)
def _ready(tokens: tuple[str, ...]) -> _Words:
    weights = tuple(1 - DELTA if is_function_word(token) else DELTA for token in tokens)
    return _Words(tokens, tuple(map(stem, tokens)), weights)


def _best_counts(candidate: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, ...]:
    own = _ready(tuple(candidate))
    alignments = [_counts(own, _ready(tuple(reference))) for reference in references]
    return max(alignments, key=lambda counts: _score(*counts))


def _counts(own: _Words, other: _Words) -> tuple[float, ...]:
    """Matched and total weight on both sides, matched words and chunks."""
    pairs = align(own.tokens, own.stems, other.tokens, other.stems)
    matched_own = matched_other = 0.0
    chunks, last = 0, (-2, -2)
    for i, j in pairs:
        share = 1.0 if own.tokens[i] == other.tokens[j] else STEM_WEIGHT
        matched_own += share * own.weights[i]
        matched_other += share * other.weights[j]
        chunks += (i, j) != (last[0] + 1, last[1] + 1)
        last = (i, j)
    if chunks == 1 and len(pairs) == len(own.tokens) == len(other.tokens):
        chunks = 0  # METEOR counts none where the whole caption is one run, also in the sums
    return matched_own, sum(own.weights), matched_other, sum(other.weights), len(pairs), chunks


def align(
    tokens: Sequence[str], stems: Sequence[str], other_tokens: Sequence[str], other_stems: Sequence[str]
) -> list[tuple[int, int]]:
    """Pairs of positions with the same stem, each used once, as many as there can be and in long runs.

    The longest run that is common to both is taken first, then the longest of what is left; of equally long runs the
    one with more equal words.

    >>> align(("a", "dog", "and", "a", "cat"), ("a", "dog", "and", "a", "cat"), ("a", "cat"), ("a", "cat"))
    [(3, 0), (4, 1)]
    """
    places: dict[str, list[int]] = {}
    for j, key in enumerate(other_stems):
        places.setdefault(key, []).append(j)
    cells = {(i, j) for i, key in enumerate(stems) for j in places.get(key, ())}
    pairs: list[tuple[int, int]] = []
    while cells:
        best: list[tuple[int, int]] = []
        rank = (0, 0)
        for i, j in sorted(cells):
            if (i - 1, j - 1) in cells:
                continue
            run = [(i, j)]
            while (run[-1][0] + 1, run[-1][1] + 1) in cells:
                run.append((run[-1][0] + 1, run[-1][1] + 1))
            here = (len(run), sum(tokens[a] == other_tokens[b] for a, b in run))
            if here > rank:
                best, rank = run, here
        pairs += best
        rows, columns = {i for i, _ in best}, {j for _, j in best}
        cells = {(i, j) for i, j in cells if i not in rows and j not in columns}
    return sorted(pairs)


def _score(own: float, own_all: float, other: float, other_all: float, matches: float, chunks: float) -> float:
    if matches == 0:
        return 0.0
    precision, recall = own / own_all, other / other_all
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return float(mean * (1 - GAMMA * (chunks / matches) ** BETA))


def _score_of_sums(sums: Floats) -> Floats:
    """(b, 1) scores of (b, 6) summed counts."""
    return np.array([[_score(*row)] for row in sums.tolist()])
