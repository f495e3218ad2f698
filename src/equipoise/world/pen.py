"""Pictures in unit coordinates: shapes are kept as numbers and turned into pixels at the size that is asked for.

A :class:`Canvas` is a list of polygons and lines. One unit is the side of the picture, y points down. Pixels come
from :meth:`Canvas.sprite`: drawn several times too large, then averaged, so that edges are smooth at every size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw

Points = NDArray[np.float64]
Colour = str
Drawing = TypeVar("Drawing", bound=Callable[..., Any])

EDGE = 0.0085
"""How far an outline reaches outside its shape: about half a pixel at 64 px."""

AUTO = "auto"
NONE = ""


@cache
def colour(text: Colour) -> tuple[int, int, int]:
    """The red, green and blue of ``"#rrggbb"``.

    >>> colour("#ff8000")
    (255, 128, 0)
    """
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


@cache
def mixed(first: Colour, second: Colour, share: float) -> Colour:
    """The colour that is ``share`` of ``second`` and the rest of ``first``.

    >>> mixed("#000000", "#ffffff", 0.5)
    '#808080'
    """
    parts = [round(a + (b - a) * share) for a, b in zip(colour(first), colour(second), strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*parts)


@cache
def edge_of(fill: Colour) -> Colour:
    """The outline for a fill: darker, or lighter where the fill is itself nearly black, so that parts stay apart."""
    red, green, blue = colour(fill)
    light = 0.3 * red + 0.59 * green + 0.11 * blue
    return mixed(fill, "#ffffff", 0.32) if light < 48 else mixed(fill, "#101018", 0.55)


@dataclass(frozen=True, eq=False)
class Shape:
    """A polygon (``width`` 0) or a line of that width, with a fill, an outline and an area it is cut to."""

    points: Points
    fill: Colour
    edge: Colour = NONE
    width: float = 0.0
    clip: Points | None = None

    def mapped(self, matrix: Points, offset: Points, scale: float) -> Shape:
        """The shape after ``p -> matrix @ p + offset``; widths grow by ``scale``."""
        clip = None if self.clip is None else self.clip @ matrix.T + offset
        return Shape(self.points @ matrix.T + offset, self.fill, self.edge, self.width * scale, clip)


@dataclass(frozen=True)
class Sprite:
    """Pixels with transparency and where their corner lies, in pixels from the drawing's origin."""

    image: Image.Image
    left: int
    top: int

    @cached_property
    def touched(self) -> Image.Image:
        """White wherever the sprite leaves any trace, however faint."""
        return self.image.getchannel("A").point([0] + [255] * 255)

    def mirrored(self) -> Sprite:
        """The sprite as a mirror at the origin's column shows it."""
        flipped = self.image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return Sprite(flipped, -self.left - self.image.width, self.top)


@dataclass
class Canvas:
    """Shapes in the order they are drawn; every method returns the drawing, so that calls can be chained.

    >>> sprite = Canvas().rect(0, 0, 0.5, 0.5, "#ff0000", edge="").sprite(8, (0, 0, 0.5, 0.5))
    >>> sprite.image.size, sprite.image.getpixel((1, 1))
    ((4, 4), (255, 0, 0, 255))
    """

    shapes: list[Shape] = field(default_factory=list)

    def poly(
        self, points: Iterable[Sequence[float]], fill: Colour, edge: Colour = AUTO, clip: Points | None = None
    ) -> Canvas:
        """A filled polygon."""
        return self.line(points, 0.0, fill, edge, clip)

    def line(
        self,
        points: Iterable[Sequence[float]],
        width: float,
        fill: Colour,
        edge: Colour = NONE,
        clip: Points | None = None,
    ) -> Canvas:
        """A line through points with round ends and joints."""
        line = edge_of(fill) if edge == AUTO else edge
        self.shapes.append(Shape(np.asarray(list(points), dtype=np.float64), fill, line, width, clip))
        return self

    def limb(self, points: Iterable[Sequence[float]], width: float, fill: Colour) -> Canvas:
        """A line with an outline."""
        return self.line(points, width, fill, AUTO)

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, fill: Colour, edge: Colour = AUTO, clip: Points | None = None
    ) -> Canvas:
        """An ellipse about (x, y)."""
        return self.poly(oval(x, y, rx, ry), fill, edge, clip)

    def dot(self, x: float, y: float, radius: float, fill: Colour, edge: Colour = AUTO) -> Canvas:
        """A circle."""
        return self.ellipse(x, y, radius, radius, fill, edge)

    def ring(self, x: float, y: float, rx: float, ry: float, width: float, fill: Colour, edge: Colour = NONE) -> Canvas:
        """The outline of an ellipse."""
        points = oval(x, y, rx, ry)
        return self.line(np.concatenate([points, points[:1]]), width, fill, edge)

    def rect(
        self,
        x0: float,
        y0: float,
        x1: float,
        y1: float,
        fill: Colour,
        r: float = 0.0,
        edge: Colour = AUTO,
        clip: Points | None = None,
    ) -> Canvas:
        """A rectangle, its corners rounded by ``r``."""
        return self.poly(box(x0, y0, x1, y1, r), fill, edge, clip)

    def add(self, other: Canvas) -> Canvas:
        """Draw the shapes of ``other`` on top."""
        self.shapes.extend(other.shapes)
        return self

    def moved(self, x: float, y: float) -> Canvas:
        """A copy that is shifted."""
        return self._mapped(np.eye(2), np.array([x, y]), 1.0)

    def scaled(self, factor: float) -> Canvas:
        """A copy that is larger or smaller about the origin."""
        return self._mapped(np.eye(2) * factor, np.zeros(2), factor)

    def turned(self, degrees: float) -> Canvas:
        """A copy that is turned clockwise about the origin."""
        a = math.radians(degrees)
        matrix = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
        return self._mapped(matrix, np.zeros(2), 1.0)

    def mirrored(self) -> Canvas:
        """A copy with left and right exchanged about the origin."""
        return self._mapped(np.diag([-1.0, 1.0]), np.zeros(2), 1.0)

    def _mapped(self, matrix: Points, offset: Points, scale: float) -> Canvas:
        return Canvas([shape.mapped(matrix, offset, scale) for shape in self.shapes])

    def sprite(self, size: int, bounds: tuple[float, float, float, float] | None = None) -> Sprite:
        """The pixels at ``size`` pixels per unit, cut to ``bounds`` (x0, y0, x1, y1) or to what is drawn."""
        if not self.shapes:
            return Sprite(Image.new("RGBA", (1, 1)), 0, 0)
        left, top, right, bottom = _pixel_bounds(bounds or self._extent(), size)
        over = oversampling(size)
        # Every drawn pixel is opaque, so colours are those of the premultiplied mode, which can be averaged as it is.
        canvas = Image.new("RGBa", ((right - left) * over, (bottom - top) * over))
        brush = _Brush(canvas, size * over, left * over, top * over)
        for shape in self.shapes:
            brush.draw(shape)
        return Sprite(canvas.reduce(over).convert("RGBA"), left, top)

    def _extent(self) -> tuple[float, float, float, float]:
        points = np.concatenate([shape.points for shape in self.shapes])
        widths = np.repeat([s.width / 2 for s in self.shapes], [len(s.points) for s in self.shapes])[:, None]
        low = (points - widths - EDGE * 1.5).min(axis=0)
        high = (points + widths + EDGE * 1.5).max(axis=0)
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def by_name(*drawings: Drawing) -> dict[str, Drawing]:
    """Functions that draw, by their names, in the order given."""
    return {drawing.__name__: drawing for drawing in drawings}


