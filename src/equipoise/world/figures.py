"""The pictogram person: proportions by figure, age and build; skin, clothes and hair as drawings.

Coordinates: the origin is on the ground between the feet, y points down (so a head is at negative y), one unit is
the side of the picture. Everything is drawn facing right, the tool in the *near* hand (positive x); a mirrored sprite
faces left. The figures are signs, as on doors: trousers, a dress, or a tunic over trousers.

Where hands and feet are: a pose is a handful of offsets, in units of an adult figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from equipoise.world.pen import Canvas, Points, edge_of, mixed, oval

Offset = tuple[float, float]


@dataclass(frozen=True)
class Pose:
    """Hands as offsets from their shoulders, feet as offsets from where they stand; ``bend`` turns an elbow."""

    near_hand: Offset
    far_hand: Offset = (-0.062, 0.245)
    near_bend: float = 1.0
    far_bend: float = 1.0
    near_foot: Offset = (0.0, 0.0)
    far_foot: Offset = (0.0, 0.0)
    knee: float = 0.0


STANDING = Pose(near_hand=(0.062, 0.245), near_bend=-1.0)
"""Both arms down."""

HOLDING = Pose(near_hand=(0.135, 0.135))
"""The near hand forward, for a tool."""

RAISED = Pose(near_hand=(0.11, -0.07))
"""The near hand beside the head, to show something."""

ON_CANE: Offset = (-0.105, 0.215)
"""Where the far hand rests on a cane."""


def with_cane(pose: Pose) -> Pose:
    """The pose with the far hand on a cane."""
    return replace(pose, far_hand=ON_CANE, far_bend=1.0)


MONK = (
    "#f6ede4",
    "#f3e7db",
    "#f7ead0",
    "#eadaba",
    "#d7bd96",
    "#a07e56",
    "#825c43",
    "#604134",
    "#3a312a",
    "#292420",
)
"""The ten tones of the Monk Skin Tone Scale (Monk, 2019), lightest first."""

HAIR = {"black": "#17141a", "brown": "#7a4a22", "blond": "#e0b13c", "red": "#c2491f"}
GREY = "#d9dbe0"
SHOE = "#2b2a33"
BACK = "#5b3a1e"

_SCALE = {"child": 0.70, "adult": 1.0, "older": 0.95}
_HALF_WIDTH = {"slim": 0.074, "average": 0.108, "broad": 0.155}
_LIMB = {"slim": 0.048, "average": 0.060, "broad": 0.074}


@dataclass(frozen=True)
class Body:
    """Proportions of one figure, in units of the picture."""

    gender: str
    age: str
    build: str
    scale: float
    half: float
    """Half the width of the chest."""
    limb: float
    """Thickness of an arm."""
    head: float
    """Radius of the head."""
    head_y: float
    shoulder_y: float
    hip_y: float
    hem_y: float
    """Where dress, tunic or jacket ends."""
    hem: float
    """Half the width there."""

    @property
    def shoulder_x(self) -> float:
        """Where an arm begins, from the middle."""
        return self.half - self.limb * 0.25

    def hand(self, offset: tuple[float, float], side: int) -> tuple[float, float]:
        """Where a hand is that the pose puts at ``offset`` from the shoulder; ``side`` 1 is near, -1 far."""
        return side * self.shoulder_x + offset[0] * self.scale, self.shoulder_y + offset[1] * self.scale


def body(gender: str, age: str, build: str) -> Body:
    """The proportions of a figure.

    >>> body("male", "child", "average").shoulder_y > body("male", "adult", "average").shoulder_y
    True
    """
    s = _SCALE[age]
    half = _HALF_WIDTH[build] * s * (0.86 if gender == "female" else 0.95 if gender == "neutral" else 1.06)
    head = 0.112 * (0.86 if age == "child" else 1.0)
    shoulder = -0.575 * s
    hem_y = {"male": -0.255, "female": -0.185, "neutral": -0.150}[gender] * s
    flare = {"male": 1.0, "female": 2.05, "neutral": 1.28}[gender]
    if gender == "female" and build == "broad":
        flare = 1.75
    if gender == "female" and build == "slim":
        flare = 2.3
    return Body(
        gender=gender,
        age=age,
        build=build,
        scale=s,
        half=half,
        limb=_LIMB[build] * (s + 1) / 2,
        head=head,
        head_y=shoulder - head * 0.98,
        shoulder_y=shoulder,
        hip_y=-0.30 * s,
        hem_y=hem_y,
        hem=half * flare,
    )


def torso(b: Body) -> Points:
    """The outline of dress, jacket or tunic."""
    top, bottom, half, hem = b.shoulder_y - 0.012 * b.scale, b.hem_y, b.half, b.hem
    if b.gender == "male":
        right = [(half * 0.55, top), (half, top + 0.05 * b.scale), (half * 0.93, bottom)]
    elif b.gender == "female":
        waist = top + (bottom - top) * 0.42
        right = [
            (half * 0.6, top),
            (half, top + 0.045 * b.scale),
            (half * 0.80, waist),
            (hem, bottom - 0.012),
            (hem * 0.97, bottom),
        ]
    else:
        right = [(half * 0.55, top), (half, top + 0.05 * b.scale), (hem, bottom - 0.02), (hem * 0.9, bottom)]
    return np.array([*right, *[(-x, y) for x, y in reversed(right)]])


def legs(b: Body, skin: str, trousers: str, pose: Pose = STANDING) -> Canvas:
    """Legs and shoes; the figure in a dress has bare legs, the others trousers."""
    d = Canvas()
    width = b.limb * (1.0 if b.gender == "female" else 1.32)
    fill = skin if b.gender == "female" else trousers
    top = b.hip_y - 0.02
    for side, (x, y) in ((-1, pose.far_foot), (1, pose.near_foot)):
        foot = (side * b.half * 0.52 + x * b.scale, y * b.scale - 0.028)
        start = (side * b.half * 0.46, top)
        knee = ((start[0] + foot[0]) / 2 + pose.knee * b.scale, (start[1] + foot[1]) / 2)
        d.limb([start, knee, (foot[0], foot[1] - width * 0.42)], width, fill)
        d.poly(
            [
                (foot[0] - width * 0.55, foot[1] + 0.026),
                (foot[0] - width * 0.5, foot[1] - 0.012),
                (foot[0] + width * 0.6, foot[1] - 0.012),
                (foot[0] + width * 0.95, foot[1] + 0.012),
                (foot[0] + width * 0.95, foot[1] + 0.026),
            ],
            SHOE,
        )
    return d


def arm(b: Body, pose: Pose, side: int) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
    """Shoulder, elbow and hand of an arm."""
    offset, bend = (pose.near_hand, pose.near_bend) if side > 0 else (pose.far_hand, pose.far_bend)
    hand = b.hand(offset, side)
    start = (side * b.shoulder_x, b.shoulder_y + b.limb * 0.55)
    dx, dy = hand[0] - start[0], hand[1] - start[1]
    reach = math.hypot(dx, dy) or 1.0
    span = 0.27 * b.scale
    lift = math.sqrt(max(0.0, (span / 2) ** 2 - (reach / 2) ** 2)) * bend
    elbow = ((start[0] + hand[0]) / 2 - dy / reach * lift, (start[1] + hand[1]) / 2 + dx / reach * lift)
    return start, elbow, hand


def sleeves(b: Body, fill: str, pose: Pose, long: bool, side: int) -> Canvas:
    """The clothed part of one arm: to the elbow, or to the wrist."""
    start, elbow, hand = arm(b, pose, side)
    if not long:
        return Canvas().limb([start, elbow], b.limb * 1.08, fill)
    wrist = (elbow[0] + (hand[0] - elbow[0]) * 0.86, elbow[1] + (hand[1] - elbow[1]) * 0.86)
    return Canvas().limb([start, elbow, wrist], b.limb * 1.08, fill)


def forearms(b: Body, skin: str, pose: Pose, long: bool, side: int) -> Canvas:
    """The bare part of one arm and the hand."""
    _, elbow, hand = arm(b, pose, side)
    d = Canvas()
    if not long:
        d.limb([elbow, hand], b.limb * 0.86, skin)
    return d.dot(*hand, b.limb * 0.60, skin)


def face(b: Body, skin: str) -> Canvas:
    """Neck, head and ears."""
    d = Canvas().rect(-b.head * 0.34, b.head_y + b.head * 0.5, b.head * 0.34, b.shoulder_y + 0.03, skin)
    if b.gender != "female":
        d.dot(-b.head * 0.98, b.head_y + b.head * 0.08, b.head * 0.2, skin)
        d.dot(b.head * 0.98, b.head_y + b.head * 0.08, b.head * 0.2, skin)
    return d.ellipse(0, b.head_y, b.head * 0.95, b.head, skin)


def back_hair(b: Body, hair: str) -> Canvas:
    """Hair behind the head."""
    d = Canvas()
    r, y = b.head, b.head_y
    if b.gender == "female":
        d.poly(
            [
                (-r * 1.12, y - r * 0.1),
                (-r * 1.30, y + r * 1.55),
                (-r * 0.45, y + r * 1.62),
                (r * 0.45, y + r * 1.62),
                (r * 1.30, y + r * 1.55),
                (r * 1.12, y - r * 0.1),
                (0, y - r),
            ],
            hair,
        )
        if b.age == "older":
            d.dot(0, y - r * 1.22, r * 0.46, hair)
        if b.age == "child":
            d.shapes.clear()
            for side in (-1, 1):
                d.ellipse(side * r * 1.32, y + r * 0.35, r * 0.42, r * 0.62, hair)
        d.ellipse(0, y, r * 1.12, r * 1.1, hair)
    elif b.gender == "neutral":
        d.ellipse(0, y - r * 0.08, r * 1.26, r * 1.18, hair)
        d.rect(-r * 1.26, y - r * 0.1, r * 1.26, y + r * 0.62, hair, r=r * 0.25)
    return d


def front_hair(b: Body, hair: str) -> Canvas:
    """Hair, beard and brows in front of the face."""
    d = Canvas()
    r, y = b.head, b.head_y
    if b.gender == "male":
        if b.age == "older":
            beard = [*oval(0, y, r * 1.0, r * 1.08, 12, 168), (-r * 0.5, y + r * 0.40), (r * 0.5, y + r * 0.40)]
            d.poly(beard, hair)
            for side in (-1, 1):
                d.ellipse(side * r * 0.88, y - r * 0.28, r * 0.24, r * 0.42, hair)
            return d
        cap = [*oval(0, y, r * 1.04, r * 1.06, 188, 352), (r * 0.72, y - r * 0.34), (-r * 0.72, y - r * 0.34)]
        d.poly(cap, hair)
    elif b.gender == "female":
        left = [*oval(0, y, r * 1.05, r * 1.08, 170, 300), (-r * 0.15, y - r * 0.55), (-r * 0.80, y + r * 0.1)]
        right = [*oval(0, y, r * 1.05, r * 1.08, 285, 370), (r * 0.84, y + r * 0.1), (r * 0.2, y - r * 0.72)]
        d.poly(left, hair).poly(right, hair)
    else:
        fringe = [*oval(0, y, r * 1.08, r * 1.10, 176, 364), (r * 0.90, y - r * 0.18), (-r * 0.90, y - r * 0.18)]
        d.poly(fringe, hair)
    return d


def cane(b: Body, pose: Pose = STANDING) -> Canvas:
    """The older figure's cane, in the far hand and to the ground."""
    x, y = b.hand(pose.far_hand, -1)
    top = y - 0.03
    hook = oval(x + 0.032, top, 0.032, 0.034, 180, 350)
    return Canvas().line([(x, -0.004), (x, top), *hook], 0.021, "#8a5a2b", edge=edge_of(mixed(BACK, "#ffffff", 0.1)))
