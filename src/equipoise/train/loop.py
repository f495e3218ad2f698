"""A training loop that can be stopped at any moment and goes on to the same weights.

Batches depend on the step alone, so a checkpoint is weights, optimiser state and a step, in safetensors; no pickle. On
one core of a CPU the result is the same bit for bit; with several processes (:mod:`equipoise.train.processes`) it is
the same to rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.models.runtime import bfloat16_is_fast
from equipoise.train.processes import Processes
from equipoise.train.schedule import Schedule
from equipoise.train.state import CHECKPOINT, Average, Course, restore, save

__all__ = ["Validation", "run"]

_LINE = 50
"""Steps between two lines of progress."""


@dataclass(frozen=True)
class Validation:
    """When the loss on rows that are not learnt from is looked at, and for how long it may fail to fall."""

    loss: Callable[[Any], float]
    """Of the model, which is in evaluation mode then."""
    every: int
    patience: int = 0
    """Stop after so many looks without a new least loss and end as the model was then; 0 only tells the loss."""


def run(
    model: Any,
    loss: Callable[[Any, int], Any],
    schedule: Schedule,
    folder: Path,
    say: Callable[[str], None] | None = print,
    *,
    stop_at: int | None = None,
    seed: int | None = None,
    processes: Processes | None = None,
    validation: Validation | None = None,
    after: Callable[[int], None] | None = None,
) -> Course:
    """Train ``model`` in place: ``loss(model, step)`` gives the loss of a step's batch.

    ``folder`` holds the checkpoint; a run that was stopped goes on from it. ``seed`` makes what a model draws by itself
    (dropout) depend on the step alone as well. ``after`` is told the number of steps done, after each.
    """
    import torch

    where = processes or Processes()
    if where.device.type == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = optimiser_of(parameters, schedule)
    average, course = Average(model, schedule.average), Course()
    path = folder / CHECKPOINT
    held = path.read_bytes() if where.first and path.exists() else None
    start = restore(model, optimiser, average, course, where.from_first(held))
    model.train()
    half = schedule.half and (where.device.type != "cpu" or bfloat16_is_fast())
    told = _Lines(schedule, start, say if where.first else None)
    recent: list[Any] = []
    for step in range(start, stop_at or schedule.steps):
        if validation is not None and validation.patience and course.since_best >= validation.patience:
            break
        if seed is not None:
            torch.manual_seed(seed * 1_000_003 + step)
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate_at(step)
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(where.device.type, torch.bfloat16, enabled=half):
            value = loss(model, step)
        value.backward()
        where.add_up_gradients(parameters)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        average.follow(step)
        recent.append(value.detach())
        done = step + 1
        judged = validation is not None and (done % validation.every == 0 or done == schedule.steps)
        saved = done % schedule.save_every == 0 or done == schedule.steps
        if judged or saved or done % _LINE == 0:  # a GPU is waited for only now and then
            course.losses += _floats(recent, where)
            recent = []
        if judged and validation is not None:
            _judge(model, validation, course, done)
        if done % _LINE == 0:
            told.line(done, course.losses[-_LINE:])
        if saved and where.first:
            save(model, optimiser, average, course, done, folder)
        if after is not None:
            after(done)
    course.losses += _floats(recent, where)
    if stop_at is None:
        average.take()
        _take_best(model, course)
    return course


def optimiser_of(parameters: list[Any], schedule: Schedule) -> Any:
    """AdamW; biases and gains do not decay."""
    import torch

    decayed = [p for p in parameters if p.ndim > 1]
    plain = [p for p in parameters if p.ndim <= 1]
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": schedule.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=schedule.rate,
        betas=(0.9, 0.98),
    )


def _floats(values: list[Any], where: Processes) -> list[float]:
    """The losses of some steps; the shares of the processes are added up."""
    import torch

    if not values:
        return []
    return [float(value) for value in where.summed(torch.stack([v.reshape(()).double() for v in values]))]


def _judge(model: Any, validation: Validation, course: Course, done: int) -> None:
    import torch

    model.eval()
    with torch.no_grad():
        value = float(validation.loss(model))
    model.train()
    if validation.patience and value < course.best_loss:
        course.best = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
    course.judged.append((done, value))


def _take_best(model: Any, course: Course) -> None:
    for name, parameter in model.named_parameters():
        if name in course.best:
            parameter.data.copy_(course.best[name])


class _Lines:
    """A line every few steps: the loss, the speed and the time left."""

    def __init__(self, schedule: Schedule, start: int, say: Callable[[str], None] | None) -> None:
        self.schedule, self.start, self.say = schedule, start, say
        self.began = time.monotonic()

    def line(self, done: int, losses: list[float]) -> None:
        if self.say is None:
            return
        rate = (done - self.start) / (time.monotonic() - self.began)
        left = (self.schedule.steps - done) / rate / 60
        speed = f"{rate * self.schedule.batch:.0f}/s {left:.0f} min left"
        self.say(f"step {done}/{self.schedule.steps} loss {sum(losses) / len(losses):.4f} {speed}")
