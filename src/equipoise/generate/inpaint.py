"""Persons drawn anew in photographs, as each group, by text-guided inpainting.

Hirota et al. (EMNLP 2024; thesis, chapter 4): the largest person (and the second, if its box has over 55,000 pixels)
is masked and drawn m = 30 times for each group, over the guidance scales 7.5, 9.5 and 15; the prompt is a caption of
the photograph with its group word replaced. A filter chooses one of them later. Pixels outside the mask are the
photograph's, to the bit. What the drawing itself does to a measurement is asked by :mod:`equipoise.generate.parts`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from PIL import Image

from equipoise.array_types import Mask
from equipoise.data import masks
from equipoise.data.people import box_in_pixels, people_of
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate.keeping import Kept, kept, mixed_after, names_in, relabelled, said_of, scene_in, world_changes
from equipoise.generate.persons import (
    SECOND_OVER,
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
from equipoise.text.templates import Wording, inpainting_prompt, shipped_wording
from equipoise.world.catalog import AXES as WORLD_AXES

BY = ("segment", "box", "finder")
CAPTIONS = ("first", "seed")
TEXTS = ("captions", "caption", "params", "generator")
"""The columns that prompts are made of; a row of the pictogram world has its scene in ``params``."""
TOGETHER = 8
"""About so many images are drawn in one call, of several photographs where each has few."""


def check_choices(by: str, caption: str) -> None:
    """Refuse a kind of mask, or a choice among captions, that there is not."""
    for what, value, known in (("kind of mask", by, BY), ("caption choice", caption, CAPTIONS)):
        if value not in known:
            raise UnknownNameError(what, value, known)


@dataclass(frozen=True)
class InpaintConfig:
    """How persons are drawn anew."""

    axis: str = "gender"
    groups: tuple[str, ...] = ("female", "male")
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further axes and their groups: every combination is drawn."""
    wording: Wording | None = None
    """How groups are said (:func:`equipoise.text.templates.read_wording`); the shipped words by default. Tables of the
    pictogram world are spoken of in the world's own grammar.
    """
    per_group: int = 30
    guidance: tuple[float, ...] = (7.5, 9.5, 15.0)
    """The images of a group are shared out evenly over these."""
    dilation: float = 8.0
    """Pixels around the mask that are drawn anew too."""
    second_over: float = SECOND_OVER
    by: str = "segment"
    """``segment`` (the box where there is none), ``box``, or ``finder``: a segmenter (such as SAM) outlines the box."""
    caption: str = "first"
    """``first``: the first caption with a word for a group; ``seed``: one of them at random."""
    steps: int | None = 50
    seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self.by, self.caption)
        if not self.groups or not self.guidance:
            raise InputError("name at least one group and one guidance scale")
        for axis, groups in self.axes.items():
            twice = [group for group, n in Counter(groups).items() if n > 1]
            if twice:
                raise InputError(f"groups: {twice[0]!r} is named twice; name each group once")
            if not groups:
                raise InputError(f"name at least one group to draw on the axis {axis!r}")
        if self.per_group < 1 or self.per_group % len(self.guidance):
            raise InputError(
                f"per_group={self.per_group} cannot be shared out evenly over {len(self.guidance)} guidance scales"
            )

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """Every axis with its groups."""
        return {self.axis: tuple(self.groups), **{axis: tuple(groups) for axis, groups in self.also.items()}}


