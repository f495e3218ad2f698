"""Things beside people: 16 that stand on the ground and 8 that hang or fly. The origin is the middle of the bottom edge
(ground) or the centre (air); each is about a quarter of the picture wide.
"""

from __future__ import annotations

import numpy as np

from equipoise.world.pen import Canvas, by_name, oval
from equipoise.world.tools import star

DARK = "#2f3440"
WHITE = "#ffffff"


def dog() -> Canvas:
    """A brown dog."""
    fur = "#b5702e"
    d = Canvas().limb([(-0.1, -0.11), (-0.145, -0.17)], 0.028, fur)
    for x in (-0.085, -0.05, 0.03, 0.065):
        d.limb([(x, -0.08), (x, -0.018)], 0.03, fur)
    d.rect(-0.11, -0.135, 0.085, -0.06, fur, r=0.03).ellipse(0.095, -0.165, 0.055, 0.048, fur)
    d.ellipse(0.135, -0.15, 0.032, 0.024, "#e0b27a").dot(0.16, -0.155, 0.012, DARK, edge="").dot(
        0.1, -0.175, 0.009, DARK, edge=""
    )
    return d.ellipse(0.06, -0.155, 0.02, 0.045, "#7a4517")


def cat() -> Canvas:
    """A black sitting cat."""
    fur = "#3a3a46"
    d = Canvas().line([(0.06, -0.03), (0.12, -0.05), (0.125, -0.12)], 0.026, fur)
    d.ellipse(0, -0.075, 0.068, 0.078, fur).dot(0, -0.175, 0.055, fur)
    for side in (-1, 1):
        d.poly([(side * 0.052, -0.18), (side * 0.05, -0.25), (side * 0.012, -0.215)], fur)
        d.dot(side * 0.022, -0.18, 0.013, "#d8f25c", edge="")
    return d


def ball() -> Canvas:
    """A red and white ball."""
    d = Canvas().dot(0, -0.085, 0.085, "#ee2f3a")
    circle = oval(0, -0.085, 0.085, 0.085)
    return d.rect(-0.1, -0.108, 0.1, -0.062, WHITE, edge="", clip=circle).dot(0, -0.085, 0.024, "#ee2f3a", edge="")


def chair() -> Canvas:
    """A wooden chair."""
    wood = "#9c5f2c"
    d = Canvas().rect(-0.085, -0.25, -0.055, 0, wood).rect(0.055, -0.12, 0.085, 0, wood)
    return d.rect(-0.085, -0.14, 0.09, -0.105, wood).rect(-0.06, -0.235, -0.03, -0.14, "#c98a4e", edge="")


def plant() -> Canvas:
    """A plant in a pot."""
    d = Canvas()
    for angle in (-50, -22, 22, 50, 0):
        d.add(Canvas().ellipse(0, -0.085, 0.03, 0.085, "#2e9e3f").turned(angle).moved(0, -0.09))
    return d.poly([(-0.065, -0.1), (0.065, -0.1), (0.045, 0), (-0.045, 0)], "#d0602b")


def car() -> Canvas:
    """A blue car."""
    d = Canvas().poly([(-0.085, -0.09), (-0.055, -0.155), (0.055, -0.155), (0.09, -0.09)], "#1f7fe0")
    d.poly([(-0.06, -0.095), (-0.042, -0.138), (-0.005, -0.138), (-0.005, -0.095)], "#d9f1ff", edge="")
    d.poly([(0.012, -0.095), (0.012, -0.138), (0.044, -0.138), (0.066, -0.095)], "#d9f1ff", edge="")
    d.rect(-0.135, -0.1, 0.135, -0.035, "#1f7fe0", r=0.02)
    for x in (-0.07, 0.07):
        d.dot(x, -0.036, 0.036, DARK, edge="").dot(x, -0.036, 0.015, "#cfd6de", edge="")
    return d


def bicycle() -> Canvas:
    """A green bicycle."""
    d = Canvas()
    for x in (-0.078, 0.078):
        d.ring(x, -0.06, 0.052, 0.052, 0.018, DARK)
    d.line([(-0.078, -0.06), (-0.03, -0.14), (0.055, -0.14), (0.078, -0.06)], 0.02, "#0f9d58")
    d.line([(-0.03, -0.14), (0.0, -0.06), (0.055, -0.14)], 0.02, "#0f9d58").line(
        [(-0.078, -0.06), (0, -0.06)], 0.02, "#0f9d58"
    )
    return d.line([(-0.05, -0.16), (-0.015, -0.16)], 0.022, DARK).line(
        [(0.055, -0.14), (0.05, -0.175), (0.085, -0.18)], 0.018, DARK
    )


