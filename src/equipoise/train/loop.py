"""A training loop that can be stopped at any moment and goes on to the same weights.

Batches depend on the step alone, so where training stands is one safetensors file: weights, optimiser, running
average, losses and step; no pickle. On one core of a CPU the result is the same bit for bit; with several processes
(:mod:`equipoise.train.processes`) it is the same to rounding.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.models.runtime import bfloat16_is_fast
from equipoise.train.processes import Processes
from equipoise.train.schedule import Schedule

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
    """Train ``model`` in place; a run that was stopped goes on from its checkpoint.

    Args:
        model: a torch module; the parameters that require a gradient are trained.
        loss: ``loss(model, step)`` gives the loss of a step's batch, or this process's part of it.
        schedule: steps, rates, and how often a checkpoint is written.
        folder: holds the checkpoint.
        say: told the loss and the speed every 50 steps; ``None`` for silence.
        stop_at: return once so many steps of the schedule are done, as a run that is stopped: with the weights of the
            last step, not their average or the best.
        seed: makes what a model draws by itself (dropout) depend on the step alone as well.
        processes: those that train together; this one alone, on the processor, unless given.
        validation: how the model is judged while it learns, and when that ends the training; not at all unless given.
        after: told the number of steps done, after each.

    Returns:
        The loss of every step and of every validation, with those before a stop.
    """
    import torch

    where = processes or Processes()
    with one_thread(where):
        torch.manual_seed(0)
        parameters = [p for p in model.parameters() if p.requires_grad]
        optimiser = optimiser_of(parameters, schedule)
        average, course = Average(model, schedule.average), Course()
        path = folder / CHECKPOINT
        held = path.read_bytes() if where.first and path.exists() else None
        start = restore(model, optimiser, average, course, where.from_first(held))
        model.train()
        half = in_half(schedule, where)
        lines = _Lines(schedule, start, say if where.first else None)
        recent: list[Any] = []
        for step in range(start, schedule.steps if stop_at is None else min(stop_at, schedule.steps)):
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
                with average.taken():
                    _judge(model, validation, course, done)
            if done % _LINE == 0:
                lines.line(done, course.losses[-_LINE:])
            if saved and where.first:
                save(model, optimiser, average, course, done, folder)
            if after is not None:
                after(done)
        course.losses += _floats(recent, where)
        if stop_at is None:
            average.take()
            _take_best(model, course)
    return course


@contextmanager
def one_thread(where: Processes) -> Iterator[None]:
    """Compute on one core while it lasts, so that sums are the same to the bit; nothing changes ``where`` is a GPU."""
    import torch

    threads = torch.get_num_threads()
    if where.device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if where.device.type == "cpu":
            torch.set_num_threads(threads)


def in_half(schedule: Schedule, where: Processes) -> bool:
    """Whether losses are computed in bfloat16: where it was asked for and is no slower."""
    return schedule.half and (where.device.type != "cpu" or bfloat16_is_fast())


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
        course.best = {name: tensor.detach().clone() for name, tensor in _changing(model)}
    course.judged.append((done, value))


def _take_best(model: Any, course: Course) -> None:
    for name, value in _changing(model):
        if name in course.best:  # checkpoints of earlier versions have no buffers of the best
            value.data.copy_(course.best[name])


def _changing(model: Any) -> Iterator[tuple[str, Any]]:
    """What learning changes of a model and a checkpoint holds: trained weights, and buffers such as batch norm's means.

    Buffers that no checkpoint holds are caches, which may even change their shape.
    """
    yield from ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
    held = model.state_dict().keys()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name in held)


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


CHECKPOINT = "checkpoint.safetensors"


class Average:
    """A running average of a model's weights, which forgets its first steps sooner; nothing where ``keep`` is 0.

    The means and variances that batch normalisation keeps are averaged with them: those of the last step belong to the
    weights of the last step.
    """

    def __init__(self, model: Any, keep: float) -> None:
        self.keep = keep
        self.weights = {n: p for n, p in model.named_parameters() if p.requires_grad} if keep else {}
        kept = model.state_dict().keys() if keep else ()  # not what is made anew whenever a model is loaded
        self.weights |= {n: b for n, b in model.named_buffers() if n in kept and b.is_floating_point()}
        self.means = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def follow(self, step: int) -> None:
        """Take the weights after a ``step`` into the average."""
        keep = min(self.keep, (1 + step) / (10 + step))
        for name, mean in self.means.items():
            mean.lerp_(self.weights[name].detach(), 1 - keep)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The model as its average for a while: what will be kept is what is judged."""
        own = {name: weight.detach().clone() for name, weight in self.weights.items()}
        self.take()
        yield
        for name, value in own.items():
            self.weights[name].data.copy_(value)

    def take(self) -> None:
        """Make the model its average."""
        for name, mean in self.means.items():
            self.weights[name].data.copy_(mean)


