"""Group-balanced data by inpainting as a study: twelve ways to train a classifier, six to get captions, artefacts.

Each photograph is drawn anew as every group, a filter chooses among candidates, and classifiers and captioners that
learnt from the chosen pictures (S_synthetic, S_augment) are compared with those that learnt from photographs, resampled
ones, or with another loss. ``--quick`` is a small form of it with fewer arms and one seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.audit.classify import ClassifierSettings, audit_classifier
from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.recipes.inpainting.arms import EVERY_ARM, MINI, QUICK, SECOND_ARMS, TONE_ARMS, StudySize
from equipoise.recipes.inpainting.full import full_steps
from equipoise.recipes.inpainting.tables import PAIRS, parts_of
from equipoise.recipes.studies.caption_files import write_captions, write_people, write_revised
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep
from equipoise.recipes.train_mini.batches import unseen

AUDIT = ClassifierSettings(seeds=3, draws=199)
AXES = {"gender": ("female", "male"), "skin_tone": ("light", "dark")}


@dataclass(frozen=True)
class _Ground:
    """Where models of one kind learn and are tested: the steps that hold their photographs and sets."""

    axis: str
    photographs: str
    sets: str
    parts: bool
    """Whether they are asked about redrawn body parts, too."""


_GENDER = _Ground("gender", "photographs", "sets", True)
_TONE = _Ground("skin_tone", "photographs", "sets-tone", True)
_SECOND = _Ground("gender", "photographs-second", "sets-second", False)


def _steps(options: StudyOptions) -> list[StudyStep]:
    if options.models and options.scale == "mini":
        raise InputError("the study makes its own classifiers at scale mini; leave --models out")
    if options.scale == "full":
        return full_steps(options)
    size = QUICK if options.quick else MINI
    steps = [_photographs(_GENDER, size.photographs, size.test, options), _backbone(size)]
    steps += [
        _drawn("drawn-gender", ("gender",), size.candidates, size.photographs, _GENDER, options),
        _drawn("drawn-tone", ("skin_tone",), 1, size.tones, _TONE, options),
        _drawn("drawn-both", ("gender", "skin_tone"), 1, size.both, _GENDER, options),
        _parts(size, options),
        _sets(_GENDER, "drawn-gender", size.photographs),
        _sets(_TONE, "drawn-tone", size.tones),
    ]
    for seed in size.seeds:
        for name in size.arms:
            steps += _classifier(name, _GENDER, seed, size)
    for seed in size.further_seeds:
        for name in TONE_ARMS:
            steps += _classifier(name, _TONE, seed, size)
        for name in size.caption_arms:
            steps += _captioner(name, _GENDER, seed, size)
        steps += _revised(seed)
        for name in size.tone_captions:
            steps += _captioner(name, _TONE, seed, size)
    return steps + (_second(size, options) if size.second else [])


def _second(size: StudySize, options: StudyOptions) -> list[StudyStep]:
    """The rows of Table 4.1 that need no other loss, on photographs of a second world."""
    steps = [
        _photographs(_SECOND, size.second, size.test, options),
        _drawn("drawn-second", ("gender",), 1, size.second, _SECOND, options),
        _sets(_SECOND, "drawn-second", size.second),
    ]
    for seed in size.further_seeds:
        for name in SECOND_ARMS:
            steps += _classifier(name, _SECOND, seed, size)
    return steps


def _photographs(ground: _Ground, n: int, tested: int, options: StudyOptions) -> StudyStep:
    second = ground is _SECOND
    seeds = [unseen(2 * options.seed + number) for number in range(2)]

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.generate import MaskConfig, plan_mask, run
        from equipoise.recipes.inpainting.photographs import leaning_world, second_world, write_photographs

        world = second_world() if second else leaning_world()
        write_photographs(out / "train", world, n, seed=seeds[0])
        test = write_photographs(out / "test", world, tested, seed=seeds[1])
        run(plan_mask(test, MaskConfig(by="box")), out / "masked", progress=False)
        write_people(out / "people.jsonl", test, tuple(AXES))

    images = n + 2 * tested
    settings = {"train": n, "test": tested, "seeds": seeds}
    cost = StepCost(images=images, cpu_minutes=images / 12_000, disk_gb=0.01)
    title = "Photographs of a world whose things and places lean, to learn from and to test on"
    title = "The same of a second world, in which other things and places lean" if second else title
    return StudyStep(ground.photographs, title, work, settings, (), False, cost)


def _backbone(size: StudySize) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.learning import train_backbone

        train_backbone(out, size.pictures, size.warming)

    settings = {"pictures": size.pictures, "steps": size.warming}
    cost = StepCost(images=size.pictures, cpu_minutes=size.warming / 700)
    title = "A small ResNet that knows things and places, of the fair world"
    return StudyStep("backbone", title, work, settings, (), True, cost)


def _drawn(
    name: str, axes: tuple[str, ...], candidates: int, n: int, ground: _Ground, options: StudyOptions
) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.drawing import draw_persons

        photographs = Table.open(home.step(ground.photographs) / "train")
        draw_persons(photographs, out, {axis: AXES[axis] for axis in axes}, candidates, n, options.seed)

    images = n * candidates * 2 ** len(axes)
    settings = {"axes": axes, "candidates": candidates, "n": n, "seed": options.seed}
    cost = StepCost(("mini:inpaint", "mini:judge", "mini:clip-fair", "mini:detector"), images=images,
                    cpu_minutes=images * 0.3 / 60)  # fmt: skip
    chosen = ", and one of them chosen" if candidates > 1 else ""
    title = f"Persons drawn anew by {' and '.join(axes)}, {candidates} of each group{chosen}"
    return StudyStep(name, title, work, settings, (ground.photographs,), True, cost)


def _parts(size: StudySize, options: StudyOptions) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.drawing import draw_parts
        from equipoise.recipes.inpainting.photographs import mark_all

        drawn = draw_parts(Table.open(home.step("photographs") / "test"), out / "plain", size.parts, options.seed)
        mark_all(drawn, out / "marked")

    cost = StepCost(("mini:inpaint",), images=size.parts, cpu_minutes=size.parts * 0.3 / 60)
    title = "One body part of each test photograph drawn anew, with its own caption"
    return StudyStep("parts", title, work, {"n": size.parts, "seed": options.seed}, ("photographs",), True, cost)


def _sets(ground: _Ground, drawn: str, n: int) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.data.sampling import some_of
        from equipoise.recipes.inpainting.photographs import training_sets

        photographs = Table.open(home.step(ground.photographs) / "train")
        folder = home.step(drawn)
        inpainted = Table.open(folder / "drawn", layers=[folder / "filter" / "layer"])
        baselines = ground.axis == "gender"
        training_sets(some_of(photographs, limit=n), inpainted, out, ground.axis, baselines=baselines)

    title = f"The sets to learn from, by {ground.axis}: photographs, synthetic, augmented, resampled"
    return StudyStep(ground.sets, title, work, {}, (ground.photographs, drawn), False, StepCost(cpu_minutes=0.2))


def _classifier(name: str, ground: _Ground, seed: int, size: StudySize) -> list[StudyStep]:
    from equipoise.recipes.inpainting import learning

    arm, axis = EVERY_ARM[name], ground.axis
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
        learning.train_arm(arm, axis, home.step(ground.sets), out / "model", init, settings)

    def audit(home: StudyHome, out: Path) -> None:
        parts = home.step("parts") / ("marked" if name == "planted" else "plain") if ground.parts else None
        measured(home.step(f"learn-{name}-{seed}") / "model", axis, home.step(ground.photographs), parts, out, seed)

    where = ", second world" if ground is _SECOND else ""
    learnt = StudyStep(
        f"learn-{name}-{seed}",
        f"A classifier: {arm.published}, {axis}, seed {seed}{where}",
        learn,
        {**settings, "options": dict(arm.options)},
        ("backbone", ground.sets),
        True,
        StepCost(cpu_minutes=size.steps / 900),
    )
    title = f"classify-audit of {arm.published}, {axis}, seed {seed}{where}"
    needs = (learnt.name, ground.photographs, *(("parts",) if ground.parts else ()))
    about = {"leakage seeds": AUDIT.seeds, "draws": AUDIT.draws, "twins": "source_id"}
    return [learnt, StudyStep(f"audit-{name}-{seed}", title, audit, about, needs, False, StepCost(cpu_minutes=0.1))]


def measured(model: Path, axis: str, photographs: Path, parts: Path | None, out: Path, seed: int) -> None:
    """What a classifier says of whole, masked and perhaps redrawn test photographs, and the audit of all that."""
    from equipoise.recipes.inpainting.learning import write_predictions

    tables = {"test": photographs / "test", "masked": photographs / "masked"} | ({"parts": parts} if parts else {})
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
        inpainted=out / "parts.csv" if names_group and parts else None,
    )


def _captioner(name: str, ground: _Ground, seed: int, size: StudySize) -> list[StudyStep]:
    gendered = ground.axis == "gender"

    def learn(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.captioning import train_captioner_arm

        train_captioner_arm(name, home.step(ground.sets), out / "model", size.speaking, seed)
        photographs = home.step(ground.photographs)
        asked = {"test": photographs / "test"}
        if gendered:  # Ratio and Delta are of gender
            asked |= {"masked": photographs / "masked", "parts": home.step("parts") / "plain"}
        for which, path in asked.items():
            write_captions(out / f"{which}.jsonl", f"hf:{out / 'model'}", Table.open(path))

    title = f"A captioner: {EVERY_ARM[name].published}, {ground.axis}, seed {seed}"
    cost = StepCost(("mini:captioner",), cpu_minutes=size.speaking / 150 + 0.2)
    settings = {"steps": size.speaking, "seed": seed}
    needs = (ground.sets, ground.photographs, *(("parts",) if gendered else ()))
    learnt = StudyStep(f"caption-{name}-{seed}", title, learn, settings, needs, True, cost)
    return [learnt, _caption_audit(name, ground, seed)]


def _revised(seed: int) -> list[StudyStep]:
    def work(home: StudyHome, out: Path) -> None:
        for which in ("test", "masked"):
            said = home.step(f"caption-original-{seed}") / f"{which}.jsonl"
            write_revised(out / said.name, "mini:dcg", said, Table.open(home.step("photographs") / which), seed)

    needs = (f"caption-original-{seed}", "photographs")
    cost = StepCost(("mini:dcg",), cpu_minutes=0.5)
    title = f"LIBRA: the captions of Original revised, seed {seed}"
    return [
        StudyStep(f"caption-libra-{seed}", title, work, {}, needs, True, cost),
        _caption_audit("libra", _GENDER, seed),
    ]


def _caption_audit(name: str, ground: _Ground, seed: int) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.inpainting.captioning import audit_of

        photographs = home.step(ground.photographs)
        captions = home.step(f"caption-{name}-{seed}") / "test.jsonl"
        audit_of(captions, photographs / "people.jsonl", photographs / "test", out, seed, ground.axis)

    title = f"captions: LIC by {ground.axis}, quality and CLIPScore of {name}, seed {seed}"
    needs = (f"caption-{name}-{seed}", ground.photographs)
    return StudyStep(f"captions-{name}-{seed}", title, work, {}, needs, True, StepCost(cpu_minutes=0.5))


COVERS = (
    Covered("T4.1", "classifiers by gender: mAP, Ratio, leakage", "twelve ways to train on the world, three seeds"),
    Covered("T4.2", "captioners by gender", "the miniature captioner on five sets, and LIBRA's revision"),
    Covered("T4.3", "artefact test", "one body part of each test photograph drawn anew; a planted mark beside"),
    Covered("T4.4", "choices of filters", "all eight on the candidates, seen by mini:judge instead of people"),
    Covered("T4.5", "the same on OpenImages", "five ways to train on a second world, in which other things lean"),
    Covered("T4.6", "classifiers by skin tone", "photographs, and the same drawn with each skin tone"),
    Covered("T4.7", "captioners by skin tone", "the miniature captioner on both sets, words of skin tone hidden"),
    Covered(
        "Fig. 4.7-4.9", "what people see in the drawn pictures", why_not="a judge is asked; `review` has the sheet"
    ),
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
