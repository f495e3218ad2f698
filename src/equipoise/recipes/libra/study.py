"""LIBRA as a study: captions of captioners that lean, before and after a debiasing caption generator.

On the pictogram world: captioners of worlds of strength 0, 1 and 2, on clear pictures and on grainy ones, where they
have to guess; LIBRA's reviser of three seeds, and beside it, where captions lean most, revisers of as many seeds that
learnt from other pairs, and a captioner of the Gender Equalizer. Before and after are paired image by image, and LIC
split by split.
``--quick`` measures the shipped captioner and reviser alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.audit.captions.run import audit_captions
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.audit.comparison import compare
from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.recipes.libra.captioners import SHIPPED, STRENGTHS, TUNED, captioner_spec, captioner_step, tuned_steps
from equipoise.recipes.libra.revisers import SEEDS, STEPS, VARIANTS, editor_steps, reviser_steps
from equipoise.recipes.libra.tables import audit_folder, parts_of, together
from equipoise.recipes.studies.caption_files import (
    read_lines,
    write_captions,
    write_lines,
    write_people,
    write_revised,
)
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep, outside_step
from equipoise.recipes.train_mini.batches import unseen

SHOWN = ("clear", "grainy")
KEY = ("2", "grainy")
"""The captioner's strength and the pictures on which ablations are measured."""
GRAIN = 45.0
"""The standard deviation of the noise on grainy pictures, of 255."""
PICTURES = 1000
"""For each seed, other pictures."""
ENCODER = "mini:clip-fair"


def _steps(options: StudyOptions) -> list[StudyStep]:
    if len(options.models) > (options.scale == "mini"):
        raise InputError("the study takes one model at scale mini, the reviser instead of mini:dcg; leave others out")
    if options.scale == "full":
        return _full_steps()
    shipped = options.models[0] if options.models else "mini:dcg"
    seeds = tuple(options.seed + number for number in range(SEEDS))
    first = seeds[0]
    rows = [("shipped", first, "1", shown) for shown in SHOWN] if options.quick else _rows(seeds)
    steps = [] if options.quick else [captioner_step(name) for name in STRENGTHS if name not in SHIPPED]
    for name, seed, captioner, shown in rows:
        if captioner in TUNED:
            steps += [*tuned_steps(), *_equalized(first)]
        if name != "shipped":
            steps += [*editor_steps(first), *reviser_steps(name, seed)]
        steps += _after(name, seed, captioner, shown, shipped=shipped if name == "shipped" else "")
        steps += _versus(name, f"{captioner}-{shown}-{seed}")
    if not options.quick:
        steps += _together(rows)
    return list({step.name: step for step in steps}.values())  # each once, where it is needed first


def _rows(seeds: Sequence[int]) -> list[tuple[str, int, str, str]]:
    """Which reviser of which seed is applied to which captioner's captions of which pictures, in order."""
    first = seeds[0]
    shipped = [("shipped", seed, strength, "grainy") for strength in ("2", "1") for seed in seeds]
    shipped += [("shipped", seed + SEEDS, *KEY) for seed in seeds]
    fair = [("shipped", first, "0", shown) for shown in SHOWN[::-1]]
    others = [(name, first, *KEY) for name in VARIANTS]
    equalized = ("libra", first, "plain", KEY[1])
    seeded = [(name, seed, *KEY) for seed in seeds[1:] for name in VARIANTS]
    return [*shipped, *fair, *others[:2], equalized, *others[2:], *seeded]


def _pictures(seed: int) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.demo_parts import grainy
        from equipoise.world import preset
        from equipoise.world.tables import write_table

        world = preset("biased").changed(activity_share=0.0)
        table = write_table(out / "clear", world, PICTURES, seed=unseen(seed))
        ids, pictures = zip(*table.images(), strict=True)
        noisy = grainy(list(pictures), seed, GRAIN)
        rows = [{"image_id": i, "image": encode(picture)} for i, picture in zip(ids, noisy, strict=True)]
        Table.create(out / "grainy", rows)
        write_people(out / "people.jsonl", table)

    settings = {"n": PICTURES, "seed": unseen(seed), "grain": GRAIN}
    cost = StepCost(images=2 * PICTURES, cpu_minutes=0.2, disk_gb=0.03)
    title = f"Pictures of a world in which occupations lean, clear and grainy, seed {seed}"
    return StudyStep(f"pictures-{seed}", title, work, settings, (), False, cost)


