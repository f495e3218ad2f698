"""The figures of the generative miniatures: the judge says what their pictures show, and how well it judges renders.

No figure stands alone: beside what the judge finds in generated pictures stands what it finds in renders of the same
scenes, which is the most that can be reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Pixels
from equipoise.models.miniatures import FOLDER
from equipoise.recipes.train_mini.edit import GENDERS, instructions
from equipoise.recipes.train_mini.inpaint import grown
from equipoise.text.templates.inpainting import inpainting_prompt
from equipoise.world import Scene, WorldConfig, captions, neutral_prompt, render_batch, sample, what_is_where
from equipoise.world.captions import prompts
from equipoise.world.catalog import OCCUPATIONS, TONE_GROUPS
from equipoise.world.draws import uniform

UNSEEN = 90_002
STEPS = 20
JUDGE = FOLDER / "judge"
AXES = ("gender", "skin_tone", "age", "occupation", "scene")
MARGIN = 4
"""Pixels around the person within which an edit or an inpainting may draw."""
BOXED = 300
"""Pictures of which the person's box alone is edited too."""
Figures = dict[str, float]


def judged(images: Pixels, judge: Path | None = None) -> dict[str, NDArray[np.str_]]:
    """What the judge sees in pictures (n, 64, 64, 3): the likeliest value of every attribute."""
    from PIL import Image

    from equipoise.models.folders import open_checkpoint
    from equipoise.models.hf.adapter import from_folder

    model = from_folder(open_checkpoint(judge or JUDGE), name="mini:judge", kind="classifier")
    answers = model.classify([Image.fromarray(image) for image in images])
    return {head: np.array(answer.best) for head, answer in answers.items()}


def asked_scenes(n: int) -> list[Scene]:
    """Scenes of the fair world, of people at work that can be seen; what the generators are asked for."""
    return list(sample(WorldConfig(activity_share=0.0, visible=1.0), n, UNSEEN))


def telling_prompt(scene: Scene) -> str:
    """A caption of the scene that names gender, skin tone, occupation and place.

    >>> telling_prompt(asked_scenes(1)[0]).count("skin")
    1
    """
    place = prompts("scene")[scene.scene].removeprefix("a photo of a person ")
    needed = (place, "skin", scene.people[0].occupation)
    return next(text for text in captions(scene, 8, "full") if all(word in text for word in needed))


def vae_figures(folder: Path, n: int = 1000) -> Figures:
    """Peak signal-to-noise ratio of pictures after the autoencoder, and what the judge still sees in them."""
    scenes = asked_scenes(n)
    images = render_batch(scenes)
    after = reconstructed(folder, images)
    return {"PSNR": psnr(images, after), **_accuracies(scenes, after, {})}


