"""LIBRA as a study: captions of captioners that lean, before and after a debiasing caption generator.

On the pictogram world: captioners of worlds of strength 0, 1 and 2, on clear pictures and on grainy ones, where they
have to guess; the reviser of three seeds, and beside it revisers that learnt from other pairs: each of the paper's
mixes, without either filter, without hidden words, words perturbed at random, and no biased captions at all. Before and
after are paired image by image, and LIC split by split. ``--quick`` measures the shipped captioner and reviser alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.audit.captions.run import CaptionSettings, audit_captions
from equipoise.audit.comparison import compare
from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.recipes.libra.tables import parts_of
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep, must_be_given

__all__ = ["STUDY", "VARIANTS", "ReviserVariant"]

STRENGTHS = (0, 1, 2)
SHOWN = ("clear", "grainy")
KEY = (("2", "clear"), ("1", "grainy"))
"""The captioner's strength and the pictures on which ablations are measured: where it errs most."""
SEEDS = (0, 1, 2)
PICTURES, FEW = 2000, 1000
ENCODER = "mini:clip-fair"
SHIPPED = {"1": "mini:captioner"}


@dataclass(frozen=True)
class ReviserVariant:
    """A reviser by the pairs that it learns from and how."""

    about: str
    synthesis: Mapping[str, Any] = field(default_factory=dict)
    pairs: str = "synthesised"
    """``synthesised``, ``perturbed`` or ``unchanged``."""
    share: float = 0.2
    """Of the words that are hidden."""


VARIANTS = {
    "libra": ReviserVariant("fill and merged, 1:1, as the paper's"),
    "1-1-0": ReviserVariant("without merged: swap and fill", {"mix": "1:1:0"}),
    "1-2-1": ReviserVariant("swap, fill and merged", {"mix": "1:2:1"}),
    "swap": ReviserVariant("swap alone", {"mix": "1:0:0"}),
    "fill": ReviserVariant("fill alone", {"mix": "0:1:0"}),
    "merged": ReviserVariant("merged alone", {"mix": "0:0:1"}),
    "no-authenticity": ReviserVariant("without the authenticity filter", {"authenticity": 0.0}),
    "no-margin": ReviserVariant("without the group filter", {"margin": -1.0}),
    "no-mask": ReviserVariant("no words hidden (eta = 0)", share=0.0),
    "random": ReviserVariant("words perturbed at random, 15%, no filter", pairs="perturbed"),
    "editor": ReviserVariant("an editor without biased captions", pairs="unchanged"),
}


def _steps(options: StudyOptions) -> list[StudyStep]:
    if len(options.models) > (options.scale == "mini"):
        raise InputError("the study takes one model at scale mini, the reviser instead of mini:dcg; leave others out")
    if options.scale == "full":
        return _full_steps()
    reviser = options.models[0] if options.models else "mini:dcg"
    steps = [_pictures(options)]
    strengths = ("1",) if options.quick else tuple(map(str, STRENGTHS))
    for strength in strengths:
        if strength not in SHIPPED:
            steps.append(_captioner(strength, options))
        steps.append(_captions(strength, options))
    revisers = [("libra", 0)] if options.quick else [("libra", seed) for seed in SEEDS]
    revisers += [] if options.quick else [(name, 0) for name in VARIANTS if name != "libra"]
    for name, seed in revisers:
        shipped = reviser if (name, seed) == ("libra", 0) else ""
        if not shipped:
            steps.append(_reviser(name, seed))
        where = [(strength, shown) for strength in strengths for shown in SHOWN]
        where = where if name == "libra" else list(KEY)
        for strength, shown in where:
            steps += _after(name, seed, strength, shown, shipped=shipped)
    return _with_before(steps, strengths)


def _with_before(steps: list[StudyStep], strengths: Iterable[str]) -> list[StudyStep]:
    """The audits of captions as the captioners wrote them stand before all comparisons."""
    first = next(i for i, step in enumerate(steps) if step.name.startswith(("reviser", "revised")))
    before = [_audit(f"before-{s}-{shown}", s, shown, f"captions-{s}") for s in strengths for shown in SHOWN]
    return [*steps[:first], *before, *steps[first:]]


