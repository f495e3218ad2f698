"""Published numbers, to be shown beside measured ones; small files with the paper they come from."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from equipoise.errors import UnknownNameError

__all__ = ["PUBLISHED", "PublishedValues", "add_published", "published_values"]

PUBLISHED = ("lic",)
"""The files there are, by name."""
_AS_GIVEN = ("lic", "lic_m", "lic_d", "ratio")


@dataclass(frozen=True)
class PublishedValues:
    """What a paper reports of captioning models on one axis."""

    citation: str
    notes: str
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    """By model and metric: the value, and its standard deviation where the paper gives one."""

    def of(self, model: str, metric: str) -> tuple[float, ...]:
        """The value (and standard deviation) of a model, or nothing."""
        return self.values.get(model.lower().replace("-", "_").replace("+", "_plus"), {}).get(metric, ())


def add_published(rows: Iterable[MutableMapping[str, Any]], values: PublishedValues) -> None:
    """Give the first row of each whole model and metric its published value, in the unit of the row's own.

    Papers give rates in points; a results table holds shares of 1, but for LIC, which is in points there too.

    >>> rows = [{"model": "nic_st10", "metric": "error", "group": None, "subject": None, "pool": None}]
    >>> add_published(rows, published_values("lic", "gender"))
    >>> round(rows[0]["published"], 3)
    0.143
    """
    seen: set[tuple[str, str]] = set()
    for row in rows:
        key = str(row["model"]), str(row["metric"])
        if key in seen or any(row[name] is not None for name in ("group", "subject", "pool")):
            continue
        seen.add(key)
        known = values.of(*key)
        if known:
            row["published"] = known[0] if key[1] in _AS_GIVEN else known[0] / 100


def published_values(name: str, axis: str) -> PublishedValues:
    """The published values called ``name`` on ``axis``; an axis that the paper has not is empty.

    >>> published_values("lic", "gender").of("nic", "lic_m")
    (43.2, 1.5)
    """
    if name not in PUBLISHED:
        raise UnknownNameError("list of published values", name, PUBLISHED)
    data = tomllib.loads((files("equipoise.audit.published") / f"{name}.toml").read_text(encoding="utf-8"))
    table = data.get(axis, {})
    return PublishedValues(
        data["citation"],
        data["notes"],
        {model: {metric: tuple(value) for metric, value in row.items()} for model, row in table.items()},
    )
