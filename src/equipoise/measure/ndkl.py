"""Metrics of a ranked list of groups: NDKL and the infeasible index.

``ranked`` (..., T) holds the group label of each image, best first; negative beyond the end of a short list.
Undefined images are removed before ranking, so no negative label stands before a group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.measure.prefixes import discounts, group_totals, occurrence, ranked_lists

__all__ = ["infeasible_count", "infeasible_index", "kl_curve", "ndkl"]

FloatArray = NDArray[np.float64]


def kl_curve(ranked: ArrayLike, desired: ArrayLike) -> FloatArray:
    """KL(p^i || d) of every prefix i = 1..T (..., T), natural log, 0 ln 0 = 0; 0 beyond the end of a short list.

    Adding one image changes only its own group's term, so the whole curve costs one running sum.

    >>> kl_curve([0, 1], [0.5, 0.5]).round(5).tolist()
    [0.69315, 0.0]
    """
    labels, there, share = ranked_lists(ranked, desired)
    # sum_g c_g ln c_g grows by c ln c - (c-1) ln(c-1) when a group gets its c-th image
    grown = np.cumsum(np.where(there, _growth(occurrence(labels)), 0.0), axis=-1)
    with np.errstate(divide="ignore"):
        log_share = np.log(share)
    wanted = np.take_along_axis(log_share, np.where(there, labels, 0), axis=-1)
    if np.isinf(wanted[there]).any():
        group = int(labels[there & np.isinf(wanted)][0])
        raise InputError(f"desired gives group {group} the share 0 but it was retrieved; its divergence is infinite")
    expected = np.cumsum(np.where(there, wanted, 0.0), axis=-1)
    size = np.arange(1, labels.shape[-1] + 1, dtype=np.float64)
    divergence = (grown - expected) / size - np.log(size)
    return np.where(there, np.maximum(divergence, 0.0), 0.0)


def _growth(count: NDArray[np.int64]) -> FloatArray:
    """c ln c - (c - 1) ln(c - 1), from a table: counts are small whole numbers."""
    table = np.arange(int(count.max(initial=0)) + 1, dtype=np.float64)
    table[1:] *= np.log(table[1:])
    return np.diff(table, prepend=0.0)[count]


def ndkl(ranked: ArrayLike, desired: ArrayLike) -> FloatArray:
    """NDKL: the mean of KL(p^i || d) over the prefixes i = 1..T, weighted by 1 / log2(i + 1) (Geyik et al. 2019).

    ``ranked`` (..., T) decides T; the weights of a shorter list sum over its own prefixes. 0 is parity in every
    prefix, which no list of single images can reach: chance alone gives a value well above 0.

    >>> float(ndkl([0, 0, 0, 0, 1], [0.6, 0.4]).round(5))
    0.45581
    """
    return mean_of_curve(kl_curve(ranked, desired), np.asarray(ranked) >= 0)


def mean_of_curve(curve: FloatArray, there: NDArray[np.bool_]) -> FloatArray:
    """NDKL from the divergence of every prefix (..., T) and whether there is such a prefix."""
    weights = np.where(there, discounts(curve.shape[-1]), 0.0)
    total = weights.sum(axis=-1)
    if not (total > 0).all():
        raise InputError("ranked: a query has no ranked image; drop such queries and report them")
    return np.asarray((curve * weights).sum(axis=-1) / total)


def infeasible_count(ranked: ArrayLike, desired: ArrayLike) -> FloatArray:
    """How many (prefix, group) pairs fall short: count_i(g) < floor(d_g i), i = 1..T (Geyik et al. 2019).

    >>> float(infeasible_count([0, 0, 0, 1], [0.5, 0.5]))
    3.0
    """
    return shortfalls(ranked, desired)[1]


def infeasible_index(ranked: ArrayLike, desired: ArrayLike) -> FloatArray:
    """How many prefixes i = 1..T have some group g with count_i(g) < floor(d_g i) (Geyik et al. 2019).

    From 0 (every prefix gives every group its due) to T.

    >>> float(infeasible_index([0, 0, 0, 1], [0.5, 0.5])), float(infeasible_index([0, 1, 0, 1], [0.5, 0.5]))
    (3.0, 0.0)
    """
    return shortfalls(ranked, desired)[0]


def shortfalls(ranked: ArrayLike, desired: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """:func:`infeasible_index` and :func:`infeasible_count` together: the same prefixes decide both."""
    labels, there, share = ranked_lists(ranked, desired)
    size = np.arange(1, labels.shape[-1] + 1)
    some = np.zeros(labels.shape, dtype=bool)
    pairs = np.zeros(labels.shape[:-1], dtype=np.int64)
    for group in range(share.shape[-1]):
        have = group_totals(labels, group)
        # 0.29 * 100 is 28.999... in floating point
        due = np.floor(share[..., group, None] * size + 1e-9)
        short = there & (have < due)
        some |= short
        pairs += short.sum(axis=-1)
    return some.sum(axis=-1).astype(np.float64), pairs.astype(np.float64)
