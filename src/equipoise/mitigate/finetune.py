"""Counterfactual fine-tuning: an encoder learns on from sets of images that differ in the person alone.

SocialCounterfactuals (Howard et al., CVPR 2024, section 5) fine-tunes CLIP contrastively for one epoch on the images
and captions of such sets, in batches of 32, and holds 20% of the occupations back to judge by. That is the variant
``contrastive``. On subjects that it has not seen it moves little; what does is said outright by ``equalised``, the
default:

``equalise``
    the squared difference of the scores that images of one set get for a text which names no group, over the prompts of
    subjects, the captions of other sets without their words for people, general phrases, and prompts of any word that
    the model knows: else it learns the words of its subjects by heart, and others keep their lean;
``distil``
    the squared distance of every vector from what it should be, by the original model: an image from the mean of the
    images that differ from it in the group alone, but for the direction in which captions of one set differ, where
    words for the groups live; a text that names no group from itself without the few directions in which images of one
    set differ. Captions that name a group stay as they were: it can still be asked for.

The weights of these two and of the contrastive loss are settings. The texts' encoder alone learns unless ``tower`` says
otherwise: what it learns of the words for some occupations carries over to others, more than what the images' encoder
learns of their pictures. Subjects are in three parts: those that are learnt from, those that decide when to stop, and
those that are held out, whose images and names are never used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data import Table
from equipoise.data.sampling import split
from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.counterfactual_task import CounterfactualTask
from equipoise.mitigate.fitting import HELD_OUT, held_out_layer, held_out_subjects
from equipoise.train.fitting import Trained, Training, carried_out, prepared_training
from equipoise.train.rows import Parts, TrainingRows, parted
from equipoise.train.settings import TrainSettings

PRESETS: Mapping[str, float] = {"race-gender": 7e-6, "physical-gender": 5e-6, "physical-race": 9e-6}
"""The learning rates of SocialCounterfactuals for its three segments."""
VARIANTS: Mapping[str, Mapping[str, float]] = {
    "equalised": {"contrastive": 0.0, "equalise": 100.0, "distil": 1.0},
    "contrastive": {"contrastive": 1.0, "equalise": 0.0, "distil": 0.0},
}
"""The weights of the parts of the loss."""


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned encoder, and the subjects that it has not seen."""

    trained: Trained
    held_out: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Which rows neither judged nor taught, and why."""

    @property
    def model(self) -> str:
        """Its name, as every command takes it."""
        return f"hf:{self.trained.folder}"


def prepared_finetuning(
    model: str,
    table: Table,
    axes: Sequence[str],
    *,
    variant: str = "equalised",
    preset: str = "",
    held_out: float | Sequence[str] = 0.2,
    mixture: Mapping[str | Path | Table, float] | None = None,
    weights: Mapping[str, float] | None = None,
    tower: str = "",
    prompts: Sequence[str] = (),
    general: bool = True,
    caption: str = "caption",
    device: str = "auto",
    settings: Mapping[str, Any] | None = None,
) -> tuple[Training, list[str]]:
    """The training of :func:`finetune`, and the subjects that are held out; nothing is trained or written.

    ``held_out`` is a share of the subjects, drawn by the seed, or names them.
    """
    if variant not in VARIANTS:
        raise UnknownNameError("variant of counterfactual-finetune", variant, VARIANTS)
    if preset and preset not in PRESETS:
        raise UnknownNameError("preset of counterfactual-finetune", preset, PRESETS)
    if not axes:
        raise InputError(f"name the axes to repair; {table.path} has {', '.join(table.axes) or 'none'}")
    for axis in axes:
        if axis not in table.axes:
            raise UnknownNameError(f"axis of {table.path}", axis, table.axes)
    how = TrainSettings(whole_sets=True, batch=32, val_share=0.0 if variant == "contrastive" else 0.15)
    usual: dict[str, Any] = {"rate": PRESETS[preset]} if preset else {}
    how = how.having(usual | dict(settings or {}))
    others = [axis for axis in table.axes if axis not in axes]
    parts: dict[str, Any] = dict(VARIANTS[variant])
    unknown = [name for name in weights or {} if name not in parts]
    if unknown:
        raise UnknownNameError("part of the loss", unknown[0], parts)
    task = CounterfactualTask(
        axes,
        others,
        **(parts | dict(weights or {})),
        tower=tower or ("both" if variant == "contrastive" else "texts"),
        prompts=prompts,
        general=general,
        caption=caption,
    )
    if isinstance(held_out, int | float):
        apart = held_out_subjects(table, held_out, seed=how.seed) if held_out else []
        drawn: dict[str, Any] = {"share": held_out, "seed": how.seed}
    else:
        apart = sorted(held_out)
        drawn = {"subjects": apart}
    training = prepared_training(
        task, table, init=model, mixture=mixture, device=device, settings=how, choose=partial(_parts, apart, how)
    )
    both = sorted(set(apart) & set(training.learnt_subjects))
    if both:
        raise InputError(f"the mixture shows {', '.join(both[:3])}, which are held out; drop them there with a filter")
    task.look_at(training.rows, training.parts.train)
    training.of |= {"held_out": drawn}
    return training, apart


def finetune(
    model: str, table: Table, axes: Sequence[str], out: str | Path, *, overwrite: bool = False, **options: Any
) -> Finetuned:
    """Fine-tune the encoder ``model`` on the counterfactual sets of ``table`` into the folder ``out``.

    ``out`` opens as ``hf:<out>``; the layer ``held_out`` in it keeps the subjects alone that it has not seen.
    ``options`` are those of :func:`prepared_finetuning`: ``variant`` and ``weights`` of the loss, ``preset`` (the
    paper's rates), ``held_out`` (share of the subjects), ``mixture`` (real pairs), ``settings`` of training.
    """
    training, apart = prepared_finetuning(model, table, axes, **options)

    def layer(stage: Path) -> None:
        if apart:
            held_out_layer(table, apart, stage / HELD_OUT)

    return Finetuned(carried_out(training, out, overwrite=overwrite, beside=layer), tuple(apart), training.notes)


def _parts(apart: Collection[str], how: TrainSettings, rows: TrainingRows) -> Parts:
    """Rows to learn from and rows that say when to stop; those of subjects held ``apart`` are neither.

    Where the table has a ``split``, both are of its ``train`` rows, as in every training.
    """
    labels = rows.labels
    named = (labels["subject"].notna() & ~labels["subject"].isin(list(apart))).to_numpy(dtype=bool)
    train = parted(rows, 0.0, how.seed).train  # all rows where the table has no split
    ours = train[named[train]]
    if not len(ours):
        raise InputError(f"{rows.name}: no image of a subject is left to learn from")
    if not how.val_share:
        return Parts(ours, np.zeros(0, dtype=np.int64))
    fractions = {"train": 1 - how.val_share, "val": how.val_share}
    drawn = split(labels.iloc[ours], by="subject", fractions=fractions, seed=how.seed + 1).to_numpy()
    return Parts(ours[drawn == "train"], ours[drawn == "val"])
