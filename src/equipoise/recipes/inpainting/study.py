"""Group-balanced data by inpainting as a study: twelve ways to train a classifier, six to get captions, artefacts.

Each photograph is drawn anew as every group, a filter chooses among candidates, and classifiers and captioners that
learnt from the chosen pictures (S_synthetic, S_augment) are compared with those that learnt from photographs, resampled
ones, or with another loss. ``--quick`` is a small form of it with fewer arms and one seed; at full scale the study says
what has to be made where there are GPUs, with which commands, and audits what was predicted there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise.audit.classify import ClassifierSettings, audit_classifier
from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.recipes.inpainting.arms import ARMS, FULL, MINI, QUICK, TONE_ARMS, StudySize, TrainingArm
from equipoise.recipes.inpainting.tables import PAIRS, parts_of
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep, must_be_given
from equipoise.train.settings import PRESETS

__all__ = ["STUDY"]

AUDIT = ClassifierSettings(seeds=3, draws=199)
AXES = {"gender": ("female", "male"), "skin_tone": ("light", "dark")}


def _steps(options: StudyOptions) -> list[StudyStep]:
    if options.models and options.scale == "mini":
        raise InputError("the study makes its own classifiers at scale mini; leave --models out")
    if options.scale == "full":
        return _full_steps(options, FULL)
    size = QUICK if options.quick else MINI
    steps = [_photographs(size, options), _backbone(size)]
    steps += [
        _drawn("drawn-gender", ("gender",), size.candidates, size.photographs, options),
        _drawn("drawn-tone", ("skin_tone",), 1, size.tones, options),
        _drawn("drawn-both", ("gender", "skin_tone"), 1, size.both, options),
        _parts(size, options),
        _sets("sets", "gender", "drawn-gender", size),
        _sets("sets-tone", "skin_tone", "drawn-tone", size),
    ]
    for seed in size.seeds:
        for name in size.arms:
            steps += _classifier(name, ARMS[name], "gender", seed, size)
    for seed in size.further_seeds:
        for name, arm in TONE_ARMS.items():
            steps += _classifier(name, arm, "skin_tone", seed, size)
        for name in size.caption_arms:
            steps += _captioner(name, seed, size)
        steps += _revised(seed)
    return steps


def _photographs(size: StudySize, options: StudyOptions) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.generate import MaskConfig, plan_mask, run
        from equipoise.recipes.inpainting.learning import CAPTIONS, write_lines
        from equipoise.recipes.inpainting.photographs import leaning_world, write_photographs

        world = leaning_world()
        write_photographs(out / "train", world, size.photographs, seed=2 * options.seed)
        test = write_photographs(out / "test", world, size.test, seed=2 * options.seed + 1)
        run(plan_mask(test, MaskConfig(by="box")), out / "masked", progress=False)
        frame = test.to_pandas(["image_id", "gender", CAPTIONS])
        people = [
            {"image_id": row["image_id"], "captions": list(row[CAPTIONS]), "gender": row["gender"]}
            for row in frame.to_dict("records")
        ]
        write_lines(out / "people.jsonl", people)

    n = size.photographs + 2 * size.test
    settings = {"train": size.photographs, "test": size.test, "seed": options.seed}
    cost = StepCost(images=n, cpu_minutes=n / 12_000, disk_gb=0.01)
    title = "Photographs of a world whose things and places lean, to learn from and to test on"
    return StudyStep("photographs", title, work, settings, (), False, cost)


def _backbone(size: StudySize) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.learning import train_backbone

        train_backbone(out, size.pictures, size.warming)

    settings = {"pictures": size.pictures, "steps": size.warming}
    cost = StepCost(images=size.pictures, cpu_minutes=size.warming / 700)
    title = "A small ResNet that knows things and places, of the fair world"
    return StudyStep("backbone", title, work, settings, (), True, cost)


def _drawn(name: str, axes: tuple[str, ...], candidates: int, n: int, options: StudyOptions) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.drawing import draw_persons

        photographs = Table.open(home.step("photographs") / "train")
        draw_persons(photographs, out, {axis: AXES[axis] for axis in axes}, candidates, n, options.seed)

    images = n * candidates * 2 ** len(axes)
    settings = {"axes": axes, "candidates": candidates, "n": n, "seed": options.seed}
    cost = StepCost(("mini:inpaint", "mini:judge", "mini:clip-fair", "mini:detector"), images=images,
                    cpu_minutes=images * 0.3 / 60)  # fmt: skip
    title = f"Persons drawn anew by {' and '.join(axes)}, {candidates} of each group, and one of them chosen"
    return StudyStep(name, title, work, settings, ("photographs",), True, cost)


def _parts(size: StudySize, options: StudyOptions) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.drawing import draw_parts
        from equipoise.recipes.inpainting.photographs import mark_all

        drawn = draw_parts(Table.open(home.step("photographs") / "test"), out / "plain", size.parts, options.seed)
        mark_all(drawn, out / "marked")

    cost = StepCost(("mini:inpaint",), images=size.parts, cpu_minutes=size.parts * 0.3 / 60)
    title = "One body part of each test photograph drawn anew, with its own caption"
    return StudyStep("parts", title, work, {"n": size.parts, "seed": options.seed}, ("photographs",), True, cost)


def _sets(name: str, axis: str, drawn: str, size: StudySize) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.data.sampling import some_of
        from equipoise.recipes.inpainting.photographs import training_sets

        photographs = Table.open(home.step("photographs") / "train")
        n = size.photographs if axis == "gender" else size.tones
        folder = home.step(drawn)
        made = Table.open(folder / "drawn", layers=[folder / "filter" / "layer"])
        training_sets(some_of(photographs, limit=n), made, out, axis, baselines=axis == "gender")

    title = f"The sets to learn from, by {axis}: photographs, synthetic, augmented, resampled"
    return StudyStep(name, title, work, {}, ("photographs", drawn), False, StepCost(cpu_minutes=0.5))


def _classifier(name: str, arm: TrainingArm, axis: str, seed: int, size: StudySize) -> list[StudyStep]:
    from equipoise.recipes.inpainting import learning

    sets = "sets" if axis == "gender" else "sets-tone"
    settings: dict[str, Any] = {
        "steps": size.steps,
        "batch": learning.BATCH,
        "rate": learning.RATE,
        "weight_decay": 0.0,
        "val_share": 0.2,
        "val_every": max(1, size.steps // 6),
        "patience": 3,
        "seed": seed,
    }

    def learn(home: StudyHome, out: Path) -> None:
        init = f"hf:{home.step('backbone') / 'model'}"
        learning.train_arm(arm, axis, home.step(sets), out / "model", init, settings)

    def audit(home: StudyHome, out: Path) -> None:
        parts = home.step("parts") / ("marked" if name == "planted" else "plain")
        measured(home.step(f"learn-{name}-{seed}") / "model", axis, home.step("photographs"), parts, out, seed)

    learnt = StudyStep(
        f"learn-{name}-{seed}",
        f"A classifier: {arm.published}, {axis}, seed {seed}",
        learn,
        {**settings, "options": dict(arm.options)},
        ("backbone", sets),
        True,
        StepCost(cpu_minutes=size.steps / 900),
    )
    title = f"classify-audit of {arm.published}, {axis}, seed {seed}"
    needs = (learnt.name, "photographs", "parts")
    about = {"leakage seeds": AUDIT.seeds, "draws": AUDIT.draws, "twins": "source_id"}
    return [learnt, StudyStep(f"audit-{name}-{seed}", title, audit, about, needs, False, StepCost(cpu_minutes=0.1))]


def measured(model: Path, axis: str, photographs: Path, parts: Path, out: Path, seed: int) -> None:
    """What a classifier says of whole, masked and redrawn test photographs, and the audit of all that."""
    from equipoise.recipes.inpainting.learning import write_predictions

    tables = {"test": photographs / "test", "masked": photographs / "masked", "parts": parts}
    out.mkdir(parents=True, exist_ok=True)
    for name, path in tables.items():
        write_predictions(model, Table.open(path), out / f"{name}.csv", axis)
    names_group = axis in (out / "test.csv").read_text(encoding="utf-8").partition("\n")[0].split(",")
    audit_classifier(
        out / "test.csv",
        tables["test"],
        out / "audit",
        axes=[axis],
        pair=PAIRS[axis],
        name=model.parent.name,
        settings=AUDIT.having({"seed": seed}),
        masked=out / "masked.csv" if names_group else None,
        inpainted=out / "parts.csv" if names_group else None,
    )


def _captioner(name: str, seed: int, size: StudySize) -> list[StudyStep]:
    def learn(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.learning import train_captioner_arm, write_captions

        train_captioner_arm(name, home.step("sets"), out / "model", size.speaking, seed)
        photographs = home.step("photographs")
        for which, path in (
            ("test", photographs / "test"),
            ("masked", photographs / "masked"),
            ("parts", home.step("parts") / "plain"),
        ):
            write_captions(out / "model", Table.open(path), out / f"{which}.jsonl")

    title = f"A captioner: {ARMS[name].published}, seed {seed}"
    cost = StepCost(("mini:captioner",), cpu_minutes=size.speaking / 150 + 0.2)
    settings = {"steps": size.speaking, "seed": seed}
    learnt = StudyStep(f"caption-{name}-{seed}", title, learn, settings, ("sets", "photographs", "parts"), True, cost)
    return [learnt, _caption_audit(name, seed)]


def _revised(seed: int) -> list[StudyStep]:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.engine import Asking
        from equipoise.mitigate.libra.applying import CaptionRow, revise_all
        from equipoise.models import load
        from equipoise.recipes.inpainting.learning import read_lines, write_lines

        photographs = home.step("photographs")
        for which in ("test", "masked"):
            said = read_lines(home.step(f"caption-original-{seed}") / f"{which}.jsonl")
            rows = [CaptionRow(name, text) for name, text in said.items()]
            made = revise_all(
                load("mini:dcg", kind="reviser"), rows, Table.open(photographs / which), Asking(), seed=seed
            )
            write_lines(out / f"{which}.jsonl", ({"image_id": r.image_id, "caption": r.caption} for r in made.rows))

    needs = (f"caption-original-{seed}", "photographs")
    cost = StepCost(("mini:dcg",), cpu_minutes=0.5)
    title = f"LIBRA: the captions of Original revised, seed {seed}"
    return [StudyStep(f"caption-libra-{seed}", title, work, {}, needs, True, cost), _caption_audit("libra", seed)]


def _caption_audit(name: str, seed: int) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.learning import audit_of

        photographs = home.step("photographs")
        captions = home.step(f"caption-{name}-{seed}") / "test.jsonl"
        audit_of(captions, photographs / "people.jsonl", photographs / "test", out, seed)

    title = f"captions: LIC, quality and CLIPScore of {name}, seed {seed}"
    needs = (f"caption-{name}-{seed}", "photographs")
    return StudyStep(f"captions-{name}-{seed}", title, work, {}, needs, True, StepCost(cpu_minutes=0.5))


COCO = "COCO 2014 with captions, instances and COCO-WholeBody; perceived gender of Zhao et al. (2021)"
OPEN_IMAGES = "OpenImages with MIAP boxes"
MISSING = (
    "the predictions of the paper's classifiers were not released; train them (--dry-run names the commands), predict "
    "the test photographs whole, masked and with a body part redrawn, and give --from predictions=FOLDER"
)


def _full_steps(options: StudyOptions, size: StudySize) -> list[StudyStep]:
    """The audits of the predictions that were given; without any, the plan of everything that makes them."""
    given = options.given.get("predictions")
    if options.models:
        raise InputError("the study names the paper's models at scale full, and audits predictions; leave --models out")
    return _audits(Path(given)) if given else _plan(size)


def _audits(folder: Path) -> list[StudyStep]:
    labels = next((path for path in (folder / "labels", folder / "labels.csv") if path.exists()), None)
    if labels is None:
        raise InputError(f"{folder}: no labels; put labels.csv (image_id, objects, gender) or a table 'labels' there")
    found = [(arm, seed) for arm in ARMS for seed in sorted(p.name for p in (folder / arm).glob("*") if p.is_dir())]
    if not found:
        raise InputError(f"{folder}: no predictions; give ARM/SEED/test.csv, ARM one of: {', '.join(ARMS)}")
    return [_audit(folder, labels, arm, seed) for arm, seed in found]


def _audit(folder: Path, labels: Path, arm: str, seed: str) -> StudyStep:
    files = {name: folder / arm / seed / f"{name}.csv" for name in ("test", "masked", "parts")}

    def work(home: StudyHome, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        for name, path in files.items():
            if path.is_file():
                (out / f"{name}.csv").write_bytes(path.read_bytes())
        masked, redrawn = (out / f"{name}.csv" if files[name].is_file() else None for name in ("masked", "parts"))
        audit_classifier(
            out / "test.csv",
            labels,
            out / "audit",
            axes=["gender"],
            pair=("male", "female"),
            name=f"{arm}-{seed}",
            settings=ClassifierSettings(),
            masked=masked,
            inpainted=redrawn,
        )

    if not files["test"].is_file():
        raise InputError(f"{files['test']} is missing; it holds the predictions of the whole test photographs")
    about = {name: [path.stat().st_size, path.stat().st_mtime_ns] for name, path in files.items() if path.is_file()}
    return StudyStep(f"audit-{arm}-{seed}", f"classify-audit of {arm}, seed {seed}", work, about, (), False)


def _plan(size: StudySize) -> list[StudyStep]:
    def step(name: str, title: str, **cost: Any) -> StudyStep:
        return StudyStep(name, title, must_be_given, cost=StepCost(**cost), missing=MISSING)

    n, m = size.photographs, size.candidates
    steps = [
        step(
            "inpaint",
            f"generate inpaint coco drawn -g diffusers:sd-inpainting -m {m}; the same with --axis skin_tone",
            models=("diffusers:sd-inpainting (Rombach et al., CVPR 2022)",),
            data=(COCO, OPEN_IMAGES),
            images=2 * 2 * m * n,
            gpu_hours=2 * 2 * m * n * 2.5 / 3600,
            disk_gb=2 * 2 * m * n * 0.4 / 1000,
        ),
        step(
            "filter",
            "filter drawn fidelity -m hf:openai/clip-vit-base-patch32 --detector hf:facebook/detr-resnet-50 "
            "--reference coco, then table combine --mode synthetic and augment",
            models=("hf:openai/clip-vit-base-patch32", "Detic, or another detector"),
            images=2 * 2 * m * n,
            gpu_hours=40,
        ),
        step(
            "parts",
            "generate inpaint test parts --part --by finder --finder hf:facebook/sam-vit-base",
            models=("hf:facebook/sam-vit-base",),
            images=size.parts,
            gpu_hours=size.parts * 2.5 / 3600,
        ),
        step("mask", "generate mask test masked --what person --by segment", images=size.test, cpu_minutes=20),
    ]
    for name, preset in PRESETS.items():
        runs = len(size.seeds) * (len(ARMS) - 1 + 2 if preset.task == "multilabel" else 5 + 2)
        told = ", ".join(f"{key}={value}" for key, value in preset.settings.items())
        steps.append(
            step(
                f"train-{name}",
                f"train {preset.task} SET --preset {name} --seed 0..{len(size.seeds) - 1}: {runs} runs ({told})"
                + (", outside Equipoise, which does not train this form" if name == "blip-2" else ""),
                models=(preset.init or f"{name}, converted",),
                gpu_hours=runs * preset.gpu_hours,
                disk_gb=runs * preset.disk_gb,
            )
        )
    steps.append(step("audit", "classify-audit and captions of every run, LIC by LSTM", cpu_minutes=600))
    return steps


COVERS = (
    Covered("T4.1", "classifiers by gender: mAP, Ratio, leakage", "twelve ways to train on the world, three seeds"),
    Covered("T4.2", "captioners by gender", "the miniature captioner on five sets, and LIBRA's revision"),
    Covered("T4.3", "artefact test", "one body part of each test photograph drawn anew; a planted mark beside"),
    Covered("T4.4", "choices of filters", "all eight on the candidates, seen by mini:judge instead of people"),
    Covered("T4.6", "classifiers by skin tone", "photographs, and the same drawn with each skin tone"),
    Covered("T4.5", "the same on OpenImages", why_not="the world stands for one dataset; --scale full names both"),
    Covered("T4.7", "captioners by skin tone", why_not="LIC masks words of gender; there is no lexicon of skin tone"),
)

STUDY = Study(
    name="inpainting",
    title="Resampled datasets are not enough: group-balanced data by inpainting",
    citation="Hirota et al., Resampled Datasets Are Not Enough, EMNLP 2024",
    question="Does a model trained on photographs in which everybody was drawn as every group lean less?",
    covers=COVERS,
    steps=_steps,
    parts=parts_of,
    takes={
        "predictions": "at scale full: a folder with ARM/SEED/test.csv, masked.csv and parts.csv (image_id, a column "
        "per object, gender), and with labels, a table or labels.csv of the test photographs",
    },
    quickens=True,
    limits=(
        "The pictures are signs, not people; the numbers say whether the method does what it is meant to, not how well "
        "on photographs.",
        "In a quarter of the photographs, the same in every set, the person is blacked out: without that a small "
        "network says one group of every black box. The paper's networks know natural pictures and saw no masks.",
        "The classifier is one small ResNet, trained for steps and not for epochs; the paper has three large networks.",
        "Intervals over three seeds are wide: t with two degrees of freedom.",
    ),
)
