"""The tables of the page as plain cells: subjects, all numbers, the filters, and what a terminal says.

The last are captioning models beside published numbers, and the report of a dataset.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data.results import RANDOM_RANKING_TOLD
from equipoise.formatting import amount, count, interval, missing, p_number, share, signed
from equipoise.measure import METRICS
from equipoise.measure.notes import N_OF_SOURCES, counted, facts_of, pair_of
from equipoise.measure.sides import favoured, sign_told
from equipoise.report.findings import LEVEL, axis_name, corrected_column, leans, metric_name, subject_rows
from equipoise.report.page.gallery import PictureOrder
from equipoise.report.sources import Series

_NUMBERS = ("value", "chance", "excess", "p", "n")
SUBJECT_COLUMNS = [(name, name in _NUMBERS) for name in ("subject", "axis", "favours", *_NUMBERS, "metric", "model")]
"""The columns of the table of subjects, and whether each holds numbers."""
MOST_ROWS = 5000
_GAP = "counterfactual_gap"
_AMOUNTS = ("value", "null_mean", "excess", "ci_low", "ci_high")
_TWO_CHANCES = (
    "Two kinds of chance stand here: the random ranking puts the whole pool in order by lot, while the chance level of "
    "a model keeps its ranking and shuffles labels, those of edits among the edits of one photograph, which lie close "
    "together in it; so the two differ on the same pool."
)
"""The random ranking is a yardstick, and not the null of a model's rows."""


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


def subject_table(
    series: Sequence[Series], metric: str, rankings: Mapping[str, PictureOrder]
) -> tuple[list[SubjectRow], pd.DataFrame, str]:
    """The rows, the largest excess first, the same as data, and a note where rows had to be left out.

    ``rankings``: of the models that have one, by their label.
    """
    parts = []
    for wanted in dict.fromkeys((metric, _GAP)):
        for each in series:
            mine = subject_rows(each, wanted)
            if len(mine):
                parts.append(mine.assign(label=each.label, favours=_favours(each, mine, rankings.get(each.label))))
    if not parts:
        return [], pd.DataFrame(), ""
    frame = pd.concat(parts, ignore_index=True)
    frame = frame.sort_values(["excess", "subject"], ascending=[False, True], na_position="last", kind="stable")
    shown = frame if len(frame) <= MOST_ROWS else frame[frame["metric"] == metric].head(MOST_ROWS)
    note = "" if len(shown) == len(frame) else f"{len(shown):,} of {len(frame):,} rows are shown here."
    columns = ["subject", "label", "axis", "group", "metric", "k", "favours", "value", "null_mean", "null_sd"]
    columns += ["excess", "ci_low", "ci_high", "p_value", *corrected_column(frame), "n", "notes"]
    return [_row(row) for row in shown.to_dict("records")], frame[columns], note


def _favours(series: Series, rows: pd.DataFrame, ranking: PictureOrder | None) -> list[str]:
    """Whom each row favours: the sign of a gap says it, or a note; a skew alone does not, so the axis's gaps are asked,
    or where there are no sets, who has most above their share among the first pictures.
    """
    known = {(lean.axis, lean.subject): lean.towards for lean in leans(series)}
    for axis, k in () if ranking is None else rows[["axis", "k"]].dropna().drop_duplicates().itertuples(index=False):
        assert ranking is not None
        if all(part in ranking.frame for part in str(axis).split(" x ")):
            known = {(axis, name): group for name, group in ranking.most_above(str(axis).split(" x "), int(k))} | known
    named = []
    for row in rows.to_dict("records"):
        # pictures that are less lopsided than luck makes them favour nobody
        less = row["metric"] in ("max_skew", "ndkl") and not row["excess"] > 0
        named.append("–" if less else favoured(row) or known.get((row["axis"], row["subject"]), "–"))
    return named


def _row(row: Mapping[Any, Any]) -> SubjectRow:
    groups = pair_of(row)
    pair = f": {groups[0]} − {groups[1]}" if groups else f": {row['group']}" if isinstance(row["group"], str) else ""
    digits = 3 if row["metric"] == _GAP else 2
    p = row["p_shown"]
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
    if missing(value):
        return ""
    number = float(value)
    return f"{number:.6g}" if math.isfinite(number) else ("1e99" if number > 0 else "-1e99")


def numbers_told(series: Sequence[Series]) -> str:
    """What stands above the table of all numbers: how to read its cells."""
    told = "Where a cell holds a dash, the number does not apply."
    told += f" {RANDOM_RANKING_TOLD}." if any(each.is_yardstick for each in series) else ""
    rows = [row for each in series for row in each.results[["metric", "codes", "subject"]].to_dict("records")]
    whole = [row for row in rows if missing(row["subject"])]
    signs = dict.fromkeys(sign for row in whole if (sign := sign_told(row, f"{metric_name(str(row['metric']))}@K")))
    told += "".join(f" {sign}." for sign in signs)
    if any(each.is_yardstick for each in series):
        told += f" {_TWO_CHANCES}"
    return told + (f" {N_OF_SOURCES}." if any(facts_of(row, "sources") for row in whole) else "")