def oversampling(size: int) -> int:
    """How many times too large a sprite is drawn before it is averaged."""
    return max(3, min(8, 512 // size))


def oval(x: float, y: float, rx: float, ry: float, start: float = 0.0, stop: float = 360.0) -> Points:
    """Points on an ellipse from angle ``start`` to ``stop`` (degrees, clockwise from the right)."""
    return _unit_arc(start, stop) * (rx, ry) + (x, y)


@cache
def _unit_arc(start: float, stop: float) -> Points:
    angles = np.radians(np.linspace(start, stop, 37))
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def box(x0: float, y0: float, x1: float, y1: float, r: float = 0.0) -> Points:
    """The corners of a rectangle, rounded by ``r``."""
    if r <= 0:
        return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    corners = [(x1 - r, y0 + r, -90), (x1 - r, y1 - r, 0), (x0 + r, y1 - r, 90), (x0 + r, y0 + r, 180)]
    return np.concatenate([oval(x, y, r, r, a, a + 90)[::6] for x, y, a in corners])


def _pixel_bounds(extent: tuple[float, float, float, float], size: int) -> tuple[int, int, int, int]:
    left, top = math.floor(extent[0] * size), math.floor(extent[1] * size)
    return left, top, max(left + 1, math.ceil(extent[2] * size)), max(top + 1, math.ceil(extent[3] * size))


class _Brush:
    """Draws shapes on a canvas whose corner is ``left``, ``top`` at ``scale`` pixels per unit."""

    def __init__(self, canvas: Image.Image, scale: int, left: int, top: int) -> None:
        self._canvas = canvas
        self._scale = scale
        self._offset = np.array([left, top])

    def draw(self, shape: Shape) -> None:
        """Outline first, the fill over its inner half."""
        points, width = self._pixels(shape.points), shape.width * self._scale
        layer = self._canvas if shape.clip is None else Image.new("RGBa", self._canvas.size)
        _put(ImageDraw.Draw(layer), points, width, shape.fill, shape.edge, EDGE * self._scale)
        if shape.clip is not None:
            area = Image.new("L", self._canvas.size)
            ImageDraw.Draw(area).polygon(self._pixels(shape.clip), fill=255)
            self._canvas.paste(layer, (0, 0), ImageChops.multiply(area, layer.getchannel("a")))

    def _pixels(self, points: Points) -> list[tuple[float, float]]:
        return list(map(tuple, (points * self._scale - self._offset).tolist()))


def _put(
    draw: ImageDraw.ImageDraw, points: list[tuple[float, float]], width: float, fill: str, edge: str, reach: float
) -> None:
    if width:
        if edge:
            _thick(draw, points, width + 2 * reach, edge)
        _thick(draw, points, width, fill)
        return
    if edge:
        _thick(draw, [*points, points[0]], 2 * reach, edge)
    draw.polygon(points, fill=colour(fill))


def _thick(draw: ImageDraw.ImageDraw, points: list[tuple[float, float]], width: float, fill: str) -> None:
    whole = max(1, round(width))
    ink = colour(fill)
    if len(points) > 1:
        draw.line(points, fill=ink, width=whole)
    radius = (whole - 1) / 2
    # The bends of a fine curve need no filling while the line is thin; its ends always do.
    bends = points if len(points) <= 12 or whole > 12 else (points[0], points[-1])
    for x, y in bends:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)
