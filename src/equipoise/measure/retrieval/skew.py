"""Metrics of the group counts in the top K: skew, representation, Bias@K.

All take ``counts`` (..., G), how many of each group are among the top K (fractions are fine), so that a null drawn
as counts is measured by the same code. ``desired`` (..., G) are shares that sum to 1; see :func:`desired_shares`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, UnknownNameError

__all__ = [
    "abs_bias_at_k",
    "absent_groups",
    "bias_at_k",
    "bias_count_at_k",
    "desired_shares",
    "max_skew",
    "min_skew",
    "representation",
    "skew",
    "zero_rule",
]

FloatArray = NDArray[np.float64]
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


def desired_shares(desired: str | ArrayLike, pool_counts: ArrayLike) -> FloatArray:
    """The shares (..., G) that a ranking is compared with.

    ``"pool"``: the share of each group in the pool ``pool_counts`` (..., G) that was ranked. ``"uniform"``: 1 / G.
    Or the shares themselves, (G,) or (..., G); they must sum to 1.

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
    return np.asarray(np.broadcast_to(shares, pool.shape))


def _checked(counts: ArrayLike, desired: ArrayLike, k: ArrayLike | None) -> tuple[FloatArray, FloatArray, FloatArray]:
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


def skew(counts: ArrayLike, desired: ArrayLike, *, k: ArrayLike | None = None, zero: str = "skip") -> FloatArray:
    """Skew@K of each group: ln(p_g / d_g), p_g = counts_g / K (Geyik et al. 2019, Definition 1; natural log).

    ``k`` is the number of slots, the sum of the counts without it. A group that is absent from the top K gets, by
    ``zero``: ``skip`` -inf, the plain value; ``one_over_k`` p_g := 1/K; ``zero`` skew := 0; ``laplace:eps`` p_g :=
    (counts_g + eps) / (K + eps G), applied to all groups. A group whose desired share is 0 (it is not in the pool)
    is NaN: it cannot be over- or under-represented.

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


def max_skew(counts: ArrayLike, desired: ArrayLike, *, k: ArrayLike | None = None, zero: str = "skip") -> FloatArray:
    """MaxSkew@K: the largest Skew@K over the groups (Geyik et al. 2019); 0 is parity, ln(1 / min d) the most.

    An absent group cannot be the largest, so ``skip`` is right here; ``one_over_k`` (Berg et al. 2022 code) can
    inflate it.

    >>> float(max_skew([5, 0], [0.9, 0.1]).round(5)), float(max_skew([5, 0], [0.9, 0.1], zero="one_over_k").round(5))
    (0.10536, 0.69315)
    """
    value = skew(counts, desired, k=k, zero=zero)
    return np.asarray(np.where(np.isnan(value), -np.inf, value).max(axis=-1))


def min_skew(
    counts: ArrayLike, desired: ArrayLike, *, k: ArrayLike | None = None, zero: str = "laplace:0.5"
) -> FloatArray:
    """MinSkew@K: the smallest Skew@K over the groups (Geyik et al. 2019); 0 is parity, below is a missing group.

    Minus infinity as soon as one group is absent, which chance alone brings about when K is near the number of
    groups; hence ``laplace:0.5`` by default, with :func:`absent_groups` beside it. ``skip`` takes the minimum over
    the groups that are there and is blind to those that are not.

    >>> float(min_skew([4, 1], [0.6, 0.4], zero="skip").round(5)), float(min_skew([5, 0], [0.6, 0.4]).round(5))
    (-0.69315, -1.56862)
    """
    value = skew(counts, desired, k=k, zero=zero)
    return np.asarray(np.where(np.isfinite(value), value, np.inf).min(axis=-1))


def absent_groups(counts: ArrayLike, desired: ArrayLike) -> FloatArray:
    """How many groups with a desired share above 0 have nobody among the top K.

    >>> float(absent_groups([4, 0, 0], [0.5, 0.5, 0.0]))
    1.0
    """
    number, share, _ = _checked(counts, desired, np.ones(np.shape(counts)[:-1]))
    return np.asarray(((number == 0) & (share > 0)).sum(axis=-1), dtype=np.float64)


def representation(counts: ArrayLike, *, k: ArrayLike | None = None) -> FloatArray:
    """The share of each group among the top K: counts_g / K.

    >>> representation([3, 1]).tolist()
    [0.75, 0.25]
    """
    number, _, slots = _checked(counts, np.ones(np.shape(counts)), k)
    return np.asarray(number / slots)


def bias_at_k(counts: ArrayLike, first: int, second: int) -> FloatArray:
    """Bias@K of a pair of groups: (n_a - n_b) / (n_a + n_b), 0 when neither is there (Wang et al. 2021, section 3).

    Undefined images keep their slots among the top K and count for neither. Signed values cancel over queries;
    :func:`abs_bias_at_k` does not.

    >>> float(bias_at_k([4, 1], 0, 1)), float(bias_at_k([0, 0], 0, 1))
    (0.6, 0.0)
    """
    number = _pair(counts, first, second)
    a, b = number[..., first], number[..., second]
    return np.asarray((a - b) / np.where(a + b > 0, a + b, 1.0))


def abs_bias_at_k(counts: ArrayLike, first: int, second: int) -> FloatArray:
    """|Bias@K|: how far a query leans to one of the two groups, whichever. Its mean does not cancel over queries.

    >>> float(abs_bias_at_k([1, 4], 0, 1))
    0.6
    """
    return np.abs(bias_at_k(counts, first, second))


def bias_count_at_k(counts: ArrayLike, k: ArrayLike, first: int, second: int) -> FloatArray:
    """(n_a - n_b) / K: the mean over the top K of +1, 0 and -1 (VisoGender's count form; Hall et al. 2023).

    >>> float(bias_count_at_k([3, 1], 5, 0, 1))
    0.4
    """
    number = _pair(counts, first, second)
    slots = np.asarray(k, dtype=np.float64)
    if not (slots > 0).all():
        raise InputError("k: a query has no ranked image (k = 0); drop such queries and report them")
    return np.asarray((number[..., first] - number[..., second]) / slots)


def _pair(counts: ArrayLike, first: int, second: int) -> FloatArray:
    number = np.asarray(counts, dtype=np.float64)
    groups = number.shape[-1] if number.ndim else 0
    if first == second or not (0 <= first < groups and 0 <= second < groups):
        raise InputError(f"groups {first} and {second}: name two different groups of the {groups} there are")
    return number
