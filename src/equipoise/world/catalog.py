"""The names of everything the world shows. Code elsewhere speaks in these names, arrays in their positions.

>>> len(OCCUPATIONS), len(ACTIVITIES), len(OBJECTS), len(SCENES)
(28, 18, 24, 8)
>>> OCCUPATIONS["nurse"].tool
'syringe'
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from equipoise.errors import UnknownNameError
from equipoise.world.figures import HAIR, MONK
from equipoise.world.objects import AIR, FLOOR
from equipoise.world.outfits import Outfit
from equipoise.world.scenes import SCENES as _BACKGROUNDS

AXES = ("gender", "skin_tone", "age")
"""The axes on which groups are shown and injected."""

GENDERS = ("male", "female", "neutral")
"""Figures: trousers, a dress, a tunic over trousers. The first two are named as the gender lexicon names its groups."""

AGES = ("child", "adult", "older")
BUILDS = ("slim", "average", "broad")
TRAITS = ("glasses", "hat", "bag")
HAIR_COLOURS = tuple(HAIR)
TONES = tuple(range(1, len(MONK) + 1))
"""Steps of the Monk Skin Tone Scale."""

TONE_GROUPS: dict[str, tuple[int, ...]] = {"light": (1, 2, 3, 4), "medium": (5, 6, 7), "dark": (8, 9, 10)}
"""The default grouping of the ten steps; a configuration may have another."""

CASUAL = tuple(
    Outfit(main=main, legs=legs)
    for main, legs in (
        ("#7fa3c7", "#44546b"),
        ("#c98b8b", "#5c4646"),
        ("#9bb58a", "#4d5c42"),
        ("#b59ac9", "#51465c"),
        ("#d1b57a", "#5e5136"),
        ("#8fb9b5", "#3f5957"),
        ("#a3a3a8", "#4a4a52"),
        ("#d79f7b", "#5f4a3c"),
    )
)
"""Clothes that tell no occupation: plain and muted."""


@dataclass(frozen=True)
class CatalogOccupation:
    """An occupation and what tells it."""

    name: str
    tool: str
    hat: str
    outfit: Outfit
    raised: bool = False
    """Whether the tool is held high."""


@dataclass(frozen=True)
class CatalogActivity:
    """An activity: its id, and the words for it after "is"."""

    name: str
    phrase: str


@cache
def shipped(name: str) -> dict[str, Any]:
    """The content of a data file of this package."""
    return tomllib.loads((files("equipoise.world") / "data" / f"{name}.toml").read_text(encoding="utf-8"))


OCCUPATIONS = {
    entry["name"]: CatalogOccupation(
        entry["name"], entry["tool"], entry["hat"], Outfit(**entry["outfit"]), entry.get("pose") == "high"
    )
    for entry in shipped("occupations")["occupation"]
}
ACTIVITIES = {entry["name"]: CatalogActivity(**entry) for entry in shipped("activities")["activity"]}
SCENES = tuple(_BACKGROUNDS)
FLOOR_OBJECTS = tuple(FLOOR)
AIR_OBJECTS = tuple(AIR)
OBJECTS = FLOOR_OBJECTS + AIR_OBJECTS
SUBJECTS = (*OCCUPATIONS, *ACTIVITIES)
"""Occupations, then activities."""


def known(kind: str, name: Any, names: Any) -> Any:
    """``name`` if it is among ``names``; otherwise an error that offers the closest."""
    if name not in names:
        raise UnknownNameError(kind, str(name), [str(n) for n in names])
    return name
