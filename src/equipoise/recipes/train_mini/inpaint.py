"""Draw the person anew: the nine-channel UNet that the stock ``StableDiffusionInpaintPipeline`` loads.

It starts from ``diffusion`` and also reads the mask and what is left of the picture outside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.recipes.train_mini import diffusion
from equipoise.recipes.train_mini.editions import edition_of, with_difference
from equipoise.recipes.train_mini.latents import LatentPool, Made, autoencoder, encoded, person_masks
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.vae import CHANNELS, pictures
from equipoise.train.schedule import Schedule
from equipoise.world import SceneArrays
from equipoise.world.draws import uniforms

SCHEDULE = Schedule(steps=1000, batch=64, rate=6e-4, weight_decay=0.01, average=0.995, half=True)
ON = Schedule(steps=300, batch=64, rate=4e-4, warmup=50, weight_decay=0.01, save_every=50, average=0.99)
CHUNKS_ON = 12
"""For one that draws anew already and learns other phrasings: how long, and of how many pictures (512 each)."""
CARRIED = Schedule(steps=1200, batch=32, rate=5e-4, warmup=50, weight_decay=0.01, save_every=100, average=0.995)
CHUNKS_CARRIED = 20
"""For one that begins with what the one of another edition had learnt."""
GENERATION = {"guidance": 3.0, "steps": 20}
WIDEST = 6
"""By how many pixels a mask is grown at most."""
BOXED = 0.4
"""How many masks are boxes: what a detector gives."""


def grown(mask: NDArray[np.bool_], pixels: int, *, box: bool = False) -> NDArray[np.bool_]:
    """A mask and the ``pixels`` around it; as a box, all that lies between its edges.

    >>> grown(np.eye(5, dtype=bool)[::-1] & False | (np.arange(25).reshape(5, 5) == 12), 1, box=True).sum()
    np.int64(9)
    """
    from scipy import ndimage

    if not box:
        return np.asarray(ndimage.binary_dilation(mask, iterations=pixels) if pixels else mask)
    box_mask = np.zeros_like(mask)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box_mask[
        max(0, rows[0] - pixels) : rows[-1] + 1 + pixels, max(0, columns[0] - pixels) : columns[-1] + 1 + pixels
    ] = True
    return box_mask


def hidden(scenes: SceneArrays) -> NDArray[np.float32]:
    """(n, 1, 64, 64) what is to be drawn anew: the first person and some of what is around, as their seeds decide."""
    seeds = scenes.columns["seed"].astype(np.int64)
    reach = (1 + uniforms(seeds, "inpaint reach") * WIDEST).astype(int)
    boxed = uniforms(seeds, "inpaint box") < BOXED
    masks = person_masks(scenes)[:, 0] > 0
    areas = [grown(mask, int(r), box=bool(b)) for mask, r, b in zip(masks, reach, boxed, strict=True)]
    return np.stack(areas).astype(np.float32)[:, None]


def on_grid(masks: Any, grid: int) -> Any:
    """(n, 1, grid, grid) the masks on the latent grid, cut down as the stock pipeline cuts them: the nearest pixel."""
    import torch

    return torch.nn.functional.interpolate(masks, size=(grid, grid))


def train_inpaint(lesson: Lesson) -> None:
    """Train on the lesson's world from the weights of ``diffusion``, and save the pipeline.

    Where ``start`` is such a pipeline already, it learns on for fewer steps, and captions in several phrasings.
    What the inpainter of another edition, in the folder ``before``, learnt beyond its ``diffusion`` is added to the
    start.
    """
    import torch

    vae = autoencoder(lesson.vae)
    plan = edition_of(vae)
    unet, text, words = diffusion.learned(lesson.start or diffusion.START, vae)
    goes_on = unet.config.in_channels == 2 * CHANNELS + 1
    schedule, chunks = (ON, CHUNKS_ON) if goes_on else (SCHEDULE, 64)
    phrased = plan.phrased or goes_on
    if goes_on:
        text, words = diffusion.with_phrasings(text, words)
    unet = diffusion.widened(unet, 2 * CHANNELS + 1)
    if lesson.before is not None:
        unet, text = with_difference((unet, text, words), lesson.before, "inpaint", diffusion.opened)
        schedule, chunks = CARRIED, CHUNKS_CARRIED
    schedule = replace(schedule, steps=lesson.steps or schedule.steps)

    def make(scenes: SceneArrays) -> Made:
        images, masks = pictures(scenes), torch.from_numpy(hidden(scenes))
        left = encoded(vae, images * (masks < 0.5))
        return {"latents": encoded(vae, images), "mask": on_grid(masks, plan.grid), "left": left}

    world = diffusion.world_of(lesson.world).changed(two_people=0.0)
    pool = LatentPool(world, 8, lesson.folder / "pool", make, n_chunks=chunks)

    def loss(both: Any, noises: Any, step: int) -> Any:
        scenes, latents = pool.batch(step, schedule.batch)
        ids = diffusion.ids_of(words, diffusion.prompts_to_learn(scenes, step, phrased=phrased))
        condition = torch.cat([latents["mask"], latents["left"]], dim=1)
        return diffusion.denoising_loss(both, noises, latents["latents"], ids, latents["mask"], step, condition)

    parts = {"vae": vae, "text_encoder": text, "tokenizer": words, "unet": unet}
    diffusion.train_pipeline("StableDiffusionInpaintPipeline", parts, loss, schedule, lesson, GENERATION)
