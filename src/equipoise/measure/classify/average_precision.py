"""Average precision of scores against yes-or-no labels, and its mean over labels (mAP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_matrix, as_vector
from equipoise.measure.captions.counts import moved_interval
from equipoise.measure.metric import metric
from equipoise.measure.stats.bootstrap import resampling_weights
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import permuted_labels
from equipoise.measure.stats.permutation import p_values


@dataclass(frozen=True)
class MeanAveragePrecision:
    """The mean over labels, and the average precision of each label."""

    estimate: Estimate
    by_label: Floats
    """(L,) NaN for a label that no image has."""


def average_precision(scores: ArrayLike, truth: ArrayLike) -> float:
    """Area under precision and recall as a step function, sum over thresholds of (R_i - R_(i-1)) P_i.

    Equal scores are one threshold, as in scikit-learn's ``average_precision_score``: their order cannot help or hurt.
    A label that no image has is refused.

    Args:
        scores: (n,) the classifier's score of the label for each image; only their order counts.
        truth: (n,) of 0 and 1, whether each image has the label.

    Returns:
        A number above 0 and at most 1.

    >>> average_precision([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0])
    0.8333333333333333
    """
    given = as_vector(scores, "scores")
    shown = yes_or_no(as_vector(truth, "truth", length=len(given))[:, None])[:, 0]
    if not shown.any():
        raise InputError("truth holds no 1: a label that no image has, has no average precision")
    return float(_Ranked.of(given).areas(shown[None], np.ones((1, len(given))))[0])


@metric(
    "mean_average_precision",
    takes="scores",
    title="mAP",
    summary="Mean over labels of the average precision of a classifier's scores.",
    citation="Everingham et al., The PASCAL Visual Object Classes Challenge, IJCV 2010",
    formula="1 / L sum over labels of sum_i (R_i - R_(i-1)) P_i",
    bounds=(0.0, 1.0),
    direction="higher: better; it is quality, not bias",
    better="higher",
    alternative="greater",
    chance="near the labels' mean prevalence: the truth dealt anew over the images",
    when_it_lies="Rare labels weigh as much as common ones; a high mean can hide that one group's images are missed.",
    unit="share",
)
def mean_average_precision(
    scores: ArrayLike,
    truth: ArrayLike,
    *,
    replicates: int = 500,
    draws: int = 199,
    seed: int = 0,
    level: float = 0.95,
) -> MeanAveragePrecision:
    """Mean of :func:`average_precision` over the columns of ``scores`` and ``truth``.

    Labels that no image has are left out and counted. Interval: bootstrap over images, all labels of an image
    together. Chance: all labels of an image dealt to another image's scores.

    Args:
        scores: (n, L) the classifier's score of each label for each image.
        truth: (n, L) of 0 and 1, whether each image has each label.
        replicates: how many resamples of the images make the interval.
        draws: how many times labels are dealt anew for chance.
        seed: which resamples and deals are drawn.
        level: confidence level of the interval.

    Returns:
        The mean with its interval and chance level, and the average precision of each label.

    >>> found = mean_average_precision([[0.9, 0.1], [0.2, 0.8], [0.6, 0.7]], [[1, 0], [0, 1], [1, 0]])
    >>> found.estimate.value, found.by_label.tolist()
    (1.0, [1.0, 1.0])
    """
    table = as_matrix(scores, "scores")
    shown = yes_or_no(as_matrix(truth, "truth"))
    if table.shape != shown.shape:
        raise InputError(f"scores has shape {table.shape} and truth {shown.shape}; give one score per image and label")
    occurring = shown.any(axis=0)
    if not occurring.any():
        raise InputError("no image has any of the labels; there is nothing to rank")
    n, columns = len(table), np.flatnonzero(occurring)
    ranked = [(_Ranked.of(table[:, c]), shown[:, c]) for c in columns]
    unweighted = np.ones((1, n))
    precisions = np.array([ranking.areas(truth_of[None], unweighted)[0] for ranking, truth_of in ranked])
    rng = np.random.default_rng(seed)
    resampled = np.concatenate(
        [
            _mean_over([ranking.areas(truth_of[None], block) for ranking, truth_of in ranked])
            for block in resampling_weights(n, as_count(replicates, "replicates"), rng)
        ]
    )
    null = np.concatenate(
        [
            _mean_over([ranking.areas(truth_of[block], unweighted) for ranking, truth_of in ranked])
            for block in permuted_labels(np.arange(n), as_count(draws, "draws"), rng)
        ]
    )
    value = float(precisions.mean())
    low, high, why = moved_interval(value, resampled, level, least=0.0, most=1.0)
    estimate = Estimate(
        value,
        low,
        high,
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)) if len(null) > 1 else None,
        p_value=p_values(value, null, rng=rng).value,
        n=n,
        dropped={"labels that no image has": int((~occurring).sum())},
        notes=(f"{len(columns)} labels", *why),
        level=level,
    )
    by_label = np.full(table.shape[1], np.nan)
    by_label[columns] = precisions
    return MeanAveragePrecision(estimate, by_label)


@dataclass(frozen=True)
class _Ranked:
    """Images by falling score, and where each run of equal scores ends."""

    order: NDArray[np.intp]
    ends: NDArray[np.intp]

    @classmethod
    def of(cls, scores: Floats) -> _Ranked:
        order = np.argsort(-scores, kind="stable")
        falls = np.diff(scores[order]) != 0
        return cls(order, np.append(np.flatnonzero(falls), len(scores) - 1))

    def areas(self, truth: Floats, weights: Floats) -> Floats:
        """(b,) average precision with each image counted ``weights`` times, (b, n) or (1, n), as is ``truth``.

        NaN where no image with the label is drawn.
        """
        weights = weights[:, self.order]
        hits = np.cumsum(weights * truth[:, self.order], axis=1)[:, self.ends]
        taken = np.cumsum(weights, axis=1)[:, self.ends]
        precision = hits / np.maximum(taken, 1e-300)
        total = hits[:, -1]
        gained = (np.diff(hits, axis=1, prepend=0.0) * precision).sum(axis=1)
        return np.where(total > 0, gained / np.maximum(total, 1e-300), np.nan)


def _mean_over(by_label: list[Floats]) -> Floats:
    """Mean over the labels that a draw has, of the draws that have any; rare ones may be missing from a resample."""
    areas = np.stack(by_label)
    there = ~np.isnan(areas)
    counts = there.sum(axis=0)
    some = counts > 0
    return np.asarray(np.where(there, areas, 0.0).sum(axis=0)[some] / counts[some])


def yes_or_no(table: Floats) -> Any:
    """The same, if it holds 0 and 1 only: whether an image has a label."""
    if not np.isin(table, (0.0, 1.0)).all():
        raise InputError("truth must hold 0 and 1 only: whether an image has a label")
    return table
