"""Leakage: how well a group can be read off what a model says, from a classifier's probabilities.

Sentence classification asks it of captions, leakage of vectors of objects (or of captions): by accuracy (Wang
2019) or by the confidence-weighted score of LIC. Nulls shuffle the test labels over the items, or over the images
of which they are captions, the classifier being what it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats as sps

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_matrix, chosen
from equipoise.measure.captions.counts import ImagesOfCaptions
from equipoise.measure.captions.halves import half_means, halved_t
from equipoise.measure.captions.lic import checked_probabilities, corrected_resampled_t, lic_scores, lic_shuffled
from equipoise.measure.captions.splits import Split, as_groups, balanced_split, cross_fit_folds
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats import summarise
from equipoise.measure.stats.estimate import Estimate, within_range
from equipoise.measure.stats.laws import normal_quantile, t_quantile
from equipoise.measure.stats.permutation import with_chance
from equipoise.measure.stats.shares import pair_probability, placements, share_estimate

Weighting = Literal["confidence", "accuracy"]
WEIGHTINGS = ("confidence", "accuracy")
CLASSIFIERS = ("logistic", "mlp")


@dataclass(frozen=True)
class SentenceClassification:
    """How well a classifier tells the group from sentences."""

    accuracy: Estimate
    """Share of items whose most probable group is the true one."""
    auc: Estimate
    """Area under the ROC curve; with more than two groups the mean of one-against-rest areas."""


@metric(
    "sentence_classification",
    takes="captions",
    summary="Accuracy and AUC of a classifier that tells the group from captions.",
    citation="Zhao, Wang and Russakovsky, Understanding and Evaluating Racial Biases in Image Captioning, ICCV 2021",
    formula="share with argmax = a; P(score of one of the group > score of another)",
    range="[0, 1]",
    direction="higher: captions differ between groups",
    chance="AUC 1/2, accuracy 1 / G; test labels shuffled",
    when_it_lies="Groups may be photographed doing different things: captions then differ because images do.",
    unit="points",
    rows={name: {"bounds": (0.0, 100.0)} for name in ("caption_accuracy", "caption_auc")},
)
def sentence_classification(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    images: Sequence[Hashable] | None = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> SentenceClassification:
    """Accuracy and AUC of a classifier of captions (Zhao, Wang and Russakovsky 2021).

    Accuracy: Wilson interval; p-value from test labels shuffled. AUC: interval from the placements of each item
    (DeLong 1988); p-value of Mann and Whitney for two groups, from shuffled labels for more.

    Args:
        probabilities: (n, G) how probable each group is for each caption; rows sum to 1.
        labels: (n,) the true groups, 0 to G - 1, each at least once.
        images: (n,) the image of each caption, where one has several: whole images are shuffled, and intervals are
            clustered by image (Obuchowski 1997 for AUC).
        permutations: how many times the labels are shuffled.
        seed: which shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        The estimates of accuracy and AUC.

    >>> found = sentence_classification([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.3, 0.7]], [0, 0, 1, 1])
    >>> found.accuracy.value, found.auc.value
    (0.75, 0.875)
    """
    table, truth = checked_probabilities(probabilities, labels)
    counts = np.bincount(truth, minlength=table.shape[1])
    if (counts == 0).any():
        raise InputError(f"no item has label {int(np.argmin(counts))}; leave out the column of a group without items")
    accuracy = leakage(
        table, truth, weighting="accuracy", images=images, permutations=permutations, seed=seed, level=level
    )
    of_images = ImagesOfCaptions.of(images, truth)
    if table.shape[1] == 2:
        sides = truth == 1, truth == 0
        keys = of_images.clusters
        clusters = None if keys is None else (keys[sides[0]], keys[sides[1]])
        higher, lower = (table[side, 1] for side in sides)
        auc = replace(pair_probability(higher, lower, clusters=clusters, level=level), n_groups=2)
    else:
        auc = _macro_auc(table, truth, of_images, permutations, seed, level)
    return SentenceClassification(accuracy, auc)


def _macro_auc(
    table: Floats, truth: NDArray[np.int64], images: ImagesOfCaptions, permutations: int, seed: int, level: float
) -> Estimate:
    n, n_groups = table.shape
    areas, influence = np.zeros(n_groups), np.zeros(n)
    for g in range(n_groups):
        inside = truth == g
        above, below = placements(table[inside, g], table[~inside, g])
        areas[g] = above.mean()
        influence[inside] += (above - areas[g]) / (n_groups * inside.sum())
        influence[~inside] += (below - areas[g]) / (n_groups * (~inside).sum())
    value = float(areas.mean())
    by_image = np.asarray(np.bincount(images.keys, influence), dtype=np.float64)
    upper, free = 0.5 + level / 2, len(by_image) - n_groups
    quantile = float(normal_quantile(upper))
    if images.several:  # images are few where captions are many
        quantile = float(t_quantile(upper, max(1, free))) * np.sqrt(len(by_image) / max(1, free))
    reach = quantile * float(np.sqrt((by_image**2).sum()))
    shown = Estimate(value, max(0.0, value - reach), min(1.0, value + reach), n=n, n_groups=n_groups, level=level)
    if images.several and np.bincount(images.labels).min() < 2:
        shown = replace(shown, ci_low=None, ci_high=None, notes=(no_interval("one image of a group"),))
    ranks = sps.rankdata(table, axis=0)
    rng = np.random.default_rng(seed)
    blocks = images.shuffled(as_count(permutations, "permutations"), rng)
    null = np.concatenate([_rank_areas(block, ranks) for block in blocks])
    return with_chance(shown, null, mean=0.5, rng=rng)


def _rank_areas(labels: NDArray[Any], ranks: Floats) -> Floats:
    """(b,) mean one-against-rest AUC under each row of ``labels`` (b, n), from the ranks (n, G) of the scores."""
    n, n_groups = ranks.shape
    areas = []
    for g in range(n_groups):
        inside = labels == g
        size = inside.sum(axis=1)  # not the same in every row where images have more captions or fewer
        areas.append((inside @ ranks[:, g] - size * (size + 1) / 2) / (size * (n - size)))
    return np.asarray(np.mean(areas, axis=0))


@metric(
    "leakage",
    takes="vectors",
    summary="How well the group is read off vectors of objects, by confidence or by accuracy.",
    citation="Wang et al., Balanced Datasets Are Not Enough, ICCV 2019; LIC, CVPR 2022",
    formula="mean of s_a 1[argmax = a], or of 1[argmax = a]",
    range="[0, 1]",
    direction="higher: more leaks; model minus data is the bias",
    chance="test labels shuffled: 1 / G (accuracy), mean confidence / G (confidence)",
    when_it_lies="A model that errs leaks less for its errors alone: match the truth's F1 first.",
    unit="share",
)
def leakage(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    weighting: Weighting = "confidence",
    images: Sequence[Hashable] | None = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Mean leakage of items, from the probabilities that a classifier gives their groups.

    Null: the test labels dealt anew over the items; its mean is exact (1 / G for accuracy on a balanced set, the mean
    confidence over G for the weighted score), the p-value is one-sided: does more leak than a blind reader would get?

    Args:
        probabilities: (n, G) how probable each group is for each item; rows sum to 1.
        labels: (n,) the true groups, 0 to G - 1.
        weighting: ``confidence``, the score of LIC, s_a * 1[argmax = a]; ``accuracy``, 1[argmax = a] (Wang 2019).
        images: (n,) the image of each caption, where one has several: labels are dealt over whole images, the mean of
            the null is that of its draws, and the interval is over images.
        permutations: how many times the labels are dealt.
        seed: which deals are drawn.
        level: confidence level of the interval.

    Returns:
        The estimate, from 0 to 1.

    >>> table = [[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.45, 0.55]]
    >>> leakage(table, [0, 0, 1, 1]).value, leakage(table, [0, 0, 1, 1], weighting="accuracy").value
    (0.5125, 0.75)
    """
    chosen(weighting, "weighting", WEIGHTINGS)
    table, truth = checked_probabilities(probabilities, labels)
    scores = _scores(table, truth, weighting)
    of_images = ImagesOfCaptions.of(images, truth)
    estimate = replace(share_estimate(scores, clusters=of_images.clusters, level=level), n_groups=table.shape[1])
    choice = table.argmax(axis=1)
    worth = table.max(axis=1) if weighting == "confidence" else np.ones(len(table))
    rng = np.random.default_rng(seed)
    blocks = of_images.shuffled(as_count(permutations, "permutations"), rng)
    null = np.concatenate([(block == choice) @ worth / len(truth) for block in blocks])
    # images of more captions or fewer: what a shuffled label earns depends on the images of a group, not its captions
    mean = float(null.mean()) if of_images.several else _shuffled(table, truth, weighting)
    return with_chance(estimate, null, mean=mean, rng=rng)


