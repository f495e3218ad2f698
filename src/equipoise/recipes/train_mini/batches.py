"""Batches of the world by step: scenes that no other step has, their pictures, and one caption each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from equipoise.world import Scene, SceneArrays, WorldConfig, captions, render_batch, sample
from equipoise.world.captions import prompts
from equipoise.world.catalog import OCCUPATIONS, SCENES

SIZE = 64
MEAN, STD = 0.5, 0.25
"""Of every colour channel: what the miniatures' image processors hold."""


def scenes_of(config: WorldConfig, step: int, batch: int, seed: int) -> SceneArrays:
    """The scenes of a training step."""
    return sample(config, batch, seed, start=step * batch)


def unseen(seed: int) -> int:
    """The seed of a world for pictures that nobody has learnt from, for a ``seed`` of a study or another small number.

    Miniatures, and what studies train before they draw what they test on, learn from small seeds, and from
    :func:`focused_scenes_of` above a million.

    >>> unseen(3)
    70003
    """
    return 70_000 + seed


def focused_scenes_of(
    config: WorldConfig, step: int, batch: int, seed: int, *, subjects: int, places: int
) -> SceneArrays:
    """Scenes of a training step that share a few occupations and places, otherwise drawn as the world draws them.

    Where everything else is alike, a caption is told from the others by the person it names: without such batches a
    contrastive loss has little reason to look at skin tone and age.
    """
    rng = np.random.default_rng([seed, step])
    occupations = rng.choice(len(OCCUPATIONS), subjects, replace=False)
    scenes = rng.choice(len(SCENES), places, replace=False)
    share = (1 - config.activity_share) * subjects * places / (len(OCCUPATIONS) * len(SCENES))
    # seeds of their own: an ordinary step's scenes have smaller numbers
    pool = sample(config, int(batch / share * 1.5) + 200, seed + 1_000_003 * (step + 1))
    columns = pool.columns
    fitting = np.flatnonzero(np.isin(columns["occupation"], occupations) & np.isin(columns["scene"], scenes))[:batch]
    return SceneArrays(config, {name: values[fitting] for name, values in columns.items()})


def pixels(scenes: Iterable[Scene]) -> Any:
    """(n, 3, 64, 64) the pictures as the models see them."""
    import torch

    images = render_batch(scenes, SIZE)
    return (torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float() / 255 - MEAN) / STD


def texts_of(scenes: SceneArrays, step: int, *, plain: float = 0.0) -> list[str]:
    """One of the five captions of each scene, drawn by the step; a share ``plain`` of them names one thing alone.

    A plain caption says the gender, the skin tone, the age or the place, as a person would who does not care for work:
    "a photo of a woman", "a photo of a person on the farm".
    """
    rng = np.random.default_rng(step)
    chosen = rng.integers(0, 5, size=len(scenes))
    axes = np.where(rng.random(len(scenes)) < plain, rng.integers(0, len(_PLAIN), size=len(scenes)), -1)
    asked = [_plain_texts(scenes, axis) for axis in _PLAIN]
    return [
        asked[axes[i]][i] if axes[i] >= 0 else captions(scene)[which]
        for i, (scene, which) in enumerate(zip(scenes, chosen, strict=True))
    ]


def _plain_texts(scenes: SceneArrays, axis: str) -> list[str]:
    names = tuple(SCENES) if axis == "scene" else scenes.config.groups_allowed(axis)
    texts = prompts(axis, scenes.config)
    return [texts[names[int(code)]] for code in scenes.columns[_PLAIN[axis]]]


_PLAIN = {"gender": "noted_gender", "skin_tone": "noted_skin_tone", "age": "noted_age", "scene": "scene"}