def _captions(captioner: str, shown: str, seed: int) -> StudyStep:
    trained = captioner not in SHIPPED

    def work(home: StudyHome, out: Path) -> None:
        table = Table.open(home.step(f"pictures-{seed}") / shown)
        write_captions(out / "captions.jsonl", captioner_spec(home, captioner), table)

    needs = (f"pictures-{seed}", *([f"captioner-{captioner}"] if trained else []))
    title = f"Captions by the captioner {_told(captioner)}, {shown} pictures, seed {seed}"
    cost = StepCost((SHIPPED.get(captioner, f"captioner-{captioner}"),), images=PICTURES, cpu_minutes=0.1)
    return StudyStep(f"captions-{captioner}-{shown}-{seed}", title, work, {}, needs, True, cost)


def _told(captioner: str) -> str:
    return f"of strength 2, {TUNED[captioner]}" if captioner in TUNED else f"of strength {captioner}"


def _after(name: str, seed: int, captioner: str, shown: str, *, shipped: str) -> list[StudyStep]:
    """Captions, as written and revised, what is measured of both, and the change."""
    label = f"{captioner}-{shown}-{seed}"
    reviser = "" if shipped else f"reviser-{name}-{seed}"

    def work(home: StudyHome, out: Path) -> None:
        spec = shipped or f"hf:{home.step(reviser) / 'run'}"
        table = Table.open(home.step(f"pictures-{seed}") / shown)
        write_revised(out / "captions.jsonl", spec, home.step(f"captions-{label}") / "captions.jsonl", table, seed)

    needs = (f"captions-{label}", *([reviser] if reviser else []))
    title = f"Captioner {_told(captioner)}, {shown}, seed {seed}: revised by {name}"
    cost = StepCost((shipped or reviser,), images=PICTURES, cpu_minutes=0.25)
    revised = StudyStep(f"revised-{name}-{label}", title, work, {"reviser": shipped}, needs, True, cost)
    audit = _audit(f"after-{name}-{label}", revised.name, seed)
    before = _before(captioner, shown, seed)
    change = _change(f"change-{name}-{label}", title, audit.name, before[-1].name)
    return [*before, revised, audit, change]


def _before(captioner: str, shown: str, seed: int) -> list[StudyStep]:
    captions = _captions(captioner, shown, seed)
    return [_pictures(seed), captions, _audit(f"before-{captioner}-{shown}-{seed}", captions.name, seed)]


def _change(name: str, title: str, after: str, before: str) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        compare(audit_folder(home, after), audit_folder(home, before), out / "comparison")

    return StudyStep(name, f"{title}: the change", work, {}, (after, before), False, StepCost(cpu_minutes=0.03))


def _versus(name: str, label: str) -> list[StudyStep]:
    """LIBRA less another reviser of the study, on the same captions; nothing for LIBRA itself and for what ships."""
    if name in ("libra", "shipped"):
        return []
    ours, theirs = (f"after-{reviser}-{label}" for reviser in ("libra", name))
    return [_change(f"versus-{name}-{label}", f"LIBRA less {name}, {label}", ours, theirs)]


def _together(rows: Sequence[tuple[str, int, str, str]]) -> list[StudyStep]:
    """The captions of all seeds in one audit, where there are several: one interval over all pictures."""
    seeds_of: dict[tuple[str, str, str], list[int]] = {}
    for name, seed, captioner, shown in rows:
        seeds_of.setdefault((name, captioner, shown), []).append(seed)
    steps = []
    for (name, captioner, shown), every in seeds_of.items():
        parts = [every, *([every[:SEEDS], every[SEEDS:]] if len(every) > SEEDS else [])]
        for seeds in parts if len(every) > 1 else []:
            label, of = f"{captioner}-{shown}", together(seeds)
            before = _audit_of_all(f"before-{label}-{of}", f"captions-{label}", seeds)
            after = _audit_of_all(f"after-{name}-{label}-{of}", f"revised-{name}-{label}", seeds)
            title = f"Captioner {_told(captioner)}, {shown}, seeds {of}: revised by {name}"
            steps += [before, after, _change(f"change-{name}-{label}-{of}", title, after.name, before.name)]
            steps += _versus(name, f"{label}-{of}")
    return steps