def _scores(table: Floats, truth: NDArray[np.int64], weighting: str) -> Floats:
    if weighting == "confidence":
        return lic_scores(table, truth)
    return np.asarray(table.argmax(axis=1) == truth, dtype=np.float64)


def _shuffled(table: Floats, truth: NDArray[np.int64], weighting: str) -> float:
    if weighting == "confidence":
        return lic_shuffled(table, truth)
    shares = np.bincount(truth, minlength=table.shape[1]) / len(truth)
    return float(shares[table.argmax(axis=1)].mean())


def leakage_difference(
    model: ArrayLike,
    data: ArrayLike,
    labels: ArrayLike,
    *,
    weighting: Weighting = "confidence",
    images: Sequence[Hashable] | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Leakage of the model minus leakage of the data, on the same items: what the model adds.

    Paired: t interval over items, sign-flip p-value against 0.

    Args:
        model: (n, G) probabilities of a classifier trained on the model's output.
        data: (n, G) those of one trained on the truth.
        labels: (n,) the true groups of the items of both, 0 to G - 1.
        weighting: ``confidence`` or ``accuracy``, as in :func:`leakage`.
        images: (n,) the image of each caption, where one has several: the interval is over images, and whole images are
            flipped.
        seed: which signs are flipped, where there are too many items for all patterns.
        level: confidence level of the interval.

    Returns:
        The estimate, whose chance level is 0.

    >>> leakage_difference([[0.75, 0.25], [0, 1]], [[0.625, 0.375], [0.375, 0.625]], [0, 1]).value
    0.25
    """
    chosen(weighting, "weighting", WEIGHTINGS)
    ours, truth = checked_probabilities(model, labels)
    theirs, _ = checked_probabilities(data, labels)
    gaps = _scores(ours, truth, weighting) - _scores(theirs, truth, weighting)
    clusters = ImagesOfCaptions.of(images, truth).clusters
    return summarise(gaps, clusters=clusters, null_value=0.0, level=level, n_groups=ours.shape[1], seed=seed)


@dataclass(frozen=True)
class FittedLeakage:
    """Leakage of vectors, from classifiers trained here."""

    estimate: Estimate
    values: Floats
    """(J,) one value per split."""
    shuffled: Floats
    """(J,) what each split's classifier would get on shuffled test labels."""
    test_share: float
    halves: Floats | None = None
    """(halvings, 2, 2) the value in each half of the rows, and on shuffled test labels; ``None`` for an MLP."""


def leakage_of_vectors(
    vectors: ArrayLike,
    labels: Groups | Sequence[Any],
    *,
    classifier: Literal["logistic", "mlp"] = "logistic",
    weighting: Weighting = "confidence",
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    share: float = 0.1,
    folds: int | None = None,
    ids: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> FittedLeakage:
    """Leakage of vectors (of objects predicted, or annotated) by classifiers trained on balanced splits.

    The papers leave the classifier open. Vectors of the same ``ids`` get the same splits, so that LK_M - LK_D is the
    difference of the two ``values``. Chance is what the same classifiers get on shuffled test labels. Interval and
    p-value are for other images: :func:`halved_t`; an MLP takes too long to train on halves, and has the corrected
    resampled t over splits, which is too sure of itself (:func:`corrected_resampled_t` says how much).

    Args:
        vectors: (n, d) one per row, such as which objects an image has.
        labels: (n,) the group of each row; -1 or None is undefined and never drawn.
        classifier: ``logistic``, L2-regularised; ``mlp``, two hidden layers of 256, with early stopping.
        weighting: ``confidence`` or ``accuracy``, as in :func:`leakage`.
        seeds: each gives one balanced split, or one set of ``folds``; an MLP is initialised by it too.
        share: the part of a balanced split that is tested; not read where ``folds`` are given.
        folds: how many per seed, which together test every row drawn once; one split per seed if None.
        ids: (n,) a name for each row, none twice; a row's number is its id if None.
        clusters: (n,) rows of one cluster, such as images of one person, are never on both sides of a split: what they
            have in common would be read as leakage.
        level: confidence level of the interval.

    Returns:
        The estimate, with the values of the splits and of the halves behind it.

    >>> x = np.random.default_rng(0).normal(size=(200, 3)); y = np.tile([0, 1], 100); x[:, 0] += 4 * y
    >>> found = leakage_of_vectors(x, y, weighting="accuracy")
    >>> found.estimate.value > 0.9, round(found.estimate.null_mean, 1)
    (True, 0.5)
    """
    chosen(classifier, "leakage classifier", CLASSIFIERS)
    chosen(weighting, "weighting", WEIGHTINGS)
    table = as_matrix(vectors, "vectors")
    groups = as_groups(labels)
    groups.check_length(len(table))
    if not len(seeds):
        raise InputError("seeds is empty; leakage needs at least one split")
    same: dict[str, Any] = {"ids": ids, "clusters": clusters}
    by_seed = [
        [balanced_split(groups, seed, share, **same)] if folds is None else cross_fit_folds(groups, folds, seed, **same)
        for seed in seeds
    ]
    splits = [(split, seed) for seed, of_seed in zip(seeds, by_seed, strict=True) for split in of_seed]

    def read(split: Split, seed: int) -> tuple[float, float]:
        probabilities, truth = _fitted(classifier, table, groups.labels, split.train, split.test, seed)
        return float(_scores(probabilities, truth, weighting).mean()), _shuffled(probabilities, truth, weighting)

    values, shuffled = np.array([read(split, seed) for split, seed in splits]).T
    first = splits[0][0]
    how: dict[str, Any] = {
        "null_value": shuffled,
        "level": level,
        "n": len(first.train) + len(first.test),
        "n_groups": int((groups.counts() > 0).sum()),
        "notes": (f"{classifier} classifier, {len(values)} splits",),
    }
    halves = None
    if classifier == "logistic":
        halves = half_means(lambda some: np.mean([read(split, 0) for split in some], axis=0), groups, **same)
        estimate = halved_t(values, halves[..., 0], null_halves=halves[..., 1], folds=folds is not None, **how)
    else:
        estimate = corrected_resampled_t(values, test_share=first.test_share, **how)
    return FittedLeakage(within_range(estimate, 0.0, 1.0), values, shuffled, first.test_share, halves)


def _fitted(
    classifier: str, table: Floats, labels: NDArray[Any], train: NDArray[Any], test: NDArray[Any], seed: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Probabilities (m, G) of the test rows and their labels, renumbered to the groups present."""
    from sklearn import config_context
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if classifier == "logistic":
        model = LogisticRegression(max_iter=2000)
    else:
        model = MLPClassifier((256, 256), early_stopping=True, max_iter=200, random_state=seed)
    # over a hundred small fits: checking our own settings each time would take a good part of the time
    with config_context(assume_finite=True, skip_parameter_validation=True):
        fitted = make_pipeline(StandardScaler(), model).fit(table[train], labels[train])
        place = {int(g): i for i, g in enumerate(fitted.classes_)}
        return fitted.predict_proba(table[test]), np.array([place[int(g)] for g in labels[test]])


def matched_vectors(truth: ArrayLike, f1: float, *, seed: int = 0) -> Floats:
    """``truth`` with entries flipped at random until its micro F1 against itself is ``f1``.

    A model that errs leaks less for its errors alone. Wang (2019) therefore perturbs the ground truth until it is
    as wrong as the model before comparing their leakage. Entries are flipped in the proportion of present and
    absent ones that keeps the number of ones: as many dropped as added. An F1 that this cannot reach is refused.

    Args:
        truth: (n, L) 0 and 1, whether an image has an object.
        f1: the F1 to match, above 0 and at most 1.
        seed: which entries are flipped.

    Returns:
        (n, L) 0 and 1, a copy.

    >>> x = np.tile([1.0, 0.0, 0.0], (200, 1)); y = matched_vectors(x, 0.8)
    >>> round(float(2 * (x * y).sum() / (x.sum() + y.sum())), 2), y.sum() == x.sum()
    (0.8, np.True_)
    """
    table = as_matrix(truth, "truth")
    if not np.isin(table, (0.0, 1.0)).all():
        raise InputError("truth must hold 0 and 1 only: whether an image has an object")
    if not 0 < f1 <= 1:
        raise InputError(f"f1 = {f1}: an F1 score to match is above 0 and at most 1")
    # with as many ones added as dropped, precision = recall = F1 = the share of ones kept
    rng = np.random.default_rng(seed)
    ones, zeros = np.flatnonzero(table), np.flatnonzero(table == 0)
    moved = round((1 - f1) * len(ones))
    if moved > len(zeros):
        least = 1 - len(zeros) / len(ones)
        raise InputError(
            f"f1 = {f1}: truth has {len(zeros)} zeros to set for {moved} ones to drop; match an F1 of {least:.2f} or "
            "more, or leave truth as it is"
        )
    flipped = table.ravel().copy()
    flipped[rng.choice(ones, moved, replace=False)] = 0.0
    flipped[rng.choice(zeros, moved, replace=False)] = 1.0
    return flipped.reshape(table.shape)
