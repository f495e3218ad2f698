"""The values that a retrieval metric can take, given the pools and K: no interval may promise more."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from equipoise.measure.evaluate import Retrieved
from equipoise.measure.skew import desired_shares, zero_rule

__all__ = ["possible_range"]

_PLAIN = {
    "representation": (0.0, 1.0),
    "exposure": (0.0, 1.0),
    "exposure_ratio": (0.0, 1.0),
    "abs_bias_at_k": (0.0, 1.0),
    "bias_at_k": (-1.0, 1.0),
    "bias_count_at_k": (-1.0, 1.0),
}


def possible_range(
    found: Retrieved, name: str, queries: NDArray[np.bool_] | None = None, group: int | None = None
) -> tuple[float, float]:
    """The least and the greatest mean that the metric ``name`` can have over the queries (or those of a mask).

    Of two groups as frequent, MaxSkew lies between 0 and ln 2; no more groups can be absent than all but one.

    >>> from equipoise.measure.evaluate import evaluate
    >>> from equipoise.measure.groups import Groups
    >>> from equipoise.measure.sources import Scores
    >>> found = evaluate(Scores(np.arange(12.0)[None]), Groups(np.arange(12) % 2, ("a", "b")), k=4)
    >>> [round(end, 3) for end in possible_range(found, "max_skew")], possible_range(found, "absent_groups")
    ([0.0, 0.693], (0.0, 1.0))
    """
    recipe = found.recipe
    chosen = found.pool if queries is None else found.pool[queries]
    pool = found.pool_counts[chosen].astype(np.float64)
    there = pool > 0
    share = desired_shares(recipe.desired, pool)
    taken = np.minimum(recipe.k, pool.sum(axis=1))[:, None]
    most = np.minimum(pool, taken) / taken
    if name == "representation" and group is not None and not recipe.variant.divides_by_asked_k:
        return 0.0, float(most[:, group].mean())
    if name in _PLAIN:
        return _PLAIN[name]
    possible = there & (share > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        if name == "max_skew" and recipe.zero_max == "skip":
            return 0.0, float(np.where(possible, np.log(most / share), -np.inf).max(axis=1).mean())
        if name == "min_skew":
            return _least_skew(recipe.zero_min, share, possible, taken), 0.0
        if name == "ndkl":
            # the first prefixes can hold one group alone
            return 0.0, float(np.where(possible, -np.log(share), -np.inf).max(axis=1).mean())
    if name == "absent_groups":
        return 0.0, float((possible.sum(axis=1) - 1).mean())
    if name == "exposure_gap":
        return 0.0, float((1 - np.where(possible, share, np.inf).min(axis=1)).mean())
    if name == "infeasible_index":
        return 0.0, float(taken.mean())
    if name == "infeasible_count":
        return 0.0, float((taken[:, 0] * (possible.sum(axis=1) - 1)).mean())
    if name == "max_skew":
        return 0.0, math.inf
    return -math.inf, math.inf


def _least_skew(
    zero: str, share: NDArray[np.float64], possible: NDArray[np.bool_], taken: NDArray[np.float64]
) -> float:
    rule, pseudo = zero_rule(zero)
    groups = possible.sum(axis=1, keepdims=True)
    if rule == "laplace":
        least = np.log(pseudo / (taken + pseudo * groups) / share)
    elif rule in ("skip", "one_over_k"):
        least = np.log(1 / taken / share)
    else:
        return -math.inf
    return float(np.minimum(np.where(possible, least, np.inf).min(axis=1), 0.0).mean())
