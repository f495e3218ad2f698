"""The judge: a supervised classifier of every attribute, used for evaluation only, never by a filter or a remedy.

It is a stock ``ResNetForImageClassification`` whose labels carry their head in front (``gender:female``); each head is
a softmax of its own, and objects are one yes-or-no label each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.recipes.train_mini.batches import pixels, scenes_of
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.saving import save_transformers
from equipoise.train.schedule import Schedule
from equipoise.world import SceneArrays, WorldConfig
from equipoise.world.catalog import ACTIVITIES, AGES, GENDERS, OBJECTS, OCCUPATIONS, SCENES, TONE_GROUPS

NONE = "none"
HEADS: dict[str, tuple[str, ...]] = {
    "gender": GENDERS,
    "skin_tone": tuple(TONE_GROUPS),
    "age": AGES,
    "occupation": (*OCCUPATIONS, NONE),
    "activity": (*ACTIVITIES, NONE),
    "scene": tuple(SCENES),
    "people": ("one", "two"),
}
"""The exclusive attributes, of the first person where it is about a person; objects come after, one label each."""

SCHEDULE = Schedule(steps=1600, batch=128, rate=4e-3)


def world() -> WorldConfig:
    """What the judge learns from: the fair world with all three figures, more activities, and every trait."""
    return WorldConfig(gender={"male": 1, "female": 1, "neutral": 0.5}, activity_share=0.35, visible=0.85)


def build() -> Any:
    """An untrained ``transformers.ResNetForImageClassification``."""
    names = [f"{head}:{name}" for head, values in HEADS.items() for name in values]
    names += [f"object:{name}" for name in OBJECTS]
    form: dict[str, Any] = {"embedding_size": 32, "hidden_sizes": [48, 96, 192], "depths": [1, 2, 2]}
    return resnet(names, **form, problem_type="multi_label_classification")


def resnet(names: Sequence[str], **form: Any) -> Any:
    """An untrained ``transformers.ResNetForImageClassification`` of these labels, in the form that its config names."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
    return ResNetForImageClassification(ResNetConfig(**form, layer_type="basic", **labels))


def labels_of(scenes: SceneArrays) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float32]]:
    """The right value of each head (n,), and of each object (n, objects), for each scene."""
    columns = scenes.columns
    labels = {name: columns[name].astype(np.int64) for name in ("gender", "skin_tone", "age", "scene")}
    activity, occupation = columns["activity"].astype(np.int64), columns["occupation"].astype(np.int64)
    shown = (activity < 0) & columns["visible"].astype(bool)
    labels["occupation"] = np.where(shown, occupation, len(OCCUPATIONS))
    labels["activity"] = np.where(activity >= 0, activity, len(ACTIVITIES))
    labels["people"] = columns["two"].astype(np.int64)
    place = {name: i for i, name in enumerate(OBJECTS)}
    objects = np.zeros((len(scenes), len(OBJECTS)), dtype=np.float32)
    for row, scene in enumerate(scenes):
        for placed in scene.objects:
            objects[row, place[placed.name]] = 1.0
    return labels, objects


def train_judge(lesson: Lesson) -> None:
    """Train and save the judge."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

    model = build()
    config = world()

    def loss(judge: Any, step: int) -> Any:
        scenes = scenes_of(config, step, SCHEDULE.batch, seed=2)
        logits = judge(pixel_values=pixels(scenes)).logits
        values, objects = labels_of(scenes)
        total, start = 0.0, 0
        for head, names in HEADS.items():
            total = total + cross_entropy(logits[:, start : start + len(names)], torch.from_numpy(values[head]))
            start += len(names)
        return total + 10 * binary_cross_entropy_with_logits(logits[:, start:], torch.from_numpy(objects))

    lesson.learn(model, loss, SCHEDULE, lambda target: save_transformers(model.eval(), target, processor="vit"))
