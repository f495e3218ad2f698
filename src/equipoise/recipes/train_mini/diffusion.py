"""Text to image: a Stable-Diffusion-shaped pipeline of three million weights that stock ``diffusers`` loads.

Velocity prediction over a noise schedule that ends in pure noise (Lin et al., Common Diffusion Noise Schedules and
Sample Steps Are Flawed, WACV 2024), weighted by the signal-to-noise ratio (Hang et al., Efficient Diffusion Training
via Min-SNR Weighting Strategy, ICCV 2023); the person counts for more than the background. The text encoder begins as
``clip-fair``'s and learns along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.models.miniatures import FOLDER
from equipoise.models.runtime import bfloat16_is_fast, quiet
from equipoise.recipes.train_mini.batches import texts_of
from equipoise.recipes.train_mini.editions import (
    Edition,
    edition,
    edition_of,
    phrasing_words,
    refined,
    rephrased,
    with_difference,
)
from equipoise.recipes.train_mini.latents import LatentPool, Made, autoencoder, coarse, encoded, person_masks
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.saving import save_pipeline
from equipoise.recipes.train_mini.tokenizer import LENGTH, tokenizer, with_words
from equipoise.recipes.train_mini.vae import CHANNELS, pictures
from equipoise.train.schedule import Schedule
from equipoise.world import SceneArrays, WorldConfig, captions, neutral_prompt, vocabulary

SCHEDULE = Schedule(steps=4000, batch=64, rate=1e-3, weight_decay=0.01, again=(3000,), average=0.998, half=True)
FROM_COARSER = Schedule(
    steps=2700, batch=32, rate=8e-4, warmup=150, weight_decay=0.01, save_every=100, average=0.998, half=True
)
"""For a generator that begins as one of the edition before, whose grid is half as fine. A picture costs the same in a
batch of 32 as in one of 64, and twice as many steps are taken."""
CHUNKS, CHUNKS_FROM_COARSER = 128, 48
"""Of how many pictures they learn (512 each). To encode one costs a fifth of what a step costs for it; the second
number gives each as many turns in those fewer steps as the first, nearly four.
"""
ON = Schedule(steps=400, batch=64, rate=5e-4, warmup=30, weight_decay=0.01, save_every=50, average=0.99)
CHUNKS_ON = 16
"""For a generator that learns on from itself, with captions in several phrasings; of so many pictures (512 each)."""
BIASED = Schedule(steps=2000, batch=64, rate=4e-4, weight_decay=0.01, average=0.995, half=True)
CARRIED = Schedule(steps=800, batch=32, rate=3e-4, warmup=50, weight_decay=0.01, save_every=100, average=0.995)
"""For a biased generator that begins with what the one of another edition had learnt."""
ON_BIASED = Schedule(steps=1000, batch=32, rate=2e-4, warmup=50, weight_decay=0.01, save_every=100, average=0.998)
"""For a biased generator that learns on from itself: the late times, which settle who appears, come more often."""
GENERATION = {"guidance": 2.0, "steps": 20}
GENERATION_BIASED = {"guidance": 1.0, "steps": 20}
"""With guidance its pictures would lean further than the world that it learnt from."""
TOWER = FOLDER / "clip-fair"
START = FOLDER / "diffusion"
WIDTH = 96
HEADS = 2
"""Of every attention; ``diffusers`` calls their number ``attention_head_dim``. Many heads of two numbers are slow."""
TIMES = 1000
GAMMA = 5.0
"""Above this signal-to-noise ratio an error counts no more."""
LEAST = 0.1
"""What an error counts at least: the last step, pure noise, has a ratio of nothing and must be learnt too."""
LEAST_BIASED = 0.4
"""The same for the biased generator: who appears where the prompt does not say is settled in the noisiest steps."""
PERSON = 2.0
"""How much more an error counts inside the person."""
DROPPED, PLAIN, FULL = 0.1, 0.1, 0.4
"""Shares of captions that are empty, that name the subject alone, and that name every group."""
PLAIN_ON, FULL_ON = 0.05, 0.6
"""The same for one that learns on."""
PLAIN_FINER, FULL_FINER = 0.08, 0.55
"""The same for one that begins as one of the edition before."""
PLAIN_BIASED, FULL_BIASED = 0.5, 0.2
PLAIN_ON_BIASED, FULL_ON_BIASED = 0.7, 0.1
"""The same for the biased generator, and for one that learns on: its skew shows where a prompt names the subject alone.
"""


def world_of(config: WorldConfig) -> WorldConfig:
    """The world as a generator learns it: captions that name people often, and work that can always be seen."""
    return config.changed(mention={"gender": 0.6, "skin_tone": 0.5, "age": 0.4}, visible=1.0)


def build_unet(channels: int = CHANNELS, plan: Edition | None = None) -> Any:
    """An untrained ``diffusers.UNet2DConditionModel`` of an edition that takes ``channels`` and gives four."""
    import torch
    from diffusers import UNet2DConditionModel

    torch.manual_seed(0)
    shape = plan or edition("second")
    reads = shape.unet_reads
    return UNet2DConditionModel(
        sample_size=shape.grid,
        in_channels=channels,
        out_channels=CHANNELS,
        block_out_channels=shape.unet_blocks,
        down_block_types=tuple("CrossAttnDownBlock2D" if r else "DownBlock2D" for r in reads),
        up_block_types=tuple("CrossAttnUpBlock2D" if r else "UpBlock2D" for r in reversed(reads)),
        layers_per_block=1,
        norm_num_groups=8,
        cross_attention_dim=WIDTH,
        attention_head_dim=HEADS,
        use_linear_projection=True,
    )


def noise_schedule() -> Any:
    """The stock DDIM scheduler whose last step is pure noise; a pipeline starts there."""
    from diffusers import DDIMScheduler

    return DDIMScheduler(
        num_train_timesteps=TIMES,
        beta_schedule="scaled_linear",
        beta_start=0.00085,
        beta_end=0.012,
        clip_sample=False,
        set_alpha_to_one=True,
        steps_offset=1,
        prediction_type="v_prediction",
        timestep_spacing="trailing",
        rescale_betas_zero_snr=True,
    )


def text_tower(folder: Path) -> Any:
    """The text tower of a CLIP folder, as a ``transformers.CLIPTextModel``."""
    import torch
    from transformers import CLIPTextModel

    if not (folder / "config.json").is_file():
        raise InputError(f"this part starts from clip-fair, which is not in {folder}; train that first")
    with quiet():  # the image tower is left behind, which would be reported
        return CLIPTextModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True)


def new_reader(folder: Path, *, phrased: bool) -> tuple[Any, Any]:
    """The text tower of a CLIP folder and a tokenizer; ``phrased`` teaches it the words of other phrasings."""
    text, words = text_tower(folder), tokenizer()
    return with_phrasings(text, words) if phrased else (text, words)


def with_phrasings(text: Any, words: Any) -> tuple[Any, Any]:
    """A text encoder and its tokenizer with the words of other phrasings."""
    more = tokenizer(sorted({*vocabulary(), *phrasing_words()}))
    return with_words(text, words, more), more


def opened(folder: Path) -> tuple[Any, Any, Any]:
    """UNet, text encoder and tokenizer of a pipeline folder."""
    import torch
    from diffusers import UNet2DConditionModel
    from transformers import CLIPTextModel, CLIPTokenizer

    if not (folder / "model_index.json").is_file():
        raise InputError(f"this part starts from diffusion, which is not in {folder}; train that first")
    unet = UNet2DConditionModel.from_pretrained(folder / "unet", local_files_only=True, low_cpu_mem_usage=False)
    with quiet():
        text = CLIPTextModel.from_pretrained(folder / "text_encoder", dtype=torch.float32, local_files_only=True)
    return unet, text, CLIPTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)


def learned(folder: Path, vae: Any) -> tuple[Any, Any, Any]:
    """UNet, text encoder and tokenizer of a pipeline folder, to go on from; its grid must be that of ``vae``."""
    unet, text, words = opened(folder)
    grid = edition_of(vae).grid
    if unet.config.sample_size != grid:
        raise InputError(
            f"{folder} draws on a grid of {unet.config.sample_size} cells per side and the autoencoder has {grid}; "
            "give a generator and an autoencoder of one edition"
        )
    return unet, text, words


def widened(unet: Any, channels: int) -> Any:
    """The UNet with more channels to read, which it ignores at first."""
    import torch

    wide = unet.__class__.from_config(unet.config, in_channels=channels)
    weights = unet.state_dict()
    narrow = weights["conv_in.weight"]
    weights["conv_in.weight"] = torch.zeros_like(wide.state_dict()["conv_in.weight"])
    weights["conv_in.weight"][:, : narrow.shape[1]] = narrow
    wide.load_state_dict(weights)
    return wide


def quick_to_train(unet: Any, *, half: bool) -> Any:
    """The UNet as a CPU trains it soonest: channels last, and the attention that suits the numbers.

    In bfloat16 (``half``) the gradients of matrix products and a softmax cost a third less than those of the fused
    attention that ``diffusers`` comes with; in float32 they cost more, and it stays.
    """
    import torch
    from diffusers.models.attention_processor import AttnProcessor

    if half:
        unet.set_attn_processor(AttnProcessor())
    return unet.to(memory_format=torch.channels_last)


def ids_of(words: Any, texts: Sequence[str]) -> Any:
    """(n, 24) token ids as the stock pipelines make them: cut and padded to the full length, with no mask."""
    return words(list(texts), padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt").input_ids


def prompts_to_learn(
    scenes: SceneArrays, step: int, *, plain: float = PLAIN, full: float = FULL, phrased: bool = False
) -> list[str]:
    """A caption for each scene: most as the world tells them, some name everything, the subject alone, or nothing.

    ``phrased`` says many of them in other words for the same people.
    """
    rng = np.random.default_rng([9, step])
    kinds, which = rng.random(len(scenes)), rng.integers(0, 5, size=len(scenes))
    texts = texts_of(scenes, step, plain=0.1)
    prompts = []
    for i, scene in enumerate(scenes):
        if kinds[i] < DROPPED:
            prompts.append("")
        elif kinds[i] < DROPPED + plain:
            prompts.append(neutral_prompt(scene.subject))
        elif kinds[i] < DROPPED + plain + full:
            prompts.append(captions(scene, 5, "full")[which[i]])
        else:
            prompts.append(texts[i])
    if phrased:
        draws = np.random.default_rng([12, step])
        return [rephrased(text, draws) for text in prompts]
    return prompts


def denoising_loss(
    model: Any,
    noises: Any,
    latents: Any,
    ids: Any,
    person: Any,
    step: int,
    condition: Any = None,
    *,
    least: float = LEAST,
    noisier: bool = False,
) -> Any:
    """How wrong the velocity is at a time of its own for each picture; times are spread evenly over a batch.

    ``condition`` is appended to the channels that the UNet reads. ``noisier`` takes late times more often, by a
    density that rises with time.
    """
    import torch

    rng = torch.Generator().manual_seed(step)
    n = len(latents)
    noise = torch.randn(latents.shape, generator=rng)
    even = (torch.arange(n) + torch.rand(n, generator=rng)) / n
    times = ((even.sqrt() if noisier else even) * TIMES).long().clamp(max=TIMES - 1)
    noisy = noises.add_noise(latents, noise, times)
    wanted = noises.get_velocity(latents, noise, times)
    given = noisy if condition is None else torch.cat([noisy, condition], dim=1)
    states = model["text"](ids).last_hidden_state
    denoised = model["unet"](given, times, encoder_hidden_states=states).sample.float()
    signal = noises.alphas_cumprod[times]
    ratio = signal / (1 - signal)
    weight = (ratio.clamp(max=GAMMA) / (ratio + 1)).clamp(min=least)
    where = 1 + PERSON * person
    error = (denoised - wanted).square() * (where / where.mean(dim=(1, 2, 3), keepdim=True))
    return (error.mean(dim=(1, 2, 3)) * weight).mean()


def train_biased(lesson: Lesson) -> None:
    """Train the biased generator, which goes on from the fair one."""
    train_diffusion(lesson, go_on=True)


def train_diffusion(lesson: Lesson, *, go_on: bool = False) -> None:
    """Train on the lesson's world and save the pipeline; ``go_on`` starts from the fair generator's weights.

    Then captions that say more of an unexpected gender are left out: they would bend the skew of those that say none.
    Without ``go_on``, ``start`` is a generator of the same edition, which learns on, or of the edition before, which
    becomes the inside of the new one. ``before`` holds the miniatures of another edition: with ``go_on``, what its
    biased generator learnt beyond its fair one is added to the start.
    """
    start, before, steps = lesson.start, lesson.before, lesson.steps
    vae = autoencoder(lesson.vae)
    plan, chunks = edition_of(vae), CHUNKS
    if go_on:
        unet, text, words = learned(start or START, vae)
        schedule, shares = BIASED, {"plain": PLAIN_BIASED, "full": FULL_BIASED}
    elif start is None:
        unet, (text, words) = build_unet(plan=plan), new_reader(TOWER, phrased=plan.phrased)
        schedule, shares = SCHEDULE, {}
    else:
        unet, text, words = opened(start)
        if unet.config.sample_size == plan.grid:
            schedule, shares = ON, {"plain": PLAIN_ON, "full": FULL_ON}
        else:
            unet, schedule, chunks = refined(unet, build_unet(plan=plan), plan), FROM_COARSER, CHUNKS_FROM_COARSER
            shares = {"plain": PLAIN_FINER, "full": FULL_FINER}
    learns_on = go_on or start is not None
    phrased = plan.phrased or (start is not None and steps is not None)
    if learns_on and phrased:
        text, words = with_phrasings(text, words)
    if before is not None:
        unet, text = with_difference((unet, text, words), before, "diffusion-biased", opened)
        schedule = CARRIED
    further = go_on and before is None and steps is not None
    if further:
        schedule = replace(ON_BIASED, steps=steps or ON_BIASED.steps)
        shares = {"plain": PLAIN_ON_BIASED, "full": FULL_ON_BIASED}
    elif steps is not None:
        schedule = replace(schedule, steps=steps, rate=min(schedule.rate, ON.rate), half=False)
    world = world_of(lesson.world.changed(markedness={}) if go_on else lesson.world)
    chunks = chunks if steps is None or go_on else CHUNKS_ON

    def make(scenes: SceneArrays) -> Made:
        return {"latents": encoded(vae, pictures(scenes)), "person": coarse(person_masks(scenes), plan.factor)}

    pool = LatentPool(world, 7 if go_on else 6, lesson.folder / "pool", make, n_chunks=chunks)
    least = LEAST_BIASED if go_on else LEAST

    def loss(both: Any, noises: Any, step: int) -> Any:
        scenes, latents = pool.batch(step, schedule.batch)
        ids = ids_of(words, prompts_to_learn(scenes, step, phrased=phrased, **shares))
        return denoising_loss(
            both, noises, latents["latents"], ids, latents["person"], step, least=least, noisier=further
        )

    generation = GENERATION_BIASED if go_on else GENERATION
    parts = {"vae": vae, "text_encoder": text, "tokenizer": words, "unet": unet}
    train_pipeline("StableDiffusionPipeline", parts, loss, schedule, lesson, generation)


def train_pipeline(
    pipeline: str,
    parts: Mapping[str, Any],
    loss: Callable[[Any, Any, int], Any],
    schedule: Schedule,
    lesson: Lesson,
    generation: Mapping[str, float],
) -> None:
    """Train the text encoder and the UNet of ``parts``; save all as the stock ``pipeline`` unless stopped before.

    ``loss`` is given both models (``text``, ``unet``), the noise schedule, and the number of the step.
    """
    import torch

    noises = noise_schedule()
    unet = quick_to_train(parts["unet"], half=schedule.half and bfloat16_is_fast())
    model = torch.nn.ModuleDict({"text": parts["text_encoder"], "unet": unet})

    def save(target: Path) -> None:
        model.eval().to(memory_format=torch.contiguous_format)
        save_pipeline(pipeline, target, parts={**parts, "scheduler": noises}, generation=generation)

    lesson.learn(model, lambda both, step: loss(both, noises, step), schedule, save)
