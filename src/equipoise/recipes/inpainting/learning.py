"""Classifiers of the study: a small backbone, what learns from it, and what it says of the test photographs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.shard_writer import is_finished
from equipoise.models import load
from equipoise.models.miniatures import FOLDER
from equipoise.models.runtime import quiet
from equipoise.recipes.inpainting.arms import TrainingArm
from equipoise.recipes.inpainting.photographs import set_of, write_photographs
from equipoise.train import fit
from equipoise.world import preset

BATCH = 32
RATE = 2e-3
_FORM = {"embedding_size": 16, "hidden_sizes": [24, 48, 96], "depths": [1, 1, 1], "layer_type": "basic"}


def train_backbone(out: Path, pictures: int, steps: int) -> None:
    """A ResNet of 0.2 million weights that knows the things and places of the fair world, as others know ImageNet's.

    It is told of no group.
    """
    fair = preset("fair").changed(activity_share=0.0)
    if not is_finished(out / "pictures"):
        shutil.rmtree(out / "pictures", ignore_errors=True)
        write_photographs(out / "pictures", fair, pictures, seed=7_000)
    _new_form(out / "form")
    fit(
        "multilabel",
        Table.open(out / "pictures"),
        out / "model",
        init=f"hf:{out / 'form'}",
        options={"labels": ["objects"]},
        steps=steps,
        batch=BATCH,
        rate=2 * RATE,
        val_share=0.0,
        quiet=True,
    )


def _new_form(folder: Path) -> None:
    """A checkpoint of new weights."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    with quiet():
        config = ResNetConfig(**_FORM, downsample_in_first_stage=False, num_labels=2)
        ResNetForImageClassification(config).save_pretrained(folder)
    shutil.copy(FOLDER / "judge" / "preprocessor_config.json", folder)


def train_arm(arm: TrainingArm, axis: str, sets: Path, out: Path, init: str, settings: Mapping[str, Any]) -> None:
    """Train one classifier on its set, from ``init``, into ``out``; a finished one is left as it is."""
    table = set_of(arm, sets)
    labels = [*([axis] if arm.names_group else []), "objects"]
    options = {"labels": labels, "groups": axis, **arm.options}
    fit("multilabel", table, out, init=init, options=options, quiet=True, **settings)


def write_predictions(model: str | Path, table: Table, path: Path, axis: str) -> None:
    """What a classifier says of each picture: a score for every thing and place, and the group if it names one."""
    classifier = load(f"hf:{model}", kind="classifier")
    names, pictures = zip(*table.images(), strict=True)
    said = classifier.classify(list(pictures))
    things = said["object"]
    source_of = table.to_pandas(["image_id", "source_id"]).set_index("image_id")["source_id"]
    frame = pd.DataFrame(np.round(things.probabilities.astype(float), 5), columns=list(things.labels))
    frame.insert(0, "image_id", names)
    frame.insert(1, "source_id", [name if pd.isna(source_of[name]) else source_of[name] for name in names])
    if axis in said:
        frame[axis] = said[axis].best
    write_whole(path, frame.to_csv(index=False, lineterminator="\n").encode())
