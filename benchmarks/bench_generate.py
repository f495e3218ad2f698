"""What sharing attention costs: a joint set of 12 beside the plain call of the pipeline for 12 prompts.

And what inpainting a table costs beside the pipeline's calls alone: reading, masks, prompts, labels and writing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

N = 12
STEPS = 6
LIMIT = 1.1
REPEATS = 3
PHOTOGRAPHS = 8
INPAINT_LIMIT = 1.15


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


def inpainting() -> tuple[float, float, int]:
    """The median over repeats of ``generate inpaint`` over its own calls of the pipeline, repeated alone.

    Also the seconds of the calls for each image, and how many images there are.
    """
    import torch

    from equipoise.generate import InpaintConfig, plan_inpaint
    from equipoise.generate import run as generate
    from equipoise.models import load
    from equipoise.world import preset
    from equipoise.world.tables import write_table

    model: Any = load("mini:inpaint", kind="generator")
    calls: list[dict[str, Any]] = []
    made = model._made

    def noted(**call: Any) -> Any:
        calls.append(call)
        return made(**call)

    def alone() -> None:
        for call in calls:
            noise = [torch.Generator("cpu").manual_seed(i) for i in range(len(call["prompt"]))]
            model.pipeline(**{**call, "generator": noise})

    found, seconds = [], []
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as home:
        world = preset("spurious").changed(activity_share=0.0)
        source = write_table(Path(home) / "photographs", world, PHOTOGRAPHS, seed=1)
        how = {"guidance": (model.brings["guidance"],), "steps": model.brings["steps"]}
        config = InpaintConfig(axis="gender", groups=("female", "male"), per_group=2, dilation=2.0, **how)
        for repeat in range(REPEATS + 1):  # the first one warms up and notes the calls
            model._made = made if repeat else noted
            started = time.process_time()
            table = generate(plan_inpaint(source, config), Path(home) / f"drawn-{repeat}", model, progress=False)
            ours = time.process_time() - started
            started = time.process_time()
            alone()
            bare = time.process_time() - started
            if repeat:
                found.append(ours / bare)
                seconds.append(bare / len(table))
    return sorted(found)[REPEATS // 2], sorted(seconds)[REPEATS // 2], len(table)


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
    value, seconds, n = inpainting()
    yield {
        "name": f"inpainting {PHOTOGRAPHS} photographs of a table, {n} pictures, over the pipeline's calls",
        "value": value,
        "unit": "x",
        "limit": INPAINT_LIMIT,
        "ok": value <= INPAINT_LIMIT,
        "note": f"the calls alone {seconds:.2f} s per picture",
    }
