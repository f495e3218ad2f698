"""Intervals of scores that are functions of summed counts (BLEU, METEOR): images are drawn, counts summed anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.measure.arrays import Floats
from equipoise.measure.bootstrap import bootstrap_statistic, cluster_sums
from equipoise.measure.estimate import Estimate

__all__ = ["estimates_of_sums"]


def estimates_of_sums(
    counts: Floats,
    statistic: Callable[[Floats], Floats],
    *,
    clusters: ArrayLike | None,
    level: float,
    replicates: int,
    seed: int,
    notes: tuple[str, ...] = (),
) -> list[Estimate]:
    """An estimate for each column of ``statistic``, a function of summed counts (b, c) -> (b, s).

    ``counts`` (n, c) has one row a caption; captions, or whole ``clusters`` of them, are drawn with replacement and
    the interval is between quantiles of the draws.

    >>> hits = np.array([[1.0, 2.0], [2.0, 2.0], [1.0, 2.0], [0.0, 2.0]])
    >>> estimates_of_sums(
    ...     hits, lambda s: s[:, :1] / s[:, 1:], clusters=None, level=0.9, replicates=200, seed=0
    ... )
    [0.5 [0.25, 0.75] n = 4]
    """
    if not 0 < level < 1:
        raise InputError(f"level = {level}: a confidence level is between 0 and 1, such as 0.95")
    units = len(cluster_sums(counts, clusters).sizes)
    values = statistic(counts.sum(axis=0, keepdims=True))[0]
    n = len(counts)
    if units < 2:
        alone = (*notes, "no interval: one independent unit")
        return [Estimate(float(value), n=n, notes=alone, level=level) for value in values]
    draws = bootstrap_statistic(counts, statistic, clusters=clusters, replicates=replicates, seed=seed)
    tail = (1 - level) / 2
    low, high = np.quantile(draws, (tail, 1 - tail), axis=0)
    return [
        Estimate(float(v), float(a), float(b), n=n, notes=notes, level=level)
        for v, a, b in zip(values, low, high, strict=True)
    ]
