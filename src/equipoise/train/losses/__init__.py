"""Losses of image classifiers that are said to make them fairer, each one file and one line here.

A loss sees what the classifier says of a batch (:class:`LabelBatch`) and which group each row shows. It may keep
weights or a state of its own in a torch module (:meth:`LabelLoss.module`), which is trained and saved with the model,
may ask for several outputs per label, and then says how they become one again. Losses of captioners are no part of the
list: :mod:`equipoise.train.losses.equalizer` is a setting of the task ``captioner``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.registry import Registry
from equipoise.train.processes import Processes

__all__ = ["LOSSES", "Head", "LabelBatch", "LabelLoss", "SavedOutputs", "row_losses"]

LOSSES = Registry("loss")
"""A target is a class whose settings are keywords; see :class:`LabelLoss`."""


def _loss(name: str, target: str, summary: str, citation: str) -> None:
    LOSSES.add(
        name,
        f"equipoise.train.losses.{target}",
        summary=summary,
        citation=citation,
        licence="Apache-2.0",
        needs="models",
    )


_loss("plain", "weighted:Plain", "Every row counts the same.", "Goodfellow et al., Deep Learning, 2016")
_loss(
    "upweight",
    "weighted:Upweight",
    "Rows count inversely to how many rows show their group.",
    "Byrd and Lipton, What is the Effect of Importance Weighting in Deep Learning?, ICML 2019",
)
_loss(
    "class-balanced",
    "weighted:ClassBalanced",
    "Rows count inversely to the effective number of rows of their group.",
    "Cui et al., Class-Balanced Loss Based on Effective Number of Samples, CVPR 2019",
)
_loss(
    "focal",
    "weighted:Focal",
    "What the classifier is sure of counts less.",
    "Lin et al., Focal Loss for Dense Object Detection, ICCV 2017",
)
_loss(
    "group-dro",
    "group_dro:GroupDRO",
    "The groups with the largest loss count more, step by step.",
    "Sagawa et al., Distributionally Robust Neural Networks for Group Shifts, ICLR 2020",
)
_loss(
    "adversarial",
    "adversarial:Adversarial",
    "An adversary guesses the group from the features, which learn to prevent it.",
    "Zhang et al., Mitigating Unwanted Biases with Adversarial Learning, AIES 2018; Ganin and Lempitsky, ICML 2015",
)
_loss(
    "domain-independent",
    "domain_independent:DomainIndependent",
    "One classifier for each group on shared features; what they say is averaged.",
    "Wang et al., Towards Fairness in Visual Recognition, CVPR 2020",
)
_loss(
    "domain-discriminative",
    "domain_discriminative:DomainDiscriminative",
    "Value and group are guessed together; what is said of a value is added up over the groups.",
    "Wang et al., Towards Fairness in Visual Recognition, CVPR 2020",
)


@dataclass(frozen=True)
class Head:
    """The labels of one column."""

    name: str
    labels: tuple[str, ...]
    start: int
    independent: bool
    """Whether an image can have several of the labels."""

    @property
    def places(self) -> slice:
        """Where its labels stand among all."""
        return slice(self.start, self.start + len(self.labels))


@dataclass(frozen=True)
class LabelBatch:
    """What a classifier says of n rows and what is true of them."""

    heads: tuple[Head, ...]
    logits: Any
    """(n, k), or (n, copies, k) for a loss that asks for several outputs per label."""
    features: Any
    """(n, w) what the last layer saw."""
    wanted: Any
    """(n, k) 0 or 1; NaN where a label is not known."""
    groups: Any
    """(n,) the number of each row's group; -1 where it shows none."""


@dataclass(frozen=True)
class SavedOutputs:
    """Which outputs of the last layer a checkpoint keeps, where they are not averaged into one per label."""

    places: Sequence[int]
    names: Sequence[str]
    config: Mapping[str, Any]
    """What its settings say besides, for whoever reads the outputs."""


class LabelLoss(Protocol):
    """A loss of image classifiers.

    One that needs several outputs per label even in the checkpoint has ``saved(module, heads, groups)``, which gives
    :class:`SavedOutputs`.
    """

    @property
    def copies(self) -> int:
        """How many outputs per label it asks for; known once it has seen the groups."""

    def see(self, groups: NDArray[np.int64], n_groups: int, heads: Sequence[Head] = ()) -> None:
        """The groups of the rows that will be learnt from, and the labels to learn."""

    def module(self, width: int) -> Any:
        """A torch module with what it learns or keeps, or ``None``; ``width`` is that of the features."""

    def loss(self, batch: LabelBatch, module: Any, processes: Processes) -> Any:
        """This process's part of the loss of the whole batch."""


def row_losses(batch: LabelBatch, logits: Any, *, gamma: float = 0.0) -> Any:
    """The loss of each row: the cross-entropy of every head, averaged over the heads whose labels are known.

    Args:
        batch: which heads there are, and what is true of each row; its own logits are not looked at.
        logits: (n, k) one output per label.
        gamma: what is right with probability p counts (1 - p)^gamma times as much (focal loss); 0 for all alike.

    Returns:
        (n,) losses; 0 where no label is known.

    >>> import torch
    >>> heads = (Head("gender", ("f", "m"), 0, False),)
    >>> one = LabelBatch(heads, torch.zeros(1, 2), None, torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    >>> round(float(row_losses(one, one.logits)), 4)  # ln 2
    0.6931
    """
    import torch
    from torch.nn.functional import logsigmoid

    losses, known = [], []
    for head in batch.heads:
        here, wanted = logits[:, head.places].float(), batch.wanted[:, head.places]
        is_known = ~wanted.isnan()
        wanted = wanted.nan_to_num(0.0)
        if head.independent:
            right = logsigmoid(here) * wanted + logsigmoid(-here) * (1 - wanted)
            share = is_known.float()
        else:
            right = (here.log_softmax(dim=1) * wanted).sum(dim=1, keepdim=True)
            share = is_known.all(dim=1, keepdim=True).float()
        # a probability of 1 has no slope in a power below 1
        cost = -right * (1 - right.exp()).clamp(min=1e-6) ** gamma if gamma else -right
        counted = share.sum(dim=1).clamp(min=1)
        losses.append((cost * share).sum(dim=1) / counted)
        known.append((share.sum(dim=1) > 0).float())
    of_head, there = torch.stack(losses, dim=1), torch.stack(known, dim=1)
    return (of_head * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)
