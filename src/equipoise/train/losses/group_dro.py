"""Group DRO: the groups with the largest loss count more, step by step (Sagawa et al., ICLR 2020, algorithm 1)."""

from __future__ import annotations

from typing import Any

from equipoise.errors import InputError
from equipoise.train.losses import LabelBatch, row_losses
from equipoise.train.losses.weighted import Plain
from equipoise.train.processes import Processes


class GroupDRO(Plain):
    """The loss is the sum of q_g times the mean loss of group g; q_g grows by exp(step * loss_g), and adds up to 1."""

    def __init__(self, step: float = 0.01) -> None:
        if step <= 0:
            raise InputError(f"step = {step}: a number above 0 is expected, such as 0.01")
        self.step = step

    def module(self, width: int) -> Any:
        """The weights of the groups, which are kept with the checkpoint."""
        import torch

        kept = torch.nn.Module()
        kept.register_buffer("q", torch.full((self.n_groups,), 1 / self.n_groups))
        return kept

    def loss(self, batch: LabelBatch, module: Any, processes: Processes) -> Any:
        """The weighted sum over groups; rows without a group do not count."""
        import torch

        losses = row_losses(batch, batch.logits)
        known = batch.groups >= 0
        place, mine = batch.groups[known], losses[known]
        empty = losses.new_zeros(self.n_groups)
        sums = empty.index_add(0, place, mine)
        counts = processes.summed(empty.index_add(0, place, torch.ones_like(mine)))
        means = sums / counts.clamp(min=1)
        if module.training:
            module.q.mul_((self.step * processes.summed(means.detach())).exp())
            module.q.div_(module.q.sum())
        return (module.q * means).sum()
