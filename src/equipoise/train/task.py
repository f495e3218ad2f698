"""What a task is: a kind of model that learns from the rows of a table. The tasks, by name.

A task is one class and one line in :data:`TASKS`. Its constructor takes its options as keywords; :meth:`Task.open`
makes the model; :meth:`Task.inputs` turns rows into tensors, in a thread and by the step alone; :meth:`Task.loss` gives
this process's part of the loss of the whole batch; :meth:`Task.save` writes what stock ``transformers`` opens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint, find_checkpoint, open_checkpoint
from equipoise.registry import Registry
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows

IGNORED = -100
"""The label of a token that is not learnt from."""

Row = dict[str, Any]
"""The labels of an image by column, and ``image`` where the task looks at it."""
Inputs = Mapping[str, Any]
"""What a loss reads: tensors, which are moved to the device, and anything else."""

TASKS = Registry("task")
"""A target is a class whose options are keywords; see :class:`Task`."""

TASKS.add(
    "clip",
    "equipoise.train.tasks.clip:ClipTask",
    summary="A dual encoder of images and texts, by a contrastive loss over the batch.",
    citation="Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML 2021",
    licence="Apache-2.0",
    needs="models",
)


TASKS.add(
    "captioner",
    "equipoise.train.tasks.captioner:CaptionerTask",
    summary="A captioner: a vision encoder with a text decoder, or ClipCap's prefix for GPT-2.",
    citation="Mokady et al., ClipCap: CLIP Prefix for Image Captioning, 2021, arXiv 2111.09734",
    licence="Apache-2.0",
    needs="models",
)
TASKS.add(
    "multilabel",
    "equipoise.train.tasks.multilabel:MultilabelTask",
    summary="An image classifier of several columns together: one of many values, or any of them.",
    citation="Wang et al., Balanced Datasets Are Not Enough, ICCV 2019",
    licence="Apache-2.0",
    needs="models",
)
TASKS.add(
    "mlm",
    "equipoise.train.tasks.mlm:MaskedLanguageTask",
    summary="A masked language model on captions.",
    citation="Devlin et al., BERT, NAACL 2019",
    licence="Apache-2.0",
    needs="models",
)
TASKS.add(
    "dcg",
    "equipoise.train.tasks.dcg:DebiasingTask",
    summary="A reviser of captions: from an image and a biased caption back to the original.",
    citation="Hirota et al., Model-Agnostic Gender Debiased Image Captioning, CVPR 2023",
    licence="Apache-2.0",
    needs="models",
)


@runtime_checkable
class Task(Protocol):
    """A kind of model that learns from rows."""

    name: str
    columns: tuple[str, ...]
    """The columns of the table that it reads."""
    looks: bool
    """Whether it reads images."""

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again, as plain data."""

    def open(self, checkpoint: Checkpoint, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The model to train, in float32 on the CPU; ``fresh`` gives it new weights."""

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """What the loss reads of these rows."""

    def loss(self, model: Any, inputs: Inputs, processes: Processes) -> Any:
        """This process's part of the loss: the parts of all processes add up to that of the batch."""

    def save(self, model: Any, folder: Path) -> None:
        """Write the model so that ``hf:<folder>`` opens it."""


def checkpoint_of(spec: str) -> Checkpoint:
    """The folder of weights behind ``hf:<repo or folder>`` or ``mini:<part>``.

    >>> checkpoint_of("table:x")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: training starts from a checkpoint of transformers: hf:<repo or folder> or \
mini:<part>, not 'table:x'
    """
    scheme, _, rest = spec.partition(":")
    if scheme == "hf" and rest:
        return find_checkpoint(rest)
    if scheme == "mini":
        from equipoise.models.miniatures import FOLDER, PARTS

        part = rest or "clip"
        if part in PARTS and (FOLDER / part / "config.json").is_file():
            return open_checkpoint(FOLDER / part)
    raise InputError(
        f"training starts from a checkpoint of transformers: hf:<repo or folder> or mini:<part>, not {spec!r}"
    )


def drawn_texts(rows: Sequence[Row], column: str, step: int) -> list[str]:
    """One text of each row; of several, one is drawn by the step and the row's id.

    >>> drawn_texts([{"image_id": "a", "caption": "a man"}], "caption", 0)
    ['a man']
    """
    texts = []
    for row in rows:
        value = row[column]
        if isinstance(value, list):  # audits pass over blank ones, too
            value = [text for text in value if isinstance(text, str) and text.strip()]
        if isinstance(value, list) and value:
            seed = [step, int.from_bytes(str(row["image_id"]).encode()[-8:], "big")]
            value = value[int(np.random.default_rng(seed).integers(len(value)))]
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"image {row['image_id']!r} has no text in the column {column!r}; drop it with a filter")
        texts.append(value)
    return texts


def padded_tokens(rows: Sequence[list[int]], pad: int) -> Inputs:
    """(n, length) ``tokens`` of each row with ``pad`` behind them, and which are ``there``.

    >>> padded_tokens([[5, 6], [7]], 0)["tokens"].tolist()
    [[5, 6], [7, 0]]
    """
    import torch

    longest = max(map(len, rows))
    tokens = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    there = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return {"tokens": tokens, "there": there}


def mean_cross_entropy(logits: Any, labels: Any, processes: Processes) -> Any:
    """This process's part of the mean over all ``labels`` (n, t) of the whole batch that are not :data:`IGNORED`."""
    from torch.nn.functional import cross_entropy

    summed = cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return summed / max(1.0, processes.total(float((labels != IGNORED).sum())))


def save_stock(model: Any, folder: Path, *beside: Any) -> None:
    """Write a ``transformers`` model in float32 safetensors, with its tokenizer and image processor ``beside`` it."""
    from equipoise.models.hf.checkpoint import without_padding
    from equipoise.models.runtime import quiet

    with quiet():
        model.save_pretrained(folder)
        for each in beside:
            without_padding(each).save_pretrained(folder)
    forget_origin(folder)


def forget_origin(folder: Path) -> None:
    """Take the place that a model came from out of its settings in ``folder``: it is nobody's business."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("_name_or_path", None)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def fresh_model(model: Any, seed: int = 0) -> Any:
    """A model of the same form with new weights."""
    import torch

    torch.manual_seed(seed)
    return type(model)(model.config)
