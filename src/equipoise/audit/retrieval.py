"""Retrieval metrics of a model over one pool, as findings: suite-level rows, subjects' rows, and query values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.findings import Findings
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

__all__ = ["add_retrieval", "add_values", "metrics_of", "within_range"]

_PAIRS = ("bias_at_k", "abs_bias_at_k", "bias_count_at_k")
_RANGES = {
    **dict.fromkeys(("representation", "exposure", "exposure_ratio", "abs_bias_at_k"), (0.0, 1.0)),
    **dict.fromkeys(("max_skew", "ndkl", "absent_groups", "exposure_gap"), (0.0, math.inf)),
    **dict.fromkeys(("infeasible_index", "infeasible_count"), (0.0, math.inf)),
    "min_skew": (-math.inf, 0.0),
    "bias_at_k": (-1.0, 1.0),
}


def metrics_of(variant: str, wanted: Sequence[str], pair: tuple[str, str] | None) -> list[str]:
    """Those of the ``wanted`` metrics that the variant defines, and without a pair none that needs one.

    >>> metrics_of("gensynth", ["bias_at_k", "ndkl", "max_skew"], None)
    ['max_skew']
    """
    return [m for m in wanted if m in VARIANTS[variant].metrics and (pair is not None or m not in _PAIRS)]


def add_retrieval(
    findings: Findings,
    source: Any,
    groups: Groups,
    config: AuditConfig,
    *,
    k: int,
    axis: str,
    pool: str,
    queries: Sequence[str],
    tie_order: NDArray[np.int64],
    candidates: Candidates | None = None,
    sets: ArrayLike | None = None,
    metrics: Sequence[str] | None = None,
    pair: tuple[str, str] | None = None,
    subjects: bool = True,
    clusters: NDArray[Any] | None = None,
    depth: int | None = None,
) -> None:
    """Measure every variant asked for and add what was found.

    ``queries`` names each query (its subject). ``tie_order`` is that of the evidence: the rows of a table often lie in
    order of group, so that equal scores in order of rows would look like a preference. ``subjects`` also adds a row for
    each query, with the quantiles of chance. ``sets`` selects the null that shuffles labels inside counterfactual sets.
    ``metrics`` that a variant does not define are left out of it.
    """
    for variant in config.variants:
        wanted = None if metrics is None else metrics_of(variant, metrics, pair)
        if wanted is not None and not wanted:
            findings.note(f"the variant {variant!r} defines none of {', '.join(metrics or ())}")
            continue
        found = evaluate(
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
        null = chance(found, sets=sets, draws=config.draws, seed=config.seed)
        keys: dict[str, Any] = {"axis": axis, "pool": pool}
        for row in summary(found, null, clusters=clusters, level=config.level, seed=config.seed):
            findings.add(within_range(row), **keys)
        if subjects:
            for row in per_query(found, null, seed=config.seed):
                assert row.query is not None
                findings.add(row, subject=queries[row.query], **keys)
        add_values(findings, found, queries, clusters, **keys)
        _add_notes(findings, found, null, f"{axis}, K = {k}")


def within_range(measured: Measured) -> Measured:
    """The same with an interval that ends where the metric's range does: a share is never below 0 or above 1.

    >>> from equipoise.measure.estimate import Estimate
    >>> within_range(Measured("absent_groups", Estimate(0.2, -0.1, 0.5, n=3))).estimate
    0.2 [0, 0.5] n = 3
    """
    low, high = _RANGES.get(measured.metric, (-math.inf, math.inf))
    estimate = measured.estimate
    if estimate.ci_low is None or estimate.ci_high is None:
        return measured
    # A definition of someone else's may leave the range itself; its interval then still holds the value.
    low, high = min(low, estimate.value), max(high, estimate.value)
    clipped = replace(estimate, ci_low=max(estimate.ci_low, low), ci_high=min(estimate.ci_high, high))
    return replace(measured, estimate=clipped)


def add_values(
    findings: Findings, found: Retrieved, queries: Sequence[str], clusters: NDArray[Any] | None, **keys: Any
) -> None:
    """The values of single queries, so that two audits can be paired."""
    names = [queries[q] for q in found.queries]
    cluster = None if clusters is None else [str(c) for c in clusters[found.queries]]
    own = {"variant": found.recipe.variant.name, "k": found.recipe.k, "cluster": cluster}
    for metric, values in found.values.items():
        findings.add_queries(values, names, metric=metric, **own, **keys)


def _add_notes(findings: Findings, found: Retrieved, null: Chance, where: str) -> None:
    for note in (*found.notes, *null.notes):
        findings.note(f"{where}: {note}")
    for reason, count in found.dropped.items():
        if count:
            findings.note(f"{where}: {count} queries left out ({reason})")
