"""Before and after a remedy: the same subjects, paired, and what is left over chance."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from equipoise.formatting import p_text, signed
from equipoise.measure.stats import Estimate, compare, holm
from equipoise.report.findings import main_metric, main_rows, metric_name, of_placebo, perceived, subject_rows
from equipoise.report.sources import Series
from equipoise.report.svg import SERIES_COLOURS, Scale, SvgDrawing, span
from equipoise.report.verdict.judging import EDITED
from equipoise.report.verdict.outcomes import LEVEL, SIGNED, SPREADS, UPWARDS, WORSE_BELOW, Reading, read_row

REPAIRED_BY = ("standard_gap_size", "max_skew")
"""What a repair is judged by, the best first: sizes that do not change when all scores are halved."""
SMALLER, LARGER, SAME, UNCLEAR = "smaller", "larger", "the same", "no clear change"
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class Change:
    """What a remedy did on one axis, or between two of its groups."""

    axis: str
    before: pd.Series
    after: pd.Series
    difference: Estimate | None
    """Before - after, towards worse, over the subjects that both have; ``None`` where their values are not there."""
    p: float | None = None
    """Of the difference, adjusted for all changes looked at."""
    spreads: float = SPREADS

    @property
    def about(self) -> str:
        """The axis in prose, with the pair of groups where the axis has several."""
        return str(self.before["about"])

    @property
    def p_told(self) -> str:
        """The p-value of the difference in words: the adjusted one where there is one."""
        return p_text(self.p if self.p is not None or self.difference is None else self.difference.p_value)

    @property
    def was(self) -> Reading:
        """The size before."""
        return read_row(self.before, float(self.before["p_value"]), spreads=self.spreads)

    @property
    def left(self) -> Reading:
        """The size after."""
        return read_row(self.after, float(self.after["p_value"]), spreads=self.spreads)

    @property
    def told(self) -> str:
        """What happened to it: ``smaller``, ``larger``, ``the same`` (inside the margin), or ``no clear change``."""
        was, left = self.was, self.left
        if was.low is not None and left.high is not None and left.high < was.low:
            return SMALLER
        if was.high is not None and left.low is not None and was.high < left.low:
            return LARGER
        d = self.difference
        if d is None or d.p_value is None:
            return UNCLEAR
        if (d.p_value if self.p is None else self.p) < LEVEL and abs(d.value) > _NOTHING:
            if d.value > 0 and was.metric in SIGNED and left.size > was.size:
                return UNCLEAR  # it went to the other side of chance, and may lie farther from it there
            return SMALLER if d.value > 0 else LARGER
        ends = (d.value, d.value) if d.ci_low is None or d.ci_high is None else (d.ci_low, d.ci_high)
        flat = d.ci_low is not None or abs(d.value) < _NOTHING
        small = was.margin is not None and max(map(abs, ends)) <= was.margin
        return SAME if flat and small else UNCLEAR

    @property
    def gone(self) -> bool:
        """Whether the interval of what is left lies inside the margin."""
        return self.left.within_margin

    @property
    def was_small(self) -> bool:
        """Whether there was nothing to repair: the interval before it lies inside the margin already."""
        return self.was.within_margin


def repaired_by(before: Series, after: Series) -> str | None:
    """The metric that a repair is judged by: the first that both audits have."""
    both = (metric for metric in REPAIRED_BY if all(len(main_rows(audit, metric)) for audit in (before, after)))
    return next(both, None) or main_metric([before, after])


def changes(before: Series, after: Series, metric: str, *, spreads: float = SPREADS) -> list[Change]:
    """The change of ``metric`` on every axis and pair of groups that both audits have at the same K.

    Of several pools it is the one where only the person differs, as everywhere in a verdict, or else each by name.
    """
    first, second = ({_key(row): row for _, row in main_rows(audit, metric).iterrows()} for audit in (before, after))
    both = {key: row for key, row in first.items() if key in second and not of_placebo(row)}
    pools = {row["pool"] for row in both.values() if pd.notna(row["pool"])}
    if len(pools) > 1 and EDITED in pools:
        both = {key: row for key, row in both.items() if row["pool"] == EDITED}
    elif len(pools) > 1:
        both = {key: _with_pool(row) for key, row in both.items()}
    rows = [(row, second[key], _paired(before, after, row)) for key, row in both.items()]
    p = holm([1.0 if d is None or d.p_value is None else d.p_value for _, _, d in rows])
    return [
        Change(str(row["axis"]), row, after_row, difference, None if difference is None else float(at), spreads)
        for (row, after_row, difference), at in zip(rows, p, strict=True)
    ]


def _key(row: pd.Series) -> tuple[object, ...]:
    return tuple(None if pd.isna(row[name]) else row[name] for name in ("axis", "pool", "group", "k"))


def _with_pool(row: pd.Series) -> pd.Series:
    about = row["about"] if pd.isna(row["pool"]) else f"{row['about']} on {row['pool']} pictures"
    return pd.Series({**row, "about": about})


def _paired(before: Series, after: Series, row: pd.Series) -> Estimate | None:
    values = [_values(audit, row) for audit in (before, after)]
    if values[0] is None or values[1] is None:
        return None
    both = pd.concat(values, axis=1, join="inner").dropna()
    if len(both) < 2:
        return None
    worse = towards_worse(row)
    return compare(worse * both.iloc[:, 0].to_numpy(float), worse * both.iloc[:, 1].to_numpy(float))


def towards_worse(row: pd.Series) -> int:
    """1 where more of a number is worse, -1 where less is: of a signed one, the side of chance on which it lies.

    >>> [towards_worse(pd.Series({"metric": m, "excess": -0.4})) for m in ("bias_at_k", "max_skew", "min_skew")]
    [-1, 1, -1]
    """
    if row["metric"] in WORSE_BELOW:
        return -1
    return -1 if row["metric"] in SIGNED - UPWARDS and row["excess"] < 0 else 1


def _values(audit: Series, row: pd.Series) -> pd.Series | None:
    """Each subject's excess over its own chance; where that is not there, its value as the queries have it."""
    mine = _like(subject_rows(audit, str(row["metric"])), row)
    if len(mine) and mine["excess"].notna().all():
        return mine.groupby("subject")["excess"].mean().astype(float)
    if row["metric"] == "standard_gap_size" and mine.empty:
        mine = _like(subject_rows(audit, "standard_gap"), pd.Series({**row, "metric": "standard_gap"}))
        if len(mine):
            return mine.groupby("subject")["value"].mean().abs().astype(float)
    if audit.source.queries is None:
        return None
    mine = _like(audit.source.queries, row)
    return None if mine.empty else mine.groupby("query")["value"].mean().astype(float)


