"""The figures of an audit as SVG, drawn as the report's are; the same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from equipoise.array_types import Floats
from equipoise.report.svg import SERIES_COLOURS, Scale, SvgDrawing, standalone, ticks

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Told apart by people who see colours differently (Okabe and Ito)."""

_PANEL = 420.0
_MARGIN = 60.0


def scatter_figure(
    points: pd.DataFrame, x_names: Mapping[str, str], y_name: tuple[str, str], lines: Mapping[str, str]
) -> str:
    """One panel per column of ``x_names`` (with what to call it) against ``y_name``, a named dot per ``model``.

    ``lines``: what stands above the panels that get a straight line through their dots.

    >>> table = pd.DataFrame({"model": ["a", "<b>"], "lic": [1.0, 2.0], "words": [10.0, 30.0]})
    >>> "&lt;b&gt;" in scatter_figure(table, {"words": "words"}, ("lic", "LIC"), {})
    True
    """
    step = _PANEL + 2 * _MARGIN
    drawing = SvgDrawing("scatter", step * len(x_names), step)
    column, called = y_name
    y = points[column].to_numpy(float)
    for place, (name, label) in enumerate(x_names.items()):
        left, x = place * step + _MARGIN, points[name].to_numpy(float)
        across, up = _scales(left, x, y)
        drawing.x_axis(across, _MARGIN, _MARGIN + _PANEL, label)
        _dots(drawing, x, y, (across, up), range(len(points)), 4)
        for model, dot_x, dot_y in zip(points["model"], x.tolist(), y.tolist(), strict=True):
            drawing.text(across(dot_x) + 6, up(dot_y) - 5, str(model), "small")
        if name in lines:
            slope, start = np.polyfit(x, y, 1)
            ends = [float(x.min()), float(x.max())]
            drawing.path([(across(end), up(slope * end + start)) for end in ends], "axis thin")
            drawing.text(left + _PANEL / 2, _MARGIN - 18, lines[name], "bold", "middle")
        for value in ticks(up.low, up.high):
            drawing.text(left - 6, up(value) + 4, f"{value:g}".replace("-", "\N{MINUS SIGN}"), "soft num", "end")
        drawing.text(left - 6, _MARGIN - 18, called, "soft", "end")
    return standalone(drawing.svg(f"{called} against {' and '.join(x_names.values())}"))


def caption_map_figure(points: pd.DataFrame, words: Mapping[int, str], title: str) -> str:
    """A map (``x y cluster group``) twice, one below the other so that its words can be read on a telephone: by cluster
    with its number and ``words``, and by group."""
    x, y = points["x"].to_numpy(float), points["y"].to_numpy(float)
    groups = sorted(set(points["group"]))
    step = _PANEL + _MARGIN
    drawing = SvgDrawing("map", _PANEL, 2 * step)
    across, up = _scales(0.0, x, y)
    _dots(drawing, x, y, (across, up), points["cluster"].tolist(), 3)
    for cluster, members in points.groupby("cluster", sort=True):
        place = across(float(members["x"].median())), up(float(members["y"].median()))
        number = int(str(cluster))
        drawing.text(*place, f"{number} {words.get(number, '')}", "halo", "middle")
    places = [groups.index(group) for group in points["group"]]
    _dots(drawing, x, y, _scales(0.0, x, y, top=step + _MARGIN), places, 3)
    for number, group in enumerate(groups):
        height = step + _MARGIN + 14 + 18 * number
        drawing.dot(_PANEL - 8, height - 4, 4, f"c{number % SERIES_COLOURS}")
        words_of_group = f"{group} ({int((points['group'] == group).sum()):,})"
        drawing.text(_PANEL - 18, height, words_of_group, "halo", "end")
    for top, name in ((0.0, "clusters of neutral captions"), (step, title)):
        drawing.text(_PANEL / 2, top + _MARGIN - 18, name, "bold", "middle")
    return standalone(drawing.svg(f"clusters of neutral captions, and {title}"))


def _scales(left: float, x: Floats, y: Floats, top: float = _MARGIN) -> tuple[Scale, Scale]:
    """From values to pixels, across and up, in the square panel that begins at ``left`` and ``top``."""
    return Scale(*_padded(x), left, left + _PANEL), Scale(*_padded(y), top + _PANEL, top)


def _dots(
    drawing: SvgDrawing, x: Floats, y: Floats, scales: tuple[Scale, Scale], colours: Iterable[int], r: float
) -> None:
    for dot_x, dot_y, colour in zip(x.tolist(), y.tolist(), colours, strict=True):
        drawing.dot(scales[0](dot_x), scales[1](dot_y), r, f"c{colour % SERIES_COLOURS}")


def _padded(values: Floats) -> tuple[float, float]:
    """The least and the largest value with some space around, so that names stay inside."""
    low, high = float(values.min()), float(values.max())
    space = 0.15 * (high - low) or 0.5
    return low - space, high + space
