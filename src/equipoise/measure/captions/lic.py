"""LIC: how much better a classifier reads a group off a model's captions than off human ones (LIC, CVPR 2022).

A caption's score is the classifier's probability of its true group if that group is the classifier's choice, else
0. LIC_M is the mean score of a classifier trained and tested on the model's captions, LIC_D that of classifiers
trained on human captions of the same images, LIC = LIC_M - LIC_D. The classifiers live elsewhere; here are their
probabilities.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_matrix, as_vector, chosen
from equipoise.measure.metric import Alternative, metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate, within_range
from equipoise.measure.stats.laws import t_above, t_quantile
from equipoise.measure.stats.permutation import ALTERNATIVES


def checked_probabilities(probabilities: Any, labels: Any) -> tuple[Floats, NDArray[np.int64]]:
    """Probabilities (n, G) whose rows sum to 1 and labels (n,) in 0..G-1, or an error that names the row."""
    table = as_matrix(probabilities, "probabilities")
    if table.shape[1] < 2:
        raise InputError(f"probabilities has shape {table.shape}; give one column per group, two groups at least")
    wrong = (table < 0).any(axis=1) | (np.abs(table.sum(axis=1) - 1) > 1e-4)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"probabilities row {row} = {table[row].tolist()} is not a distribution: it must sum to 1")
    truth = np.asarray(labels)
    if truth.shape != (len(table),) or not np.issubdtype(truth.dtype, np.integer):
        raise InputError(f"labels has shape {truth.shape} and type {truth.dtype}; give {len(table)} integers")
    outside = (truth < 0) | (truth >= table.shape[1])
    if outside.any():
        row = int(np.argmax(outside))
        raise InputError(
            f"labels[{row}] = {truth[row]}: with {table.shape[1]} groups a label is 0 to {table.shape[1] - 1}"
        )
    return table, truth.astype(np.int64)


def lic_scores(probabilities: ArrayLike, labels: ArrayLike) -> Floats:
    """The score s_a * 1[argmax = a] of each caption: the probability of its true group if that is the most probable.

    When several groups are equally probable the lowest index is the choice, so that a classifier that always says
    1/2 scores 1/4 on a balanced set.

    Args:
        probabilities: (n, G) how probable each group is for each caption; rows sum to 1.
        labels: (n,) the true groups, 0 to G - 1.

    Returns:
        (n,) scores from 0 to 1.

    >>> table = [[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.45, 0.55]]
    >>> scores = lic_scores(table, [0, 0, 1, 1])
    >>> scores.tolist(), round(float(scores.mean()), 4)
    ([0.9, 0.6, 0.0, 0.55], 0.5125)
    """
    table, truth = checked_probabilities(probabilities, labels)
    right = table.argmax(axis=1) == truth
    return np.where(right, table[np.arange(len(table)), truth], 0.0)


def lic_chance(groups: int) -> float:
    """The score of a classifier that has learnt nothing and knows it: right once in G, with confidence 1 / G.

    An overconfident classifier that has learnt nothing scores more: see :func:`lic_shuffled`.

    >>> lic_chance(2), lic_chance(4)
    (0.25, 0.0625)
    """
    return 1 / as_count(groups, "groups", least=2) ** 2


def lic_shuffled(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """The mean score if the test labels were dealt at random, exactly.

    Args:
        probabilities: (n, G) how probable each group is for each caption; rows sum to 1.
        labels: (n,) the true groups, 0 to G - 1; only how many there are of each matters.

    Returns:
        The mean over captions of confidence times the share of the group chosen. Between 1 / G^2 and 1 / G on a
        balanced set; how far above 1 / G^2 says how overconfident the classifier is.

    >>> round(lic_shuffled([[0.9, 0.1], [0.2, 0.8]], [0, 1]), 6)
    0.425
    """
    table, truth = checked_probabilities(probabilities, labels)
    shares = np.bincount(truth, minlength=table.shape[1]) / len(truth)
    return float((table.max(axis=1) * shares[table.argmax(axis=1)]).mean())


def corrected_resampled_t(
    values: ArrayLike,
    *,
    test_share: float,
    null_value: float | ArrayLike | None = None,
    alternative: Alternative = "greater",
    level: float = 0.95,
    n: int | None = None,
    n_groups: int | None = None,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """Mean of one value per split, with the interval and p-value of Nadeau and Bengio (2003).

    Splits of the same captions overlap, so that the plain t over splits is far too sure of itself. Here the
    variance of the mean is (1 / J + n_test / n_train) s^2, with J - 1 degrees of freedom.

    It is still too sure of itself as a statement about other captions, since the splits share most of theirs: for
    LIC of 200 to 1,000 captions, ten splits, 95% intervals cover 85 to 95% of the time and 5 to 15% of tests are false
    alarms (most where little leaks); for leakage of vectors, five folds for each of five seeds, 70 to 85% and 10 to
    20%. Where classifiers can be trained again :func:`equipoise.measure.captions.halved_t` keeps its level.

    Args:
        values: (J,) one per split.
        test_share: n_test / (n_test + n_train): 0.1 for the splits of LIC, 1 / k for k folds (also repeated).
        null_value: the chance level, one number or (J,) one per split (differences are then tested); no test if None.
        alternative: what is tested for, "greater" or "less" than ``null_value``, or "two-sided".
        level: confidence level of the interval.
        n: how many captions are behind it; J if None.
        n_groups: how many groups the captions are of; only recorded in the estimate.
        notes: further notes for the estimate.

    Returns:
        The estimate; one split has neither interval nor p-value, and splits that are all alike have no interval.

    >>> corrected_resampled_t([0.44, 0.42, 0.45, 0.43, 0.46], test_share=0.1, null_value=0.25)
    0.44 [0.4155, 0.4645] chance 0.25 ± 0.0088, excess +0.19, p = 1.4e-05, n = 5
    """
    chosen(alternative, "alternative", ALTERNATIVES)
    numbers = as_vector(values, "values")
    if not 0 < test_share < 1:
        raise InputError(f"test_share = {test_share}: the share of captions tested is between 0 and 1")
    if not 0 < level < 1:
        raise InputError(f"level = {level}: a confidence level is between 0 and 1, such as 0.95")
    runs, mean = len(numbers), float(numbers.mean())
    null = None
    if null_value is not None:
        by_split = np.broadcast_to(np.asarray(null_value, dtype=np.float64), numbers.shape)
        null = float(by_split.mean())
    size = runs if n is None else as_count(n, "n")
    if runs < 2:
        return Estimate(
            mean, null_mean=null, n=size, n_groups=n_groups, notes=(*notes, no_interval("one split")), level=level
        )
    scale = float(np.sqrt(1 / runs + test_share / (1 - test_share)))
    reach = float(t_quantile(0.5 + level / 2, runs - 1)) * scale * float(numbers.std(ddof=1))
    estimate = Estimate(
        mean, mean - reach, mean + reach, null_mean=null, n=size, n_groups=n_groups, notes=notes, level=level
    )
    if reach == 0:  # would pass for certainty
        estimate = replace(estimate, ci_low=None, ci_high=None, notes=(*notes, no_interval("all splits alike")))
    if null is None:
        return estimate
    error = scale * float((numbers - by_split).std(ddof=1))
    return replace(estimate, null_sd=error, p_value=t_test(mean - null, error, runs - 1, alternative))


def t_test(difference: float, error: float, freedom: float, alternative: Alternative) -> float:
    """The p-value of ``difference``, whose standard error is ``error``.

    >>> round(t_test(2.0, 1.0, 9, "two-sided"), 4)
    0.0766
    """
    if error <= 1e-12 * max(1.0, abs(difference)):  # all splits alike: nothing to judge the difference by, but itself
        ratio = 0.0 if abs(difference) <= 1e-12 else float(np.copysign(np.inf, difference))
    else:
        ratio = difference / error
    if alternative == "two-sided":
        return float(min(1.0, 2 * t_above(abs(ratio), freedom)))
    return float(t_above(ratio if alternative == "greater" else -ratio, freedom))


@metric(
    "lic_m",
    takes="captions",
    title="LIC of the model's captions",
    column="LIC_M",
    summary="How well the group is read off a model's captions, their group words masked.",
    citation="Hirota, Nakashima and Garcia, Quantifying Societal Bias Amplification in Image Captioning (LIC), "
    "CVPR 2022",
    formula="mean over test captions of s_a 1[argmax = a], s_a the probability of the true group; mean over splits",
    range="[0, 1]; results and papers give points, [0, 100]",
    bounds=(0.0, 100.0),
    direction="1 / G^2 is blind; higher: captions give the group away",
    better="lower",
    alternative="greater",
    chance="1 / G^2, or classifiers trained on shuffled labels; t from halves of the captions, or over splits",
    when_it_lies="An overconfident classifier scores above 1 / G^2 on nothing; depends on classifier and training "
    "length. An interval over splits is too narrow: 85 to 95% at 200 to 1,000 captions.",
    unit="points",
    main=7,
    rows={"lic_m_change": {"unit": "points", "bounds": (-100.0, 100.0)}},
)
def lic_m(
    values: ArrayLike,
    *,
    n_groups: int = 2,
    test_share: float = 0.1,
    null_value: float | ArrayLike | None = None,
    level: float = 0.95,
    n: int | None = None,
) -> Estimate:
    """LIC_M: mean over splits of the mean score of each split's test captions.

    Interval and p-value: :func:`corrected_resampled_t`.

    Args:
        values: (J,) the mean :func:`lic_scores` of each split's test captions.
        n_groups: G, on which chance depends.
        test_share: the part of a split's captions that is tested.
        null_value: the chance level, one number or (J,): :func:`lic_chance` if None, or that of classifiers trained on
            shuffled labels, or :func:`lic_shuffled` of each split.
        level: confidence level of the interval.
        n: how many captions are behind it; J if None.

    Returns:
        The estimate, as a share; :func:`in_points` makes points of it.

    >>> round(lic_m([0.44, 0.42, 0.45, 0.43, 0.46]).excess, 6)
    0.19
    """
    null = lic_chance(n_groups) if null_value is None else null_value
    estimate = corrected_resampled_t(
        values, test_share=test_share, null_value=null, level=level, n=n, n_groups=as_count(n_groups, "n_groups")
    )
    return within_range(estimate, 0.0, 1.0)


@metric(
    "lic_d",
    takes="captions",
    title="LIC of human captions",
    column="LIC_D",
    summary="The same for human captions of the same images, in the model's vocabulary.",
    citation="LIC, CVPR 2022",
    formula="as LIC_M, mean over one classifier per caption index",
    range="[0, 1]; results and papers give points, [0, 100]",
    bounds=(0.0, 100.0),
    direction="the bias that was there before the model",
    chance="1 / G^2",
    when_it_lies="A linear classifier reads more off human captions than an LSTM: compare one classifier only.",
    unit="points",
)
def lic_d(
    values: ArrayLike,
    *,
    n_groups: int = 2,
    test_share: float = 0.1,
    null_value: float | ArrayLike | None = None,
    level: float = 0.95,
    n: int | None = None,
) -> Estimate:
    """LIC_D: as :func:`lic_m`, for human captions.

    The k classifiers of a split share their images: they are averaged first, and the split is the unit.

    Args:
        values: (J,) the mean :func:`lic_scores` of each split, or (J, k) with one classifier per caption index.
        n_groups: G, on which chance depends.
        test_share: the part of a split's captions that is tested.
        null_value: the chance level, one number or (J,); :func:`lic_chance` if None.
        level: confidence level of the interval.
        n: how many captions are behind it; J if None.

    Returns:
        The estimate, as a share; :func:`in_points` makes points of it.

    >>> round(lic_d([[0.38, 0.40], [0.39, 0.41], [0.37, 0.39]]).value, 6)
    0.39
    """
    return lic_m(
        _by_split(values, "values"),
        n_groups=n_groups,
        test_share=test_share,
        null_value=null_value,
        level=level,
        n=n,
    )


@metric(
    "lic",
    takes="captions",
    title="LIC",
    summary="How much more a model's captions give the group away than human captions do.",
    citation="LIC, CVPR 2022",
    formula="LIC_M - LIC_D, split by split",
    range="[-1, 1]; results and papers give points, [-100, 100]",
    bounds=(-100.0, 100.0),
    direction="0: no amplification; above: amplified",
    better="lower",
    alternative="greater",
    chance="0; paired t from halves of the captions, or over splits",
    when_it_lies="Poor captions can lower it; the split moves it more than the model's seed. An interval over splits "
    "is too narrow: 85 to 95% at 200 to 1,000 captions.",
    unit="points",
    main=6,
)
def lic(
    model: ArrayLike,
    human: ArrayLike,
    *,
    test_share: float = 0.1,
    alternative: Alternative = "greater",
    level: float = 0.95,
    n: int | None = None,
    n_groups: int | None = None,
) -> Estimate:
    """LIC = LIC_M - LIC_D, split by split.

    What makes a split easy for both sides cancels in the difference. Chance is 0: the model's captions say no more
    about the group than human captions in the model's vocabulary. Interval and p: :func:`corrected_resampled_t`.

    Args:
        model: (J,) the mean :func:`lic_scores` of each split, of the model's captions.
        human: (J,) or (J, k) the same of human captions on the same splits, with one classifier per caption index.
        test_share: the part of a split's captions that is tested.
        alternative: what is tested for, "greater" or "less" than 0, or "two-sided".
        level: confidence level of the interval.
        n: how many captions are behind it; J if None.
        n_groups: how many groups the captions are of; only recorded in the estimate.

    Returns:
        The estimate, as a difference of shares; :func:`in_points` makes points of it.

    >>> lic([0.44, 0.42, 0.45], [[0.38, 0.40], [0.39, 0.37], [0.40, 0.40]])
    0.04667 [0.03011, 0.06323] chance 0 ± 0.0038, excess +0.04667, p = 0.0034, n = 3
    """
    ours, theirs = as_vector(model, "model"), _by_split(human, "human")
    if len(ours) != len(theirs):
        raise InputError(
            f"model has {len(ours)} splits and human {len(theirs)}; LIC is a difference on the same splits"
        )
    estimate = corrected_resampled_t(
        ours - theirs,
        test_share=test_share,
        null_value=0.0,
        alternative=alternative,
        level=level,
        n=n,
        n_groups=n_groups,
    )
    return within_range(estimate, -1.0, 1.0)


def _by_split(values: ArrayLike, name: str) -> Floats:
    return np.asarray(as_matrix(values, name).mean(axis=1)) if np.ndim(values) == 2 else as_vector(values, name)


def in_points(estimate: Estimate, factor: float = 100.0) -> Estimate:
    """The same estimate times ``factor``: shares as points, the way the tables of the papers print them.

    Args:
        estimate: in shares.
        factor: what the value, its interval and its chance level are multiplied by; 100 makes points of shares.

    Returns:
        The estimate on the new scale; its p-value, n and notes stay.

    >>> in_points(Estimate(0.437, 0.42, 0.45, null_mean=0.25, p_value=0.01, n=662))
    43.7 [42, 45] chance 25, excess +18.7, p = 0.01, n = 662
    """
    names = ("value", "ci_low", "ci_high", "null_mean", "null_sd", "null_low", "null_high")
    old: dict[str, Any] = {name: getattr(estimate, name) for name in names}
    scaled: dict[str, Any] = {name: None if x is None else x * factor for name, x in old.items()}
    return replace(estimate, **scaled)
