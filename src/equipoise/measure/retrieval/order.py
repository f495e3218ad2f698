"""Exposure: how much of a reader's attention each group gets, when attention falls with rank.

Metrics of a ranked list of groups: NDKL and the infeasible index.

``ranked`` (..., T) holds the group label of each image, best first; negative beyond the end of a short list.
Undefined images are removed before ranking, so no negative label stands before a group.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.arrays import occurrence
from equipoise.measure.metric import Scope, metric
from equipoise.measure.retrieval.blocks import discounts, ranked_lists


def kl_curve(ranked: ArrayLike, desired: ArrayLike) -> Floats:
    """KL(p^i || d) of every prefix i = 1..T, natural log, 0 ln 0 = 0.

    Adding one image changes only its own group's term, so the whole curve costs one running sum.

    Args:
        ranked: (..., T) the group of each image, best first; negative beyond the end of a short list.
        desired: (..., G) the shares d, above 0 for every group that was retrieved.

    Returns:
        (..., T) divergences; 0 beyond the end of a short list.

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


def _growth(count: NDArray[np.int64]) -> Floats:
    """c ln c - (c - 1) ln(c - 1), from a table: counts are small whole numbers."""
    table = np.arange(int(count.max(initial=0)) + 1, dtype=np.float64)
    table[1:] *= np.log(table[1:])
    return np.diff(table, prepend=0.0)[count]


def mean_of_curve(curve: Floats, there: NDArray[np.bool_]) -> Floats:
    """NDKL from the divergence of every prefix (..., T) and whether there is such a prefix."""
    weights, total = _weighted(there, discounts(curve.shape[-1]))
    return np.asarray((curve * weights).sum(axis=-1) / total)


def _weighted(there: NDArray[np.bool_], weights: Floats) -> tuple[Floats, Floats]:
    """(..., T) the weight of each rank where there is an image, else 0, and (...) their sum."""
    own = np.where(there, weights, 0.0)
    total = own.sum(axis=-1)
    if not (total > 0).all():
        raise InputError("ranked: a query has no ranked image; drop such queries and report them")
    return own, np.asarray(total)


def _ndkl_bounds(scope: Scope) -> tuple[float, float]:
    # the first prefixes can hold one group alone
    with np.errstate(divide="ignore"):
        return 0.0, float(np.where(scope.possible, -np.log(scope.desired), -np.inf).max(axis=1).mean())


@metric(
    "ndkl",
    takes="divergences",
    title="NDKL",
    summary="Divergence from the desired shares, averaged over the prefixes of the ranking, top first.",
    citation="Geyik, Ambler and Kenthapadi, Fairness-Aware Ranking, KDD 2019",
    formula="sum_i KL(p^i || d) / log2(i + 1) over sum_i 1 / log2(i + 1), i = 1..T",
    range="[0, ln(1/min d)]",
    bounds=_ndkl_bounds,
    direction="0 is parity in every prefix; higher: further from it",
    alternative="greater",
    chance="well above 0: prefixes of one or two images cannot be balanced; about 0.34 for 12 groups, T = 144",
    when_it_lies="without its null; depends on T; the released SocialCounterfactuals code computes something else",
    main=4,
    compute=mean_of_curve,
)
def ndkl(ranked: ArrayLike, desired: ArrayLike) -> Floats:
    """NDKL: the mean of KL(p^i || d) over the prefixes i = 1..T, weighted by 1 / log2(i + 1) (Geyik et al. 2019).

    No list of single images can reach parity in every prefix: chance alone gives a value well above 0.

    Args:
        ranked: (..., T) the group of each image, best first; its length decides T. Negative beyond the end of a shorter
            list, whose weights sum over its own prefixes.
        desired: (..., G) the shares d, above 0 for every group that was retrieved.

    Returns:
        (...) one number per list; 0 is parity in every prefix.

    >>> float(ndkl([0, 0, 0, 0, 1], [0.6, 0.4]).round(5))
    0.45581
    """
    return mean_of_curve(kl_curve(ranked, desired), np.asarray(ranked) >= 0)


def shortfalls(ranked: ArrayLike, desired: ArrayLike) -> tuple[Floats, Floats]:
    """:func:`infeasible_index` and :func:`infeasible_count` together: the same prefixes decide both."""
    labels, there, share = ranked_lists(ranked, desired)
    return shortfalls_of(lambda group: np.cumsum(labels == group, axis=-1), there, share)


def shortfalls_of(
    totals: Callable[[int], NDArray[np.int64] | Floats], there: NDArray[np.bool_], share: Floats
) -> tuple[Floats, Floats]:
    """:func:`shortfalls` from how many (..., T) of a group are in each prefix; fractions are fine."""
    size = np.arange(1, there.shape[-1] + 1)
    some = np.zeros(there.shape, dtype=bool)
    pairs = np.zeros(there.shape[:-1], dtype=np.int64)
    for group in range(share.shape[-1]):
        # 0.29 * 100 is 28.999... in floating point
        due = np.floor(share[..., group, None] * size + 1e-9)
        short = there & (totals(group) < due - 1e-9)
        some |= short
        pairs += short.sum(axis=-1)
    return some.sum(axis=-1).astype(np.float64), pairs.astype(np.float64)


