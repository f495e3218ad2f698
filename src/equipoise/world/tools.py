"""What the occupations hold: large, one silhouette and one colour each. The grip is the origin."""

from __future__ import annotations

from equipoise.world.pen import Canvas, by_name, oval

WOOD = "#a8703a"
STEEL = "#b9c2cc"
DARK = "#2f3440"
RED = "#d8232a"
WHITE = "#ffffff"
GOLD = "#f2c230"


def case() -> Canvas:
    """A first-aid case with a red cross."""
    d = Canvas().ring(0.03, 0.0, 0.055, 0.035, 0.02, DARK)
    d.rect(-0.10, 0.02, 0.16, 0.20, WHITE, r=0.02)
    return d.rect(0.005, 0.045, 0.055, 0.175, RED, edge="").rect(-0.035, 0.085, 0.095, 0.135, RED, edge="")


def syringe() -> Canvas:
    """A syringe, needle up."""
    d = Canvas().line([(0, -0.36), (0, -0.2)], 0.016, "#7d8794")
    d.rect(-0.045, -0.22, 0.045, 0.06, "#eaf6ff", r=0.01).rect(-0.03, -0.13, 0.03, 0.05, "#25b34b", edge="")
    d.line([(0, 0.06), (0, 0.14)], 0.03, STEEL, "#5d6673").line([(-0.065, 0.15), (0.065, 0.15)], 0.028, "#5d6673")
    return d


def hose() -> Canvas:
    """A fire hose that sprays water."""
    d = Canvas()
    for angle in (-30, -12, 6):
        spray = Canvas().poly([(0.1, -0.012), (0.30, -0.03), (0.31, 0.03), (0.1, 0.012)], "#49b6ff", edge="")
        d.add(spray.turned(angle - 35))
    d.limb([(-0.04, 0.30), (0.08, 0.28), (0.10, 0.14), (0.0, 0.05)], 0.045, "#e8e2cf")
    return d.add(Canvas().poly([(-0.03, -0.03), (0.12, -0.045), (0.12, 0.045), (-0.03, 0.03)], GOLD).turned(-45))


def stop_sign() -> Canvas:
    """A red octagon on a stick."""
    d = Canvas().line([(0, 0.12), (0, -0.2)], 0.03, "#8c6a48", "#4b3826")
    points = [oval(0, -0.25, 0.135, 0.135, 22.5 + 45 * i, 22.5 + 45 * i)[0] for i in range(8)]
    return d.poly(points, RED, edge=WHITE).rect(-0.09, -0.275, 0.09, -0.225, WHITE, edge="")


def pan() -> Canvas:
    """A frying pan with an egg."""
    d = Canvas().limb([(-0.03, 0.03), (0.06, -0.05)], 0.04, "#6b4423")
    d.ellipse(0.155, -0.125, 0.145, 0.12, DARK).ellipse(0.155, -0.13, 0.115, 0.09, "#4c5361", edge="")
    return d.ellipse(0.155, -0.13, 0.085, 0.065, WHITE, edge="").dot(0.165, -0.135, 0.036, "#ffb300", edge="")


def pitchfork() -> Canvas:
    """A pitchfork, tines up."""
    d = Canvas().line([(0, 0.36), (0, -0.16)], 0.03, WOOD, "#5b3a1e")
    d.line([(-0.085, -0.34), (-0.085, -0.17), (0.085, -0.17), (0.085, -0.34)], 0.024, "#6d7683", "#30343c")
    return d.line([(0, -0.36), (0, -0.17)], 0.024, "#6d7683", "#30343c")


def slate() -> Canvas:
    """A blackboard with a sum on it."""
    d = Canvas().rect(-0.06, -0.25, 0.20, -0.03, "#1f7a4d", edge="#8a5a2b")
    d.line([(-0.06, -0.25), (0.20, -0.25), (0.20, -0.03), (-0.06, -0.03), (-0.06, -0.25)], 0.026, "#c98a45")
    d.line([(-0.015, -0.19), (-0.015, -0.09)], 0.02, WHITE)
    d.line([(0.035, -0.14), (0.095, -0.14)], 0.018, WHITE).line([(0.065, -0.17), (0.065, -0.11)], 0.018, WHITE)
    return d.line([(0.145, -0.19), (0.145, -0.09)], 0.02, WHITE)


