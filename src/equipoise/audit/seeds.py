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

    The interval is over seeds: it says how far the choice of the pool moves the number, not how far the images do.
    Seeds that all give the same number (a pool that was balanced already) leave no interval.

    >>> draws = [[0.0, 0.1], [0.1, 0.2]]
    >>> found = seeded_estimate([0.2, 0.3], draws, AuditConfig(), alternative="greater", n=9, n_groups=2)
    >>> found.value, found.ci_low < 0 < found.ci_high, found.notes
    (0.25, True, ('mean of 2 seeds, sd 0.071', 'the interval is over seeds, not over images'))
    """
    means, null = np.asarray(values, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    value, together = float(means.mean()), null.mean(axis=0)
    p = p_values(value, together, alternative=alternative, rng=np.random.default_rng(config.seed))
    differ = float(np.ptp(means)) > 0
    bounds: tuple[Any, Any] = (mean_interval(means, level=config.level) if differ else None) or (None, None)
    spread = f", sd {means.std(ddof=1):.3f}" if len(means) > 1 else ""
    about = "the interval is over seeds, not over images" if differ else "no interval: the seeds do not differ"
    return Estimate(
        value,
        *bounds,
        null_mean=float(null.mean()),
        null_sd=float(together.std(ddof=1)),
        p_value=p.value,
        p_randomised=p.randomised,
        n=n,
        n_groups=n_groups,
        notes=(f"mean of {len(means)} seeds{spread}", about),
        level=config.level,
    )