def _first(first: Floats, second: Floats) -> Floats:
    """What an audit calls where the first thing that it knows of the lists is the metric itself."""
    return first


def _second(first: Floats, second: Floats) -> Floats:
    return second


def _index_bounds(scope: Scope) -> tuple[float, float]:
    return 0.0, float(scope.taken.mean())


def _count_bounds(scope: Scope) -> tuple[float, float]:
    return 0.0, float((scope.taken * (scope.possible.sum(axis=1) - 1)).mean())


@metric(
    "infeasible_index",
    takes="shortfalls",
    summary="How many prefixes deny some group its due number.",
    citation="Geyik, Ambler and Kenthapadi, Fairness-Aware Ranking, KDD 2019",
    formula="#{i <= K: some g has count_i(g) < floor(d_g i)}",
    range="0 to K",
    bounds=_index_bounds,
    better="lower",
    alternative="greater",
    chance="depends on the shares; 0 for groups with d_g K < 1",
    when_it_lies="small groups are never due anything in a short list",
    detail=True,
    compute=_first,
)
def infeasible_index(ranked: ArrayLike, desired: ArrayLike) -> Floats:
    """How many prefixes i = 1..T have some group g with count_i(g) < floor(d_g i) (Geyik et al. 2019).

    Args:
        ranked: (..., T) the group of each image, best first; negative beyond the end of a short list.
        desired: (..., G) the shares d.

    Returns:
        (...) numbers from 0 (every prefix gives every group its due) to T.

    >>> float(infeasible_index([0, 0, 0, 1], [0.5, 0.5])), float(infeasible_index([0, 1, 0, 1], [0.5, 0.5]))
    (3.0, 0.0)
    """
    return shortfalls(ranked, desired)[0]


@metric(
    "infeasible_count",
    takes="shortfalls",
    summary="How many pairs of prefix and group fall short of their due number.",
    citation="Geyik, Ambler and Kenthapadi, Fairness-Aware Ranking, KDD 2019",
    formula="#{(i, g): count_i(g) < floor(d_g i), i <= K}",
    range="0 to K (G - 1)",
    bounds=_count_bounds,
    better="lower",
    alternative="greater",
    chance="as the infeasible index",
    when_it_lies="small groups are never due anything in a short list",
    detail=True,
    compute=_second,
)
def infeasible_count(ranked: ArrayLike, desired: ArrayLike) -> Floats:
    """How many (prefix, group) pairs fall short: count_i(g) < floor(d_g i), i = 1..T (Geyik et al. 2019).

    Args:
        ranked: (..., T) the group of each image, best first; negative beyond the end of a short list.
        desired: (..., G) the shares d.

    Returns:
        (...) the number of such pairs in each list.

    >>> float(infeasible_count([0, 0, 0, 1], [0.5, 0.5]))
    3.0
    """
    return shortfalls(ranked, desired)[1]


def attention(length: int, kind: str = "log") -> Floats:
    """The attention that each rank gets.

    Args:
        length: how many ranks there are.
        kind: ``"log"``: 1 / log2(1 + i) (Singh & Joachims 2018). ``"geometric:p"``: p (1 - p)^(i - 1), a reader who
            stops after each image with probability p (Sapiezynski et al. 2019). ``"uniform"``: 1; exposure is
            representation.

    Returns:
        (length,) the attention of rank i = 1, 2, ...; it need not sum to 1.

    >>> attention(3, "geometric:0.5").tolist()
    [0.5, 0.25, 0.125]
    """
    if kind == "log":
        return discounts(length)
    if kind == "uniform":
        return np.ones(length)
    name, _, amount = kind.partition(":")
    if name != "geometric":
        raise UnknownNameError("attention", kind, ("log", "uniform", "geometric:0.1"))
    try:
        stop = float(amount)
    except ValueError:
        stop = -1.0
    if not 0 < stop < 1:
        raise InputError(f"attention = {kind!r}: the chance to stop is between 0 and 1, such as 'geometric:0.1'")
    return np.asarray(stop * (1 - stop) ** np.arange(length))


