"""Figures as SVG, drawn by hand: a few shapes, classes for colours, everything that comes from data escaped.

Colours are classes (``c0`` … for what is filled, ``s0`` … for strokes) that ``figure.css`` defines, so that one figure
is right on a light page, on a dark one and on paper. A figure shrinks to the width of a phone; its words then grow as
far as their neighbours leave room, so that they stay readable (:func:`_grown`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from itertools import combinations

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

SERIES_COLOURS = 6
"""How many colours there are; further series take the first again, and are told apart by their names."""


@cache
def asset(name: str) -> str:
    """A file of the page: a style, the script, the template."""
    return (files("equipoise.report") / "assets" / name).read_text(encoding="utf-8")


class Scale:
    """From values to pixels, linear.

    >>> Scale(0, 2, 100, 200)(1.5)
    175.0
    """

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self.start, self.end = low, high if high > low else low + 1, start, end

    def __call__(self, value: float) -> float:
        """The pixel of a value; one outside stays at the edge."""
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)


def span(values: Iterable[float]) -> tuple[float, float]:
    """From the least to the largest of ``values`` and 0, and a little more; what is not finite does not count.

    >>> span([1.0, -1.0, float("inf"), float("nan")])
    (-1.12, 1.12)
    """
    finite = [0.0, *(float(value) for value in values if math.isfinite(value))]
    low, high = min(finite), max(finite)
    room = 0.06 * (high - low) or 0.5
    return low - room, high + room


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between ``low`` and ``high``, at most ``most`` of them.

    >>> ticks(-0.05, 0.52)
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * m for m in (1, 2, 2.5, 5, 10, 20) if span / (power * m) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(step * i, 10) + 0.0 for i in range(first, math.floor(high / step + 1e-9) + 1)]


class SvgDrawing:
    """One figure: shapes are added, :meth:`svg` gives the text.

    >>> d = SvgDrawing("demo", 100, 20)
    >>> d.text(0, 10, "<b>")
    >>> "&lt;b&gt;" in d.svg("A label")
    True
    """

    def __init__(self, name: str, width: float, height: float) -> None:
        self.name, self.width, self.height = name, width, height
        self._parts: list[str] = []
        self._words: dict[int, Words] = {}
        self._bars: list[Box] = []

    def text(self, x: float, y: float, words: str, kind: str = "t", anchor: str = "start") -> None:
        """Words with their baseline at y; ``kind`` is one or more classes (t, soft, num, small, bold).

        ``wide`` among them leaves the words out on a phone: what the figure shows without them.
        """
        if "wide" not in kind.split():
            self._words[len(self._parts)] = Words(x, y, words, kind, anchor)
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{place}>{escape(words)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> None:
        """A straight line."""
        self._parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, title: str = "", *, fill: str = ""
    ) -> None:
        """A rectangle; ``fill`` is a colour of its own, where the class gives none."""
        if "bar" in kind.split():
            self._bars.append((x, y, x + width, y + height))
        inside = f"<title>{escape(title)}</title>" if title else ""
        colour = f' fill="{escape(fill)}"' if fill else ""
        shape = (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" class="{kind}"{colour}'
        )
        self._parts.append(f"{shape}>{inside}</rect>" if inside else f"{shape}/>")

    def dot(self, x: float, y: float, r: float, kind: str, title: str = "", subject: str = "") -> None:
        """A dot; ``subject`` lets the page's filter find it."""
        inside = f"<title>{escape(title)}</title>" if title else ""
        data = f' data-subject="{escape(subject.lower(), quote=True)}"' if subject else ""
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" class="{kind}"{data}>{inside}</circle>')

    def path(self, points: list[tuple[float, float]], kind: str) -> None:
        """A line through points."""
        steps = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
        self._parts.append(f'<path d="{steps}" class="{kind}"/>')

    def x_axis(self, scale: Scale, top: float, bottom: float, say: str = "", percent: bool = False) -> None:
        """Vertical grid lines with their numbers below, and what they measure."""
        for value in ticks(scale.low, scale.high):
            x = scale(value)
            self.line(x, top, x, bottom)
            shown = f"{100 * value:.0f}%" if percent else f"{value:g}".replace("-", "\N{MINUS SIGN}")
            self.text(x, bottom + 15, shown, "soft num", "middle")
        if say:
            self.text((scale.start + scale.end) / 2, bottom + 33, say, "soft", "middle")

    def svg(self, label: str) -> str:
        """The figure as SVG, with ``label`` for those who do not see it."""
        size = f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" width="{self.width:.0f}" height="{self.height:.0f}"'
        role = f'role="img" aria-label="{escape(label, quote=True)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" {size} {role}>'
        parts = list(self._parts)
        for at, growth in zip(self._words, _grown(list(self._words.values()), self.width, self._bars), strict=True):
            if growth > 1:
                parts[at] = parts[at].replace("<text ", f'<text style="--grow:{growth:.2f}" ', 1)
        return "\n".join([head, *parts, "</svg>"])


