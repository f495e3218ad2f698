"""Domain-independent training: a classifier for each group on shared features (Wang et al., CVPR 2020, section 4.4).

Each row teaches the classifier of its own group. Afterwards the outputs are averaged over the groups, which for a
linear layer is one linear layer: what is saved is an ordinary checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.train.losses import Head, LabelBatch, row_losses
from equipoise.train.losses.weighted import Plain
from equipoise.train.processes import Processes


class DomainIndependent(Plain):
    """The plain loss of each row's own classifier; rows without a group teach their average."""

    def see(self, groups: NDArray[np.int64], n_groups: int, heads: Sequence[Head] = ()) -> None:
        """How many classifiers there are."""
        self.copies = n_groups

    def loss(self, batch: LabelBatch, module: Any, processes: Processes) -> Any:
        """The mean of the rows' losses."""
        import torch

        known = batch.groups >= 0
        own = batch.logits[torch.arange(len(known), device=known.device), batch.groups.clamp(min=0)]
        logits = torch.where(known[:, None], own, batch.logits.mean(dim=1))
        losses = row_losses(batch, logits)
        return losses.sum() / processes.total(len(losses))