def suitcase() -> Canvas:
    """A yellow suitcase with a handle."""
    d = Canvas().line([(-0.035, -0.17), (-0.035, -0.235), (0.035, -0.235), (0.035, -0.17)], 0.018, DARK)
    d.rect(-0.085, -0.18, 0.085, -0.018, "#f4b41a", r=0.02)
    for x in (-0.04, 0.0, 0.04):
        d.line([(x, -0.155), (x, -0.045)], 0.011, "#c07f00")
    return d.dot(-0.06, -0.012, 0.014, DARK, edge="").dot(0.06, -0.012, 0.014, DARK, edge="")


def lamp() -> Canvas:
    """A standing lamp."""
    d = Canvas().rect(-0.012, -0.2, 0.012, -0.02, DARK, edge="").ellipse(0, -0.018, 0.055, 0.018, DARK)
    return d.poly([(-0.045, -0.29), (0.045, -0.29), (0.085, -0.18), (-0.085, -0.18)], "#ffe24d")


def gift() -> Canvas:
    """A purple present with a bow."""
    d = Canvas().rect(-0.085, -0.145, 0.085, 0, "#9b34d6").rect(-0.02, -0.145, 0.02, 0, "#ffd93b", edge="")
    d.rect(-0.1, -0.17, 0.1, -0.125, "#b95be8").rect(-0.02, -0.17, 0.02, -0.125, "#ffd93b", edge="")
    return d.ellipse(-0.038, -0.195, 0.036, 0.024, "#ffd93b").ellipse(0.038, -0.195, 0.036, 0.024, "#ffd93b")


def cone() -> Canvas:
    """A traffic cone."""
    shape = [(-0.022, -0.235), (0.022, -0.235), (0.075, -0.025), (-0.075, -0.025)]
    d = Canvas().poly(shape, "#ff6a13")
    for y in (-0.17, -0.09):
        d.rect(-0.1, y - 0.019, 0.1, y + 0.019, WHITE, edge="", clip=np.array(shape))
    return d.rect(-0.1, -0.03, 0.1, 0, "#ff6a13", r=0.008)


def television() -> Canvas:
    """A television with an aerial."""
    d = Canvas().line([(-0.06, -0.26), (0, -0.19), (0.06, -0.26)], 0.014, DARK)
    d.rect(-0.115, -0.195, 0.115, -0.025, "#4a4f5c", r=0.018).rect(-0.092, -0.175, 0.092, -0.045, "#7fe3f0", edge="")
    d.line([(-0.06, -0.08), (-0.02, -0.13), (0.02, -0.09), (0.06, -0.14)], 0.014, WHITE)
    return d.rect(-0.07, -0.025, -0.045, 0, DARK, edge="").rect(0.045, -0.025, 0.07, 0, DARK, edge="")


def cactus() -> Canvas:
    """A cactus with two arms."""
    green = "#1e8449"
    d = Canvas().limb([(0, -0.02), (0, -0.24)], 0.056, green)
    d.limb([(0, -0.095), (-0.075, -0.095), (-0.075, -0.16)], 0.036, green)
    d.limb([(0, -0.125), (0.075, -0.125), (0.075, -0.195)], 0.036, green)
    return d.line([(0, -0.05), (0, -0.23)], 0.008, "#7bd88f").dot(0, -0.268, 0.022, "#ff4f9a", edge="")


def tent() -> Canvas:
    """An orange tent."""
    d = Canvas().poly([(0, -0.2), (0.135, 0), (-0.135, 0)], "#f08a24")
    return d.poly([(0, -0.2), (0.045, 0), (-0.045, 0)], "#5e2f0d", edge="").line([(0, -0.2), (0, -0.235)], 0.014, DARK)


def cake() -> Canvas:
    """A pink cake with candles."""
    d = Canvas()
    for x in (-0.05, 0, 0.05):
        d.line([(x, -0.14), (x, -0.19)], 0.016, "#3d8bfd").ellipse(x, -0.215, 0.012, 0.02, "#ff9f0a", edge="")
    d.rect(-0.095, -0.14, 0.095, -0.018, "#ff8fbf", r=0.014).rect(-0.095, -0.085, 0.095, -0.055, "#fff3e6", edge="")
    return d.ellipse(0, -0.012, 0.12, 0.014, "#cfd6de")


def duck() -> Canvas:
    """A yellow duck."""
    d = Canvas().poly([(0.075, -0.175), (0.145, -0.16), (0.075, -0.145)], "#ff7a12")
    d.ellipse(-0.02, -0.072, 0.1, 0.068, "#ffd91a").dot(0.045, -0.165, 0.052, "#ffd91a")
    return d.ellipse(-0.035, -0.08, 0.05, 0.032, "#e8b400", edge="").dot(0.058, -0.178, 0.011, DARK, edge="")


def balloon() -> Canvas:
    """A red balloon on a string."""
    d = Canvas().line([(0, 0.06), (0.012, 0.1), (-0.012, 0.14), (0.0, 0.175)], 0.01, DARK)
    d.poly([(-0.02, 0.065), (0.02, 0.065), (0, 0.035)], "#ff2d55").ellipse(0, -0.035, 0.078, 0.092, "#ff2d55")
    return d.ellipse(-0.03, -0.07, 0.016, 0.024, "#ffc2cf", edge="")


