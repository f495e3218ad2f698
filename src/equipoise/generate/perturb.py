"""The same pictures, changed in what is no group: the background a little blurred, some objects blacked out.

An audit of such a copy beside that of the pictures says how much of a bias score is a reaction to the surroundings
(Hirota et al., "Bias in Gender Bias Benchmarks: How Spurious Features Distort Evaluation", ICCV 2025, arXiv 2509.07596,
who blur backgrounds weakly and mask a tenth of the objects). Ids, sets and labels stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from equipoise.array_types import Mask
from equipoise.data.people import people_of
from equipoise.data.table import Table
from equipoise.errors import InputError
from equipoise.generate.mask import blacked_out
from equipoise.generate.persons import composited, mask_of, placed_rows
from equipoise.generate.plans import Task, WorkPlan, drawn, settings_of, task_of
from equipoise.generate.tools import Tools

COLUMN = "perturbation"


@dataclass(frozen=True)
class PerturbConfig:
    """How strongly the surroundings are changed."""

    blur: float = 0.01
    """The radius of the blur, as a share of the shorter side; 0 leaves it out."""
    objects: float = 0.0
    """The share of objects that are blacked out by their outline; the same ones in all pictures of a set."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.blur <= 0.5:
            raise InputError(f"blur = {self.blur:g}: give a share of the shorter side, from 0 to 0.5")
        if not 0 <= self.objects <= 1:
            raise InputError(f"objects = {self.objects:g}: give a share from 0 to 1")
        if not self.blur and not self.objects:
            raise InputError("nothing would be changed; give a blur or a share of objects above 0")


def plan_perturb(source: Table, config: PerturbConfig | None = None) -> WorkPlan:
    """The plan of one perturbed copy of every image, with all its columns.

    Args:
        source: images. Where the column ``people`` outlines persons, they stay sharp and all else is blurred; an image
            without an outline is blurred as a whole, and its column ``perturbation`` says so. To black out objects it
            needs ``object_boxes``.
        config: how strongly the surroundings are changed; a weak blur alone unless given.

    Returns:
        A plan of one task per image.
    """
    settings = config or PerturbConfig()
    if settings.objects and "object_boxes" not in source.columns:
        raise InputError(f"{source.path}: has no column 'object_boxes', so no object can be blacked out; leave it out")
    kept = [name for name in source.columns if name not in ("image", "keep", "dropped_by")]
    n = sum(1 for _ in placed_rows(source, ["image_id"]))

    def tasks() -> Iterator[Task]:
        for place, row in placed_rows(source, kept):
            yield {"id": row["image_id"], "place": place, "kept": row, **settings_of(settings)}

    return WorkPlan(
        kind="perturb",
        tasks=tasks,
        n_tasks=n,
        n_images=n,
        make=make_perturbed,
        config=settings_of(settings),
        axes=source.axes,
        columns={**{name: kind for name, kind in source.further_columns.items() if name in kept}, COLUMN: "json"},
        source=source,
    )


def make_perturbed(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """The perturbed copy of each image."""
    made = []
    for row in rows:
        task = task_of(row)
        photo = tools.source(task["place"])
        picture, told = _perturbed(task, photo)
        made.append(tools.finished([{**task["kept"], "image": picture, COLUMN: json.dumps(told)}]))
    return made


def _perturbed(task: Task, photo: Image.Image) -> tuple[Image.Image, dict[str, Any]]:
    record: dict[str, Any] = {}
    people = _outlines(people_of(task["kept"].get("people")), photo)
    picture = photo
    if task["objects"]:
        chosen = _chosen(task)
        for thing in chosen:
            hidden = mask_of(thing, *photo.size)
            picture = blacked_out(picture, hidden if people is None else hidden & ~people)
        record["objects"] = [str(thing.get("name", "")) for thing in chosen]
    if task["blur"]:
        picture = blurred(picture, task["blur"], people)
        record |= {"blur": task["blur"], "of": "whole picture" if people is None else "background"}
    return picture, record


def blurred(photo: Image.Image, share: float, sharp: Mask | None = None) -> Image.Image:
    """``photo`` blurred by a radius of ``share`` of its shorter side, but as it was where ``sharp`` is true.

    >>> photo = Image.fromarray(np.kron(np.eye(2), np.ones((8, 8))).astype(np.uint8) * 255).convert("RGB")
    >>> keep = np.zeros((16, 16), bool); keep[:, :8] = True
    >>> soft = np.asarray(blurred(photo, 0.1, keep))
    >>> bool((soft[:, :8] == np.asarray(photo)[:, :8]).all()), bool((soft == np.asarray(photo)).all())
    (True, False)
    """
    soft = photo.convert("RGB").filter(ImageFilter.GaussianBlur(share * min(photo.size)))
    return soft if sharp is None else composited(photo, soft, ~sharp)


def _outlines(people: list[dict[str, Any]], photo: Image.Image) -> Mask | None:
    """The pixels of all persons, crowds among them; ``None`` where nobody is outlined."""
    placed = [person for person in people if person.get("box") is not None or person.get("mask") is not None]
    if not placed:
        return None
    whole = np.zeros((photo.height, photo.width), bool)
    for person in placed:
        whole |= mask_of(person, *photo.size)
    return whole if whole.any() else None


def _chosen(task: Task) -> list[dict[str, Any]]:
    """The objects to black out: each by a draw of its own, the same in all pictures of a set."""
    things = json.loads(task["kept"].get("object_boxes") or "[]")
    group = task["kept"].get("set_id") or task["id"]
    return [
        thing
        for number, thing in enumerate(things)
        if (thing.get("box") is not None or thing.get("mask") is not None)
        and drawn(task["seed"], "perturb", group, number, thing.get("name")).random() < task["objects"]
    ]