def plan_inpaint(source: Table, config: InpaintConfig | None = None) -> WorkPlan:
    """The plan of ``per_group`` images of each group for each photograph with a person and a caption that names one.

    The rows keep what ``source`` says beside the groups, its captions said of the new ones; a group is called as
    ``source`` calls it.

    Args:
        source: photographs with the columns ``people`` and ``captions``.
        config: as which groups, and how persons are drawn; 30 of each gender unless given.

    Returns:
        A plan of one task per photograph.
    """
    settings = config or InpaintConfig()
    wording = settings.wording or shipped_wording()
    targets_said = list(_targets(source, settings, wording))
    keeps = Kept(source, tuple(settings.axes), {"people": "json", "drawn_mask": "json"})
    chosen, left_out = _chosen(source, settings, targets_said, wording)
    each = settings.per_group // len(settings.guidance)

    def tasks() -> Iterator[Task]:
        for place, row, prompts in chosen:
            yield {
                "id": row["image_id"],
                "place": place,
                "people": people_in(people_of(row["people"])),
                "prompts": prompts,
                "keeps": keeps.names,
                "words": None if settings.wording is None else dataclasses.asdict(settings.wording),
                "seed": seed_of(settings.seed, "inpaint", row["image_id"]),
                "area": "person",
                **{
                    key: getattr(settings, key)
                    for key in ("per_group", "guidance", "dilation", "second_over", "by", "steps")
                },
            }

    return WorkPlan(
        kind="inpaint",
        tasks=tasks,
        n_tasks=len(chosen),
        n_images=len(chosen) * len(targets_said) * settings.per_group,
        make=make_inpaints,
        config=settings_of(settings),
        needs=("inpaint",),
        axes=keeps.axes,
        columns=keeps.columns,
        source=source,
        together=max(1, TOGETHER // each),
        examples=examples_of(tasks(), lambda task: [text for _, text in task["prompts"]]),
        left_out=dict(left_out),
    )


def _targets(source: Table, config: InpaintConfig, wording: Wording) -> Iterator[dict[str, str]]:
    """Every combination of groups, each called as the table calls it; one that no word is known for is refused."""
    is_world = "world" in source.config
    called: dict[str, list[str]] = {}
    for axis, groups in config.axes.items():
        if not (is_world and axis in WORLD_AXES):
            for group in groups:
                wording.known(axis, group)
        called[axis] = list(names_in(source, axis, groups, wording).values())
    for combination in product(*called.values()):
        yield dict(zip(called, combination, strict=True))


def _chosen(
    source: Table, config: InpaintConfig, wanted: Sequence[Mapping[str, str]], wording: Wording
) -> tuple[list[tuple[list[int], dict[str, Any], Any]], Counter[str]]:
    chosen, left_out = [], Counter[str]()
    texts = [name for name in TEXTS if name in source.columns]
    for place, row in placed_rows(source, ["image_id", "people", *texts]):
        people = people_in(people_of(row["people"]))
        prompts = _prompts(row, people, config, wanted, wording) if people else None
        if not people:
            left_out["no single person"] += 1
        elif prompts is None:
            left_out["no caption that can be said of every group"] += 1
        else:
            chosen.append((place, row, prompts))
    return chosen, left_out


def _prompts(
    row: Mapping[str, Any],
    people: Sequence[Mapping[str, Any]],
    config: InpaintConfig,
    wanted: Sequence[Mapping[str, str]],
    wording: Wording,
) -> list[list[Any]] | None:
    """``[groups by axis, prompt]`` of each target, from a caption that names a group where one does, else a person."""
    captions = [c for c in (row.get("captions") or [row.get("caption")]) if c]
    order = list(range(len(captions)))
    if config.caption == "seed":
        order = [int(i) for i in drawn(config.seed, "caption", row["image_id"]).permutation(len(captions))]
    scene = scene_in(row)
    if scene is not None and set(config.axes) <= set(WORLD_AXES) and captions:
        who = person_in_scene(people, scene)
        return [[dict(groups), world_prompt(scene, groups, order[0], who)] for groups in wanted]
    fallback = None
    for k in order:
        prompts = [(groups, inpainting_prompt(captions[k], groups, wording=wording)) for groups in wanted]
        if any(prompt.text is None for _, prompt in prompts):
            continue
        texts = [[dict(groups), str(prompt.text)] for groups, prompt in prompts]
        if any(how != "inserted" for _, prompt in prompts for how in prompt.how.values()):
            return texts
        fallback = fallback or texts
    return fallback


def person_in_scene(people: Sequence[Mapping[str, Any]], scene: Any) -> int:
    """Which person of a scene is drawn anew: the one with the largest box."""
    largest = max(people, key=lambda p: p["box"][2] * p["box"][3])
    number = str(largest.get("person_id"))
    return int(number) if number.isdigit() and int(number) < len(scene.people) else 0


def world_prompt(scene: Any, groups: Mapping[str, str], k: int, who: int) -> str:
    """The caption ``k`` of the same scene with somebody else in it (or, for no ``groups``, with the same person).

    It names every group of theirs: what a prompt does not say could come out otherwise than the labels that are kept.
    """
    from equipoise.world.captions import captions

    other = scene.counterfactual(person=who, **world_changes(groups)) if groups else scene
    role = 1 - who if scene.exchanged else who  # captions may give what the first person does to the second
    return captions(other, k + 1, naming=WORLD_AXES, person=role)[k]


def make_inpaints(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """All candidates of each photograph; of several photographs at a time where the generator takes their seeds."""
    tasks = [task_of(row) for row in rows]
    if len(tasks) > 1 and not getattr(tools.generator, "many_seeds", False):
        return [_alone(task, tools) for task in tasks]
    ready = [_prepared(task, tools) for task in tasks]
    good = [one for one in ready if not isinstance(one, InputError)]
    if len(ready) == 1 and not good:
        raise ready[0]  # type: ignore[misc]
    made = iter(_made(good, tools))
    return [one if isinstance(one, InputError) else next(made) for one in ready]


def _alone(task: Task, tools: Tools) -> Any:
    try:
        return _made([_readied(task, tools)], tools)[0]
    except InputError as error:
        return error


@dataclass(frozen=True)
class _Ready:
    """A photograph, what of it is drawn anew, and what that is called."""

    task: Task
    photo: Image.Image
    anew: Mask
    what: dict[str, Any]
    source: dict[str, Any]


def _prepared(task: Task, tools: Tools) -> _Ready | InputError:
    try:
        return _readied(task, tools)
    except InputError as error:
        return error


def _readied(task: Task, tools: Tools) -> _Ready:
    photo = tools.source(task["place"])
    mask, what = _area(task, photo, tools)
    if not mask.any():
        raise InputError(f"the mask of the {task['area']} holds no pixel of the image")
    return _Ready(task, photo, dilated(mask, task["dilation"]), what, tools.labels(task["place"]))


def _made(ready: Sequence[_Ready], tools: Tools) -> list[list[dict[str, Any]]]:
    """The rows of each photograph. All have as many prompts, guidance scales and candidates as the first."""
    rows: list[list[dict[str, Any]]] = [[] for _ in ready]
    if not ready:
        return []
    first = ready[0].task
    copies = first["per_group"] // len(first["guidance"])
    together = [prepared for prepared in ready for _ in range(copies)]
    for number, guidance in enumerate(first["guidance"]):
        seeds = [(prepared.task["seed"] + number) % 2**31 for prepared in ready]
        for target in range(len(first["prompts"])):
            # The same seeds for every group: candidate k of each is drawn from the same noise.
            places = [(seed, k) for seed in seeds for k in range(copies)]
            images = tools.generator.inpaint(
                [prepared.photo for prepared in together],
                [prepared.anew for prepared in together],
                [prepared.task["prompts"][target][1] for prepared in together],
                seed=seeds[0] if len(ready) == 1 else places,
                guidance=guidance,
                steps=first["steps"],
            )
            for i, image in enumerate(images):
                which, k = divmod(i, copies)
                rows[which].append(_row(ready[which], target, number * copies + k, image, places[i], guidance, tools))
    return [tools.finished(candidates) for candidates in rows]


def _row(
    ready: _Ready,
    target: int,
    candidate: int,
    image: Image.Image,
    noise: tuple[int, int],
    guidance: float,
    tools: Tools,
) -> dict[str, Any]:
    task, source = ready.task, ready.source
    groups, text = task["prompts"][target]
    how = {"guidance": guidance, "steps": task["steps"], "dilation": task["dilation"], "place": noise[1]}
    about = {
        **kept(source, task["keeps"]),
        "image": composited(ready.photo, image, ready.anew),
        "source_id": task["id"],
        "caption": text,
        "generator": tools.generator.name,
        "params": json.dumps(tools.settled(how) | ready.what | {"candidate": candidate}, sort_keys=True),
        "seed": noise[0],
        "drawn_mask": json.dumps(masks.encode(ready.anew)),
    }
    if task["area"] == "part":  # the same person: nothing that is said of the photograph changes
        return about | {"image_id": f"{task['id']}--part", "set_id": task["id"]}
    drawn_again = targets(task["people"], *ready.photo.size, second_over=task["second_over"])
    everyone = people_of(source["people"])  # crowds and people without a box too, who stay as they are
    which = [i for i, person in enumerate(everyone) if person in drawn_again]
    people = relabelled(everyone, which, groups)
    wording = None if task["words"] is None else Wording(**task["words"])
    return {
        **about,
        **said_of(source, groups, wording, person=which[0]),
        **mixed_after(people, source, groups),
        "image_id": f"{task['id']}--{'-'.join(groups.values())}-{candidate:02d}",
        "set_id": task["id"],
        **groups,
        "label_source": "prompt",
        "people": people,
    }


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