def reconstructed(folder: Path, images: Pixels) -> Pixels:
    """Pictures (n, 64, 64, 3) after the autoencoder in ``folder``: there and back, with nothing drawn at random."""
    import torch

    from equipoise.recipes.train_mini.latents import autoencoder
    from equipoise.recipes.train_mini.vae import seen

    vae = autoencoder(folder)
    pictures = []
    with torch.no_grad():
        for start in range(0, len(images), 100):
            back = vae.decode(vae.encode(seen(images[start : start + 100])).latent_dist.mode()).sample
            pictures.append(((back.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy())
    return np.concatenate(pictures)


def psnr(images: Pixels, others: Pixels) -> float:
    """The mean over pictures of 10 log10(255² / mean squared difference), in decibels.

    >>> a = np.zeros((1, 2, 2, 3), np.uint8)
    >>> round(psnr(a, a + np.uint8(10)), 2)
    28.13
    """
    errors = (images.astype(float) - others.astype(float)) ** 2
    return float(np.mean(10 * np.log10(255**2 / np.maximum(errors.mean(axis=(1, 2, 3)), 1e-3))))


def diffusion_figures(folder: Path, n: int = 1000) -> Figures:
    """How often a generated picture shows what its prompt names, and the seconds of CPU that a picture takes."""
    scenes = asked_scenes(n)
    texts = [telling_prompt(scene) for scene in scenes]
    images, seconds = _timed(lambda: _generator(folder).generate(texts, seed=UNSEEN, steps=STEPS), n)
    return {**_accuracies(scenes, images, {}), "seconds per image": seconds}


def biased_figures(folder: Path, n: int = 2240) -> Figures:
    """How the genders that it gives an occupation which names none follow the injected log-odds."""
    from equipoise.recipes.train_mini.evaluate import injected, odds_figures

    each = max(1, n // len(OCCUPATIONS))
    texts = [neutral_prompt(name) for name in OCCUPATIONS for _ in range(each)]
    images, seconds = _timed(lambda: _generator(folder).generate(texts, seed=UNSEEN + 1, steps=STEPS), len(texts))
    seen = judged(images)
    odds = skewed_odds(seen["gender"].reshape(len(OCCUPATIONS), each))
    asked = np.repeat(list(OCCUPATIONS), each)
    return {
        **odds_figures("skew-odds", injected(), odds),
        "occupation": float((seen["occupation"] == asked).mean()),
        "seconds per image": seconds,
    }


def skewed_odds(genders: NDArray[np.str_]) -> NDArray[np.float64]:
    """ln (women + 1/2) / (men + 1/2) of each row.

    >>> skewed_odds(np.array([["female", "male"], ["female", "female"]])).round(3).tolist()
    [0.0, 1.609]
    """
    women, men = ((genders == name).sum(axis=1) for name in ("female", "male"))
    return np.asarray(np.log((women + 0.5) / (men + 0.5)), dtype=np.float64)


def targets_of(scenes: Iterable[Scene]) -> list[dict[str, Any]]:
    """Whom each scene shall show instead: a gender and a skin tone, as the scene's seed decides."""
    return [
        {
            "gender": GENDERS[int(uniform(scene.seed, "target gender") * len(GENDERS))],
            "tone": tuple(TONE_GROUPS)[int(uniform(scene.seed, "target tone") * len(TONE_GROUPS))],
        }
        for scene in scenes
    ]


def changes_asked(
    n: int, *, box: bool = False
) -> tuple[list[Scene], list[dict[str, Any]], list[Scene], Pixels, list[NDArray[np.bool_]]]:
    """Scenes, whom each shall show instead, the scenes that do, renders of the first, and where may be drawn."""
    scenes = asked_scenes(n)
    targets = targets_of(scenes)
    wanted = [scene.counterfactual(**target) for scene, target in zip(scenes, targets, strict=True)]
    masks = [grown(what_is_where(scene).people[0], MARGIN, box=box) for scene in scenes]
    return scenes, targets, wanted, render_batch(scenes), masks


def inpaint_figures(folder: Path, n: int = 500) -> Figures:
    """Target groups reached and scene kept by pictures whose person was drawn anew, composited into the original."""
    scenes, targets, wanted, before, masks = changes_asked(n)
    texts = [telling_prompt(scene) for scene in wanted]
    painter = _generator(folder)
    after, seconds = _timed(lambda: painter.inpaint(_pictures(before), masks, texts, seed=UNSEEN + 2, steps=STEPS), n)
    figures = _change_figures(before, after, masks, wanted, seconds)
    some = min(n, BOXED)
    texts = [photo_prompt(scene, target) for scene, target in zip(scenes[:some], targets[:some], strict=True)]
    drawn = painter.inpaint(_pictures(before[:some]), masks[:some], texts, seed=UNSEEN + 5, steps=STEPS)
    after = composited(before[:some], np.stack([np.asarray(image) for image in drawn]), masks[:some])
    called = {axis: f"worded for photographs: {axis}" for axis in ("gender", "skin_tone")}
    return figures | _shares_right(wanted[:some], after, called)


def photo_prompt(scene: Scene, target: dict[str, Any]) -> str:
    """A caption of the scene, said of the target's groups as ``equipoise generate inpaint`` says it of a photograph.

    >>> scene = asked_scenes(1)[0]
    >>> photo_prompt(scene, {"gender": "male", "tone": "dark"}) != captions(scene)[0]
    True
    """
    groups = {"gender": target["gender"], "skin_tone": target["tone"]}
    prompts = (inpainting_prompt(caption, groups).text for caption in captions(scene, 8))
    return next(text for text in prompts if text is not None)


def edit_figures(folder: Path, n: int = 500) -> Figures:
    """Target groups reached and scene kept by pictures that were edited by instruction, composited by a box."""
    scenes, targets, wanted, before, masks = changes_asked(n, box=True)
    texts = [
        (choices := instructions(target))[int(uniform(scene.seed, "instruction") * len(choices))]
        for scene, target in zip(scenes, targets, strict=True)
    ]
    editor = _generator(folder)
    after, seconds = _timed(lambda: editor.edit(_pictures(before), texts, seed=UNSEEN + 3, steps=STEPS), n)
    figures = _change_figures(before, after, masks, wanted, seconds)
    some = min(n, BOXED)
    return figures | _edited_boxes(editor, scenes[:some], wanted[:some], texts[:some])


def _edited_boxes(editor: Any, scenes: list[Scene], wanted: list[Scene], texts: list[str]) -> Figures:
    """The same of the person's box, cut out, edited and pasted back, as ``generate edits`` does."""
    from equipoise.data.masks import to_box
    from equipoise.generate.edits import pasted
    from equipoise.generate.persons import whole_pixels

    pictures = _pictures(render_batch(scenes))
    areas = [whole_pixels(to_box(what_is_where(scene).people[0]), 64, 64) for scene in scenes]
    cut = [picture.crop(area) for picture, area in zip(pictures, areas, strict=True)]
    drawn = editor.edit(cut, texts, seed=UNSEEN + 4, steps=STEPS)
    after = np.stack([np.asarray(pasted(*each)) for each in zip(pictures, drawn, areas, strict=True)])
    called = {"gender": "box: gender", "skin_tone": "box: skin_tone", "scene": "box: scene kept"}
    return _shares_right(wanted, after, called)


def composited(before: Pixels, after: Pixels, masks: Sequence[NDArray[np.bool_]]) -> Pixels:
    """The pictures ``after`` where the masks are true, ``before`` elsewhere."""
    return np.where(np.stack(masks)[..., None], after, before)


def _change_figures(
    before: Pixels, drawn: Pixels, masks: list[NDArray[np.bool_]], wanted: list[Scene], seconds: float
) -> Figures:
    after = composited(before, drawn, masks)
    outside = ~np.stack(masks)
    figures = _accuracies(wanted, after, {"scene": "scene kept"})
    figures["changed outside"] = float((np.abs(after.astype(int) - before.astype(int))[outside]).max(initial=0))
    figures["moved outside before compositing"] = float(
        np.abs(drawn.astype(float) - before.astype(float))[outside].mean()
    )
    figures["seconds per image"] = seconds
    return figures


def _accuracies(scenes: Sequence[Scene], images: Pixels, called: dict[str, str]) -> Figures:
    """The judge's agreement with the scenes on every axis, in these images and in renders of the scenes."""
    figures: Figures = {}
    for prefix, shown in (("", images), ("judge on renders: ", render_batch(scenes))):
        figures |= _shares_right(scenes, shown, {axis: f"{prefix}{called.get(axis, axis)}" for axis in AXES})
    return figures


def _shares_right(scenes: Sequence[Scene], images: Pixels, called: Mapping[str, str]) -> Figures:
    """How often the judge sees in the images what the scenes have, of each axis under the name it is called by."""
    right = as_asked(scenes, images)
    return {name: float(right[axis].mean()) for axis, name in called.items()}


def as_asked(scenes: Sequence[Scene], images: Pixels) -> dict[str, NDArray[np.bool_]]:
    """(n,) for each axis, whether the judge sees in the images what the scenes have."""
    seen = judged(images)
    asked = {axis: [scene.group(axis) for scene in scenes] for axis in ("gender", "skin_tone", "age")}
    asked |= {"occupation": [scene.people[0].occupation for scene in scenes], "scene": [s.scene for s in scenes]}
    return {axis: np.asarray(seen[axis] == np.array(values)) for axis, values in asked.items()}


def _timed(make: Callable[[], Sequence[Any]], n: int) -> tuple[Pixels, float]:
    """The pictures, and the seconds of CPU that one took, model loading included."""
    began = time.process_time()
    images = make()
    seconds = (time.process_time() - began) / n
    return np.stack([np.asarray(image) for image in images]), seconds


def _pictures(images: Pixels) -> list[Any]:
    from PIL import Image

    return [Image.fromarray(image) for image in images]


def _generator(folder: Path) -> Any:
    from equipoise.models.diffusers.generator import open_pipeline

    return open_pipeline(folder, name=folder.name, device="cpu", batch_size=24)
