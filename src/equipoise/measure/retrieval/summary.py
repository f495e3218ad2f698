"""A retrieval result as estimates: value, interval, chance level, excess, p-value.

The values that a retrieval metric can take, given the pools and K: no interval may promise more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.metric import METRICS, Scope
from equipoise.measure.notes import of_sources
from equipoise.measure.retrieval.chance import Chance
from equipoise.measure.retrieval.evaluate import Retrieved
from equipoise.measure.retrieval.skew import desired_shares
from equipoise.measure.retrieval.telling import Telling, column
from equipoise.measure.sides import of_pair
from equipoise.measure.stats.bootstrap import IntervalMethod, cluster_sums, mean_interval, no_interval_note
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import p_values


def possible_range(
    found: Retrieved, name: str, queries: NDArray[np.bool_] | None = None, group: int | None = None
) -> tuple[float, float]:
    """The least and the greatest mean that the metric ``name`` can have over the queries (or those of a mask).

    Of two groups as frequent, MaxSkew lies between 0 and ln 2; no more groups can be absent than all but one.

    >>> from equipoise.measure.retrieval.evaluate import evaluate
    >>> from equipoise.measure.groups import Groups
    >>> from equipoise.measure.retrieval.sources import Scores
    >>> found = evaluate(Scores(np.arange(12.0)[None]), Groups(np.arange(12) % 2, ("a", "b")), k=4)
    >>> [round(end, 3) for end in possible_range(found, "max_skew")], possible_range(found, "absent_groups")
    ([0.0, 0.693], (0.0, 1.0))
    """
    recipe = found.recipe
    pools = found.pool_counts[found.pool if queries is None else found.pool[queries]].astype(np.float64)
    scope = Scope(
        found.groups.n_groups,
        pools,
        desired_shares(recipe.desired, pools),
        recipe.k,
        recipe.zero_max,
        recipe.zero_min,
        recipe.variant.divides_by_asked_k,
        group,
    )
    return METRICS.get(name).bounds_in(scope)


ALL_EQUAL = "query to which all images are equal"
SILENT = "query that can show nothing: whichever way its pool is ranked or labelled, the value is the same"


@dataclass(frozen=True)
class Measured:
    """One estimate and what it is of."""

    metric: str
    estimate: Estimate
    group: str | None = None
    query: int | None = None
    k: int | None = None
    variant: str | None = None
    pair: tuple[str, str] | None = None
    """The groups that the sign is between, where no other column says so."""

    def row(self, **keys: Any) -> dict[str, Any]:
        """One row of a results table."""
        own = {"metric": self.metric, "group": self.group, "k": self.k, "variant": self.variant}
        return self.estimate.row(**(own | of_pair(self.metric, self.pair) | keys))


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
    (small pools, many groups), and that difference is known, not noise. By group, ``skew`` is ln(mean share / mean
    desired share). Queries that can show nothing, because every ranking gives the same (a pool no larger than K, or of
    one group), or because no label of the pool can move, are left out and counted; a metric for which that is so of all
    queries has no row. No interval leaves the values that the metric can take.

    Args:
        found: the metrics of each query.
        null: what ``chance`` gives for ``found``; without it rows have neither chance level nor p-value.
        clusters: (Q,) one key per query, measured or not, that keeps queries that belong together (prompts of a
            subject) together.
        level: confidence of the intervals.
        method: how intervals are made, as in :func:`equipoise.measure.stats.mean_interval`.
        seed: how ties are broken in randomised p-values, and which resamples a bootstrap ``method`` draws.

    Returns:
        One row per metric, or per metric and group where it has one number per group.

    >>> from equipoise.measure.groups import Groups
    >>> from equipoise.measure.retrieval.sources import Scores
    >>> from equipoise.measure.retrieval.evaluate import evaluate
    >>> from equipoise.measure.retrieval.chance import chance
    >>> scores = np.random.default_rng(0).random((20, 60))
    >>> found = evaluate(Scores(scores), Groups(np.arange(60) % 3, ("a", "b", "c")), k=6)
    >>> rows = summary(found, chance(found, draws=200))
    >>> sorted({row.metric for row in rows})[:4]
    ['absent_groups', 'exposure', 'exposure_gap', 'exposure_ratio']
    """
    keys = _clusters(found, clusters)
    context = _Context(found, null, keys, level, method, seed, Telling(found, null))
    rows = [row for name, values in found.values.items() if (row := context.measured(name, values, None))]
    for name, table in found.by_group.items():
        if METRICS.get(name).from_mean_of:
            continue
        for place, group in enumerate(found.groups.names):
            row = context.measured(name, table[:, place], place, group)
            if row is None:
                continue
            rows.append(row)
            if found.pool_counts[found.pool[context.telling.queries(name, place)], place].any():
                derived = [other for other in found.by_group if METRICS.get(other).from_mean_of == name]
                rows += [context.log_ratio(other, row, place) for other in derived]
    return rows


