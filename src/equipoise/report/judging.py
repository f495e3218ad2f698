"""What a verdict is made of: its paragraph and answers, and when a number is called beyond chance."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from equipoise.measure.stats import holm
from equipoise.report.findings import LEVEL

__all__ = ["Verdict", "adjusted", "beyond_chance"]

CAPTIONS, FILTERS = "And the captions?", "Were the filters even-handed?"
IS_IT, HOW_SURE, AGAINST = "Is it biased?", "How sure are we?", "Against whom?"
NAIVE, ELSEWHERE = "What would a naive number have said?", "And on other pictures?"
PUT_IN, REPAIRED = "What was put in, and was it found?", "Did the repair work?"


@dataclass
class Verdict:
    """One paragraph, its first sentence apart, and the same as short answers to the questions that people ask."""

    lead: str
    sentences: list[str] = field(default_factory=list)
    answers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole paragraph."""
        return " ".join([self.lead, *self.sentences])


def adjusted(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with ``p_holm``: their p-values, adjusted for looking at all of them.

    >>> adjusted(pd.DataFrame({"p_value": [0.01, 0.04]}))["p_holm"].tolist()
    [0.02, 0.04]
    """
    return rows.assign(p_holm=holm(rows["p_value"].to_numpy(float)) if len(rows) else [])


def beyond_chance(rows: pd.DataFrame) -> pd.Series:
    """Which rows are beyond chance by both their adjusted p-value and, where they have one, their interval."""
    above = rows["ci_low"].isna() | (rows["ci_low"] > rows["null_mean"])
    return (rows["p_holm"] < LEVEL) & (rows["excess"] > 0) & above
