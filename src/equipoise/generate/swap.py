"""Faces replaced by faces of another group: the baseline GenSwap of GenSynth (arXiv 2305.15407).

Each face is replaced by one of the target group from a table of faces (the paper: MTCNN and FairFace, adults only).
The new face is fitted to the box, given the old one's mean colour if asked, and faded in along an ellipse; every pixel
outside the box stays as it was. A table of faces may be one of whole pictures: where its people have a box of the face
or head, that is the face (the largest person's), so that tables of the pictogram world serve on both sides.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from equipoise.data.people import people_of
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate.keeping import Kept, kept, mixed_after, names_in, relabelled, said_of
from equipoise.generate.persons import placed_rows, whole_pixels
from equipoise.generate.plans import Task, WorkPlan, drawn, settings_of, task_of
from equipoise.generate.tools import Tools
from equipoise.text.labels import read_labels

FACE_PARTS = ("face", "face_box", "head")


@dataclass(frozen=True)
class SwapConfig:
    """Whose faces come in, and how they are fitted."""

    axis: str = "gender"
    groups: tuple[str, ...] = ()
    """Target groups; by default all that the table of faces has."""
    where: Mapping[str, tuple[str, ...]] | None = None
    """Only faces with these values in these columns, as ``{"age": ("20-29", "30-39")}``."""
    find: bool = False
    """Let a detector find the faces; otherwise the boxes of ``people`` (their part ``face`` or ``head``) are used."""
    fade: float = 0.3
    """The share of the way from the ellipse's edge inwards over which a face fades in."""
    match_colour: bool = False
    """Shift the new face to the old one's mean colour. Leave it off for skin tone and race, which it would undo."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.fade <= 1:
            raise InputError(f"fade={self.fade}: a share from 0 to 1 is expected")


def plan_swap(source: Table, faces: Table, config: SwapConfig | None = None) -> WorkPlan:
    """The plan of one image per target group for each photograph with a face.

    Args:
        source: photographs with the column ``people`` (boxes of a face or head), unless a detector finds the faces.
        faces: a table of face images with the axis, or of whole pictures whose ``people`` have such boxes.
        config: whose faces come in, and how they are fitted; every group of ``faces`` unless given.

    Returns:
        A plan of one task per photograph.
    """
    settings = config or SwapConfig()
    by_group = _faces_by_group(faces, settings)
    called = names_in(source, settings.axis, by_group)
    if len(set(called.values())) < len(called):  # faces of two groups are not made one
        called = {group: group for group in by_group}
    keeps = Kept(source, (settings.axis,), {"faces_used": "list<string>"})
    chosen: list[tuple[list[int], str, list[list[float]]]] = []
    left_out: Counter[str] = Counter()
    columns = ["image_id", *([] if settings.find else ["people"])]
    for place, row in placed_rows(source, columns):
        boxes = [] if settings.find else _face_boxes(people_of(row["people"]))
        if boxes or settings.find:
            chosen.append((place, row["image_id"], boxes))
        else:
            left_out["no box of a face"] += 1

    def tasks() -> Iterator[Task]:
        for place, name, boxes in chosen:
            yield {
                "id": name,
                "place": place,
                "boxes": boxes,
                "find": settings.find,
                "axis": settings.axis,
                "keeps": keeps.names,
                "fade": settings.fade,
                "match_colour": settings.match_colour,
                "faces": {
                    called[group]: _drawn_faces(settings.seed, name, group, faces_of_group, max(1, len(boxes)))
                    for group, faces_of_group in by_group.items()
                },
            }

    return WorkPlan(
        kind="swap",
        tasks=tasks,
        n_tasks=len(chosen),
        n_images=len(chosen) * len(by_group),
        make=make_swaps,
        config=settings_of(settings),
        axes=keeps.axes,
        columns=keeps.columns,
        source=source,
        parents=faces.fingerprints,
        left_out=dict(left_out),
        by_finder=settings.find,
    )


def _faces_by_group(faces: Table, config: SwapConfig) -> dict[str, list[list[Any]]]:
    where = dict(config.where or {})
    by_group: dict[str, list[list[Any]]] = {group: [] for group in config.groups}
    within = ["people"] if "people" in faces.columns else []
    columns = ["image_id", config.axis, *(name for name in where if name != config.axis), *within]
    rows = list(placed_rows(faces, columns))
    cells = [*config.groups, *(row[config.axis] for _, row in rows)]
    groups = read_labels(cells, asked=config.groups).values()[len(config.groups) :]
    for (place, row), group in zip(rows, groups, strict=True):
        fits = all(row[name] in values for name, values in where.items())
        boxes = _face_boxes(people_of(row.get("people")))
        if group is not None and fits and (group in by_group or not config.groups) and (boxes or not within):
            largest = max(boxes, key=lambda box: box[2] * box[3], default=None)
            by_group.setdefault(group, []).append([row["image_id"], *place, largest])
    empty = [group for group, those in by_group.items() if not those]
    if empty:
        raise InputError(
            f"{faces.path} has no face of the group {empty[0]!r} to take{' with these values' if where else ''}"
        )
    if not by_group:
        raise InputError(f"{faces.path} has no face with a label on {config.axis!r} to take")
    return by_group


def _face_boxes(people: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    boxes = []
    for person in people:
        parts = person.get("parts") or {}
        name = next((name for name in FACE_PARTS if name in parts), None)
        if name is not None and min(parts[name][2:]) > 0:
            boxes.append([float(v) for v in parts[name]])
    return boxes


def _drawn_faces(seed: int, name: str, group: str, faces: list[list[Any]], n: int) -> list[list[Any]]:
    """So many faces of a group as the image needs; more than it has known boxes where a detector may find them."""
    rng = drawn(seed, "swap", name, group)
    return [faces[int(i)] for i in rng.integers(len(faces), size=max(n, 4))]


def make_swaps(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """One image per group for each photograph."""
    return [_made(task_of(row), tools) for row in rows]


def _made(task: Task, tools: Tools) -> list[dict[str, Any]]:
    photo = tools.source(task["place"])
    boxes = _found(photo, tools.finder) if task["find"] else task["boxes"]
    if not boxes:
        raise InputError("no face was found in the image")
    if tools.faces is None:
        raise InputError("a swap needs a table of faces")
    rows = []
    source = tools.labels(task["place"])
    for group, faces in task["faces"].items():
        image, used = photo, []
        for i, box in enumerate(boxes):
            name, *place, within = faces[i % len(faces)]
            face = tools.faces.at(place)
            if within is not None:
                face = face.crop(whole_pixels(within, *face.size))
            area = whole_pixels(box, *photo.size)
            image = swapped(image, face, area, fade=task["fade"], match_colour=task["match_colour"])
            used.append(name)
        labels = _labels(source, task, {task["axis"]: group})
        params = {"boxes": boxes, "fade": task["fade"], "match_colour": task["match_colour"]}
        rows.append(
            {
                **labels,
                "image": image,
                "image_id": f"{task['id']}--swap-{group}",
                "source_id": task["id"],
                "set_id": task["id"],
                task["axis"]: group,
                "label_source": "prompt",
                "generator": "face swap",
                "params": json.dumps(params, sort_keys=True),
                "faces_used": used,
            }
        )
    return tools.finished(rows, label=task["axis"])


def _labels(source: Mapping[str, Any], task: Task, changes: Mapping[str, str]) -> dict[str, Any]:
    """What the row keeps of its source; everyone whose face was replaced has the new group."""
    labels = kept(source, task["keeps"]) | said_of(source, changes)
    labels["caption"] = next(iter(labels.get("captions") or ()), None)
    if "people" in labels:
        people = people_of(source["people"])
        which = [i for i, person in enumerate(people) if task["find"] or _face_boxes([person])]
        labels["people"] = relabelled(people, which, changes)
        labels |= mixed_after(labels["people"], source, changes)
    return labels


def _found(photo: Image.Image, finder: Any) -> list[list[float]]:
    if finder is None:
        raise InputError("finding faces needs a detector of faces; name one, or give boxes in the column 'people'")
    if finder.labels and not {"face", "head"} & set(finder.labels):
        raise UnknownNameError(f"label of {finder.name}", "face", finder.labels)
    wanted = "face" if "face" in finder.labels or not finder.labels else "head"
    detections = finder.detect([photo])[0]
    faces = [box for box, label in zip(detections.boxes, detections.labels, strict=True) if label == wanted]
    return [[float(b[0]), float(b[1]), float(b[2] - b[0]), float(b[3] - b[1])] for b in faces]


def swapped(
    photo: Image.Image, face: Image.Image, area: Sequence[int], *, fade: float = 0.3, match_colour: bool = False
) -> Image.Image:
    """``photo`` with ``face`` in ``area`` (left, top, right, bottom), faded in along the ellipse that fills it.

    >>> made = swapped(Image.new("RGB", (9, 9)), Image.new("RGB", (5, 5), "white"), (2, 2, 7, 7))
    >>> made.getpixel((4, 4)), made.getpixel((2, 2)), made.getpixel((1, 4))
    ((255, 255, 255), (0, 0, 0), (0, 0, 0))
    """
    left, top, right, bottom = area
    size = (right - left, bottom - top)
    new = np.asarray(face.convert("RGB").resize(size, Image.Resampling.LANCZOS), float)
    old = np.asarray(photo.convert("RGB").crop((left, top, right, bottom)), float)
    if match_colour:
        new = new + (old.mean((0, 1)) - new.mean((0, 1)))
    x, y = (((np.arange(n) + 0.5) / n * 2 - 1) for n in size)
    depth = 1 - np.sqrt(y[:, None] ** 2 + x[None, :] ** 2)
    weight = np.clip(depth / max(fade, 1e-9), 0, 1)[:, :, None]
    mixed = np.clip(np.where(weight > 0, old + weight * (new - old), old), 0, 255).round().astype(np.uint8)
    result = photo.convert("RGB").copy()
    result.paste(Image.fromarray(mixed), (left, top))
    return result