def _audit_of_all(name: str, captions: str, seeds: Sequence[int]) -> StudyStep:
    """As :func:`_audit`, without CLIPScore; an image's id begins with its seed."""

    def work(home: StudyHome, out: Path) -> None:
        def lines(step: str, file: str) -> Iterable[Mapping[str, Any]]:
            for seed in seeds:
                for row in read_lines(home.step(f"{step}-{seed}") / file):
                    yield row | {"image_id": f"{seed}-{row['image_id']}"}

        people, said = out / "inputs" / "people.jsonl", out / "inputs" / "captions.jsonl"
        write_lines(people, lines("pictures", "people.jsonl"))
        write_lines(said, lines(captions, "captions.jsonl"))
        settings = CaptionSettings(lexicon="equipoise", permutations=20, ba_least=20, seed=seeds[0])
        audit_captions([f"captions={said}"], people, "gender", out / "audit", settings=settings, say=home.say)

    needs = tuple(f"{step}-{seed}" for step in ("pictures", captions) for seed in seeds)
    title = f"LIC, Error and quality of {captions}, seeds {together(seeds)}"
    return StudyStep(name, title, work, {}, needs, True, StepCost(cpu_minutes=0.25))


def _equalized(seed: int) -> list[StudyStep]:
    """The captioner of the Equalizer against its plain twin, on the pictures of the ablations."""
    shown = KEY[1]
    both = [_before(captioner, shown, seed) for captioner in TUNED]
    change = f"change-equalizer-plain-{shown}-{seed}"
    title = "The Equalizer instead of cross-entropy alone"
    return [*both[0], *both[1], _change(change, title, both[1][-1].name, both[0][-1].name)]


def _audit(name: str, captions: str, seed: int) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        settings = CaptionSettings(lexicon="equipoise", permutations=20, ba_least=20, seed=seed)
        pictures = home.step(f"pictures-{seed}")
        audit_captions(
            [f"captions={home.step(captions) / 'captions.jsonl'}"],
            pictures / "people.jsonl",
            "gender",
            out,
            images=pictures / "clear",
            encoder=ENCODER,
            settings=settings,
            say=home.say,
        )

    title = f"LIC, Error, quality and CLIPScore of {captions}"
    cost = StepCost((ENCODER,), cpu_minutes=0.1)
    return StudyStep(name, title, work, {"encoder": ENCODER}, (f"pictures-{seed}", captions), True, cost)


def _full_steps() -> list[StudyStep]:
    coco = "COCO train2014 and val2014 images and captions"
    people = "perceived gender of Zhao et al. (2021): 10,780 images of val2014"
    captioners = ("NIC", "SAT", "FC", "Att2in", "UpDn", "Transformer", "OSCAR", "ClipCap", "GRIT")

    return [
        outside_step(
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
        outside_step(
            "pairs",
            "libra synthesise captions_train2014.json --lexicon libra --filler hf:t5-base --mix 0:1:1: 114,568 pairs",
            models=("bert:bert-base-uncased", "hf:t5-base"),
            data=(coco,),
            gpu_hours=8,
        ),
        outside_step(
            "reviser",
            "libra fit pairs --images train2014 --encoder hf:dandelin/vilt-b32-mlm --decoder hf:gpt2, three seeds",
            models=("hf:dandelin/vilt-b32-mlm", "hf:gpt2"),
            data=(coco,),
            images=3 * 5 * 114_568,
            gpu_hours=3 * 7,
            disk_gb=3 * 1.1,
        ),
        outside_step(
            "ablations",
            "Eight further revisers: mixes, filters, hidden words, random perturbation, editor without biased captions",
            models=("hf:dandelin/vilt-b32-mlm", "hf:distilgpt2"),
            images=8 * 5 * 114_568,
            gpu_hours=8 * 5,
            disk_gb=11,
        ),
        outside_step("apply", "libra apply: nine captioners, eleven revisers", images=11 * 9 * 10_780, gpu_hours=18),
        outside_step(
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
    Covered("T3.2", "captioners before and after LIBRA", "captioners of strengths 0, 1 and 2"),
    Covered("T3.4, T3.8", "LIBRA against a caption editor (ENT)", "an editor without biased captions"),
    Covered("T3.5, T3.10", "mixes of swap, fill and merged", "a reviser for each, and without each kind"),
    Covered("T3.6, T3.11", "synthesis against random perturbation", "a reviser of perturbed captions"),
    Covered("T3.9", "without hidden words", "a reviser that reads every word"),
    Covered("T3.3", "LIBRA against the Gender Equalizer", "the captioner of strength 2 taught on by its losses"),
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
        f"Revisers of the study begin from one editor and learn for {STEPS} steps; mini:dcg learnt for 500 from its "
        "own start. Seeds differ in pictures, pairs, words hidden and order.",
        "The grain was chosen on other pictures, before the study was run; captioners of strengths 0 and 2 go on from "
        "that of strength 1.",
    ),
)
