"""GenSynth as a study: is a model biased, or are the pictures?

A neutral caption retrieves more pictures of one perceived gender. That may be the model, or the pictures: men and women
are photographed in different places. The study asks captions without gender words first of rankers that cannot see
(TF-IDF, blind), then of models over the natural and the balanced pool, and last over edited pictures, in which nothing
but the person differs. On the pictogram world what the model learned is known.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.audit.running import run_captions
from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.mixing import join_tables
from equipoise.errors import InputError
from equipoise.recipes.studies.common import audit_steps
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep, outside_step
from equipoise.recipes.studies.gensynth_probes import probe_part, probe_steps
from equipoise.recipes.studies.gensynth_tables import (
    FULL,
    MINI,
    SEES,
    SIZES,
    captioned,
    draw_pictures,
    drawn_seed,
    parts_of,
    pool_of,
    sources_of,
)
from equipoise.report.study import StudyPart

EDITOR = {"mini": "mini:edit", "full": "diffusers:timbrooks/instruct-pix2pix"}
INSTRUCTIONS = ("Make this person look like a/an {noun}",)
"""One of the paper's four; the miniature has one guidance scale of its own."""
AXIS = "gender"
JUDGE = "mini:judge"
"""Looks at edits; it is no part of what made them nor of what is measured."""
READS = {"mini": "mini:clip-fair", "full": "hf:sentence-transformers/all-roberta-large-v1"}
"""The text encoder of caption clusters; the paper says RoBERTa and not which."""
CLUSTERS = 20
CROP = "none"
"""The filter looks at whole pictures, as these are what is edited: the miniature encoder does not know person crops."""
KNN_K = 10
"""Neighbours of the mini filter: the paper's 50 of 190,000 crops would be a sixth of the mini pool."""


def _steps(options: StudyOptions) -> list[StudyStep]:
    if "captions" in options.given and options.scale == "mini":
        if options.models:
            raise InputError("with captions alone no model is asked; leave --models out")
        return [_baselines(options)]
    return _full(options) if options.scale == "full" else _mini(options)


def _baselines(options: StudyOptions) -> StudyStep:
    """TF-IDF and blind ranking of captions, of a file or of the pool."""
    given = options.given.get("captions")

    def work(home: StudyHome, out: Path) -> None:
        captions = Path(given) if given else home.step("pool") / "captions.json"
        run_captions(
            "captions-tfidf", captions, out, config={"seeds": list(range(SIZES["seeds"])), "seed": options.seed}
        )

    settings = {"seeds": SIZES["seeds"], "seed": options.seed}
    cost = StepCost(data=(given or "the pool's captions",), cpu_minutes=2.5 if given else 0.5)
    needs = () if given or options.scale == "full" else ("pool",)
    title = "Captions asked of TF-IDF and of a blind ranker"
    return StudyStep("baselines", title, work, settings, needs, True, cost, reads=("captions",))


def _mini(options: StudyOptions) -> list[StudyStep]:
    """All steps on the pictogram world; with a pool that was given, none is drawn."""
    models = options.models or MINI
    given = "val" in options.given
    pool = StudyStep(
        "pool",
        "The captions of the pool that was given"
        if given
        else "A natural pool: pictures of a world that leans, with captions",
        _draw_pool,
        {} if given else {"n": SIZES["pool"], "seed": drawn_seed(options, "pool")},
        resumes=False,
        cost=StepCost() if given else StepCost(images=SIZES["pool"], cpu_minutes=0.8, disk_gb=0.02),
        reads=("val",),
    )
    config = {"axes": ("gender",), "seeds": tuple(range(SIZES["seeds"])), "draws": 100, "seed": options.seed}
    about: dict[str, Any] = {"needs": ("pool",), "images": SIZES["pool"], "cpu_minutes": 0.7}
    natural = audit_steps(models, "natural", pool_of, config, **about)
    first = [pool, _baselines(options), *natural, _clusters(options)]
    return [*first, *probe_steps(options), *_edit_steps(options, models), *_even_steps(options, models)]


