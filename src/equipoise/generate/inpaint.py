"""Persons drawn anew in photographs, as each group, by text-guided inpainting.

Hirota et al. (EMNLP 2024; thesis, chapter 4): the largest person (and the second, if its box has over 55,000 pixels)
is masked and drawn m = 30 times for each group, over the guidance scales 7.5, 9.5 and 15; the prompt is a caption of
the photograph with its group word replaced. A filter chooses one of them later. Drawing one random body part instead
of the person shows what the drawing itself does to a measurement. Pixels outside the mask are the photograph's, to
the bit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from equipoise.array_types import Mask
from equipoise.data import masks
from equipoise.data.people import people_of
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate.persons import (
    SECOND_OVER,
    box_in_pixels,
    composited,
    dilated,
    mask_of,
    outlined,
    people_in,
    placed_rows,
    targets,
)
from equipoise.generate.plans import Task, WorkPlan, drawn, examples_of, seed_of, settings_of, task_of
from equipoise.generate.tools import Tools
from equipoise.text.templates import inpainting_prompt

__all__ = ["InpaintConfig", "make_inpaints", "plan_inpaint"]

AREAS = ("person", "part")
BY = ("segment", "box", "finder")
CAPTIONS = ("first", "seed")


@dataclass(frozen=True)
class InpaintConfig:
    """How persons are drawn anew."""

    axis: str = "gender"
    groups: tuple[str, ...] = ("female", "male")
    per_group: int = 30
    guidance: tuple[float, ...] = (7.5, 9.5, 15.0)
    """The images of a group are shared out evenly over these."""
    dilation: float = 8.0
    """Pixels around the mask that are drawn anew too."""
    second_over: float = SECOND_OVER
    area: str = "person"
    """``person``, or ``part``: one random body part of the same person."""
    by: str = "segment"
    """``segment`` (the box where there is none), ``box``, or ``finder``: a segmenter (such as SAM) outlines the box."""
    caption: str = "first"
    """``first``: the first caption with a word for a group; ``seed``: one of them at random."""
    steps: int | None = 50
    seed: int = 0

    def __post_init__(self) -> None:
        for what, value, known in (
            ("area", self.area, AREAS),
            ("kind of mask", self.by, BY),
            ("caption choice", self.caption, CAPTIONS),
        ):
            if value not in known:
                raise UnknownNameError(what, value, known)
        if not self.groups or not self.guidance:
            raise InputError("name at least one group and one guidance scale")
        twice = [group for group, n in Counter(self.groups).items() if n > 1]
        if twice:
            raise InputError(f"groups: {twice[0]!r} is named twice; name each group once")
        if self.per_group < 1 or self.per_group % len(self.guidance):
            raise InputError(
                f"per_group={self.per_group} cannot be shared out evenly over {len(self.guidance)} guidance scales"
            )


def plan_inpaint(source: Table, config: InpaintConfig | None = None) -> WorkPlan:
    """The plan of ``per_group`` images of each group for each photograph with a person and a caption that names one.

    ``source`` has the columns ``people`` and ``captions``; ``people`` has ``parts`` for body parts.
    """
    settings = config or InpaintConfig()
    chosen, left_out = _chosen(source, settings)

    def tasks() -> Iterator[Task]:
        for place, row, prompts in chosen:
            yield {
                "id": row["image_id"],
                "place": place,
                "people": people_in(people_of(row["people"])),
                "prompts": prompts,
                "seed": seed_of(settings.seed, "inpaint", row["image_id"]),
                **{
                    key: getattr(settings, key)
                    for key in ("axis", "per_group", "guidance", "dilation", "second_over", "area", "by", "steps")
                },
            }

    return WorkPlan(
        kind="inpaint",
        tasks=tasks,
        n_tasks=len(chosen),
        n_images=len(chosen) * len(settings.groups) * settings.per_group,
        make=make_inpaints,
        config=settings_of(settings),
        needs=("inpaint",),
        axes=(settings.axis,),
        columns={"people": "json", "drawn_mask": "json"},
        source=source,
        examples=examples_of(tasks(), lambda task: [text for _, text in task["prompts"]]),
        left_out=dict(left_out),
    )


def _chosen(source: Table, config: InpaintConfig) -> tuple[list[tuple[list[int], dict[str, Any], Any]], Counter[str]]:
    chosen, left_out = [], Counter[str]()
    texts = [name for name in ("captions", "caption") if name in source.columns]
    for place, row in placed_rows(source, ["image_id", "people", *texts]):
        people = people_in(people_of(row["people"]))
        captions = [c for c in (row.get("captions") or [row.get("caption")]) if c]
        prompts = _prompts(row["image_id"], captions, config)
        if not people:
            left_out["no single person"] += 1
        elif config.area == "part" and not any(p.get("parts") for p in people):
            left_out["no boxes of body parts"] += 1
        elif prompts is None:
            left_out["no caption that can be said of every group"] += 1
        else:
            chosen.append((place, row, prompts))
    return chosen, left_out


def _prompts(name: str, captions: Sequence[str], config: InpaintConfig) -> list[list[str]] | None:
    """``[group, prompt]`` for each group, from a caption that names a group where there is one, else a person."""
    order = list(captions)
    if config.caption == "seed":
        order = [order[i] for i in drawn(config.seed, "caption", name).permutation(len(order))]
    fallback = None
    for caption in order:
        prompts = [(group, inpainting_prompt(caption, {config.axis: group})) for group in config.groups]
        if any(prompt.text is None for _, prompt in prompts):
            continue
        texts = [[group, str(prompt.text)] for group, prompt in prompts]
        if any(prompt.how[config.axis] != "inserted" for _, prompt in prompts):
            return texts
        fallback = fallback or texts
    return fallback


def make_inpaints(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """All candidates of each photograph."""
    return [_made(task_of(row), tools) for row in rows]


def _made(task: Task, tools: Tools) -> list[dict[str, Any]]:
    photo = tools.source(task["place"])
    mask, what = _area(task, photo, tools)
    if not mask.any():
        raise InputError(f"the mask of the {task['area']} holds no pixel of the image")
    anew = dilated(mask, task["dilation"])
    shape = json.dumps(masks.encode(anew))
    each = task["per_group"] // len(task["guidance"])
    rows: list[dict[str, Any]] = []
    for number, guidance in enumerate(task["guidance"]):
        seed = (task["seed"] + number) % 2**31
        for group, text in task["prompts"]:
            # Called with the same seed for every group: candidate k of each is drawn from the same noise.
            images = tools.generator.inpaint(
                [photo] * each, [anew] * each, [text] * each, seed=seed, guidance=guidance, steps=task["steps"]
            )
            for k, image in enumerate(images):
                candidate = number * each + k
                how = {"guidance": guidance, "steps": task["steps"], "dilation": task["dilation"], "place": k}
                rows.append(
                    {
                        "image": composited(photo, image, anew),
                        "image_id": f"{task['id']}--{group}-{candidate:02d}",
                        "source_id": task["id"],
                        "set_id": task["id"],
                        "caption": text,
                        task["axis"]: group,
                        "label_source": "prompt",
                        "generator": tools.generator.name,
                        "params": json.dumps(tools.settled(how) | what | {"candidate": candidate}, sort_keys=True),
                        "seed": seed,
                        "people": json.dumps(task["people"]),
                        "drawn_mask": shape,
                    }
                )
    return tools.finished(rows)


def _area(task: Task, photo: Image.Image, tools: Tools) -> tuple[Mask, dict[str, Any]]:
    """What is drawn anew, and what it is called."""
    wanted = targets(task["people"], *photo.size, second_over=task["second_over"])
    if task["area"] == "part":
        return _part(task, photo, tools, wanted)
    outlines = [_outline(task, box_in_pixels(p, *photo.size), p, photo, tools) for p in wanted]
    whole = outlines[0]
    for outline in outlines[1:]:
        whole = whole | outline
    return whole, {"area": "person", "persons": len(wanted)}


def _part(task: Task, photo: Image.Image, tools: Tools, wanted: list[dict[str, Any]]) -> tuple[Mask, dict[str, Any]]:
    parts = [(name, box, p) for p in wanted for name, box in sorted((p.get("parts") or {}).items()) if min(box[2:]) > 0]
    if not parts:
        raise InputError("the person has no box of a body part")
    name, box, person = parts[int(drawn(task["seed"], "part").integers(len(parts)))]
    return _outline(task, box, {**person, "box": box, "unit": "pixel"}, photo, tools), {"area": "part", "part": name}


def _outline(task: Task, box: Sequence[float], person: dict[str, Any], photo: Image.Image, tools: Tools) -> Mask:
    if task["by"] == "finder":
        return outlined(box, photo, tools.finder)
    if task["area"] == "part":
        inside = masks.from_box(box, photo.height, photo.width)
        return inside & mask_of(person, *photo.size) if task["by"] == "segment" and person.get("mask") else inside
    return mask_of(person, *photo.size, by=task["by"])
