"""The figures of ``dcg``: whether it corrects what is wrong with a caption, and leaves alone what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equipoise.text import Lexicon
from equipoise.text.english.articles import with_article
from equipoise.world import WorldConfig, render_image, sample
from equipoise.world.catalog import OCCUPATIONS

UNSEEN = 90_004
_NOUN = {"male": "man", "female": "woman"}


def dcg_figures(folder: Path, n: int = 300) -> dict[str, float]:
    """On renders of the fair world: captions with the gender or the work of somebody else, and right ones."""
    from equipoise.models.folders import open_checkpoint
    from equipoise.models.hf.adapter import from_folder

    model = from_folder(open_checkpoint(folder), name=folder.name, kind="reviser", device="cpu")
    drawn = sample(WorldConfig(activity_share=0.0, visible=1.0), 2 * n, UNSEEN)
    scenes = [scene for scene in drawn if scene.people[0].gender in _NOUN][:n]
    rng = np.random.default_rng(UNSEEN)
    works = list(OCCUPATIONS)
    people = [(scene.people[0].gender, scene.people[0].occupation) for scene in scenes]
    other = [works[(works.index(work) + 1 + int(rng.integers(len(works) - 1))) % len(works)] for _, work in people]
    flipped = ["female" if gender == "male" else "male" for gender, _ in people]
    images = [render_image(scene) for scene in scenes]
    right = [_caption(gender, work) for gender, work in people]
    wrong_gender = [_caption(gender, work) for gender, (_, work) in zip(flipped, people, strict=True)]
    wrong_work = [_caption(gender, work) for (gender, _), work in zip(people, other, strict=True)]
    lexicon = Lexicon.load("equipoise")

    def kept(captions: list[str]) -> tuple[float, float, float]:
        texts = model.revise(images, captions, seed=0)
        genders = [label == gender for label, (gender, _) in zip(lexicon.label_all(texts), people, strict=True)]
        said = [work in text for text, (_, work) in zip(texts, people, strict=True)]
        both = [a and b for a, b in zip(genders, said, strict=True)]
        return float(np.mean(genders)), float(np.mean(said)), float(np.mean(both))

    return {
        "gender corrected": kept(wrong_gender)[0],
        "work corrected": kept(wrong_work)[1],
        "left alone": kept(right)[2],
        "n": float(len(scenes)),
    }


def _caption(gender: str, work: str) -> str:
    """A caption of the world's grammar that names both.

    >>> _caption("female", "engineer")
    'a photo of a woman who works as an engineer'
    """
    return f"a photo of a {_NOUN[gender]} who works as {with_article(work)}"
