"""What a training will take, from a few steps that are measured and thrown away."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

from equipoise.engine.progress import duration
from equipoise.train.fitting import Training
from equipoise.train.loop import in_half, one_thread, optimiser_of
from equipoise.train.parameters import count

_STEPS = 3


@dataclass(frozen=True)
class Estimated:
    """Steps, seconds and memory; memory is the most that this process, or its GPU, has held while measuring."""

    steps: int
    batch: int
    n_train: int
    n_validation: int
    n_subjects: int
    trained_weights: int
    all_weights: int
    seconds_per_step: float
    peak_bytes: int
    on: str

    @property
    def seconds(self) -> float:
        """The whole training, without validation."""
        return self.steps * self.seconds_per_step

    def __str__(self) -> str:
        share = 100 * self.trained_weights / self.all_weights
        subjects = f" of {self.n_subjects} subjects" if self.n_subjects else ""
        return (
            f"{self.steps:,} steps of {self.batch} rows from {self.n_train:,} images{subjects}; "
            f"{self.n_validation:,} images judge\n"
            f"{self.trained_weights:,} of {self.all_weights:,} weights are trained ({share:.3g}%)\n"
            f"about {duration(self.seconds)} ({self.seconds_per_step:.3g} s per step) and "
            f"{self.peak_bytes / 1e9:.2g} GB on {self.on}, measured over {_STEPS} steps; validation comes on top"
        )


def estimated(training: Training) -> Estimated:
    """Take a few steps of ``training`` in memory, measure them, and say what all of them will take.

    The model is no use afterwards: prepare the training anew to carry it out.
    """
    import torch

    where = training.processes
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    schedule = training.settings.schedule(training.steps)
    with one_thread(where):  # as in the training itself
        half = in_half(schedule, where)
        optimiser = optimiser_of(parameters, schedule)
        training.model.train()
        seconds = []
        for step in range(1 + _STEPS):  # the first pays for what is made only once
            began = time.perf_counter()
            inputs = training.inputs_at(step)
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast(where.device.type, torch.bfloat16, enabled=half):
                loss = training.loss(training.model, inputs)
            loss.backward()
            where.add_up_gradients(parameters)
            optimiser.step()
            if where.device.type == "cuda":
                torch.cuda.synchronize(where.device)
            seconds.append(time.perf_counter() - began)
    moved, every = count(training.model)
    return Estimated(
        steps=training.steps,
        batch=training.settings.batch,
        n_train=len(training.parts.train),
        n_validation=len(training.parts.validation),
        n_subjects=len(training.subjects(training.parts.train)),
        trained_weights=moved,
        all_weights=every,
        seconds_per_step=sorted(seconds[1:])[_STEPS // 2],
        peak_bytes=_peak(where.device),
        on=str(where.device) + (f" of each of {where.count} processes" if where.count > 1 else ""),
    )


def _peak(device: Any) -> int:
    import torch

    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else held * 1024
