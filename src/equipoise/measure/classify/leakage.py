"""Leakage of a classifier: how much better a group is read off predicted objects than off annotated ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_matrix
from equipoise.measure.captions.halves import halved_t
from equipoise.measure.captions.leakage import FittedLeakage, Weighting, leakage_of_vectors, matched_vectors
from equipoise.measure.captions.lic import lic
from equipoise.measure.classify.average_precision import yes_or_no
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.stats.estimate import Estimate, within_range


@dataclass(frozen=True)
class ClassifierLeakage:
    """What predictions give away, what the truth gives away, and the difference."""

    model: FittedLeakage
    """LK_M, of the predicted objects."""
    data: FittedLeakage
    """LK_D, of the annotated objects, as wrong as the model if they were matched."""
    difference: Estimate
    """LK = LK_M - LK_D, split by split."""
    f1: float
    """Micro F1 of the predictions against the truth; NaN for scores."""


@metric(
    "leakage_amplification",
    takes="vectors",
    title="leakage",
    column="LK",
    summary="How much better the group is read off predicted objects than off annotated ones.",
    citation="Hirota et al., Resampled Datasets Are Not Enough, EMNLP 2024; "
    "Wang et al., Balanced Datasets Are Not Enough, ICCV 2019",
    formula="LK_M - LK_D; each the mean of s_a 1[argmax = a] over test images, cross-fitted on balanced groups",
    range="[-1, 1]; papers print points",
    bounds=(-1.0, 1.0),
    direction="0: the model adds nothing; above: it adds to what the annotations give away",
    better="lower",
    alternative="greater",
    chance="0; t from halves of the images, each read on its own. Of LK_M and LK_D: the same readers on shuffled test "
    "labels",
    when_it_lies="A model that errs leaks less for its errors alone: match the truth's F1 (--match). An MLP's interval "
    "is over splits, and too narrow.",
    unit="share",
    main=17,
    rows={
        "leakage_model": {"title": "leakage of predictions", "column": "LK_M", "bounds": (0.0, 1.0), "unit": "share",
                          "alternative": "greater", "better": "chance"},
        "leakage_data": {"title": "leakage of annotations", "column": "LK_D", "bounds": (0.0, 1.0), "unit": "share",
                         "alternative": "greater"},
    },
)  # fmt: skip
def leakage_amplification(
    predicted: ArrayLike,
    truth: ArrayLike,
    groups: Groups | Sequence[Any],
    *,
    reader: Literal["logistic", "mlp"] = "logistic",
    weighting: Weighting = "confidence",
    match: bool = False,
    folds: int = 5,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    ids: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> ClassifierLeakage:
    """LK_M of predicted objects, LK_D of annotated ones, and their difference LK.

    A reader guesses the group from the vector of objects; the group of an image is never among them. Both sides are
    read on the same images, drawn so that groups are equal, ``folds`` ways for each of ``seeds``: every image drawn is
    tested by a reader that has not seen it. Intervals and p-values: :func:`leakage_of_vectors`.

    Args:
        predicted: (n, L) labels of 0 and 1, or scores.
        truth: (n, L) annotated labels, of 0 and 1.
        groups: (n,) the group of each image; an image without one is never drawn.
        reader: "logistic" regression, or "mlp" of two layers of 256. The papers leave it open; the default is ours.
        weighting: ``confidence`` (the inpainting paper, as LIC) or ``accuracy`` (Wang 2019).
        match: whether the truth is first perturbed until its F1 is the model's (Wang 2019); not possible for scores.
        folds: in how many parts the images drawn are tested.
        seeds: one draw of images for each; the first also perturbs the truth.
        ids: (n,) names of the images; a draw depends on them and its seed alone. ``None``: row numbers.
        clusters: (n,) rows of one cluster are never both in training and in test.
        level: confidence level of the intervals.

    Returns:
        LK_M, LK_D and LK, each with its interval and chance level, and the F1 of the predictions (NaN for scores).

    >>> rng = np.random.default_rng(0)
    >>> truth = (rng.random((200, 4)) < 0.5).astype(float)
    >>> groups = Groups.from_values(np.tile(["f", "m"], 100))
    >>> told = truth.copy(); told[:, 0] = groups.labels
    >>> found = leakage_amplification(told, truth, groups, weighting="accuracy", seeds=(0, 1))
    >>> found.model.estimate.value, round(found.model.estimate.null_mean, 2), found.difference.value > 0.3
    (1.0, 0.5, True)
    """
    given, shown = as_matrix(predicted, "predicted"), yes_or_no(as_matrix(truth, "truth"))
    if given.shape != shown.shape:
        raise InputError(f"predicted has shape {given.shape} and truth {shown.shape}; they are of the same labels")
    is_labels = bool(np.isin(given, (0.0, 1.0)).all())
    if match and not is_labels:
        raise InputError("the truth is matched to the F1 of labels, and predicted holds scores; give labels of 0 and 1")
    f1 = micro_f1(given, shown) if is_labels else float("nan")
    if match and f1 == 0:
        raise InputError("no predicted label is right, so the truth cannot be matched to their F1; leave match out")
    said: dict[str, Any] = {"classifier": reader, "weighting": weighting, "folds": folds, "seeds": seeds, "ids": ids}
    said |= {"clusters": clusters, "level": level}
    model = leakage_of_vectors(given, groups, **said)
    against = matched_vectors(shown, f1, seed=int(seeds[0])) if match else shown
    data = leakage_of_vectors(against, groups, **said)
    how: dict[str, Any] = {"level": level, "n": model.estimate.n, "n_groups": model.estimate.n_groups}
    if model.halves is None or data.halves is None:
        difference = lic(model.values, data.values, test_share=model.test_share, **how)
    else:
        halves = (model.halves - data.halves)[..., 0]
        difference = halved_t(model.values - data.values, halves, null_value=0.0, folds=True, **how)
        difference = within_range(difference, -1.0, 1.0)
    note = f"annotations perturbed to the model's F1, {f1:.2f}" if match else ""
    noted = replace(data, estimate=data.estimate.with_notes(note))
    return ClassifierLeakage(model, noted, difference.with_notes(note), f1)


def micro_f1(predicted: Floats, truth: Floats) -> float:
    """F1 of all labels of all images together: 2 hits / (predicted + true).

    Args:
        predicted: (n, L) of 0 and 1.
        truth: (n, L) of 0 and 1.

    Returns:
        A number from 0 to 1, and 0 where there are no labels at all.

    >>> micro_f1(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    0.8
    """
    total = float(predicted.sum() + truth.sum())
    return 2 * float((predicted * truth).sum()) / total if total else 0.0
