"""The kinds of figure that the papers have: boxes over subjects, grouped bars, points on a line, a Pareto front.

Each function returns the SVG text of one figure, to be put on a page or, with
:func:`equipoise.report.svg.standalone`, into a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from equipoise.formatting import amount, interval, missing
from equipoise.report.svg import SERIES_COLOURS, Scale, SvgDrawing, series_class, span, ticks

LEFT = 190.0
WIDTH = 720.0


def box_plots(
    values: Mapping[str, pd.Series],
    say: str,
    *,
    chance: Mapping[str, float] | None = None,
    name: str = "boxes",
    named: int = 2,
) -> str:
    """One horizontal box for each entry of ``values``, a series of numbers whose index names subjects.

    The box spans the quartiles, the line in it is the median, whiskers reach to the farthest value within one and a
    half times the box; the ``named`` lowest and highest subjects have their names. ``chance`` is a tick per box.

    >>> skews = pd.Series([0.1, 0.2, 0.3, 0.9], index=["cook", "chef", "nurse", "pilot"])
    >>> "pilot" in box_plots({"CLIP": skews}, "MaxSkew@12")
    True
    """
    kept = {label: series.dropna().sort_values() for label, series in values.items()}
    kept = {label: series for label, series in kept.items() if len(series)}
    step, top = 58.0, 14.0
    bottom = top + step * len(kept)
    figure = SvgDrawing(name, WIDTH, bottom + 44)
    every = [float(v) for series in kept.values() for v in series] + list((chance or {}).values())
    x = Scale(*span(every), LEFT, WIDTH - 24)
    figure.x_axis(x, top, bottom, say)
    for number, (label, series) in enumerate(kept.items()):
        middle = top + step * (number + 0.5)
        colour = series_class(number)
        low, median, high = (float(v) for v in np.quantile(series, [0.25, 0.5, 0.75]))
        reach = 1.5 * (high - low)
        inside = series[(series >= low - reach) & (series <= high + reach)]
        figure.text(LEFT - 12, middle + 4, label, "t", "end")
        figure.line(x(float(inside.min())), middle, x(float(inside.max())), middle, "whisker")
        title = f"{label}: median {median:.2f}, quartiles {low:.2f} and {high:.2f}, {len(series)} subjects"
        figure.rect(x(low), middle - 9, x(high) - x(low), 18, f"bar c{colour}", title)
        figure.line(x(median), middle - 9, x(median), middle + 9, "chance")
        if chance and label in chance:
            figure.line(x(chance[label]), middle - 15, x(chance[label]), middle + 15, f"w s{(colour + 1) % 6}")
        for subject, value in series.items():
            if value < low - reach or value > high + reach:
                figure.dot(x(float(value)), middle, 2.4, f"c{colour}", f"{subject}: {value:.2f}", str(subject))
        _name_extremes(figure, x, series, middle, named)
    return figure.svg(f"{say}: one box per {'row' if len(kept) > 1 else 'model'}, extremes named")


def _name_extremes(figure: SvgDrawing, x: Scale, series: pd.Series, middle: float, named: int) -> None:
    """The names of the lowest below the box to the left, of the highest to the right; as many as are apart."""
    count = min(named, len(series) // 2)
    if count:
        low = ", ".join(str(subject) for subject in series.index[:count])
        high = ", ".join(str(subject) for subject in series.index[: -count - 1 : -1])
        figure.text(max(LEFT, x(float(series.iloc[0]))), middle + 23, low, "soft small halo")
        figure.text(min(WIDTH - 6, x(float(series.iloc[-1]))), middle - 14, high, "soft small halo", "end")


def grouped_bars(
    frame: pd.DataFrame,
    say: str,
    *,
    chance: float | None = None,
    name: str = "bars",
    percent: bool = False,
) -> str:
    """Bars in groups: ``frame`` has ``group``, ``series``, ``value`` and perhaps ``low`` and ``high``.

    >>> bars = pd.DataFrame({"group": ["E2", "U2"], "series": ["CLIP"] * 2, "value": [0.8, 0.6]})
    >>> grouped_bars(bars, "accuracy").count("<rect")
    2
    """
    groups, series = list(dict.fromkeys(frame["group"])), list(dict.fromkeys(frame["series"]))
    bar, gap = 15.0, 16.0
    top = 14.0 + (22 if len(series) > 1 else 0)
    bottom = top + len(groups) * (len(series) * bar + gap)
    figure = SvgDrawing(name, WIDTH, bottom + 44)
    edges = [frame[column] for column in ("value", "low", "high") if column in frame]
    x = Scale(*span(pd.concat(edges).tolist()), LEFT, WIDTH - 60)
    figure.x_axis(x, top, bottom, say, percent)
    if len(series) > 1:
        _legend(figure, series, LEFT)
    cells = {(row["group"], row["series"]): row for row in frame.to_dict("records")}
    for place, group in enumerate(groups):
        start = top + place * (len(series) * bar + gap) + gap / 2
        figure.text(LEFT - 12, start + len(series) * bar / 2 + 4, str(group), "t", "end")
        for number, label in enumerate(series):
            row = cells.get((group, label))
            if row is None or missing(row["value"]):
                continue
            value, y = float(row["value"]), start + number * bar
            left, right = sorted((x(0.0), x(value)))
            title = f"{group}, {label}: {value:.3f}"
            figure.rect(left, y + 1, right - left, bar - 2, f"bar c{series_class(number)}", title)
            if not missing(row.get("low")) and not missing(row.get("high")):
                figure.line(x(float(row["low"])), y + bar / 2, x(float(row["high"])), y + bar / 2, "whisker")
    if chance is not None:
        figure.line(x(chance), top, x(chance), bottom, "chance")
    return figure.svg(f"{say}, by group" + ("" if chance is None else f"; the line is chance, {chance:.2f}"))


def _legend(figure: SvgDrawing, series: Sequence[object], left: float) -> None:
    """The colour of each series with its name, in one line above the figure."""
    for number, label in enumerate(series):
        figure.rect(left, 6, 11, 11, f"c{series_class(number)}")
        figure.text(left + 16, 16, str(label), "small")
        left += 30 + 6.4 * len(str(label))


def scatter(
    points: pd.DataFrame,
    say_x: str,
    say_y: str,
    *,
    name: str = "points",
    line: bool = True,
    series: str = "",
    means: bool = False,
) -> str:
    """Named points at ``x`` and ``y``, with the least-squares line; ``series`` is a column of colours.

    ``means`` joins the mean ``y`` of each series at each ``x``, where several points share theirs.

    >>> points = pd.DataFrame({"label": ["a", "b"], "x": [0.0, 1.0], "y": [0.1, 0.9]})
    >>> scatter(points, "put in", "measured").count("<circle")
    2
    >>> arms = pd.concat([points.assign(arm="fair"), points.assign(arm="biased", y=points["y"] / 2)])
    >>> svg = scatter(arms, "share", "measured", series="arm", means=True, line=False)
    >>> svg.count("<path"), ">fair</text>" in svg and ">biased</text>" in svg
    (2, True)
    """
    kinds = list(dict.fromkeys(points[series])) if series else [""]
    has_legend = 1 < len(kinds) <= SERIES_COLOURS
    height, top = 380.0, 36.0 if has_legend else 14.0
    figure = SvgDrawing(name, WIDTH, height + 50)
    x, y = Scale(*span(points["x"]), 70, WIDTH - 20), Scale(*span(points["y"]), height, top)
    if has_legend:
        _legend(figure, kinds, 70 + 7.0 * len(say_y))
    figure.x_axis(x, top, height, say_x)
    for value in ticks(y.low, y.high):
        figure.text(62, y(value) + 4, f"{value:g}".replace("-", "\N{MINUS SIGN}"), "soft num", "end")
    figure.text(8, 16, say_y, "soft")
    figure.line(x(0.0), top, x(0.0), height, "axis")
    figure.line(70, y(0.0), WIDTH - 20, y(0.0), "axis")
    for row in points.to_dict("records"):
        colour = series_class(kinds.index(row[series]) if series else 0)
        title = f"{row['label']}: {row['x']:.3g}, {row['y']:.3g}"
        figure.dot(x(row["x"]), y(row["y"]), 4, f"c{colour}", title, str(row["label"]))
    if means and series:
        for number, kind in enumerate(kinds):
            mean = points[points[series] == kind].groupby("x", as_index=False)["y"].mean()
            figure.path(
                [(x(float(at)), y(float(v))) for at, v in zip(mean["x"], mean["y"], strict=True)],
                f"w s{series_class(number)}",
            )
    if line and len(points) > 2 and np.ptp(points["x"]) > 0:
        slope, level = np.polyfit(points["x"].to_numpy(float), points["y"].to_numpy(float), 1)
        ends = [float(points["x"].min()), float(points["x"].max())]
        figure.path([(x(v), y(float(slope * v + level))) for v in ends], "thin axis")
    return figure.svg(f"{say_y} against {say_x}, {len(points)} points")


def quartiles(values: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Mean, standard deviation, least, quartiles and largest of each series, as papers tabulate them over subjects.

    >>> quartiles({"CLIP": [0.0, 1.0, 2.0]}).iloc[0].to_dict()["50%"]
    1.0
    """
    rows = []
    for label, some in values.items():
        series = np.asarray(some, dtype=np.float64)
        series = series[~np.isnan(series)]
        low, lower, median, upper, high = (float(v) for v in np.quantile(series, [0, 0.25, 0.5, 0.75, 1]))
        spread = float(series.std(ddof=1)) if len(series) > 1 else float("nan")
        cells = {"mean": float(series.mean()), "std": spread, "min": low, "25%": lower, "50%": median}
        rows.append({"label": label, **cells, "75%": upper, "max": high, "subjects": len(series)})
    return pd.DataFrame(rows)


