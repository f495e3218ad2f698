"""A retrieval result as estimates: value, interval, chance level, excess, p-value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.measure.bootstrap import IntervalMethod, cluster_sums, mean_interval, no_interval_note
from equipoise.measure.chance import Chance
from equipoise.measure.estimate import Estimate
from equipoise.measure.evaluate import Retrieved
from equipoise.measure.permutation import Alternative, p_values
from equipoise.measure.skew import desired_shares

__all__ = ["ALTERNATIVES", "Measured", "per_query", "summary"]

FloatArray = NDArray[np.float64]

ALTERNATIVES: dict[str, Alternative] = {
    "max_skew": "greater",
    "min_skew": "less",
    "absent_groups": "greater",
    "ndkl": "greater",
    "exposure_gap": "greater",
    "exposure_ratio": "less",
    "infeasible_index": "greater",
    "infeasible_count": "greater",
    "abs_bias_at_k": "greater",
}
"""Which way bias lies; metrics that are not here lie either way."""


@dataclass(frozen=True)
class Measured:
    """One estimate and what it is of."""

    metric: str
    estimate: Estimate
    group: str | None = None
    query: int | None = None
    k: int | None = None
    variant: str | None = None

    def row(self, **keys: Any) -> dict[str, Any]:
        """One row of a results table."""
        own = {"metric": self.metric, "group": self.group, "k": self.k, "variant": self.variant}
        return self.estimate.row(**(own | keys))


def summary(
    found: Retrieved,
    null: Chance | None = None,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    method: IntervalMethod = "t",
    seed: int = 0,
) -> list[Measured]:
    """The mean over queries of every metric, with interval, chance level, excess and p-value.

    The interval is that of the mean excess, moved by the chance level: queries differ in what chance gives them
    (small pools, many groups), and that difference is known, not noise. ``clusters`` (Q,), one key per query,
    keeps queries that belong together (prompts of a subject) together. By group, ``skew`` is ln(mean share / mean
    desired share).

    >>> from equipoise.measure.groups import Groups
    >>> from equipoise.measure.sources import Scores
    >>> from equipoise.measure.evaluate import evaluate
    >>> from equipoise.measure.chance import chance
    >>> scores = np.random.default_rng(0).random((20, 60))
    >>> found = evaluate(Scores(scores), Groups(np.arange(60) % 3, ("a", "b", "c")), k=6)
    >>> rows = summary(found, chance(found, draws=200))
    >>> sorted({row.metric for row in rows})[:4]
    ['absent_groups', 'exposure', 'exposure_gap', 'exposure_ratio']
    """
    keys = _clusters(found, clusters)
    context = _Context(found, null, keys, level, method, seed)
    rows = [context.measured(name, values, None) for name, values in found.values.items()]
    for name, table in found.by_group.items():
        if name == "skew":
            continue
        for place, group in enumerate(found.groups.names):
            rows.append(context.measured(name, table[:, place], place, group))
            in_pool = found.pool_counts[found.pool, place].any()
            if name == "representation" and "skew" in found.by_group and in_pool:
                rows.append(context.skew(rows[-1], place))
    return rows


def _clusters(found: Retrieved, clusters: ArrayLike | None) -> NDArray[Any] | None:
    if clusters is None:
        return None
    keys = np.asarray(clusters)
    expected = int(found.queries.max()) + 1
    if keys.ndim != 1 or len(keys) < expected:
        raise InputError(f"clusters has shape {keys.shape}; give one key per query")
    return keys[found.queries]


@dataclass(frozen=True)
class _Context:
    found: Retrieved
    null: Chance | None
    clusters: NDArray[Any] | None
    level: float
    method: IntervalMethod
    seed: int

    def measured(self, name: str, values: FloatArray, place: int | None, group: str | None = None) -> Measured:
        found = self.found
        estimate = self._estimate(name, values, place)
        return Measured(name, estimate, group, None, found.recipe.k, found.recipe.variant.name)

    def _estimate(self, name: str, values: FloatArray, place: int | None) -> Estimate:
        found, null = self.found, self.null
        notes = found.notes if null is None else (*found.notes, *null.notes)
        level_of_chance: FloatArray | float = 0.0
        extra: dict[str, Any] = {}
        if null is not None and name in null.mean:
            at: Any = slice(None) if place is None else (slice(None), place)
            level_of_chance = null.mean[name][at]
            draws = null.suite[name][at]
            p = p_values(float(values.mean()), draws, alternative=ALTERNATIVES.get(name, "two-sided"), rng=self.seed)
            low, high = np.quantile(draws, (0.025, 0.975))
            extra = {
                "null_mean": float(np.mean(level_of_chance)),
                "null_sd": float(draws.std()),
                "p_value": p.value,
                "p_randomised": p.randomised,
            }
            if len(values) == 1:
                extra |= {"null_low": float(low), "null_high": float(high)}
        elif null is not None:
            notes = (*notes, f"no null for {name}")
        excess = values - level_of_chance
        least = self._least_error(excess, extra.get("null_sd", 0.0))
        if least > 0:
            notes = (*notes, "the values hardly vary: the interval uses the spread of chance")
        interval = mean_interval(
            excess,
            clusters=self.clusters,
            level=self.level,
            method=self.method,
            seed=self.seed,
            least_error=least,
        )
        if interval is None:
            notes = (*notes, no_interval_note(excess, self.clusters))
            bounds: tuple[float | None, float | None] = (None, None)
        else:
            shift = float(np.mean(level_of_chance))
            bounds = (interval[0] + shift, interval[1] + shift)
        return Estimate(
            float(values.mean()),
            *bounds,
            n=len(values),
            n_groups=found.groups.n_groups,
            dropped=found.dropped,
            notes=notes,
            level=self.level,
            **extra,
        )

    def _least_error(self, excess: FloatArray, null_sd: float) -> float:
        """The sd of chance, where the values happen to vary much less: rare levels that were not met by luck."""
        sums = cluster_sums(excess, self.clusters)
        if len(sums.sizes) < 2 or float(sums.standard_error[0]) >= null_sd / 2:
            return 0.0
        return null_sd

    def skew(self, share: Measured, place: int) -> Measured:
        """Skew of one group over all queries, from its mean share."""
        found, of = self.found, share.estimate
        desired = float(desired_shares(found.recipe.desired, found.pool_counts)[found.pool, place].mean())

        def log_ratio(number: float | None) -> float | None:
            return None if number is None or number <= 0 else float(np.log(number / desired))

        value = log_ratio(of.value)
        notes = of.notes if value is not None else (*of.notes, "never among the top K")
        estimate = Estimate(
            -np.inf if value is None else value,
            log_ratio(of.ci_low),
            log_ratio(of.ci_high),
            null_mean=log_ratio(of.null_mean),
            p_value=of.p_value,
            p_randomised=of.p_randomised,
            n=of.n,
            n_groups=of.n_groups,
            dropped=of.dropped,
            notes=notes,
            level=of.level,
        )
        return Measured("skew", estimate, share.group, None, share.k, share.variant)


def per_query(found: Retrieved, null: Chance, *, seed: int = 0) -> Iterator[Measured]:
    """Every metric of every query on its own: value, chance level, the quantiles of chance, p-value.

    One query's value has few distinct levels, so it carries what chance gives in 95% of draws, not an interval.
    """
    for name, values in found.values.items():
        if name not in null.mean:
            continue
        draws = null.by_query.get(name)
        bounds = None if draws is None else np.quantile(draws, (0.025, 0.975), axis=0)
        for place, query in enumerate(found.queries):
            extra: dict[str, Any] = {"notes": ("too many queries to keep every draw: no p-value for one query",)}
            if draws is not None and bounds is not None:
                p = p_values(
                    float(values[place]),
                    draws[:, place],
                    alternative=ALTERNATIVES.get(name, "two-sided"),
                    rng=np.random.default_rng([seed, int(query)]),
                )
                extra = {"p_value": p.value, "p_randomised": p.randomised}
                extra |= {"null_low": float(bounds[0, place]), "null_high": float(bounds[1, place])}
            estimate = Estimate(
                float(values[place]),
                null_mean=float(null.mean[name][place]),
                null_sd=float(null.sd[name][place]),
                n=1,
                n_groups=found.groups.n_groups,
                **extra,
            )
            yield Measured(name, estimate, None, int(query), found.recipe.k, found.recipe.variant.name)
