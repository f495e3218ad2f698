"""Data remedies as contenders: the model learns on from the natural pool, with its rows balanced.

A data remedy changes no model by itself; what it does shows in a model that learns from the data. So each trains the
model on, contrastively, on natural images of the subjects that all remedies are fitted on, drawn as
:func:`equipoise.data.sampling.balance` says. ``data:as-is`` does the same with the pool as it is: what differs from it
is the data's doing, and what the two have in common is that of more training.

When it lies: more training on one pool alone can cost what the model knew. And balancing groups over all subjects
together leaves each subject with its lean; only ``data:joint-balancing`` takes that away, and only for the subjects
that it has seen.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data import Table
from equipoise.data.sampling import balance
from equipoise.errors import InputError
from equipoise.train.fitting import carried_out, prepared_training
from equipoise.train.rows import Parts, TrainingRows
from equipoise.train.settings import TrainSettings
from equipoise.train.task import checkpoint_of
from equipoise.train.tasks.clip import ClipTask

BALANCINGS: Mapping[str, tuple[str, bool]] = {
    "data:as-is": ("", False),
    "data:over-sampling": ("oversample", False),
    "data:sub-sampling": ("undersample", False),
    "data:joint-balancing": ("oversample", True),
}
"""The method of balancing, and whether it is of subjects and groups together; no method takes every row once."""
STEPS = (50, 150)
"""Strengths: how long the model learns on."""
_BATCH, _RATE = 32, 1e-4


class BalancedClip(ClipTask):
    """A dual encoder that learns from rows drawn so that groups appear equally often."""

    def __init__(self, axis: str, method: str, *, jointly: bool, caption: str = "caption") -> None:
        """``jointly`` balances subjects and groups of the ``axis`` together; an empty ``method`` nothing."""
        super().__init__(caption)
        self.axis, self.method, self.jointly = axis, method, jointly
        self.columns = (caption, "subject", axis)

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again."""
        return {"axis": self.axis, "method": self.method, "jointly": self.jointly, "caption": self.caption}

    def copies(self, rows: TrainingRows, places: Any, seed: int) -> Any:
        """How often each of the rows at ``places`` is taken in an epoch; ``None`` where nothing is balanced."""
        if not self.method:
            return None
        frame = rows.labels.iloc[places].reset_index(drop=True)
        axes = ["subject", self.axis] if self.jointly else [self.axis]
        return np.bincount(balance(frame, axes, method=self.method, seed=seed).positions, minlength=len(frame))


def can_learn(model: str) -> str:
    """Why the ``model`` of this name cannot be trained; empty where it can."""
    try:
        checkpoint_of(model)
    except InputError as error:
        return str(error)
    return ""


def captioned(natural: Table) -> str:
    """The column with the captions of a natural pool; refused where none has words in it."""
    frame = natural.to_pandas(["captions", "caption"], only_kept="keep" in natural.columns)
    columns = [name for name in ("captions", "caption") if frame[name].map(_said).any()]
    if not columns:
        raise InputError(f"{natural.path}: has no captions, from which the data remedies of a tournament learn")
    return columns[0]


def why_not(model: str, natural: Table | None, subjects: Mapping[str, Sequence[str]]) -> str:
    """Why data remedies cannot take part; empty where they can. ``subjects``: those that each part must have."""
    if natural is None:
        return "data remedies learn from a natural pool; give one"
    try:
        captioned(natural)
    except InputError as error:
        return str(error)
    shown = set(natural.to_pandas(["subject"], only_kept="keep" in natural.columns)["subject"].dropna())
    for part, some in subjects.items():
        if not shown & set(some):
            return f"{natural.path}: has no image of the subjects that are {part}"
    return can_learn(model)


def _said(texts: Any) -> bool:
    """Whether a cell of captions has words in it."""
    if isinstance(texts, str):
        return bool(texts.strip())
    return not np.isscalar(texts) and texts is not None and len(texts) > 0  # a missing cell is None or NaN


def trained_on_balanced(
    name: str,
    model: str,
    natural: Table,
    axis: str,
    subjects: Sequence[str],
    folder: Path,
    *,
    steps: int,
    seed: int,
    device: str = "auto",
) -> Path:
    """Train ``model`` on images of ``subjects`` in ``natural``, balanced as ``name`` says, into ``folder``."""
    method, jointly = BALANCINGS[name]
    caption = captioned(natural)
    task = BalancedClip(axis, method, jointly=jointly, caption=caption)

    def ours(rows: TrainingRows) -> Parts:
        labels = rows.labels
        use = labels["subject"].isin(list(subjects)) & labels[axis].notna() & labels[caption].map(_said)
        return Parts(np.flatnonzero(use.to_numpy(dtype=bool)), np.zeros(0, dtype=np.int64))

    how = TrainSettings(steps=steps, batch=_BATCH, rate=_RATE, val_share=0.0, seed=seed)
    training = prepared_training(task, natural, init=model, device=device, settings=how, choose=ours)
    done = carried_out(training, folder, quiet=True)
    shutil.rmtree(folder / "_work", ignore_errors=True)
    return done.folder
