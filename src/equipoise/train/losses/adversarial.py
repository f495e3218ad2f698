"""An adversary guesses the group from the features; its gradient, turned round, teaches the features to prevent it."""

from __future__ import annotations

from typing import Any

from equipoise.errors import InputError
from equipoise.train.losses import LabelBatch
from equipoise.train.losses.weighted import Plain
from equipoise.train.processes import Processes


class Adversarial(Plain):
    """The plain loss and ``weight`` times that of the adversary, whose gradient is reversed on its way down."""

    def __init__(self, weight: float = 1.0, hidden: int = 64) -> None:
        if weight < 0 or hidden < 1:
            raise InputError("the adversary's weight is at least 0 and it has at least 1 hidden unit")
        self.weight, self.hidden = weight, hidden

    def module(self, width: int) -> Any:
        """The adversary."""
        import torch

        torch.manual_seed(1)
        layers = [torch.nn.Linear(width, self.hidden), torch.nn.ReLU(), torch.nn.Linear(self.hidden, self.n_groups)]
        return torch.nn.Sequential(*layers)

    def loss(self, batch: LabelBatch, module: Any, processes: Processes) -> Any:
        """Both losses; the adversary is not asked about rows without a group."""
        from torch.nn.functional import cross_entropy

        total = super().loss(batch, module, processes)
        known = batch.groups >= 0
        asked = processes.total(float(known.sum()))
        if not asked:
            return total
        guesses = module(_reversed()(batch.features[known].float(), self.weight))
        return total + cross_entropy(guesses, batch.groups[known], reduction="sum") / asked


def _reversed() -> Any:
    """The identity whose gradient is turned round and multiplied by the weight (Ganin and Lempitsky, ICML 2015)."""
    import torch

    class Reverse(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, features: Any, weight: float) -> Any:
            ctx.weight = weight
            return features.view_as(features)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return -ctx.weight * gradient, None

    return Reverse.apply
