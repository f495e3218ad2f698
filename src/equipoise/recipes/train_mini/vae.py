"""The autoencoder of the generative miniatures: a stock ``AutoencoderKL``, 64 x 64 pixels to a grid of cells.

Four numbers per cell, because that is what the stock inpainting and editing pipelines take (9 = 4 + 1 + 4 and
8 = 4 + 4). How fine the grid is depends on the edition (:mod:`equipoise.recipes.train_mini.editions`). Groups of many
channels in the norms would wash the flat colours of pictograms out; two groups keep them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from equipoise.array_types import Pixels
from equipoise.recipes.train_mini.batches import SIZE, scenes_of
from equipoise.recipes.train_mini.editions import EDITIONS, Edition, edition
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.saving import save_autoencoder
from equipoise.train.loop import run
from equipoise.world import SceneArrays, WorldConfig, render_batch, sample

CROP = SIZE // 2
CHANNELS = 4
_MEASURED = 512


def world() -> WorldConfig:
    """Everything that any miniature will have to draw: all figures, every trait, and now and then the unsafe sign."""
    return WorldConfig(gender={"male": 1, "female": 1, "neutral": 0.3}, visible=0.9, unsafe=0.05)


def build(plan: Edition | None = None) -> Any:
    """An untrained ``diffusers.AutoencoderKL`` of an edition; its residual branches begin at nothing."""
    import torch
    from diffusers import AutoencoderKL

    torch.manual_seed(0)
    blocks = (plan or edition("second")).blocks
    model = AutoencoderKL(
        block_out_channels=blocks,
        down_block_types=("DownEncoderBlock2D",) * len(blocks),
        up_block_types=("UpDecoderBlock2D",) * len(blocks),
        layers_per_block=1,
        latent_channels=CHANNELS,
        norm_num_groups=2,
        sample_size=SIZE,
        mid_block_add_attention=False,
        force_upcast=False,
    )
    for name, weight in model.named_parameters():
        if ".conv2." in name:
            torch.nn.init.zeros_(weight)
    return model


def pictures(scenes: SceneArrays) -> Any:
    """(n, 3, 64, 64) the pictures as an autoencoder of ``diffusers`` sees them, from -1 to 1."""
    return seen(render_batch(scenes, SIZE))


def seen(images: Pixels) -> Any:
    """(n, 3, height, width) pictures (n, height, width, 3) as an autoencoder of ``diffusers`` sees them."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float() / 127.5 - 1


def edge_errors(drawn: Any, images: Any) -> Any:
    """The mean absolute error of the differences between neighbouring pixels, down and across, added.

    >>> import torch
    >>> step = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).expand(1, 1, 4, 4)
    >>> round(float(edge_errors(step, step)), 3), round(float(edge_errors(step * 0 + 0.5, step)), 3)
    (0.0, 0.333)
    """
    wrong = drawn - images
    down, across = wrong[..., 1:, :] - wrong[..., :-1, :], wrong[..., :, 1:] - wrong[..., :, :-1]
    return down.abs().mean() + across.abs().mean()


def train_vae(lesson: Lesson) -> None:
    """Train on crops, on whole pictures, then the decoder alone; measure the spread of the latents, and save."""
    import torch
    from torch.nn.functional import l1_loss, mse_loss

    plan = EDITIONS[lesson.edition]
    model = build(plan)
    config = world()

    def loss(vae: Any, step: int) -> Any:
        torch.manual_seed(step)  # the noise of the latents
        images = _batch(config, step, plan)
        latent = vae.encode(images).latent_dist
        latents = latent.sample()
        if plan.noise:  # in units of their spread, so that larger latents would gain nothing
            latents = latents + plan.noise * latents.std() * torch.randn_like(latents)
        drawn = vae.decode(latents).sample.float()
        spread = latent.kl().mean() / images[0].numel()
        total = l1_loss(drawn, images) + mse_loss(drawn, images) + plan.kl_weight * spread
        return total + plan.edges * edge_errors(drawn, images) if plan.edges else total

    def decoder_loss(vae: Any, step: int) -> Any:
        images = _batch(config, plan.schedule.steps + step, plan)
        with torch.no_grad():
            latent = vae.encode(images).latent_dist.mode()
        return mse_loss(vae.decode(latent).sample.float(), images)

    def finished(target: Path) -> None:
        if plan.decoder is not None:
            model.encoder.requires_grad_(False)
            model.quant_conv.requires_grad_(False)
            run(model, decoder_loss, plan.decoder, lesson.folder / "decoder", lesson.say)
        model.eval()
        model.register_to_config(scaling_factor=_scaling(model, config))
        save_autoencoder(model, target)

    lesson.learn(model, loss, plan.schedule, finished)


def _batch(config: WorldConfig, step: int, plan: Edition) -> Any:
    """Two crops of each picture, or half as many whole pictures."""
    import torch

    in_crops = step < plan.crops_until
    images = pictures(scenes_of(config, step, plan.schedule.batch // (1 if in_crops else 2) or 1, seed=4))
    if not in_crops:
        return images
    rng = np.random.default_rng(step)
    places = rng.integers(0, (SIZE - CROP) // plan.factor + 1, size=(2 * len(images), 2)) * plan.factor
    crops = [images[i // 2, :, y : y + CROP, x : x + CROP] for i, (y, x) in enumerate(places)]
    return torch.stack(crops)


def _scaling(model: Any, config: WorldConfig) -> float:
    """What the latents are multiplied with so that they vary by one."""
    import torch

    with torch.no_grad():
        scenes = sample(config, _MEASURED, seed=5)
        parts = [model.encode(pictures(scenes[i : i + 64])).latent_dist.mode() for i in range(0, _MEASURED, 64)]
    return round(1 / float(torch.cat(parts).std()), 5)
