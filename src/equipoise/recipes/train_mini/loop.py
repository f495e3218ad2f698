"""A training loop that can be stopped at any moment and goes on to the same weights.

Batches depend on the step alone, so a checkpoint is weights, optimiser state and a step, in safetensors; no pickle.

Batches of the world by step: scenes that no other step has, their pictures, and one caption each.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.models.runtime import bfloat16_is_fast
from equipoise.world import SceneArrays, WorldConfig, captions, render_batch, sample
from equipoise.world.captions import prompts
from equipoise.world.catalog import OCCUPATIONS, SCENES

__all__ = ["MEAN", "SIZE", "STD", "Schedule", "focused_scenes_of", "pixels", "run", "scenes_of", "texts_of"]


SIZE = 64
MEAN, STD = 0.5, 0.25
"""Of every colour channel: what the miniatures' image processors hold."""


def scenes_of(config: WorldConfig, step: int, batch: int, seed: int) -> SceneArrays:
    """The scenes of a training step."""
    return sample(config, batch, seed, start=step * batch)


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


def pixels(scenes: SceneArrays) -> Any:
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


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a part learns."""

    steps: int
    batch: int
    rate: float = 1e-3
    warmup: int = 200
    weight_decay: float = 0.05
    save_every: int = 250
    again: tuple[int, ...] = ()
    """The steps at which the rate rises once more, to three tenths, for another descent."""
    average: float = 0.0
    """How much of the running average of the weights each step keeps; above 0 the model ends as that average."""
    half: bool = False
    """Multiply in bfloat16 where the processor has instructions for it; weights and sums stay in float32."""

    def rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine to a fiftieth; the same from three tenths each time ``again`` is reached.

        >>> twice = Schedule(steps=40, batch=8, rate=1.0, warmup=10, again=(30,))
        >>> [round(twice.rate_at(step), 3) for step in (4, 10, 29, 30, 39)]
        [0.5, 1.0, 0.026, 0.3, 0.013]
        """
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        starts = (self.warmup, *self.again)
        descent = sum(step >= start for start in self.again)
        end = (*self.again, self.steps)[descent]
        top = self.rate * (0.3 if descent else 1.0)
        share = (step - starts[descent]) / max(1, end - starts[descent])
        return top * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))


def run(
    model: Any,
    loss: Callable[[Any, int], Any],
    schedule: Schedule,
    folder: Path,
    say: Callable[[str], None] = print,
    *,
    stop_at: int | None = None,
) -> None:
    """Train ``model`` in place: ``loss(model, step)`` gives the loss of a step's batch.

    ``folder`` holds the checkpoint; a run that was stopped goes on from it.
    """
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    parameters = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in parameters if p.ndim > 1]
    plain = [p for p in parameters if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": schedule.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=schedule.rate,
        betas=(0.9, 0.98),
    )
    average = _Average(model, schedule.average)
    start = _restore(model, optimiser, average, folder)
    model.train()
    half = torch.autocast("cpu", torch.bfloat16, enabled=schedule.half and bfloat16_is_fast())
    began, seen = time.monotonic(), 0.0
    for step in range(start, stop_at or schedule.steps):
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate_at(step)
        optimiser.zero_grad(set_to_none=True)
        with half:
            value = loss(model, step)
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        average.follow(step)
        seen += float(value.detach())
        done = step + 1
        if done % 50 == 0:
            rate = (done - start) / (time.monotonic() - began)
            left = (schedule.steps - done) / rate / 60
            say(f"step {done}/{schedule.steps} loss {seen / 50:.4f} {rate * schedule.batch:.0f}/s {left:.0f} min left")
            seen = 0.0
        if done % schedule.save_every == 0 or done == schedule.steps:
            _save(model, optimiser, average, done, folder)
    if stop_at is None:
        average.take()


class _Average:
    """A running average of a model's weights, which forgets its first steps sooner; nothing where ``keep`` is 0."""

    def __init__(self, model: Any, keep: float) -> None:
        self.keep = keep
        self.weights = {n: p for n, p in model.named_parameters() if p.requires_grad} if keep else {}
        self.means = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def follow(self, step: int) -> None:
        keep = min(self.keep, (1 + step) / (10 + step))
        for name, mean in self.means.items():
            mean.lerp_(self.weights[name].detach(), 1 - keep)

    def take(self) -> None:
        """Make the model its average."""
        for name, mean in self.means.items():
            self.weights[name].data.copy_(mean)


def _tensors(model: Any, optimiser: Any) -> dict[str, Any]:
    tensors = {f"model.{name}": value.detach().contiguous() for name, value in model.state_dict().items()}
    numbered = [p for group in optimiser.param_groups for p in group["params"]]
    for i, parameter in enumerate(numbered):
        for name, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{i}.{name}"] = value.detach().clone().contiguous()
    return tensors


def _save(model: Any, optimiser: Any, average: _Average, step: int, folder: Path) -> None:
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / ".checkpoint.safetensors"
    tensors = {name: value.clone() for name, value in _tensors(model, optimiser).items()}
    tensors |= {f"average.{name}": mean.contiguous() for name, mean in average.means.items()}
    save_file(tensors, hidden, metadata={"step": json.dumps(step)})
    hidden.replace(folder / "checkpoint.safetensors")


def _restore(model: Any, optimiser: Any, average: _Average, folder: Path) -> int:
    from safetensors import safe_open
    from safetensors.torch import load_file

    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return 0
    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        step = int(json.loads(file.metadata()["step"]))
    model.load_state_dict({n.removeprefix("model."): v for n, v in tensors.items() if n.startswith("model.")})
    for name, mean in average.means.items():
        mean.copy_(tensors[f"average.{name}"])
    numbered = [p for group in optimiser.param_groups for p in group["params"]]
    for i, parameter in enumerate(numbered):
        prefix = f"optimiser.{i}."
        state = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
        if state:
            optimiser.state[parameter] = state
    return step
