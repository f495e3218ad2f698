"""The bounds as one picture: every interval in units of its own limit, so that all can be read on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from equipoise.formatting import shortened
from equipoise.report.svg import Scale, SvgDrawing

__all__ = ["bounds_figure"]

_COLOURS = {"holds": 2, "fails": 1, "too small to tell": 5}
_MOST = 4.0
_ROW = 34


def bounds_figure(deciding: Sequence[dict[str, Any]]) -> str:
    """One line per bound on a size: its interval in units of the limit; empty where no bound can be drawn so.

    >>> bounds_figure([])
    ''
    """
    rows = [one for one in deciding if one["bound"].get("most") and one["value"] is not None]
    rows = [one for one in rows if "least" not in one["bound"]]
    if not rows:
        return ""
    several = len({one["model"] for one in rows}) > 1
    ends = [(one["high"] if one["high"] is not None else one["value"]) / one["bound"]["most"] for one in rows]
    top = min(_MOST, max(1.6, 1.05 * max(end for end in ends if math.isfinite(end))))
    low = min([0.0, *((one["low"] or 0.0) / one["bound"]["most"] for one in rows)])
    bottom = 14.0 + _ROW * len(rows)
    drawing = SvgDrawing("bounds", 720, bottom + 42)
    scale = Scale(max(low, -2.0), top, 250, 700)
    drawing.x_axis(scale, 8, bottom, "in units of the limit; right of 1 is beyond it")
    drawing.line(scale(1), 2, scale(1), bottom, "chance")
    for number, one in enumerate(rows):
        _row(drawing, one, scale, 14.0 + _ROW * number + _ROW / 2, several)
    return drawing.svg("Each bound with its interval, in units of its limit")


def _row(drawing: SvgDrawing, one: dict[str, Any], scale: Scale, y: float, several: bool) -> None:
    limit, colour = one["bound"]["most"], _COLOURS.get(one["outcome"], 5)
    drawing.text(0, y - (2 if several else -4), shortened(one["name"], 36), "bold")
    if several:
        drawing.text(0, y + 13, shortened(one["model"], 40), "soft small")
    if one["low"] is not None:
        drawing.line(scale(one["low"] / limit), y, scale(one["high"] / limit), y, f"w s{colour}")
        if one["high"] / limit > scale.high:  # it goes on beyond the picture
            drawing.text(706, y + 4, "›", f"bold c{colour}")
    kind = f"hollow s{colour}" if one["outcome"] == "too small to tell" else f"c{colour}"
    drawing.dot(scale(one["value"] / limit), y, 5, kind, f"{one['value']:.3g}, {one['outcome']}")
