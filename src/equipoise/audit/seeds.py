"""One number from several seeded pools: the mean over seeds, with its spread over seeds and its chance level."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.audit.config import AuditConfig
from equipoise.measure.bootstrap import mean_interval
from equipoise.measure.estimate import Estimate
from equipoise.measure.stats import Alternative, p_values

__all__ = ["seeded_estimate"]


def seeded_estimate(
    values: ArrayLike,
    draws: ArrayLike,
    config: AuditConfig,
    *,
    alternative: Alternative,
    n: int,
    n_groups: int,
) -> Estimate:
    """The mean of ``values`` (S,), one a seed; ``draws`` (S, R) of each seed's null.

    The interval is over seeds, which say how far the choice of the pool moves the number, and at least as wide as the
    spread of chance, which says how far other images would.

    >>> draws = [[0.0, 0.1], [0.1, 0.2]]
    >>> found = seeded_estimate([0.2, 0.3], draws, AuditConfig(), alternative="greater", n=9, n_groups=2)
    >>> found.value, found.ci_low < 0 < found.ci_high, found.notes
    (0.25, True, ('mean of 2 seeds, sd 0.071', 'the interval is over seeds, and at least as wide as chance spreads'))
    """
    means, null = np.asarray(values, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    value, together = float(means.mean()), null.mean(axis=0)
    p = p_values(value, together, alternative=alternative, rng=np.random.default_rng(config.seed))
    spread_of_chance = float(together.std(ddof=1))
    interval = mean_interval(means, level=config.level, least_error=spread_of_chance)
    bounds: tuple[Any, Any] = interval or (None, None)
    spread = f", sd {means.std(ddof=1):.3f}" if len(means) > 1 else ""
    about = "the interval is over seeds, and at least as wide as chance spreads"
    about = about if interval else "no interval: one seed"
    return Estimate(
        value,
        *bounds,
        null_mean=float(null.mean()),
        null_sd=spread_of_chance,
        p_value=p.value,
        p_randomised=p.randomised,
        n=n,
        n_groups=n_groups,
        notes=(f"mean of {len(means)} seeds{spread}", about),
        level=config.level,
    )
