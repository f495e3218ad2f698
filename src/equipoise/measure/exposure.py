"""Exposure: how much of a reader's attention each group gets, when attention falls with rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.prefixes import discounts, ranked_lists

__all__ = ["attention", "exposure", "exposure_gap", "exposure_ratio"]

FloatArray = NDArray[np.float64]


def attention(length: int, kind: str = "log") -> FloatArray:
    """The attention (length,) that each rank gets.

    ``"log"``: 1 / log2(1 + i) (Singh & Joachims 2018). ``"geometric:p"``: p (1 - p)^(i - 1), a reader who stops
    after each image with probability p (Sapiezynski et al. 2019). ``"uniform"``: 1; exposure is representation.

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


def exposure(ranked: ArrayLike, n_groups: int, *, kind: str = "log") -> FloatArray:
    """The share (..., G) of all attention that goes to each group over the ranked lists (..., T).

    exposure_g = sum_{i: group(i) = g} v_i / sum_i v_i, with v the :func:`attention`. Divided by the group's share of
    the pool it is, up to a constant, the mean exposure of a member (Singh & Joachims 2018, section 4).

    >>> exposure([0, 1, 1], 2).round(3).tolist()
    [0.469, 0.531]
    """
    labels, there, _ = ranked_lists(ranked, np.ones(n_groups))
    weights = np.where(there, attention(labels.shape[-1], kind), 0.0)
    total = weights.sum(axis=-1)
    if not (total > 0).all():
        raise InputError("ranked: a query has no ranked image; drop such queries and report them")
    lists, flat = labels.reshape(-1, labels.shape[-1]), weights.reshape(-1, labels.shape[-1])
    place = np.where(lists >= 0, lists, 0) + np.arange(len(lists))[:, None] * n_groups
    sums = np.bincount(place.ravel(), flat.ravel(), minlength=len(lists) * n_groups)
    return np.asarray(sums.reshape(*labels.shape[:-1], n_groups) / total[..., None])


def exposure_gap(ranked: ArrayLike, desired: ArrayLike, *, kind: str = "log") -> FloatArray:
    """Half the sum over groups of |exposure_g - d_g|: the share of attention that would have to move to reach d.

    Attention-weighted rank fairness (Sapiezynski et al. 2019) with the total-variation distance; 0 is parity,
    1 - min d the most.

    >>> float(exposure_gap([0, 0, 1, 1], [0.5, 0.5]).round(4))
    0.1367
    """
    share = np.asarray(desired, dtype=np.float64)
    return gap_of(exposure(ranked, share.shape[-1], kind=kind), share)


def gap_of(seen: FloatArray, share: FloatArray) -> FloatArray:
    """:func:`exposure_gap` of exposures (..., G) that are known already."""
    return np.asarray(np.abs(seen - share).sum(axis=-1) / 2)


def exposure_ratio(ranked: ArrayLike, desired: ArrayLike, *, kind: str = "log") -> FloatArray:
    """The least over the greatest exposure_g / d_g: a member's mean exposure, worst placed against best placed group.

    The demographic-parity form of Singh & Joachims (2018); 1 is parity, 0 means that a group is not seen at all.
    Groups with a desired share of 0 take no part.

    >>> float(exposure_ratio([0, 1], [0.5, 0.5]).round(4))
    0.6309
    """
    share = np.asarray(desired, dtype=np.float64)
    return ratio_of(exposure(ranked, share.shape[-1], kind=kind), share)


def ratio_of(seen: FloatArray, share: FloatArray) -> FloatArray:
    """:func:`exposure_ratio` of exposures (..., G) that are known already."""
    share = np.broadcast_to(share, seen.shape)
    each = seen / np.where(share > 0, share, 1.0)
    least = np.where(share > 0, each, np.inf).min(axis=-1)
    most = np.where(share > 0, each, -np.inf).max(axis=-1)
    if not (most > 0).all():
        raise InputError("desired gives every retrieved group the share 0; give shares for the groups in the pool")
    return np.asarray(least / most)
