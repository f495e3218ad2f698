"""The models of the study: what classifiers and captioners learn from, and what they say of the test photographs.

Classifiers learn from a small backbone. Captioners are trained on the same sets, and are asked about whole, masked and
redrawn photographs.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.audit.captions.run import CaptionSettings, audit_captions
from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.measure.captions.mentions import Mentions
from equipoise.measure.captions.ratio import ratio
from equipoise.measure.classify import artefact_delta
from equipoise.measure.groups import Groups
from equipoise.measure.stats.estimate import Estimate
from equipoise.models import load
from equipoise.models.miniatures import FOLDER
from equipoise.models.runtime import quiet
from equipoise.recipes.inpainting.arms import ARMS, BALANCED, TrainingArm
from equipoise.recipes.inpainting.photographs import write_photographs
from equipoise.text import Lexicon
from equipoise.train import fit
from equipoise.world import preset

__all__ = [
    "BATCH",
    "CAPTIONS",
    "RATE",
    "audit_of",
    "caption_delta",
    "caption_ratio",
    "train_arm",
    "train_backbone",
    "train_captioner_arm",
    "write_captions",
    "write_predictions",
]

BATCH = 32
RATE = 2e-3
_FORM = {"embedding_size": 16, "hidden_sizes": [24, 48, 96], "depths": [1, 1, 1], "layer_type": "basic"}


def train_backbone(out: Path, pictures: int, steps: int) -> None:
    """A ResNet of 0.2 million weights that knows the things and places of the fair world, as others know ImageNet's.

    It is told of no group.
    """
    fair = preset("fair").changed(activity_share=0.0)
    if not (out / "pictures" / "_table.json").is_file():
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
    layers = [arm.training_set] if arm.training_set in BALANCED else []
    name = "original" if layers else arm.training_set.removeprefix("tone-")
    table = Table.open(sets / name, layers=layers)
    labels = [*([axis] if arm.names_group else []), "objects"]
    options = {"labels": labels, "groups": axis, **arm.options}
    fit("multilabel", table, out, init=init, options=options, quiet=True, **settings)


def write_predictions(model: str | Path, table: Table, path: Path, axis: str) -> None:
    """What a classifier says of each picture: a score for every thing and place, and the group if it names one."""
    classifier = load(f"hf:{model}", kind="classifier")
    names, pictures = zip(*table.images(), strict=True)
    said = classifier.classify(list(pictures))
    things = said["object"]
    made = table.to_pandas(["image_id", "source_id"]).set_index("image_id")["source_id"]
    heads = ["image_id", "source_id", *things.labels]
    sources = [name if pd.isna(made[name]) else made[name] for name in names]
    columns: list[Any] = [names, sources, *np.round(things.probabilities.astype(float), 5).T]
    if axis in said:
        group = said[axis]
        heads.append(axis)
        columns.append([group.labels[i] for i in group.probabilities.argmax(axis=1)])
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(heads)
    lines.writerows(zip(*columns, strict=True))
    write_whole(path, text.getvalue().encode())


CAPTIONS = "gendered_captions"
"""What a captioner learns: captions that name the gender."""
INIT, ENCODER, LEXICON = "mini:captioner", "mini:clip-fair", "equipoise"


def train_captioner_arm(arm: str, sets: Path, out: Path, steps: int, seed: int) -> None:
    """Train the miniature captioner on the set of an arm."""
    name = ARMS[arm].training_set
    layers = [name] if name in BALANCED else []
    table = Table.open(sets / ("original" if layers else name), layers=layers)
    settings: dict[str, Any] = {"steps": steps, "batch": 32, "rate": 5e-4, "val_share": 0.0, "seed": seed}
    fit("captioner", table, out, init=INIT, options={"caption": CAPTIONS}, quiet=True, **settings)


def write_captions(model: Path, table: Table, path: Path) -> None:
    """A caption of every picture, one line each."""
    from equipoise.engine.answers import captions
    from equipoise.models import load

    said = captions(load(f"hf:{model}", kind="captioner"), table, seed=0)
    write_lines(path, ({"image_id": i, "caption": text} for i, text in said if isinstance(text, str)))


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def read_lines(path: Path) -> dict[str, str]:
    """Captions by image."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["image_id"]: row["caption"] for row in rows}


def audit_of(captions: Path, people: Path, images: Path, out: Path, seed: int) -> None:
    """LIC, quality and CLIPScore of the captions of whole pictures."""
    settings = CaptionSettings(lexicon=LEXICON, permutations=20, ba_least=20, seeds=5, seed=seed)
    audit_captions([f"captions={captions}"], people, "gender", out, images=images, encoder=ENCODER, settings=settings)


def caption_ratio(path: Path, pair: tuple[str, str]) -> Any:
    """Captions of masked pictures that name ``pair[0]`` over those that name ``pair[1]``, folded."""
    said = Mentions.of(read_lines(path).values(), LEXICON)
    return ratio(said, pair, convention="folded").estimate


def caption_delta(before: Path, after: Path, sources: Mapping[str, str], pair: tuple[str, str]) -> Estimate:
    """The artefact test on captions: which group they name before and after a body part was drawn anew."""
    lexicon = Lexicon.load(LEXICON)
    whole, redrawn = read_lines(before), read_lines(after)

    def group(text: str) -> str | None:
        found = lexicon.groups_in(text) & set(pair)
        return next(iter(found)) if len(found) == 1 else None

    twins = [(whole[sources[name]], text) for name, text in redrawn.items()]
    named: list[Any] = [[group(texts[side]) for texts in twins] for side in (0, 1)]
    first, second = (Groups.from_values(some, list(pair)) for some in named)
    return artefact_delta(first, second, pair)
