"""The interval of a cross-fitted mean: every caption was scored once, by a classifier that had not seen it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.arrays import as_vector, chosen
from equipoise.measure.groups import UNDEFINED
from equipoise.measure.metric import Alternative
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import ALTERNATIVES

LEAST_FOLDS = 4
"""With fewer there are no two pairs of folds that share none, and :func:`fold_variance` has nothing to compare."""


def cross_fitted(
    scores: ArrayLike,
    captions: ArrayLike,
    groups: ArrayLike,
    *,
    variance: float | None = None,
    freedom: int | None = None,
    null_value: float | None = None,
    alternative: Alternative = "greater",
    level: float = 0.95,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    notes: tuple[str, ...] = (),
) -> Estimate:
    """Mean over groups of the mean of out-of-fold ``scores``, with an interval.

    Without ``variance`` the interval is for what *these* classifiers score on new captions: out-of-fold scores then
    vary as independent ones do (Bayle et al., Cross-validation Confidence Intervals for Test Error, NeurIPS 2020). It
    is too narrow for a statement about the captioner. The score of LIC is not what the classifier was fitted to, so a
    caption moves the mean twice, once where it is tested and once more through all the others that are tested by
    classifiers trained on it: over new draws of captions the mean varies up to three times as much. ``variance`` has
    both.

    Args:
        scores: (n,) by classifiers that had not seen the caption.
        captions: (n,) whose score each is: a caption that was tested several times counts as one; give the image where
            one has several captions.
        groups: (n,) the group of each caption, all defined; deviations are taken from the mean of the caption's group.
        variance: of the mean, from :func:`fold_variance`; the larger of it and :func:`captions_variance` is taken.
        freedom: degrees of freedom of Student's t; normal if None.
        null_value: the chance level to test against; no test if None.
        alternative: what is tested for, "greater" or "less" than ``null_value``, or "two-sided".
        level: confidence level of the interval.
        bounds: the least and the largest possible value: no interval leaves them.
        notes: further notes for the estimate.

    Returns:
        The estimate, whose n counts captions; without an interval for one caption, or where all scores are alike.

    >>> cross_fitted([0.9, 0.0, 0.7, 0.6, 0.0, 0.8], range(6), [0, 0, 0, 1, 1, 1], null_value=0.25)
    0.5 [0.1813, 0.8187] chance 0.25 ± 0.16, excess +0.25, p = 0.062, n = 6, 2 groups
    """
    chosen(alternative, "alternative", ALTERNATIVES)
    numbers = as_vector(scores, "scores")
    of, group = np.unique(np.asarray(captions), return_inverse=True)[1], _numbered(groups)
    if not len(numbers) == len(of) == len(group):
        raise InputError(
            f"{len(numbers)} scores, {len(of)} captions and {len(group)} groups; give each score its caption and group"
        )
    if not 0 < level < 1:
        raise InputError(f"level = {level}: a confidence level is between 0 and 1, such as 0.95")
    n = int(of.max()) + 1
    value = float((np.bincount(group, numbers) / np.bincount(group)).mean())
    n_groups = int(group.max()) + 1
    if n < 2:
        alone = (*notes, no_interval("one caption"))
        return Estimate(value, null_mean=null_value, n=n, n_groups=n_groups, notes=alone, level=level)
    own = captions_variance(numbers, of, group)
    error = float(np.sqrt(own if variance is None else max(own, variance)))
    spread = sps.norm() if freedom is None else sps.t(freedom)
    reach = float(spread.ppf(0.5 + level / 2)) * error
    p_value = None if null_value is None else _test(value - null_value, error, spread, alternative)
    estimate = Estimate(
        value,
        max(bounds[0], value - reach),
        min(bounds[1], value + reach),
        null_mean=null_value,
        null_sd=None if null_value is None else error,
        p_value=p_value,
        n=n,
        n_groups=n_groups,
        notes=notes,
        level=level,
    )
    if reach > 0:
        return estimate
    # all scores alike: an interval without width would pass for certainty
    return replace(estimate, ci_low=None, ci_high=None, notes=(*notes, no_interval("all scores are alike")))


def captions_variance(scores: ArrayLike, captions: ArrayLike, groups: ArrayLike) -> float:
    """The variance of the mean of :func:`cross_fitted` if captions varied and the classifiers did not.

    Args:
        scores: (n,) by classifiers that had not seen the caption.
        captions: (n,) whose score each is; scores of one caption are not independent.
        groups: (n,) the group of each caption, all defined.

    Returns:
        The variance, 0 for a single caption.

    >>> round(captions_variance([0.0, 1.0, 0.0, 0.4], range(4), [0, 0, 1, 1]), 6)
    0.048333
    """
    given = as_vector(scores, "scores")
    of, group = np.unique(np.asarray(captions), return_inverse=True)[1], _numbered(groups)
    sizes = np.bincount(group)
    means = np.bincount(group, given) / sizes
    pulls = np.bincount(of, (given - means[group]) / (sizes[group] * len(sizes)))
    n = len(pulls)
    return float(n / (n - 1) * (pulls**2).sum()) if n > 1 else 0.0


def fold_variance(fold_means: ArrayLike, left_out: ArrayLike) -> float:
    """The variance of the mean over folds, from how much each fold matters as training captions of each other one.

    Training without fold b moves the score of fold a by what b had to say about a: the cross-fitted mean is then a mean
    over pairs of folds, and its variance is the square of the mean less the mean product of pairs that share no fold,
    which is unbiased where nothing but pairs matters. (The jackknife over folds counts what comes from pairs twice: 1.5
    times the standard error for LIC.)

    Args:
        fold_means: (k,) the mean score of each fold, by the classifier of the others; k is at least 4.
        left_out: (k, k) at [a, b] the mean score of fold a by a classifier trained without a and b; the diagonal is not
            read.

    Returns:
        The variance. It is noisy and can be negative; :func:`cross_fitted` takes :func:`captions_variance` where that
        is larger.

    >>> means = [0.3, 0.5, 0.4, 0.6]
    >>> round(fold_variance(means, [[m] * 4 for m in means]), 6)  # training does not matter: sd² / k
    0.004167
    """
    means, without = as_vector(fold_means, "fold_means"), np.array(left_out, dtype=np.float64)
    k = len(means)
    if k < LEAST_FOLDS or without.shape != (k, k):
        raise InputError(
            f"fold_means has {k} folds and left_out the shape {without.shape}; give (k, k), k at least {LEAST_FOLDS}"
        )
    change = means[:, None] - without
    np.fill_diagonal(change, 0.0)
    # b is one of k - 1 training folds; without it the others weigh more, hence k - 2
    pseudo_values = means[:, None] + (k - 2) * (change - change.sum(axis=1, keepdims=True) / (k - 1))
    pairs = (pseudo_values + pseudo_values.T) / 2 - means.mean()
    np.fill_diagonal(pairs, 0.0)
    by_fold, squares = pairs.sum(axis=1), float((pairs**2).sum())
    apart = float(pairs.sum()) ** 2 - 2 * squares - 4 * (float((by_fold**2).sum()) - squares)
    return -apart / (k * (k - 1) * (k - 2) * (k - 3))


def _numbered(groups: ArrayLike) -> NDArray[np.intp]:
    """(n,) the groups as 0, 1, ...; a caption without one is refused, for the mean is over groups."""
    given = np.asarray(groups)
    if given.dtype.kind in "if" and (given == UNDEFINED).any():
        raise InputError("groups holds -1, which is no group; leave out the scores of captions without a group")
    return np.asarray(np.unique(given, return_inverse=True)[1])


def _test(difference: float, error: float, spread: Any, alternative: Alternative) -> float:
    ratio = difference / error if error > 0 else float(np.copysign(np.inf, difference)) if difference else 0.0
    if alternative == "two-sided":
        tail = min(1.0, 2 * spread.sf(abs(ratio)))
    else:
        tail = spread.sf(ratio if alternative == "greater" else -ratio)
    return float(max(tail, np.finfo(float).tiny))  # never 0: no sample is that sure
