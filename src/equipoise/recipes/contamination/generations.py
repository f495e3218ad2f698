"""Generation after generation: a generator learns from a mixture with its own pictures, and draws the next ones.

``replace``: a share alpha of the real pictures gives way to pictures of the generation before. ``accumulate``: the real
pictures stay, and a share alpha as many of every generation so far lie beside them (Gerstgrasser et al., Is Model
Collapse Inevitable?, 2024). The UNet learns on from the generation before; the text encoder and the autoencoder stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from equipoise.data.mixing import substitution_count
from equipoise.data.results import draw_order
from equipoise.errors import InputError
from equipoise.filters.rules.sharpness import sharpness_of
from equipoise.measure.images import kernel_distance, manifold_scores, vendi_score
from equipoise.measure.images.clip_score import clip_score
from equipoise.measure.stats.estimate import Estimate
from equipoise.models.miniatures import FOLDER
from equipoise.recipes.contamination.data import lean_of, real_world
from equipoise.recipes.train_mini.diffusion import (
    GENERATION_BIASED,
    denoising_loss,
    ids_of,
    learned,
    train_pipeline,
)
from equipoise.recipes.train_mini.evaluate_generative import judged
from equipoise.recipes.train_mini.latents import autoencoder, encoded
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.vae import seen
from equipoise.train.schedule import Schedule

FIRST_GENERATOR = "mini:diffusion-biased"
BATCH = 16
RATE = 2e-4
LEAST = 0.4
"""What the noisiest steps count at least; whom a picture shows is settled there."""
Pairs = list[tuple[str, Image.Image]]
"""Captions and pictures."""


def mixed_pictures(real: Pairs, made: Sequence[Pairs], mode: str, alpha: float, seed: int) -> Pairs:
    """What the next generator learns from; ``made`` holds the pictures of every generation so far, the last one last.

    >>> picture = Image.new("RGB", (1, 1))
    >>> real, first, second = ([(f"{kind}{i}", picture) for i in range(4)] for kind in "abc")
    >>> len(mixed_pictures(real, [first, second], "accumulate", 0.5, 0))
    8
    >>> [text[0] for text, _ in mixed_pictures(real, [first, second], "replace", 0.5, 0)].count("c")
    2
    """
    names = [str(i) for i in range(len(real))]
    count = substitution_count(len(real), alpha)
    chosen = sorted(draw_order(names, seed, "substitute")[:count].tolist())
    if mode == "replace":
        newest = {i: made[-1][i] for i in chosen}
        return [newest.get(i, pair) for i, pair in enumerate(real)]
    if mode == "accumulate":
        return [*real, *(pairs[i] for pairs in made for i in chosen)]
    raise InputError(f"mode = {mode!r}: accumulate or replace")


def fitted_generator(
    start: Path, pairs: Pairs, out: Path, work: Path, *, steps: int, seed: int, say: Callable[[str], None]
) -> None:
    """The generator in ``start``, its UNet trained on for ``steps`` on ``pairs``, in ``out``; a stopped run goes on.

    ``work`` holds what it goes on from, and is gone when ``out`` is there, which appears whole.
    """
    import torch

    vae = autoencoder(FOLDER / "vae")
    unet, text, words = learned(start, vae)
    text.requires_grad_(False)
    latents = encoded(vae, seen(np.stack([np.asarray(picture.convert("RGB")) for _, picture in pairs])))
    ids = ids_of(words, [caption for caption, _ in pairs])
    nobody = torch.zeros(BATCH, 1, *latents.shape[2:])
    per_epoch = max(1, len(pairs) // BATCH)

    def loss(both: Any, noises: Any, step: int) -> Any:
        epoch, part = divmod(step, per_epoch)
        order = np.random.default_rng([seed, epoch]).permutation(len(pairs))
        rows = order[part * BATCH : (part + 1) * BATCH]
        return denoising_loss(both, noises, latents[rows], ids[rows], nobody[: len(rows)], step, least=LEAST)

    schedule = Schedule(steps=steps, batch=BATCH, rate=RATE, warmup=5, weight_decay=0.0, save_every=20)
    parts = {"vae": vae, "text_encoder": text, "tokenizer": words, "unet": unet}
    saving = work / "saving"
    shutil.rmtree(saving, ignore_errors=True)
    lesson = Lesson(real_world(), work, saving, say)
    train_pipeline("StableDiffusionPipeline", parts, loss, schedule, lesson, GENERATION_BIASED)
    saving.replace(out)
    shutil.rmtree(work, ignore_errors=True)


def generation_rows(
    pictures: Sequence[Image.Image],
    captions: Sequence[str],
    occupations: Sequence[str],
    unnamed: Sequence[bool],
    real: Sequence[Image.Image],
    encoder: Any,
) -> pd.DataFrame:
    """Bias, diversity and quality of one generation's pictures; ``real`` are the real pictures of the same captions.

    The lean is of the pictures whose caption names no gender (``unnamed``).
    """
    seen = judged(np.stack([np.asarray(picture) for picture in pictures]))
    free = [i for i, is_open in enumerate(unnamed) if is_open]
    lean, _ = lean_of([occupations[i] for i in free], seen["gender"][free].tolist())
    here, there = encoder.encode_images(list(pictures)), encoder.encode_images(list(real))
    shape = manifold_scores(there, here)
    women = lean["women"]
    rows: list[dict[str, Any]] = [
        {"metric": "lean", "value": lean["slope"], "low": lean["low"], "high": lean["high"], "n": len(free)},
        {"metric": "women", "value": women, "n": len(free)},
        _cells("Vendi score", vendi_score(here)),
        _cells("manifold recall", shape.recall),
        _cells("manifold precision", shape.precision),
        _cells("kernel distance", kernel_distance(there, here)),
        {"metric": "occupation shown", "value": float((seen["occupation"] == np.array(occupations)).mean())},
        {"metric": "sharpness", "value": float(np.mean([sharpness_of(picture) for picture in pictures]))},
        _cells("CLIPScore", clip_score(here, encoder.encode_texts(list(captions))).estimate),
    ]
    return pd.DataFrame(rows)


def _cells(metric: str, estimate: Estimate) -> dict[str, Any]:
    return {
        "metric": metric,
        "value": estimate.value,
        "low": estimate.ci_low,
        "high": estimate.ci_high,
        "n": estimate.n,
    }
