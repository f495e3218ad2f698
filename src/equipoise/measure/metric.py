"""What a reader must know of a metric before believing its number, kept beside the metric's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from equipoise.registry import Registry

__all__ = ["MetricEntry", "add_metrics"]


@dataclass(frozen=True)
class MetricEntry:
    """One metric: its function, its formula and how to read it."""

    name: str
    target: str
    summary: str
    citation: str
    formula: str
    range: str
    direction: str
    chance: str
    when_it_lies: str


def add_metrics(registry: Registry, entries: Iterable[MetricEntry]) -> None:
    """Add ``entries`` to ``registry``; what a line of the registry does not have room for goes to its ``info``.

    >>> from equipoise.measure.bias_entries import BIAS_ENTRIES
    >>> metrics = Registry("metric")
    >>> add_metrics(metrics, BIAS_ENTRIES)
    >>> metrics.get("self_similarity").info["chance"]
    'self-similarity of the pool (shuffled labels)'
    """
    for entry in entries:
        registry.add(
            entry.name,
            entry.target,
            summary=entry.summary,
            citation=entry.citation,
            licence="Apache-2.0",
            formula=entry.formula,
            range=entry.range,
            direction=entry.direction,
            chance=entry.chance,
            when_it_lies=entry.when_it_lies,
        )