@dataclass
class Course:
    """What has happened so far: the loss of every step, and of the validation where there is one."""

    losses: list[float] = field(default_factory=list)
    """One for each step."""
    judged: list[tuple[int, float]] = field(default_factory=list)
    """Steps done and the validation loss then."""
    best: dict[str, Any] = field(default_factory=dict)
    """The trained weights and the buffers where the validation loss was least."""

    @property
    def best_loss(self) -> float:
        """The least validation loss so far.

        >>> Course(judged=[(10, 2.0), (20, 1.5), (30, 1.7)]).best_loss
        1.5
        """
        return min((loss for _, loss in self.judged), default=float("inf"))

    @property
    def best_step(self) -> int:
        """After how many steps it was least; 0 where nothing was judged."""
        return min(self.judged, key=lambda entry: (entry[1], entry[0]), default=(0, 0.0))[0]

    @property
    def since_best(self) -> int:
        """How many validations came after the best.

        >>> Course(judged=[(10, 2.0), (20, 1.5), (30, 1.7)]).since_best
        1
        """
        return sum(step > self.best_step for step, _ in self.judged)


def save(model: Any, optimiser: Any, average: Average, course: Course, step: int, folder: Path) -> None:
    """Write the checkpoint of ``step``; until it is whole, the one before stays."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{CHECKPOINT}"
    tensors = {name: value.clone() for name, value in _tensors(model, optimiser).items()}
    tensors |= {f"average.{name}": mean.contiguous() for name, mean in average.means.items()}
    tensors |= {f"best.{name}": value.contiguous() for name, value in course.best.items()}
    about = {"step": json.dumps(step), "course": json.dumps({"losses": course.losses, "judged": course.judged})}
    save_file(tensors, hidden, metadata=about)
    with hidden.open("rb") as file:
        os.fsync(file.fileno())
    hidden.replace(folder / CHECKPOINT)


def restore(model: Any, optimiser: Any, average: Average, course: Course, data: bytes | None) -> int:
    """Put everything where the checkpoint in ``data`` says, and give the number of steps done; 0 without one."""
    from safetensors.torch import load

    if data is None:
        return 0
    about = _metadata(data)
    tensors = load(data)
    model.load_state_dict({n.removeprefix("model."): v for n, v in tensors.items() if n.startswith("model.")})
    for name, mean in average.means.items():  # a checkpoint of an earlier version holds no averages of buffers
        mean.copy_(tensors.get(f"average.{name}", average.weights[name].detach()))
    for i, parameter in enumerate(_numbered(optimiser)):
        prefix = f"optimiser.{i}."
        state = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
        if state:  # the count of steps stays on the CPU, as AdamW keeps it; the rest lies in memory as the weights do
            optimiser.state[parameter] = {n: v if n == "step" else _laid_out(v, parameter) for n, v in state.items()}
    past = json.loads(about.get("course", "{}"))
    course.losses[:] = past.get("losses", [])
    course.judged[:] = [(int(step), float(loss)) for step, loss in past.get("judged", [])]
    course.best = {n.removeprefix("best."): v for n, v in tensors.items() if n.startswith("best.")}
    return int(json.loads(about["step"]))


def _laid_out(value: Any, like: Any) -> Any:
    """``value`` on the device and in the memory format of ``like``, as a run that was never stopped has it."""
    import torch

    return torch.empty_like(like, dtype=value.dtype).copy_(value)


def _metadata(data: bytes) -> dict[str, str]:
    """The header's texts: eight bytes say how long it is, and it is JSON."""
    length = int.from_bytes(data[:8], "little")
    metadata: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
    return metadata


def _tensors(model: Any, optimiser: Any) -> dict[str, Any]:
    tensors = {f"model.{name}": value.detach().contiguous() for name, value in model.state_dict().items()}
    for i, parameter in enumerate(_numbered(optimiser)):
        for name, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{i}.{name}"] = value.detach().clone().contiguous()
    return tensors


def _numbered(optimiser: Any) -> list[Any]:
    return [p for group in optimiser.param_groups for p in group["params"]]