def _clusters(retrieved: Retrieved, clusters: ArrayLike | None) -> NDArray[Any] | None:
    if clusters is None:
        return None
    keys = np.asarray(clusters)
    n_queries = len(retrieved.queries) + sum(retrieved.dropped.values())
    if keys.shape != (n_queries,):
        raise InputError(f"clusters has shape {keys.shape} for {n_queries} queries; give one key per query")
    return keys[retrieved.queries]


@dataclass(frozen=True)
class _Context:
    found: Retrieved
    null: Chance | None
    clusters: NDArray[Any] | None
    level: float
    method: IntervalMethod
    seed: int
    telling: Telling

    def measured(self, name: str, values: Floats, place: int | None, group: str | None = None) -> Measured | None:
        """One row; ``None`` where no query could show anything."""
        retrieved, null = self.found, self.null
        tells = self.telling.queries(name, place)
        if not tells.any():
            return None
        if null is None or name not in null.mean:
            notes = retrieved.notes if null is None else (*retrieved.notes, *null.notes, f"no null for {name}")
            estimate = self._estimate(name, values[tells], tells, place, 0.0, None, notes)
        else:
            level, draws = null.mean[name][column(place)], self.telling.draws(name, place)
            estimate = self._estimate(
                name, values[tells], tells, place, level[tells], draws, (*retrieved.notes, *null.notes)
            )
        return Measured(name, estimate, group, None, retrieved.recipe.k, retrieved.recipe.variant.name, retrieved.pair)

    def _estimate(
        self,
        name: str,
        values: Floats,
        tells: NDArray[np.bool_],
        place: int | None,
        level_of_chance: Floats | float,
        draws: Floats | None,
        notes: tuple[str, ...],
    ) -> Estimate:
        retrieved = self.found
        extra: dict[str, Any] = {}
        if draws is not None:
            p = p_values(float(values.mean()), draws, alternative=METRICS.get(name).alternative, rng=self.seed)
            extra = {
                "null_mean": float(np.mean(level_of_chance)),
                "null_sd": float(draws.std()),
                "p_value": p.value,
                "p_randomised": p.randomised,
            }
            if len(values) == 1:
                low, high = np.quantile(draws, (0.025, 0.975))
                extra |= {"null_low": float(low), "null_high": float(high)}
        excess = values - level_of_chance
        keys = None if self.clusters is None else self.clusters[tells]
        least, note = self._least_error(excess, keys, tells, extra.get("null_sd", 0.0))
        interval = mean_interval(
            excess, clusters=keys, level=self.level, method=self.method, seed=self.seed, least_error=least
        )
        bounds: tuple[float | None, float | None] = (None, None)
        if interval is None:
            note = no_interval_note(excess, keys)
        else:
            shift = float(np.mean(level_of_chance))
            lowest, highest = possible_range(retrieved, name, tells, place)
            # A definition of someone else's may leave the range itself; its interval then still holds the value.
            lowest, highest = min(lowest, float(values.mean())), max(highest, float(values.mean()))
            bounds = (max(interval[0] + shift, lowest), min(interval[1] + shift, highest))
        equal = int(retrieved.all_equal.sum())
        silent = {ALL_EQUAL: equal, SILENT: int((~tells).sum()) - equal}
        return Estimate(
            float(values.mean()),
            *bounds,
            n=len(values),
            n_groups=retrieved.groups.n_groups,
            dropped={**retrieved.dropped, **silent},
            notes=(*notes, *of_sources(keys), *([note] if note else [])),
            level=self.level,
            **extra,
        )

    def _least_error(
        self, excess: Floats, clusters: NDArray[Any] | None, tells: NDArray[np.bool_], null_sd: float
    ) -> tuple[float, str]:
        """The least standard error that the interval may have, and what to say of it.

        Queries that share images (a pool, or people in linked sets) are lopsided together: their own scatter does not
        show how far another pool would lie, and the spread of chance does. Elsewhere that spread is used where the
        values happen to vary much less: rare levels that were not met by luck. No other method than ``t`` uses it.
        """
        sums = cluster_sums(excess, clusters)
        if len(sums.sizes) < 2 or self.method != "t":
            return 0.0, ""
        error = float(sums.standard_error[0])
        if self._shared(clusters, tells) or (self.null is not None and self.null.linked):
            return (
                null_sd,
                "queries share images: the interval has at least the spread of chance" if error < null_sd else "",
            )
        if error < null_sd / 2:
            return null_sd, "the values hardly vary: the interval uses the spread of chance"
        return 0.0, ""

    def _shared(self, clusters: NDArray[Any] | None, tells: NDArray[np.bool_]) -> bool:
        """Whether queries of different clusters rank the same pool."""
        pool = self.found.pool[tells]
        keys = np.arange(len(pool)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
        pairs = np.unique(np.stack([pool, keys], axis=1), axis=0)
        return len(np.unique(pairs[:, 0])) < len(pairs)

    def log_ratio(self, name: str, share: Measured, place: int) -> Measured:
        """Skew of one group, from its mean share: ln(mean share / mean desired share), over the same queries."""
        retrieved, of = self.found, share.estimate
        tells = self.telling.queries(share.metric, place)
        by_pool = desired_shares(retrieved.recipe.desired, retrieved.pool_counts)[:, place]
        desired = float(by_pool[retrieved.pool[tells]].mean())

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
        return Measured(name, estimate, share.group, None, share.k, share.variant)


def per_query(found: Retrieved, null: Chance, *, seed: int = 0) -> Iterator[Measured]:
    """Every metric of every query on its own: value, chance level, the quantiles of chance, p-value.

    One query's value has few distinct levels, so it carries what chance gives in 95% of draws, not an interval.

    Args:
        found: the metrics of each query.
        null: what ``chance`` gives for ``found``. Without draws of single queries, too many to keep, none has a
            p-value.
        seed: how ties are broken in randomised p-values.

    Returns:
        Rows, metric by metric; a query that can show nothing has none, nor has a metric by group.
    """
    telling = Telling(found, null)
    for name, values in found.values.items():
        if name not in null.mean:
            continue
        draws = null.by_query.get(name)
        bounds = None if draws is None else np.quantile(draws, (0.025, 0.975), axis=0)
        tells = telling.queries(name)
        for place, query in enumerate(found.queries):
            if not tells[place]:
                continue
            extra: dict[str, Any] = {"notes": ("too many queries to keep every draw: no p-value for one query",)}
            if draws is not None and bounds is not None:
                p = p_values(
                    float(values[place]),
                    draws[:, place],
                    alternative=METRICS.get(name).alternative,
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
            yield Measured(name, estimate, None, int(query), found.recipe.k, found.recipe.variant.name, found.pair)
