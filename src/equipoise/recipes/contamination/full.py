"""The study at scale ``full``: the paper's models and data, every step with its hours and disk."""

from __future__ import annotations

from typing import Any

from equipoise.recipes.contamination.settings import ContaminationSettings
from equipoise.recipes.studies.frame import StepCost, StudyStep, must_be_given

__all__ = ["full_steps"]

CC3M, COCO = 2_772_289, 82_783
GENERATOR = "diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5"
_SECONDS = 0.9
"""Of one A100 for a picture of 512 pixels and 50 steps in half precision."""


def full_steps(chosen: ContaminationSettings) -> list[StudyStep]:
    """What has to be done, in the order in which it is; nothing of it is run from here."""
    some = [alpha for alpha in chosen.shares if alpha > 0]
    models = chosen.seeds * len(chosen.shares)
    train = "accelerate launch -m equipoise train"
    return [
        _step(
            "real",
            "table import cc3m CC3M -o cc3m; table import coco train2014 -o coco",
            "the images of CC3M and COCO must be downloaded by whoever may; then: equipoise table import",
            data=("CC3M, 2,772,289 live images", "COCO 2014 train, 82,783 images"),
            images=CC3M + COCO,
            disk_gb=420 + 13,
        ),
        _step(
            "generated",
            f"generate substitute cc3m --alpha {max(some, default=1):g} --generator {GENERATOR} --engine ray "
            "-o d-cc3m; the same of coco",
            models=(GENERATOR,),
            images=CC3M + COCO,
            gpu_hours=(CC3M + COCO) * _SECONDS / 3600,
            disk_gb=0.00009 * (CC3M + COCO),
        ),
        _step(
            "mixtures",
            f"generate substitute: D(alpha) for {', '.join(f'{a:g}' for a in chosen.shares)}, nested",
            disk_gb=len(some) * 0.0001 * (CC3M + COCO),
        ),
        _step(
            "clips",
            f"{train} clip D(alpha) --init hf:openai/clip-vit-base-patch32 --fresh --batch 1024 --epochs 30: {models} "
            "models; OpenCLIP's own loop does as well, its folders are read by open_clip:",
            models=("hf:openai/clip-vit-base-patch32 (its form, new weights)", "open_clip:ViT-B-32"),
            images=models * 30 * CC3M,
            gpu_hours=models * 110,
            disk_gb=models * 0.6,
        ),
        _step(
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
        _step(
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
        *_generations(chosen),
    ]


def _generations(chosen: ContaminationSettings) -> list[StudyStep]:
    if not chosen.generations:
        return []
    runs = chosen.generations * len(chosen.modes)
    return [
        _step(
            "generations",
            f"{chosen.generations} generations, {' and '.join(chosen.modes)}: Stable Diffusion fine-tuned on D(alpha) "
            "of COCO with diffusers' train_text_to_image.py, then generate substitute",
            models=(GENERATOR,),
            images=runs * COCO,
            gpu_hours=runs * (24 + COCO * _SECONDS / 3600),
            disk_gb=runs * (4 + 0.00009 * COCO),
        )
    ]


def _step(name: str, title: str, missing: str = "", **cost: Any) -> StudyStep:
    return StudyStep(name, title, must_be_given, cost=StepCost(**cost), missing=missing)
