"""Pixels, masks and boxes of scenes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from equipoise.array_types import Mask, Pixels
from equipoise.errors import InputError
from equipoise.world.layers import layers_of, parts_of, sprite
from equipoise.world.pen import Sprite
from equipoise.world.placebos import brighter
from equipoise.world.scene import Person, Scene
from equipoise.world.scenes import GROUND

Owner = tuple[str, int]

ZOOM_OF_TWO = 0.84
"""Two people are drawn a little smaller than one."""

SMALLEST, LARGEST = 16, 2048


@dataclass(frozen=True)
class Truth:
    """Exactly where everything is, at one size.

    A person's mask holds every pixel that any part of the person touches, clothes, tool and cane included, so that no
    pixel outside the masks depends on who is shown. A thing's mask holds its visible pixels.
    """

    people: tuple[Mask, ...]
    objects: tuple[Mask, ...]
    names: tuple[str, ...]
    unsafe: Mask | None

    @property
    def anyone(self) -> Mask:
        """The pixels of all people."""
        return np.asarray(np.logical_or.reduce(self.people))


def render(scene: Scene, size: int = 64) -> Pixels:
    """The picture of a scene as an array.

    Args:
        scene: what is drawn.
        size: pixels per side, 16 to 2048.

    Returns:
        The picture, (size, size, 3) uint8.

    >>> from equipoise.world import sample, preset
    >>> render(sample(preset("fair"), 1)[0], 64).shape
    (64, 64, 3)
    """
    return np.asarray(render_image(scene, size))


def render_image(scene: Scene, size: int = 64) -> Image.Image:
    """The picture of a scene as an image.

    Args:
        scene: what is drawn.
        size: pixels per side, 16 to 2048.

    Returns:
        The picture in RGB.
    """
    canvas = _background(scene.scene, scene.variant, scene.mirrored, size).copy()
    for _, part, left, top in _parts(scene, size):
        canvas.paste(part.image, (left, top), part.image)
    canvas = _flipped(canvas, scene.placebo == "mirror")
    return brighter(canvas) if scene.placebo == "brightness" else canvas


def render_batch(scenes: Iterable[Scene], size: int = 64) -> Pixels:
    """The pictures of many scenes as one array.

    Args:
        scenes: what is drawn; may be none.
        size: pixels per side, 16 to 2048.

    Returns:
        The pictures, (n, size, size, 3) uint8.
    """
    pictures = [render(scene, size) for scene in scenes]
    return np.stack(pictures) if pictures else np.zeros((0, size, size, 3), dtype=np.uint8)


def what_is_where(scene: Scene, size: int = 64) -> Truth:
    """The masks of people and things in the picture of a scene.

    Args:
        scene: what the picture shows.
        size: pixels per side of the picture, 16 to 2048.

    Returns:
        Masks (size, size) of each person, of each thing, and of the sign for unsafe content where there is one.
    """
    _check_size(size)
    touched: dict[Owner, Image.Image] = {}
    for owner, part, left, top in _parts(scene, size):
        if owner not in touched:
            touched[owner] = Image.new("L", (size, size))
        touched[owner].paste(255, (left, top), part.touched)
    step = -1 if scene.placebo == "mirror" else 1
    masks = {owner: np.ascontiguousarray(np.asarray(area)[:, ::step] > 0) for owner, area in touched.items()}
    people = tuple(masks["person", i] for i in range(len(scene.people)))
    free = ~np.logical_or.reduce(people)
    things = tuple(masks["object", i] & free for i in range(len(scene.objects)))
    sign = masks["unsafe", 0] & free if scene.unsafe is not None else None
    return Truth(people, things, tuple(scene.object_names), sign)


def body_parts(scene: Scene, size: int = 64) -> tuple[dict[str, list[float]], ...]:
    """The boxes of each person's ``head``, ``near_hand`` and ``far_hand``.

    A hand that holds something is where the hand is, whatever covers it.

    Args:
        scene: what the picture shows.
        size: pixels per side of the picture, 16 to 2048.

    Returns:
        For each person the boxes ``[x, y, width, height]`` in pixels by part. A part that lies outside has no box.

    >>> from equipoise.world import sample, preset
    >>> sorted(body_parts(sample(preset("fair"), 1)[0])[0])
    ['far_hand', 'head', 'near_hand']
    """
    _check_size(size)
    parts: list[dict[str, list[float]]] = []
    for person in scene.people:
        boxes: dict[str, list[float]] = {}
        for name, keys in parts_of(person).items():
            box = _outline(scene, person, keys, size).getbbox()
            if box is not None:
                boxes[name] = [float(v) for v in (box[0], box[1], box[2] - box[0], box[3] - box[1])]
        parts.append(boxes)
    return tuple(parts)


def heads(scene: Scene, size: int = 64) -> tuple[Mask, ...]:
    """The mask of each person's head with its hair, whatever hat covers it."""
    return tuple(np.asarray(_outline(scene, person, parts_of(person)["head"], size)) > 0 for person in scene.people)


def _outline(scene: Scene, person: Person, keys: Iterable[Any], size: int) -> Image.Image:
    """Where the layers ``keys`` of a person are."""
    left, top = round(person.x * size), round(GROUND * size)
    area = Image.new("L", (size, size))
    for key in keys:
        part = sprite(key, size, _zoom(scene), person.facing)
        area.paste(255, (left + part.left, top + part.top), part.touched)
    return _flipped(area, scene.placebo == "mirror")


def _zoom(scene: Scene) -> float:
    return 1.0 if len(scene.people) == 1 else ZOOM_OF_TWO


def _flipped(picture: Image.Image, mirrored: bool) -> Image.Image:
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else picture


def _check_size(size: int) -> None:
    if not SMALLEST <= size <= LARGEST:
        raise InputError(f"size={size}: pictures are drawn with {SMALLEST} to {LARGEST} pixels per side")


@lru_cache(maxsize=256)
def _background(place: str, variant: int, mirrored: bool, size: int) -> Image.Image:
    _check_size(size)
    return _flipped(sprite(("background", place, variant), size).image.convert("RGB"), mirrored)


def _parts(scene: Scene, size: int) -> Iterator[tuple[Owner, Sprite, int, int]]:
    """Everything in front of the background, back to front: whose it is, its pixels, where they go."""
    for i, placed in enumerate(scene.objects):
        yield _placed(("object", i), sprite(("object", placed.name), size), placed.x, placed.y, size)
    if scene.unsafe is not None:
        yield _placed(("unsafe", 0), sprite(("unsafe",), size), *scene.unsafe, size)
    zoom = _zoom(scene)
    for i in range(len(scene.people) - 1, -1, -1):
        person = scene.people[i]
        owner = ("person", i)
        left, top = round(person.x * size), round(GROUND * size)
        for key in layers_of(person, one_more_bag=scene.placebo == "bag" and i == 0):
            part = sprite(key, size, zoom, person.facing)
            yield owner, part, left + part.left, top + part.top


def _placed(owner: Owner, part: Sprite, x: float, y: float, size: int) -> tuple[Owner, Sprite, int, int]:
    return owner, part, round(x * size) + part.left, round(y * size) + part.top
