"""Losses that weigh rows: all alike, by their group, or by how sure the classifier is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.train.losses import Head, LabelBatch, row_losses
from equipoise.train.processes import Processes


class Plain:
    """Every row counts the same (empirical risk minimisation)."""

    copies = 1
    n_groups = 0
    gamma = 0.0
    weights: NDArray[np.float64] | None = None
    """(g,) what a row of each group counts; their mean over the rows is 1."""

    def see(self, groups: NDArray[np.int64], n_groups: int, heads: Sequence[Head] = ()) -> None:
        """How many groups there are."""
        self.n_groups = n_groups

    def module(self, width: int) -> Any:
        """None is needed."""
        return None

    def loss(self, batch: LabelBatch, module: Any, processes: Processes) -> Any:
        """The weighted mean of the rows' losses."""
        import torch

        losses = row_losses(batch, batch.logits, gamma=self.gamma)
        if self.weights is not None:
            known = torch.from_numpy(self.weights).to(losses)
            losses = losses * torch.where(batch.groups >= 0, known[batch.groups.clamp(min=0)], torch.ones_like(losses))
        return losses.sum() / processes.total(len(losses))


class Upweight(Plain):
    """Rows count inversely to the number of rows of their group: n / (g * n_g)."""

    def see(self, groups: NDArray[np.int64], n_groups: int, heads: Sequence[Head] = ()) -> None:
        """Count the groups.

        >>> loss = Upweight()
        >>> loss.see(np.array([0, 0, 0, 1, -1]), 2)
        >>> loss.weights.round(3).tolist()
        [0.667, 2.0]
        """
        counts = np.bincount(groups[groups >= 0], minlength=n_groups)
        self.weights = counts.sum() / (n_groups * np.maximum(counts, 1))


class ClassBalanced(Plain):
    """Rows count as (1 - beta) / (1 - beta^n_g), scaled so that the weights of the groups add up to their number."""

    def __init__(self, beta: float = 0.999) -> None:
        if not 0 <= beta < 1:
            raise InputError(f"beta = {beta}: a number of at least 0 and below 1 is expected, such as 0.999")
        self.beta = beta

    def see(self, groups: NDArray[np.int64], n_groups: int, heads: Sequence[Head] = ()) -> None:
        """Count the groups.

        >>> loss = ClassBalanced(beta=0.5)
        >>> loss.see(np.array([0, 0, 1]), 2)
        >>> loss.weights.round(3).tolist()  # 0.5 / 0.75 and 0.5 / 0.5, scaled to add up to 2
        [0.8, 1.2]
        """
        counts = np.maximum(np.bincount(groups[groups >= 0], minlength=n_groups), 1)
        weights = (1 - self.beta) / (1 - self.beta**counts)
        self.weights = weights * n_groups / weights.sum()


class Focal(Plain):
    """What is right with probability p counts (1 - p)^gamma times as much."""

    def __init__(self, gamma: float = 2.0) -> None:
        if gamma < 0:
            raise InputError(f"gamma = {gamma}: a number of at least 0 is expected, such as 2")
        self.gamma = gamma
