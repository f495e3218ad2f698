"""Domain-discriminative training: what an image shows and whose it is are guessed together (Wang et al., CVPR 2020).

Section 4.3 there: K values and D groups are K * D classes of one softmax; of a label that stands beside others, yes and
no with D groups are 2 * D. The answer adds up the probabilities over the groups, after each was divided by how often
its value and group were seen in training (the paper's sum with prior shift; ``prior_shift=False`` leaves that out).
No linear layer gives that sum, so the checkpoint keeps all outputs, and ``hf:<folder>`` adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.train.losses import Head, LabelBatch, SavedOutputs
from equipoise.train.processes import Processes


class DomainDiscriminative:
    """The cross-entropy of value and group together; a row without a group teaches the sum over groups."""

    copies = 1

    def __init__(self, prior_shift: bool = True) -> None:
        self.prior_shift = prior_shift
        self.n_groups = 0
        self.n_labels = 0

    def see(self, groups: NDArray[np.int64], n_groups: int, heads: Sequence[Head] = ()) -> None:
        """How many groups there are, and whether a label needs outputs for no beside those for yes."""
        self.n_groups = n_groups
        self.n_labels = sum(len(head.labels) for head in heads)
        self.copies = n_groups * (2 if any(head.independent for head in heads) else 1)

    def module(self, width: int) -> Any:
        """How often each value was seen with each group, which is kept with the checkpoint."""
        import torch

        kept = torch.nn.Module()
        kept.register_buffer("counts", torch.zeros(self.copies, self.n_labels))
        return kept

    def loss(self, batch: LabelBatch, module: Any, processes: Processes) -> Any:
        """The mean of the rows' losses, each the mean over the heads whose labels are known."""
        import torch

        known = (batch.groups >= 0)[:, None]
        own = torch.nn.functional.one_hot(batch.groups.clamp(min=0), self.n_groups).bool() | ~known
        losses, there = [], []
        counts = torch.zeros_like(module.counts)
        for head in batch.heads:
            wanted = batch.wanted[:, head.places]
            right, share = self._right(batch.logits[:, :, head.places].float(), wanted, own, head.independent)
            losses.append(-(right * share).sum(dim=1) / share.sum(dim=1).clamp(min=1))
            there.append((share.sum(dim=1) > 0).float())
            counts[:, head.places] = self._counts(wanted, (own & known).float(), head.independent, len(counts))
        if module.training:
            module.counts.add_(processes.summed(counts))
        of_head, is_known = torch.stack(losses, dim=1), torch.stack(there, dim=1)
        rows = (of_head * is_known).sum(dim=1) / is_known.sum(dim=1).clamp(min=1)
        return rows.sum() / processes.total(len(rows))

    def saved(self, module: Any, heads: Sequence[Head], groups: Sequence[str]) -> SavedOutputs:
        """Which outputs stay, what they are called, and how often each was seen.

        The values of a head in each group, one group after the other; of an independent head yes, then no, in each.
        """
        places: list[int] = []
        names: list[str] = []
        for head in heads:
            for number, group in enumerate(groups):
                for start, word in (
                    ((number, ""), (number + len(groups), "no ")) if head.independent else ((number, ""),)
                ):
                    places += [start * self.n_labels + place for place in range(*head.places.indices(self.n_labels))]
                    names += [f"{head.name}:{word}{label}|{group}" for label in head.labels]
        seen = module.counts.flatten()[places] if self.prior_shift else []
        config = {"joint_groups": list(groups), "joint_counts": [max(1.0, float(count)) for count in seen]}
        return SavedOutputs(places, names, config)

    def _right(self, logits: Any, wanted: Any, own: Any, independent: bool) -> tuple[Any, Any]:
        """(n, m) log-probabilities of what is true of each label, or of the head, and (n, m) whether it is known."""
        import torch

        known = ~wanted.isnan()
        wanted = wanted.nan_to_num(0.0)
        if not independent:
            joint = logits[:, : self.n_groups].flatten(1).log_softmax(dim=1).unflatten(1, (self.n_groups, -1))
            there = own[:, :, None] & (wanted[:, None, :] > 0)
            right = joint.masked_fill(~there, float("-inf")).flatten(1)
            share = (known.all(dim=1, keepdim=True) & (wanted.sum(dim=1, keepdim=True) > 0)).float()
            # a row whose labels are not known has nothing that is true of it, and no slope
            right = torch.where(share > 0, right, torch.zeros_like(right))
            return right.logsumexp(dim=1, keepdim=True) * share, share
        joint = logits.log_softmax(dim=1).unflatten(1, (2, self.n_groups))
        said = torch.where(wanted[:, None, :] > 0, joint[:, 0], joint[:, 1])
        return said.masked_fill(~own[:, :, None], float("-inf")).logsumexp(dim=1), known.float()

    def _counts(self, wanted: Any, own: Any, independent: bool, copies: int) -> Any:
        """(copies, k) how many rows show each value with each group, and for an independent head, do not."""
        import torch

        yes = own.T @ wanted.nan_to_num(0.0)
        no = own.T @ (1 - wanted).nan_to_num(0.0) if independent else torch.zeros_like(yes)
        return torch.cat([yes, no])[:copies]