_PHONE = 480.0
"""A figure that is wider than this many pixels has its words enlarged on a phone, ..."""
_MOST_GROWTH = 1.6


@dataclass(frozen=True)
class Words:
    """Words of a figure and where they stand."""

    x: float
    y: float
    words: str
    kind: str
    anchor: str

    def box(self, growth: float) -> Box:
        """Left, top, right and bottom of the words when they are enlarged so much, as nearly as can be told."""
        kinds = self.kind.split()
        size = growth * (11 if "small" in kinds else 12 if "soft" in kinds else 13)
        width = size * len(self.words) * (0.58 if "bold" in kinds else 0.54)
        left = self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * width
        return left, self.y - 0.8 * size, left + width, self.y + 0.22 * size


def _grown(words: Sequence[Words], width: float, bars: Sequence[Box] = ()) -> list[float]:
    """How much each of the words may be enlarged on a phone before it leaves the figure, or touches others or a bar.

    >>> alone, pair = Words(0, 20, "few", "t", "start"), Words(30, 20, "words beside", "t", "start")
    >>> _grown([alone], 720), _grown([alone, pair], 720), _grown([alone], 300)
    ([1.5], [1.2, 1.2], [1.0])
    """
    most = min(max(width / _PHONE, 1.0), _MOST_GROWTH)
    steps = [round(most - 0.05 * i, 2) for i in range(int((most - 1) / 0.05 + 1e-9) + 1)]
    growth = []
    for phrase in words:
        beside = [bar for bar in bars if _touch(phrase.box(most), bar) and not _touch(phrase.box(1.0), bar)]
        fits = (
            g for g in steps if _inside(phrase.box(g), width) and not any(_touch(phrase.box(g), bar) for bar in beside)
        )
        growth.append(next(fits, 1.0))
    for (i, phrase), (j, other) in combinations(enumerate(words), 2):
        start = min(growth[i], growth[j])
        if abs(phrase.y - other.y) > 22 * most or not _touch(phrase.box(growth[i]), other.box(growth[j])):
            continue
        together = next((g for g in steps if g <= start and not _touch(phrase.box(g), other.box(g))), 1.0)
        growth[i], growth[j] = min(growth[i], together), min(growth[j], together)
    return growth


def _inside(box: Box, width: float) -> bool:
    return box[0] >= -1 and box[2] <= width + 1


def _touch(box: Box, other: Box) -> bool:
    return box[0] < other[2] + 4 and other[0] < box[2] + 4 and box[1] < other[3] and other[1] < box[3]


def standalone(svg: str) -> str:
    """The same figure as a file of its own: with its styles and a paper to stand on."""
    style = f"<style>{asset('colours.css')}{asset('figure.css')}</style>"
    at = svg.index(">") + 1
    return f'{svg[:at]}{style}<rect width="100%" height="100%" class="paper"/>{svg[at:]}\n'


def series_class(number: int) -> int:
    """The number of the colour of a series."""
    return number % SERIES_COLOURS
