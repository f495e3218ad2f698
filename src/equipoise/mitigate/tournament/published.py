"""What papers report of models and remedies, shown beside a tournament of a model of that name."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["PublishedRow", "published_rows"]

_NAMES = (
    ("debias", "DebiasCLIP"),
    ("alip", "ALIP"),
    ("flava", "FLAVA"),
    ("laion400m", "OpenCLIP (LAION 400M)"),
    ("laion2b", "OpenCLIP (LAION 2B)"),
    ("clip-vit-base-patch32", "CLIP"),
)
"""What a model's name contains, in lower case, and whom the papers mean by it; the first that fits."""


@dataclass(frozen=True)
class PublishedRow:
    """One published number."""

    table: str
    """The paper and its table."""
    row: str
    column: str
    value: float
    sd: float | None = None


def published_rows(model: str) -> Sequence[PublishedRow]:
    """The published numbers of a model by its name; none where no paper has it.

    >>> [(row.table, row.value) for row in published_rows("hf:openai/clip-vit-base-patch32")][:1]
    [('GenSynth T2', 0.27)]
    >>> published_rows("mini:clip")
    []
    """
    name = next((own for part, own in _NAMES if part in model.lower().replace("_", "")), None)
    if name is None:
        return []
    text = (files("equipoise.mitigate.tournament") / "published.csv").read_text(encoding="utf-8")
    found = []
    for row in csv.DictReader(text.splitlines()):
        base = row["row"].removesuffix(" pretrained").removesuffix(" debiased")
        if base == name or (name == "CLIP" and base.startswith("CLIP-clip")):
            sd = float(row["sd"]) if row["sd"] else None
            found.append(PublishedRow(row["table"], row["row"], row["column"], float(row["value"]), sd))
    return found
