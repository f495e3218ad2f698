"""The signed difference of two groups' means, with its chance level."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.audit.config import AuditConfig
from equipoise.errors import InputError
from equipoise.measure.retrieval import LabelShuffler
from equipoise.measure.stats import Estimate, bootstrap_statistic, p_values

__all__ = ["signed_gap"]

Floats = NDArray[np.float64]


def signed_gap(
    values: ArrayLike, first: ArrayLike, config: AuditConfig, *, blocks: ArrayLike, notes: tuple[str, ...] = ()
) -> Estimate:
    """Mean of ``values`` (n,) where ``first`` (n,) is true, minus the mean where it is not.

    Chance: which values are of the first group is shuffled inside each of ``blocks`` (n,) (an occupation, a scene), so
    that a group with harder blocks is not blamed for them. The interval draws whole blocks.

    >>> values, first = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0], [True, True, False, True, True, False]
    >>> signed_gap(values, first, AuditConfig(draws=99), blocks=[0, 0, 0, 1, 1, 1]).value
    1.0
    """
    numbers, side = np.asarray(values, dtype=np.float64), np.asarray(first, dtype=bool)
    if not side.any() or side.all():
        raise InputError("a gap needs values of both groups")
    rng = np.random.default_rng(config.seed)
    shuffled = LabelShuffler(side.astype(np.int32), blocks)(config.draws, rng)
    null = _difference(_sums(numbers, shuffled))
    observed = float(_difference(_sums(numbers, side[None, :]))[0])
    p = p_values(observed, null, alternative="two-sided", rng=rng)
    parts = np.stack([numbers * side, side, numbers * ~side, ~side], axis=1).astype(np.float64)
    draws = bootstrap_statistic(parts, _difference, clusters=blocks, replicates=config.draws, seed=config.seed)
    draws = draws[np.isfinite(draws)]
    low: float | None = None
    high: float | None = None
    if len(np.unique(np.asarray(blocks))) > 1 and len(draws) > 1:
        low, high = (float(q) for q in np.quantile(draws, (0.5 - config.level / 2, 0.5 + config.level / 2)))
    else:
        notes = (*notes, "no interval: one independent unit")
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
        notes=notes,
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
