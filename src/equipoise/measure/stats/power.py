"""What an n can show: equivalence, and the smallest effect that would have been seen."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.stats.bootstrap import cluster_sums, has_spread
from equipoise.measure.stats.laws import t_above, t_below, t_quantile


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests that a mean lies between two bounds."""

    mean: float
    low: float
    high: float
    p_value: float
    """The larger of the two one-sided p-values: small means "shown to lie within the bounds"."""
    p_low: float
    p_high: float
    n: int
    """Independent units: clusters, or rows without clusters."""


def equivalence(values: ArrayLike, low: float, high: float, *, clusters: ArrayLike | None = None) -> Equivalence:
    """TOST: is the mean of ``values`` shown to lie between ``low`` and ``high``?

    A p-value above 0.05 in a test for bias is no proof of its absence; this test can give one. Two one-sided
    t tests with cluster-robust standard error (Schuirmann 1987). Units that happen to be all alike do not say how far
    others would lie: they show nothing, and all p-values are 1.

    Args:
        values: (n,) differences or excesses.
        low: the least mean that would not matter.
        high: the greatest mean that would not matter, above ``low``.
        clusters: (n,) values with one key are not independent of each other; ``None``: all are independent.

    Returns:
        Both one-sided p-values, and the larger one, which decides.

    >>> equivalence([0.01, -0.02, 0.0, 0.015, -0.01], -0.05, 0.05).p_value < 0.01
    True
    """
    if not low < high:
        raise InputError(f"low = {low} and high = {high}: the lower bound must be below the upper one")
    sums = cluster_sums(values, clusters)
    n = len(sums.sizes)
    if n < 2:
        raise InputError(f"values: {n} independent unit; an equivalence test needs at least 2")
    mean, error = float(sums.mean[0]), float(sums.standard_error[0])
    p_low = p_high = 1.0
    if has_spread(sums):
        p_low = float(t_above((mean - low) / error, n - 1))
        p_high = float(t_below((mean - high) / error, n - 1))
    return Equivalence(mean, low, high, max(p_low, p_high), p_low, p_high, n)


def minimum_detectable_effect(
    values: ArrayLike | None = None,
    *,
    sd: float | None = None,
    n: int | None = None,
    clusters: ArrayLike | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """The mean that a two-sided one-sample t test at ``alpha`` would find with probability ``power``.

    Give the ``values`` at hand, or an ``sd`` and an ``n`` when planning. Solved with the noncentral t distribution.

    Args:
        values: those at hand, per set, per subject or per query; ``sd`` and ``n`` then come from them alone.
        sd: the expected standard deviation of the values.
        n: how many independent values there will be, at least 2.
        clusters: one key per value, if they are not independent; n is then the number of clusters.
        alpha: the level of the test.
        power: the probability of finding the effect, above ``alpha``.

    Returns:
        The smallest such mean, in the units of the values.

    >>> round(minimum_detectable_effect(sd=1.0, n=24), 3)
    0.597
    """
    if values is not None:
        sums = cluster_sums(values, clusters)
        n = len(sums.sizes)
        sd = float(sums.standard_error[0]) * sqrt(n) if n > 1 else 0.0
    if sd is None or n is None:
        raise InputError("give the values at hand, or both sd and n")
    if n < 2 or sd < 0:
        raise InputError(f"n = {n}, sd = {sd}: at least 2 independent units and an sd that is not negative")
    if not (0 < alpha < 1 and alpha < power < 1):
        raise InputError(f"alpha = {alpha}, power = {power}: both are probabilities, and power is above alpha")
    critical = float(t_quantile(1 - alpha / 2, n - 1))

    def shortfall(shift: float) -> float:
        # the far tail is NaN in scipy where it is below its precision
        detected = sps.nct.sf(critical, n - 1, shift) + np.nan_to_num(sps.nct.cdf(-critical, n - 1, shift))
        return float(detected) - power

    upper = critical + float(np.abs(t_quantile(power, n - 1))) + 2.0
    while shortfall(upper) < 0:
        upper *= 2
    return float(optimize.brentq(shortfall, 1e-9, upper)) * sd / sqrt(n)
