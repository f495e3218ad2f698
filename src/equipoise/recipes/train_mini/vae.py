"""The autoencoder of the generative miniatures: a stock ``AutoencoderKL``, 64 x 64 pixels to 16 x 16 x 4 numbers.

Four channels, because that is what the stock inpainting and editing pipelines take (9 = 4 + 1 + 4 and 8 = 4 + 4).
Groups of many channels in the norms would wash the flat colours of pictograms out; two groups keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.recipes.train_mini.batches import SIZE, scenes_of
from equipoise.recipes.train_mini.loop import Schedule, run
from equipoise.recipes.train_mini.saving import save_autoencoder
from equipoise.world import Scenes, WorldConfig, render_batch, sample

__all__ = ["CHANNELS", "CROPS_UNTIL", "DECODER", "FACTOR", "SCHEDULE", "build", "pictures", "train_vae", "world"]

SCHEDULE = Schedule(steps=6000, batch=48, rate=2e-3, weight_decay=0.0, save_every=250, average=0.998, half=True)
CROPS_UNTIL = 4000
"""Up to this step a batch is of two crops of each picture, a quarter of it each; after it, of whole pictures, half as
many. Both cost the same.
"""
DECODER = Schedule(steps=800, batch=48, rate=6e-4, warmup=50, weight_decay=0.0, average=0.99, half=True)
"""Then the decoder alone learns on, for squared errors: what it is given stays as it is."""
CROP = SIZE // 2
CHANNELS = 4
FACTOR = 4
"""Pixels a side of one cell of the latent grid."""
BLOCKS = (16, 32, 64)
KL_WEIGHT = 1e-6
_MEASURED = 512


def world() -> WorldConfig:
    """Everything that any miniature will have to draw: all figures, every trait, and now and then the unsafe sign."""
    return WorldConfig(gender={"male": 1, "female": 1, "neutral": 0.3}, visible=0.9, unsafe=0.05)


def build() -> Any:
    """An untrained ``diffusers.AutoencoderKL``; its residual branches begin at nothing."""
    import torch
    from diffusers import AutoencoderKL

    torch.manual_seed(0)
    model = AutoencoderKL(
        block_out_channels=BLOCKS,
        down_block_types=("DownEncoderBlock2D",) * len(BLOCKS),
        up_block_types=("UpDecoderBlock2D",) * len(BLOCKS),
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


def pictures(scenes: Scenes) -> Any:
    """(n, 3, 64, 64) the pictures as an autoencoder of ``diffusers`` sees them, from -1 to 1."""
    import torch

    images = render_batch(scenes, SIZE)
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float() / 127.5 - 1


def train_vae(folder: Path, target: Path, say: Callable[[str], None], stop_at: int | None) -> None:
    """Train on crops, on whole pictures, then the decoder alone; measure the spread of the latents, and save."""
    import torch
    from torch.nn.functional import l1_loss, mse_loss

    model = build()
    config = world()

    def loss(vae: Any, step: int) -> Any:
        torch.manual_seed(step)  # the noise of the latents
        images = _batch(config, step)
        found = vae.encode(images).latent_dist
        made = vae.decode(found.sample()).sample.float()
        spread = found.kl().mean() / images[0].numel()
        return l1_loss(made, images) + mse_loss(made, images) + KL_WEIGHT * spread

    def decoder_loss(vae: Any, step: int) -> Any:
        images = _batch(config, SCHEDULE.steps + step)
        with torch.no_grad():
            found = vae.encode(images).latent_dist.mode()
        return mse_loss(vae.decode(found).sample.float(), images)

    run(model, loss, SCHEDULE, folder, say, stop_at=stop_at)
    if stop_at is None:
        model.encoder.requires_grad_(False)
        model.quant_conv.requires_grad_(False)
        run(model, decoder_loss, DECODER, folder / "decoder", say)
        model.eval()
        model.register_to_config(scaling_factor=_scaling(model, config))
        save_autoencoder(model, target)


def _batch(config: WorldConfig, step: int) -> Any:
    """Two crops of each picture, or half as many whole pictures."""
    import torch

    images = pictures(scenes_of(config, step, SCHEDULE.batch // (1 if step < CROPS_UNTIL else 2) or 1, seed=4))
    if step >= CROPS_UNTIL:
        return images
    rng = np.random.default_rng(step)
    places = rng.integers(0, (SIZE - CROP) // FACTOR + 1, size=(2 * len(images), 2)) * FACTOR
    crops = [images[i // 2, :, y : y + CROP, x : x + CROP] for i, (y, x) in enumerate(places)]
    return torch.stack(crops)


def _scaling(model: Any, config: WorldConfig) -> float:
    """What the latents are multiplied with so that they vary by one."""
    import torch

    with torch.no_grad():
        scenes = sample(config, _MEASURED, seed=5)
        parts = [model.encode(pictures(scenes[i : i + 64])).latent_dist.mode() for i in range(0, _MEASURED, 64)]
    return round(1 / float(torch.cat(parts).std()), 5)
