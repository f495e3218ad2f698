"""What papers report of models and remedies, shown beside a tournament of a model of that name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from equipoise.data.published import published_numbers

__all__ = ["PublishedRow", "published_rows"]

_TABLES = {
    "gensynth": ("GenSynth", ("T2", "T8")),
    "socialcounterfactuals": ("SocialCounterfactuals", ("T2", "T16", "T17")),
}
"""The tables in which papers compare remedies."""
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
    found = []
    for paper, (title, tables) in _TABLES.items():
        numbers = published_numbers(paper).numbers
        for cell in numbers[numbers["table"].isin(tables)].to_dict("records"):
            row = str(cell["row"])
            base = row.removesuffix(" pretrained").removesuffix(" debiased")
            if base == name or (name == "CLIP" and base == "CLIP-clip"):
                sd = None if pd.isna(cell["sd"]) else float(cell["sd"])
                found.append(
                    PublishedRow(f"{title} {cell['table']}", row, str(cell["column"]), float(cell["value"]), sd)
                )
    return found
