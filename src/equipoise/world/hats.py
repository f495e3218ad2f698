"""Hats and what else is worn on the head; the origin is the middle of the head, one unit is its radius."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.world.pen import Canvas, oval

WHITE = "#ffffff"
RED = "#d8232a"
GOLD = "#f2c230"


def nurse_cap() -> Canvas:
    """A white cap with a red cross."""
    d = Canvas().poly([(-0.85, -0.62), (-0.72, -1.45), (0.72, -1.45), (0.85, -0.62)], WHITE)
    return d.rect(-0.12, -1.36, 0.12, -0.76, RED, edge="").rect(-0.34, -1.16, 0.34, -0.92, RED, edge="")


def fire_helmet() -> Canvas:
    """A red helmet with a gold shield."""
    d = Canvas().poly(oval(0, -0.45, 1.08, 1.15, 180, 360), "#c8141c")
    d.poly([(-1.5, -0.42), (1.5, -0.42), (1.3, -0.62), (-1.3, -0.62)], "#e8b21e")
    return d.poly([(-0.32, -0.6), (-0.36, -1.2), (0, -1.4), (0.36, -1.2), (0.32, -0.6)], GOLD)


def peaked_cap() -> Canvas:
    """A navy cap with a gold badge."""
    d = Canvas().poly([(-0.95, -0.7), (-1.3, -1.3), (-0.6, -1.55), (0.6, -1.55), (1.3, -1.3), (0.95, -0.7)], "#17225c")
    d.poly([(-0.95, -0.42), (-0.95, -0.78), (0.95, -0.78), (0.95, -0.42)], "#0d1433")
    return d.dot(0, -1.08, 0.3, GOLD)


def toque() -> Canvas:
    """A cook's tall white hat."""
    d = Canvas().poly([(-0.82, -0.5), (-0.82, -1.2), (0.82, -1.2), (0.82, -0.5)], WHITE)
    d.dot(-0.62, -1.5, 0.5, WHITE).dot(0.62, -1.5, 0.5, WHITE).dot(0, -1.62, 0.56, WHITE)
    return (
        d.rect(-0.78, -1.45, 0.78, -0.58, WHITE, edge="")
        .line([(-0.3, -0.65), (-0.3, -1.1)], 0.07, "#c9ced6")
        .line([(0.3, -0.65), (0.3, -1.1)], 0.07, "#c9ced6")
    )


def straw_hat() -> Canvas:
    """A wide straw hat."""
    d = Canvas().ellipse(0, -0.5, 1.75, 0.32, "#e8c15a")
    d.poly([(-0.8, -0.5), (-0.62, -1.3), (0.62, -1.3), (0.8, -0.5)], "#e8c15a")
    return d.poly([(-0.82, -0.5), (-0.76, -0.78), (0.76, -0.78), (0.82, -0.5)], "#a23b2a", edge="")


def mortarboard() -> Canvas:
    """A square academic cap with a tassel."""
    d = Canvas().poly([(-0.85, -0.45), (-0.85, -0.95), (0.85, -0.95), (0.85, -0.45)], "#2a2440")
    d.poly([(-1.5, -1.05), (0, -1.5), (1.5, -1.05), (0, -0.68)], "#3a3258")
    return d.line([(0, -1.08), (1.2, -0.95), (1.2, -0.35)], 0.12, GOLD).dot(1.2, -0.3, 0.17, GOLD, edge="")


def cap(crown: str, peak: str) -> Canvas:
    """A baseball cap."""
    d = Canvas().poly(oval(0, -0.42, 1.06, 1.0, 180, 360), crown)
    return d.poly([(-0.1, -0.38), (0.0, -0.62), (1.0, -0.62), (1.65, -0.44), (1.6, -0.3)], peak)


def hard_hat(shell: str, ridge: str) -> Canvas:
    """A builder's helmet."""
    d = Canvas().poly(oval(0, -0.5, 1.1, 1.02, 180, 360), shell).rect(-1.38, -0.62, 1.38, -0.4, shell, r=0.1)
    return d.rect(-0.2, -1.56, 0.2, -0.6, ridge, r=0.08, edge="")


def miner_helmet() -> Canvas:
    """A helmet with a lamp."""
    d = hard_hat("#6d4c2f", "#6d4c2f")
    return d.dot(0, -1.0, 0.46, "#f7f7f2").dot(0, -1.0, 0.34, "#ffe95c", edge="")


def beret() -> Canvas:
    """A beret."""
    d = Canvas().ellipse(-0.25, -0.88, 1.3, 0.5, "#3b1b5c").line([(-0.25, -1.3), (-0.2, -1.52)], 0.14, "#3b1b5c")
    return d.rect(-0.9, -0.72, 0.9, -0.5, "#2a1142", r=0.08)


def goggles(band: str, lens: str) -> Canvas:
    """Goggles pushed up on the forehead."""
    d = Canvas().line([(-0.98, -0.62), (0.98, -0.62)], 0.22, band)
    return d.ellipse(-0.42, -0.66, 0.42, 0.34, lens, edge=band).ellipse(0.42, -0.66, 0.42, 0.34, lens, edge=band)