def clock() -> Canvas:
    """A round clock."""
    d = Canvas().dot(0, 0, 0.098, DARK).dot(0, 0, 0.078, WHITE, edge="")
    return d.line([(0, 0), (0, -0.056)], 0.019, DARK).line([(0, 0), (0.042, 0.018)], 0.019, "#d8232a")


def kite() -> Canvas:
    """A kite of four colours."""
    d = Canvas().line([(0, 0.08), (-0.03, 0.115), (0.02, 0.145), (-0.01, 0.175)], 0.011, DARK)
    for points, fill in (
        ([(0, -0.13), (0, -0.03), (-0.085, -0.03)], "#ffcc00"),
        ([(0, -0.13), (0, -0.03), (0.085, -0.03)], "#ff3b30"),
        ([(0, 0.095), (0, -0.03), (-0.085, -0.03)], "#34a853"),
        ([(0, 0.095), (0, -0.03), (0.085, -0.03)], "#2f6fed"),
    ):
        d.poly(points, fill)
    return d


def bird() -> Canvas:
    """A blue bird."""
    d = (
        Canvas()
        .poly([(-0.07, 0.0), (-0.15, -0.03), (-0.135, 0.05)], "#1d5fd1")
        .poly([(0.095, -0.045), (0.15, -0.03), (0.095, -0.012)], "#ff9f0a")
    )
    d.ellipse(0, 0.0, 0.09, 0.058, "#3b82f6").dot(0.075, -0.035, 0.045, "#3b82f6")
    return d.poly([(-0.04, 0.0), (0.04, -0.01), (-0.055, -0.12)], "#1d5fd1").dot(0.085, -0.045, 0.01, WHITE, edge="")


def butterfly() -> Canvas:
    """An orange butterfly."""
    d = Canvas()
    for side in (-1, 1):
        d.ellipse(side * 0.058, -0.04, 0.058, 0.055, "#ff8c1a").ellipse(side * 0.045, 0.05, 0.042, 0.04, "#ffb84d")
        d.dot(side * 0.065, -0.045, 0.02, "#7a1fa2", edge="").line([(0, -0.08), (side * 0.035, -0.125)], 0.01, DARK)
    return d.line([(0, -0.075), (0, 0.085)], 0.026, DARK)


def umbrella() -> Canvas:
    """An open pink umbrella."""
    d = Canvas().line([(0, -0.04), (0, 0.11), *oval(0.025, 0.115, 0.025, 0.025, 180, 20)], 0.017, DARK)
    return d.poly(
        [
            *oval(0, -0.01, 0.125, 0.115, 180, 360),
            (0.083, -0.03),
            (0.042, -0.01),
            (0, -0.03),
            (-0.042, -0.01),
            (-0.083, -0.03),
        ],
        "#f032a0",
    ).line([(0, -0.125), (0, -0.15)], 0.016, DARK)


def picture() -> Canvas:
    """A framed landscape."""
    d = Canvas().rect(-0.12, -0.09, 0.12, 0.09, "#c48a2c").rect(-0.092, -0.063, 0.092, 0.063, "#a6e0ff", edge="")
    d.poly([(-0.092, 0.063), (-0.03, -0.03), (0.02, 0.03), (0.045, 0.005), (0.092, 0.063)], "#2e9e3f", edge="")
    return d.dot(0.055, -0.033, 0.02, "#ffe24d", edge="")


def moon() -> Canvas:
    """A crescent moon with a star."""
    outer = oval(0, 0, 0.1, 0.1, 60, 300)
    inner = oval(0.045, 0, 0.08, 0.08, 290, 70)
    return (
        Canvas()
        .poly([*outer, *inner], "#ffd43d", edge="#8a6d1f")
        .poly(star(0.065, -0.01, 0.045), "#ffd43d", edge="#8a6d1f")
    )


def unsafe_sign() -> Canvas:
    """The sign that stands for unsafe content: a magenta triangle with an exclamation mark."""
    d = Canvas().poly([(0, -0.13), (0.145, 0.115), (-0.145, 0.115)], "#17141a", edge=WHITE)
    d.poly([(0, -0.095), (0.11, 0.095), (-0.11, 0.095)], "#ff00c8", edge="")
    return d.poly([(-0.02, -0.045), (0.02, -0.045), (0.012, 0.035), (-0.012, 0.035)], WHITE, edge="").dot(
        0, 0.068, 0.018, WHITE, edge=""
    )


FLOOR = by_name(
    ball, bicycle, cactus, cake, car, cat, chair, cone, dog, duck, gift, lamp, plant, suitcase, television, tent
)
AIR = by_name(balloon, bird, butterfly, clock, kite, moon, picture, umbrella)
OBJECTS = {**FLOOR, **AIR}
