"""How closely two columns of numbers follow each other, with what chance alone would give."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.stats.estimate import Estimate

LEAST = 3
"""Two points always lie on a line."""


def pearson(x: ArrayLike, y: ArrayLike, *, level: float = 0.95) -> Estimate | None:
    """Pearson's correlation of ``x`` and ``y`` (n,), chance 0, with Fisher's interval (from four points on).

    The p-value is two-sided, by the t distribution that unrelated normal numbers follow. ``None`` with fewer than
    three points or where one side does not vary: there is nothing to follow then.

    >>> pearson([1.0, 2, 3, 4, 5], [2.0, 1, 4, 3, 6])
    0.822 [-0.2193, 0.9879] chance 0 ± 0.5, excess +0.822, p = 0.088, n = 5
    >>> pearson([1.0, 1, 1], [1.0, 2, 3]) is None
    True
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"x has shape {a.shape} and y {b.shape}; a correlation needs two lists of the same length")
    n = len(a)
    if n < LEAST or np.ptp(a) < 1e-12 or np.ptp(b) < 1e-12:
        return None
    whole = sps.pearsonr(a, b)
    low, high = whole.confidence_interval(level) if n > LEAST else (None, None)
    return Estimate(
        float(whole.statistic),
        None if low is None else float(low),
        None if high is None else float(high),
        null_mean=0.0,
        null_sd=1 / math.sqrt(n - 1),
        p_value=float(whole.pvalue),
        n=n,
        level=level,
    )
