"""Where hands and feet are: a pose is a handful of offsets, in units of an adult figure."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["HOLDING", "ON_CANE", "RAISED", "STANDING", "Pose", "with_cane"]

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
