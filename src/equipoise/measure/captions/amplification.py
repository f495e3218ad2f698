"""Bias amplification BA: do words (or objects) lean further to a group in captions than in what they describe?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_matrix, same_length
from equipoise.measure.captions.counts import Amplification, TwoSides, moved_interval, two_sided_estimate
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import with_chance


def bias_terms(reference: Floats, predicted: Floats) -> tuple[Floats, Floats, Floats]:
    """b (…, L, A), b hat, and the terms of BA, from counts (…, L, A); a word never predicted adds 0."""
    lean = _shares(reference)
    said = _shares(predicted)
    counts = (lean > 1 / reference.shape[-1] + 1e-12) & (predicted.sum(axis=-1, keepdims=True) > 0)
    return lean, said, np.where(counts, said - lean, 0.0)


def _shares(counts: Floats) -> Floats:
    totals = counts.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0))


@metric(
    "ba",
    takes="captions",
    title="BA",
    summary="How much further words lean to the group they lean to already.",
    citation="Zhao et al., Men Also Like Shopping, EMNLP 2017; for captions: LIC, CVPR 2022",
    formula="1 / L sum of (b hat - b) over pairs with b(a, l) > 1 / A; b = c(a, l) / sum_a c(a, l)",
    bounds=(-1.0, 1.0),
    direction="above 0: amplified",
    better="lower",
    chance="below 0: pairs that leaned by chance fall back; captions exchanged with references of their image",
    when_it_lies="Signs cancel over words; a rare word leans by chance; which words count decides it.",
    unit="share",
)
def ba(
    reference: ArrayLike,
    predicted: ArrayLike,
    *,
    items: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Amplification:
    """BA from counts of how often each item occurs with each group (Zhao 2017).

    b(a, l) = c(a, l) / sum_a c(a, l) in the reference, b hat the same in the predictions;
    BA = 1 / L sum over (a, l) with b(a, l) > 1 / A of b hat - b. An item with equal counts, and one that is never
    predicted, adds 0 and stays in L.

    Null: each item's counts of both sides dealt anew between the sides (multivariate hypergeometric: the exact
    test of Fisher, many groups), two-sided. Interval: counts of each item drawn anew. Both take every count for an
    independent image; :func:`ba_of_captions` knows better.

    Args:
        reference: (L, A) how often each item occurs with each group in what is described; no row is all 0, and there
            are two groups at least.
        predicted: (L, A) the same in the predictions.
        items: (L,) names of the items for the table; numbers if None.
        names: (A,) names of the groups for the table; numbers if None.
        draws: how many draws the null and the interval take, each.
        seed: which counts are drawn for both.
        level: confidence level of the interval.

    Returns:
        BA, and a table of the counts, the shares b and b hat and the term of each item and group.

    >>> found = ba([[6, 4], [2, 8]], [[8, 2], [3, 7]])
    >>> round(found.estimate.value, 6), found.table["term"].round(2).tolist()
    (0.05, [0.2, 0.0, 0.0, -0.1])
    """
    truth, said = as_matrix(reference, "reference"), as_matrix(predicted, "predicted")
    if truth.shape != said.shape or truth.shape[1] < 2:
        raise InputError(
            f"reference has shape {truth.shape} and predicted {said.shape}; both are items by groups, two at least"
        )
    for name, counts in (("reference", truth), ("predicted", said)):
        if (counts < 0).any() or (counts != np.round(counts)).any():
            raise InputError(f"{name} must hold counts: whole numbers of at least 0")
    if (truth.sum(axis=1) == 0).any():
        item = int(np.argmin(truth.sum(axis=1)))
        raise InputError(f"item {item} never occurs in the reference; leave it out")
    as_count(draws, "draws")
    lean, shares, terms = bias_terms(truth, said)
    value = float(terms.sum() / len(truth))
    rng = np.random.default_rng(seed)
    null = _dealt_counts(truth, said, draws, rng)
    spread = np.zeros(draws)
    for item, chance in enumerate(lean):
        b = rng.multinomial(int(truth[item].sum()), chance, size=draws)
        h = rng.multinomial(int(said[item].sum()), shares[item] if said[item].any() else chance, size=draws)
        spread += bias_terms(b.astype(float), h.astype(float))[2].sum(axis=1) / len(truth)
    low, high, why = moved_interval(value, spread, level, least=-1.0, most=1.0)
    estimate = Estimate(
        value,
        low,
        high,
        n=int(said.sum()),
        n_groups=truth.shape[1],
        notes=(f"{len(truth)} items; counts taken as independent", *_never(said), *why),
        level=level,
    )
    estimate = with_chance(estimate, null, alternative="two-sided", rng=rng)
    return Amplification(estimate, bias_table(truth, said, items, names))


def _dealt_counts(truth: Floats, said: Floats, draws: int, rng: np.random.Generator) -> Floats:
    null = np.zeros(draws)
    for item in range(len(truth)):
        pooled = (truth[item] + said[item]).astype(np.int64)
        drawn = rng.multivariate_hypergeometric(pooled, int(said[item].sum()), size=draws, method="marginals")
        null += bias_terms((pooled - drawn).astype(float), drawn.astype(float))[2].sum(axis=1) / len(truth)
    return null


def _never(said: Floats) -> tuple[str, ...]:
    missing = int((said.sum(axis=1) == 0).sum())
    return (f"{missing} items are never predicted and add 0",) if missing else ()


def bias_table(truth: Floats, said: Floats, items: Sequence[str] | None, names: Sequence[str] | None) -> pd.DataFrame:
    """One row per item and group: counts, shares b and b hat, and the term that enters BA."""
    lean, shares, terms = bias_terms(truth, said)
    n_items, n_groups = truth.shape
    words = [str(i) for i in range(n_items)] if items is None else [str(i) for i in items]
    groups = [str(i) for i in range(n_groups)] if names is None else [str(i) for i in names]
    if len(words) != n_items or len(groups) != n_groups:
        raise InputError(f"{len(words)} items and {len(groups)} names for counts of shape {truth.shape}")
    return pd.DataFrame(
        {
            "item": np.repeat(np.array(words, dtype=object), n_groups),
            "group": np.tile(np.array(groups, dtype=object), n_items),
            "reference_count": truth.ravel().astype(int),
            "predicted_count": said.ravel().astype(int),
            "reference": lean.ravel(),
            "predicted": shares.ravel(),
            "term": terms.ravel(),
        }
    )


@dataclass(frozen=True)
class SelectedWords:
    """The words that BA is the mean over, and what was left out on the way."""

    words: tuple[str, ...]
    dropped: dict[str, int]


def select_words(
    tokens: Sequence[Sequence[str]],
    groups: Groups,
    *,
    content: Collection[str] | None = None,
    exclude: Collection[str] = (),
    top: int = 1000,
    least: int = 100,
) -> SelectedWords:
    """The words of BA: content words among the ``top`` commonest, seen with each group at least ``least`` times.

    Occurrences are counted once per caption.

    Args:
        tokens: (n,) the words of each reference caption.
        groups: (n,) the group each caption names (-1 for none or several: skipped in the co-occurrences).
        content: the nouns, verbs, adjectives and adverbs, from a tagger outside (all words if None).
        exclude: words never to count, such as the group words themselves.
        top: how many of the commonest words are looked at, before ``content`` and ``exclude`` thin them out.
        least: in how many captions of each group a word must be. The paper finds 290 words with 100 "at least"
            (elsewhere "more than": 101).

    Returns:
        The words in alphabetical order, and how many were left out for which reason.

    >>> groups = Groups.from_values(["m", "f", "m", "f"])
    >>> words = [["man", "bike"], ["woman", "bike"], ["man", "bike"], ["woman", "cup"]]
    >>> select_words(words, groups, least=1).words
    ('bike',)
    """
    groups.check_length(len(tokens))
    as_count(top, "top")
    as_count(least, "least")
    seen: Counter[str] = Counter()
    with_group = [Counter[str]() for _ in groups.names]
    for words, group in zip(tokens, groups.labels.tolist(), strict=True):
        present = set(words)
        seen.update(present)
        if group >= 0:
            with_group[group].update(present)
    common = [word for word, _ in sorted(seen.items(), key=lambda pair: (-pair[1], pair[0]))[:top]]
    wanted = [word for word in common if (content is None or word in content) and word not in exclude]
    kept = sorted(word for word in wanted if all(count[word] >= least for count in with_group))
    dropped = {
        f"words not among the {top} commonest": len(seen) - len(common),
        "words that are no content words, or excluded": len(common) - len(wanted),
        f"words with fewer than {least} captions of some group": len(wanted) - len(kept),
    }
    return SelectedWords(tuple(kept), {reason: count for reason, count in dropped.items() if count})


def ba_of_captions(
    reference: Sequence[Sequence[str]],
    reference_groups: Groups,
    predicted: Sequence[Sequence[str]],
    predicted_groups: Groups,
    *,
    words: Sequence[str] | None = None,
    content: Collection[str] | None = None,
    exclude: Collection[str] = (),
    top: int = 1000,
    least: int = 100,
    reference_images: Sequence[Hashable] | None = None,
    predicted_images: Sequence[Hashable] | None = None,
    draws: int = 499,
    replicates: int = 500,
    seed: int = 0,
    level: float = 0.95,
) -> Amplification:
    """BA of the words of captions (LIC, CVPR 2022).

    Occurrences are counted once per caption; only ratios enter, so five references may stand against one prediction.

    Null: the model's caption of an image exchanged with one of its references at random (captions of the same
    image are alike, so the exchange stays inside it, given the images' ids on both sides); where fewer than a tenth
    of the images are on both sides, the others are exchanged whole. Two-sided. Interval: bootstrap over images, moved
    by its own bias.

    Args:
        reference: (n,) the words of each reference caption.
        reference_groups: (n,) the groups that the captions name (:attr:`Mentions.groups`; captions that name none or
            several are skipped), or the images' labels.
        predicted: (m,) the words of each of the model's captions.
        predicted_groups: (m,) the same of these, with the same groups in the same order.
        words: the words that BA is the mean over; those of :func:`select_words` on the reference if None.
        content: for :func:`select_words`, like the next three; not read where ``words`` are given.
        exclude: words never to count, such as the group words themselves.
        top: how many of the commonest words are looked at.
        least: in how many reference captions of each group a word must be.
        reference_images: (n,) the image of each reference caption. Give the images of both sides or of neither; without
            them every caption is an image of its own.
        predicted_images: (m,) the image of each of the model's captions.
        draws: how many exchanges the null takes.
        replicates: how many times the bootstrap draws the images.
        seed: which exchanges and resamples are drawn.
        level: confidence level of the interval.

    Returns:
        BA, and a table of the counts, the shares b and b hat and the term of each word and group.

    >>> told = [["bike"], ["bike"], ["cup"], ["cup"]] * 10
    >>> who = Groups.from_values(["m", "m", "f", "m"] * 10)
    >>> said = Groups.from_values(["m", "m", "f", "f"] * 10)
    >>> ba_of_captions(told, who, told, said, words=["bike", "cup"]).estimate.value
    0.0
    """
    same_length(reference, "reference", reference_groups, "reference_groups")
    same_length(predicted, "predicted", predicted_groups, "predicted_groups")
    if reference_groups.names != predicted_groups.names:
        raise InputError(
            f"reference_groups names {reference_groups.names} and predicted_groups {predicted_groups.names}; "
            "both sides need the same groups in the same order"
        )
    chosen_words = (
        select_words(reference, reference_groups, content=content, exclude=exclude, top=top, least=least)
        if words is None
        else SelectedWords(tuple(dict.fromkeys(words)), {})  # a word that is named twice is one word
    )
    if not chosen_words.words:
        raise InputError(
            f"no word is left for BA: none of the {top} commonest occurs in {least} captions of each group; lower least"
        )
    n_groups = reference_groups.n_groups
    shape = (len(chosen_words.words), n_groups)
    sides = TwoSides.stacked(
        cooccurring(reference, reference_groups, chosen_words.words),
        cooccurring(predicted, predicted_groups, chosen_words.words),
        reference_images,
        predicted_images,
    )

    def amplification(truth: Floats, said: Floats, _: Floats) -> Floats:
        terms = bias_terms(truth.reshape(-1, *shape), said.reshape(-1, *shape))[2]
        return np.asarray(terms.sum(axis=(1, 2)) / shape[0])

    truth, said, _ = sides.totals()
    dropped = dict(chosen_words.dropped)
    skipped = {
        "reference captions that name no group or several": reference_groups.n_undefined,
        "predicted captions that name no group or several": predicted_groups.n_undefined,
    }
    dropped |= {reason: count for reason, count in skipped.items() if count}
    never = _never(said.reshape(shape))
    estimate = two_sided_estimate(
        sides,
        amplification,
        n=int(predicted_groups.defined.sum()),
        n_groups=n_groups,
        draws=draws,
        replicates=replicates,
        seed=seed,
        level=level,
        alternative="two-sided",
        dropped=dropped,
        notes=(f"{shape[0]} words", *never),
    )
    table = bias_table(truth.reshape(shape), said.reshape(shape), chosen_words.words, reference_groups.names)
    return Amplification(estimate, table)


def cooccurring(tokens: Sequence[Sequence[str]], groups: Groups, words: Sequence[str]) -> Any:
    """Sparse (n, L * A): 1 where a caption of a defined group holds a word, in the column of word and group."""
    place = {word: index for index, word in enumerate(words)}
    rows, columns = [], []
    for row, (caption, group) in enumerate(zip(tokens, groups.labels.tolist(), strict=True)):
        if group >= 0:
            indices = {place[word] for word in caption if word in place}
            rows += [row] * len(indices)
            columns += [index * groups.n_groups + group for index in indices]
    shape = (len(tokens), len(words) * groups.n_groups)
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape)
