"""Clothes: a torso in the uniform's colour with the pattern that tells the occupation, cut to the figure's outline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from equipoise.world.figures import Body, torso
from equipoise.world.pen import Canvas, Points, by_name


@dataclass(frozen=True)
class Outfit:
    """Colours and pattern of clothes."""

    main: str
    second: str = "#ffffff"
    accent: str = "#ffffff"
    legs: str = "#3a4256"
    sleeve: str = ""
    """The sleeves' colour; the main one if empty."""
    pattern: str = "plain"
    long: bool = False
    """Whether sleeves reach the wrist."""

    @property
    def sleeves(self) -> str:
        """The colour of the sleeves."""
        return self.sleeve or self.main


@dataclass(frozen=True)
class Cut:
    """The torso a pattern is drawn on: its outline, height and half width at the chest and hem."""

    outline: Points
    top: float
    bottom: float
    half: float
    hem: float

    def y(self, share: float) -> float:
        """The height that is ``share`` of the way from shoulders to hem."""
        return self.top + (self.bottom - self.top) * share


Pattern = Callable[[Canvas, Cut, Outfit], None]


def clothes(b: Body, outfit: Outfit) -> Canvas:
    """The torso of a figure in an outfit, without sleeves."""
    outline = torso(b)
    d = Canvas().poly(outline, outfit.main)
    cut = Cut(outline, float(outline[:, 1].min()), b.hem_y, b.half, b.hem)
    PATTERNS[outfit.pattern](d, cut, outfit)
    return d


def behind(b: Body, outfit: Outfit) -> Canvas:
    """What hangs behind the figure: a cape, air bottles."""
    if outfit.pattern == "tailcoat":
        top, low, wide = b.shoulder_y, -0.10 * b.scale, max(b.hem, b.half) * 1.15 + 0.05
        return Canvas().poly([(-b.half, top), (b.half, top), (wide, low), (0, low - 0.03), (-wide, low)], outfit.accent)
    if outfit.pattern == "space_suit":
        wide = b.half + 0.035
        return Canvas().rect(-wide, b.shoulder_y - 0.02, wide, b.hip_y - 0.06 * b.scale, "#8b95a3", r=0.03)
    return Canvas()


