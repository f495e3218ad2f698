"""The backgrounds: eight places, each in a few variants, pale enough that people and objects stand out."""

from __future__ import annotations

from equipoise.world.pen import Canvas, by_name, oval

VARIANTS = 4
"""How many ways each place is drawn; every one can be mirrored too."""

GROUND = 0.955
"""Where people stand."""

PLAIN = ""


def park(v: int) -> Canvas:
    """Sky, trees and a lawn."""
    d = _sky("#bfe6fb").rect(0, 0.66, 1, 1, "#9ddb7a", edge=PLAIN)
    for x, size in (
        ((0.10, 1.0), (0.86, 0.85)),
        ((0.2, 0.8), (0.93, 1.05)),
        ((0.05, 0.9), (0.55, 0.8)),
        ((0.3, 0.95), (0.75, 0.75)),
    )[v]:
        d.rect(x - 0.022, 0.5, x + 0.022, 0.72, "#a97b50", edge=PLAIN)
        d.ellipse(x, 0.40, 0.15 * size, 0.19 * size, "#5db35a", edge=PLAIN)
    return d.poly([(0.40, 0.66), (0.56, 0.66), (0.80, 1), (0.25, 1)], "#e8d9b0", edge=PLAIN)


def street(v: int) -> Canvas:
    """Houses, a pavement and a road."""
    d = _sky("#dfe5ee")
    heights = ((0.12, 0.3, 0.18, 0.36), (0.3, 0.1, 0.34, 0.2), (0.2, 0.34, 0.1, 0.26), (0.34, 0.22, 0.3, 0.08))[v]
    walls = ("#c9b7b0", "#b9c0cc", "#d3c4a8", "#c2b3c4")
    for i, top in enumerate(heights):
        x = i * 0.25
        d.rect(x, top, x + 0.25, 0.72, walls[(i + v) % 4], edge=PLAIN)
        for row in range(4):
            y = top + 0.05 + row * 0.115
            if y < 0.6:
                for col in (0.045, 0.145):
                    d.rect(x + col, y, x + col + 0.06, y + 0.065, "#fff2b8", edge=PLAIN)
    d.rect(0, 0.70, 1, 0.78, "#cfd2d6", edge=PLAIN).rect(0, 0.78, 1, 1, "#83878f", edge=PLAIN)
    for i in range(4):
        x = 0.04 + i * 0.27
        d.rect(x, 0.87, x + 0.14, 0.895, "#f4f4f4", edge=PLAIN)
    return d


def office(v: int) -> Canvas:
    """A wall, a window, a desk with a screen."""
    d = Canvas().rect(0, 0, 1, 1, "#f3e9d6", edge=PLAIN).rect(0, 0.76, 1, 1, "#c8b6a0", edge=PLAIN)
    x = (0.08, 0.6, 0.34, 0.62)[v]
    d.rect(x, 0.1, x + 0.32, 0.40, "#bfe2f7", edge="#9aa7b5").line(
        [(x + 0.16, 0.1), (x + 0.16, 0.40)], 0.018, "#9aa7b5"
    )
    d.line([(x, 0.25), (x + 0.32, 0.25)], 0.018, "#9aa7b5")
    desk = (0.62, 0.02, 0.66, 0.04)[v]
    d.rect(desk, 0.60, desk + 0.34, 0.635, "#b58a5c", edge=PLAIN)
    d.rect(desk + 0.03, 0.63, desk + 0.06, 0.82, "#b58a5c", edge=PLAIN).rect(
        desk + 0.28, 0.63, desk + 0.31, 0.82, "#b58a5c", edge=PLAIN
    )
    d.rect(desk + 0.08, 0.43, desk + 0.27, 0.56, "#6e7a89", edge=PLAIN).rect(
        desk + 0.1, 0.445, desk + 0.25, 0.545, "#a9d6ee", edge=PLAIN
    )
    return d.rect(desk + 0.16, 0.56, desk + 0.19, 0.60, "#6e7a89", edge=PLAIN)


def kitchen(v: int) -> Canvas:
    """Tiles, cupboards, a stove."""
    d = Canvas().rect(0, 0, 1, 1, "#f2f6f6", edge=PLAIN)
    for i in range(1, 10):
        d.line([(i / 10, 0.2), (i / 10, 0.56)], 0.008, "#cfdcdc")
        if i < 5:
            d.line([(0, 0.2 + i * 0.09), (1, 0.2 + i * 0.09)], 0.008, "#cfdcdc")
    d.rect(0, 0, 1, 0.18, "#e6b98f", edge=PLAIN)
    for i in range(1, 4):
        d.line([(i / 4, 0), (i / 4, 0.18)], 0.012, "#c08f62")
    d.rect(0, 0.56, 1, 0.61, "#8fa3a8", edge=PLAIN).rect(0, 0.61, 1, 0.84, "#e6b98f", edge=PLAIN)
    d.rect(0, 0.84, 1, 1, "#d8d2c6", edge=PLAIN)
    x = (0.04, 0.68, 0.36, 0.66)[v]
    d.rect(x, 0.56, x + 0.28, 0.84, "#dfe3e6", edge="#9aa5ab").rect(
        x + 0.04, 0.67, x + 0.24, 0.81, "#5f6a70", edge=PLAIN
    )
    return d.rect(x + 0.06, 0.46, x + 0.2, 0.56, "#d05a4e", edge=PLAIN).line(
        [(x + 0.2, 0.49), (x + 0.27, 0.49)], 0.02, "#5f6a70"
    )


