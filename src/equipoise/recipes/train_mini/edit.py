"""Change the person as told: the eight-channel UNet that the stock ``StableDiffusionInstructPix2PixPipeline`` loads.

Edit pairs are free in a world: a scene, and the same scene with somebody else in the same place. The instructions are
those of GenSynth (arXiv 2305.15407, Table 6) and of the same form for skin tone, age and two things at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.recipes.train_mini import diffusion
from equipoise.recipes.train_mini.editions import edition_of, phrasing_words, rephrased
from equipoise.recipes.train_mini.latents import LatentPool, Made, autoencoder, coarse, encoded
from equipoise.recipes.train_mini.tokenizer import tokenizer, with_words
from equipoise.recipes.train_mini.vae import CHANNELS, pictures
from equipoise.text.templates.edits import edit_groups, edit_instructions, filled
from equipoise.train.schedule import Schedule
from equipoise.world import Scene, SceneArrays, WorldConfig, render, vocabulary, what_is_where
from equipoise.world.catalog import AGES, TONE_GROUPS
from equipoise.world.draws import uniform

__all__ = ["GENERATION", "SCHEDULE", "changes_of", "edit_tokenizer", "edited", "instructions", "train_edit"]

SCHEDULE = Schedule(steps=1000, batch=64, rate=6e-4, weight_decay=0.01, average=0.995, half=True)
GENERATION = {"guidance": 3.0, "image_guidance": 1.3, "steps": 20}
GENDERS = ("male", "female")
OURS = "Make this person a/an {noun}"
KINDS = ((0.35, ("gender",)), (0.7, ("tone",)), (0.8, ("age",)), (1.0, ("gender", "tone")))
"""Up to which share of the edits changes what."""
DROPPED = 0.05
"""Share of pairs that lose the instruction, both, and the picture, each: so that either can guide."""
_AGE_WORDS = {"child": ("childlike", "child"), "adult": ("adult", "adult"), "older": ("old", "old person")}

Changes = dict[str, Any]


def changes_of(scene: Scene) -> Changes:
    """What an edit of the scene changes, and to what, as its seed decides; the new group may be the old one."""
    u = uniform(scene.seed, "edit kind")
    axes = next(axes for until, axes in KINDS if u < until)
    groups = {"gender": GENDERS, "tone": tuple(TONE_GROUPS), "age": AGES}
    return {axis: groups[axis][int(uniform(scene.seed, f"edit {axis}") * len(groups[axis]))] for axis in axes}


def edited(scene: Scene) -> Scene:
    """The scene after its edit."""
    return scene.counterfactual(**changes_of(scene))


def instructions(changes: Mapping[str, str]) -> list[str]:
    """Every instruction that asks for the changes (``gender``, ``tone``, ``age``, or gender and tone).

    >>> instructions({"tone": "dark"})[1], instructions({"gender": "female", "tone": "light"})[-1]
    ('Make this person look like a person with dark skin', 'Make this person a woman with light skin')
    """
    return list(_instructions(tuple(sorted(changes.items()))))


@cache
def _instructions(changes: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    words = _words(dict(changes))
    instructions = edit_instructions(
        {"wanted": words}, guidance_scales=[1.0], templates=_templates("adjective" in words)
    )
    return (*(edit.text for edit in instructions), filled(OURS, words, "the edit"))


def _templates(with_adjective: bool) -> tuple[str, ...]:
    shipped = dict.fromkeys(edit.template for edit in edit_instructions())
    return tuple(template for template in shipped if with_adjective or "{adjective}" not in template)


def _words(changes: Changes) -> dict[str, str]:
    if set(changes) == {"gender"}:
        return edit_groups()[changes["gender"]]
    if set(changes) == {"age"}:
        adjective, noun = _AGE_WORDS[changes["age"]]
        return {"adjective": adjective, "noun": noun}
    tone = f"with {changes['tone']} skin"
    if "gender" in changes:
        return {"noun": f"{edit_groups()[changes['gender']]['noun']} {tone}"}
    return {"adjective": f"{changes['tone']} skinned", "noun": f"person {tone}"}


def edit_tokenizer(*, phrased: bool = False) -> Any:
    """The world's tokenizer with the words of instructions; ``phrased`` adds those of their other phrasings."""
    single = [{"gender": g} for g in GENDERS] + [{"tone": t} for t in TONE_GROUPS] + [{"age": a} for a in AGES]
    both = [{"gender": g, "tone": t} for g, t in product(GENDERS, TONE_GROUPS)]
    spoken = {word for changes in single + both for text in instructions(changes) for word in text.lower().split()}
    return tokenizer(sorted(spoken | set(vocabulary()) | set(phrasing_words() if phrased else ())))


def train_edit(
    config: WorldConfig,
    folder: Path,
    target: Path,
    say: Callable[[str], None],
    stop_at: int | None,
    *,
    vae_home: Path | None = None,
    start: Path | None = None,
) -> None:
    """Train on pairs of ``config``'s world from the weights of ``diffusion``, and save the pipeline."""
    import torch

    vae = autoencoder(vae_home)
    phrased = edition_of(vae).phrased
    unet, text, old = diffusion.learned(start or diffusion.START, vae)
    words = edit_tokenizer(phrased=phrased)
    unet, text = diffusion.widened(unet, 2 * CHANNELS), with_words(text, old, words)
    pool = LatentPool(
        diffusion.world_of(config).changed(two_people=0.0), 9, folder / "pool", lambda s: _pairs(vae, s), n_chunks=64
    )

    def loss(both: Any, noises: Any, step: int) -> Any:
        scenes, latents = pool.batch(step, SCHEDULE.batch)
        rng = np.random.default_rng([10, step])
        u = rng.random(len(scenes))
        texts = [_told(scene, u[i], int(rng.integers(100))) for i, scene in enumerate(scenes)]
        if phrased:
            texts = [rephrased(text, rng) for text in texts]
        seen = torch.from_numpy((u < DROPPED) | (u >= 3 * DROPPED)).float()
        condition = latents["source"] * seen[:, None, None, None]
        ids = diffusion.ids_of(words, texts)
        return diffusion.denoising_loss(both, noises, latents["latents"], ids, latents["person"], step, condition)

    parts = {"vae": vae, "text_encoder": text, "tokenizer": words, "unet": unet}
    diffusion.train_pipeline(
        "StableDiffusionInstructPix2PixPipeline", parts, loss, SCHEDULE, folder, target, say, stop_at, GENERATION
    )


def _told(scene: Scene, u: float, which: int) -> str:
    """An instruction for the scene's edit; none for the first two of the three shares that are dropped."""
    if u < 2 * DROPPED:
        return ""
    choices = instructions(changes_of(scene))
    return choices[which % len(choices)]


def _pairs(vae: Any, scenes: SceneArrays) -> Made:
    """Latents before and after, which the stock pipeline gives unscaled before, and where the two people are."""
    import torch

    after = [edited(scene) for scene in scenes]
    images = np.stack([render(scene) for scene in after]).transpose(0, 3, 1, 2)
    wanted = torch.from_numpy(np.ascontiguousarray(images)).float() / 127.5 - 1
    masks = [what_is_where(a).people[0] | what_is_where(b).people[0] for a, b in zip(scenes, after, strict=True)]
    source = encoded(vae, pictures(scenes)) / vae.config.scaling_factor
    person = coarse(np.stack(masks).astype(np.float32)[:, None], edition_of(vae).factor)
    return {"latents": encoded(vae, wanted), "source": source, "person": person}
