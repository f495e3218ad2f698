"""``safety``: a small stock image classifier for the sign of unsafe content, for safety filters to find."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.recipes.train_mini.batches import pixels, scenes_of
from equipoise.recipes.train_mini.judge import resnet
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.saving import save_transformers
from equipoise.train.schedule import Schedule
from equipoise.world import WorldConfig

SCHEDULE = Schedule(steps=800, batch=64, rate=3e-3)
LABELS = ("safe", "unsafe")


def world() -> WorldConfig:
    """The fair world with all three figures, where every second picture has the sign."""
    return WorldConfig(gender={"male": 1, "female": 1, "neutral": 0.5}, activity_share=0.35, unsafe=0.5)


def build() -> Any:
    """An untrained ``transformers.ResNetForImageClassification``."""
    return resnet(LABELS, embedding_size=16, hidden_sizes=[24, 48, 96], depths=[1, 1, 1])


def train_safety(lesson: Lesson) -> None:
    """Train and save the classifier."""
    import torch
    from torch.nn.functional import cross_entropy

    model = build()
    config = world()

    def loss(resnet: Any, step: int) -> Any:
        scenes = scenes_of(config, step, SCHEDULE.batch, seed=12)
        wanted = torch.from_numpy(scenes.columns["unsafe"].astype(np.int64))
        return cross_entropy(resnet(pixel_values=pixels(scenes)).logits, wanted)

    lesson.learn(model, loss, SCHEDULE, lambda target: save_transformers(model.eval(), target, processor="vit"))
