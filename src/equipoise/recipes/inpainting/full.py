"""The study at full scale: what has to be made where there are GPUs, with which commands, and the audits of it here."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from equipoise.audit.classify import ClassifierSettings, audit_classifier
from equipoise.errors import InputError
from equipoise.recipes.inpainting.arms import ARMS
from equipoise.recipes.studies.frame import StudyHome, StudyOptions, StudyStep, outside_step
from equipoise.train.settings import PRESETS

COCO = "COCO 2014 with captions, instances and COCO-WholeBody; perceived gender of Zhao et al. (2021)"
OPEN_IMAGES = "OpenImages with MIAP boxes"
PHOTOGRAPHS, TESTED, CANDIDATES, SEEDS = 28_487, 13_487, 30, 5
"""The paper's: photographs to learn from and to test on, pictures drawn of each and group, and runs of each model."""
MISSING = (
    "the predictions of the paper's classifiers were not released; train them (--dry-run names the commands), predict "
    "the test photographs whole, masked and with a body part redrawn, and give --from predictions=FOLDER"
)


def full_steps(options: StudyOptions) -> list[StudyStep]:
    """The audits of the predictions that were given; without any, the plan of everything that makes them."""
    given = options.given.get("predictions")
    if options.models:
        raise InputError("the study names the paper's models at scale full, and audits predictions; leave --models out")
    return _audits(Path(given)) if given else _plan()


def _audits(folder: Path) -> list[StudyStep]:
    labels = next((path for path in (folder / "labels", folder / "labels.csv") if path.exists()), None)
    if labels is None:
        raise InputError(f"{folder}: no labels; put labels.csv (image_id, objects, gender) or a table 'labels' there")
    runs = [(arm, seed) for arm in ARMS for seed in sorted(p.name for p in (folder / arm).glob("*") if p.is_dir())]
    if not runs:
        raise InputError(f"{folder}: no predictions; give ARM/SEED/test.csv, ARM one of: {', '.join(ARMS)}")
    return [_audit(folder, labels, arm, seed) for arm, seed in runs]


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
    there = [labels, *(path for path in files.values() if path.is_file())]
    reads = tuple(f"predictions/{path.relative_to(folder).as_posix()}" for path in there)
    title = f"classify-audit of {arm}, seed {seed}"
    return StudyStep(f"audit-{arm}-{seed}", title, work, resumes=False, reads=reads)


def _plan() -> list[StudyStep]:
    step = partial(outside_step, missing=MISSING)
    n, m = PHOTOGRAPHS, CANDIDATES
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
            images=TESTED,
            gpu_hours=TESTED * 2.5 / 3600,
        ),
        step("mask", "generate mask test masked --what person --by segment", images=TESTED, cpu_minutes=20),
    ]
    for name, preset in PRESETS.items():
        runs = SEEDS * (len(ARMS) - 1 + 2 if preset.task == "multilabel" else 5 + 2)
        settings = ", ".join(f"{key}={value}" for key, value in preset.settings.items())
        steps.append(
            step(
                f"train-{name}",
                f"train {preset.task} SET --preset {name} --seed 0..{SEEDS - 1}: {runs} runs ({settings})",
                models=(preset.init or f"{name}, converted",),
                gpu_hours=runs * preset.gpu_hours,
                disk_gb=runs * preset.disk_gb,
            )
        )
    steps.append(step("audit", "classify-audit and captions of every run, LIC by LSTM", cpu_minutes=600))
    return steps