def _clusters(options: StudyOptions, missing: str = "") -> StudyStep:
    """Captions of the pool in clusters, by the vectors of a text encoder."""
    reads = READS[options.scale]

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.audit.dataset import DatasetSettings, audit_dataset

        settings = DatasetSettings(clusters=CLUSTERS, permutations=199, probe_permutations=19, seed=options.seed)
        audit_dataset(pool_of(home).path, out, axes=(AXIS,), text_encoder=reads, settings=settings)

    return StudyStep(
        "clusters",
        f"Clusters of neutral captions by {reads}, and who is in them",
        work,
        {"reads": reads, "clusters": CLUSTERS, "seed": options.seed},
        () if options.scale == "full" else ("pool",),
        cost=StepCost((reads,), cpu_minutes=0.4),
        missing=missing,
        reads=("val",),
    )


def _draw_pool(home: StudyHome, out: Path) -> None:
    if "val" not in home.options.given:
        draw_pictures(home, out / "images", "pool", SIZES["pool"])
    frame = captioned(pool_of(home))
    rows = [
        {"image_id": name, "caption": text}
        for name, texts in zip(frame["image_id"], frame["captions"], strict=True)
        for text in texts
    ]
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "captions.json", json.dumps({"annotations": rows}).encode())


def _edit_steps(options: StudyOptions, models: tuple[str, ...]) -> list[StudyStep]:
    """Edits, their filter, swaps, and audits of what is left; of edits that were given, the audits alone."""
    config = {"axes": ("gender",), "draws": 100, "seeds": tuple(range(SIZES["seeds"])), "seed": options.seed}
    needs = () if "edits" in options.given else ("filter",)
    audits = audit_steps(models, "contrast", _edited, config, needs=needs, cpu_minutes=0.8, reads=("edits",))
    if "edits" in options.given:
        return audits
    editor, sees = EDITOR["mini"], SEES["mini"]
    n = SIZES["sources"]
    first = [] if "sources" in options.given else [_drawn("sources", "Pictures to edit", "sources", "biased", options)]
    drawn = tuple(step.name for step in first)
    edits = StudyStep(
        "edits",
        f"The person of each picture edited into each gender by {editor}",
        lambda home, out: _edit(home, sources_of(home), out),
        {"editor": editor, "seed": options.seed},
        drawn,
        cost=StepCost((editor,), (), 2 * n, cpu_minutes=0.0055 * 2 * n, disk_gb=0.01),
        reads=("sources",),
    )
    join = StudyStep("pairs", "The edits with their sources in one table", _join, {}, ("edits",), resumes=False)
    filtered = StudyStep(
        "filter",
        f"Edits that look real and show the gender asked for, by the neighbours that {sees} sees",
        _filter,
        {"k": KNN_K, "crop": CROP, "sees": sees, "seed": options.seed},
        ("pairs",),
        cost=StepCost((sees,), (), 3 * n, cpu_minutes=0.6),
    )
    swaps = StudyStep(
        "swaps",
        "GenSwap: the head of each picture replaced by one of each gender from the pool",
        _swap,
        {"seed": options.seed},
        (*drawn, "pool"),
        cost=StepCost(images=2 * n, cpu_minutes=0.2),
        reads=("sources",),
    )
    return [*first, edits, join, filtered, swaps, *audits]


def _swap(home: StudyHome, out: Path) -> None:
    from equipoise.generate import SwapConfig, plan_swap, run

    plan = plan_swap(sources_of(home), pool_of(home), SwapConfig(axis=AXIS, seed=home.options.seed))
    run(plan, out, None, faces=pool_of(home), progress=False)


def _even_steps(options: StudyOptions, models: tuple[str, ...]) -> list[StudyStep]:
    """Edits of pictures in which nothing leans, for gaps inside pairs against the truth.

    An edit into the other gender is a little worse than one that leaves the gender, and where sources lean the worse
    one is of the rarer gender: a model that does not lean then seems to (docs/recipes.md has the figures).
    """
    n = SIZES["even"]
    sources = _drawn("even-sources", "Pictures to edit of a world that does not lean", "even", "fair", options)
    edits = StudyStep(
        "even-edits",
        f"Each of them edited into each gender by {EDITOR['mini']}",
        lambda home, out: _edit(home, Table.open(home.step("even-sources")), out),
        {"editor": EDITOR["mini"]},
        ("even-sources",),
        cost=StepCost((EDITOR["mini"],), (), 2 * n, cpu_minutes=0.0075 * 2 * n, disk_gb=0.01),
    )
    judged = StudyStep(
        "even-judged",
        f"Which pairs show both genders, by {JUDGE}",
        _judge_even,
        {"judge": JUDGE},
        ("even-edits",),
        resumes=False,
        cost=StepCost((JUDGE,), (), 2 * n, cpu_minutes=0.2),
    )
    config = {"axes": (AXIS,), "draws": 100, "min_sets": 1}
    about: dict[str, Any] = {"name": "gaps", "needs": ("even-judged",), "about": "over pairs that show both genders"}
    gaps = audit_steps(models, "intersectional", _even, config, cpu_minutes=0.4, **about)
    return [sources, edits, judged, *gaps]


