"""Retrieval metrics of a model over one pool, as findings: suite-level rows, subjects' rows, and query values.

One number from several seeded pools: the mean over seeds, with its spread over seeds and its chance level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Column, Findings, Key
from equipoise.audit.subjects import SetStructure, SubjectQueries, pool_name
from equipoise.measure import METRICS
from equipoise.measure.notes import Note, add_notes, no_interval, note
from equipoise.measure.retrieval import (
    VARIANTS,
    Candidates,
    Chance,
    Groups,
    Measured,
    Retrieved,
    chance,
    evaluate,
    per_query,
    summary,
)
from equipoise.measure.retrieval.blocks import Source
from equipoise.measure.retrieval.telling import Telling
from equipoise.measure.stats import Alternative, p_values
from equipoise.measure.stats.bootstrap import mean_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.pace import portion, stages

SHARE = "representation"
RANKING, CHANCE = 0.15, 0.8
"""What share of the time of a retrieval audit its ranking takes, and the draws of its null, more or less."""


def seeded_estimate(
    values: ArrayLike,
    draws: ArrayLike,
    config: AuditConfig,
    *,
    alternative: Alternative,
    n: int,
    n_groups: int,
    possible: tuple[float, float],
) -> Estimate:
    """The mean of ``values`` (S,), one per seed; ``draws`` (S, R) of each seed's null.

    The pools of all seeds share most of their images, so their mean spreads by chance about as one of them does, not
    less: each draw of a seed, moved to the common mean, is a draw of the null. The interval is over seeds, which say
    how far the choice of the pool moves the number, and at least as wide as the spread of chance, which says how far
    other images would. It does not leave the ``possible`` range.

    >>> draws = [[0.0, 0.1], [0.1, 0.2]]
    >>> about = {"alternative": "greater", "n": 9, "n_groups": 2, "possible": (0, 1)}
    >>> estimate = seeded_estimate([0.2, 0.3], draws, AuditConfig(), **about)
    >>> estimate.value, estimate.ci_low == 0 < estimate.ci_high, estimate.notes
    (0.25, True, ('mean of 2 seeds, sd 0.071', 'the interval is over seeds, and at least as wide as chance spreads'))
    """
    means, null = np.asarray(values, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    value, together = float(means.mean()), drawn_together(null)
    p = p_values(value, together, alternative=alternative, rng=np.random.default_rng(config.seed))
    spread_of_chance = float(together.std(ddof=1))
    interval = mean_interval(means, level=config.level, least_error=spread_of_chance)
    bounds: tuple[Any, Any] = (None, None)
    if interval is not None:
        least, most = min(possible[0], value), max(possible[1], value)
        bounds = (max(interval[0], least), min(interval[1], most))
    seeds = note("seeds", n=1) if len(means) == 1 else note("seeds_spread", n=len(means), sd=float(means.std(ddof=1)))
    about = "the interval is over seeds, and at least as wide as chance spreads"
    about = about if interval else no_interval("one seed")
    return Estimate(
        value,
        *bounds,
        null_mean=float(null.mean()),
        null_sd=spread_of_chance,
        p_value=p.value,
        p_randomised=p.randomised,
        n=n,
        n_groups=n_groups,
        notes=(seeds, about),
        level=config.level,
    )


def drawn_together(draws: ArrayLike) -> NDArray[np.float64]:
    """The draws (S, R) of the nulls of S pools that share most of their images, as those of their mean: (S R,).

    >>> drawn_together([[0.0, 0.2], [0.1, 0.3]]).round(2).tolist()
    [0.05, 0.25, 0.05, 0.25]
    """
    null = np.asarray(draws, dtype=np.float64)
    return np.asarray((null - null.mean(axis=1, keepdims=True) + null.mean()).ravel())


def metrics_of(variant: str, wanted: Sequence[str], pair: tuple[str, str] | None) -> list[str]:
    """Those of the ``wanted`` metrics that the variant defines, and without a pair none that needs one.

    >>> metrics_of("gensynth", ["bias_at_k", "ndkl", "max_skew"], None)
    ['max_skew']
    """
    known = VARIANTS[variant].metrics
    return [m for m in wanted if m in known and (pair is not None or METRICS.find(m).takes != "pair")]


def add_retrieval(
    findings: Findings,
    source: Source,
    groups: Groups,
    config: AuditConfig,
    *,
    k: int,
    axis: str,
    pool: str,
    queries: Sequence[str],
    tie_order: NDArray[np.int64],
    candidates: Candidates | None = None,
    structure: SetStructure | None = None,
    metrics: Sequence[str] | None = None,
    pair: tuple[str, str] | None = None,
    subjects: bool = True,
    clusters: NDArray[Any] | None = None,
    depth: int | None = None,
    tell_favoured: bool = False,
) -> None:
    """Measure every variant asked for and add what was found.

    ``queries`` names each query (its subject). ``tie_order`` is that of the evidence: the rows of a table often lie in
    order of group, so that equal scores in order of rows would look like a preference. ``subjects`` also adds a row for
    each query, with the quantiles of chance. ``structure`` selects the null that shuffles labels inside sets.
    ``metrics`` that a variant does not define are left out of it. ``tell_favoured`` notes beside each query which
    group it puts first, and adds the share of every group.
    """
    for variant in stages(config.variants):
        wanted = None if metrics is None else metrics_of(variant, metrics, pair)
        if wanted is not None and not wanted:
            findings.note(f"the variant {variant!r} defines none of {', '.join(metrics or ())}")
            continue
        with portion(RANKING):
            retrieved = evaluate(
                source,
                groups,
                k=k,
                depth=depth,
                variant=variant,
                candidates=candidates,
                pair=pair,
                metrics=wanted,
                tie_order=tie_order,
            )
        with portion(CHANCE):
            null = chance(retrieved, draws=config.draws, seed=config.seed, **(structure or SetStructure()).options())
        keys = {"axis": axis, "pool": pool}
        rows = summary(retrieved, null, clusters=clusters, level=config.level, seed=config.seed)
        for row in rows:
            findings.add(row, **keys)
        _add_silent(findings, retrieved, rows, f"{axis}, K = {k}")
        add_draws(findings, retrieved, null, **keys)
        if subjects:
            favoured = favoured_groups(retrieved) if tell_favoured else {}
            for row in per_query(retrieved, null, seed=config.seed):
                assert row.query is not None
                findings.add(row, subject=queries[row.query], **keys)
                if row.query in favoured:
                    add_notes(findings.rows[-1], favoured[row.query])
            for row in shares_by_query(retrieved, null) if tell_favoured else ():
                assert row.query is not None
                findings.add(row, subject=queries[row.query], **keys)
        add_values(findings, retrieved, null, queries, clusters, **keys)
        _add_notes(findings, retrieved, null, f"{axis}, K = {k}")


def favoured_groups(retrieved: Retrieved) -> dict[int, Note]:
    """For each query the group that has most times its share of the pool among the first K, with both shares.

    That is the group whose skew MaxSkew is. A query that gives no group more than its share has no note.

    >>> from equipoise.measure.retrieval.sources import Scores
    >>> groups = Groups.from_values([*"ffffmm"])
    >>> favoured_groups(evaluate(Scores([[3, 2, 1, 0, 5, 4]]), groups, k=2))
    {0: 'favours m: 2 of the first 2, 33% of the pool'}
    """
    notes = {}
    for place, query in enumerate(retrieved.queries if SHARE in retrieved.by_group else ()):
        shares, pool = retrieved.by_group[SHARE][place], retrieved.pool_counts[retrieved.pool[place]]
        times = np.divide(shares * pool.sum(), pool, out=np.zeros(len(pool)), where=pool > 0)
        most = int(times.argmax())
        if times[most] > 1 + 1e-9:
            notes[int(query)] = note("favours", group=retrieved.groups.names[most], **_counts(retrieved, place, most))
    return notes


def shares_by_query(retrieved: Retrieved, null: Chance) -> Iterator[Measured]:
    """The share of each group among the first K of each query, beside what chance gives and its share of the pool.

    >>> from equipoise.measure.retrieval.sources import Scores
    >>> retrieved = evaluate(Scores([[3, 2, 1, 0, 5, 4]]), Groups.from_values([*"ffffmm"]), k=2)
    >>> rows = shares_by_query(retrieved, chance(retrieved, draws=9))
    >>> [(row.group, row.estimate.value, row.estimate.notes[0]) for row in rows]
    [('f', 0.0, '0 of the first 2, 67% of the pool'), ('m', 1.0, '2 of the first 2, 33% of the pool')]
    """
    if SHARE not in retrieved.by_group or SHARE not in null.mean:
        return
    for place, query in enumerate(retrieved.queries):
        if retrieved.all_equal[place]:
            continue
        for number, group in enumerate(retrieved.groups.names):
            estimate = Estimate(
                float(retrieved.by_group[SHARE][place, number]),
                null_mean=float(null.mean[SHARE][place, number]),
                null_sd=float(null.sd[SHARE][place, number]),
                n=1,
                n_groups=retrieved.groups.n_groups,
                notes=(
                    note("shown", **_counts(retrieved, place, number)),
                    "no p-value of one group alone: see max_skew",
                ),
            )
            yield Measured(SHARE, estimate, group, int(query), retrieved.recipe.k, retrieved.recipe.variant.name)


def _counts(retrieved: Retrieved, place: int, group: int) -> dict[str, Any]:
    """How many of a query's first K are of a group, of how many, and the group's share of the pool."""
    pool = retrieved.pool_counts[retrieved.pool[place]]
    size = int(pool.sum())
    k = min(retrieved.recipe.k, size)
    first = round(float(retrieved.by_group[SHARE][place, group]) * k)
    return {"first": first, "k": k, "pool_share": float(pool[group] / size)}


def _add_silent(findings: Findings, retrieved: Retrieved, rows: Sequence[Measured], where: str) -> None:
    """Say which metrics have no row because no query could show anything."""
    left = sorted(set(retrieved.values) - {row.metric for row in rows})
    if left:
        sizes = retrieved.pool_counts[retrieved.pool].sum(axis=1)
        why = "whichever way their pools are ranked or labelled, the value is the same"
        if sizes.max() <= retrieved.recipe.k:
            why = f"no pool has more than K images (the largest has {int(sizes.max()):,})"
        if (retrieved.pool_counts[retrieved.pool] > 0).sum(axis=1).max() < 2:
            why = "all pools show one group"
        if retrieved.all_equal.all():
            why = "the model gives all images the same score"
        findings.note(f"{where}: {', '.join(left)} left out, no query can show anything: {why}")


def add_draws(findings: Findings, retrieved: Retrieved, null: Chance, **keys: Key) -> None:
    """The draws of the null, where another model's audit shuffles the same labels: the two can be compared then."""
    if not null.shuffle:
        return
    telling = Telling(retrieved, null)
    own: dict[str, Key] = {"variant": retrieved.recipe.variant.name, "k": retrieved.recipe.k, "shuffle": null.shuffle}
    for metric in retrieved.values:
        n = int(telling.queries(metric).sum())
        if metric in null.suite and n:
            findings.add_draws(telling.draws(metric), n=n, metric=metric, **own, **keys)


