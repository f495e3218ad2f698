"""Placebo axes: visible differences that nobody calls a group, to tell a reaction to people from one to any change.

A model that prefers one of two pictures of a set has reacted to what differs between them. A bag, a mirrored picture
and a little more light differ as visibly and mean nothing, so what a model does with them is the size that an axis
of people has to exceed. Placebos are changed one at a time; they are never named in captions, and nothing leans
towards their levels.
"""

from __future__ import annotations

from collections.abc import Iterable

from PIL import Image

from equipoise.errors import InputError
from equipoise.world.catalog import known

PREFIX = "placebo_"
"""Columns of tables whose names begin with this are placebo axes."""

PLACEBOS: dict[str, tuple[str, str]] = {
    "bag": ("none", "bag"),
    "mirror": ("plain", "mirrored"),
    "brightness": ("plain", "brighter"),
}
"""The usual level of each placebo, and the other one."""

LIGHT = 0.88
"""The exponent of a brighter picture: a skin tone stays nearest to a step of its own group."""

_BRIGHTER = [round(255 * (value / 255) ** LIGHT) for value in range(256)]


def column_of(placebo: str) -> str:
    """The column of a table that holds the levels of a placebo.

    >>> column_of("bag")
    'placebo_bag'
    """
    return PREFIX + str(known("placebo", placebo, PLACEBOS))


def checked_placebos(names: Iterable[str]) -> tuple[str, ...]:
    """The placebos asked for, in the order of :data:`PLACEBOS`: the order in which they are named changes nothing.

    >>> checked_placebos(["brightness", "bag"])
    ('bag', 'brightness')
    """
    if isinstance(names, str):
        raise InputError(f"placebos must be a list of names, not the text {names!r}; write [{names!r}]")
    wanted = [known("placebo", name, PLACEBOS) for name in names]
    if len(set(wanted)) < len(wanted):
        raise InputError(f"placebos={wanted}: name each placebo once")
    return tuple(name for name in PLACEBOS if name in wanted)


def levels_of(placebos: Iterable[str], changed: str = "") -> dict[str, str]:
    """The columns of a picture in which the placebo ``changed`` is changed, or none.

    >>> levels_of(["bag", "mirror"], "mirror")
    {'placebo_bag': 'none', 'placebo_mirror': 'mirrored'}
    """
    return {column_of(name): PLACEBOS[name][name == changed] for name in placebos}


def brighter(picture: Image.Image) -> Image.Image:
    """The RGB picture in a little more light: every value, as a share of 255, to the power of :data:`LIGHT`.

    Black and white stay, so that no two colours become one.
    """
    return picture.point(_BRIGHTER * 3)