def _drawn(name: str, title: str, what: str, world: str, options: StudyOptions) -> StudyStep:
    """Pictures to edit."""
    n = SIZES[what]

    def work(home: StudyHome, out: Path) -> None:
        draw_pictures(home, out, what, n, world)

    settings = {"n": n, "seed": drawn_seed(options, what)}
    return StudyStep(name, title, work, settings, (), False, StepCost(images=n, cpu_minutes=0.2))


def _judge_even(home: StudyHome, out: Path) -> None:
    """A layer over the edits: their sources' subjects, and pairs of which both edits show the gender asked for."""
    from equipoise.models import load

    edits = Table.open(home.step("even-edits"))
    subjects = Table.open(home.step("even-sources")).to_pandas(["image_id", "subject"]).set_index("image_id")["subject"]
    frame = edits.to_pandas(["image_id", "source_id", AXIS])
    ids, images = zip(*edits.images(), strict=True)
    said = load(JUDGE, kind="classifier").classify(list(images))[AXIS]
    seen = pd.Series(said.best, index=list(ids))
    right = frame["image_id"].map(seen) == frame[AXIS]
    whole = right.groupby(frame["source_id"]).transform("all")
    rows = pd.DataFrame({"image_id": frame["image_id"], "subject": frame["source_id"].map(subjects), "keep": whole})
    edits.add_layer("judged", rows, columns={"subject": "string", "keep": "bool"}, path=out)


def _even(home: StudyHome) -> Table:
    return Table.open(home.step("even-edits"), layers=[home.step("even-judged")])


def _edit(home: StudyHome, sources: Table, out: Path) -> None:
    from equipoise.generate import EditsConfig, plan_edits, run
    from equipoise.models import load

    config = EditsConfig(
        guidance=(3.0,), image_guidance=1.3, area="whole", templates=INSTRUCTIONS, seed=home.options.seed
    )
    run(plan_edits(sources, config), out, load(EDITOR["mini"], kind="generator"), progress=False)


def _join(home: StudyHome, out: Path) -> None:
    """Sources and edits; an edit has the subject of its source."""
    sources, edits = sources_of(home), Table.open(home.step("edits"))
    joined = join_tables([sources, edits], out)
    frame = joined.to_pandas(["image_id", "source_id", "subject"])
    subject_of = dict(zip(frame["image_id"], frame["subject"], strict=True))
    is_edit = frame["source_id"].notna() & (frame["source_id"] != frame["image_id"])
    subjects = [
        subject_of[source] if edit else own
        for source, edit, own in zip(frame["source_id"], is_edit, frame["subject"], strict=True)
    ]
    rows = pd.DataFrame({"image_id": frame["image_id"], "subject": subjects, "keep": is_edit})
    joined.add_layer("edits-only", rows, columns={"subject": "string", "keep": "bool"})


def _filter(home: StudyHome, out: Path) -> None:
    from equipoise.filters import Models, Step, run

    step = Step.of("knn", {"axis": AXIS, "k": KNN_K, "crop": CROP})
    models = Models(encoder=SEES["mini"])
    run(Table.open(home.step("pairs")), [step], out, models=models, axes=("gender",), seed=home.options.seed)


def _edited(home: StudyHome) -> Table:
    if "edits" in home.options.given:
        return Table.open(home.options.given["edits"])
    return Table.open(home.step("pairs"), layers=[home.step("filter") / "layer"])


