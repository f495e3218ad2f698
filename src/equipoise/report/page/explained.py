"""Figures of the page with their data and how to read them: against the truth, before and after, naive numbers."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from equipoise.formatting import csv_text, percent
from equipoise.report.page.asked import better_told
from equipoise.report.page.naive import Naive, naive_figure
from equipoise.report.truth import Recovered, truth_figure
from equipoise.report.verdict.change import change_figure
from equipoise.report.verdict.judging import level_of
from equipoise.report.verdict.repair import Repair


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page: its drawing, its data, and how to read it."""

    name: str
    title: str
    caption: str
    svg: str
    data: pd.DataFrame

    @property
    def csv(self) -> str:
        """The data as CSV."""
        return csv_text(self.data)

    @property
    def data_uri(self) -> str:
        """The data inside the page, so that it travels with it."""
        return "data:text/csv;base64," + base64.b64encode(self.csv.encode()).decode()


def explained_truth(recoveries: Sequence[Recovered], colours: dict[str, int]) -> PageFigure:
    """What was measured against the truth."""
    svg, data = truth_figure(list(recoveries), colours)
    stated = recoveries[0].stated
    tied = "was stated to be tied to it" if stated else "was tied to it in what the model learned from"
    found = ("the model does as stated", "it does not"), ("the audit found what was put in", "it was not learnt")
    rising, flat = found[not stated]
    caption = (
        f"Each dot is a subject. Across: how strongly a group {tied}, as log-odds of the first group rather than the "
        "second. Up: how much higher the model scores the first inside counterfactual sets, for a prompt that names "
        f"neither. Dots on a rising line: {rising}. A flat cloud: {flat}."
    )
    return PageFigure("truth", "Stated, and measured" if stated else "Put in, and found", caption, svg, data)


def explained_change(repair: Repair, number: int) -> PageFigure:
    """What one repair changed; ``number``: that of the repair among several."""
    svg, data = change_figure(repair.changes, (repair.before.label, repair.after.label))
    caption = (
        f"Hollow: before. Filled: after. Lines are {percent(level_of(repair.after))} intervals, the grey band is "
        "chance after the repair. The paired change, after - before, compares the same subjects; "
        f"{better_told(repair.changes[0].was.metric)} is better, and inside the band what is left cannot be told from "
        "chance."
    )
    name = "change" if number == 1 else f"change_{number}"
    title = "What the repair changed" if number == 1 else f"What {repair.after.label} changed"
    return PageFigure(name, title, caption, svg, data)


def explained_naive(numbers: Sequence[Naive]) -> PageFigure:
    """Naive numbers beside the audit."""
    svg, data = naive_figure(numbers)
    even = numbers[0].is_even
    over = "a natural, lopsided pool and against even shares" if even else "a natural pool"
    caption = (
        f"Hollow: the number without a chance level, over {over}. The thick mark is what a model blind to the groups "
        f"gets from that pool{': its own lean' if even else ''}. Filled: what the audit "
        "with counterfactual sets found, less what chance gives. A hollow dot on its mark says nothing about the model."
    )
    return PageFigure("naive", "The naive number, and the audit", caption, svg, data)
