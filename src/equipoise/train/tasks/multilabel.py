"""Image classifiers of several columns together, on any backbone that ``transformers`` can classify images with.

A column of single values becomes a softmax over its values, a column of lists one independent output per value. The
labels of the checkpoint are ``column:value``, which ``hf:<folder>`` reads as heads. ``balance`` draws the rows so that
groups appear equally often; ``loss`` is one of :data:`equipoise.train.losses.LOSSES`. Groups of an axis are read as
everywhere (:mod:`equipoise.text.labels`): "Male" and "male" are one, and "unknown" is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from equipoise.data.labels import with_joined_labels
from equipoise.data.sampling import balance
from equipoise.data.settings import fitting_all
from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import image_processor
from equipoise.models.images import processed
from equipoise.models.runtime import from_transformers, in_one_sentence, quiet
from equipoise.models.trust import check_built, on_disk
from equipoise.text.labels import read_labels
from equipoise.train.losses import LOSSES, Head, LabelBatch, LabelLoss
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows
from equipoise.train.task import Inputs, Row, save_stock

_BALANCES = {"none": "", "over": "oversample", "sub": "undersample"}
_SINGULAR = {"objects": "object"}
"""The adapter of classifiers knows this head by its singular."""


class MultilabelTask:
    """Trains an image classifier on label columns."""

    name = "multilabel"
    looks = True

    def __init__(
        self,
        labels: Sequence[str],
        *,
        groups: str = "",
        loss: str = "plain",
        balance: Literal["none", "over", "sub"] = "none",
        least: int = 1,
        loss_options: Mapping[str, float] | None = None,
    ) -> None:
        """``labels`` are the columns to predict. ``groups`` is the axis that the ``loss`` or the ``balance`` looks at;
        values of list columns that fewer than ``least`` rows have are left out.
        """
        self.label_columns = (labels,) if isinstance(labels, str) else tuple(labels)
        if not self.label_columns:
            raise InputError("name the columns to predict, as in --set labels=objects,gender")
        self.groups, self.form, self.balance, self.least = groups, loss, balance, least
        self.loss_options = dict(loss_options or {})
        kind = LOSSES.load(loss)
        self.fair_loss: LabelLoss = kind(**fitting_all(kind, self.loss_options, what=f"option of the loss {loss}"))
        if (loss not in ("plain", "focal") or balance != "none") and not groups:
            raise InputError(f"loss {loss!r} with balance {balance!r} looks at groups; name their axis (groups=gender)")
        self.columns = tuple(dict.fromkeys([*self.label_columns, *([groups] if groups else [])]))
        self.new_parts: tuple[str, ...] = ()
        self._learnt: Any = None
        self._groups_of_axis: dict[str, list[str]] = {}
        self._group_of_cell: dict[tuple[str, str], str | None] = {}

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again."""
        return {
            "labels": list(self.label_columns),
            "groups": self.groups,
            "loss": self.form,
            "balance": self.balance,
            "least": self.least,
            "loss_options": self.loss_options,
        }

    def copies(self, rows: TrainingRows, places: Any, seed: int) -> Any:
        """How often each of the rows at ``places`` is taken in an epoch; ``None`` where nothing is balanced."""
        # asked before open, whose loss counts the groups of these rows alone, each as often as it is taken
        if self.balance == "none":
            self._learnt = np.repeat(places, rows.copies[places])
            return None
        frame = rows.labels.iloc[places].reset_index(drop=True)
        chosen = balance(frame, self.groups, method=_BALANCES[self.balance], seed=seed)
        self._learnt = places[chosen.positions]
        return np.bincount(chosen.positions, minlength=len(frame))

    def open(self, checkpoint: Checkpoint, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The classifier: the checkpoint's backbone with a new last layer, and what the loss keeps."""
        import torch

        checkpoint.needs_images()
        labels = self._read(rows)
        self.heads = heads_of_columns(labels, self.label_columns, self.least)
        learnt = labels if self._learnt is None else labels.iloc[self._learnt]
        self.group_names = sorted(learnt[self.groups].dropna().astype(str).unique()) if self.groups else []
        if self.groups and len(self.group_names) < 2:
            raise InputError(f"{rows.name}: the rows to learn from show fewer than two groups of {self.groups!r}")
        self.fair_loss.see(self._group_numbers(learnt), len(self.group_names), self.heads)
        with quiet():
            self.processor = image_processor(checkpoint)
            model = self._classifier(checkpoint, fresh)
        self.last = last_linear(model, self.fair_loss.copies * self.n_labels)
        model.get_submodule(self.last).register_forward_pre_hook(self._seen)
        self.new_parts = (self.last,)
        kept = self.fair_loss.module(model.get_submodule(self.last).in_features)
        return torch.nn.ModuleDict({"model": model} | ({"loss": kept} if kept is not None else {}))

    def core(self, model: Any) -> Any:
        """The classifier without what the loss keeps."""
        return model["model"]

    @property
    def n_labels(self) -> int:
        """Over all heads."""
        return sum(len(head.labels) for head in self.heads)

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """Pixels, what is wanted of every label, and groups."""
        import torch

        wanted = torch.full((len(rows), self.n_labels), float("nan"))
        for head, column in zip(self.heads, self.label_columns, strict=True):
            for i, row in enumerate(rows):
                value = self._value(row, column)
                if value is None:
                    continue
                values = {str(v) for v in value} if isinstance(value, list) else {str(value)}
                wanted[i, head.places] = torch.tensor([float(label in values) for label in head.labels])
        number = {name: i for i, name in enumerate(self.group_names)}
        groups = [number.get(str(self._value(row, self.groups)), -1) if self.groups else -1 for row in rows]
        pixels = processed(self.processor, [row["image"] for row in rows])["pixel_values"]
        return {"pixels": pixels, "wanted": wanted, "groups": torch.tensor(groups)}

    def loss(self, model: Any, inputs: Inputs, processes: Processes) -> Any:
        """The loss of the batch."""
        logits = model["model"](pixel_values=inputs["pixels"]).logits
        if self.fair_loss.copies > 1:
            logits = logits.unflatten(1, (self.fair_loss.copies, self.n_labels))
        batch = LabelBatch(self.heads, logits, self._features, inputs["wanted"], inputs["groups"])
        kept = model["loss"] if hasattr(model, "loss") else None
        return self.fair_loss.loss(batch, kept, processes)

    def save(self, model: Any, folder: Path) -> None:
        """An image classifier: several outputs per label are averaged into one, unless the loss keeps them."""
        classifier = model["model"]
        copies = self.fair_loss.copies
        names = [f"{head.name}:{label}" for head in self.heads for label in head.labels]
        if hasattr(self.fair_loss, "saved"):
            kept = self.fair_loss.saved(model["loss"], self.heads, self.group_names)
            self._put_last(classifier, lambda weights: weights[list(kept.places)])
            names = list(kept.names)
            classifier.config.update(kept.config)
        elif copies > 1:
            self._put_last(classifier, lambda weights: weights.unflatten(0, (copies, -1)).mean(dim=0))
        classifier.config.id2label = dict(enumerate(names))
        classifier.config.label2id = {name: i for i, name in enumerate(names)}
        classifier.config.num_labels = len(names)
        classifier.config.independent_heads = [head.name for head in self.heads if head.independent]
        save_stock(classifier, folder, self.processor)

    def _put_last(self, classifier: Any, change: Callable[[Any], Any]) -> None:
        """Replace the last layer by what ``change`` makes of its weights and of its offsets."""
        import torch

        layer = classifier.get_submodule(self.last)
        weight, bias = change(layer.weight.data), change(layer.bias.data)
        linear = torch.nn.Linear(layer.in_features, len(weight))
        linear.weight.data, linear.bias.data = weight, bias
        classifier.set_submodule(self.last, linear)

    def _classifier(self, checkpoint: Checkpoint, fresh: bool) -> Any:
        import torch

        auto, config_class = from_transformers("AutoModelForImageClassification", "AutoConfig")
        n = self.fair_loss.copies * self.n_labels
        torch.manual_seed(0)
        with in_one_sentence(f"{checkpoint.folder}: no image classifier can be made of it"):
            config = config_class.from_pretrained(
                checkpoint.folder, num_labels=n, local_files_only=True, trust_remote_code=False
            )
            config.problem_type = None
            own = config_class.from_pretrained(checkpoint.folder, local_files_only=True, trust_remote_code=False)
            check_built(checkpoint.folder, lambda: auto.from_config(own), on_disk(checkpoint.weights))
            if fresh:
                return auto.from_config(config)
            model, report = auto.from_pretrained(
                checkpoint.folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                local_files_only=True,
                trust_remote_code=False,
            )
        allowed = last_linear(model, n)
        lost = sorted(k for k in report["missing_keys"] if not str(k).startswith(allowed) and "pooler" not in str(k))
        if lost:
            raise InputError(f"{checkpoint.folder}: lacks weights of its backbone, such as {lost[0]!r}")
        return model

    def _seen(self, layer: Any, given: Any) -> None:
        """Keep what the last layer is given."""
        self._features = given[0]

    def _read(self, rows: TrainingRows) -> pd.DataFrame:
        """The labels of the rows, with the groups of every axis in one spelling; which they are is kept."""
        axes = [name for name in self.columns if name == self.groups or name in rows.table.axes]
        labels = with_joined_labels(rows.labels, axes)[0]
        self._groups_of_axis = {
            axis: sorted(map(str, labels[axis].dropna().unique())) for axis in axes if not _lists(labels[axis])
        }
        return labels

    def _value(self, row: Row, column: str) -> Any:
        """What a row says in a column; of an axis the group, in the spelling that is learnt."""
        value = row[column]
        known = self._groups_of_axis.get(column)
        if known is None or value is None:
            return value
        cell = (column, str(value))
        if cell not in self._group_of_cell:
            self._group_of_cell[cell] = read_labels([*known, value], asked=known).values()[-1]
        return self._group_of_cell[cell]

    def _group_numbers(self, labels: pd.DataFrame) -> Any:
        number = {name: i for i, name in enumerate(self.group_names)}
        if not self.groups:
            return np.full(len(labels), -1)
        return np.array([number.get(str(value), -1) if value is not None else -1 for value in labels[self.groups]])


def heads_of_columns(labels: pd.DataFrame, columns: Sequence[str], least: int = 1) -> tuple[Head, ...]:
    """The heads of some columns: their values, sorted.

    >>> frame = pd.DataFrame({"gender": ["f", "m", None], "objects": [["cup"], ["cup", "dog"], []]})
    >>> [(head.name, head.labels, head.start) for head in heads_of_columns(frame, ["gender", "objects"])]
    [('gender', ('f', 'm'), 0), ('object', ('cup', 'dog'), 2)]
    """
    heads: list[Head] = []
    start = 0
    for column in columns:
        independent = _lists(labels[column])
        there = [cell for cell in labels[column].tolist() if cell is not None]
        cells = there if independent else [cell for cell in there if not pd.isna(cell)]
        counts = Counter(str(v) for cell in cells for v in (cell if independent else [cell]))
        values = tuple(sorted(value for value, n in counts.items() if n >= least))
        if len(values) < (1 if independent else 2):
            raise InputError(f"the column {column!r} has too few values to learn: {', '.join(values) or 'none'}")
        heads.append(Head(_SINGULAR.get(column, column), values, start, independent))
        start += len(values)
    return tuple(heads)


def _lists(column: pd.Series[Any]) -> bool:
    return any(isinstance(cell, list | np.ndarray) for cell in column.tolist())


def last_linear(model: Any, outputs: int) -> str:
    """The name of the last linear layer, which gives so many outputs."""
    import torch

    fitting = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and m.out_features == outputs]
    if not fitting:
        raise InputError("the classifier does not end in a linear layer, so no labels can be put on it")
    return str(fitting[-1])
