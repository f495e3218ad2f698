"""Cross-fitted LIC: estimates whose intervals also say how classifiers trained on other captions would differ.

Out-of-fold scores are not independent: a caption is tested once, and trains the classifiers of all other folds. How
much that matters is seen by training without two folds: k (k - 1) / 2 more classifiers for k folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.measure.caption_crossfit import LEAST_FOLDS, captions_variance, cross_fitted, fold_variance
from equipoise.measure.caption_lic import lic_scores
from equipoise.measure.caption_splits import Split
from equipoise.measure.estimate import Estimate

__all__ = ["DOUBLED", "REFITTED", "LeftOut", "leave_two_out", "over_folds", "single_auc", "spread_of_repetitions"]

REFITTED = 3
"""So many repetitions are refitted; further ones would hardly change the interval."""
DOUBLED = "the interval takes twice the variance over captions, because refitting this classifier would take too long"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LeftOut:
    """One cross-fitting, refitted without each pair of folds: means of the folds, and without another fold (k, k)."""

    value: tuple[Floats, Floats]
    accuracy: tuple[Floats, Floats]
    auc: tuple[Floats, Floats]

    def of(self, metric: str) -> tuple[Floats, Floats]:
        """The fold means and the means without another fold, of ``value``, ``accuracy`` or ``auc``."""
        found: tuple[Floats, Floats] = getattr(self, metric)
        return found


def single_auc(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """How often a caption of group 1 has the higher score of a pair; equal scores count half; 0 beyond two groups."""
    from scipy.stats import rankdata

    if probabilities.shape[1] != 2:
        return 0.0
    ranks, ones = rankdata(probabilities[:, 1]), int(labels.sum())
    return float((ranks[labels == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(labels) - ones)))


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
            found = reader.probabilities(train, labels[train], both, groups, seed)
            cut = len(splits[a].test)
            for tested, other, rows in ((a, b, slice(0, cut)), (b, a, slice(cut, None))):
                some, right = found[rows], labels[both[rows]]
                tables["value"][tested, other] = lic_scores(some, right).mean()
                tables["accuracy"][tested, other] = (some.argmax(axis=1) == right).mean()
                tables["auc"][tested, other] = single_auc(some, right)
    means = {name: main[name].to_numpy(float) for name in tables}
    return LeftOut(*((means[name], tables[name]) for name in ("value", "accuracy", "auc")))


def over_folds(
    scores: Floats,
    images: Any,
    groups: NDArray[np.int64],
    refitted: Sequence[tuple[Floats, Floats]],
    *,
    folds: int,
    null_value: float,
    bounds: tuple[float, float],
    alternative: Any = "greater",
) -> Estimate:
    """The mean of out-of-fold ``scores``, with an interval for captioners like this one on images like these.

    ``refitted``: means of folds with and without another fold, of one or several repetitions; where it is empty twice
    the variance over captions is taken, which is what it comes to when all variation is between pairs of captions.
    """
    notes: tuple[str, ...] = ()
    if refitted and folds >= LEAST_FOLDS:
        variance = float(np.mean([fold_variance(*some) for some in refitted]))
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
