"""Edits of one person in a photograph by instruction: "Turn this person into a woman".

GenSynth (Smith et al., arXiv 2305.15407): photographs with exactly one person; the person's box is cut out, edited by
InstructPix2Pix with 4 instructions x 2 guidance scales for each group, and pasted back. Everything outside the box is
the photograph, to the bit. Editing the whole photograph is the paper's ablation.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from equipoise.data.people import box_in_pixels, people_of, person
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate.keeping import Kept, kept, mixed_after, names_in, relabelled, said_of
from equipoise.generate.persons import people_in, placed_rows, whole_pixels
from equipoise.generate.plans import Task, WorkPlan, examples_of, seed_of, settings_of, task_of
from equipoise.generate.tools import Tools
from equipoise.text.labels import means_unknown
from equipoise.text.templates import EditInstruction, edit_instructions, edit_templates

AREAS = ("person", "whole")


@dataclass(frozen=True)
class EditsConfig:
    """How photographs are edited. What GenSynth does not say is InstructPix2Pix's own default."""

    axis: str = "gender"
    groups: tuple[str, ...] = ()
    """Groups that :func:`equipoise.text.templates.edit_groups` knows; by default the two of the paper."""
    words: Mapping[str, Mapping[str, str]] | None = None
    """Groups of your own with the words that the templates ask for."""
    templates: tuple[str, ...] = ()
    instructions: int | None = None
    """Only the first so many instructions of each group; by default all (four, as in the paper)."""
    limit: int | None = None
    """Only the first so many photographs that can be edited; by default all."""
    guidance: tuple[float, ...] = ()
    """By default the editor's own (``generation.json`` beside it), else the paper's 9.5 and 15."""
    image_guidance: float | None = None
    """By default the editor's own, else InstructPix2Pix's 1.5."""
    steps: int | None = None
    """GenSynth uses 500."""
    area: str = "person"
    """``person``: cut out, edit, paste back; ``whole``: edit the photograph."""
    long_side: int | None = None
    """Give the editor the cut-out with this longer side; by default as it is, for editors fit images to their size."""
    feather: int = 0
    """So many pixels along the inside of the box fade into the photograph."""
    only_labelled: bool = True
    """Leave out photographs without a label on the axis, where the table has the axis."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.area not in AREAS:
            raise UnknownNameError("area to edit", self.area, AREAS)
        if self.feather < 0 or (self.long_side is not None and self.long_side < 8):
            raise InputError(f"feather={self.feather} and long_side={self.long_side}: pixels, from 0 and from 8 up")
        for name in ("instructions", "limit"):
            asked = getattr(self, name)
            if asked is not None and asked < 1:
                raise InputError(f"{name}={asked}: a number from 1 up is expected, or none for all")


IMAGE_GUIDANCE = 1.5


def settled_by(config: EditsConfig, editor: Any) -> EditsConfig:
    """``config``, with the editor's own guidance where none was asked for; the papers' where it brings none."""
    own = getattr(editor, "brings", {})
    guidance = config.guidance or ((float(own["guidance"]),) if "guidance" in own else ())
    image = own.get("image_guidance", IMAGE_GUIDANCE) if config.image_guidance is None else config.image_guidance
    return replace(config, guidance=guidance, image_guidance=float(image))


def plan_edits(source: Table, config: EditsConfig | None = None, *, editor: Any = None) -> WorkPlan:
    """The plan of all edits of each photograph in ``source`` that shows exactly one person.

    The rows keep what ``source`` says beside the group, its captions said of the new one; a group is called as
    ``source`` calls it.

    Args:
        source: photographs with the column ``people`` (see :mod:`equipoise.data.people`); without it only whole
            photographs can be edited, and each is taken for one of a single person.
        config: to which groups, and how photographs are edited; as in GenSynth unless given.
        editor: the generator that will make them, whose own guidance is the default.

    Returns:
        A plan of one task per photograph.
    """
    settings = settled_by(config or EditsConfig(), editor)
    keeps = Kept(source, (settings.axis,), {"people": "json"})
    groups = settings.words or settings.groups
    templates = _first(settings.templates or edit_templates(), settings.instructions)
    edits = list(edit_instructions(groups, templates=templates, guidance_scales=settings.guidance))
    called = names_in(source, settings.axis, dict.fromkeys(edit.group for edit in edits))
    said = [[edit.text, called[edit.group], edit.template, edit.guidance_scale] for edit in edits]
    chosen, left_out = _chosen(source, settings)

    def tasks() -> Iterator[Task]:
        for place, name, shown in chosen:
            yield {
                "id": name,
                "place": place,
                "person": shown,
                "edits": said,
                "keeps": keeps.names,
                "seed": seed_of(settings.seed, "edit", name),
                **{
                    key: getattr(settings, key)
                    for key in ("axis", "area", "image_guidance", "steps", "long_side", "feather")
                },
            }

    about = settings_of(settings)
    for name in ("instructions", "limit"):  # as plans were written when all were always taken
        if about[name] is None:
            del about[name]
    return WorkPlan(
        kind="edits",
        tasks=tasks,
        n_tasks=len(chosen),
        n_images=len(chosen) * len(said),
        make=make_edits,
        config=about,
        needs=("edit",),
        axes=keeps.axes,
        columns=keeps.columns,
        source=source,
        examples=examples_of(tasks(), lambda task: [edit[0] for edit in task["edits"]]),
        left_out=dict(left_out),
        each=_each(edits),
    )


def _first(templates: Sequence[str], n: int | None) -> tuple[str, ...]:
    if n is not None and n > len(templates):
        raise InputError(
            f"{n} instructions were asked for and there are {len(templates)}; give {len(templates)} or fewer"
        )
    return tuple(templates[:n])


def _each(edits: Sequence[EditInstruction]) -> str:
    """How many edits each photograph gets, and why so many."""
    parts = {
        "instruction": len({edit.template for edit in edits}),
        "group": len({edit.group for edit in edits}),
        "guidance scale": len({edit.guidance_scale for edit in edits}),
    }
    product = " x ".join(f"{n} {name}{'' if n == 1 else 's'}" for name, n in parts.items())
    fewer = [
        text
        for n, text in ((parts["instruction"], "--instructions 1"), (parts["guidance scale"], "one --guidance"))
        if n > 1
    ]
    sentence = f"{len(edits)} edits of each photograph: {product}"
    return f"{sentence}; for fewer, give {' and '.join(fewer)}" if fewer else sentence


def _chosen(source: Table, config: EditsConfig) -> tuple[list[tuple[list[int], str, dict[str, Any]]], Counter[str]]:
    labelled = config.only_labelled and config.axis in source.columns
    boxed = "people" in source.columns
    if not boxed and config.area == "person":
        raise InputError(
            f"{source.path}: has no column 'people', which says where the person is; edit whole photographs with "
            "--whole, or import boxes with them, as the reader coco does"
        )
    chosen: list[tuple[list[int], str, dict[str, Any]]] = []
    left_out = Counter[str]()
    names = ["image_id", *(["people"] if boxed else []), *([config.axis] if labelled else [])]
    for place, row in placed_rows(source, names):
        if len(chosen) == config.limit:
            break
        everyone = people_of(row["people"]) if boxed else [person(box=[0, 0, 1, 1], unit="fraction")]
        single = people_in(everyone)
        if len(everyone) != 1 or len(single) != 1:
            left_out["not exactly one person"] += 1
        elif labelled and means_unknown(row[config.axis]):
            left_out[f"no label on {config.axis}"] += 1
        else:
            chosen.append((place, row["image_id"], single[0]))
    return chosen, left_out


def make_edits(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """All edits of each photograph."""
    return [_made(task_of(row), tools) for row in rows]


def _made(task: Task, tools: Tools) -> list[dict[str, Any]]:
    photo = tools.source(task["place"])
    box = whole_pixels(box_in_pixels(task["person"], *photo.size), *photo.size)
    area = box if task["area"] == "person" else (0, 0, *photo.size)
    cut = photo.crop(area)
    if task["long_side"] is not None:
        cut = fitted(cut, task["long_side"])
    rows: list[dict[str, Any]] = []
    source = tools.labels(task["place"])
    said = {group: said_of(source, {task["axis"]: group}) for group in {edit[1] for edit in task["edits"]}}
    for i, image in enumerate(_edited(task, cut, tools.generator)):
        text, group, template, guidance = task["edits"][i]
        people = relabelled([task["person"]], [0], {task["axis"]: group})
        params = {
            "template": template,
            "guidance": guidance,
            "image_guidance": task["image_guidance"],
            "steps": task["steps"],
            "area": task["area"],
            "box": list(area),
            "edited_at": list(cut.size),
            "feather": task["feather"],
        }
        rows.append(
            {
                **kept(source, task["keeps"]),
                **said[group],
                **mixed_after(people, source, {task["axis"]: group}),
                "image": pasted(photo, image, area, task["feather"]),
                "image_id": f"{task['id']}--edit-{i:02d}",
                "source_id": task["id"],
                "set_id": task["id"],
                "caption": text,
                task["axis"]: group,
                "label_source": "prompt",
                "generator": tools.generator.name,
                "params": json.dumps(tools.settled(params), sort_keys=True),
                "seed": task["seed"],
                "people": people,
            }
        )
    return tools.finished(rows)


def _edited(task: Task, cut: Image.Image, editor: Any) -> list[Image.Image]:
    """One image per edit, in their order.

    Those of one group and guidance scale are made together, each group with the same seed: the same template has the
    same noise for every group.
    """
    edits: dict[int, Image.Image] = {}
    kinds: list[tuple[str, float]] = list(dict.fromkeys((edit[1], edit[3]) for edit in task["edits"]))
    for group, scale in kinds:
        places = [i for i, edit in enumerate(task["edits"]) if (edit[1], edit[3]) == (group, scale)]
        images = editor.edit(
            [cut] * len(places),
            [task["edits"][i][0] for i in places],
            seed=task["seed"],
            guidance=scale,
            image_guidance=task["image_guidance"],
            steps=task["steps"],
        )
        edits |= dict(zip(places, images, strict=True))
    return [edits[i] for i in range(len(task["edits"]))]


def fitted(image: Image.Image, long_side: int, multiple: int = 8) -> Image.Image:
    """``image`` with its longer side at ``long_side`` and both sides multiples of ``multiple``, as U-Nets need them.

    >>> fitted(Image.new("RGB", (300, 100)), 512).size
    (512, 168)
    """
    scale = long_side / max(image.size)
    size = [max(multiple, round(side * scale / multiple) * multiple) for side in image.size]
    return image.resize((size[0], size[1]), Image.Resampling.LANCZOS)


def pasted(photo: Image.Image, edited: Image.Image, area: Sequence[int], feather: int = 0) -> Image.Image:
    """``photo`` with ``edited``, brought back to the size of ``area`` (left, top, right, bottom), in its place.

    Pixels outside the area are those of ``photo``, to the bit. ``feather`` pixels along the inside of its edge fade.

    >>> whole = pasted(Image.new("RGB", (9, 9)), Image.new("RGB", (64, 64), "white"), (2, 2, 5, 5))
    >>> [whole.getpixel((x, 3))[0] for x in range(6)]
    [0, 0, 255, 255, 255, 0]
    """
    left, top, right, bottom = area
    size = (right - left, bottom - top)
    inside = edited.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    result = photo.copy()
    result.paste(inside, (left, top), _fade(size, feather) if feather else None)
    return result


def _fade(size: tuple[int, int], feather: int) -> Image.Image:
    across = [np.minimum(np.arange(n), np.arange(n)[::-1]) for n in size]
    depth = np.minimum(across[1][:, None], across[0][None, :])
    return Image.fromarray((np.clip((depth + 1) / (feather + 1), 0, 1) * 255).round().astype(np.uint8))