_WIDTH, _HEIGHT = 680.0, 420.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 70.0, 20.0, 660.0, 360.0
_KINDS = {"model": 5, "remedy": 0, "ranking": 2, "data": 3, "checkpoint": 1}


@dataclass(frozen=True)
class ParetoPoint:
    """One contender: its number in the table, and both values with their intervals."""

    number: int
    name: str
    kind: str
    bias: float
    bias_ends: tuple[float | None, float | None]
    useful: float
    useful_ends: tuple[float | None, float | None]
    on_front: bool = False
    is_fair: bool = True


def pareto_figure(points: Sequence[ParetoPoint], across: str, up: str) -> tuple[str, pd.DataFrame]:
    """The figure and its data; whoever was not judged fairly is hollow, and on no front.

    >>> point = ParetoPoint(1, "leace", "remedy", 0.2, (0.1, 0.3), 0.8, (0.7, 0.9), on_front=True)
    >>> svg, data = pareto_figure([point], "skew", "accuracy")
    >>> "leace" in svg, data["name"].tolist()
    (True, ['leace'])
    """
    drawing = SvgDrawing("pareto", _WIDTH, _HEIGHT)
    x = _scale([value for p in points for value in (p.bias, *p.bias_ends)], _LEFT, _RIGHT)
    y = _scale([value for p in points for value in (p.useful, *p.useful_ends)], _BOTTOM, _TOP)
    drawing.x_axis(x, _TOP, _BOTTOM, across)
    for value in ticks(y.low, y.high):
        drawing.line(_LEFT, y(value), _RIGHT, y(value))
        drawing.text(_LEFT - 8, y(value) + 4, f"{100 * value:.0f}%", "soft num", "end")
    drawing.text(_LEFT, _TOP - 6, up, "soft")
    line = sorted((x(p.bias), y(p.useful)) for p in points if p.on_front)
    if len(line) > 1:
        drawing.path(line, "s0 thin")
    for p in points:
        low, high = p.bias_ends
        if low is not None and high is not None:
            drawing.line(x(low), y(p.useful), x(high), y(p.useful), "grid")
        low, high = p.useful_ends
        if low is not None and high is not None:
            drawing.line(x(p.bias), y(low), x(p.bias), y(high), "grid")
    for p in points:
        colour = _KINDS.get(p.kind, 4)
        label = f"{p.number}. {p.name}: {amount(p.bias)} ({interval(*p.bias_ends)}), {100 * p.useful:.1f}%"
        kind = f"c{colour}" if p.is_fair else f"s{colour} hollow"
        drawing.dot(x(p.bias), y(p.useful), 6 if p.on_front else 4.5, kind, label)
        drawing.text(x(p.bias) + 7, y(p.useful) - 6, str(p.number), "small num halo" + (" bold" if p.on_front else ""))
    rows = [
        (p.number, p.name, p.kind, p.bias, *p.bias_ends, p.useful, *p.useful_ends, p.on_front, p.is_fair)
        for p in points
    ]
    columns = ["number", "name", "kind", "skew", "skew_low", "skew_high", "accuracy", "accuracy_low", "accuracy_high"]
    return drawing.svg(f"{up} against {across}"), pd.DataFrame(rows, columns=[*columns, "on_front", "fair"])


def _scale(values: Sequence[float | None], start: float, end: float) -> Scale:
    known = [value for value in values if value is not None] or [0.0]
    room = 0.05 * (max(known) - min(known)) or 0.05
    return Scale(min(known) - room, max(known) + room, start, end)
