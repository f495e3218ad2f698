"""Published numbers, to be shown beside measured ones; small files with the paper they come from."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from equipoise.errors import UnknownNameError

__all__ = ["PUBLISHED", "PublishedValues", "published_values"]

PUBLISHED = ("lic",)
"""The files there are, by name."""


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
