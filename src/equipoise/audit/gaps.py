"""The signed difference of two groups' shares, with its chance level."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.audit.config import AuditConfig
from equipoise.errors import InputError
from equipoise.measure.group_means import share_difference_interval
from equipoise.measure.retrieval import LabelShuffler
from equipoise.measure.stats import Estimate, p_values

__all__ = ["signed_gap"]

Floats = NDArray[np.float64]


def signed_gap(
    values: ArrayLike, first: ArrayLike, config: AuditConfig, *, blocks: ArrayLike, notes: tuple[str, ...] = ()
) -> Estimate:
    """Mean of ``values`` (n,), in [0, 1], where ``first`` (n,) is true, minus the mean where it is not.

    Chance: which values are of the first group is shuffled inside each of ``blocks`` (n,) (an occupation, a scene), so
    that a group with harder blocks is not blamed for them. The interval is a t interval over blocks
    (:func:`equipoise.measure.group_means.share_difference_interval`).

    >>> values, first = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0], [True, True, False, True, True, False]
    >>> signed_gap(values, first, AuditConfig(draws=99), blocks=[0, 0, 0, 1, 1, 1]).value
    1.0
    """
    numbers, side = np.asarray(values, dtype=np.float64), np.asarray(first, dtype=bool)
    if not side.any() or side.all():
        raise InputError("a gap needs values of both groups")
    if numbers.min() < 0 or numbers.max() > 1:
        raise InputError("values: a share is between 0 and 1")
    rng = np.random.default_rng(config.seed)
    shuffled = LabelShuffler(side.astype(np.int32), blocks)(config.draws, rng)
    null = _difference(_sums(numbers, shuffled))
    observed = float(_difference(_sums(numbers, side[None, :]))[0])
    p = p_values(observed, null, alternative="two-sided", rng=rng)
    low, high, why = share_difference_interval(numbers, side, blocks, level=config.level)
    return Estimate(
        observed,
        low,
        high,
        null_mean=float(null.mean()),
        null_sd=float(null.std()),
        p_value=p.value,
        p_randomised=p.randomised,
        n=len(numbers),
        n_groups=2,
        notes=(*notes, *why),
        level=config.level,
    )


def _sums(values: Floats, side: NDArray[np.integer] | NDArray[np.bool_]) -> Floats:
    """(r, 4) sum and number of the first group's values, sum and number of the others'."""
    there = np.asarray(side, dtype=np.float64)
    sums, counts = there @ values, there.sum(axis=1)
    return np.stack([sums, counts, values.sum() - sums, there.shape[1] - counts], axis=1)


def _difference(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3])
