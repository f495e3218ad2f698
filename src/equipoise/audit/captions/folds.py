"""Cross-fitted LIC: estimates whose intervals also say how classifiers trained on other captions would differ.

Out-of-fold scores are not independent: a caption is tested once, and trains the classifiers of all other folds. How
much that matters is seen by training without two folds: k (k - 1) / 2 more classifiers for k folds.

Which words give the group away, and how much each caption does: by a linear classifier, cross-fitted.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.measure.captions.cross_fitting import LEAST_FOLDS, captions_variance, cross_fitted, fold_variance
from equipoise.measure.captions.halves import halved_t
from equipoise.measure.captions.lic import corrected_resampled_t, lic_scores
from equipoise.measure.captions.linear import NgramTable, fit_linear
from equipoise.measure.captions.masking import MASK
from equipoise.measure.captions.splits import Split, cross_fit_folds
from equipoise.measure.stats.estimate import Estimate, within_range
from equipoise.models.caption_classifiers import CaptionReader

FOLDS = 10
TEST_SHARE = 0.1
"""Of a balanced set, in each split."""
HALVES = ", halves"
"""Follows the name of a side in ``runs``: what was measured on each half of its captions."""
OVER_SPLITS = "the interval is over splits of the same captions, and too narrow for a statement about other captions"


def word_contributions(
    tokens: Sequence[Sequence[str]], labels: NDArray[np.int64], names: Sequence[str], ids: Sequence[Hashable]
) -> pd.DataFrame:
    """One row per word, the most telling first: ``word``, the ``group`` it speaks for, ``weight``, ``captions``,
    ``contribution``.

    ``weight`` is what the word adds to the log odds of its group (linear on single words, mean over ten folds of one
    balanced set); ``captions`` how many captions have it; ``contribution`` the weight times how much more of the word
    the group's captions have than all captions, on captions that the fold was not trained on: the contributions of
    all words add up to the mean log odds in favour of the true group. A word in every caption tells nothing.
    """
    table = NgramTable.of(tokens, pairs=False)
    splits = cross_fit_folds(labels.tolist(), FOLDS, 0, ids=ids)
    weights = np.zeros((len(names), len(table.names)))
    contribution = np.zeros(len(table.names))
    for split in splits:
        model = fit_linear(table.counts[split.train], labels[split.train], len(names))
        weights += model.weights / len(splits)
        features = model.features(table.counts[split.test])
        overall = np.asarray(features.mean(axis=0)).ravel()
        for g in range(len(names)):
            more = np.asarray(features[labels[split.test] == g].mean(axis=0)).ravel() - overall
            contribution += model.weights[g] * more / (len(names) * len(splits))
    group = weights.argmax(axis=0)
    top = weights[group, np.arange(len(group))]
    frame = pd.DataFrame(
        {
            "word": table.names,
            "group": np.array(names)[group],
            "weight": top,
            "captions": np.diff(table.counts.tocsc().indptr),
            "contribution": contribution,
        }
    )
    frame = frame[frame["word"] != MASK]
    return frame.sort_values(["contribution", "word"], ascending=[False, True], ignore_index=True)


def caption_scores(
    reader: CaptionReader, labels: NDArray[np.int64], groups: int, ids: Sequence[Hashable]
) -> NDArray[np.float64]:
    """(n,) the LIC score of each caption by a classifier of ``reader`` that was not trained on it."""
    scores = np.full(len(labels), np.nan)
    splits = cross_fit_folds(labels.tolist(), FOLDS, 0, ids=ids)
    out = np.setdiff1d(np.arange(len(labels)), np.concatenate([split.test for split in splits]))
    for split in splits:
        rows = np.concatenate([split.test, out])
        out = out[:0]  # rows that balancing left out: no fold is trained on them, and the first one tests them
        probabilities = reader.probabilities(split.train, labels[split.train], rows, groups, 0)
        scores[rows] = lic_scores(probabilities, labels[rows])
    return scores


def scores_over_splits(runs: pd.DataFrame, n: int) -> NDArray[np.float64] | None:
    """(n,) the mean score of each caption over the splits that tested it; NaN where none did.

    ``None`` where some run was stored without the scores of its captions.

    >>> runs = pd.DataFrame({"tested": [[0, 1], [1]], "scores": [[0.5, 0.2], [0.4]]})
    >>> scores_over_splits(runs, 3).round(2).tolist()
    [0.5, 0.3, nan]
    """
    if "scores" not in runs or not runs["scores"].map(lambda some: isinstance(some, list)).all():
        return None
    total, times = np.zeros(n), np.zeros(n)
    for rows, scores in zip(runs["tested"], runs["scores"], strict=True):
        total[rows] += scores
        times[rows] += 1
    return np.where(times > 0, total / np.maximum(times, 1), np.nan)


REFITTED = 3
"""So many repetitions are refitted; further ones would hardly change the interval."""
DOUBLED = "the interval takes twice the variance over captions, because refitting this classifier would take too long"


LeftOut = Mapping[str, Floats]
"""One cross-fitting refitted without each pair of folds, by ``value``, ``accuracy`` and ``auc``: (k + 1, k) the means
of the folds, and below them those of each fold (row) without another one (column)."""


def single_auc(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """How often a caption of group 1 has the higher score of a pair; equal scores count half; 0 beyond two groups."""
    if probabilities.shape[1] != 2:
        return 0.0
    ours, theirs = probabilities[labels == 1, 1], np.sort(probabilities[labels == 0, 1])
    won, not_lost = (int(np.searchsorted(theirs, ours, side).sum()) for side in ("left", "right"))
    return (won + not_lost) / 2 / (len(ours) * len(theirs))


def leave_two_out(
    reader: Any, labels: NDArray[np.int64], splits: Sequence[Split], groups: int, seed: int, main: pd.DataFrame
) -> LeftOut:
    """Train without each pair of folds and test on both; ``main`` has the runs of these splits without one fold."""
    k = len(splits)
    tables = {name: np.zeros((k, k)) for name in ("value", "accuracy", "auc")}
    for a in range(k):
        for b in range(a + 1, k):
            train = splits[a].train[~np.isin(splits[a].train, splits[b].test)]
            both = np.concatenate([splits[a].test, splits[b].test])
            probabilities = reader.probabilities(train, labels[train], both, groups, seed)
            cut = len(splits[a].test)
            for tested, other, rows in ((a, b, slice(0, cut)), (b, a, slice(cut, None))):
                predicted, right = probabilities[rows], labels[both[rows]]
                tables["value"][tested, other] = lic_scores(predicted, right).mean()
                tables["accuracy"][tested, other] = (predicted.argmax(axis=1) == right).mean()
                tables["auc"][tested, other] = single_auc(predicted, right)
    return {name: np.vstack([main[name].to_numpy(float), table]) for name, table in tables.items()}


def over_folds(
    scores: Floats,
    images: Any,
    groups: NDArray[np.int64],
    refitted: Sequence[Floats],
    *,
    folds: int,
    null_value: float,
    bounds: tuple[float, float],
    alternative: Any = "greater",
) -> Estimate:
    """The mean of out-of-fold ``scores``, with an interval for captioners like this one on images like these.

    ``refitted``: a table of :data:`LeftOut` for each of one or several repetitions; where it is empty twice
    the variance over captions is taken, which is what it comes to when all variation is between pairs of captions.
    """
    notes: tuple[str, ...] = ()
    if refitted and folds >= LEAST_FOLDS:
        variance = float(np.mean([fold_variance(some[0], some[1:]) for some in refitted]))
        freedom = len(refitted) * (folds - 1)
    else:
        variance, freedom, notes = 2 * captions_variance(scores, images, groups), folds - 1, (DOUBLED,)
        if folds < LEAST_FOLDS:
            freedom, notes = LEAST_FOLDS - 1, (f"the interval takes twice the variance over captions: {folds} folds",)
    return cross_fitted(
        scores,
        images,
        groups,
        variance=variance,
        freedom=freedom,
        null_value=null_value,
        alternative=alternative,
        bounds=bounds,
        notes=notes,
    )


def half_table(runs: pd.DataFrame, metric: str = "value") -> Floats | None:
    """(halvings, 2) the means of the halves of one side, over its captions; ``None`` where none were measured.

    >>> runs = pd.DataFrame({"seed": [0, 0, 1, 1], "split": [0, 1, 0, 1], "value": [0.4, 0.5, 0.3, 0.6]})
    >>> half_table(runs).tolist(), half_table(runs[:0])
    ([[0.4, 0.5], [0.3, 0.6]], None)
    """
    if runs.empty:
        return None
    return np.asarray(runs.groupby(["seed", "split"])[metric].mean().unstack(), dtype=np.float64)


def half_gaps(first: Floats | None, second: Floats | None) -> Floats | None:
    """What the halves of ``first`` have more than the same halves of ``second``, where both were measured."""
    return None if first is None or second is None else first - second


def over_splits(
    values: Any,
    halves: Floats | None,
    *,
    null_value: float,
    n: int,
    share: float = TEST_SHARE,
    bounds: tuple[float, float] = (0.0, 1.0),
    alternative: Any = "greater",
    n_groups: int | None = None,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """The mean of ``values``, one per split, inside ``bounds``: from ``halves`` of the captions, if any."""
    how: dict[str, Any] = {"null_value": null_value, "alternative": alternative, "n": n, "n_groups": n_groups}
    if halves is None:
        notes = (*notes, OVER_SPLITS) if len(values) > 1 else notes
        estimate = corrected_resampled_t(values, test_share=share, notes=notes, **how)
    else:
        estimate = halved_t(values, halves, notes=notes, **how)
    return within_range(estimate, *bounds)


def spread_of_repetitions(null: Floats, repetitions: Floats) -> Floats:
    """Draws of one cross-fitting each, drawn together to the spread of a mean over as many as ``repetitions`` has.

    Repetitions share their captions and differ in their folds: the mean over them sheds what the folds add.

    >>> spread_of_repetitions(np.array([1.0, 3.0]), np.array([0.5])).tolist()
    [1.0, 3.0]
    """
    count, spread = len(repetitions), float(null.var(ddof=1)) if len(null) > 1 else 0.0
    if count < 2 or spread == 0:
        return null
    shed = (1 - 1 / count) * float(repetitions.var(ddof=1)) / spread
    return np.asarray(null.mean() + (null - null.mean()) * np.sqrt(max(1 / count, 1 - shed)))