@metric(
    "exposure",
    takes="exposures",
    summary="The share of a reader's attention that goes to each group.",
    citation="Singh and Joachims, Fairness of Exposure in Rankings, KDD 2018",
    formula="sum of v_i over the ranks of g / sum of all v_i, v_i = 1 / log2(1 + i)",
    range="[0, 1], sums to 1",
    bounds=(0.0, 1.0),
    direction="compare with the share of the pool",
    chance="the group's share of the pool, exactly",
    when_it_lies="attention is assumed, not measured: try geometric:p too",
    per_group=True,
    detail=True,
    unit="share",
    compute=_first,
)
def exposure(ranked: ArrayLike, n_groups: int, *, kind: str = "log") -> Floats:
    """The share of all attention in a ranked list that goes to each group.

    exposure_g = sum_{i: group(i) = g} v_i / sum_i v_i, with v the :func:`attention`. Divided by the group's share of
    the pool it is, up to a constant, the mean exposure of a member (Singh & Joachims 2018, section 4).

    Args:
        ranked: (..., T) the group of each image, best first; negative beyond the end of a short list.
        n_groups: G, how many groups there are.
        kind: how attention falls with rank, as in :func:`attention`.

    Returns:
        (..., G) shares, which sum to 1.

    >>> exposure([0, 1, 1], 2).round(3).tolist()
    [0.469, 0.531]
    """
    labels, there, _ = ranked_lists(ranked, np.ones(n_groups))
    weights, total = _weighted(there, attention(labels.shape[-1], kind))
    lists, flat = labels.reshape(-1, labels.shape[-1]), weights.reshape(-1, labels.shape[-1])
    place = np.where(lists >= 0, lists, 0) + np.arange(len(lists))[:, None] * n_groups
    sums = np.bincount(place.ravel(), flat.ravel(), minlength=len(lists) * n_groups)
    return np.asarray(sums.reshape(*labels.shape[:-1], n_groups) / total[..., None])


def gap_of(seen: Floats, share: Floats) -> Floats:
    """:func:`exposure_gap` of exposures (..., G) that are known already."""
    return np.asarray(np.abs(seen - share).sum(axis=-1) / 2)


def _exposure_gap_bounds(scope: Scope) -> tuple[float, float]:
    return 0.0, float((1 - np.where(scope.possible, scope.desired, np.inf).min(axis=1)).mean())


@metric(
    "exposure_gap",
    takes="exposures",
    summary="The share of attention that would have to move to reach the desired shares.",
    citation="Sapiezynski et al., Quantifying the Impact of User Attention, WWW 2019",
    formula="1/2 sum_g |exposure_g - d_g|",
    range="[0, 1 - min d]",
    bounds=_exposure_gap_bounds,
    direction="0 is parity",
    alternative="greater",
    chance="above 0, more for small K and many groups",
    when_it_lies="without its null; assumes an attention curve",
    unit="share",
    compute=gap_of,
)
def exposure_gap(ranked: ArrayLike, desired: ArrayLike, *, kind: str = "log") -> Floats:
    """Half the sum over groups of |exposure_g - d_g|: the share of attention that would have to move to reach d.

    Attention-weighted rank fairness (Sapiezynski et al. 2019) with the total-variation distance.

    Args:
        ranked: (..., T) the group of each image, best first; negative beyond the end of a short list.
        desired: (..., G) the shares d.
        kind: how attention falls with rank, as in :func:`attention`.

    Returns:
        (...) one number per list; 0 is parity, 1 - min d the most.

    >>> float(exposure_gap([0, 0, 1, 1], [0.5, 0.5]).round(4))
    0.1367
    """
    share = np.asarray(desired, dtype=np.float64)
    return gap_of(exposure(ranked, share.shape[-1], kind=kind), share)


def ratio_of(seen: Floats, share: Floats) -> Floats:
    """:func:`exposure_ratio` of exposures (..., G) that are known already."""
    share = np.broadcast_to(share, seen.shape)
    each = seen / np.where(share > 0, share, 1.0)
    least = np.where(share > 0, each, np.inf).min(axis=-1)
    most = np.where(share > 0, each, -np.inf).max(axis=-1)
    if not (most > 0).all():
        raise InputError("desired gives every retrieved group the share 0; give shares for the groups in the pool")
    return np.asarray(least / most)


@metric(
    "exposure_ratio",
    takes="exposures",
    summary="A member's mean exposure in the worst placed group over the best placed one.",
    citation="Singh and Joachims, Fairness of Exposure in Rankings, KDD 2018",
    formula="min_g (exposure_g / d_g) / max_g (exposure_g / d_g)",
    bounds=(0.0, 1.0),
    direction="1 is parity; lower is worse",
    alternative="less",
    chance="0 as soon as a group is absent, so 0 for K below a few times G",
    when_it_lies="it is 0 in nearly every short list; use it with K well above the number of groups",
    detail=True,
    unit="ratio",
    compute=ratio_of,
)
def exposure_ratio(ranked: ArrayLike, desired: ArrayLike, *, kind: str = "log") -> Floats:
    """The least over the greatest exposure_g / d_g: a member's mean exposure, worst placed against best placed group.

    The demographic-parity form of Singh & Joachims (2018).

    Args:
        ranked: (..., T) the group of each image, best first; negative beyond the end of a short list.
        desired: (..., G) the shares d. Groups with a desired share of 0 take no part.
        kind: how attention falls with rank, as in :func:`attention`.

    Returns:
        (...) one number per list; 1 is parity, 0 means that a group is not seen at all.

    >>> float(exposure_ratio([0, 1], [0.5, 0.5]).round(4))
    0.6309
    """
    share = np.asarray(desired, dtype=np.float64)
    return ratio_of(exposure(ranked, share.shape[-1], kind=kind), share)
