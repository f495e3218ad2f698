"""Metrics of the group counts in the top K: skew, representation, Bias@K.

All take ``counts`` (..., G), how many of each group are among the top K (fractions are fine), so that a null drawn
as counts is measured by the same code. ``desired`` (..., G) are shares that sum to 1; see :func:`desired_shares`.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.metric import Scope, metric

ZERO_RULES = ("skip", "one_over_k", "zero", "laplace:0.5")


def zero_rule(zero: str) -> tuple[Literal["skip", "one_over_k", "zero", "laplace"], float]:
    """What to do with a group that is absent from the top K, and the pseudo-count it may need.

    >>> zero_rule("laplace:0.5")
    ('laplace', 0.5)
    """
    if zero in ("skip", "one_over_k", "zero"):
        return zero, 0.0  # type: ignore[return-value]
    name, _, amount = zero.partition(":")
    if name == "laplace":
        try:
            eps = float(amount)
        except ValueError:
            eps = -1.0
        if not 0 < eps < np.inf:
            raise InputError(f"zero = {zero!r}: the pseudo-count must be a positive number, such as 'laplace:0.5'")
        return "laplace", eps
    raise UnknownNameError("rule for a group that is absent", zero, ZERO_RULES)


def desired_shares(desired: str | ArrayLike, pool_counts: ArrayLike) -> Floats:
    """The shares that a ranking is compared with.

    Args:
        desired: ``"pool"``, the share of each group in the pool; ``"uniform"``, 1 / G; or the shares themselves, (G,)
            or (..., G), which must sum to 1.
        pool_counts: (..., G) the images of each group in the pool that was ranked.

    Returns:
        (..., G) shares; with ``"pool"`` those of an empty pool are 0.

    >>> desired_shares("pool", [6, 4]).tolist(), desired_shares("uniform", [6, 4]).tolist()
    ([0.6, 0.4], [0.5, 0.5])
    """
    pool = np.asarray(pool_counts, dtype=np.float64)
    if isinstance(desired, str):
        if desired == "uniform":
            return np.full(pool.shape, 1.0 / pool.shape[-1])
        if desired != "pool":
            raise UnknownNameError("desired distribution", desired, ("pool", "uniform"))
        total = pool.sum(axis=-1, keepdims=True)
        # an empty pool has no shares; its queries are dropped and counted before anything is averaged
        return np.asarray(pool / np.where(total > 0, total, 1.0))
    shares = np.asarray(desired, dtype=np.float64)
    if shares.ndim == 0 or shares.shape[-1] != pool.shape[-1]:
        raise InputError(f"desired has shape {shares.shape} for {pool.shape[-1]} groups; give one share per group")
    if not np.isfinite(shares).all() or (shares < 0).any() or (np.abs(shares.sum(axis=-1) - 1) > 1e-6).any():
        raise InputError(f"desired = {shares.tolist()}: shares are not negative and sum to 1")
    try:
        return np.asarray(np.broadcast_to(shares, pool.shape))
    except ValueError:
        both = f"desired has shape {shares.shape} and pool_counts {pool.shape}"
        raise InputError(f"{both}; give one row of shares, or one for every pool") from None


def _checked(counts: ArrayLike, desired: ArrayLike, k: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
    number = np.asarray(counts, dtype=np.float64)
    share = np.asarray(desired, dtype=np.float64)
    if number.ndim == 0 or share.ndim == 0 or number.shape[-1] != share.shape[-1]:
        raise InputError(f"counts has shape {number.shape} and desired {share.shape}; both need one entry per group")
    slots = number.sum(axis=-1) if k is None else np.asarray(k, dtype=np.float64)
    if not (slots > 0).all():
        raise InputError("counts: a query has no ranked image (k = 0); drop such queries and report them")
    lost = (share <= 0) & (number > 0)
    if lost.any():
        group = int(np.argwhere(lost)[0][-1])
        raise InputError(f"desired gives group {group} the share 0 but it was retrieved; its skew is infinite")
    return number, share, np.asarray(slots)[..., None]


def _max_skew_bounds(scope: Scope) -> tuple[float, float]:
    if scope.zero_max != "skip":
        return 0.0, math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(scope.possible, np.log(scope.most / scope.desired), -np.inf)
    return 0.0, float(each.max(axis=1).mean())


def _min_skew_bounds(scope: Scope) -> tuple[float, float]:
    rule, pseudo = zero_rule(scope.zero_min)
    taken = scope.taken[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        if rule == "laplace":
            groups = scope.possible.sum(axis=1, keepdims=True)
            least = np.log(pseudo / (taken + pseudo * groups) / scope.desired)
        elif rule in ("skip", "one_over_k"):
            least = np.log(1 / taken / scope.desired)
        else:
            return -math.inf, 0.0
    return float(np.minimum(np.where(scope.possible, least, np.inf).min(axis=1), 0.0).mean()), 0.0


def _absent_bounds(scope: Scope) -> tuple[float, float]:
    return 0.0, float((scope.possible.sum(axis=1) - 1).mean())


def _share_bounds(scope: Scope) -> tuple[float, float]:
    if scope.group is None or scope.divides_by_asked_k:
        return 0.0, 1.0
    return 0.0, float(scope.most[:, scope.group].mean())


def _shares(counts: ArrayLike, desired: ArrayLike, *, k: ArrayLike) -> Floats:
    """:func:`representation` as an audit calls it: the shares that are desired do not matter."""
    return representation(counts, k=k)


@metric(
    "skew",
    takes="counts",
    summary="Log ratio of a group's share of the top K to its desired share.",
    citation="Geyik, Ambler and Kenthapadi, Fairness-Aware Ranking, KDD 2019",
    formula="ln(p_g / d_g), p_g = count of g in the top K / K",
    range="(-inf, ln(1/d_g)]",
    direction="0 is parity; above: over-represented; below: under-represented",
    chance="below 0 on average, because the log punishes a lack more than it rewards a surplus",
    when_it_lies="minus infinity for an absent group; at K near the number of groups one image moves it by ln 2",
    per_group=True,
    detail=True,
    from_mean_of="representation",
    given={"k": "slots", "zero": "zero_max"},
)
def skew(counts: ArrayLike, desired: ArrayLike, *, k: ArrayLike | None = None, zero: str = "skip") -> Floats:
    """Skew@K of each group: ln(p_g / d_g), p_g = counts_g / K (Geyik et al. 2019, Definition 1; natural log).

    Args:
        counts: (..., G) how many of each group are among the top K.
        desired: (..., G) the shares d; see :func:`desired_shares`.
        k: (...) the number of slots, the sum of the counts without it.
        zero: what a group absent from the top K gets: ``skip`` -inf, the plain value; ``one_over_k`` p_g := 1/K;
            ``zero`` skew := 0; ``laplace:eps`` p_g := (counts_g + eps) / (K + eps G), applied to all groups, of which G
            have a desired share above 0.

    Returns:
        (..., G) skews; NaN for a group that is not in the pool (desired share 0), neither over- nor under-represented.

    >>> skew([4, 1], [0.6, 0.4]).round(5).tolist()
    [0.28768, -0.69315]
    """
    number, share, slots = _checked(counts, desired, k)
    rule, eps = zero_rule(zero)
    if rule == "laplace":
        p = (number + eps) / (slots + eps * (share > 0).sum(axis=-1, keepdims=True))
    elif rule == "one_over_k":
        p = np.where(number > 0, number, 1.0) / slots
    else:
        p = number / slots
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(p / share)
    if rule == "zero":
        value = np.where(number > 0, value, 0.0)
    return np.where(share > 0, value, np.nan)


@metric(
    "max_skew",
    takes="counts",
    title="MaxSkew",
    summary="The largest Skew@K over the groups.",
    citation="Geyik, Ambler and Kenthapadi, Fairness-Aware Ranking, KDD 2019",
    formula="max_g ln(p_g / d_g)",
    range="[0, ln(1/min d)] for d = pool or any d that sums to 1",
    bounds=_max_skew_bounds,
    direction="0 is parity; higher: some group is over-represented",
    alternative="greater",
    chance="large: about 1.0 for 12 equal groups and K = 12; exact law in max_skew_law",
    when_it_lies="without its null; it saturates at ln(1/d); a pool of one complete set gives 0 by construction",
    main=1,
    given={"k": "slots", "zero": "zero_max"},
)
def max_skew(counts: ArrayLike, desired: ArrayLike, *, k: ArrayLike | None = None, zero: str = "skip") -> Floats:
    """MaxSkew@K: the largest Skew@K over the groups (Geyik et al. 2019).

    Args:
        counts: (..., G) how many of each group are among the top K.
        desired: (..., G) the shares that would be fair; see :func:`desired_shares`.
        k: (...) the number of slots, the sum of the counts without it.
        zero: what an absent group gets, as in :func:`skew`. It cannot be the largest, so ``skip`` is right here;
            ``one_over_k`` (Berg et al. 2022 code) can inflate the maximum.

    Returns:
        (...) one number per list; 0 is parity, ln(1 / min d) the most.

    >>> float(max_skew([5, 0], [0.9, 0.1]).round(5)), float(max_skew([5, 0], [0.9, 0.1], zero="one_over_k").round(5))
    (0.10536, 0.69315)
    """
    value = skew(counts, desired, k=k, zero=zero)
    return np.asarray(np.where(np.isnan(value), -np.inf, value).max(axis=-1))


@metric(
    "min_skew",
    takes="counts",
    title="MinSkew",
    summary="The smallest Skew@K over the groups, smoothed by half a count.",
    citation="Geyik, Ambler and Kenthapadi, Fairness-Aware Ranking, KDD 2019",
    formula="min_g ln(((count_g + 0.5) / (K + 0.5 G)) / d_g)",
    range="(-inf, 0]",
    bounds=_min_skew_bounds,
    direction="0 is parity; lower: some group is missing",
    alternative="less",
    chance="nearly constant at K near the number of groups, since chance alone leaves a group out",
    when_it_lies="read absent_groups beside it; without smoothing it is minus infinity once a group is absent",
    given={"k": "slots", "zero": "zero_min"},
)
def min_skew(counts: ArrayLike, desired: ArrayLike, *, k: ArrayLike | None = None, zero: str = "laplace:0.5") -> Floats:
    """MinSkew@K: the smallest Skew@K over the groups (Geyik et al. 2019).

    Args:
        counts: (..., G) how many of each group are among the top K.
        desired: (..., G) the shares that would be fair; see :func:`desired_shares`.
        k: (...) the number of slots, the sum of the counts without it.
        zero: what an absent group gets, as in :func:`skew`. The plain value is minus infinity as soon as one group is
            absent, which chance alone brings about when K is near the number of groups; hence ``laplace:0.5``, with
            :func:`absent_groups` beside it. ``skip`` takes the minimum over the groups that are there and is blind to
            those that are not.

    Returns:
        (...) one number per list; 0 is parity, below is a missing group.

    >>> float(min_skew([4, 1], [0.6, 0.4], zero="skip").round(5)), float(min_skew([5, 0], [0.6, 0.4]).round(5))
    (-0.69315, -1.56862)
    """
    value = skew(counts, desired, k=k, zero=zero)
    return np.asarray(np.where(np.isfinite(value), value, np.inf).min(axis=-1))


@metric(
    "absent_groups",
    takes="counts",
    summary="How many groups of the pool have nobody among the top K.",
    citation="Equipoise",
    formula="#{g: d_g > 0, count_g = 0}",
    range="0 to G - 1",
    bounds=_absent_bounds,
    direction="lower is better",
    alternative="greater",
    chance="G (1 - 1/G)^K or so: 4.2 of 12 at K = 12 in a large pool",
    when_it_lies="when K is below the number of groups some must be absent",
)
def absent_groups(counts: ArrayLike, desired: ArrayLike) -> Floats:
    """How many groups with a desired share above 0 have nobody among the top K.

    Args:
        counts: (..., G) how many of each group are among the top K.
        desired: (..., G) the shares that would be fair; see :func:`desired_shares`.

    Returns:
        (...) the number of such groups in each list.

    >>> float(absent_groups([4, 0, 0], [0.5, 0.5, 0.0]))
    1.0
    """
    number, share, _ = _checked(counts, desired, np.ones(np.shape(counts)[:-1]))
    return np.asarray(((number == 0) & (share > 0)).sum(axis=-1), dtype=np.float64)


@metric(
    "representation",
    takes="counts",
    title="share of the top K",
    summary="The share of each group among the top K.",
    citation="Equipoise",
    formula="count_g / K",
    range="[0, 1], sums to 1",
    bounds=_share_bounds,
    direction="compare with the share of the pool",
    chance="the group's share of the pool, exactly",
    when_it_lies="a mean over subjects hides opposite stereotypes",
    per_group=True,
    detail=True,
    unit="share",
    given={"k": "slots"},
    compute=_shares,
)
def representation(counts: ArrayLike, *, k: ArrayLike | None = None) -> Floats:
    """The share of each group among the top K: counts_g / K.

    Args:
        counts: (..., G) how many of each group are among the top K.
        k: (...) the number of slots, the sum of the counts without it.

    Returns:
        (..., G) shares.

    >>> representation([3, 1]).tolist()
    [0.75, 0.25]
    """
    number, _, slots = _checked(counts, np.ones(np.shape(counts)), k)
    return np.asarray(number / slots)


@metric(
    "bias_at_k",
    takes="pair",
    title="Bias",
    summary="Signed difference of two groups among the top K; undefined images keep their slots.",
    citation="Wang, Liu and Wang, Are Gender-Neutral Queries Really Gender-Neutral?, EMNLP 2021",
    formula="(n_a - n_b) / (n_a + n_b), 0 when both are 0",
    bounds=(-1.0, 1.0),
    direction="0 is parity; above: the first group is found more",
    chance="the imbalance of the labelled pool, 0 where the top K holds neither group; undefined slots stay",
    when_it_lies="opposite signs cancel over queries; an unbalanced pool alone gives a value far from 0",
)
def bias_at_k(counts: ArrayLike, first: int, second: int) -> Floats:
    """Bias@K of a pair of groups: (n_a - n_b) / (n_a + n_b), 0 when neither is there (Wang et al. 2021, section 3).

    Args:
        counts: (..., G) how many of each group are among the top K. Undefined images keep their slots there and count
            for neither.
        first: the number of group a, which counts as positive.
        second: the number of group b.

    Returns:
        (...) values from -1 to 1, which cancel over queries; those of :func:`abs_bias_at_k` do not.

    >>> float(bias_at_k([4, 1], 0, 1)), float(bias_at_k([0, 0], 0, 1))
    (0.6, 0.0)
    """
    number = _pair(counts, first, second)
    a, b = number[..., first], number[..., second]
    return np.asarray((a - b) / np.where(a + b > 0, a + b, 1.0))


@metric(
    "abs_bias_at_k",
    takes="pair",
    title="absolute Bias",
    summary="Mean size of Bias@K, whichever way it points.",
    citation="Equipoise",
    formula="|n_a - n_b| / (n_a + n_b)",
    bounds=(0.0, 1.0),
    direction="0 is parity in every query",
    alternative="greater",
    chance="well above 0 where few of the top K have a group",
    when_it_lies="without its null",
    main=5,
)
def abs_bias_at_k(counts: ArrayLike, first: int, second: int) -> Floats:
    """|Bias@K|: how far a query leans to one of the two groups, whichever.

    Args:
        counts: (..., G) how many of each group are among the top K.
        first: the number of one group.
        second: the number of the other.

    Returns:
        (...) values from 0 to 1, whose mean does not cancel over queries.

    >>> float(abs_bias_at_k([1, 4], 0, 1))
    0.6
    """
    return np.abs(bias_at_k(counts, first, second))


@metric(
    "bias_count_at_k",
    takes="pair",
    summary="Mean of +1, 0 and -1 over the top K.",
    citation="Hall et al., VisoGender, NeurIPS 2023",
    formula="(n_a - n_b) / K",
    bounds=(-1.0, 1.0),
    direction="0 is parity",
    chance="the difference of the two groups' shares of the labelled pool, times the share of the top K with a group",
    when_it_lies="undefined images pull it to 0; signs cancel over queries",
    given={"k": "taken"},
)
def bias_count_at_k(counts: ArrayLike, k: ArrayLike, first: int, second: int) -> Floats:
    """(n_a - n_b) / K: the mean over the top K of +1, 0 and -1 (VisoGender's count form; Hall et al. 2023).

    Args:
        counts: (..., G) how many of each group are among the top K.
        k: (...) how many images the top K has, those without a group included.
        first: the number of group a, which counts as +1.
        second: the number of group b, which counts as -1.

    Returns:
        (...) values from -1 to 1.

    >>> float(bias_count_at_k([3, 1], 5, 0, 1))
    0.4
    """
    number = _pair(counts, first, second)
    slots = np.asarray(k, dtype=np.float64)
    if not (slots > 0).all():
        raise InputError("k: a query has no ranked image (k = 0); drop such queries and report them")
    return np.asarray((number[..., first] - number[..., second]) / slots)


def _pair(counts: ArrayLike, first: int, second: int) -> Floats:
    number = np.asarray(counts, dtype=np.float64)
    groups = number.shape[-1] if number.ndim else 0
    if first == second or not (0 <= first < groups and 0 <= second < groups):
        raise InputError(f"groups {first} and {second}: name two different groups of the {groups} there are")
    return number
