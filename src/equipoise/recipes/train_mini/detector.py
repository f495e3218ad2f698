"""``detector``: a small stock ``SegformerForSemanticSegmentation``; masks are free in a world.

Boxes come from its masks by connected components, as :mod:`equipoise.models.hf.detectors` makes them of any such model.
Heads are a class of their own, which the config says are part of a person.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.models.runtime import quiet
from equipoise.recipes.train_mini.batches import SIZE, pixels, scenes_of
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.saving import save_transformers
from equipoise.train.schedule import Schedule
from equipoise.world import SceneArrays, WorldConfig, what_is_where
from equipoise.world.catalog import OBJECTS
from equipoise.world.render import heads

SCHEDULE = Schedule(steps=1800, batch=48, rate=2e-3, weight_decay=0.01, average=0.995, half=True)
ON = Schedule(steps=300, batch=48, rate=1e-3, warmup=30, weight_decay=0.01, save_every=50, average=0.98)
"""For a detector that learns on."""
LABELS = ("background", "person", *OBJECTS, "head")
PART_OF = {"head": "person"}


def world() -> WorldConfig:
    """All three figures, many bystanders, and something beside nearly everyone."""
    return WorldConfig(
        gender={"male": 1, "female": 1, "neutral": 0.5}, activity_share=0.35, floor_object=0.85, air_object=0.7
    )


def build() -> Any:
    """An untrained ``transformers.SegformerForSemanticSegmentation`` whose answers are 32 x 32."""
    import torch
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    torch.manual_seed(0)
    config = SegformerConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[24, 48, 96, 96],
        num_attention_heads=[1, 2, 4, 4],
        strides=[2, 2, 2, 2],
        patch_sizes=[5, 3, 3, 3],
        sr_ratios=[8, 4, 2, 1],
        mlp_ratios=[3, 3, 3, 3],
        decoder_hidden_size=64,
        drop_path_rate=0.0,
        classifier_dropout_prob=0.0,
        id2label=dict(enumerate(LABELS)),
        label2id={name: i for i, name in enumerate(LABELS)},
        part_of=PART_OF,
    )
    return SegformerForSemanticSegmentation(config)


def classes_of(scenes: SceneArrays) -> NDArray[np.int64]:
    """(n, 64, 64) the place among ``LABELS`` of what each pixel shows."""
    place = {name: i for i, name in enumerate(LABELS)}
    classes = np.zeros((len(scenes), SIZE, SIZE), dtype=np.int64)
    for row, scene in enumerate(scenes):
        truth = what_is_where(scene, SIZE)
        for name, mask in zip(truth.names, truth.objects, strict=True):
            classes[row][mask] = place[name]
        classes[row][truth.anyone] = place["person"]
        for head, person in zip(heads(scene, SIZE), truth.people, strict=True):
            classes[row][head & person] = place["head"]
    return classes


def learnt(folder: Path) -> Any:
    """The detector in ``folder``, to go on from; classes that it does not know yet begin as nothing."""
    from transformers import SegformerForSemanticSegmentation

    with quiet():
        before = SegformerForSemanticSegmentation.from_pretrained(folder, local_files_only=True)
    model = build()
    weights, place = before.state_dict(), {label: int(i) for i, label in before.config.id2label.items()}
    for name in ("decode_head.classifier.weight", "decode_head.classifier.bias"):
        rows = model.state_dict()[name].clone()
        for i, label in enumerate(LABELS):
            if label in place:
                rows[i] = weights[name][place[label]]
        weights[name] = rows
    model.load_state_dict(weights)
    return model


def train_detector(lesson: Lesson) -> None:
    """Train and save the detector; from the lesson's ``start`` on, where one is there already."""
    import torch

    model = build() if lesson.start is None else learnt(lesson.start)
    schedule = SCHEDULE if lesson.start is None else replace(ON, steps=lesson.steps or ON.steps)
    config = world()

    def loss(segformer: Any, step: int) -> Any:
        scenes = scenes_of(config, step, schedule.batch, seed=11)
        return segformer(pixel_values=pixels(scenes), labels=torch.from_numpy(classes_of(scenes))).loss

    lesson.learn(model, loss, schedule, lambda target: save_transformers(model.eval(), target, processor="segformer"))
