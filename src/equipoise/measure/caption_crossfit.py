"""The interval of a cross-fitted mean: every caption was scored once, by a classifier that had not seen it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.arrays import as_vector, chosen
from equipoise.measure.estimate import Estimate
from equipoise.measure.permutation import ALTERNATIVES, Alternative

__all__ = ["cross_fitted"]


def cross_fitted(
    scores: ArrayLike,
    captions: ArrayLike,
    groups: ArrayLike,
    *,
    null_value: float | None = None,
    alternative: Alternative = "greater",
    level: float = 0.95,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """Mean over groups of the mean of out-of-fold ``scores`` (n,), with an interval over captions.

    For a classifier that one caption more or less hardly changes, out-of-fold scores vary as independent ones do, and
    their own spread gives the interval of the mean (Bayle et al., Cross-validation Confidence Intervals for Test Error,
    NeurIPS 2020). It is what the classifiers of these folds score on new captions; how classifiers trained on other
    captions differ is not in it, which the corrected t over splits includes. ``captions`` (n,) says whose score each
    is: a caption that was tested several times, in repetitions, counts as one. ``groups`` (n,): deviations are taken
    from the mean of the caption's group.

    >>> cross_fitted([0.9, 0.0, 0.7, 0.6, 0.0, 0.8], range(6), [0, 0, 0, 1, 1, 1], null_value=0.25)
    0.5 [0.1813, 0.8187] chance 0.25 ± 0.16, excess +0.25, p = 0.062, n = 6, 2 groups
    """
    chosen(alternative, "alternative", ALTERNATIVES)
    given = as_vector(scores, "scores")
    of, group = np.unique(np.asarray(captions), return_inverse=True)[1], np.unique(groups, return_inverse=True)[1]
    if not len(given) == len(of) == len(group):
        raise InputError(
            f"{len(given)} scores, {len(of)} captions and {len(group)} groups; give each score its caption and group"
        )
    if not 0 < level < 1:
        raise InputError(f"level = {level}: a confidence level is between 0 and 1, such as 0.95")
    sizes = np.bincount(group)
    means = np.bincount(group, given) / sizes
    value, n = float(means.mean()), int(of.max()) + 1
    if n < 2:
        return Estimate(
            value, null_mean=null_value, n=n, n_groups=len(sizes), notes=(*notes, "no interval: one caption")
        )
    pulls = np.bincount(of, (given - means[group]) / (sizes[group] * len(sizes)))
    error = float(np.sqrt(n / (n - 1) * (pulls**2).sum()))
    reach = float(sps.norm.ppf(0.5 + level / 2)) * error
    p_value = None if null_value is None else _z_test(value - null_value, error, alternative)
    return Estimate(
        value,
        value - reach,
        value + reach,
        null_mean=null_value,
        null_sd=None if null_value is None else error,
        p_value=p_value,
        n=n,
        n_groups=len(sizes),
        notes=notes,
        level=level,
    )


def _z_test(difference: float, error: float, alternative: Alternative) -> float:
    ratio = difference / error if error > 0 else float(np.copysign(np.inf, difference)) if difference else 0.0
    if alternative == "two-sided":
        tail = min(1.0, 2 * sps.norm.sf(abs(ratio)))
    else:
        tail = sps.norm.sf(ratio if alternative == "greater" else -ratio)
    return float(max(tail, np.finfo(float).tiny))  # never 0: no sample is that sure
