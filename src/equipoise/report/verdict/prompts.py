"""Which of one's own prompts lean by themselves: the mean over many prompts can hide one that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from equipoise.formatting import count, p_text, share
from equipoise.measure.notes import facts_of
from equipoise.measure.retrieval.single import SINGLE_METRIC, advice
from equipoise.report.findings import LEVEL, axis_name, is_of_prompts, metric_name, subject_rows
from equipoise.report.sources import Series

WHICH_PROMPTS = "Which single prompts lean?"
MOST_NAMED = 5
"""So many prompts are named; the tables have all of them."""


@dataclass(frozen=True)
class PromptsOfAxis:
    """The prompts of one axis, each tested by itself and corrected over all of them."""

    axis: str
    asked: int
    leaning: list[dict[Any, Any]] = field(default_factory=list)
    """The rows of the prompts that lean after the correction, the clearest first."""
    draws: int | None = None
    """Draws of the null, where the folder says how many."""
    metric: str = metric_name(SINGLE_METRIC)
    """What they were judged by, as prose calls it."""

    def told(self, *, where: str = "", p_values: bool = False) -> str:
        """One sentence: how many of how many lean, and the clearest of them with whom they put first.

        >>> PromptsOfAxis("gender", 200, [], 10_000).told()
        'None of 200 prompts leans by itself after correction over prompts (by MaxSkew).'
        >>> PromptsOfAxis("gender", 60, [], 900).told(where="on gender, ")[:72]
        'On gender, whether single prompts lean cannot be told: with 900 draws no'
        """
        text = f"{where}{self._told(p_values)}"
        return f"{text[:1].upper()}{text[1:]}."

    def _told(self, p_values: bool) -> str:
        n = count(self.asked)
        if not self.leaning:
            if self.draws is not None and (why := advice(self.asked, self.draws)):
                return f"whether single prompts lean cannot be told: {why}"
            return f"none of {n} prompts leans by itself after correction over prompts (by {self.metric})"
        named = [_named(row, p_values) for row in self.leaning[:MOST_NAMED]]
        verb = "prompts leans" if len(self.leaning) == 1 else "prompts lean"
        clearest = f", the {MOST_NAMED} clearest" if len(self.leaning) > MOST_NAMED else ""
        how = f"{verb} after correction over prompts (by {self.metric}){clearest}"
        return f"{len(self.leaning):,} of {n} {how}: {'; '.join(named)}"


def _named(row: dict[Any, Any], p_values: bool) -> str:
    """A prompt with whom it puts first, as far as its row says so."""
    known = facts_of(row, "favours")
    details, whom = [], ""
    if known is not None:
        whom = f" puts images labelled {known['group']} first"
        details = [f"{known['first']:,} of the first {known['k']:,}", f"{share(known['pool_share'])} of the pool"]
    details += [f"Holm {p_text(row['p_holm'])}"] if p_values else []
    return f'"{row["subject"]}"{whom}' + (f" ({'; '.join(details)})" if details else "")


def prompts_by_axis(series: Series) -> list[PromptsOfAxis]:
    """What single prompts show, one entry for each axis; empty of other suites, or where there is one prompt alone."""
    if not is_of_prompts(series):
        return []
    rows = subject_rows(series, SINGLE_METRIC)
    return [_of_axis(str(axis), mine, series) for axis, mine in rows.groupby("axis", sort=False) if len(mine) > 1]


def _of_axis(axis: str, rows: pd.DataFrame, series: Series) -> PromptsOfAxis:
    ordered = rows.assign(_size=-rows["excess"].astype(float).abs()).sort_values(["p_holm", "_size"], kind="stable")
    clear = ordered[ordered["p_holm"] < LEVEL]
    name = metric_name(SINGLE_METRIC, rows["k"].iloc[0])
    return PromptsOfAxis(axis, len(rows), clear.to_dict("records"), _draws(rows, series), name)


def _draws(rows: pd.DataFrame, series: Series) -> int | None:
    """How many draws the p-values rest on: as the rows say, or in older folders the settings."""
    known = (facts_of(rows.iloc[0], "holm_over") or {}).get("draws")
    draws = known if known is not None else series.source.asked.get("draws")
    return int(draws) if isinstance(draws, int) else None


def prompt_sentences(every: Sequence[PromptsOfAxis], *, of: str = "", p_values: bool = False) -> list[str]:
    """A sentence for each axis, which is named where there are several, as is the model where ``of`` names it.

    >>> prompt_sentences([PromptsOfAxis("gender", 60), PromptsOfAxis("skin_tone", 60)], of="mini")[1]
    'With mini, on skin tone, none of 60 prompts leans by itself after correction over prompts (by MaxSkew).'
    """
    whose, several = f"with {of}, " if of else "", len(every) > 1
    places = [f"{whose}on {axis_name(prompts.axis)}, " if several else whose for prompts in every]
    return [prompts.told(where=place, p_values=p_values) for prompts, place in zip(every, places, strict=True)]
