"""Counterfactual sets: all captions of a set drawn together from the same noise, with the attention of the first.

SocialCounterfactuals (Howard et al., CVPR 2024): many candidates are made for each set of captions, each with its own
seed, its own share p ~ U(0.1, 0.9) of steps in which attention is shared, and its own guidance ~ U(7.5, 15); filters
choose among them later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.generate.plans import Task, WorkPlan, drawn, examples_of, seed_of, settings_of, task_of
from equipoise.generate.tools import Tools
from equipoise.text.templates import Caption, CaptionSet

COLUMNS = {"prompt_set": "string", "candidate": "int64", "neutral_caption": "string"}
_INJECTIONS = ("self", "cross", "both")
_PARAPHRASES = 12


@dataclass(frozen=True)
class SetsConfig:
    """How sets are made; everything is recorded on each row."""

    candidates: int = 100
    """How many are made of each set of captions, to choose from."""
    inject: str = "self"
    """Which attention of the first caption the others take: ``self``, ``cross`` or ``both``."""
    blend: bool = False
    """Keep the first image wherever other words change little of what the model's attention gives (a local blend)."""
    share: tuple[float, float] = (0.1, 0.9)
    """The share of steps in which attention is shared is drawn from this range."""
    guidance: tuple[float, float] = (7.5, 15.0)
    """So is the guidance scale from this one."""
    steps: int | None = None
    sampler: str | None = None
    """``euler-ancestral`` or ``ddim``; the model's own where it is ``None``."""
    batch_size: int = 0
    """At most so many images at a time, the first caption in every batch; 0 makes a set at once."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.inject not in _INJECTIONS:
            raise UnknownNameError("kind of attention to share", self.inject, _INJECTIONS)
        if self.candidates < 1:
            raise InputError(f"candidates={self.candidates}: at least one of each set is needed")
        if self.batch_size < 0 or self.batch_size == 1:
            raise InputError(
                f"batch_size={self.batch_size}: a batch holds the first caption and another, so 2 or more; 0 is all"
            )
        for name, (low, high), least, most in (("share", self.share, 0, 1), ("guidance", self.guidance, 0, 1000)):
            if not least <= low <= high <= most:
                raise InputError(f"{name}={low}, {high}: a range from low to high within {least} to {most} is expected")


SET_PRESETS: dict[str, SetsConfig] = {
    "socialcf_code": SetsConfig(inject="self", steps=100, sampler="euler-ancestral"),
    "socialcf_paper": SetsConfig(inject="cross", steps=50, sampler="ddim"),
}
"""``socialcf_code``: what the released code of SocialCounterfactuals does, self-attention copied, Euler-ancestral, 100
steps. ``socialcf_paper``: what the paper describes, Prompt-to-Prompt's cross-attention, with its sampler and steps."""


def set_preset(name: str, **changes: Any) -> SetsConfig:
    """The preset ``name`` with other settings in ``changes``.

    >>> set_preset("socialcf_code", candidates=4).inject
    'self'
    """
    if name not in SET_PRESETS:
        raise UnknownNameError("preset of sets", name, SET_PRESETS)
    return replace(SET_PRESETS[name], **changes)


def plan_sets(captions: Iterable[CaptionSet], config: SetsConfig | None = None) -> WorkPlan:
    """The plan of ``config.candidates`` image sets for each set of captions.

    Args:
        captions: sets of captions, each with a ``set_id`` of its own; the first caption leads its set.
        config: how many candidates, and how they are drawn.

    Returns:
        A plan of one task per image set.

    >>> from equipoise.text.templates import caption_preset
    >>> preset = caption_preset("race-gender").having(subjects=["doctor"], prefixes=["A photo of"])
    >>> plan = plan_sets(preset.sets(), SetsConfig(candidates=2))
    >>> plan.n_tasks, plan.n_images, plan.examples[0]
    (2, 24, 'A photo of a White male doctor')
    """
    settings = config or SetsConfig()
    chosen = list(captions)
    names = [caption_set.set_id for caption_set in chosen]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the caption set {twice!r} is there twice; each needs a name of its own")

    def tasks() -> Iterator[Task]:
        for caption_set in chosen:
            for k in range(settings.candidates):
                yield _task(caption_set, k, settings)

    return WorkPlan(
        kind="sets",
        tasks=tasks,
        n_tasks=len(chosen) * settings.candidates,
        n_images=sum(map(len, chosen)) * settings.candidates,
        make=make_sets,
        config=settings_of(settings),
        needs=("generate_set",),
        axes=tuple(dict.fromkeys(axis for caption_set in chosen for axis in caption_set.axes)),
        columns=COLUMNS,
        examples=examples_of(tasks(), lambda task: [text for text, _ in task["captions"]]),
    )


