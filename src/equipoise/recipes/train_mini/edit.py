"""Change the person as told: the eight-channel UNet that the stock ``StableDiffusionInstructPix2PixPipeline`` loads.

Edit pairs are free in a world: a scene, and the same scene with somebody else in the same place. The instructions are
those of GenSynth (arXiv 2305.15407, Table 6) and of the same form for skin tone, age and two things at once. Many pairs
are of the person's box alone, brought to the size at which ``equipoise generate edits`` gives it to an editor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.masks import to_box
from equipoise.generate.persons import whole_pixels
from equipoise.models.diffusers.generator import fitted
from equipoise.recipes.train_mini import diffusion
from equipoise.recipes.train_mini.batches import SIZE
from equipoise.recipes.train_mini.editions import edition_of, phrasing_words, rephrased, with_difference
from equipoise.recipes.train_mini.latents import LatentPool, Made, autoencoder, coarse, encoded
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.tokenizer import tokenizer, with_words
from equipoise.recipes.train_mini.vae import CHANNELS, seen
from equipoise.text.templates.edits import edit_groups, edit_instructions, filled
from equipoise.train.schedule import Schedule
from equipoise.world import Scene, SceneArrays, render_batch, vocabulary, what_is_where
from equipoise.world.catalog import AGES, TONE_GROUPS
from equipoise.world.draws import uniform

SCHEDULE = Schedule(steps=1000, batch=64, rate=6e-4, weight_decay=0.01, average=0.995, half=True)
GENERATION = {"guidance": 3.0, "image_guidance": 1.3, "steps": 20}
GENDERS = ("male", "female")
CROPPED = 0.6
"""How many pairs are of the person's box alone."""
ON = Schedule(steps=400, batch=64, rate=4e-4, warmup=50, weight_decay=0.01, save_every=50, average=0.99)
CHUNKS_ON = 8
"""For an editor that learns on: how long, and of how many pictures (512 each)."""
CARRIED = Schedule(steps=1700, batch=32, rate=5e-4, warmup=50, weight_decay=0.01, save_every=100, average=0.995)
CHUNKS_CARRIED = 16
"""For one that begins with what the editor of another edition had learnt."""
OURS = "Make this person a/an {noun}"
KINDS = ((0.45, ("gender",)), (0.7, ("tone",)), (0.75, ("age",)), (1.0, ("gender", "tone")))
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


def train_edit(lesson: Lesson) -> None:
    """Train on pairs of the lesson's world from the weights of ``diffusion``, and save the pipeline.

    Where ``start`` is an editor already, it learns on for fewer steps, instructions in several phrasings too.
    What the editor of another edition, in the folder ``before``, learnt beyond its ``diffusion`` is added to the start.
    """
    import torch

    vae = autoencoder(lesson.vae)
    unet, text, old = diffusion.learned(lesson.start or diffusion.START, vae)
    goes_on = unet.config.in_channels == 2 * CHANNELS
    schedule, chunks = (ON, CHUNKS_ON) if goes_on else (SCHEDULE, 64)
    phrased = edition_of(vae).phrased or goes_on
    words = edit_tokenizer(phrased=phrased)
    unet, text = diffusion.widened(unet, 2 * CHANNELS), with_words(text, old, words)
    if lesson.before is not None:
        unet, text = with_difference((unet, text, words), lesson.before, "edit", diffusion.opened)
        schedule, chunks = CARRIED, CHUNKS_CARRIED
    schedule = replace(schedule, steps=lesson.steps or schedule.steps)
    world = diffusion.world_of(lesson.world).changed(two_people=0.0)
    pool = LatentPool(world, 9, lesson.folder / "pool", lambda s: _pairs(vae, s), n_chunks=chunks)

    def loss(both: Any, noises: Any, step: int) -> Any:
        scenes, latents = pool.batch(step, schedule.batch)
        rng = np.random.default_rng([10, step])
        u = rng.random(len(scenes))
        texts = [_told(scene, u[i], int(rng.integers(100))) for i, scene in enumerate(scenes)]
        if phrased:
            texts = [rephrased(text, rng) for text in texts]
        shown = torch.from_numpy((u < DROPPED) | (u >= 3 * DROPPED)).float()[:, None, None, None]
        ids = diffusion.ids_of(words, texts)
        total = 0.0
        for rows, after, source, person in _shapes(latents, rng.random(len(scenes)) < CROPPED):
            value = diffusion.denoising_loss(both, noises, after, ids[rows], person, step, source * shown[rows])
            total = total + value * len(rows) / len(scenes)
        return total

    parts = {"vae": vae, "text_encoder": text, "tokenizer": words, "unet": unet}
    diffusion.train_pipeline("StableDiffusionInstructPix2PixPipeline", parts, loss, schedule, lesson, GENERATION)


