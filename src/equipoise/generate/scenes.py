"""Scenes of who does what: prompts for the Gender-Activity Binding benchmark, in diverse settings.

GABInsight (Abdollahi et al., arXiv 2407.21001): for each activity four groups of pictures, E1, E2, U1, U2 (expected or
unexpected performer; alone or with someone of the other gender). Looks and means are varied over a grid, the grid is
embedded as sentences and clustered, and N / K settings are taken from each of K clusters, so that the prompts are far
from each other; a language model may then write each prompt out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.generate.plans import Task, WorkPlan, drawn, examples_of, seed_of, settings_of, task_of
from equipoise.generate.tools import Tools, stopping_when_down
from equipoise.text.templates import BINDING_GROUPS, Activity, BindingCaption, activities, activity, binding_captions
from equipoise.text.templates.edits import filled

GRID: Mapping[str, tuple[str, ...]] = {
    "skin": ("light skin", "olive skin", "brown skin", "dark skin"),
    "dress": ("casual clothes", "work clothes", "traditional clothes", "sports clothes", "formal clothes"),
    "age": ("a teenager", "in the twenties", "in the thirties", "middle-aged", "elderly"),
    "means": ("a modest", "a middle-class", "a well-off", "a rural"),
}
"""Looks of a person (skin, dress, age) and the means of the place, our words for the benchmark's grid; for two persons
(4 x 5 x 5)^2 x 4 = 40,000 settings."""

SCENE_COLUMNS = {"activity": "string", "cell": "string", "expected_gender": "string", "reversed_caption": "string"}
_LARGEST_GRID = 2_000
Embed = Callable[[Sequence[str]], NDArray[np.floating[Any]]]
Rewrite = Callable[[str, Sequence[str], int], str]
"""Prompt, the prompts written so far for the same cell, and a seed; gives the prompt written out."""


@dataclass(frozen=True)
class ScenesConfig:
    """Which scenes, and how many of each."""

    per_cell: int = 20
    """Prompts for each activity and each of E1, E2, U1, U2."""
    clusters: int = 6
    groups: tuple[str, ...] = BINDING_GROUPS
    prefix: str = "A photo"
    guidance: float | None = None
    steps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.per_cell < 1 or self.clusters < 1:
            raise InputError(f"per_cell={self.per_cell}, clusters={self.clusters}: both must be at least 1")
        for group in self.groups:
            if group not in BINDING_GROUPS:
                raise InputError(f"group {group!r} is none of {', '.join(BINDING_GROUPS)}")


@dataclass(frozen=True)
class Setting:
    """One setting of the grid: a look for each person, and the means of the place."""

    looks: tuple[tuple[str, str, str], ...]
    means: str

    def sentence(self, nouns: Sequence[str]) -> str:
        """The setting in words, of persons called ``nouns``.

        >>> Setting((("dark skin", "work clothes", "elderly"),), "a rural").sentence(["woman"])
        'The woman is elderly, with dark skin, in work clothes. The place is a rural one.'
        """
        people = [
            f"The {noun} is {age}, with {skin}, in {dress}."
            for noun, (skin, dress, age) in zip(nouns, self.looks, strict=True)
        ]
        return " ".join([*people, f"The place is {self.means} one."])


def grid(people: int) -> list[Setting]:
    """Every setting for one or two persons.

    >>> len(grid(1)), len(grid(2))
    (400, 40000)
    """
    looks = list(product(GRID["skin"], GRID["dress"], GRID["age"]))
    return [Setting(combined, means) for combined in product(looks, repeat=people) for means in GRID["means"]]


def diverse(sentences: Sequence[str], n: int, clusters: int, *, embed: Embed | None = None, seed: int = 0) -> list[int]:
    """``n`` positions of ``sentences`` that lie far apart: as many from each cluster of K-means as from any other.

    ``embed`` gives a vector a sentence; without one, TF-IDF of the words. Each cluster gives N / K, the first ones the
    remainder; a cluster that has too few leaves its rest to the others.

    >>> chosen = diverse(["red cat", "red dog", "blue car", "blue van"], 2, 2)
    >>> sorted({i // 2 for i in chosen})
    [0, 1]
    """
    from sklearn.cluster import KMeans

    if n > len(sentences):
        raise InputError(f"{n} settings are asked for, but the grid has {len(sentences)}")
    vectors = _tfidf(sentences) if embed is None else np.asarray(embed(sentences))
    k = min(clusters, len(sentences))
    labels = KMeans(k, n_init=2, random_state=seed).fit_predict(vectors)
    rng = np.random.default_rng(seed)
    piles = [rng.permutation(np.flatnonzero(labels == c)).tolist() for c in range(k)]
    chosen: list[int] = []
    while len(chosen) < n:
        for pile in piles:
            if pile and len(chosen) < n:
                chosen.append(pile.pop())
    return chosen


def _tfidf(sentences: Sequence[str]) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2)).fit_transform(sentences)


def plan_scenes(
    chosen: Sequence[str] = (),
    config: ScenesConfig | None = None,
    *,
    embed: Embed | None = None,
    rewrite: Rewrite | None = None,
) -> WorkPlan:
    """The plan of ``per_cell`` pictures of each group for each activity.

    Both functions run now, so that the plan is fixed before the first picture.

    Args:
        chosen: activities by id; the benchmark's 37 unless given.
        config: how many pictures, of which of E1, E2, U1 and U2.
        embed: sentence embeddings for the choice of settings; TF-IDF of the words without.
        rewrite: a language model that writes prompts out, see :mod:`equipoise.generate.rewriting`.

    Returns:
        A plan of one task per picture.

    >>> plan = plan_scenes(["drinking_beer"], ScenesConfig(per_cell=2))
    >>> plan.n_images
    8
    """
    settings = config or ScenesConfig()
    wanted = [activity(name) for name in chosen] if chosen else list(activities())
    samples = {people: _sampled(people, settings, embed) for people in (1, 2)}
    listed = [task for of in wanted for task in _cells(of, settings, samples, rewrite)]
    return _planned(listed, settings_of(settings) | {"rewritten": rewrite is not None})


def plan_world_scenes(world: Any, chosen: Sequence[str] = (), config: ScenesConfig | None = None) -> WorkPlan:
    """The same of the activities of the pictogram world, in its words; settings are its people and places.

    Args:
        world: the settings of the world, such as a preset's.
        chosen: activities by name; all of the world's unless given.
        config: as for :func:`plan_scenes`; prefix and clusters do not matter.

    Returns:
        A plan of one task per picture.

    >>> from equipoise.world import preset
    >>> plan = plan_world_scenes(preset("fair"), ["playing_drum"], ScenesConfig(per_cell=1))
    >>> plan.n_images, plan.examples[0]
    (4, 'a slim man with light skin wearing a hat is playing a drum in the park')
    """
    from equipoise.world import binding_sets, captions
    from equipoise.world.catalog import ACTIVITIES

    settings = config or ScenesConfig()
    listed: list[Task] = []
    numbers: dict[tuple[str, str], int] = {}
    for members in binding_sets(world, chosen or None, settings.per_cell, settings.seed):
        if members.cell not in settings.groups:
            continue
        scene, name = members.scene, members.scene.subject
        number = numbers[name, members.cell] = numbers.get((name, members.cell), -1) + 1
        listed.append(
            {
                "id": f"{name}--{members.cell}-{number:03d}",
                "activity": name,
                "phrase": ACTIVITIES[name].phrase,
                "cell": members.cell,
                "expected": members.expected,
                "performer": scene.group("gender"),
                "other": scene.group("gender", 1) if len(scene.people) > 1 else None,
                "caption": members.caption,
                "reversed": members.reversed_caption,
                "prompt": captions(scene, 1, "gendered")[0],
                "seed": seed_of(settings.seed, "scene", name, members.cell, number),
                "guidance": settings.guidance,
                "steps": settings.steps,
            }
        )
    return _planned(listed, settings_of(settings) | {"world": world.name})


def _planned(listed: list[Task], config: Mapping[str, Any]) -> WorkPlan:
    return WorkPlan(
        kind="scenes",
        tasks=lambda: iter(listed),
        n_tasks=len(listed),
        n_images=len(listed),
        make=make_scenes,
        config=config,
        needs=("generate",),
        axes=("gender", "other_gender"),
        columns=SCENE_COLUMNS,
        examples=examples_of(listed, lambda task: [task["prompt"]]),
    )


def _sampled(people: int, config: ScenesConfig, embed: Embed | None) -> list[Setting]:
    whole = grid(people)
    if len(whole) > _LARGEST_GRID:
        # A part of the grid covers it as well, and K-means of all of it would take minutes.
        some = drawn(config.seed, "grid", people).permutation(len(whole))[:_LARGEST_GRID]
        whole = [whole[int(i)] for i in sorted(some)]
    nouns = ["person", "other person"][:people]
    picks = diverse(
        [setting.sentence(nouns) for setting in whole], config.per_cell, config.clusters, embed=embed, seed=config.seed
    )
    return [whole[i] for i in picks]


def _cells(
    of: Activity, config: ScenesConfig, samples: Mapping[int, Sequence[Setting]], rewrite: Rewrite | None
) -> Iterator[Task]:
    captions = {
        whole_caption.group: whole_caption
        for whole_caption in binding_captions(of)
        if whole_caption.people == ("one", "two")[int(whole_caption.group[1]) - 1]
    }
    for cell in config.groups:
        caption = captions[cell]
        written: list[str] = []
        for number in range(config.per_cell):
            setting = samples[int(cell[1])][number]
            prompt = _prompt(caption, setting, config.prefix)
            seed = seed_of(config.seed, "scene", of.id, cell, number)
            if rewrite is not None:
                prompt = rewrite(prompt, written, seed)
                written.append(prompt)
            yield {
                "id": f"{of.id}--{cell}-{number:03d}",
                "activity": of.id,
                "phrase": of.phrase,
                "cell": cell,
                "expected": of.expected,
                "performer": caption.performer,
                "other": caption.other if cell.endswith("2") else None,
                "caption": caption.text,
                "reversed": caption.reversed,
                "prompt": prompt,
                "seed": seed,
                "guidance": config.guidance,
                "steps": config.steps,
            }


def _prompt(caption: BindingCaption, setting: Setting, prefix: str) -> str:
    from equipoise.text.templates.files import shipped

    nouns = shipped("gab")["words"]
    who = [nouns[caption.performer], nouns[caption.other]][: len(setting.looks)]
    said = filled("a/an {performer}", {"performer": who[0]}, "this scene")
    rest = caption.text.split(" is ", 1)[1]
    return f"{prefix}: {said} is {rest}. {setting.sentence(who)}"


def make_scenes(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """The picture of each prompt."""
    rows_of_tasks = []
    for row in rows:
        task = task_of(row)
        how = {"guidance": task["guidance"], "steps": task["steps"]}
        with stopping_when_down():
            image = tools.generator.generate([task["prompt"]], seed=task["seed"], **how)[0]
        images = [
            {
                "image": image,
                "image_id": task["id"],
                "set_id": task["activity"],
                "caption": task["caption"],
                "captions": [task["caption"], task["prompt"]],
                "subject": task["activity"],
                "gender": task["performer"],
                "other_gender": task["other"],
                "label_source": "prompt",
                "generator": tools.generator.name,
                "params": json.dumps(tools.settled(how) | {"prompt": task["prompt"]}, sort_keys=True),
                "seed": task["seed"],
                "activity": task["activity"],
                "cell": task["cell"],
                "expected_gender": task["expected"],
                "reversed_caption": task["reversed"],
            }
        ]
        rows_of_tasks.append(tools.finished(images))
    return rows_of_tasks
