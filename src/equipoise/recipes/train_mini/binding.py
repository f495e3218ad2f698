"""A CLIP that takes the expected person for the one who does it: trained on captions that lean, with a known truth.

It goes on from ``clip-fair``, which cannot tell who of two people does something. Each caption stands against the same
caption with the two people exchanged (hard negatives: Yuksekgonul et al., When and Why Vision-Language Models Behave
like Bags-of-Words, ICLR 2023), so that it learns to tell, and with that learns whom the captions of the world
``binding`` expect.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.models.miniatures import FOLDER
from equipoise.models.runtime import quiet
from equipoise.recipes.train_mini.batches import pixels, scenes_of, texts_of
from equipoise.recipes.train_mini.clip import TALKATIVE, contrastive, helper, save_clip, with_help
from equipoise.recipes.train_mini.evaluate import UNSEEN, ClipFolder, odds_figures, slope
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.tokenizer import tokenizer
from equipoise.train.schedule import Schedule
from equipoise.world import SceneArrays, WorldConfig, binding_sets, captions, draw, preset, truth
from equipoise.world.catalog import ACTIVITIES
from equipoise.world.draws import seeds_for

SCHEDULE = Schedule(steps=1900, batch=96, rate=1e-3, warmup=100, save_every=50, again=(1600,), average=0.99)
CAREFUL_UNTIL, CAREFUL = 1600, 3.0
"""Up to this step captions take more care than the world's: it must tell who does it before it can lean."""
START = FOLDER / "clip-fair"
TOGETHER = 4
"""Activities in one batch: where they are alike, the people tell captions apart."""
ORDINARY = 5
"""Every so many steps one is of the whole world, so that what was known is kept."""
HARD = 1.0
"""What telling a caption from its exchanged twin counts beside telling it from those of other pictures."""
HELP_UNTIL = 800


def two_people(world: WorldConfig, step: int, batch: int) -> SceneArrays:
    """Scenes of a training step: a few activities, one person of each pole of gender."""
    rng = np.random.default_rng([15, step])
    each = batch // TOGETHER
    parts = []
    for place, activity in enumerate(rng.choice(list(ACTIVITIES), TOGETHER, replace=False)):
        seeds = seeds_for(16, 4 * each, (step * TOGETHER + place) * 4 * each)
        scenes = draw(world, seeds, subject=str(activity), bystander=True)
        mixed = np.flatnonzero(scenes.columns["gender"] != scenes.columns["gender_2"])[:each]
        parts.append({name: values[mixed] for name, values in scenes.columns.items()})
    return SceneArrays(world, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def told_twice(scenes: SceneArrays, step: int) -> tuple[list[str], list[str]]:
    """A caption of each scene, drawn by the step, and the same with the two people exchanged."""
    which = np.random.default_rng([17, step]).integers(0, 5, size=len(scenes))
    texts = [captions(scene)[k] for scene, k in zip(scenes, which, strict=True)]
    others = [
        captions(replace(scene, exchanged=not scene.exchanged))[k] for scene, k in zip(scenes, which, strict=True)
    ]
    return texts, others


def train_binding(lesson: Lesson) -> None:
    """Train ``clip-fair`` on with pairs of the lesson's world, and save the model for stock ``transformers``."""
    import torch
    from transformers import CLIPModel

    if not (START / "config.json").is_file():
        raise InputError(f"this part starts from clip-fair, which is not in {START}; train that first")
    words = tokenizer()
    with quiet():
        clip = CLIPModel.from_pretrained(START, dtype=torch.float32, local_files_only=True)
    model = torch.nn.ModuleDict({"clip": clip, "help": helper()})
    careful = lesson.world.changed(care=max(lesson.world.care, CAREFUL))

    def loss(both: Any, step: int) -> Any:
        others: list[str] = []
        world = careful if step < CAREFUL_UNTIL else lesson.world
        if step % ORDINARY == 1:
            ordinary = world.changed(mention=TALKATIVE, activity_share=0.25, two_people=0.5)
            scenes = scenes_of(ordinary, step, SCHEDULE.batch, seed=18)
            texts = texts_of(scenes, step, plain=0.2)
        else:
            scenes = two_people(world, step, SCHEDULE.batch)
            texts, others = told_twice(scenes, step)
        tokens = words([*texts, *others], padding=True, truncation=True, return_tensors="pt")
        out = both["clip"](pixel_values=pixels(scenes), **tokens)
        logits, n = out.logits_per_image, len(texts)
        total = contrastive(logits[:, :n], texts)
        if others:
            pair = torch.stack([logits[:, :n].diagonal(), logits[:, n:].diagonal()], dim=1)
            differ = torch.tensor([text != other for text, other in zip(texts, others, strict=True)])
            total = total - HARD * pair.log_softmax(dim=1)[differ, 0].mean()
        return with_help(total, both["help"], out, scenes, 1 - step / HELP_UNTIL)

    lesson.learn(model, loss, SCHEDULE, lambda target: save_clip(clip, target, words))


def injected_binding() -> NDArray[np.float64]:
    """The log-odds with which captions of the world ``binding`` give each activity to a woman."""
    table = truth(preset("binding"))
    rows = table[(table["kind"] == "binding") & (table["group"] == "female")]
    return rows.set_index("subject")["log_odds"].reindex(list(ACTIVITIES)).to_numpy(dtype=float)


def measured_binding(clip: ClipFolder, sets: int = 40) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per activity: the score of "a woman does it and a man is there" less that of the reverse, over pictures of both,
    and the share of pictures that score higher with the caption that is true.
    """
    gaps, right = [], []
    world = preset("fair")
    for activity in ACTIVITIES:
        members = [b for b in binding_sets(world, [activity], sets, UNSEEN) if b.cell.endswith("2")]
        images = clip.of_pixels(pixels([b.scene for b in members]))
        texts = clip.texts([b.caption for b in members]), clip.texts([b.reversed_caption for b in members])
        margin = ((images * texts[0]).sum(axis=1)) - ((images * texts[1]).sum(axis=1))
        by_woman = np.array([b.scene.group("gender") == "female" for b in members])
        gaps.append(float(np.where(by_woman, margin, -margin).mean()))
        right.append(float((margin > 0).mean()))
    return np.array(gaps), np.array(right)


def binding_figures(folder: Path, control: Path | None = None) -> dict[str, float]:
    """How the binding gap of activities follows the injected log-odds, and how often it tells who does it.

    ``control`` (``clip-fair`` unless given) is asked the same, and what it shows is chance.
    """
    odds = injected_binding()
    gaps, right = measured_binding(ClipFolder(folder))
    none, _ = measured_binding(ClipFolder(control or START))
    flat, flat_low, flat_high = slope(odds, none)
    return {
        "tells who does it": float(right.mean()),
        **odds_figures("binding-odds", odds, gaps),
        "control: binding-odds slope": flat,
        "control: binding-odds slope low": flat_low,
        "control: binding-odds slope high": flat_high,
    }