def _shapes(pool: Mapping[str, Any], cropped: NDArray[np.bool_]) -> Iterator[tuple[Any, Any, Any, Any]]:
    """The pairs of a batch whose pictures have one shape: their rows, latents, sources and persons.

    Whole pictures and boxes as large, then boxes that are narrower, one width after the other.
    """
    import torch

    boxed = torch.from_numpy(cropped)
    chosen = {
        name: torch.where(boxed[:, None, None, None], pool[f"{name} in box"], pool[name])
        for name in ("latents", "source", "person")
    }
    widths = torch.where(boxed, pool["width of box"][:, 0].long(), chosen["latents"].shape[-1])
    for width in sorted(set(widths.tolist()), reverse=True):
        rows = torch.nonzero(widths == width)[:, 0]
        latents, source, person = (values[rows][..., :width] for values in chosen.values())
        yield rows, latents, source, person


def _told(scene: Scene, u: float, which: int) -> str:
    """An instruction for the scene's edit; none for the first two of the three shares that are dropped."""
    if u < 2 * DROPPED:
        return ""
    choices = instructions(changes_of(scene))
    return choices[which % len(choices)]


def _pairs(vae: Any, scenes: SceneArrays) -> Made:
    """Latents before and after, which the stock pipeline gives unscaled before, and where the two people are; of the
    whole picture, and of the box of the person before.
    """
    import torch

    factor = edition_of(vae).factor
    after = [edited(scene) for scene in scenes]
    masks = [what_is_where(a).people[0] | what_is_where(b).people[0] for a, b in zip(scenes, after, strict=True)]
    whole = {"source": render_batch(scenes), "latents": render_batch(after)}
    pairs: dict[str, Any] = {"person": coarse(np.stack(masks).astype(np.float32)[:, None], factor)}
    boxes = [whole_pixels(to_box(what_is_where(scene).people[0]), SIZE, SIZE) for scene in scenes]
    sizes = np.array([fitted((right - left, bottom - top), SIZE, 8 * factor) for left, top, right, bottom in boxes])
    pairs["width of box"] = torch.from_numpy((sizes[:, :1] // factor).astype(np.float32))
    for name, images in whole.items():
        scale = vae.config.scaling_factor if name == "source" else 1.0
        pairs[name] = encoded(vae, seen(images)) / scale
        cut = np.stack([_cut(image, box, size) for image, box, size in zip(images, boxes, sizes, strict=True)])
        pairs[f"{name} in box"] = _padded(vae, seen(cut), sizes[:, 0]) / scale
    grey = [np.repeat(mask[..., None].astype(np.uint8) * 255, 3, axis=2) for mask in masks]
    cut = np.stack([_cut(image, box, size) for image, box, size in zip(grey, boxes, sizes, strict=True)])
    pairs["person in box"] = coarse((cut[..., :1] > 127).astype(np.float32).transpose(0, 3, 1, 2), factor)
    return pairs


def _cut(image: NDArray[np.uint8], box: tuple[int, int, int, int], size: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The box of a picture at the size an editor is given, on a square: what is left of it stays black."""
    from PIL import Image

    part = Image.fromarray(image).crop(box).resize((int(size[0]), int(size[1])), Image.Resampling.LANCZOS)
    square = Image.new("RGB", (SIZE, SIZE))
    square.paste(part.resize((int(size[0]), SIZE), Image.Resampling.LANCZOS))
    return np.asarray(square)


def _padded(vae: Any, images: Any, widths: NDArray[np.int64]) -> Any:
    """Latents of squares and of left parts of them, ``widths`` pixels wide, with nothing beside these."""
    import torch

    latents = encoded(vae, images)
    for width in set(widths.tolist()) - {SIZE}:
        rows = torch.from_numpy(np.flatnonzero(widths == width))
        part = encoded(vae, images[rows][..., :width])
        latents[rows] = torch.nn.functional.pad(part, (0, latents.shape[-1] - part.shape[-1]))
    return latents
