"""Retrieval metrics of a model over one pool, as findings: suite-level rows, subjects' rows, and query values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.findings import Findings
from equipoise.measure.retrieval import Candidates, Groups, chance, evaluate, per_query, summary

__all__ = ["add_retrieval"]


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
    candidates: Candidates | None = None,
    sets: ArrayLike | None = None,
    metrics: Sequence[str] | None = None,
    subjects: bool = True,
    clusters: NDArray[Any] | None = None,
    depth: int | None = None,
) -> None:
    """Measure every variant asked for and add what was found.

    ``queries`` names each query (its subject). ``subjects`` also adds a row for each query, with the quantiles of
    chance. ``sets`` selects the null that shuffles labels inside counterfactual sets.
    """
    pair = (config.pair[0], config.pair[1]) if config.pair else None
    for variant in config.variants:
        found = evaluate(
            source, groups, k=k, depth=depth, variant=variant, candidates=candidates, pair=pair, metrics=metrics
        )
        null = chance(found, sets=sets, draws=config.draws, seed=config.seed)
        keys: dict[str, Any] = {"axis": axis, "pool": pool}
        for row in summary(found, null, clusters=clusters, level=config.level, seed=config.seed):
            findings.add(row, **keys)
        if subjects:
            for row in per_query(found, null, seed=config.seed):
                assert row.query is not None
                findings.add(row, subject=queries[row.query], **keys)
        names = [queries[q] for q in found.queries]
        for metric, values in found.values.items():
            findings.add_queries(values, names, metric=metric, variant=variant, k=k, **keys)
        findings.notes += [note for note in found.notes if note not in findings.notes]
        for reason, count in found.dropped.items():
            if count:
                findings.notes.append(f"{axis}: {count} queries left out ({reason})")
    if subjects and len(set(queries)) != len(queries):
        findings.notes.append(f"{axis}: several queries share a name")