def wrench() -> Canvas:
    """An open-ended wrench."""
    d = Canvas().limb([(0, 0.13), (0.0, -0.2)], 0.055, STEEL)
    d.dot(0, -0.25, 0.1, STEEL)
    jaw = Canvas().poly([(-0.10, -0.27), (-0.085, -0.37), (-0.03, -0.35), (-0.04, -0.26)], STEEL)
    jaw.poly([(0.10, -0.27), (0.085, -0.37), (0.03, -0.35), (0.04, -0.26)], STEEL)
    d.add(jaw).dot(0, 0.13, 0.05, STEEL).dot(0, 0.13, 0.022, "#5d6673", edge="")
    return d


def hammer() -> Canvas:
    """A sledgehammer."""
    d = Canvas().limb([(0, 0.16), (0, -0.24)], 0.04, WOOD)
    return d.rect(-0.125, -0.335, 0.125, -0.20, "#5c6470", r=0.02).rect(0.075, -0.335, 0.125, -0.2, "#8d97a5", edge="")


def palette() -> Canvas:
    """A painter's palette with five paints."""
    d = Canvas().ellipse(0.09, -0.06, 0.165, 0.125, "#d9a066")
    for x, y, paint in (
        (0.0, -0.10, "#e6262b"),
        (0.07, -0.135, "#ffd21f"),
        (0.15, -0.125, "#2fae4a"),
        (0.205, -0.065, "#2563d9"),
        (0.17, 0.005, "#ffffff"),
    ):
        d.dot(x, y, 0.034, paint, edge="")
    return d.line([(-0.06, 0.11), (0.05, -0.26)], 0.018, "#6b3d18").dot(0.055, -0.28, 0.026, "#7d2bd0")


def flask() -> Canvas:
    """A flask of green liquid."""
    d = Canvas().poly(
        [(-0.035, -0.27), (0.035, -0.27), (0.035, -0.13), (0.145, 0.09), (-0.145, 0.09), (-0.035, -0.13)], "#e6f7ff"
    )
    d.poly([(-0.075, -0.05), (0.075, -0.05), (0.14, 0.082), (-0.14, 0.082)], "#35d04a", edge="")
    d.dot(-0.03, 0.02, 0.02, "#c8ffd0", edge="").dot(0.05, 0.045, 0.016, "#c8ffd0", edge="")
    d.rect(-0.05, -0.295, 0.05, -0.26, "#9fc4d8", r=0.01)
    return d.dot(0.03, -0.34, 0.024, "#9ff0ab").dot(-0.03, -0.38, 0.018, "#9ff0ab")


def flag() -> Canvas:
    """A blue flag with a ringed planet."""
    d = Canvas().line([(0, 0.36), (0, -0.36)], 0.026, "#cfd6de", "#5d6673")
    d.poly([(0.012, -0.36), (0.23, -0.33), (0.20, -0.255), (0.23, -0.17), (0.012, -0.2)], "#2746c8")
    return d.dot(0.10, -0.27, 0.042, "#ffd21f", edge="").line([(0.035, -0.25), (0.165, -0.29)], 0.014, WHITE)


def anchor() -> Canvas:
    """An anchor."""
    grey = "#3d4a63"
    d = Canvas().ring(0, -0.22, 0.04, 0.04, 0.028, grey, edge=WHITE)
    d.line([(0, -0.18), (0, 0.16)], 0.045, grey, WHITE).line([(-0.085, -0.12), (0.085, -0.12)], 0.04, grey, WHITE)
    d.line(oval(0, 0.02, 0.145, 0.15, 20, 160), 0.045, grey, WHITE)
    for side in (-1, 1):
        d.poly([(side * 0.175, 0.085), (side * 0.15, -0.03), (side * 0.085, 0.065)], grey, edge="")
    return d


def airplane() -> Canvas:
    """A model airplane."""
    d = Canvas().poly([(-0.115, -0.02), (-0.155, -0.115), (-0.105, -0.115), (-0.06, -0.03)], "#d8232a")
    d.ellipse(0.03, -0.005, 0.165, 0.058, "#f4f6f8")
    d.poly([(0.07, 0.0), (-0.06, 0.145), (-0.115, 0.145), (-0.04, 0.0)], "#d8232a")
    d.poly([(0.05, -0.04), (-0.03, -0.135), (-0.075, -0.135), (-0.04, -0.03)], "#d8232a")
    d.poly([(0.105, -0.05), (0.155, -0.045), (0.17, -0.015), (0.11, -0.015)], "#4aa8e0", edge="")
    return d.line([(0.205, -0.085), (0.205, 0.075)], 0.022, DARK).moved(0.06, -0.13)


