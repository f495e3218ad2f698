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
    """A Stable Diffusion of the miniature's size, with random weights: time does not depend on them."""
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    from equipoise.recipes.train_mini.tokenizer import tokenizer

    torch.manual_seed(0)
    words = tokenizer()
    unet = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64, 128),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=96,
        attention_head_dim=8,
    )
    vae = AutoencoderKL(
        block_out_channels=(16, 32, 48),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        latent_channels=4,
        norm_num_groups=2,
    )
    text = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=words.model_max_length,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    made = StableDiffusionPipeline(
        vae=vae.eval(),
        text_encoder=CLIPTextModel(text).eval(),
        tokenizer=words,
        unet=unet.eval(),
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
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

    from equipoise.models.attention import run_set

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
