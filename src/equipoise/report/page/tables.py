"""The tables of the page as plain cells: subjects, all numbers, the filters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from equipoise.formatting import amount, count, interval, p_number, share, signed
from equipoise.measure.notes import counted, pair_of
from equipoise.report.findings import LEVEL, axis_name, leans, metric_name, subject_rows
from equipoise.report.sources import Series

__all__ = ["SUBJECT_COLUMNS", "SubjectRow", "all_rows", "funnel_rows", "subject_table"]

SUBJECT_COLUMNS = (
    ("subject", "subject", False),
    ("axis", "axis", False),
    ("favours", "favours", False),
    ("value", "value", True),
    ("chance", "chance", True),
    ("excess", "excess", True),
    ("p", "p", True),
    ("n", "n", True),
    ("metric", "metric", False),
    ("model", "model", False),
)
MOST_ROWS = 5000
_GAP = "counterfactual_gap"


@dataclass(frozen=True)
class SubjectRow:
    """One row of the table of subjects: its words, and its numbers as shown and as sorted."""

    subject: str
    model: str
    axis: str
    metric: str
    favours: str
    sure: bool
    numbers: tuple[tuple[str, str], ...]


def subject_table(series: Sequence[Series], metric: str) -> tuple[list[SubjectRow], pd.DataFrame, str]:
    """The rows, the largest excess first, the same as data, and a note where rows had to be left out."""
    parts = []
    for wanted in dict.fromkeys((metric, _GAP)):
        for each in series:
            mine = subject_rows(each, wanted)
            if len(mine):
                parts.append(mine.assign(label=each.label, favours=_favours(each, mine)))
    if not parts:
        return [], pd.DataFrame(), ""
    frame = pd.concat(parts, ignore_index=True)
    frame = frame.sort_values(["excess", "subject"], ascending=[False, True], na_position="last", kind="stable")
    shown = frame if len(frame) <= MOST_ROWS else frame[frame["metric"] == metric].head(MOST_ROWS)
    note = "" if len(shown) == len(frame) else f"{len(shown):,} of {len(frame):,} rows are shown here."
    columns = ["subject", "label", "axis", "group", "metric", "k", "favours", "value", "null_mean", "null_sd"]
    columns += ["excess", "ci_low", "ci_high", "p_value", "n", "notes"]
    return [_row(row) for row in shown.to_dict("records")], frame[columns], note


def _favours(series: Series, rows: pd.DataFrame) -> list[str]:
    """Whom each row favours: the sign of a gap says it; a skew alone does not, so the axis's gaps are asked."""
    known = {(lean.axis, lean.subject): lean.towards for lean in leans(series)}
    named = []
    for row in rows.to_dict("records"):
        if row["metric"] == _GAP:
            first, second = pair_of(row) or (str(row["group"]), "–")
            named.append(first if row["value"] > 0 else second)
        else:
            named.append(known.get((row["axis"], row["subject"]), "–"))
    return named


def _row(row: Mapping[Any, Any]) -> SubjectRow:
    groups = pair_of(row)
    pair = f": {groups[0]} − {groups[1]}" if groups else f": {row['group']}" if isinstance(row["group"], str) else ""
    digits = 3 if row["metric"] == _GAP else 2
    p = row["p_value"]
    numbers = [
        (amount(row["value"], digits), row["value"]),
        (amount(row["null_mean"], digits), row["null_mean"]),
        (signed(row["excess"], digits), row["excess"]),
        (p_number(p), p),
        (counted(row), row["n"]),
    ]
    return SubjectRow(
        subject=str(row["subject"]),
        model=str(row["label"]),
        axis=axis_name(row["axis"]) + pair,
        metric=metric_name(str(row["metric"]), row["k"]),
        favours=str(row["favours"]),
        sure=bool(pd.notna(p) and p < LEVEL),
        numbers=tuple((text, _key(value)) for text, value in numbers),
    )


def _key(value: Any) -> str:
    """A number as the script sorts it: short, and empty where there is none."""
    if value is None or pd.isna(value):
        return ""
    number = float(value)
    return f"{number:.6g}" if math.isfinite(number) else ("1e99" if number > 0 else "-1e99")


def all_rows(series: Sequence[Series]) -> list[list[str]]:
    """Every number over all subjects, as cells."""
    rows = []
    for each in series:
        for row in each.results[each.results["subject"].isna()].to_dict("records"):
            name = metric_name(str(row["metric"]), row["k"])
            if isinstance(row["variant"], str) and row["variant"] != "equipoise":
                name += f" ({row['variant']})"
            p = row["p_value"]
            rows.append(
                [
                    name,
                    each.label,
                    axis_name(row["axis"]),
                    row["group"] if isinstance(row["group"], str) else "–",
                    row["pool"] if isinstance(row["pool"], str) else "–",
                    amount(row["value"], 3),
                    amount(row["null_mean"], 3),
                    signed(row["excess"], 3),
                    interval(row["ci_low"], row["ci_high"], 3) or "–",
                    p_number(p),
                    counted(row),
                ]
            )
    return rows


def _dropped(group: str, rate: float, row: Mapping[Any, Any]) -> str:
    """A group and how much of it was dropped; where all groups lose alike, no group stands out."""
    alike = row["highest_rate"] == row["lowest_rate"]
    return f"{('nobody' if rate == 0 else 'all alike') if alike else group} ({share(rate, 1)})"


def funnel_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The filters' table as cells."""
    rows = []
    for row in table.to_dict("records"):
        p = row["p_value"]
        alike = p is None or pd.isna(p)
        cells = [
            (count(row["kept"]), True),
            (count(row["dropped"]), True),
            (_dropped(row["most_dropped"], row["highest_rate"], row), False),
            (_dropped(row["least_dropped"], row["lowest_rate"], row), False),
            ("–" if alike else p_number(p), True),
            (count(row["n"]), True),
        ]
        rows.append({"step": row["step"], "cells": cells})
    return rows
