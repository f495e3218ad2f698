"""What is measured of every CLIP and every captioner: the paper's metrics, by the functions of ``equipoise.measure``.

Each model gives rows ``metric``, ``axis``, ``group``, ``value``, ``low``, ``high``, ``chance``, ``p`` and ``n``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.captions.lic import measure_lic
from equipoise.measure.captions.mentions import Mentions, error
from equipoise.measure.captions.quality import caption_quality
from equipoise.measure.embedding import person_preference, self_similarity, zero_shot_accuracy
from equipoise.measure.groups import Groups
from equipoise.measure.images.clip_score import clip_score
from equipoise.measure.retrieval import recall_at_k, recall_by_group, scan
from equipoise.measure.retrieval.sources import Embeddings
from equipoise.measure.stats.estimate import Estimate
from equipoise.models.runtime import quiet
from equipoise.recipes.contamination.models import LockedClip
from equipoise.recipes.demo_parts import grainy
from equipoise.recipes.train_mini.evaluate import ClipFolder, gender_gaps, injected, slope
from equipoise.text import Lexicon
from equipoise.world import SceneArrays, WorldConfig, captions, render_image, sample
from equipoise.world.captions import prompts
from equipoise.world.catalog import AXES

KS = (1, 5, 10)
SETS = 6
"""Counterfactual pairs of each occupation."""
UNSEEN = 91_000
DRAWS = 99
"""Shuffles behind the chance level of each model's numbers; trends are tested over models."""
LIC_SEEDS = (0, 12, 100)
CLIP_METRICS = (
    "gap-odds slope",
    *(f"R@{k}" for k in KS),
    *(f"R@{k} gap, {axis}" for axis in AXES for k in KS),
    *(f"self-similarity gap, {axis}" for axis in AXES),
    *(f"self-similarity gap (Eq. 4 as printed), {axis}" for axis in AXES),
    *(f"person preference gap, {axis}" for axis in AXES),
    "zero-shot occupation",
)
"""Whose trends are tested; zero-shot gender is a condition, not a finding."""
CAPTIONER_METRICS = (
    "LIC, gender",
    "LIC, skin_tone",
    "LIC_M, gender",
    "LIC_M, skin_tone",
    "Error (Eq. 8)",
    "Error (Burns)",
    "BLEU-4",
    "CIDEr",
    "CLIPScore",
)
_MERGED = {"baby": "baby & child", "child": "baby & child"}


def merged_ages(labels: Sequence[Any]) -> list[Any]:
    """Age labels with babies and children as one group, where both occur, as the paper does with PHASE.

    >>> merged_ages(["baby", "child", "adult"]), merged_ages(["child", "adult"])
    (['baby & child', 'baby & child', 'adult'], ['child', 'adult'])
    """
    both = {"baby", "child"} <= set(labels)
    return [_MERGED.get(label, label) if both else label for label in labels]


@cache
def test_scenes(n: int) -> SceneArrays:
    """``n`` pictures of people at work in a world where nothing leans; no model has seen them."""
    return sample(WorldConfig(activity_share=0.0, visible=1.0), n, UNSEEN)


def _groups(scenes: SceneArrays, axis: str) -> Groups:
    labels = scenes.labels(axis).tolist()
    return Groups.from_values(merged_ages(labels) if axis == "age" else labels, axis=axis)


def _row(metric: str, estimate: Estimate | float, axis: str = "", group: str = "") -> dict[str, Any]:
    keys = {"metric": metric, "axis": axis, "group": group}
    if not isinstance(estimate, Estimate):
        return {**keys, "value": float(estimate)}
    cells = {"value": estimate.value, "low": estimate.ci_low, "high": estimate.ci_high, "chance": estimate.null_mean}
    return {**keys, **cells, "p": estimate.p_value, "n": estimate.n}


def clip_rows(folder: Path, n: int, *, sets: int = SETS) -> pd.DataFrame:
    """All that is measured of the CLIP in ``folder``, on ``n`` pictures and ``sets`` pairs of each occupation."""
    with quiet():
        clip = LockedClip(folder)
    scenes = test_scenes(n)
    images = clip.images(scenes)
    texts = clip.texts([captions(scene, 1, "full")[0] for scene in scenes])
    gaps = gender_gaps(clip, sets)
    steep, low, high = slope(injected(), gaps)
    rows = [
        {"metric": "gap-odds slope", "axis": "gender", "group": "", "value": steep, "low": low, "high": high}
        | {"chance": 0.0, "n": len(gaps)}
    ]
    ranks = scan(Embeddings(texts, images), [], targets=np.arange(n)).ranks
    assert ranks is not None
    rows += [_row(f"R@{k}", float(recall_at_k(ranks, k).mean())) | {"chance": k / n, "n": n} for k in KS]
    for axis in AXES:
        rows += _of_axis(clip, scenes, images, ranks, axis)
    rows += _seeing(clip, scenes, images)
    return pd.DataFrame(rows)


