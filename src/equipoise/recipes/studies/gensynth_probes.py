"""GenSynth's Appendix D.4: how well trained networks tell perceived gender from what should not tell it.

An image classifier learns from pictures in which the person is blacked out, and another one, the control, from whole
pictures; a caption classifier learns from captions without words for a gender. All learn on one draw of pictures (the
paper: COCO train) and are judged on another (COCO val), by the area under the curve. The image classifiers are trained
by :mod:`equipoise.train`, the captions' by the classifier that LIC has for text encoders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.shares import pair_probability
from equipoise.recipes.studies.common import paper_table, write_csv
from equipoise.recipes.studies.frame import StepCost, StudyHome, StudyOptions, StudyStep
from equipoise.recipes.studies.gensynth_tables import captioned, draw_pictures, drawn_seed, pool_of
from equipoise.report.study import StudyPart, StudyTable, measured_cells

AXIS = "gender"
PICTURES = 900
"""Pictures that the miniature probes learn from."""
NETWORKS = {
    "mini": ("mini:judge", "mini:text"),
    "full": ("hf:microsoft/resnet-50", "bert-base-uncased"),
}
"""The image classifier's and the text encoder's form; the miniature image classifier begins with new weights."""
TRAINING: dict[str, dict[str, Any]] = {
    "mini": {"steps": 150, "batch": 32, "rate": 2e-3, "val_share": 0.0, "fresh": True},
    "full": {"epochs": 5.0, "batch": 64, "rate": 1e-4, "val_share": 0.1, "patience": 3},
}
READER_RATE = {"mini": 1e-3, "full": None}
"""The miniature text encoder is a hundredth of BERT and learns at a hundred times its rate."""
LEXICON = {"mini": "equipoise", "full": "gensynth_code"}
KINDS = {"images": "whole images", "masked": "images, person blacked out", "captions": "captions without gender words"}
PUBLISHED = {
    "images": ("Image classifier", "COCO val, unmasked images / AUC"),
    "masked": ("ResNet-50 image classifier", "COCO val, person boxes blacked out / AUC"),
    "captions": ("BERT-base text classifier", "COCO val, gender-neutralised captions / AUC"),
}


def probe_steps(options: StudyOptions, missing: str = "") -> list[StudyStep]:
    """Pictures to learn from, three classifiers, and what they say of the pool."""
    scale = options.scale
    network, reader = NETWORKS[scale]
    n = PICTURES if scale == "mini" else 28_000
    pictures = StudyStep(
        "probe-pictures",
        "Pictures for probes to learn from, and the person blacked out in these and in the pool",
        _pictures,
        {"n": PICTURES, "seed": drawn_seed(options, "probes")} if scale == "mini" else {},
        () if scale == "full" else ("pool",),
        cost=StepCost(images=n, cpu_minutes=0.6 if scale == "mini" else 30, disk_gb=0.01 if scale == "mini" else 6),
        missing=missing,
        reads=("train", "val"),
    )
    training = TRAINING[scale]
    gpu: dict[str, Any] = {"gpu_hours": 0.8} if scale == "full" else {"cpu_minutes": 0.8}
    steps = [pictures]
    for kind in ("images", "masked"):
        steps.append(
            StudyStep(
                f"probe-{kind}",
                f"A classifier of {AXIS} on {KINDS[kind]}, in the form of {network}",
                _image_training(kind, network, training),
                {"network": network, **training, "seed": options.seed},
                ("probe-pictures",),
                cost=StepCost((network,), (), n, **gpu),
            )
        )
    of_captions = StudyStep(
        "probe-captions",
        f"A classifier of {AXIS} on {KINDS['captions']}, {reader}",
        _caption_probe,
        {"reader": reader, "lexicon": LEXICON[scale], "seed": options.seed},
        ("probe-pictures",),
        resumes=False,
        cost=StepCost((f"bert:{reader}",), **gpu),
    )
    judged = StudyStep(
        "probes",
        "What the probes say of the pool, which none of them has seen",
        _judge,
        {},
        ("probe-images", "probe-masked", "probe-captions"),
        resumes=False,
        cost=StepCost(cpu_minutes=0.2),
    )
    return [*steps, of_captions, judged]


def _learnt(home: StudyHome) -> Table:
    """The pictures to learn from."""
    return Table.open(home.options.given.get("train") or home.step("probe-pictures") / "train")


def _pictures(home: StudyHome, out: Path) -> None:
    from equipoise.generate import MaskConfig, plan_mask, run

    out.mkdir(parents=True, exist_ok=True)
    by = "box"  # as the paper; an outline would show how tall and how broad somebody is
    if "train" not in home.options.given and not (out / "train" / "dataset.json").is_file():
        draw_pictures(home, out / "train", "probes", PICTURES)
    learnt = Table.open(home.options.given.get("train") or out / "train")
    for name, table in (("train-masked", learnt), ("val-masked", pool_of(home))):
        run(plan_mask(table, MaskConfig(by=by)), out / name, None, progress=False)


def _image_training(kind: str, network: str, training: dict[str, Any]) -> Any:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.train import fit

        table = _learnt(home) if kind == "images" else Table.open(home.step("probe-pictures") / "train-masked")
        options = {"labels": [AXIS]}
        fit("multilabel", table, out, init=network, options=options, **training, seed=home.options.seed)

    return work


def _texts(table: Table, lexicon: str) -> pd.DataFrame:
    """One row per caption of an image with a label: ``image_id``, ``group``, ``text`` without words for a gender."""
    from equipoise.text import Lexicon

    frame = captioned(table, AXIS)
    words = Lexicon.load(lexicon)
    rows = [
        (image, group, text)
        for image, group, some in zip(frame["image_id"], frame[AXIS], frame["captions"], strict=True)
        if group is not None
        for text in words.neutralise_all(list(some))
    ]
    return pd.DataFrame(rows, columns=["image_id", "group", "text"])


def _caption_probe(home: StudyHome, out: Path) -> None:
    from equipoise.measure.captions.masking import tokens_of
    from equipoise.models.caption_classifiers import BertClassifier

    scale = home.options.scale
    train, val = (_texts(table, LEXICON[scale]) for table in (_learnt(home), pool_of(home)))
    names = sorted(train["group"].unique())
    texts = [*train["text"], *val["text"]]
    n = len(train)
    reader = BertClassifier(NETWORKS[scale][1], rate=READER_RATE[scale]).read(tokens_of(texts))
    labels = train["group"].map(names.index).to_numpy(np.int64)
    said = reader.probabilities(np.arange(n), labels, np.arange(n, len(texts)), len(names), home.options.seed)
    scores = (
        val.assign(score=said[:, 0])
        .groupby("image_id", sort=False)
        .agg(group=("group", "first"), score=("score", "mean"))
    )
    write_csv(out / "scores.csv", scores.reset_index())


def trained_auc(scores: pd.DataFrame, first: str) -> Estimate:
    """The area under the curve of ``score`` for the group ``first`` against the others, chance one half.

    >>> frame = pd.DataFrame({"group": ["f", "f", "m", "m"], "score": [0.9, 0.4, 0.5, 0.1]})
    >>> trained_auc(frame, "f").value
    0.75
    """
    known = scores[scores["group"].notna()]
    mine = known["group"] == first
    if not mine.any() or mine.all():
        raise InputError(f"the pool shows one group of {AXIS} only; a probe needs two")
    return pair_probability(known.loc[mine, "score"], known.loc[~mine, "score"])


def _judge(home: StudyHome, out: Path) -> None:
    from equipoise.models import load

    captions = pd.read_csv(home.step("probe-captions") / "scores.csv")
    first = min(captions["group"])
    aucs = {"captions": trained_auc(captions, first)}
    pools = {"images": pool_of(home), "masked": Table.open(home.step("probe-pictures") / "val-masked")}
    for kind, table in pools.items():
        labels = table.to_pandas(["image_id", AXIS]).set_index("image_id")[AXIS]
        ids, images = zip(*table.images(), strict=True)
        predicted = load(f"hf:{home.step(f'probe-{kind}')}", kind="classifier").classify(list(images))[AXIS]
        score = predicted.probabilities[:, predicted.labels.index(first)]
        aucs[kind] = trained_auc(pd.DataFrame({"group": labels.loc[list(ids)].to_numpy(), "score": score}), first)
    rows = [aucs[kind].row(metric="attribute_auc", suite="probes", axis=AXIS, subject=kind) for kind in KINDS]
    write_csv(out / "probes.csv", pd.DataFrame(rows))


def probe_part(home: StudyHome) -> StudyPart:
    """Appendix D.4 as it came out, the paper's numbers beside it."""
    from equipoise.data.published import published_cell

    rows = []
    for row in pd.read_csv(home.step("probes") / "probes.csv").to_dict("records"):
        beside = published_cell("gensynth", "D.4", *PUBLISHED[row["subject"]]) if home.options.scale == "full" else {}
        rows.append({"learnt from": KINDS[row["subject"]], "metric": "AUC", **measured_cells(row, 100), **beside})
    network, reader = NETWORKS[home.options.scale]
    text = (
        f"Networks in the form of {network} and {reader}, trained on other pictures than they are judged on. What a "
        "picture without its person tells is in the surroundings and in the size of the black box; whole pictures are "
        "the control. Intervals are DeLong's, over images; training once more with another seed would add to them.",
    )
    tables = [StudyTable("D4", "AUC of perceived gender, judged on the pool", pd.DataFrame(rows), digits=1)]
    if home.options.scale != "full":
        tables.append(paper_table("gensynth", "D.4", "The paper's D.4", digits=1))
    return StudyPart("Appendix D.4", "Is gender told by what should not tell it?", text, tuple(tables), (), "the pool")
