"""What sharing attention costs: a joint set of 12 beside the plain call of the pipeline for 12 prompts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

N = 12
STEPS = 6
LIMIT = 1.1
REPEATS = 3


def pipeline() -> Any:
    """The miniature generator; where it is not installed, one of its shapes with random weights: time is the same."""
    from equipoise.models.diffusers.generator import open_pipeline
    from equipoise.models.miniatures import FOLDER

    folder = FOLDER / "diffusion"
    if (folder / "model_index.json").is_file():
        return open_pipeline(folder, name="mini:diffusion", device="cpu").pipeline
    from diffusers import StableDiffusionPipeline

    from equipoise.recipes.train_mini import vae
    from equipoise.recipes.train_mini.diffusion import TOWER, build_unet, noise_schedule, text_tower
    from equipoise.recipes.train_mini.tokenizer import tokenizer

    made = StableDiffusionPipeline(
        vae=vae.build().eval(),
        text_encoder=text_tower(TOWER).eval(),
        tokenizer=tokenizer(),
        unet=build_unet().eval(),
        scheduler=noise_schedule(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.set_progress_bar_config(disable=True)
    return made


def prompts() -> list[str]:
    tones, genders = ("light", "medium", "dark"), ("man", "woman")
    pairs = [(tone, gender) for tone in tones for gender in genders]
    return [
        f"{age} {gender} with {tone} skin who works as a nurse" for age in ("a", "an old") for tone, gender in pairs
    ]


def ratio(made: Any, **how: Any) -> tuple[float, float]:
    """The median over repeats of joint over plain, each pair measured back to back; and the plain call's seconds."""
    import torch

    from equipoise.models.diffusers.attention import run_set

    texts = prompts()

    def plain() -> None:
        noise = [torch.Generator().manual_seed(1) for _ in texts]
        made(texts, generator=noise, num_inference_steps=STEPS, guidance_scale=7.5)

    def joint() -> None:
        run_set(made, texts, seed=1, guidance=7.5, steps=STEPS, **how)

    plain()
    joint()
    found, seconds = [], []
    for _ in range(REPEATS):
        times = []
        for call in (plain, joint):
            # Processor time: other processes on the machine must not count.
            started = time.process_time()
            call()
            times.append(time.process_time() - started)
        found.append(times[1] / times[0])
        seconds.append(times[0])
    return sorted(found)[REPEATS // 2], sorted(seconds)[REPEATS // 2]


def run() -> Iterator[dict[str, Any]]:
    """The ratio of a joint set to the plain call, for each kind of sharing."""
    import torch

    torch.set_num_threads(1)
    made = pipeline()
    for inject in ("self", "cross", "both"):
        value, seconds = ratio(made, share=0.9, inject=inject)
        yield {
            "name": f"joint set of {N}, {inject}, 0.9 of {STEPS} steps, over the plain call",
            "value": value,
            "unit": "x",
            "limit": LIMIT,
            "ok": value <= LIMIT,
            "note": f"plain {seconds:.2f} s",
        }
    value, _ = ratio(made, share=0.5, inject="both", blend=True)
    yield {"name": f"joint set of {N}, both and local blend, over the plain call", "value": value, "unit": "x"}
