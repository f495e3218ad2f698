"""The Pareto figure of a tournament: what is left of a bias across, what is left of usefulness up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from equipoise.formatting import amount, interval
from equipoise.report.svg import Scale, SvgDrawing, ticks

__all__ = ["ParetoPoint", "pareto_figure"]

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

    >>> one = ParetoPoint(1, "leace", "remedy", 0.2, (0.1, 0.3), 0.8, (0.7, 0.9), on_front=True)
    >>> svg, data = pareto_figure([one], "skew", "accuracy")
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
        told = f"{p.number}. {p.name}: {amount(p.bias)} ({interval(*p.bias_ends)}), {100 * p.useful:.1f}%"
        kind = f"c{colour}" if p.is_fair else f"s{colour} hollow"
        drawing.dot(x(p.bias), y(p.useful), 6 if p.on_front else 4.5, kind, told)
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
