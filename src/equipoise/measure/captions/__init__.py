"""Captions: how much a captioner's words give a group away, and how much more than its training captions do.

The public face of the caption metrics. They take a classifier's probabilities, counts, or words by caption. The linear
classifier is in ``linear``, with the masking of captions in ``masking``; those that need torch are in ``audit``.

- LIC: ``lic_scores``, ``lic_m``, ``lic_d``, ``lic``, ``balanced_split``, ``cross_fit_folds``, ``cross_fitted``,
  ``fold_variance``
- leakage: ``leakage``, ``leakage_of_vectors``, ``sentence_classification``
- amplification: ``ba``, ``ba_of_captions``, ``dba_g``, ``dba_o``, ``multi_attribute_amplification``
- who is named: ``Mentions``, ``error``, ``ratio``, ``neutral_rate``, ``outcome_divergence``
- words and gaps: ``word_log_odds``, ``score_gap``

>>> said = Mentions.of(["A man cooks", "A man and his dog", "A woman cooks", "A dog"], "lic")
>>> ratio(said, ("male", "female")).estimate.value, neutral_rate(said).value
(2.0, 0.25)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.measure.arrays import as_vector
from equipoise.measure.captions.amplification import SelectedWords, ba, ba_of_captions, select_words
from equipoise.measure.captions.counts import Amplification, image_keys, image_labels
from equipoise.measure.captions.cross_fitting import captions_variance, cross_fitted, fold_variance
from equipoise.measure.captions.directional import dba_g, dba_o
from equipoise.measure.captions.halves import half_means, half_variance, halved_t
from equipoise.measure.captions.leakage import (
    FittedLeakage,
    SentenceClassification,
    leakage,
    leakage_difference,
    leakage_of_vectors,
    matched_vectors,
    sentence_classification,
)
from equipoise.measure.captions.lic import (
    corrected_resampled_t,
    in_points,
    lic,
    lic_chance,
    lic_d,
    lic_m,
    lic_scores,
    lic_shuffled,
)
from equipoise.measure.captions.log_odds import WordUse, word_log_odds
from equipoise.measure.captions.mentions import (
    ERROR_DEFINITIONS,
    OUTCOMES,
    Mentions,
    error,
    error_flags,
    jensen_shannon,
    neutral_rate,
    outcome_divergence,
    outcomes,
)
from equipoise.measure.captions.multi import MultiAmplification, attribute_sets, multi_attribute_amplification
from equipoise.measure.captions.ratio import RATIO_CONVENTIONS, NamedRatio, ratio
from equipoise.measure.captions.splits import LEAST_TO_SPLIT, Split, balanced_split, cross_fit_folds, halved_folds
from equipoise.measure.groups import Groups
from equipoise.measure.stats.group_means import GroupMeans, group_means

__all__ = [
    "ERROR_DEFINITIONS",
    "LEAST_TO_SPLIT",
    "OUTCOMES",
    "RATIO_CONVENTIONS",
    "Amplification",
    "FittedLeakage",
    "Mentions",
    "MultiAmplification",
    "NamedRatio",
    "SelectedWords",
    "SentenceClassification",
    "Split",
    "WordUse",
    "attribute_sets",
    "ba",
    "ba_of_captions",
    "balanced_split",
    "captions_variance",
    "corrected_resampled_t",
    "cross_fit_folds",
    "cross_fitted",
    "dba_g",
    "dba_o",
    "error",
    "error_flags",
    "fold_variance",
    "half_means",
    "half_variance",
    "halved_folds",
    "halved_t",
    "in_points",
    "jensen_shannon",
    "leakage",
    "leakage_difference",
    "leakage_of_vectors",
    "lic",
    "lic_chance",
    "lic_d",
    "lic_m",
    "lic_scores",
    "lic_shuffled",
    "matched_vectors",
    "multi_attribute_amplification",
    "neutral_rate",
    "outcome_divergence",
    "outcomes",
    "ratio",
    "score_gap",
    "select_words",
    "sentence_classification",
    "word_log_odds",
]


def score_gap(
    scores: Any,
    groups: Groups,
    *,
    images: Any = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> GroupMeans:
    """Mean of a score of captions in each group (quality, sentiment, being neutral), and the gap of the extremes.

    Chance of the gap: labels shuffled over the captions, because the largest of several noisy means always differs
    from the smallest.

    Args:
        scores: (n,) one number or yes/no per caption.
        groups: (n,) the group of each caption's image; captions of an undefined group are left out.
        images: (n,) the image of each caption, where one has several: scores are averaged by image first, and images
            are the unit.
        permutations: how many times the labels are shuffled.
        seed: which shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        The mean of each group and the gap, with the names of the highest and the lowest group.

    >>> found = score_gap([0.2, 0.4, 0.6, 0.8], Groups.from_values(["f", "f", "m", "m"]))
    >>> found.highest, round(found.gap.value, 6)
    ('m', 0.4)
    """
    values, who = _by_image(scores, groups, images)
    return group_means(values, who, permutations=permutations, seed=seed, level=level)


def _by_image(scores: Any, groups: Groups, images: Any) -> tuple[Any, Groups]:
    values = as_vector(scores, "scores")
    groups.check_length(len(values))
    if images is None:
        return values, groups
    keys = image_keys(images, len(values))
    labels = image_labels(keys, groups.labels, images)
    return np.bincount(keys, values) / np.bincount(keys), Groups(labels.astype(np.int32), groups.names, groups.axis)
