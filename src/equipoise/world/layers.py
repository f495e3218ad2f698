"""The layers a person is put together from, each drawn once for every look it can have and kept as pixels.

A layer depends on few attributes (hair on figure, age and colour; bare arms on figure, age, build, tone and pose; …),
so that a few thousand small pictures make hundreds of thousands of different people.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

from equipoise.world import figures, hats, objects, outfits, scenes, tools
from equipoise.world.activities import PERFORMANCES
from equipoise.world.catalog import CASUAL, OCCUPATIONS
from equipoise.world.figures import HOLDING, RAISED, STANDING, Body, Pose, with_cane
from equipoise.world.pen import Canvas, Sprite, edge_of
from equipoise.world.scene import Person

CACHE_BYTES = 384 << 20
_BAG_SIDES = (-1, 1)
"""A first bag hangs behind, away from the tool; a second one in front."""
Key = tuple[Any, ...]


class _Cache:
    """Sprites by key, the least recently used dropped when they take too much memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Hashable, Sprite] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Sprite]) -> Sprite:
        held = self._held.get(key)
        if held is not None:
            return held
        sprite = make()
        with self._lock:
            self._held[key] = sprite
            self._bytes += _weight(sprite)
            while self._bytes > self._limit and len(self._held) > 1:
                self._bytes -= _weight(self._held.popitem(last=False)[1])
        return sprite

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0


def _weight(sprite: Sprite) -> int:
    return sprite.image.width * sprite.image.height * 4 + 500


_CACHE = _Cache(CACHE_BYTES)


def clear_cache() -> None:
    """Forget all pixels, for measuring and for tests."""
    _CACHE.clear()


def sprite(key: Key, size: int, zoom: float = 1.0, facing: int = 1) -> Sprite:
    """The pixels of a layer at ``size``, ``zoom`` times as large, mirrored if it faces left."""
    if facing < 0:
        return _CACHE.get((key, size, zoom, -1), lambda: sprite(key, size, zoom).mirrored())
    return _CACHE.get((key, size, zoom, 1), lambda: _drawn(key, size, zoom))


def _drawn(key: Key, size: int, zoom: float) -> Sprite:
    name, *arguments = key
    drawing: Canvas = _DRAWERS[name](*arguments)
    if name == "background":
        return drawing.sprite(size, (0.0, 0.0, 1.0, 1.0))
    return (drawing if zoom == 1.0 else drawing.scaled(zoom)).sprite(size)


def pose_of(person: Person) -> Pose:
    """How a person holds arms and legs: that of their activity, of holding a tool, or standing."""
    if person.activity:
        return PERFORMANCES[person.activity].pose
    pose = STANDING
    if person.in_uniform:
        pose = RAISED if OCCUPATIONS[person.occupation].raised else HOLDING
    return with_cane(pose) if person.age == "older" else pose


def layers_of(person: Person, *, one_more_bag: bool = False) -> list[Key]:
    """The keys of a person's layers, back to front.

    ``one_more_bag``: at the usual side, or at the other one if there is a bag already.
    """
    work = OCCUPATIONS[person.occupation] if person.in_uniform else None
    outfit = work.outfit if work else CASUAL[person.clothes]
    pose = pose_of(person)
    gender, age, build = person.gender, person.age, person.build
    skin = figures.MONK[person.tone - 1]
    hair = figures.GREY if age == "older" else figures.HAIR[person.hair]
    keys: list[Key] = []
    if person.activity and PERFORMANCES[person.activity].back is not PERFORMANCES["reading_book"].back:
        keys.append(("prop_back", person.activity, age))
    if gender != "male":
        keys.append(("back_hair", gender, age, hair))
    if outfit.pattern in ("tailcoat", "space_suit"):
        keys.append(("behind", gender, age, build, outfit))
    dress = gender == "female"
    keys.append(("legs", gender, age, build, skin if dress else "", "" if dress else outfit.legs, pose))
    keys.append(("clothes", gender, age, build, outfit, pose))
    if age == "older" and not person.activity:
        keys.append(("cane", gender, build, pose))
    for side in _BAG_SIDES[: person.bag + one_more_bag]:
        keys.append(("bag", gender, age, build, side))
    keys.append(("head", gender, age, skin, hair))
    if person.glasses:
        keys.append(("glasses", age))
    if work and work.hat:
        keys.append(("hat", work.hat, age))
    elif person.hat:
        keys.append(("hat", "wool_hat", age))
    if person.activity:
        keys.append(("prop", person.activity, age))
    if work:
        keys.append(("tool", gender, age, build, work.tool, pose))
    keys.append(("hands", gender, age, build, skin, outfit.long, pose))
    return keys