def beach(v: int) -> Canvas:
    """Sea, sand and sun."""
    d = _sky("#c9efff").rect(0, 0.42, 1, 0.66, "#4fb3e0", edge=PLAIN)
    x = (0.84, 0.14, 0.6, 0.3)[v]
    d.dot(x, 0.16, 0.105, "#ffe26b", edge=PLAIN)
    for i in range(3):
        d.line([(0.1 + i * 0.3, 0.50 + 0.03 * (i % 2)), (0.26 + i * 0.3, 0.50 + 0.03 * (i % 2))], 0.014, "#bfe7f7")
    boat = (0.2, 0.75, 0.15, 0.82)[v]
    d.poly([(boat - 0.09, 0.40), (boat + 0.09, 0.40), (boat + 0.06, 0.45), (boat - 0.06, 0.45)], "#b06a3b", edge=PLAIN)
    d.poly([(boat, 0.39), (boat, 0.22), (boat + 0.09, 0.38)], "#ffffff", edge=PLAIN)
    shore = [(0, 0.66), (0.25, 0.63), (0.5, 0.66), (0.75, 0.69), (1, 0.65), (1, 1), (0, 1)]
    return d.poly(shore, "#f6e2ab", edge=PLAIN)


def mountains(v: int) -> Canvas:
    """Peaks and snow."""
    d = _sky("#cdd6f2")
    for x, y, half in (
        ((0.2, 0.16, 0.34), (0.75, 0.25, 0.32)),
        ((0.8, 0.14, 0.36), (0.3, 0.28, 0.3)),
        ((0.5, 0.12, 0.4), (0.95, 0.3, 0.25)),
        ((0.05, 0.22, 0.35), (0.6, 0.15, 0.36)),
    )[v]:
        d.poly([(x - half, 0.74), (x, y), (x + half, 0.74)], "#8f9cc0", edge=PLAIN)
        cap = 0.3
        d.poly(
            [
                (x, y),
                (x + half * cap, y + (0.74 - y) * cap),
                (x + half * 0.1, y + (0.74 - y) * 0.22),
                (x - half * 0.1, y + (0.74 - y) * 0.34),
                (x - half * cap, y + (0.74 - y) * cap),
            ],
            "#ffffff",
            edge=PLAIN,
        )
    return d.poly([(0, 0.72), (0.3, 0.68), (0.7, 0.73), (1, 0.69), (1, 1), (0, 1)], "#eef3fb", edge=PLAIN)


def farm(v: int) -> Canvas:
    """A red barn and a field in rows."""
    d = _sky("#fdeecb").rect(0, 0.58, 1, 1, "#e3c25c", edge=PLAIN)
    for i in range(-3, 9):
        d.poly(
            [
                (0.5 + (i - 3) * 0.06, 0.58),
                (0.5 + (i - 3) * 0.06 + 0.03, 0.58),
                (0.5 + (i - 2.6) * 0.28, 1),
                (0.5 + (i - 3) * 0.28, 1),
            ],
            "#cfa63f",
            edge=PLAIN,
        )
    x = (0.05, 0.62, 0.1, 0.58)[v]
    d.rect(x, 0.36, x + 0.32, 0.62, "#c75a4a", edge=PLAIN)
    d.poly([(x - 0.03, 0.37), (x + 0.06, 0.2), (x + 0.26, 0.2), (x + 0.35, 0.37)], "#8f3d34", edge=PLAIN)
    d.rect(x + 0.10, 0.44, x + 0.22, 0.62, "#f6e9d8", edge=PLAIN)
    d.line([(x + 0.10, 0.44), (x + 0.22, 0.62)], 0.016, "#c75a4a").line(
        [(x + 0.22, 0.44), (x + 0.10, 0.62)], 0.016, "#c75a4a"
    )
    silo = x + 0.42 if v % 2 == 0 else x - 0.12
    return d.rect(silo - 0.055, 0.26, silo + 0.055, 0.62, "#c9ccd2", edge=PLAIN).poly(
        oval(silo, 0.26, 0.055, 0.07, 180, 360), "#9aa0aa", edge=PLAIN
    )


def stage(v: int) -> Canvas:
    """Curtains, lights and boards."""
    d = Canvas().rect(0, 0, 1, 1, "#f0d9ef", edge=PLAIN)
    beams = ((0.3, 0.7), (0.2, 0.55), (0.45, 0.8), (0.35, 0.5))[v]
    for x in beams:
        d.poly([(x - 0.03, 0.08), (x + 0.03, 0.08), (x + 0.2, 0.78), (x - 0.2, 0.78)], "#fbf1fa", edge=PLAIN)
    d.rect(0, 0.78, 1, 1, "#c9956b", edge=PLAIN)
    for y in (0.85, 0.92):
        d.line([(0, y), (1, y)], 0.008, "#a87650")
    for side in (0, 1):
        for i in range(3):
            x = i * 0.062 if side == 0 else 1 - (i + 1) * 0.062
            d.rect(x, 0, x + 0.062, 0.80, "#b8407a" if i % 2 == 0 else "#d0578f", edge=PLAIN)
    for i in range(8):
        d.poly(oval(0.0625 + i * 0.125, 0.06, 0.068, 0.07, 0, 180), "#b8407a" if i % 2 else "#d0578f", edge=PLAIN)
    return d.rect(0, 0, 1, 0.065, "#b8407a", edge=PLAIN)


def _sky(fill: str) -> Canvas:
    return Canvas().rect(0, 0, 1, 1, fill, edge=PLAIN)


SCENES = by_name(beach, farm, kitchen, mountains, office, park, stage, street)


def background(name: str, variant: int) -> Canvas:
    """The drawing of a place over the whole picture."""
    return SCENES[name](variant % VARIANTS)