def _of_axis(
    clip: ClipFolder, scenes: SceneArrays, images: NDArray[np.float64], ranks: Any, axis: str
) -> list[dict[str, Any]]:
    groups = _groups(scenes, axis)
    rows = []
    for k in KS:
        recalls = recall_by_group(ranks, groups, k, draws=DRAWS)
        rows += [_row(f"R@{k}", estimate, axis, group) for group, estimate in recalls.by_group.items()]
        rows.append(_row(f"R@{k} gap, {axis}", recalls.gap, axis))
    for variant, name in (("group_mean", ""), ("literal_eq4", " (Eq. 4 as printed)")):
        alike = self_similarity(images, groups, variant=variant, replicates=DRAWS, permutations=DRAWS)
        if variant == "group_mean":
            rows += [_row("self-similarity", estimate, axis, group) for group, estimate in alike.by_group.items()]
        rows += [_row(f"self-similarity{name}, relative", e, axis, group) for group, e in alike.normalised.items()]
        if alike.gap is not None:
            rows.append(_row(f"self-similarity gap{name}, {axis}", alike.gap, axis))
    own = prompts(axis)
    asked = clip.texts(["a photo of a person", *(own[name] for name in groups.names)])
    preferred = person_preference(images, asked[0], asked[1:], groups, permutations=DRAWS)
    rows += [_row("person preference", estimate, axis, group) for group, estimate in preferred.by_group.items()]
    return [*rows, _row(f"person preference gap, {axis}", preferred.gap, axis)]


def _seeing(clip: ClipFolder, scenes: SceneArrays, images: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Whether the model can see at all: zero-shot accuracy of gender and occupation."""
    rows = []
    for kind, labels in (("gender", scenes.labels("gender")), ("occupation", scenes.subjects)):
        asked = prompts(kind)
        names = list(asked)
        targets = np.array([names.index(label) for label in labels.tolist()])
        by = _groups(scenes, "gender")
        accuracy = zero_shot_accuracy(images, clip.texts(list(asked.values())), targets, by, permutations=DRAWS)
        rows.append(_row(f"zero-shot {kind}", accuracy.overall))
    return rows


def caption_rows(captioner: Any, encoder: Any, n: int) -> tuple[pd.DataFrame, list[str]]:
    """All that is measured of a captioner on ``n`` grainy pictures, where it has to guess; and its captions.

    ``encoder`` gives CLIPScore. LIC is by the linear screen (``fast``) over three splits.
    """
    scenes = test_scenes(n)
    pictures = [render_image(scene) for scene in scenes]
    said = captioner.caption(grainy(pictures, seed=0), seed=0)
    references = [captions(scene, 5, "gendered") for scene in scenes]
    ids = list(map(str, range(n)))
    rows = []
    for axis in ("gender", "skin_tone"):
        labels = scenes.labels(axis).tolist()
        lic = measure_lic(
            dict(zip(ids, said, strict=True)),
            dict(zip(ids, labels, strict=True)),
            dict(zip(ids, references, strict=True)),
            mask="equipoise" if axis == "gender" else None,
            seeds=LIC_SEEDS,
            permutations=0,
        )
        rows += [_row(f"LIC_M, {axis}", lic.lic_m, axis)]
        if lic.lic is not None:
            rows.append(_row(f"LIC, {axis}", lic.lic, axis))
    mentions = Mentions.of(said, Lexicon.load("equipoise"))
    by = _groups(scenes, "gender")
    rows.append(_row("Error (Eq. 8)", error(mentions, by, definition="any_opposite", draws=DRAWS), "gender"))
    rows.append(_row("Error (Burns)", error(mentions, by, definition="burns_all", draws=DRAWS), "gender"))
    quality = caption_quality(said, references, metrics=("bleu_4", "cider"))
    rows += [_row(name, quality[key].estimate) for key, name in (("bleu_4", "BLEU-4"), ("cider", "CIDEr"))]
    fit = clip_score(encoder.encode_images(pictures), encoder.encode_texts(said))
    rows.append(_row("CLIPScore", fit.estimate))
    return pd.DataFrame(rows), list(said)