def bouquet() -> Canvas:
    """A bunch of flowers in paper."""
    d = Canvas().poly([(-0.115, -0.14), (0.115, -0.14), (0.03, 0.15), (-0.03, 0.15)], "#eaf7d5")
    for x, y, petal in ((-0.095, -0.17, "#ff4f9a"), (0.095, -0.17, "#ffcf33"), (0, -0.14, "#a855f7")):
        _flower(d, x, y, petal)
    _flower(d, -0.045, -0.27, "#ffcf33")
    _flower(d, 0.055, -0.27, "#ff4f9a")
    return d


def _flower(d: Canvas, x: float, y: float, petal: str) -> None:
    for i in range(5):
        px, py = oval(x, y, 0.042, 0.042, 72 * i - 90, 72 * i - 90)[0]
        d.dot(px, py, 0.031, petal)
    d.dot(x, y, 0.026, "#fff7c2", edge="")


def tray() -> Canvas:
    """A tray with two glasses."""
    d = Canvas().ellipse(0.05, -0.06, 0.185, 0.042, "#c9d0d8")
    for x, drink in ((-0.03, "#c1121f"), (0.13, "#f7a21b")):
        d.poly([(x - 0.055, -0.24), (x + 0.055, -0.24), (x + 0.035, -0.075), (x - 0.035, -0.075)], "#f3fbff")
        d.poly([(x - 0.047, -0.195), (x + 0.047, -0.195), (x + 0.032, -0.08), (x - 0.032, -0.08)], drink, edge="")
    return d.line([(0.0, 0.0), (0.03, -0.03)], 0.03, "#c9d0d8")


def gavel() -> Canvas:
    """A wooden gavel."""
    d = Canvas().limb([(-0.02, 0.10), (0.08, -0.15)], 0.036, "#7a4520")
    head = Canvas().rect(-0.14, -0.07, 0.14, 0.07, "#9a5b2a", r=0.015)
    head.rect(-0.105, -0.085, -0.06, 0.085, GOLD, edge="").rect(0.06, -0.085, 0.105, 0.085, GOLD, edge="")
    return d.add(head.turned(22).moved(0.095, -0.2))


def wand() -> Canvas:
    """A magic wand with stars."""
    d = Canvas().line([(-0.03, 0.10), (0.10, -0.2)], 0.034, "#17141a", WHITE)
    d.line([(0.08, -0.155), (0.10, -0.2)], 0.034, WHITE)
    for x, y, size in ((0.125, -0.27, 0.105), (0.24, -0.16, 0.05), (0.02, -0.36, 0.045)):
        d.poly(star(x, y, size), "#ffd21f")
    return d


def star(x: float, y: float, size: float) -> list[tuple[float, float]]:
    """The corners of a five-pointed star."""
    points = []
    for i in range(10):
        r = size if i % 2 == 0 else size * 0.45
        px, py = oval(x, y, r, r, 36 * i - 90, 36 * i - 90)[0]
        points.append((float(px), float(py)))
    return points


def mop() -> Canvas:
    """A mop and a bucket."""
    d = Canvas().line([(0.0, -0.34), (0.0, 0.22)], 0.028, "#e9b949", "#8a6420")
    d.poly([(-0.085, 0.37), (-0.05, 0.20), (0.05, 0.20), (0.085, 0.37), (0.03, 0.35), (-0.03, 0.37)], "#f5f7fa")
    d.line([(0.09, 0.19), (0.15, 0.10), (0.215, 0.19)], 0.016, DARK)
    return d.poly([(0.07, 0.19), (0.235, 0.19), (0.21, 0.37), (0.095, 0.37)], "#e6365a")


def plunger() -> Canvas:
    """A plunger, cup up."""
    d = Canvas().line([(0, 0.2), (0, -0.18)], 0.034, "#e2b36b", "#7c5522")
    cup = [*oval(0, -0.24, 0.125, 0.125, 0, 180), (-0.125, -0.27), (0.125, -0.27)]
    return d.poly(cup, "#b3321f").ellipse(0, -0.27, 0.125, 0.035, "#7c1f12", edge="")