def parts_of(person: Person) -> dict[str, list[Key]]:
    """The keys of the layers that outline each body part: the head with its hair, without a hat, and both hands."""
    looks = (person.gender, person.age, person.build, pose_of(person))
    head = [key for key in layers_of(person) if key[0] in ("head", "back_hair")]
    return {"head": head, "far_hand": [("hand", *looks, -1)], "near_hand": [("hand", *looks, 1)]}


def _clothes(b: Body, outfit: outfits.Outfit, pose: Pose) -> Canvas:
    d = figures.sleeves(b, outfit.sleeves, pose, outfit.long, -1)
    d.add(outfits.clothes(b, outfit))
    return d.add(figures.sleeves(b, outfit.sleeves, pose, outfit.long, 1))


def _hands(b: Body, skin: str, long: bool, pose: Pose) -> Canvas:
    return figures.forearms(b, skin, pose, long, -1).add(figures.forearms(b, skin, pose, long, 1))


def _hand(b: Body, pose: Pose, side: int) -> Canvas:
    _, _, hand = figures.arm(b, pose, side)
    return Canvas().dot(*hand, b.limb * 0.60, figures.MONK[0])


def _head(gender: str, age: str, skin: str, hair: str) -> Canvas:
    b = figures.body(gender, age, "average")
    return figures.face(b, skin).add(figures.front_hair(b, hair))


def _worn(drawing: Canvas, age: str) -> Canvas:
    b = figures.body("neutral", age, "average")
    return drawing.scaled(b.head).moved(0, b.head_y)


def _tool(b: Body, name: str, pose: Pose) -> Canvas:
    return tools.TOOLS[name]().scaled((1 + b.scale) / 2).moved(*b.hand(pose.near_hand, 1))


def _bag(b: Body, side: int) -> Canvas:
    x, y = side * (b.half + 0.02), b.hip_y - 0.02 * b.scale
    d = Canvas().line([(-side * b.half * 0.6, b.shoulder_y), (x, y)], 0.024, "#5a1f33", edge_of("#5a1f33"))
    return d.rect(x - 0.062, y - 0.03, x + 0.062, y + 0.085, "#b8325e", r=0.018).rect(
        x - 0.062, y - 0.03, x + 0.062, y + 0.015, "#8a1f43", r=0.012, edge=""
    )


def _scaled(drawing: Canvas, age: str) -> Canvas:
    scale = figures.body("neutral", age, "average").scale
    return drawing if scale == 1.0 else drawing.scaled(scale)


def _of_body(draw: Callable[..., Canvas]) -> Callable[..., Canvas]:
    def drawn(gender: str, age: str, build: str, *rest: Any) -> Canvas:
        return draw(figures.body(gender, age, build), *rest)

    return drawn


_DRAWERS: dict[str, Callable[..., Canvas]] = {
    "back_hair": lambda gender, age, hair: figures.back_hair(figures.body(gender, age, "average"), hair),
    "background": scenes.background,
    "bag": _of_body(_bag),
    "behind": _of_body(outfits.behind),
    "cane": lambda gender, build, pose: figures.cane(figures.body(gender, "older", build), pose),
    "clothes": _of_body(_clothes),
    "glasses": lambda age: _worn(hats.glasses(), age),
    "hand": _of_body(_hand),
    "hands": _of_body(_hands),
    "hat": lambda name, age: _worn(hats.HATS[name](), age),
    "head": _head,
    "legs": _of_body(figures.legs),
    "object": lambda name: objects.OBJECTS[name](),
    "prop": lambda activity, age: _scaled(PERFORMANCES[activity].front(), age),
    "prop_back": lambda activity, age: _scaled(PERFORMANCES[activity].back(), age),
    "tool": _of_body(_tool),
    "unsafe": objects.unsafe_sign,
}