def _pictures(options: StudyOptions) -> StudyStep:
    n = FEW if options.quick else PICTURES

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.demo_parts import grainy
        from equipoise.world import preset
        from equipoise.world.tables import write_table

        world = preset("biased").changed(activity_share=0.0)
        table = write_table(out / "clear", world, n, seed=options.seed)
        ids, pictures = zip(*table.images(), strict=True)
        noisy = grainy(list(pictures), seed=options.seed)
        rows = [{"image_id": i, "image": encode(picture)} for i, picture in zip(ids, noisy, strict=True)]
        Table.create(out / "grainy", rows)
        frame = table.to_pandas(["image_id", "gender", "gendered_captions"])
        people = [
            {"image_id": row["image_id"], "captions": list(row["gendered_captions"]), "gender": row["gender"]}
            for row in frame.to_dict("records")
        ]
        _write(out / "people.jsonl", people)

    settings = {"n": n, "seed": options.seed}
    cost = StepCost(images=2 * n, cpu_minutes=0.5, disk_gb=0.05)
    title = "Pictures of a world in which occupations lean, clear and grainy"
    return StudyStep("pictures", title, work, settings, (), False, cost)


def _captioner(strength: str, options: StudyOptions) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.train_mini.captioner import train_captioner
        from equipoise.world import preset

        world = preset("biased").changed(strength=float(strength))
        train_captioner(world, out / "_work", out / "model", home.say, None)

    title = f"A captioner of a world of strength {strength}"
    return StudyStep(f"captioner-{strength}", title, work, {"strength": strength}, (), True, StepCost(cpu_minutes=9))


def _captions(strength: str, options: StudyOptions) -> StudyStep:
    trained = strength not in SHIPPED

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.engine.answers import captions
        from equipoise.models import load

        spec = f"hf:{home.step(f'captioner-{strength}') / 'model'}" if trained else SHIPPED[strength]
        model = load(spec, kind="captioner")
        for shown in SHOWN:
            table = Table.open(home.step("pictures") / shown)
            said = captions(model, table, seed=0)
            _write(out / f"{shown}.jsonl", ({"image_id": i, "caption": t} for i, t in said if isinstance(t, str)))

    needs = ("pictures", *([f"captioner-{strength}"] if trained else []))
    title = f"Captions by the captioner of strength {strength}"
    cost = StepCost((SHIPPED.get(strength, f"captioner-{strength}"),), images=2 * PICTURES, cpu_minutes=3)
    return StudyStep(f"captions-{strength}", title, work, {}, needs, True, cost)


def _reviser(name: str, seed: int) -> StudyStep:
    variant = VARIANTS[name]

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.libra.dcg import fitted
        from equipoise.world import preset

        made = fitted(
            out,
            preset("biased"),
            say=home.say,
            seed=seed,
            synthesis=variant.synthesis,
            pairs=variant.pairs,
            share=variant.share,
        )
        home.say(f"{name}, seed {seed}: {made}")

    settings = {"synthesis": dict(variant.synthesis), "pairs": variant.pairs, "share": variant.share, "seed": seed}
    cost = StepCost(("mini:text", "mini:clip-fair", "mini:captioner"), cpu_minutes=9)
    title = f"A reviser: {variant.about}, seed {seed}"
    return StudyStep(f"reviser-{name}-{seed}", title, work, settings, (), True, cost)