def all_rows(series: Sequence[Series]) -> list[list[str]]:
    """Every number over all subjects, as cells."""
    rows = []
    for each in series:
        for row in each.results[each.results["subject"].isna()].to_dict("records"):
            name = metric_name(str(row["metric"]), row["k"])
            if isinstance(row["variant"], str) and row["variant"] != "equipoise":
                name += f" ({row['variant']})"
            scale = METRICS.find(str(row["metric"])).scale if each.source.kind == "captions" else 1
            name += " × 100" if scale == 100 else ""
            value, null, excess, low, high = (_times(scale, row[of]) for of in _AMOUNTS)
            rows.append(
                [
                    name,
                    each.label,
                    axis_name(row["axis"]),
                    row["group"] if isinstance(row["group"], str) else "–",
                    row["pool"] if isinstance(row["pool"], str) else "–",
                    favoured(row) or "–",
                    amount(value, 3),
                    interval(low, high, 3) or "–",
                    amount(null, 3),
                    signed(excess, 3),
                    p_number(row["p_value"]),
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
        cells = [
            (count(row["kept"]), True),
            (count(row["dropped"]), True),
            (_dropped(row["most_dropped"], row["highest_rate"], row), False),
            (_dropped(row["least_dropped"], row["lowest_rate"], row), False),
            ("–" if missing(row["p_value"]) else p_number(row["p_value"]), True),
            (count(row["n"]), True),
        ]
        rows.append({"step": row["step"], "cells": cells})
    return rows


CAPTION_METRICS = "lic lic_m lic_d ratio error outcome_divergence ba dba_g dba_o".split()
"""What is told of every captioning model, where it was measured."""


@dataclass(frozen=True)
class CaptionNumbers:
    """A table with a row for each model and a column for each number that some model has."""

    columns: list[str]
    rows: list[tuple[str, list[tuple[str, str, str]]]]
    """Each model with its cells: the number, its interval, and what was published of it."""
    said: list[str] = field(default_factory=list)
    """What may be said of each model and number, as the terminal had it."""


@dataclass(frozen=True)
class DatasetText:
    """What the terminal said of a dataset, and the maps of its clusters."""

    label: str
    text: str
    maps: list[tuple[str, str]]
    """Each axis with its map as an address inside the page."""

    @property
    def parts(self) -> list[tuple[str, list[str], str]]:
        """Its paragraphs: the first line, and either sentences, which wrap, or a table, which does not.

        >>> DatasetText("a", "a.csv: 2 images\\n\\nWords\\n  nothing stands out\\n\\nGroups\\n  f    1", []).parts
        [('a.csv: 2 images', [], ''), ('Words', ['nothing stands out'], ''), ('Groups', [], '  f    1')]
        """
        paragraphs = []
        for block in self.text.split("\n\n"):
            first, *lines = block.strip("\n").split("\n")
            table = any("  " in line.strip() for line in lines)
            sentences = [] if table else [line.strip() for line in lines]
            paragraphs.append((first, sentences, "\n".join(lines) if table else ""))
        return paragraphs


def caption_numbers(captions: Sequence[Series]) -> CaptionNumbers | None:
    """LIC, Ratio, Error, BA and their kin of every model, each by its first definition; ``None`` without captions."""
    rows = {each.label: _first_rows(each.results) for each in captions}
    metrics = [metric for metric in CAPTION_METRICS if any(metric in mine for mine in rows.values())]
    if not metrics:
        return None
    cells = [(label, [_cell(mine.get(metric)) for metric in metrics]) for label, mine in rows.items()]
    heads = [metric_name(metric) + (" × 100" if METRICS.find(metric).scale == 100 else "") for metric in metrics]
    folders = dict.fromkeys(each.source.path for each in captions)
    return CaptionNumbers(heads, cells, [line for folder in folders for line in _may_be_said(folder)])


def _may_be_said(folder: Path) -> list[str]:
    """The sentences on each model of a folder of captions; none where its text is not there or has none."""
    try:
        text = (folder / "report.txt").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    block = next((part for part in text.split("\n\n") if part.startswith("What may be said")), "")
    return [line.strip() for line in block.split("\n")[1:]]


def _first_rows(results: pd.DataFrame) -> dict[str, pd.Series]:
    """The row over all captions of each metric: no subject, no group, the first definition, unmasked pictures."""
    rows = results[results["subject"].isna() & results["group"].isna() & results["value"].notna()]
    whole = rows[rows["pool"].isna() | ~rows["pool"].astype(str).str.contains("mask")]
    return {str(row["metric"]): row for _, row in whole.drop_duplicates("metric").iterrows()}


def _cell(row: pd.Series | None) -> tuple[str, str, str]:
    if row is None:
        return "–", "", ""
    scale = METRICS.find(str(row["metric"])).scale
    digits = 1 if scale == 100 or str(row["metric"]).startswith("lic") else 3
    told = row["published"]  # which is kept as it was printed
    published = "" if missing(told) else f"published: {told if isinstance(told, str) else amount(told, digits)}"
    value, low, high = (_times(scale, row[name]) for name in ("value", "ci_low", "ci_high"))
    return amount(value, digits), interval(low, high, digits), published


def _times(scale: int, value: Any) -> Any:
    """A number as tables of captions print it, and what is none as it is."""
    return value if missing(value) or isinstance(value, str) else scale * float(value)


def dataset_text(series: Series, problems: list[str]) -> DatasetText | None:
    """The report of a dataset as the terminal had it, with its maps; ``None`` where the folder does not hold it."""
    home = series.source.path
    try:
        text = (home / "report.txt").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        problems.append(f"{home.name}/report.txt is missing or damaged; words, clusters and objects are not shown")
        return None
    files = sorted(home.glob("map_*.svg"))
    drawn = ["data:image/svg+xml;base64," + base64.b64encode(file.read_bytes()).decode() for file in files]
    names = [axis_name(file.stem.removeprefix("map_")) for file in files]
    return DatasetText(series.label, text, list(zip(names, drawn, strict=True)))
