"""Contamination as a study: what generated images do to the models that learn from them.

On the pictogram world: for each seed a table of real pairs, one picture of every kind of replacement for each of them,
nested D(alpha), a CLIP trained on every D(alpha) of every arm and a captioner on those of one arm, all from one start
and with paired batches; the truth of every D(alpha), counted by the judge; and generators that learn from mixtures with
their own pictures. ``--quick`` has three shares and one seed; at full scale the study names the paper's models and
data, every step with its hours and disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.recipes.contamination.settings import ARMS, ContaminationSettings, settings_of
from equipoise.recipes.contamination.tables import parts_of
from equipoise.recipes.studies.common import write_csv
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep, outside_step

PICTURES, MODEL, ROWS, TRUTH = "pictures", "model", "rows.csv", "truth.json"
CLIP_RATE, CAPTIONER_RATE, START_RATE = 1.5e-3, 1e-3, 2e-3
BATCH = 32


def _steps(options: StudyOptions) -> list[StudyStep]:
    chosen = settings_of(options)
    if options.models:
        raise InputError("the study trains its models itself; leave --models out")
    if options.scale == "full":
        return _full_steps(chosen)
    seeds = range(options.seed, options.seed + chosen.seeds)
    steps = [_start(chosen)]
    for seed in seeds:
        steps += _sources(seed, chosen)
    arms = [(seed, arm, alpha) for arm, alpha in _cells(chosen) for seed in seeds]
    steps += [_data(*cell, chosen) for cell in arms]
    steps += [_clip(*cell, chosen) for cell in arms]
    steps += [_shown(seed, chosen) for seed in seeds]
    steps += _generations(options.seed, chosen)
    for seed, arm, alpha in arms:
        if chosen.captioned if arm == "real" else arm in chosen.captioned:
            steps.append(_captioner(seed, arm, alpha, chosen))
    return steps


def _cells(chosen: ContaminationSettings) -> Iterator[tuple[str, float]]:
    """Every arm and share; nothing is replaced at 0, which is one for all arms."""
    if 0.0 in chosen.shares:
        yield "real", 0.0
    for arm in chosen.arms:
        yield from ((arm, alpha) for alpha in chosen.shares if alpha > 0)


def _start(chosen: ContaminationSettings) -> StudyStep:
    sizes: dict[str, Any] = {"pictures": chosen.start_pictures, "steps": chosen.start_steps, "rate": START_RATE}

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.contamination.models import start_clip

        start_clip(out, **sizes)

    cost = StepCost(("mini:clip-fair",), images=chosen.start_pictures, cpu_minutes=0.6, disk_gb=0.02)
    return StudyStep("start", "The CLIP that all begin from: it knows no work", work, sizes, (), True, cost)


def _sources(seed: int, chosen: ContaminationSettings) -> list[StudyStep]:
    """The real pictures of a seed, and what can take their place."""
    from equipoise.recipes.contamination import data

    about = {"n": chosen.pictures, "seed": seed}
    needs = (f"real-{seed}",)
    size = 0.000006 * chosen.pictures

    def real(home: StudyHome, out: Path) -> None:
        data.seen_by_judge(data.real_table(out / PICTURES, chosen.pictures, seed), out / data.SEEN)

    def maker(arm: str) -> Any:
        def work(home: StudyHome, out: Path) -> None:
            source, target = _pictures(home, f"real-{seed}"), out / PICTURES
            if arm == "placebo":
                table = data.placebo_table(source, target, seed)
            elif arm == "blurred":
                table = data.blurred_table(_pictures(home, f"biased-{seed}"), target)
            else:
                table = data.generated_table(source, target, data.GENERATORS[arm], seed)
            data.seen_by_judge(table, out / data.SEEN)

        return work

    world = {"strength": data.STRENGTH, "mention": data.MENTION}
    few = StepCost(cpu_minutes=0.1, disk_gb=size)
    steps = [StudyStep(f"real-{seed}", f"Real pictures, seed {seed}", real, about | world, (), True, few)]
    needed: tuple[str, ...] = ("biased",) if "blurred" in chosen.arms else ()
    needed = ("biased", "placebo") if chosen.generations else needed
    for arm in dict.fromkeys((*needed, *chosen.arms)):
        how: dict[str, Any] = {"denoising": data.DENOISING} if arm in data.GENERATORS else {}
        how |= {"blur": data.BLUR} if arm == "blurred" else {}
        minutes = 0.0026 * chosen.pictures if arm in data.GENERATORS else 0.1
        models = (data.GENERATORS[arm],) if arm in data.GENERATORS else ()
        cost = StepCost((*models, "mini:judge"), images=chosen.pictures, cpu_minutes=minutes, disk_gb=size)
        after = (*needs, *([f"biased-{seed}"] if arm == "blurred" else []))
        title = f"Seed {seed}: {ARMS[arm]}"
        steps.append(StudyStep(f"{arm}-{seed}", title, maker(arm), {"arm": arm, **how}, after, True, cost))
    return steps


def _pictures(home: StudyHome, step: str) -> Table:
    return Table.open(home.step(step) / PICTURES)


def _label(arm: str, seed: int, alpha: float) -> str:
    return f"{arm}-{seed}-{alpha:g}"


def _data(seed: int, arm: str, alpha: float, chosen: ContaminationSettings) -> StudyStep:
    sources = (f"real-{seed}", *([f"{arm}-{seed}"] if alpha else []))

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.contamination import data

        real, *replacements = (_pictures(home, name) for name in sources)
        table = data.mixture(real, replacements, alpha, out, seed)
        truth, odds = data.truth_of_mixture(table, data.judged_of([home.step(name) for name in sources]))
        write_csv(out / "odds.csv", odds)
        write_whole(out / TRUTH, (json.dumps(truth) + "\n").encode())

    title = f"D({alpha:g}), {arm}, seed {seed}, and its truth"
    cost = StepCost(cpu_minutes=0.01, disk_gb=0.000006 * chosen.pictures)
    return StudyStep(f"data-{_label(arm, seed, alpha)}", title, work, {"alpha": alpha}, sources, True, cost)


def _trained(home: StudyHome, task: str, label: str, alpha: float, seed: int, out: Path, **how: Any) -> None:
    from equipoise.recipes.contamination.data import mixture_folder
    from equipoise.recipes.contamination.models import paired_training

    sources = _pictures(home, f"real-{seed}").to_pandas(["image_id"])["image_id"].tolist()
    table = Table.open(mixture_folder(home.step(f"data-{label}"), alpha))
    paired_training(task, table, sources, out, batch=BATCH, seed=seed, **how)


def _clip(seed: int, arm: str, alpha: float, chosen: ContaminationSettings) -> StudyStep:
    label = _label(arm, seed, alpha)

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.contamination.measures import clip_rows

        init, frozen = f"hf:{home.step('start') / 'start'}", "vision_model"
        how = {"init": init, "freeze": frozen, "steps": chosen.clip_steps, "rate": CLIP_RATE}
        _trained(home, "clip", label, alpha, seed, out / MODEL, **how)
        write_csv(out / ROWS, clip_rows(out / MODEL, chosen.tested))

    settings = {"steps": chosen.clip_steps, "rate": CLIP_RATE, "batch": BATCH, "tested": chosen.tested}
    cost = StepCost(images=chosen.clip_steps * BATCH, cpu_minutes=0.07, disk_gb=0.004)
    title = f"A CLIP of D({alpha:g}), {arm}, seed {seed}"
    return StudyStep(f"clip-{label}", title, work, settings, ("start", f"data-{label}"), True, cost)


def _captioner(seed: int, arm: str, alpha: float, chosen: ContaminationSettings) -> StudyStep:
    label = _label(arm, seed, alpha)

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.models import load
        from equipoise.recipes.contamination.measures import caption_rows

        how = {"init": "mini:captioner", "freeze": "encoder", "steps": chosen.captioner_steps, "rate": CAPTIONER_RATE}
        _trained(home, "captioner", label, alpha, seed, out / MODEL, **how)
        captioner = load(f"hf:{out / MODEL}", kind="captioner")
        rows, said = caption_rows(captioner, load("mini:clip-fair", kind="encoder"), chosen.tested)
        write_whole(out / "captions.txt", ("\n".join(said) + "\n").encode())
        write_csv(out / ROWS, rows)

    settings = {"steps": chosen.captioner_steps, "rate": CAPTIONER_RATE, "batch": BATCH, "tested": chosen.tested}
    models = ("mini:captioner", "mini:clip-fair")
    cost = StepCost(models, images=chosen.captioner_steps * BATCH, cpu_minutes=0.12, disk_gb=0.006)
    title = f"A captioner of D({alpha:g}), {arm}, seed {seed}"
    return StudyStep(f"captioner-{label}", title, work, settings, (f"data-{label}",), True, cost)


def _shown(seed: int, chosen: ContaminationSettings) -> StudyStep:
    kinds = ("real", *chosen.arms)

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.contamination.data import SEEN
        from equipoise.recipes.contamination.shown import write_shown

        seen = {kind: pd.read_csv(home.step(f"{kind}-{seed}") / SEEN) for kind in kinds}
        write_shown(out, {kind: _pictures(home, f"{kind}-{seed}") for kind in kinds}, seen)

    needs = tuple(f"{kind}-{seed}" for kind in kinds)
    cost = StepCost(("mini:detector",), cpu_minutes=0.2)
    return StudyStep(f"shown-{seed}", f"What the pictures show, seed {seed}", work, {}, needs, False, cost)


def _generations(seed: int, chosen: ContaminationSettings) -> list[StudyStep]:
    if not chosen.generations:
        return []
    numbers = range(1, chosen.generations + 1)
    later = [_generation(seed, mode, number, chosen) for mode in chosen.modes for number in numbers]
    return [_generation_zero(seed, chosen), *later]


def _generation_zero(seed: int, chosen: ContaminationSettings) -> StudyStep:
    """The pictures of the generator as it comes, and other renders, which are the yardstick."""
    needs = (f"real-{seed}", f"biased-{seed}", f"placebo-{seed}")

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.contamination.shown import in_order

        real = _real_rows(home, seed, chosen.again)
        for kind in ("biased", "placebo"):
            pictures = in_order(_pictures(home, f"{kind}-{seed}"), real["image_id"].tolist())
            _measured_generation(out, f"rows-{kind}.csv", pictures, real)
            if kind == "biased":
                _keep(out / PICTURES, pictures)

    about = {"n": chosen.again}
    few = StepCost(images=chosen.again, cpu_minutes=0.3)
    return StudyStep("generation-0", "The generator as it comes", work, about, needs, True, few)


def _generation(seed: int, mode: str, number: int, chosen: ContaminationSettings) -> StudyStep:
    name = f"generation-{mode}-{number}"
    before = [f"generation-{mode}-{n}" if n else "generation-0" for n in range(number)]

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.models import load
        from equipoise.models.miniatures import FOLDER
        from equipoise.recipes.contamination import generations
        from equipoise.recipes.contamination.data import DENOISING

        real = _real_rows(home, seed, chosen.again)
        texts = real["caption"].tolist()
        generated = [list(zip(texts, _kept(home.step(step) / PICTURES), strict=True)) for step in before]
        own = list(zip(texts, real["picture"], strict=True))
        pairs = generations.mixed_pictures(own, generated, mode, chosen.again_alpha, seed)
        start = FOLDER / generations.FIRST_GENERATOR.removeprefix("mini:")
        start = home.step(before[-1]) / MODEL if number > 1 else start
        if not (out / MODEL).is_dir():
            generations.fitted_generator(
                start, pairs, out / MODEL, out / "_work", steps=chosen.again_steps, seed=seed, say=home.say
            )
        generator = load(f"diffusers:{out / MODEL}", kind="generator")
        pictures = generator.generate(texts, seed=seed + number, steps=DENOISING)
        _measured_generation(out, ROWS, pictures, real)
        _keep(out / PICTURES, pictures)

    settings = {"mode": mode, "steps": chosen.again_steps, "alpha": chosen.again_alpha, "n": chosen.again}
    title = f"Generation {number} of the generator, {mode}"
    cost = StepCost(("mini:diffusion-biased",), images=chosen.again, cpu_minutes=0.5, disk_gb=0.02)
    return StudyStep(name, title, work, settings, (f"real-{seed}", *before), True, cost)


def _real_rows(home: StudyHome, seed: int, n: int) -> pd.DataFrame:
    """The first ``n`` real pictures with caption, occupation, and whether the caption leaves the gender open."""
    from equipoise.recipes.contamination.data import named_axes, real_world
    from equipoise.world.tables import scene_of

    table, world = _pictures(home, f"real-{seed}"), real_world()
    frame = table.to_pandas(["image_id", "caption", "subject", "params"]).head(n)
    shown = dict(table.images())
    unnamed = ["gender" not in named_axes(scene_of(params, world)) for params in frame["params"]]
    pictures = pd.Series([shown[name] for name in frame["image_id"]], index=frame.index, dtype=object)
    return frame.assign(unnamed=unnamed, picture=pictures)


def _measured_generation(out: Path, name: str, pictures: Any, real: pd.DataFrame) -> None:
    from equipoise.models import load
    from equipoise.recipes.contamination.generations import generation_rows

    encoder = load("mini:clip-fair", kind="encoder")
    texts, works, unnamed = (real[column].tolist() for column in ("caption", "subject", "unnamed"))
    rows = generation_rows(pictures, texts, works, unnamed, real["picture"].tolist(), encoder)
    write_csv(out / name, rows)


def _keep(folder: Path, pictures: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures):
        write_whole(folder / f"{number:04d}.png", encode(picture))


def _kept(folder: Path) -> list[Image.Image]:
    return [Image.open(path).convert("RGB") for path in sorted(folder.glob("*.png"))]


CC3M, COCO = 2_772_289, 82_783
GENERATOR = "diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5"
_SECONDS = 0.9
"""Of one A100 for a picture of 512 pixels and 50 steps in half precision."""


def _full_steps(chosen: ContaminationSettings) -> list[StudyStep]:
    """What has to be done, in the order in which it is; nothing of it is run from here."""
    some = [alpha for alpha in chosen.shares if alpha > 0]
    models = chosen.seeds * len(chosen.shares)
    train = "accelerate launch -m equipoise train"
    return [
        outside_step(
            "real",
            "table import cc3m CC3M -o cc3m; table import coco train2014 -o coco",
            "the images of CC3M and COCO must be downloaded by whoever may; then: equipoise table import",
            data=("CC3M, 2,772,289 live images", "COCO 2014 train, 82,783 images"),
            images=CC3M + COCO,
            disk_gb=420 + 13,
        ),
        outside_step(
            "generated",
            f"generate substitute cc3m --alpha {max(some, default=1):g} --generator {GENERATOR} --engine ray "
            "-o d-cc3m; the same of coco",
            models=(GENERATOR,),
            images=CC3M + COCO,
            gpu_hours=(CC3M + COCO) * _SECONDS / 3600,
            disk_gb=0.00009 * (CC3M + COCO),
        ),
        outside_step(
            "mixtures",
            f"generate substitute: D(alpha) for {', '.join(f'{a:g}' for a in chosen.shares)}, nested",
            disk_gb=len(some) * 0.0001 * (CC3M + COCO),
        ),
        outside_step(
            "clips",
            f"{train} clip D(alpha) --init hf:openai/clip-vit-base-patch32 --fresh --batch 1024 --epochs 30: {models} "
            "models; OpenCLIP's own loop does as well, its folders are read by open_clip:",
            models=("hf:openai/clip-vit-base-patch32 (its form, new weights)", "open_clip:ViT-B-32"),
            images=models * 30 * CC3M,
            gpu_hours=models * 110,
            disk_gb=models * 0.6,
        ),
        outside_step(
            "captioners",
            f"{train} captioner D(alpha) of COCO: ClipCap and ViT+BERT, {2 * models} models",
            models=(
                "ClipCap (hf:openai/clip-vit-base-patch32 + hf:gpt2)",
                "hf:google/vit-base-patch16-224 + hf:bert-base-uncased",
            ),
            images=2 * models * 10 * COCO,
            gpu_hours=2 * models * 7,
            disk_gb=2 * models * 0.9,
        ),
        outside_step(
            "measured",
            "audit recall-gap and faces, captions: R@k on COCO 1K, Flickr30k and by group on PHASE (baby & child "
            "merged); self-similarity and person preference on FairFace; LIC, Error and quality on COCO val",
            data=(
                "PHASE on CC3M val (reader phase)",
                "FairFace, all of it (reader fairface)",
                "Flickr30k test (reader flickr30k)",
                "COCO 2014 val with perceived gender and skin tone of Zhao et al. (2021) (reader coco_gender_skin)",
            ),
            gpu_hours=models * 1.5,
            cpu_minutes=2 * models * 55,
        ),
        *_full_generations(chosen),
    ]


def _full_generations(chosen: ContaminationSettings) -> list[StudyStep]:
    if not chosen.generations:
        return []
    runs = chosen.generations * len(chosen.modes)
    return [
        outside_step(
            "generations",
            f"{chosen.generations} generations, {' and '.join(chosen.modes)}: Stable Diffusion fine-tuned on D(alpha) "
            "of COCO with diffusers' train_text_to_image.py, then generate substitute",
            models=(GENERATOR,),
            images=runs * COCO,
            gpu_hours=runs * (24 + COCO * _SECONDS / 3600),
            disk_gb=runs * (4 + 0.00009 * COCO),
        )
    ]


COVERS = (
    Covered("T1", "captioners by alpha: LIC, Error, BLEU, CIDEr, CLIPScore", "captioners of D(alpha), grainy pictures"),
    Covered("T2, T3, F2-F4", "R@1/5/10, and by group", "CLIPs of D(alpha), 280 pictures of the fair world"),
    Covered("T5, F5", "self-similarity, normalised both ways", "the same"),
    Covered("T6, F6", "person preference", "the same"),
    Covered("F7", "sharpness of the figures", "real and generated pictures"),
    Covered("F8", "who is shown where the caption names nobody", "the judge, on real and generated pictures"),
    Covered(
        "T1: SPICE", "a metric of scene graphs", why_not="it needs Java: equipoise captions --java on the captions"
    ),
    Covered("by ethnicity", "rows of FairFace and PHASE", why_not="the world has no ethnicity; scale full has"),
)

STUDY = Study(
    name="contamination",
    title="Contamination: models that learn from generated images",
    citation="Chen et al., Would Deep Generative Models Amplify Bias in Future Models?, CVPR 2024",
    question="What happens to the bias of models when a share of their images was generated from the captions?",
    covers=COVERS,
    steps=_steps,
    parts=parts_of,
    quickens=True,
    own=ContaminationSettings,
    limits=(
        "The pictures are signs, not people; numbers of the world say what the method finds where the truth is known, "
        "not how large an effect is on photographs.",
        "All CLIPs begin from one start that can see: its eyes are those of mini:clip-fair and stay as they are, and "
        "its text tower has read captions of activities, never of work. Captioners begin as mini:captioner, which "
        "learnt from the biased world, and only their decoder learns.",
        "Captioners are trained for the biased generator alone, so that their trends have no placebo beside them.",
        "LIC is by the linear screen over three splits; skin-tone words are not hidden from it.",
    ),
)