def space_helmet() -> Canvas:
    """A clear bubble in a white rim."""
    d = Canvas().ring(0, -0.02, 1.32, 1.32, 0.3, "#f4f6f8", edge="#69727f")
    d.line(oval(0, -0.02, 1.0, 1.0, 200, 250), 0.14, WHITE)
    return d.dot(1.36, 0.1, 0.26, "#ff7a1a").dot(-1.36, 0.1, 0.26, "#ff7a1a")


def sailor_cap() -> Canvas:
    """A round white cap with a navy band."""
    d = Canvas().ellipse(0, -1.18, 0.98, 0.4, WHITE)
    return d.poly([(-0.98, -0.5), (-1.08, -1.05), (1.08, -1.05), (0.98, -0.5)], WHITE).rect(
        -0.95, -0.72, 0.95, -0.5, "#1b3a8a", edge=""
    )


def aviator() -> Canvas:
    """A leather cap with flaps and goggles."""
    d = Canvas().poly(oval(0, -0.2, 1.1, 1.05, 180, 360), "#6b3f1d")
    for side in (-1, 1):
        d.ellipse(side * 1.0, 0.15, 0.26, 0.62, "#6b3f1d")
    d.line([(-1.0, -0.62), (1.0, -0.62)], 0.2, "#2b1a0c")
    return d.dot(-0.42, -0.68, 0.36, "#9fdcff", edge="#2b1a0c").dot(0.42, -0.68, 0.36, "#9fdcff", edge="#2b1a0c")


def wig() -> Canvas:
    """A judge's white wig."""
    d = Canvas()
    for side in (-1, 1):
        for y in (-0.3, 0.22, 0.74, 1.2):
            d.ellipse(side * 1.12, y, 0.34, 0.34, "#f3efe2")
    return d.poly([*oval(0, -0.1, 1.16, 1.22, 180, 360), (0.75, -0.4), (-0.75, -0.4)], "#f3efe2")


def top_hat() -> Canvas:
    """A tall black hat with a red band."""
    d = Canvas().rect(-0.78, -1.85, 0.78, -0.5, "#1b1a22", r=0.08).rect(-0.78, -0.92, 0.78, -0.62, RED, edge="")
    return d.rect(-1.35, -0.66, 1.35, -0.44, "#1b1a22", r=0.1)


def headscarf() -> Canvas:
    """A knotted headscarf with dots."""
    d = Canvas().poly([(0.8, -0.9), (1.45, -1.3), (1.5, -0.65)], "#ffd23f")
    d.poly([*oval(0, -0.2, 1.1, 1.0, 190, 350), (0.7, -0.5), (-0.7, -0.5)], "#ffd23f")
    for x, y in ((-0.55, -0.8), (0, -1.0), (0.55, -0.8)):
        d.dot(x, y, 0.13, "#e85d04", edge="")
    return d


def fedora() -> Canvas:
    """A brimmed hat with a dark band."""
    d = Canvas().poly(
        [(-0.82, -0.55), (-0.74, -1.35), (-0.2, -1.5), (0, -1.36), (0.2, -1.5), (0.74, -1.35), (0.82, -0.55)], "#8b6b45"
    )
    d.rect(-0.82, -0.86, 0.82, -0.58, "#33261a", edge="")
    return d.ellipse(0, -0.5, 1.55, 0.2, "#8b6b45")


def wool_hat() -> Canvas:
    """A knitted hat, worn by anyone."""
    d = Canvas().poly(oval(0, -0.42, 1.08, 1.05, 180, 360), "#2aa198").dot(0, -1.55, 0.28, "#fdf6e3")
    return d.rect(-1.12, -0.66, 1.12, -0.32, "#fdf6e3", r=0.1)


HATS: dict[str, Callable[[], Canvas]] = {
    "aviator": aviator,
    "beret": beret,
    "blue_helmet": lambda: hard_hat("#1f6fe0", "#8fbcff"),
    "brown_cap": lambda: cap("#6a4322", "#f0b429"),
    "fedora": fedora,
    "fire_helmet": fire_helmet,
    "goggles": lambda: goggles("#1f7a4d", "#b8ffcf"),
    "grey_cap": lambda: cap("#55606e", "#ff7a1a"),
    "hard_hat": lambda: hard_hat("#ffd21f", "#fff3b0"),
    "headscarf": headscarf,
    "miner_helmet": miner_helmet,
    "mortarboard": mortarboard,
    "nurse_cap": nurse_cap,
    "peaked_cap": peaked_cap,
    "red_cap": lambda: cap(RED, "#a3161b"),
    "sailor_cap": sailor_cap,
    "space_helmet": space_helmet,
    "straw_hat": straw_hat,
    "top_hat": top_hat,
    "toque": toque,
    "wig": wig,
    "wool_hat": wool_hat,
}


def glasses() -> Canvas:
    """Round glasses, seen on every skin tone: pale lenses in a dark frame."""
    d = Canvas().line([(-0.95, -0.02), (0.95, -0.02)], 0.13, "#14141c")
    for side in (-1, 1):
        d.dot(side * 0.43, 0.04, 0.37, "#14141c", edge="").dot(side * 0.43, 0.04, 0.25, "#d9f3ff", edge="")
    return d