def add_values(
    findings: Findings,
    retrieved: Retrieved,
    null: Chance,
    queries: Sequence[str],
    clusters: NDArray[Any] | None,
    **keys: Key,
) -> None:
    """The values of the single queries that the results count, so that two audits can be paired."""
    telling = Telling(retrieved, null)
    own: dict[str, Column] = {"variant": retrieved.recipe.variant.name, "k": retrieved.recipe.k}
    for metric, values in retrieved.values.items():
        tells = telling.queries(metric)
        counted = retrieved.queries[tells]
        cluster = None if clusters is None else [str(c) for c in clusters[counted]]
        names = [queries[q] for q in counted]
        findings.add_queries(values[tells], names, metric=metric, cluster=cluster, **own, **keys)


def _add_notes(findings: Findings, retrieved: Retrieved, null: Chance, where: str) -> None:
    for problem in (*retrieved.notes, *null.notes):
        findings.note(f"{where}: {problem}")
    for reason, count in retrieved.dropped.items():
        if count:
            findings.note(f"{where}: {count} queries left out ({reason})")


def add_subjects(
    findings: Findings,
    evidence: Evidence,
    queries: SubjectQueries,
    groups: Groups,
    config: AuditConfig,
    *,
    k: int,
    axis: str,
    pools: NDArray[Any],
    structure: SetStructure,
    pair: tuple[str, str] | None,
) -> None:
    """:func:`add_retrieval` where the queries of each subject rank a pool of their own; ``pools`` (N,), -1: in none."""
    add_retrieval(
        findings,
        queries.source,
        groups,
        config,
        k=k,
        axis=axis,
        pool=pool_name(evidence.frame[pools >= 0]),
        queries=queries.names,
        tie_order=evidence.tie_order(config.seed),
        candidates=Candidates(image_pool=pools, query_pool=queries.pools),
        structure=structure,
        pair=pair,
        subjects=queries.one_each,
        clusters=np.array(queries.names),
    )
