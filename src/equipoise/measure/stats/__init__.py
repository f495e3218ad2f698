"""Statistics that come with every number: intervals, nulls, p-values, corrections, power.

The public face of the statistics in this package.

>>> summarise([0.2, 0.4, 0.1, 0.3, 0.25], null_value=0.0)
0.25 [0.1112, 0.3888] chance 0 ± 0.12, excess +0.25, p = 0.062, n = 5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.measure.metric import Alternative
from equipoise.measure.stats.bootstrap import (
    IntervalMethod,
    bootstrap_means,
    bootstrap_statistic,
    cluster_sums,
    mean_interval,
    no_interval_note,
)
from equipoise.measure.stats.estimate import RESULT_COLUMNS, Estimate
from equipoise.measure.stats.permutation import (
    PValues,
    SignFlip,
    benjamini_hochberg,
    holm,
    p_values,
    permutation_test,
    sign_flip,
)
from equipoise.measure.stats.power import Equivalence, equivalence, minimum_detectable_effect

__all__ = [
    "RESULT_COLUMNS",
    "Alternative",
    "Equivalence",
    "Estimate",
    "IntervalMethod",
    "PValues",
    "SignFlip",
    "benjamini_hochberg",
    "bootstrap_means",
    "bootstrap_statistic",
    "compare",
    "equivalence",
    "holm",
    "mean_interval",
    "minimum_detectable_effect",
    "no_interval_note",
    "p_values",
    "permutation_test",
    "sign_flip",
    "summarise",
]


def summarise(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    null_value: float | None = None,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    method: IntervalMethod = "t",
    n_groups: int | None = None,
    dropped: Mapping[str, int] | None = None,
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> Estimate:
    """The mean of ``values`` with its interval; with ``null_value``, also a sign-flip p-value against it.

    For values whose chance level is a known constant (0 for a signed difference, 0.5 for a forced choice). Where
    chance depends on the pool, use the nulls of :mod:`equipoise.measure.retrieval.nulls`.

    Args:
        values: (n,) one number per query or item.
        clusters: (n,) values with one key depend on each other and are flipped as one; ``None``: all are independent.
        null_value: the chance level of the mean; ``None``: there is none, and no p-value.
        alternative: the side of ``null_value`` on which the mean would speak against chance; ``two-sided``: either.
        level: confidence of the interval.
        method: how the interval is made, as in :func:`mean_interval`.
        n_groups: how many groups the number is about, for the estimate.
        dropped: what was left out before and how many, by reason, for the estimate.
        notes: what else a reader must know, for the estimate; if there is no interval, the reason is added.
        seed: which signs are flipped, and which resamples a bootstrap ``method`` draws.

    Returns:
        The mean as an estimate.

    >>> summarise([0.5, 0.75, 1.0], notes=("no null: accuracy is not a bias",)).n
    3
    """
    sums = cluster_sums(values, clusters)
    interval = mean_interval(values, clusters=clusters, level=level, method=method, seed=seed)
    low, high = interval if interval is not None else (None, None)
    if interval is None:
        notes = (*notes, no_interval_note(values, clusters))
    null_sd = p_value = None
    if null_value is not None:
        shifted = sums.sums[:, 0] - null_value * sums.sizes
        test = sign_flip(shifted, alternative=alternative, seed=seed)
        p_value = float(test.p_value)
        null_sd = float(test.null_sd) * len(sums.sizes) / float(sums.sizes.sum())
    return Estimate(
        value=float(sums.mean[0]),
        ci_low=low,
        ci_high=high,
        null_mean=null_value,
        null_sd=null_sd,
        p_value=p_value,
        n=int(np.size(np.asarray(values))),
        n_groups=n_groups,
        dropped=dict(dropped or {}),
        notes=notes,
        level=level,
    )


def compare(
    values_a: ArrayLike,
    values_b: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    draws: ArrayLike | None = None,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    method: IntervalMethod = "t",
    seed: int = 0,
) -> Estimate:
    """The mean difference a - b of two models on the same queries, with interval and p-value.

    Paired: what makes a query hard for both models cancels.

    Args:
        values_a: (n,) what the first model gives for each query.
        values_b: (n,) the same of the second, in the same order.
        clusters: (n,) queries with one key are not independent of each other; ``None``: all are independent.
        draws: (R,) those of the same difference when the same labels are shuffled alike for both (``Chance.suite`` of
            one less that of the other, if their ``shuffle`` is the same): queries that share images are not
            independent, and then this is the null that holds. Without it the chance level is 0, because the models
            could be exchanged, and the p-value flips signs of queries.
        alternative: the side on which the difference would speak against chance, ``greater`` for a above b;
            ``two-sided``: either.
        level: confidence of the interval.
        method: how the interval is made, as in :func:`mean_interval`; that of ``t`` is at least as wide as ``draws``
            spread.
        seed: which signs are flipped, and which resamples a bootstrap ``method`` draws.

    Returns:
        The difference as an estimate.

    >>> compare([0.9, 0.8, 1.1, 1.0], [0.5, 0.6, 0.7, 0.4])
    0.4 [0.1402, 0.6598] chance 0 ± 0.21, excess +0.4, p = 0.12, n = 4
    """
    a, b = np.asarray(values_a, dtype=np.float64), np.asarray(values_b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(
            f"values_a has shape {a.shape} and values_b {b.shape}; a paired comparison needs one value per query "
            "from each model, in the same order"
        )
    flipped = summarise(
        a - b,
        clusters=clusters,
        null_value=0.0,
        alternative=alternative,
        level=level,
        method=method,
        seed=seed,
    )
    joint = np.zeros(0) if draws is None else np.asarray(draws, dtype=np.float64)
    if joint.size == 0 or np.ptp(joint) <= 0:
        return flipped
    low, high = mean_interval(
        a - b, clusters=clusters, level=level, method=method, seed=seed, least_error=float(joint.std())
    ) or (None, None)
    return replace(
        flipped,
        ci_low=low,
        ci_high=high,
        null_mean=float(joint.mean()),
        null_sd=float(joint.std()),
        p_value=p_values(flipped.value, joint, alternative=alternative, rng=seed).value,
        notes=flipped.notes if low is None else (),  # all that flips may note is why they give no interval
    ).with_notes("chance: labels shuffled alike for both")
