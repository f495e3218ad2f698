"""The page of a study: one part for each table or figure of a paper, what was measured beside what was published.

Beside the page lie ``tables`` (every number as CSV, with chance level, interval, n, the published value, where it
stands and what is doubtful about it) and ``figures`` (SVG).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise import __version__
from equipoise.data.atomic import write_whole
from equipoise.formatting import amount, csv_text, interval, missing, p_plain, plain, text_table
from equipoise.report.svg import asset, standalone

MEASURED = ("measured", "low", "high", "chance", "p", "n", "published", "published_sd", "published_at", "doubt")
"""The columns of a measured number, in the order in which a CSV has them, behind those that say what it is of."""


@dataclass(frozen=True)
class StudyTable:
    """One table: text columns say what a row is of; the columns of :data:`MEASURED` are shown in their own way.

    >>> frame = pd.DataFrame({"model": ["NIC"], "measured": [42.4], "low": [41.8], "high": [43.0], "published": [43.2]})
    >>> print(StudyTable("T2.2", "LIC_M", frame, digits=1))
    LIC_M
    model  measured  95% interval  published  measured - published
    NIC        42.4  41.8 to 43.0       43.2                  -0.8
    """

    name: str
    title: str
    frame: pd.DataFrame
    digits: int = 2
    note: str = ""

    def lines(self, *, page: bool) -> tuple[list[str], list[list[str]], int]:
        """Heads, rows of texts, and how many of the first columns hold text."""
        frame = self.frame
        texts = [str(name) for name in frame.columns if name not in MEASURED]
        heads = list(texts)
        number = amount if page else plain
        columns: list[list[str]] = [[_text(value, number, self.digits) for value in frame[name]] for name in texts]
        for name in ("measured", "chance", "p", "n", "published"):
            if name not in frame or frame[name].isna().all():
                continue
            heads.append(name)
            columns.append([self._cell(name, row, number) for row in frame.to_dict("records")])
            if name == "measured" and "low" in frame and frame["low"].notna().any():
                heads.append("95% interval")
                ends = zip(frame["low"], frame["high"], strict=True)
                columns.append(["" if missing(low) else interval(low, high, self.digits) for low, high in ends])
        if {"measured", "published"} <= set(frame.columns) and frame["published"].notna().any():
            heads.append("measured − published" if page else "measured - published")
            gaps = frame["measured"] - frame["published"]
            columns.append(["" if missing(gap) else number(gap, self.digits) for gap in gaps])
        return heads, [list(row) for row in zip(*columns, strict=True)], len(texts)

    def _cell(self, name: str, row: Mapping[Any, Any], number: Any) -> str:
        value = row[name]
        if missing(value):
            return ""
        if name == "n":
            return f"{int(value):,}"
        if name == "p":
            return p_plain(value)
        text = str(number(value, self.digits))
        deviation = row.get("published_sd") if name == "published" else None
        doubt = "?" if name == "published" and row.get("doubt") else ""
        return f"{text}{doubt}" if missing(deviation) else f"{text} ± {number(deviation, self.digits)}{doubt}"

    def __str__(self) -> str:
        heads, rows, texts = self.lines(page=False)
        return "\n".join([self.title, *text_table([heads, *rows], left=range(texts))])

    @property
    def doubts(self) -> list[str]:
        """What is doubtful about published numbers in this table, each once."""
        if "doubt" not in self.frame:
            return []
        return [text for text in dict.fromkeys(self.frame["doubt"].dropna()) if text]


@dataclass(frozen=True)
class StudyFigure:
    """One figure: its SVG and the numbers in it."""

    name: str
    title: str
    caption: str
    svg: str
    data: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class StudyPart:
    """What a study says to one table or figure of the paper."""

    name: str
    """As the paper calls it: "Table 2.1", "Figures 3 and 6"."""
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[StudyTable, ...] = ()
    figures: tuple[StudyFigure, ...] = ()
    made_from: str = ""

    @property
    def anchor(self) -> str:
        """Its address on the page."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.name} {self.title}".lower()).strip("-")

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.title}"]
        for table in self.tables:
            if not table.name.endswith("-published"):  # a paper's own tables are on the page
                lines += ["", str(table), *([table.note] if table.note else [])]
        return "\n".join([*lines, *([""] if self.text else []), *self.text])


@dataclass(frozen=True)
class StudyPage:
    """All of a study."""

    title: str
    citation: str
    question: str
    facts: Sequence[str]
    parts: Sequence[StudyPart]
    missing: Sequence[tuple[str, str, str]] = ()
    """Name, what it is, and why it is not here."""
    limits: Sequence[str] = ()


def measured_cells(row: Mapping[Any, Any], scale: float = 1.0) -> dict[str, Any]:
    """A row of a results table as the columns of a study's table; ``scale`` 100 turns shares into points.

    >>> row = {"value": 0.2, "ci_low": 0.1, "ci_high": 0.3, "null_mean": 0.0, "p_value": 0.01, "n": 9}
    >>> measured_cells(row, 100)["high"]
    30.0
    """
    names = {"measured": "value", "low": "ci_low", "high": "ci_high", "chance": "null_mean"}
    cells: dict[str, Any] = {
        name: None if missing(row.get(key)) else float(row[key]) * scale for name, key in names.items()
    }
    return {**cells, "p": row.get("p_value"), "n": row.get("n")}


def write_study(page: StudyPage, folder: Path) -> Path:
    """Write ``report.html``, ``tables`` and ``figures`` into ``folder``; the page is returned."""
    for part in page.parts:
        for table in part.tables:
            _write(folder / "tables" / f"{_file_name(part, table.name)}.csv", csv_text(table.frame))
        for figure in part.figures:
            name = _file_name(part, figure.name)
            _write(folder / "figures" / f"{name}.svg", standalone(figure.svg))
            if len(figure.data):
                _write(folder / "figures" / f"{name}.csv", csv_text(figure.data))
    _write(folder / "report.html", _rendered(page))
    return folder / "report.html"


def _rendered(page: StudyPage) -> str:
    from jinja2 import Environment

    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(asset("study.html"))
    style = asset("colours.css") + asset("figure.css") + asset("page.css")
    names = {(part.anchor, table.name): _file_name(part, table.name) for part in page.parts for table in part.tables}
    text = template.render(page=page, style=style, version=__version__, names=names)
    return str(text).lstrip()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def _file_name(part: StudyPart, name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name or part.name).strip("-").lower()


def _text(value: Any, number: Any, digits: int) -> str:
    if missing(value):
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else str(number(value, digits))
