"""Against a known truth: what was put in, subject by subject, and how well the measured preferences follow it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.errors import InputError
from equipoise.formatting import amount
from equipoise.measure.notes import pair_of
from equipoise.measure.stats import Estimate
from equipoise.measure.stats.correlation import pearson
from equipoise.report.findings import axis_name, subject_rows
from equipoise.report.sources import Series
from equipoise.report.svg import SERIES_COLOURS, Scale, SvgDrawing, ticks
from equipoise.text.labels import label_text

_NAMES = ("subject", "axis", "group")
_NEEDED = (*_NAMES, "log_odds")
_LEAST = 3
GAPS = ("counterfactual_gap", "naming_gap")
"""What can be held against a truth: score gaps inside sets, and how much more often captions name one group."""


@dataclass(frozen=True)
class Recovered:
    """Measured preferences beside the injected ones, on one axis, for one pair of groups and one model."""

    label: str
    axis: str
    pair: tuple[str, str]
    table: pd.DataFrame
    """One row per subject: ``subject``, ``injected`` (log-odds of the first group, not the second), ``measured``."""
    stated: bool = False
    """Whether somebody only said so, in a table of their own: what they expect, or what they know."""

    @property
    def called(self) -> str:
        """What was done with the truth, for a sentence: it was put in, or stated."""
        return "stated" if self.stated else "put in"

    @cached_property
    def estimate(self) -> Estimate | None:
        """Pearson's r over subjects with its interval and p-value; ``None`` where one side does not vary."""
        flat = len(self.table) == 0 or np.ptp(self.table["injected"]) < 1e-9  # log-odds of nothing, but for rounding
        return None if flat else pearson(self.table["injected"], self.table["measured"])

    @property
    def correlation(self) -> float | None:
        """Pearson's r over subjects; ``None`` where one side does not vary."""
        return None if self.estimate is None else self.estimate.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the correlation (Fisher's z)."""
        if self.estimate is None or self.estimate.ci_low is None or self.estimate.ci_high is None:
            return None
        return self.estimate.ci_low, self.estimate.ci_high

    @property
    def same_direction(self) -> tuple[int, int]:
        """Of the subjects into which something was put, how many are measured in the same direction; of how many."""
        leaning = self.table[self.table["injected"].abs() > 1e-9]
        return int((np.sign(leaning["injected"]) == np.sign(leaning["measured"])).sum()), len(leaning)


def read_truth(truth: str | Path | pd.DataFrame | None) -> pd.DataFrame | None:
    """The injected truth: a DataFrame or CSV file with ``subject, axis, group, log_odds``, or ``world:PRESET``.

    >>> read_truth("world:biased").query("subject == 'nurse' and group == 'female'")["log_odds"].round(1).item()
    2.4
    """
    if truth is None:
        return None
    frame = truth if isinstance(truth, pd.DataFrame) else _from_name(str(truth))
    missing = [name for name in _NEEDED if name not in frame]
    if missing:
        where = "the table of truth" if isinstance(truth, pd.DataFrame) else str(truth)
        raise InputError(f"{where} has no column {missing[0]!r}; it needs {', '.join(_NEEDED)}")
    if not pd.api.types.is_numeric_dtype(frame["log_odds"]):
        raise InputError("the column 'log_odds' of the truth holds something that is not a number")
    known = frame[list(_NEEDED)].dropna().reset_index(drop=True)
    for name in _NAMES:  # as results have it: numbers are text there
        known[name] = [value if isinstance(value, str) else label_text(value) for value in known[name]]
    if not np.isfinite(known["log_odds"]).all():
        raise InputError("the column 'log_odds' of the truth holds an infinite number; leave such a row out")
    return known


def _from_name(name: str) -> pd.DataFrame:
    if name.startswith("world:"):
        from equipoise.world import preset
        from equipoise.world import truth as injected

        return injected(preset(name.removeprefix("world:")))
    try:
        # a group called 0, NA or None is a name
        blank: Any = {"log_odds": ["", "NA", "nan", "NaN"]} | {key: [""] for key in _NAMES}
        return pd.read_csv(name, dtype=dict.fromkeys(_NAMES, str), keep_default_na=False, na_values=blank)
    except OSError as error:
        raise InputError(f"{name}: {(error.strerror or 'cannot be read').lower()}") from None
    except ValueError as error:
        raise InputError(f"{name}: not a CSV file of the truth ({error})") from None


def is_stated(truth: str | Path | pd.DataFrame | None) -> bool:
    """Whether a truth is a table of somebody's own, and not what a world is known to have been made with.

    >>> is_stated("world:biased"), is_stated("expected.csv"), is_stated(None)
    (False, True, False)
    """
    return truth is not None and not (isinstance(truth, str) and truth.startswith("world:"))


def recovered(series: Series, truth: pd.DataFrame, *, stated: bool = False) -> list[Recovered]:
    """For each axis with gaps inside sets, the pair of groups whose injected difference varies most."""
    gaps = pd.concat([subject_rows(series, metric) for metric in GAPS], ignore_index=True)
    injected = (
        truth.drop_duplicates(["subject", "axis", "group"])
        .set_index(["axis", "group", "subject"])["log_odds"]
        .sort_index()
    )
    best: dict[str, tuple[float, Recovered]] = {}
    for key, some in gaps.groupby(["axis", "group"], sort=True):
        axis, pair = str(key[0]), pair_of(some.iloc[0])
        if pair is None:
            continue
        first, second = pair
        measured = some.set_index("subject")["value"].astype(float)
        known = {group: injected.xs((axis, group)) for group in (first, second) if (axis, group) in injected.index}
        if len(known) < 2:
            continue
        # each group's own log-odds are against all others: ln p1 / p2 is the difference of their log shares
        put_in = _log_share(known[first]) - _log_share(known[second])
        table = pd.DataFrame({"injected": put_in, "measured": measured}).dropna()
        if len(table) < _LEAST:
            continue
        table = table.rename_axis("subject").reset_index().sort_values("injected", ignore_index=True)
        spread = float(np.ptp(table["injected"].to_numpy()))
        if axis not in best or spread > best[axis][0]:
            best[axis] = spread, Recovered(series.label, axis, (first, second), table, stated)
    return [recovery for _, recovery in best.values()]


def _log_share(log_odds: pd.Series) -> pd.Series:
    return pd.Series(-np.logaddexp(0.0, -log_odds.to_numpy(dtype=float)), index=log_odds.index)


def truth_figure(recoveries: list[Recovered], colours: dict[str, int]) -> tuple[str, pd.DataFrame]:
    """Scatter plots, one per model and axis: across what was put in, up what was measured."""
    width, height, left, gap, columns = 330.0, 250.0, 52.0, 24.0, 2
    rows = math.ceil(len(recoveries) / columns)
    drawing = SvgDrawing("truth", columns * (width + gap), rows * (height + 62) + 4)
    for number, recovery in enumerate(recoveries):
        x0, y0 = (number % columns) * (width + gap), (number // columns) * (height + 62)
        same = [other for other in recoveries if other.axis == recovery.axis]
        xs = pd.concat([other.table["injected"] for other in same])
        ys = pd.concat([other.table["measured"] for other in same])
        across = Scale(*_padded(xs), x0 + left, x0 + width)
        up = Scale(*_padded(ys), y0 + height, y0 + 30)
        _panel(drawing, recovery, across, up, colours.get(recovery.label, 0) % SERIES_COLOURS, x0, y0)
    tables = [f.table.assign(model=f.label, axis=f.axis, pair=" - ".join(f.pair)) for f in recoveries]
    r = recoveries[0].correlation
    truth = "stated" if recoveries[0].stated else "injected"
    label = f"Measured score gaps against {truth} log-odds, one dot per subject; correlation {amount(r)} in the first"
    return drawing.svg(label), pd.concat(tables, ignore_index=True)


def _panel(
    drawing: SvgDrawing, recovery: Recovered, across: Scale, up: Scale, colour: int, x0: float, y0: float
) -> None:
    first, second = recovery.pair
    r = "flat" if recovery.correlation is None else f"r = {amount(recovery.correlation)}"
    drawing.text(x0 + 8, y0 + 15, f"{recovery.label}: {axis_name(recovery.axis)}", "bold")
    drawing.text(across.end, y0 + 15, r, "soft num", "end")
    drawing.x_axis(across, up.end, up.start, f"{recovery.called}: log-odds of {first} rather than {second}")
    for value in ticks(up.low, up.high, 5):
        drawing.text(across.start - 6, up(value) + 4, f"{value:g}".replace("-", "−"), "soft num", "end")
        drawing.line(across.start, up(value), across.end, up(value))
    if up.low < 0 < up.high:
        drawing.line(across.start, up(0), across.end, up(0), "axis")
    if across.low < 0 < across.high:
        drawing.line(across(0), up.end, across(0), up.start, "axis")
    for subject, x, y in recovery.table.itertuples(index=False):
        label = f"{subject}: {recovery.called} {amount(x)}, measured {amount(y, 3)}"
        drawing.dot(across(x), up(y), 4, f"c{colour} bar", label, str(subject))
    for row, anchor, shift, lift in (
        (recovery.table.iloc[0], "start", -5, 18),
        (recovery.table.iloc[-1], "end", 5, -9),
    ):
        place = min(max(up(row["measured"]) + lift, up.end + 8), up.start - 4)
        drawing.text(across(row["injected"]) + shift, place, str(row["subject"]), "small halo", anchor)


def _padded(values: pd.Series[float]) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = 0.08 * (high - low) or 0.5
    return min(low - room, 0 - room), max(high + room, 0 + room)