def plain(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """Nothing but a neckline."""


def coat(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """An open coat: a strip of the shirt, two lapels."""
    d.poly(
        [
            (-cut.half * 0.42, cut.top),
            (cut.half * 0.42, cut.top),
            (cut.half * 0.12, cut.bottom),
            (-cut.half * 0.12, cut.bottom),
        ],
        outfit.second,
        clip=cut.outline,
    )


def stethoscope(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """An open coat with a stethoscope round the neck."""
    coat(d, cut, outfit)
    left, right = -cut.half * 0.55, cut.half * 0.55
    d.line(
        [(left, cut.top), (left * 0.8, cut.y(0.3)), (0, cut.y(0.42)), (right * 0.8, cut.y(0.3)), (right, cut.top)],
        0.02,
        "#22252e",
        clip=cut.outline,
    )
    d.line([(0, cut.y(0.42)), (0, cut.y(0.55))], 0.02, "#22252e").dot(0, cut.y(0.6), 0.03, "#cfd6de")


def cross(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A V-neck and a red cross on the chest."""
    d.poly([(-cut.half * 0.45, cut.top), (cut.half * 0.45, cut.top), (0, cut.y(0.2))], outfit.second, clip=cut.outline)
    x, y, r = 0.0, cut.y(0.5), 0.02
    d.rect(x - r, y - r * 2.4, x + r, y + r * 2.4, outfit.accent, edge="").rect(
        x - r * 2.4, y - r, x + r * 2.4, y + r, outfit.accent, edge=""
    )


def bands(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """Two bright bands across and one at the hem."""
    for share in (0.36, 0.66, 0.95):
        y = cut.y(share)
        d.rect(-0.4, y - 0.021, 0.4, y + 0.021, outfit.second, edge="", clip=cut.outline)
        d.rect(-0.4, y - 0.007, 0.4, y + 0.007, outfit.accent, edge="", clip=cut.outline)


def vest(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A high-visibility vest: two braces and a belt."""
    for side in (-1, 1):
        x = side * cut.half * 0.5
        d.rect(x - 0.018, cut.top, x + 0.018, cut.bottom, outfit.second, edge="", clip=cut.outline)
    y = cut.y(0.62)
    d.rect(-0.4, y - 0.024, 0.4, y + 0.024, outfit.second, edge="", clip=cut.outline)


def badge(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A dark tie, a belt and a star on the chest."""
    d.poly(
        [(-0.018, cut.top), (0.018, cut.top), (0.024, cut.y(0.45)), (0, cut.y(0.55)), (-0.024, cut.y(0.45))],
        outfit.second,
        edge="",
    )
    y = cut.y(0.7)
    d.rect(-0.4, y - 0.02, 0.4, y + 0.02, "#0a0e22", edge="", clip=cut.outline).rect(
        -0.022, y - 0.02, 0.022, y + 0.02, outfit.accent, edge=""
    )
    d.dot(cut.half * 0.5, cut.y(0.28), 0.03, outfit.accent, edge="")


def buttons(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A neckerchief and two rows of buttons."""
    for side in (-1, 1):
        for share in (0.32, 0.52, 0.72):
            d.dot(side * cut.half * 0.38, cut.y(share), 0.017, outfit.second, edge="")
    d.poly([(-cut.half * 0.6, cut.top), (cut.half * 0.6, cut.top), (0, cut.y(0.2))], outfit.accent, clip=cut.outline)


def overall(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A bib with straps over a shirt (the main colour is the shirt's)."""
    d.rect(-0.4, cut.y(0.58), 0.4, cut.bottom, outfit.second, edge="", clip=cut.outline)
    d.rect(-cut.half * 0.62, cut.y(0.28), cut.half * 0.62, cut.y(0.66), outfit.second, edge="", clip=cut.outline)
    for side in (-1, 1):
        x = side * cut.half * 0.5
        d.line([(x, cut.top), (x, cut.y(0.34))], 0.028, outfit.second, clip=cut.outline).dot(
            x, cut.y(0.34), 0.014, outfit.accent, edge=""
        )


def tank(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A shirt with a broad emblem: a cross of the second colour on the chest, shorts below."""
    d.rect(-0.4, cut.y(0.74), 0.4, cut.bottom, outfit.second, edge="", clip=cut.outline)
    y, r = cut.y(0.40), 0.022
    d.rect(-r, y - r * 2.3, r, y + r * 2.3, outfit.second, edge="").rect(
        -r * 2.3, y - r, r * 2.3, y + r, outfit.second, edge=""
    )


def splashes(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A smock with drops of paint."""
    drops = (
        (-0.55, 0.28, "#ffd21f"),
        (0.5, 0.42, "#2fae4a"),
        (-0.2, 0.58, "#ff4f9a"),
        (0.45, 0.78, "#49b6ff"),
        (-0.6, 0.86, "#ffffff"),
    )
    for x, share, paint in drops:
        d.dot(x * cut.half, cut.y(share), 0.026, paint, edge="")


def cardigan(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """An open cardigan over a shirt with a tie."""
    d.poly([(-cut.half * 0.6, cut.top), (cut.half * 0.6, cut.top), (0, cut.y(0.6))], outfit.second, clip=cut.outline)
    d.poly(
        [(-0.02, cut.top + 0.01), (0.02, cut.top + 0.01), (0.024, cut.y(0.4)), (0, cut.y(0.52)), (-0.024, cut.y(0.4))],
        outfit.accent,
        edge="",
    )


def jacket(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A leather jacket: fur collar and a zip."""
    d.line([(0, cut.y(0.2)), (0, cut.bottom)], 0.018, outfit.accent, clip=cut.outline)
    d.poly(
        [
            (-cut.half, cut.top - 0.02),
            (cut.half, cut.top - 0.02),
            (cut.half * 0.5, cut.y(0.24)),
            (0, cut.y(0.14)),
            (-cut.half * 0.5, cut.y(0.24)),
        ],
        outfit.second,
        clip=cut.outline,
    )


def stripes(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """Stripes across."""
    for i in range(4):
        y = cut.y(0.20 + 0.22 * i)
        d.rect(-0.4, y - 0.017, 0.4, y + 0.017, outfit.second, edge="", clip=cut.outline)
    d.poly([(-cut.half * 0.7, cut.top), (cut.half * 0.7, cut.top), (0, cut.y(0.26))], outfit.accent, clip=cut.outline)


def bars(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """Stripes down."""
    for i in range(-4, 5):
        x = i * 0.062
        d.rect(x - 0.0155, cut.top, x + 0.0155, cut.bottom, outfit.second, edge="", clip=cut.outline)


def checks(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """Tartan: dark stripes both ways."""
    for i in range(-3, 4):
        x = i * 0.072
        d.rect(x - 0.014, cut.top, x + 0.014, cut.bottom, outfit.second, edge="", clip=cut.outline)
    for i in range(5):
        y = cut.y(0.14 + 0.2 * i)
        d.rect(-0.4, y - 0.013, 0.4, y + 0.013, outfit.second, edge="", clip=cut.outline)


def apron(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """An apron over the clothes."""
    for side in (-1, 1):
        d.line([(side * cut.half * 0.45, cut.top), (side * cut.half * 0.5, cut.y(0.3))], 0.02, outfit.second)
    low = max(cut.half * 0.8, cut.hem * 0.7)
    d.poly(
        [(-cut.half * 0.55, cut.y(0.26)), (cut.half * 0.55, cut.y(0.26)), (low, cut.y(0.95)), (-low, cut.y(0.95))],
        outfit.second,
        clip=cut.outline,
    )
    d.rect(-cut.half * 0.4, cut.y(0.6), cut.half * 0.4, cut.y(0.76), outfit.accent, r=0.01, edge="")


def waistcoat(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A waistcoat over a white shirt, with a bow tie."""
    d.poly([(-cut.half * 0.6, cut.top), (cut.half * 0.6, cut.top), (0, cut.y(0.5))], "#ffffff", clip=cut.outline)
    y = cut.y(0.1)
    d.poly([(-0.05, y - 0.028), (0, y), (-0.05, y + 0.028)], outfit.accent, edge="").poly(
        [(0.05, y - 0.028), (0, y), (0.05, y + 0.028)], outfit.accent, edge=""
    )
    for share in (0.62, 0.8):
        d.dot(0, cut.y(share), 0.014, outfit.second, edge="")


def robe(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A black robe with a white jabot and a red stole."""
    for side in (-1, 1):
        x = side * cut.half * 0.62
        d.rect(x - 0.022, cut.top, x + 0.022, cut.bottom, outfit.accent, edge="", clip=cut.outline)
    d.poly([(-0.04, cut.top), (0.04, cut.top), (0.055, cut.y(0.42)), (-0.055, cut.y(0.42))], outfit.second, edge="")


def tailcoat(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A black coat, a white front and a red bow."""
    d.poly([(-cut.half * 0.5, cut.top), (cut.half * 0.5, cut.top), (0, cut.y(0.62))], "#ffffff", clip=cut.outline)
    y = cut.y(0.09)
    d.poly([(-0.05, y - 0.028), (0, y), (-0.05, y + 0.028)], outfit.accent, edge="").poly(
        [(0.05, y - 0.028), (0, y), (0.05, y + 0.028)], outfit.accent, edge=""
    )


def lightning(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A bolt of lightning on the chest."""
    y = cut.y(0.5)
    d.poly(
        [
            (0.02, y - 0.105),
            (-0.06, y + 0.015),
            (-0.008, y + 0.015),
            (-0.03, y + 0.105),
            (0.06, y - 0.025),
            (0.008, y - 0.025),
        ],
        outfit.second,
        edge="",
    )


def space_suit(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A padded suit: a control box and orange rings."""
    d.rect(-cut.half * 0.55, cut.y(0.26), cut.half * 0.55, cut.y(0.54), "#5a6576", r=0.012)
    for x, lamp in ((-0.3, "#ff3b30"), (0.0, "#ffd21f"), (0.3, "#34c759")):
        d.dot(x * cut.half, cut.y(0.4), 0.016, lamp, edge="")
    for share in (0.7, 0.93):
        y = cut.y(share)
        d.rect(-0.4, y - 0.014, 0.4, y + 0.014, outfit.second, edge="", clip=cut.outline)


def trench(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A trench coat: wide lapels and a belt."""
    for side in (-1, 1):
        d.poly(
            [
                (0, cut.y(0.34)),
                (side * cut.half * 0.25, cut.top),
                (side * cut.half * 0.85, cut.y(0.12)),
                (side * cut.half * 0.5, cut.y(0.3)),
            ],
            outfit.second,
            clip=cut.outline,
        )
    y = cut.y(0.58)
    d.rect(-0.4, y - 0.022, 0.4, y + 0.022, outfit.accent, edge="", clip=cut.outline)
    for share in (0.42, 0.76):
        for side in (-1, 1):
            d.dot(side * cut.half * 0.3, cut.y(share), 0.012, outfit.accent, edge="")


def tape(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A waistcoat with a measuring tape round the neck."""
    for side in (-1, 1):
        x = side * cut.half * 0.5
        d.line([(x * 0.9, cut.top), (x, cut.y(0.85))], 0.036, outfit.second, "#7a6200", clip=cut.outline)
        for i in range(4):
            y = cut.y(0.2 + 0.18 * i)
            d.line([(x - 0.018, y), (x + 0.004, y)], 0.01, "#22252e")


def shoulder_bag(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A courier's belt across the chest and a collar."""
    d.line([(-cut.half * 0.8, cut.top), (cut.half * 1.2, cut.y(0.9))], 0.034, outfit.second, clip=cut.outline)
    d.poly([(-cut.half * 0.5, cut.top), (cut.half * 0.5, cut.top), (0, cut.y(0.16))], outfit.accent, clip=cut.outline)


def dirt(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """Braces over a dusty shirt."""
    for side in (-1, 1):
        x = side * cut.half * 0.52
        d.line([(x, cut.top), (x, cut.bottom)], 0.026, outfit.second, clip=cut.outline)
    for x, share in ((-0.1, 0.4), (0.2, 0.62), (-0.3, 0.8), (0.75, 0.3)):
        d.dot(x * cut.half, cut.y(share), 0.018, outfit.accent, edge="")


def gloves(d: Canvas, cut: Cut, outfit: Outfit) -> None:
    """A tabard with a pocket."""
    d.poly([(-cut.half * 0.5, cut.top), (cut.half * 0.5, cut.top), (0, cut.y(0.18))], outfit.second, clip=cut.outline)
    d.rect(-cut.half * 0.62, cut.y(0.5), cut.half * 0.62, cut.y(0.76), outfit.second, r=0.01, edge="", clip=cut.outline)


PATTERNS: dict[str, Pattern] = by_name(
    apron,
    badge,
    bands,
    bars,
    buttons,
    cardigan,
    checks,
    coat,
    cross,
    dirt,
    gloves,
    jacket,
    lightning,
    overall,
    plain,
    robe,
    shoulder_bag,
    space_suit,
    splashes,
    stethoscope,
    stripes,
    tailcoat,
    tank,
    tape,
    trench,
    vest,
    waistcoat,
)