def _after(name: str, seed: int, strength: str, shown: str, *, shipped: str) -> list[StudyStep]:
    label = f"{name}-{seed}-{strength}-{shown}"

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.engine import Asking
        from equipoise.mitigate.libra.applying import CaptionRow, revise_all
        from equipoise.models import load

        spec = shipped or f"hf:{home.step(f'reviser-{name}-{seed}') / 'run'}"
        lines = (home.step(f"captions-{strength}") / f"{shown}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [CaptionRow(row["image_id"], row["caption"]) for row in map(json.loads, lines)]
        table = Table.open(home.step("pictures") / shown)
        made = revise_all(load(spec, kind="reviser"), rows, table, Asking(), seed=seed)
        _write(out / f"{shown}.jsonl", ({"image_id": r.image_id, "caption": r.caption} for r in made.rows))

    needs = (f"captions-{strength}", *([] if shipped else [f"reviser-{name}-{seed}"]))
    title = f"Strength {strength}, {shown}: revised by {name}, seed {seed}"
    cost = StepCost((shipped or f"reviser-{name}-{seed}",), images=PICTURES, cpu_minutes=0.8)
    revised = StudyStep(f"revised-{label}", title, work, {"reviser": shipped}, needs, True, cost)
    audit = _audit(f"after-{label}", strength, shown, revised.name)

    def paired(home: StudyHome, out: Path) -> None:
        compare(home.step(audit.name), home.step(f"before-{strength}-{shown}"), out / "comparison")

    both = (audit.name, f"before-{strength}-{shown}")
    change = StudyStep(f"change-{label}", f"{title}: after less before", paired, {}, both, False)
    return [revised, audit, change]


def _audit(name: str, strength: str, shown: str, captions: str) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        settings = CaptionSettings(lexicon="equipoise", permutations=20, ba_least=20, seed=home.options.seed)
        pictures = home.step("pictures")
        audit_captions(
            [f"captions={home.step(captions) / f'{shown}.jsonl'}"],
            pictures / "people.jsonl",
            "gender",
            out,
            images=pictures / "clear",
            encoder=ENCODER,
            settings=settings,
            say=home.say,
        )

    title = f"LIC, Error, quality and CLIPScore of {captions}, {shown}"
    cost = StepCost((ENCODER,), cpu_minutes=0.8)
    return StudyStep(name, title, work, {"encoder": ENCODER}, ("pictures", captions), True, cost)


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def _full_steps() -> list[StudyStep]:
    coco = "COCO train2014 and val2014 images and captions"
    people = "perceived gender of Zhao et al. (2021): 10,780 images of val2014"
    captioners = ("NIC", "SAT", "FC", "Att2in", "UpDn", "Transformer", "OSCAR", "ClipCap", "GRIT")

    def step(name: str, title: str, missing: str = "", **cost: Any) -> StudyStep:
        return StudyStep(name, title, must_be_given, cost=StepCost(**cost), missing=missing)

    return [
        step(
            "captions",
            "Captions of nine captioners on val2014: equipoise models, or released ones",
            "the captions of the paper's captioners were not released; caption val2014 with them, then: equipoise "
            "libra apply CAPTIONS --images val2014 --reviser hf:dcg -o revised",
            models=captioners,
            data=(coco, people),
            images=9 * 10_780,
            gpu_hours=5,
            disk_gb=20,
        ),
        step(
            "pairs",
            "libra synthesise captions_train2014.json --lexicon libra --filler hf:t5-base --mix 0:1:1: 114,568 pairs",
            models=("bert:bert-base-uncased", "hf:t5-base"),
            data=(coco,),
            gpu_hours=8,
        ),
        step(
            "reviser",
            "libra fit pairs --images train2014 --encoder hf:dandelin/vilt-b32-mlm --decoder hf:gpt2, three seeds",
            models=("hf:dandelin/vilt-b32-mlm", "hf:gpt2"),
            data=(coco,),
            images=3 * 5 * 114_568,
            gpu_hours=3 * 7,
            disk_gb=3 * 1.1,
        ),
        step(
            "ablations",
            "Ten further revisers: mixes, filters, hidden words, random perturbation, editor without biased captions",
            models=("hf:dandelin/vilt-b32-mlm", "hf:distilgpt2"),
            images=10 * 5 * 114_568,
            gpu_hours=10 * 5,
            disk_gb=11,
        ),
        step("apply", "libra apply: nine captioners, thirteen revisers", images=13 * 9 * 10_780, gpu_hours=18),
        step(
            "audit",
            "captions BEFORE AFTER --encoder hf:openai/clip-vit-base-patch32, LIC by LSTM, and compare",
            models=("hf:openai/clip-vit-base-patch32",),
            data=(people,),
            gpu_hours=2,
            cpu_minutes=9 * 2 * 55,
        ),
    ]


COVERS = (
    Covered("T3.1", "counts of the biased captions by mix", "synthesis on the world's captions"),
    Covered("T3.2", "captioners before and after LIBRA", "captioners of strengths 0, 1 and 2, clear and grainy"),
    Covered("T3.4, T3.8", "LIBRA against a caption editor (ENT)", "an editor without biased captions"),
    Covered("T3.5, T3.10", "mixes of swap, fill and merged", "a reviser for each, and for each kind alone"),
    Covered("T3.6, T3.11", "synthesis against random perturbation", "a reviser of perturbed captions"),
    Covered("T3.9", "without hidden words", "a reviser that reads every word"),
    Covered("T3.3", "LIBRA against the Gender Equalizer", why_not="its losses are not part of Equipoise yet"),
    Covered(
        "T3.2: SPICE, METEOR", "quality by Java programs", why_not="run equipoise captions --java on the revised files"
    ),
)

STUDY = Study(
    name="libra",
    title="LIBRA: taking the bias out of captions, whoever wrote them",
    citation="Hirota, Nakashima and Garcia, Model-Agnostic Gender Debiased Image Captioning, CVPR 2023",
    question="Do captions lean less, and say as much, after a model that learnt from biased captions has revised them?",
    covers=COVERS,
    steps=_steps,
    parts=parts_of,
    quickens=True,
    limits=(
        "The pictures are signs, not people; the numbers say that the method works as it is meant to, not how well on "
        "photographs.",
        "LIC is by the linear screen (fast), whose LIC_D is higher than the LSTM's; the paper's numbers are by LSTM.",
        "The reviser of seed 0 is mini:dcg; the other seeds differ in the pairs, the words hidden and the order.",
    ),
)
