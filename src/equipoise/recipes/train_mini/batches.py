"""Batches of the world by step: scenes that no other step has, their pictures, and one caption each."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.world import Scenes, WorldConfig, captions, render_batch, sample

__all__ = ["MEAN", "SIZE", "STD", "pixels", "scenes_of", "texts_of"]

SIZE = 64
MEAN, STD = 0.5, 0.25
"""Of every colour channel: what the miniatures' image processors hold."""


def scenes_of(config: WorldConfig, step: int, batch: int, seed: int) -> Scenes:
    """The scenes of a training step."""
    return sample(config, batch, seed, start=step * batch)


def pixels(scenes: Scenes) -> Any:
    """(n, 3, 64, 64) the pictures as the models see them."""
    import torch

    images = render_batch(scenes, SIZE)
    return (torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float() / 255 - MEAN) / STD


def texts_of(scenes: Scenes, step: int) -> list[str]:
    """One of the five captions of each scene, drawn by the step."""
    chosen = np.random.default_rng(step).integers(0, 5, size=len(scenes))
    return [captions(scene)[which] for scene, which in zip(scenes, chosen, strict=True)]