def bulb() -> Canvas:
    """A light bulb that shines."""
    d = Canvas()
    for angle in range(-90, 100, 45):
        d.add(Canvas().line([(0, -0.175), (0, -0.225)], 0.022, "#ffb300").turned(angle).moved(0, -0.145))
    d.dot(0, -0.145, 0.125, "#ffe95c").poly([(-0.06, -0.06), (0.06, -0.06), (0.045, 0.0), (-0.045, 0.0)], "#ffe95c")
    d.line([(-0.04, -0.14), (0, -0.09), (0.04, -0.14)], 0.016, "#d68400")
    return d.rect(-0.05, -0.015, 0.05, 0.075, "#7d8794", r=0.012)


def ring() -> Canvas:
    """A life ring."""
    d = Canvas().ring(0.12, 0.02, 0.125, 0.125, 0.085, WHITE, edge="#8b1a1f")
    for start in (20, 110, 200, 290):
        d.poly(
            [*oval(0.12, 0.02, 0.168, 0.168, start, start + 46), *oval(0.12, 0.02, 0.082, 0.082, start + 46, start)],
            RED,
            edge="",
        )
    return d


def pickaxe() -> Canvas:
    """A pickaxe."""
    d = Canvas().limb([(0, 0.18), (0, -0.26)], 0.038, WOOD)
    head = [*oval(0, -0.16, 0.2, 0.155, 200, 340), *oval(0, -0.11, 0.2, 0.14, 335, 205)]
    return d.poly(head, "#7e8896")


def saw() -> Canvas:
    """A hand saw."""
    teeth = []
    for i in range(9):
        teeth += [(0.34 - i * 0.036, 0.06), (0.322 - i * 0.036, 0.03)]
    d = Canvas().poly([(0.03, -0.07), (0.345, -0.005), (0.345, 0.03), *teeth, (0.03, 0.06)], "#d5dbe2")
    handle = (
        Canvas().rect(-0.06, -0.09, 0.06, 0.09, "#c77b30", r=0.035).rect(-0.025, -0.045, 0.025, 0.045, "#5b3a1e", 0.02)
    )
    return d.add(handle).turned(-52)


def red_card() -> Canvas:
    """A red card, held high."""
    return Canvas().add(Canvas().rect(-0.075, -0.25, 0.075, -0.02, "#ff1f2d", r=0.012).turned(8))


def magnifier() -> Canvas:
    """A magnifying glass."""
    d = Canvas().limb([(-0.02, 0.10), (0.055, -0.08)], 0.045, "#3a2a1c")
    return (
        d.dot(0.115, -0.195, 0.125, "#c9ecff", edge="")
        .ring(0.115, -0.195, 0.115, 0.115, 0.04, "#c08a1e", edge=DARK)
        .line([(0.06, -0.215), (0.1, -0.265)], 0.022, WHITE)
    )


def parcel() -> Canvas:
    """A cardboard parcel."""
    d = Canvas().rect(-0.06, -0.16, 0.22, 0.09, "#d9a35f").rect(0.055, -0.16, 0.105, 0.09, "#f0d9a8", edge="")
    return d.rect(0.13, 0.015, 0.20, 0.065, WHITE, edge="").line([(-0.06, -0.095), (0.22, -0.095)], 0.01, "#8a5a2b")


def scissors() -> Canvas:
    """Large scissors, blades up."""
    d = Canvas()
    for side in (-1, 1):
        d.add(Canvas().poly([(-0.028, 0.02), (0.028, 0.02), (0.0, -0.32)], "#d5dbe2").turned(side * 15).moved(0, -0.08))
        d.ring(side * 0.07, 0.055, 0.052, 0.062, 0.034, "#e0338a", edge="#6f0f40")
        d.line([(0, -0.08), (side * 0.05, 0.0)], 0.036, "#e0338a")
    return d.dot(0, -0.085, 0.018, DARK, edge="")


TOOLS = by_name(
    airplane,
    anchor,
    bouquet,
    bulb,
    case,
    flag,
    flask,
    gavel,
    hammer,
    hose,
    magnifier,
    mop,
    palette,
    pan,
    parcel,
    pickaxe,
    pitchfork,
    plunger,
    red_card,
    ring,
    saw,
    scissors,
    slate,
    stop_sign,
    syringe,
    tray,
    wand,
    wrench,
)