def _task(caption_set: CaptionSet, k: int, config: SetsConfig) -> Task:
    rng = drawn(config.seed, "set", caption_set.set_id, k)
    return {
        "id": f"{caption_set.set_id}--{k:03d}",
        "prompt_set": caption_set.set_id,
        "candidate": k,
        "subject": caption_set.subject,
        "neutral": caption_set.neutral,
        "captions": [[caption.text, dict(caption.attributes)] for caption in caption_set.captions],
        "seed": seed_of(config.seed, "noise", caption_set.set_id, k),
        "share": round(float(rng.uniform(*config.share)), 4),
        "guidance": round(float(rng.uniform(*config.guidance)), 4),
        "how": {"inject": config.inject, "blend": config.blend, "sampler": config.sampler},
        "steps": config.steps,
        "batch_size": config.batch_size,
    }


def make_sets(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """The images of each set of captions, drawn together."""
    return [_made(task_of(row), tools) for row in rows]


def _made(task: Task, tools: Tools) -> list[dict[str, Any]]:
    prompts = [text for text, _ in task["captions"]]
    drawing = {"share": task["share"], "guidance": task["guidance"], "steps": task["steps"], **task["how"]}
    images: list[Any] = []
    for batch in batches_of(prompts, task["batch_size"]):
        drawn = tools.generator.generate_set(batch, seed=task["seed"], **drawing)
        images += drawn if not images else drawn[1:]
    params = json.dumps(
        tools.settled(drawing) | {"batch_size": task["batch_size"], "source": prompts[0]}, sort_keys=True
    )
    rows = [
        {
            "image": image,
            "image_id": f"{task['id']}--{i:02d}",
            "set_id": task["id"],
            "caption": text,
            "captions": [text],
            "subject": task["subject"],
            **groups,
            "label_source": "prompt",
            "generator": tools.generator.name,
            "params": params,
            "seed": task["seed"],
            "prompt_set": task["prompt_set"],
            "candidate": task["candidate"],
            "neutral_caption": task["neutral"],
        }
        for i, ((text, groups), image) in enumerate(zip(task["captions"], images, strict=True))
    ]
    return tools.finished(rows)


def batches_of(prompts: Sequence[str], size: int) -> list[list[str]]:
    """``prompts`` in batches of at most ``size``, each beginning with the first; 0 is one batch.

    >>> batches_of(["s", "a", "b", "c"], 3)
    [['s', 'a', 'b'], ['s', 'c']]
    """
    if not size or len(prompts) <= size:
        return [list(prompts)]
    rest = list(prompts[1:])
    return [[prompts[0], *rest[i : i + size - 1]] for i in range(0, len(rest), size - 1)]


def world_sets(
    config: Any,
    subjects: Sequence[str] | None = None,
    axes: Sequence[str] = ("gender", "skin_tone"),
    *,
    n: int = 1,
    seed: int = 0,
    place: bool = True,
) -> list[CaptionSet]:
    """Caption sets in the words of the pictogram world, for the generators that were trained on it.

    Args:
        config: the settings of the world, such as a preset's; they say which groups there are.
        subjects: occupations, or others of the world's subjects; all occupations unless given.
        axes: whose groups are combined in each set.
        n: how many sets per subject.
        seed: which people, places and things the scenes show that are captioned.
        place: whether captions may name a place. Without, they name the person alone, as the prompts of
            SocialCounterfactuals do: what is behind the person is then the seed's doing.

    Returns:
        The sets, subject by subject.

    >>> from equipoise.world import preset
    >>> one = world_sets(preset("fair"), ["nurse"])[0]
    >>> len(one), sorted(one.captions[0].attributes)
    (6, ['gender', 'skin_tone'])
    """
    from equipoise.world import counterfactual_sets
    from equipoise.world.captions import captions, neutral_prompt

    sets = []
    for members in counterfactual_sets(config, subjects, axes, n, seed):
        phrased = [captions(scene, _PARAPHRASES, "full") for scene in members.scenes]
        which = 0 if place else _placeless(phrased)
        texts = [paraphrases[which] for paraphrases in phrased]
        attributes: list[Mapping[str, str]] = [dict(zip(axes, groups, strict=True)) for groups in members.groups]
        said = tuple(Caption(text, groups) for text, groups in zip(texts, attributes, strict=True))
        sets.append(CaptionSet(members.set_id, members.subject, "", tuple(axes), neutral_prompt(members.subject), said))
    return sets


def _placeless(paraphrases: Sequence[Sequence[str]]) -> int:
    """The first paraphrase that names a place in no scene of the set."""
    from equipoise.world.captions import prompts

    places = [text.removeprefix("a photo of a person ") for text in prompts("scene").values()]
    for k in range(_PARAPHRASES):
        if not any(place in texts[k] for texts in paraphrases for place in places):
            return k
    raise InputError("every caption of this set names a place; ask for captions with places")
