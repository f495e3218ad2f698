"""What the performer of an activity does: a pose and the thing it is done with.

Drawn for the performer only; a bystander stands with both arms down and nothing in hand. Coordinates are those of an
adult figure (see :mod:`equipoise.world.figures`), scaled with the figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from equipoise.world.figures import Pose
from equipoise.world.pen import Canvas, oval

DARK = "#2f3440"
WHITE = "#ffffff"
WOOD = "#a8703a"


def _nothing() -> Canvas:
    return Canvas()


@dataclass(frozen=True)
class Performance:
    """A pose, what is drawn in front of the body (under the hands) and what is drawn behind it."""

    pose: Pose
    front: Callable[[], Canvas]
    back: Callable[[], Canvas] = _nothing


def guitar() -> Canvas:
    """A guitar across the body."""
    d = Canvas().limb([(0.0, -0.36), (0.30, -0.53)], 0.034, "#5b3a1e")
    d.poly([(0.275, -0.55), (0.345, -0.59), (0.365, -0.54), (0.30, -0.50)], "#3a2412")
    d.dot(-0.055, -0.335, 0.098, "#e0892b").dot(0.055, -0.39, 0.075, "#e0892b").dot(
        0.0, -0.362, 0.06, "#e0892b", edge=""
    )
    return d.dot(0.01, -0.365, 0.034, "#3a2412", edge="").line([(-0.09, -0.315), (0.29, -0.525)], 0.01, "#fff3d0")


def baby() -> Canvas:
    """A baby in a blanket, in both arms."""
    d = Canvas().add(Canvas().ellipse(0, 0, 0.145, 0.078, "#ffd0e0").turned(-18).moved(0.04, -0.41))
    d.dot(0.135, -0.465, 0.066, "#ffd0e0").dot(0.135, -0.46, 0.044, "#e8b98f", edge="")
    return d.line([(-0.06, -0.36), (0.09, -0.40)], 0.014, "#ff8fb5")


def barbell() -> Canvas:
    """A barbell above the head."""
    d = Canvas().line([(-0.30, -0.845), (0.30, -0.845)], 0.026, "#8d97a5", DARK)
    for side in (-1, 1):
        d.rect(side * 0.235 - 0.028, -0.935, side * 0.235 + 0.028, -0.755, "#22252e", r=0.012)
        d.rect(side * 0.29 - 0.022, -0.915, side * 0.29 + 0.022, -0.775, "#d8232a", r=0.012)
    return d


def book() -> Canvas:
    """An open book in both hands."""
    d = Canvas().poly([(0.20, -0.45), (0.06, -0.50), (0.06, -0.31), (0.20, -0.26)], "#2b6be0")
    d.poly([(0.20, -0.45), (0.34, -0.50), (0.34, -0.31), (0.20, -0.26)], "#2b6be0")
    d.poly([(0.195, -0.465), (0.075, -0.51), (0.075, -0.345), (0.195, -0.295)], WHITE, edge="")
    d.poly([(0.205, -0.465), (0.325, -0.51), (0.325, -0.345), (0.205, -0.295)], WHITE, edge="")
    for y in (0, 0.05):
        d.line([(0.10, -0.455 + y), (0.17, -0.43 + y)], 0.012, "#8a93a3").line(
            [(0.23, -0.43 + y), (0.30, -0.455 + y)], 0.012, "#8a93a3"
        )
    return d


def roller() -> Canvas:
    """A paint roller and a fresh patch of paint."""
    d = Canvas().line([(0.235, -0.42), (0.235, -0.55), (0.30, -0.55)], 0.018, DARK)
    return d.limb([(0.225, -0.36), (0.235, -0.45)], 0.03, WOOD).rect(0.18, -0.68, 0.38, -0.59, "#16c2d5", r=0.02)


def paint() -> Canvas:
    """Paint on a board, behind the performer."""
    return Canvas().rect(0.15, -0.86, 0.42, 0, "#f7f3e8").rect(0.185, -0.83, 0.385, -0.55, "#16c2d5", edge="")


def mug() -> Canvas:
    """A steaming mug at the mouth."""
    d = Canvas().ring(0.285, -0.60, 0.036, 0.042, 0.02, "#e23b3b")
    d.rect(0.125, -0.675, 0.265, -0.53, "#e23b3b", r=0.018).rect(0.14, -0.685, 0.25, -0.655, "#4a2a12", edge="")
    for x in (0.16, 0.225):
        d.line([(x, -0.72), (x + 0.02, -0.755), (x, -0.79), (x + 0.02, -0.825)], 0.017, "#f2f4f7", "#9aa5b1")
    return d


def scooter() -> Canvas:
    """A scooter under the feet."""
    d = Canvas().line([(-0.15, -0.045), (0.16, -0.045), (0.235, -0.42)], 0.034, "#17b26a", "#0b5c37")
    d.line([(0.17, -0.435), (0.30, -0.435)], 0.026, DARK)
    for x in (-0.17, 0.205):
        d.dot(x, -0.03, 0.045, DARK).dot(x, -0.03, 0.018, "#cfd6de", edge="")
    return d


def laptop() -> Canvas:
    """A laptop on a small table."""
    d = (
        Canvas()
        .rect(0.05, -0.315, 0.40, -0.28, "#b58a5c")
        .rect(0.085, -0.28, 0.115, 0, "#b58a5c")
        .rect(0.335, -0.28, 0.365, 0, "#b58a5c")
    )
    d.poly([(0.17, -0.33), (0.36, -0.33), (0.40, -0.55), (0.21, -0.55)], "#3a4150")
    d.poly([(0.20, -0.352), (0.345, -0.352), (0.375, -0.525), (0.228, -0.525)], "#7ff0a8", edge="")
    return d.line([(0.08, -0.325), (0.36, -0.325)], 0.024, "#5d6673")


def watering_can() -> Canvas:
    """A watering can over a tall flower."""
    d = Canvas().limb([(0.335, 0.0), (0.335, -0.16)], 0.022, "#2e9e3f")
    d.ellipse(0.30, -0.06, 0.035, 0.018, "#2e9e3f").ellipse(0.37, -0.08, 0.035, 0.018, "#2e9e3f")
    for i in range(6):
        x, y = oval(0.335, -0.2, 0.05, 0.05, 60 * i, 60 * i)[0]
        d.dot(float(x), float(y), 0.03, "#ff3f7f", edge="")
    d.dot(0.335, -0.2, 0.03, "#ffd93b", edge="")
    for x, y in ((0.345, -0.33), (0.365, -0.29), (0.32, -0.29)):
        d.line([(x, y), (x, y + 0.022)], 0.016, "#2f9bff")
    d.line([(0.22, -0.40), (0.335, -0.38)], 0.026, "#7c5cff", "#3d2a99").ring(0.15, -0.46, 0.06, 0.05, 0.02, "#7c5cff")
    return d.rect(0.10, -0.45, 0.235, -0.31, "#7c5cff", r=0.015)


def drum() -> Canvas:
    """A drum at the waist and two sticks."""
    d = Canvas().rect(-0.02, -0.36, 0.28, -0.18, "#d8232a", r=0.01)
    for x in (0.03, 0.09, 0.15, 0.21):
        d.line([(x, -0.33), (x + 0.03, -0.20)], 0.013, "#ffd93b")
    d.rect(-0.03, -0.205, 0.29, -0.175, "#ffd93b", edge="").ellipse(0.13, -0.365, 0.16, 0.042, WHITE)
    return d.line([(0.27, -0.54), (0.17, -0.385)], 0.02, WOOD, "#5b3a1e").line(
        [(-0.06, -0.50), (0.07, -0.385)], 0.02, WOOD, "#5b3a1e"
    )


def rod() -> Canvas:
    """A fishing rod with a fish on the line."""
    d = (
        Canvas()
        .line([(0.14, -0.36), (0.34, -0.84)], 0.022, WOOD, "#5b3a1e")
        .line([(0.34, -0.84), (0.345, -0.46)], 0.01, DARK)
    )
    d.poly([(0.345, -0.24), (0.285, -0.17), (0.405, -0.17)], "#ff8a1f").ellipse(0.345, -0.345, 0.062, 0.115, "#ff8a1f")
    return d.line([(0.295, -0.33), (0.395, -0.33)], 0.016, WHITE).dot(0.362, -0.41, 0.014, DARK, edge="")


def stroller() -> Canvas:
    """A stroller, pushed."""
    d = Canvas().line([(0.10, -0.36), (0.17, -0.34), (0.22, -0.16)], 0.022, DARK)
    d.poly([*oval(0.28, -0.24, 0.125, 0.15, 0, 180)], "#3563e9").poly(
        [*oval(0.29, -0.24, 0.115, 0.15, 200, 360), (0.29, -0.24)], "#8fb0ff"
    )
    for x in (0.20, 0.36):
        d.dot(x, -0.042, 0.044, DARK).dot(x, -0.042, 0.017, "#cfd6de", edge="")
    return d


def football() -> Canvas:
    """A football in the air before the foot."""
    d = Canvas().dot(0.355, -0.20, 0.082, WHITE, edge=DARK).dot(0.355, -0.20, 0.032, "#17171f", edge="")
    for i in range(5):
        x, y = oval(0.355, -0.20, 0.068, 0.068, 72 * i - 90, 72 * i - 90)[0]
        d.dot(float(x), float(y), 0.016, "#17171f", edge="")
    return d


def camera() -> Canvas:
    """A camera before the face, flashing."""
    d = Canvas()
    for angle in range(0, 360, 45):
        d.add(Canvas().line([(0, -0.05), (0, -0.095)], 0.02, "#ffcf1a").turned(angle).moved(0.33, -0.76))
    d.dot(0.33, -0.76, 0.036, "#fff3a0", edge="#ffcf1a").rect(0.09, -0.76, 0.29, -0.61, "#22252e", r=0.018)
    return (
        d.rect(0.14, -0.795, 0.2, -0.755, "#22252e")
        .dot(0.19, -0.685, 0.056, "#9fb3c8")
        .dot(0.19, -0.685, 0.03, "#2b5f9e", edge="")
    )


def broom() -> Canvas:
    """A broom and dust."""
    d = Canvas().line([(0.10, -0.58), (0.27, -0.15)], 0.026, WOOD, "#5b3a1e")
    d.poly([(0.235, -0.17), (0.305, -0.195), (0.405, -0.02), (0.225, 0.0)], "#f0c33c")
    return d.dot(0.44, -0.03, 0.022, "#d9d2c4").dot(0.455, -0.09, 0.016, "#d9d2c4")


def axe() -> Canvas:
    """An axe raised over a log."""
    d = Canvas().rect(0.20, -0.15, 0.44, 0, "#8a5a2b", r=0.02).ellipse(0.205, -0.075, 0.032, 0.072, "#e2b36b")
    d.limb([(0.13, -0.60), (0.30, -0.82)], 0.03, WOOD)
    return d.poly([(0.235, -0.86), (0.30, -0.90), (0.40, -0.79), (0.40, -0.70), (0.31, -0.73)], "#b9c2cc")


def trumpet() -> Canvas:
    """A trumpet at the mouth."""
    gold = "#ffc629"
    d = Canvas().line([(0.09, -0.655), (0.30, -0.685)], 0.028, gold, "#8a6100")
    d.poly([(0.27, -0.70), (0.30, -0.665), (0.41, -0.60), (0.385, -0.79)], gold)
    d.ring(0.19, -0.635, 0.05, 0.028, 0.018, gold, edge="#8a6100")
    for x in (0.16, 0.20, 0.24):
        d.line([(x, -0.685), (x, -0.725)], 0.016, "#8a6100")
    return d


def racket() -> Canvas:
    """A tennis racket and a ball."""
    d = Canvas().limb([(0.15, -0.60), (0.21, -0.69)], 0.028, "#22252e")
    d.add(
        Canvas()
        .ellipse(0, 0, 0.085, 0.115, "#eef7ff", edge="")
        .ring(0, 0, 0.085, 0.115, 0.026, "#e6262b", edge="#6e0f12")
        .turned(30)
        .moved(0.275, -0.79)
    )
    for shift in (-0.035, 0.0, 0.035):
        d.line([(0.235 + shift, -0.745 + shift * 0.4), (0.31 + shift, -0.835 + shift * 0.4)], 0.008, "#8fa3b5")
    return d.dot(0.385, -0.56, 0.046, "#d4f01f")


PERFORMANCES: dict[str, Performance] = {
    "playing_guitar": Performance(Pose((0.12, 0.10), (0.055, 0.225), far_bend=1.0), guitar),
    "holding_baby": Performance(Pose((0.02, 0.20), (0.10, 0.215), near_bend=-1.0, far_bend=1.0), baby),
    "lifting_weights": Performance(
        Pose((0.055, -0.272), (-0.055, -0.272), near_foot=(0.03, 0), far_foot=(-0.03, 0)), barbell
    ),
    "reading_book": Performance(Pose((0.13, 0.24), (0.17, 0.27)), book),
    "painting_wall": Performance(Pose((0.12, 0.17)), roller, paint),
    "drinking_coffee": Performance(Pose((0.15, -0.01)), mug),
    "riding_scooter": Performance(
        Pose((0.12, 0.145), (0.24, 0.15), near_foot=(0.02, -0.065), far_foot=(-0.03, -0.065), knee=0.03), scooter
    ),
    "typing_on_laptop": Performance(Pose((0.06, 0.22), (0.20, 0.225)), laptop),
    "watering_flower": Performance(Pose((0.06, 0.10)), watering_can),
    "playing_drum": Performance(Pose((0.17, 0.04), (0.03, 0.09), far_bend=-1.0), drum),
    "catching_fish": Performance(Pose((0.07, 0.14), (0.20, 0.22)), rod),
    "pushing_stroller": Performance(
        Pose((0.03, 0.215), (0.16, 0.205), near_foot=(0.05, 0), far_foot=(-0.06, 0)), stroller
    ),
    "kicking_football": Performance(
        Pose((0.12, 0.09), (-0.14, 0.10), near_bend=1.0, far_bend=-1.0, near_foot=(0.17, -0.12), far_foot=(-0.04, 0)),
        football,
    ),
    "using_camera": Performance(Pose((0.13, -0.06), (0.24, -0.03)), camera),
    "sweeping_floor": Performance(Pose((0.045, 0.14), (0.13, 0.08), near_foot=(0.03, 0), far_foot=(-0.03, 0)), broom),
    "chopping_wood": Performance(Pose((0.09, -0.09), (0.17, -0.03), near_foot=(0.04, 0), far_foot=(-0.05, 0)), axe),
    "playing_trumpet": Performance(Pose((0.09, -0.05), (0.27, -0.04)), trumpet),
    "playing_tennis": Performance(
        Pose((0.06, -0.05), (-0.15, 0.06), near_foot=(0.05, 0), far_foot=(-0.06, 0), far_bend=-1.0), racket
    ),
}
