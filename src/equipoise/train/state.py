"""Where training stands, as one safetensors file: weights, optimiser, running average, losses and step; no pickle."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CHECKPOINT", "Average", "Course", "restore", "save"]

CHECKPOINT = "checkpoint.safetensors"


class Average:
    """A running average of a model's weights, which forgets its first steps sooner; nothing where ``keep`` is 0."""

    def __init__(self, model: Any, keep: float) -> None:
        self.keep = keep
        self.weights = {n: p for n, p in model.named_parameters() if p.requires_grad} if keep else {}
        self.means = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def follow(self, step: int) -> None:
        """Take the weights after a ``step`` into the average."""
        keep = min(self.keep, (1 + step) / (10 + step))
        for name, mean in self.means.items():
            mean.lerp_(self.weights[name].detach(), 1 - keep)

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
    """The trained weights where the validation loss was least."""

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
    for name, mean in average.means.items():
        mean.copy_(tensors[f"average.{name}"])
    for i, parameter in enumerate(_numbered(optimiser)):
        prefix = f"optimiser.{i}."
        state = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
        if state:  # the count of steps stays on the CPU, as AdamW keeps it
            optimiser.state[parameter] = {n: v if n == "step" else v.to(parameter.device) for n, v in state.items()}
    past = json.loads(about.get("course", "{}"))
    course.losses[:] = past.get("losses", [])
    course.judged[:] = [(int(step), float(loss)) for step, loss in past.get("judged", [])]
    course.best = {n.removeprefix("best."): v for n, v in tensors.items() if n.startswith("best.")}
    return int(json.loads(about["step"]))


def _metadata(data: bytes) -> dict[str, str]:
    """The header's texts: eight bytes say how long it is, and it is JSON."""
    length = int.from_bytes(data[:8], "little")
    found: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
    return found


def _tensors(model: Any, optimiser: Any) -> dict[str, Any]:
    tensors = {f"model.{name}": value.detach().contiguous() for name, value in model.state_dict().items()}
    for i, parameter in enumerate(_numbered(optimiser)):
        for name, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{i}.{name}"] = value.detach().clone().contiguous()
    return tensors


def _numbered(optimiser: Any) -> list[Any]:
    return [p for group in optimiser.param_groups for p in group["params"]]