def _like(frame: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
    """The rows of the same metric, axis, definition, pool, group and K as ``row``."""
    for name in ("metric", "axis", "variant", "pool", "group", "k"):
        frame = frame[frame[name].isna()] if pd.isna(row[name]) else frame[frame[name] == row[name]]
    return frame


def change_figure(every: list[Change], labels: tuple[str, str]) -> tuple[str, pd.DataFrame]:
    """One line per axis: hollow where it was before, filled where it is after, grey where chance alone would lie."""
    rows = [row for change in every for row in (change.before, change.after)]
    height = 36.0 + 46 * len(every)
    drawing = SvgDrawing("change", 720, height + 44)
    scale = Scale(*span(_end(row, name) for row in rows for name in ("ci_low", "ci_high")), 150, 410)
    metric = metric_name(str(rows[0]["metric"]), rows[0]["k"])
    drawing.dot(6, 9, 5, "hollow s5")
    drawing.text(17, 13, f"before: {labels[0]}")
    drawing.dot(30 + 7.2 * len(labels[0] + "before: "), 9, 5.5, "c2")
    drawing.text(41 + 7.2 * len(labels[0] + "before: "), 13, f"after: {labels[1]}")
    drawing.x_axis(scale, 26, height, f"{metric}, excess over chance")
    for number, change in enumerate(every):
        _change_row(drawing, change, scale, 56.0 + 46 * number)
    drawing.line(scale(0), 26, scale(0), height, "axis")
    table = pd.DataFrame([_as_row(change) for change in every])
    return drawing.svg(f"{metric} before and after, excess over chance by axis"), table


def _change_row(drawing: SvgDrawing, change: Change, scale: Scale, y: float) -> None:
    axis = perceived(change.before["axis"])
    pair = change.about.removeprefix(axis).strip()
    drawing.text(0, y + (-2 if pair else 4), axis, "bold")
    if pair:
        drawing.text(0, y + 14, pair, "soft small")
    if pd.notna(change.after["null_sd"]):
        half = 1.96 * change.after["null_sd"]
        drawing.rect(scale(-half), y - 13, scale(half) - scale(-half), 26, "band")
    before, after = scale(change.before["excess"]), scale(change.after["excess"])
    for row, at, kind in ((change.before, y - 6, "s5"), (change.after, y + 6, "s2")):
        if pd.notna(row["ci_low"]):
            drawing.line(scale(_end(row, "ci_low")), at, scale(_end(row, "ci_high")), at, f"thin {kind}")
    drawing.dot(before, y - 6, 5, f"hollow s{5 % SERIES_COLOURS}", f"before: {signed(change.before['excess'])}")
    drawing.dot(after, y + 6, 5.5, "c2", f"after: {signed(change.after['excess'])}")
    label = f"{signed(change.before['excess'])} → {signed(change.after['excess'])}"
    drawing.text(426, y - 2, f"{label}: {change.told}", "num bold")
    if change.difference is not None:
        d, worse = change.difference, towards_worse(change.before)
        ends = sorted(-worse * end for end in (d.ci_low, d.ci_high) if end is not None)
        span = f" [{signed(ends[0])}, {signed(ends[1])}]" if len(ends) == 2 else ""
        told = f"after - before {signed(-worse * d.value)}{span}, {change.p_told}, n = {d.n}"
        drawing.text(426, y + 14, told, "soft num small wide")


def _as_row(change: Change) -> dict[str, object]:
    d = change.difference
    row: dict[str, object] = {"axis": change.axis, "metric": change.before["metric"], "change": change.told}
    for name, some in (("before", change.before), ("after", change.after)):
        row |= {
            f"{name}_{key}": some[key] for key in ("value", "null_mean", "excess", "ci_low", "ci_high", "p_value", "n")
        }
    if isinstance(change.before["group"], str):
        row["group"] = change.before["group"]
    if d is not None:
        row |= {"before_minus_after": d.value, "low": d.ci_low, "high": d.ci_high, "p_value": d.p_value, "n": d.n}
    return row


def _end(row: pd.Series, name: str) -> float:
    return float((row["value"] if pd.isna(row[name]) else row[name]) - row["null_mean"])
