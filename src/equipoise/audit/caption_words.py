"""Which words give the group away, and how much each caption does: by a linear classifier, cross-fitted."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.caption_classifiers.fast import NgramTable, fit_linear
from equipoise.audit.caption_classifiers.words import MASK
from equipoise.measure.caption_lic import lic_scores
from equipoise.measure.caption_splits import cross_fit_folds

__all__ = ["caption_scores", "word_contributions"]

FOLDS = 10


def word_contributions(
    tokens: Sequence[Sequence[str]], labels: NDArray[np.int64], names: Sequence[str], ids: Sequence[Hashable]
) -> pd.DataFrame:
    """A row a word, the most telling first: ``word``, the ``group`` it speaks for, ``weight``, ``captions``,
    ``contribution``.

    ``weight`` is what the word adds to the log odds of its group (linear on single words, mean over ten folds of one
    balanced set); ``captions`` how many captions have it; ``contribution`` the weight times how much more of the word
    the group's captions have than all captions, on captions that the fold was not trained on: the contributions of
    all words add up to the mean log odds in favour of the true group. A word in every caption tells nothing.
    """
    table = NgramTable.of(tokens, pairs=False)
    splits = cross_fit_folds(labels.tolist(), FOLDS, 0, ids=ids)
    weights = np.zeros((len(names), len(table.names)))
    told = np.zeros(len(table.names))
    for split in splits:
        model = fit_linear(table.counts[split.train], labels[split.train], len(names))
        weights += model.weights / len(splits)
        features = model.features(table.counts[split.test])
        overall = np.asarray(features.mean(axis=0)).ravel()
        for g in range(len(names)):
            more = np.asarray(features[labels[split.test] == g].mean(axis=0)).ravel() - overall
            told += model.weights[g] * more / (len(names) * len(splits))
    group = weights.argmax(axis=0)
    top = weights[group, np.arange(len(group))]
    frame = pd.DataFrame(
        {
            "word": table.names,
            "group": np.array(names)[group],
            "weight": top,
            "captions": np.diff(table.counts.tocsc().indptr),
            "contribution": told,
        }
    )
    frame = frame[frame["word"] != MASK]
    return frame.sort_values(["contribution", "word"], ascending=[False, True], ignore_index=True)


def caption_scores(
    tokens: Sequence[Sequence[str]], labels: NDArray[np.int64], groups: int, ids: Sequence[Hashable]
) -> NDArray[np.float64]:
    """(n,) the LIC score of each caption by a linear classifier that was not trained on it."""
    table = NgramTable.of(tokens)
    scores = np.full(len(tokens), np.nan)
    splits = cross_fit_folds(labels.tolist(), FOLDS, 0, ids=ids)
    for number, split in enumerate(splits):
        model = fit_linear(table.counts[split.train], labels[split.train], groups)
        scores[split.test] = lic_scores(model.probabilities(table.counts[split.test]), labels[split.test])
        if number == 0:  # rows that balancing left out: no fold is trained on them
            out = np.setdiff1d(np.arange(len(tokens)), np.concatenate([s.test for s in splits]))
            scores[out] = lic_scores(model.probabilities(table.counts[out]), labels[out]) if len(out) else np.nan
    return scores
