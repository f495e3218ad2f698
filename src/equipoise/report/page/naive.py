"""What a number without its chance level would have said, beside what the audit found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from equipoise.formatting import amount, factor, signed
from equipoise.measure.retrieval.variants import VARIANTS
from equipoise.report.findings import main_rows, metric_name
from equipoise.report.sources import Series
from equipoise.report.svg import Scale, SvgDrawing, span
from equipoise.report.truth import Recovered
from equipoise.report.verdict.judging import adjusted, judge
from equipoise.report.verdict.outcomes import Conclusion


@dataclass(frozen=True)
class Naive:
    """A model's naive number on one axis, and the audit's."""

    label: str
    axis: str
    row: pd.Series
    """The naive number's row, from the natural pool."""
    found: pd.Series | None
    """The audit's row of the same model and axis; ``None`` where there is none."""
    outcome: Conclusion
    """What the audit shows on that axis."""
    biased: bool = False
    """Whether the audit calls it a bias."""

    @property
    def is_even(self) -> bool:
        """Whether it is held against even shares, whatever the pool shows, as its definition says."""
        return _is_even(self.row["variant"])

    @property
    def told(self) -> str:
        """The naive number as a sentence's part.

        A skew is a factor: how many times its share, even or of the pool, one group has.
        """
        value = float(self.row["value"])
        name = metric_name(str(self.row["metric"]), self.row["k"])
        times = (
            f", one group at {factor(value)} its {'even' if self.is_even else 'fair'} share"
            if self.row["metric"] == "max_skew"
            else ""
        )
        return f"{self.label} {amount(value)} ({name}{times})"


def naive_numbers(
    naive: Sequence[Series], audits: Sequence[Series], metric: str | None, truths: Sequence[Recovered] = ()
) -> list[Naive]:
    """Every naive number on a single axis, each beside the audit of the model with the same name."""
    if metric is None:
        return []
    numbers = []
    for series in naive:
        beside = next((other for other in audits if other.label == series.label), None)
        rows = adjusted(main_rows(beside, metric)) if beside is not None else pd.DataFrame()
        judged = {} if beside is None else {j.axis: j for j in reversed(judge(beside, truths))}
        for _, row in main_rows(_as_published(series, metric), metric).iterrows():
            if " x " in str(row["axis"]):
                continue
            mine = rows[rows["about"] == row["about"]] if len(rows) else rows
            said = judged.get(str(row["axis"]))
            outcome = Conclusion.CANNOT_TELL if said is None else said.outcome
            audit = mine.iloc[0] if len(mine) else None
            numbers.append(Naive(series.label, str(row["axis"]), row, audit, outcome, said is not None and said.biased))
    return numbers


def _is_even(variant: object) -> bool:
    return isinstance(variant, str) and variant in VARIANTS and VARIANTS[variant].desired == "uniform"


def _as_published(series: Series, metric: str) -> Series:
    """The series with the rows of ``metric`` that are against even shares, where it has some."""
    rows = series.results[series.results["metric"] == metric]
    even = rows[[_is_even(variant) for variant in rows["variant"]]]
    return replace(series, results=even.reset_index(drop=True)) if len(even) else series


def naive_figure(every: Sequence[Naive]) -> tuple[str, pd.DataFrame]:
    """One line per model and axis: hollow the naive number, a mark where its pool lies, filled what the audit found."""
    ordered = sorted(every, key=lambda each: each.axis)
    numbers = [float(each.row[name]) for each in ordered for name in ("value", "null_mean") if pd.notna(each.row[name])]
    numbers += [float(each.found["excess"]) for each in ordered if each.found is not None]
    height = 36.0 + 40 * len(ordered)
    drawing = SvgDrawing("naive", 720, height + 44)
    scale = Scale(*span(numbers), 210, 500)
    drawing.dot(6, 9, 5, "hollow s5")
    drawing.text(17, 13, "naive")
    drawing.line(76, 2, 76, 16, "chance")
    drawing.text(84, 13, "the pool alone")
    drawing.dot(196, 9, 5.5, "c2")
    drawing.text(207, 13, "the audit, over chance")
    drawing.x_axis(scale, 26, height, metric_name(str(ordered[0].row["metric"]), ordered[0].row["k"]))
    for number, each in enumerate(ordered):
        y = 54.0 + 40 * number
        drawing.text(0, y - 3, each.label, "bold")
        drawing.text(0, y + 12, each.row["about"], "soft small")
        if pd.notna(each.row["null_mean"]):
            at = scale(float(each.row["null_mean"]))
            drawing.line(at, y - 11, at, y + 3, "chance")
        drawing.dot(scale(float(each.row["value"])), y - 4, 5, "hollow s5", f"naive: {amount(each.row['value'])}")
        drawing.text(516, y - 3, f"naive {amount(each.row['value'])}", "num")
        if each.found is not None:
            drawing.dot(scale(float(each.found["excess"])), y + 8, 5.5, "c2", f"audit: {signed(each.found['excess'])}")
            words = {Conclusion.LEANS: "biased" if each.biased else "reacts", Conclusion.TOO_SMALL: "too small"}
            word = words.get(each.outcome, "nothing found" if each.outcome is Conclusion.NOTHING else "cannot tell")
            drawing.text(516, y + 12, f"audit {signed(each.found['excess'])}: {word}", "num bold")
    drawing.line(scale(0), 26, scale(0), height, "axis")
    return drawing.svg("Naive numbers on the natural pool beside what the audit found"), _table(ordered)


def _table(numbers: Sequence[Naive]) -> pd.DataFrame:
    rows = []
    for number in numbers:
        row = {
            "model": number.label,
            "axis": number.axis,
            "naive": number.row["value"],
            "pool_alone": number.row["null_mean"],
        }
        if isinstance(number.row["group"], str):
            row["group"] = number.row["group"]
        if number.found is not None:
            row |= {"audit_excess": number.found["excess"], "audit_p_adjusted": number.found["p_holm"]}
        rows.append({**row, "outcome": number.outcome.value, "biased": number.biased})
    return pd.DataFrame(rows)