def _full(options: StudyOptions) -> list[StudyStep]:
    """The same steps over photographs: what is given is used, what is not is named with its cost."""
    models = options.models or FULL
    given = options.given
    need = {
        "captions": "COCO's captions_val2017.json is needed: give it with --from captions=FILE",
        "val": "a table of COCO val2017 with captions and labels is needed: equipoise table import coco, then "
        "equipoise table label, and --from val=TABLE",
        "train": "a table of COCO train2017 with captions, labels and boxes of people is needed for the probes, beside "
        "that of val2017: --from train=TABLE",
        "edits": "a table of edits with their sources is needed: equipoise generate edits -g "
        f"{EDITOR['full']}, equipoise filter, equipoise table join, and --from edits=TABLE",
    }
    missing = {name: "" if name in given else sentence for name, sentence in need.items()}
    steps = [replace(_baselines(options), missing=missing["captions"])]
    config = {"axes": ("gender",), "seed": options.seed, "lexicon": "gensynth_code"}
    about: dict[str, Any] = {"data": ("COCO val2017: 5,000 images, 25,014 captions",), "images": 5000}
    about |= {"gpu_hours": 0.02, "disk_gb": 0.02, "missing": missing["val"], "reads": ("val",)}
    steps += audit_steps(models, "natural", pool_of, config, **about)
    steps.append(_clusters(options, missing["val"]))
    probes = "" if {"train", "val"} <= set(given) else need["train"]
    steps += probe_steps(options, probes)
    if "edits" not in given:
        source = ("COCO train2017: 11,541 images with one person and a gender",)
        steps += [
            outside_step(
                "edits",
                f"16 edits of each image by {EDITOR['full']}, 500 steps",
                need["edits"],
                models=(EDITOR["full"],),
                data=source,
                images=184_656,
                gpu_hours=2050,
                disk_gb=9,
            ),
            outside_step(
                "filter",
                f"Neighbours of every edit, K = 50, by {SEES['full']}",
                models=(SEES["full"],),
                images=196_197,
                gpu_hours=0.6,
                disk_gb=0.8,
            ),
        ]
    about = {"data": ("GenSynth: 7,946 edits, 3,973 sources",), "images": 11_919, "gpu_hours": 0.05, "disk_gb": 0.05}
    return steps + audit_steps(models, "contrast", _edited, config, missing=missing["edits"], reads=("edits",), **about)


def _parts(home: StudyHome) -> list[StudyPart]:
    return [*parts_of(home), *([probe_part(home)] if home.has("probes") else [])]


COVERS = (
    Covered("T1: TF-IDF, random", "rankers that cannot see gender", "captions alone: --from captions_val2017.json"),
    Covered("T1: CLIP", "a model over the natural and the balanced pool", "pictures with captions (suite natural)"),
    Covered("T2, T8", "models over natural, balanced and edited pools", "edits with their sources (suite contrast)"),
    Covered("T7", "zero-shot gender accuracy and recall of edits", "edits before and after the filter"),
    Covered("F4", "realness of pairs in ten bins", "the neighbours of each edit"),
    Covered("T5, F2", "clusters of captions and who is in them", "captions and a text encoder"),
    Covered("T7: GenSwap", "faces swapped", "pictures with boxes of heads, and faces of the pool"),
    Covered("D.4", "trained classifiers of gender from captions and images", "pictures to learn from, and a pool"),
    Covered(
        "T2, T8: ImageNet",
        "zero-shot accuracy on ImageNet",
        why_not="ImageNet's images are not redistributed: equipoise audit MODEL --suite utility over a table of them",
    ),
    Covered("T9", "the filter by DINO", why_not="needs DINO's weights: equipoise filter knn --preset dino"),
)

STUDY = Study(
    name="gensynth",
    title="GenSynth: is the model biased, or are the pictures?",
    citation="Smith et al., Balancing the Picture: Debiasing Vision-Language Datasets with Synthetic Contrast Sets, "
    "arXiv 2305.15407",
    question="Does a neutral caption retrieve one perceived gender because of the model, or because of the pictures?",
    covers=COVERS,
    steps=_steps,
    parts=_parts,
    takes={
        "captions": "COCO's captions file; at scale mini the caption baselines are then all that is done",
        "val": "a table of natural pictures with captions and the column gender",
        "edits": "a table of edits with their sources; at scale mini no others are made then, nor filtered",
        "sources": "a table of pictures to edit, at scale mini and without edits",
        "train": "a table of pictures for the probes to learn from",
    },
    limits=(
        "Gender is perceived, read from captions or given by the world, and of two groups: a limit of these data.",
        "An edit changes how a person is drawn, not who somebody is.",
        "The world's figures are signs; numbers over them say nothing about photographs.",
    ),
)
