"""What a terminal says, on the page: captioning models beside published numbers, and the report of a dataset."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from equipoise.formatting import amount, interval, missing
from equipoise.report.findings import axis_name, metric_name
from equipoise.report.sources import Series

__all__ = ["CaptionNumbers", "DatasetText", "caption_numbers", "dataset_text"]

CAPTION_METRICS = "lic lic_m lic_d ratio error outcome_divergence ba dba_g dba_o".split()
"""What is told of every captioning model, where it was measured."""


@dataclass(frozen=True)
class CaptionNumbers:
    """A table with a row for each model and a column for each number that some model has."""

    columns: list[str]
    rows: list[tuple[str, list[tuple[str, str, str]]]]
    """Each model with its cells: the number, its interval, and what was published of it."""


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
        found = []
        for block in self.text.split("\n\n"):
            first, *lines = block.strip("\n").split("\n")
            table = any("  " in line.strip() for line in lines)
            found.append((first, [] if table else [line.strip() for line in lines], "\n".join(lines) if table else ""))
        return found


def caption_numbers(captions: Sequence[Series]) -> CaptionNumbers | None:
    """LIC, Ratio, Error, BA and their kin of every model, each by its first definition; ``None`` without captions."""
    rows = {each.label: _first_rows(each.results) for each in captions}
    metrics = [metric for metric in CAPTION_METRICS if any(metric in mine for mine in rows.values())]
    if not metrics:
        return None
    cells = [(label, [_cell(mine.get(metric)) for metric in metrics]) for label, mine in rows.items()]
    return CaptionNumbers([metric_name(metric) for metric in metrics], cells)


def _first_rows(results: pd.DataFrame) -> dict[str, pd.Series]:
    """The row over all captions of each metric: no subject, no group, the first definition, unmasked pictures."""
    rows = results[results["subject"].isna() & results["group"].isna() & results["value"].notna()]
    whole = rows[rows["pool"].isna() | ~rows["pool"].astype(str).str.contains("mask")]
    return {str(row["metric"]): row for _, row in whole.drop_duplicates("metric").iterrows()}


def _cell(row: pd.Series | None) -> tuple[str, str, str]:
    if row is None:
        return "–", "", ""
    digits = 1 if str(row["metric"]).startswith("lic") else 3
    published = "" if missing(row["published"]) else f"published: {_published(row['published'], digits)}"
    return amount(row["value"], digits), interval(row["ci_low"], row["ci_high"], digits), published


def _published(value: object, digits: int) -> str:
    return value if isinstance(value, str) else amount(value, digits)


def dataset_text(series: Series, problems: list[str]) -> DatasetText | None:
    """The report of a dataset as the terminal had it, with its maps; ``None`` where the folder does not hold it."""
    home = series.source.path
    try:
        text = (home / "report.txt").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        problems.append(f"{home.name}/report.txt is missing or damaged; words, clusters and objects are not shown")
        return None
    files = sorted(home.glob("map_*.svg"))
    maps = [(axis_name(file.stem.removeprefix("map_")), _address(file.read_bytes())) for file in files]
    return DatasetText(series.label, text, maps)


def _address(drawing: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(drawing).decode()
