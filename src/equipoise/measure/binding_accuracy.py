"""Does a model know who does what? Image-to-text accuracy by scenario, presence drop and binding drop
(GABInsight)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats as sps

from equipoise.measure.arrays import COSINE_TIE, Floats, chosen
from equipoise.measure.binding_scenes import SCENARIOS, ByActivity, Scenes, over_activities
from equipoise.measure.bootstrap import IntervalMethod
from equipoise.measure.estimate import Estimate
from equipoise.measure.shares import share_estimate

__all__ = ["ImageToText", "image_to_text"]

TIES = {"wrong": 0.0, "half": 0.5}


@dataclass(frozen=True)
class ImageToText:
    """Accuracy in each scenario and the two drops that separate presence from binding."""

    accuracy: Mapping[str, ByActivity]
    """By scenario (E1, E2, U1, U2), of those that have images."""
    presence_drop: ByActivity | None
    """acc(U1) - acc(U2): what a second person costs; None without both."""
    binding_drop: ByActivity | None
    """acc(E2) - acc(U2): what an unexpected performer costs when both are in the picture; None without both."""
    correct: Floats
    """(n,) 1, 0 or the tie's worth, for every image."""


def image_to_text(
    scenes: Scenes,
    true_scores: Any,
    reversed_scores: Any,
    *,
    ties: str = "wrong",
    method: IntervalMethod = "t",
    level: float = 0.95,
    seed: int = 0,
) -> ImageToText:
    """Share of images whose own caption scores above the caption with the groups exchanged (GABInsight, section
    4).

    ``true_scores`` and ``reversed_scores`` (n,): the image with "a woman is fixing a car and a man is in the
    scene" and with the two words swapped. Correct iff strictly above; ``ties`` "half" gives a tie one half.
    Accuracy is a mean over an activity's images, then over activities. Chance 1/2. Drops are differences within
    an activity, chance 0.

    >>> scenes = Scenes.of(["bake"] * 4, ["E1", "E2", "U1", "U2"])
    >>> found = image_to_text(scenes, [0.3, 0.3, 0.3, 0.2], [0.2, 0.2, 0.2, 0.3])
    >>> found.accuracy["U2"].overall.value, found.binding_drop.overall.value
    (0.0, 1.0)
    """
    chosen(ties, "tie rule", tuple(TIES))
    margin = scenes.scores(true_scores, "true_scores") - scenes.scores(reversed_scores, "reversed_scores")
    correct = np.where(np.abs(margin) <= COSINE_TIE, TIES[ties], (margin > 0).astype(np.float64))
    options: dict[str, Any] = {"method": method, "level": level, "seed": seed}
    cells = {name: _cells(scenes, correct, name, level) for name in SCENARIOS}
    accuracy = {
        name: over_activities(scenes, cell, what=f"images in {name}", null_value=0.5, **options)
        for name, cell in cells.items()
        if cell
    }
    return ImageToText(
        accuracy=accuracy,
        presence_drop=_drop(scenes, cells, "U1", "U2", options),
        binding_drop=_drop(scenes, cells, "E2", "U2", options),
        correct=correct,
    )


def _cells(scenes: Scenes, correct: Floats, scenario: str, level: float) -> dict[str, Estimate]:
    found = {}
    for activity in scenes.activities:
        images = scenes.where(activity, scenario)
        if len(images):
            found[activity] = share_estimate(correct[images], null_value=0.5, level=level)
    return found


def _drop(
    scenes: Scenes, cells: Mapping[str, Mapping[str, Estimate]], first: str, second: str, options: dict[str, Any]
) -> ByActivity | None:
    both = {
        activity: _difference(cells[first][activity], cells[second][activity], options["level"])
        for activity in scenes.activities
        if activity in cells[first] and activity in cells[second]
    }
    if not both:
        return None
    what = f"images in both {first} and {second}"
    return over_activities(scenes, both, what=what, null_value=0.0, share=False, **options)


def _difference(first: Estimate, second: Estimate, level: float) -> Estimate:
    """Difference of two independent shares with Newcombe's interval, which stands 0 and 1 (Newcombe 1998,
    method 10)."""
    value = first.value - second.value
    if None in (first.ci_low, first.ci_high, second.ci_low, second.ci_high):
        return Estimate(value, null_mean=0.0, n=first.n + second.n, notes=("no interval: one image in a cell",))
    assert first.ci_low is not None
    assert first.ci_high is not None
    assert second.ci_low is not None
    assert second.ci_high is not None
    low = value - float(np.hypot(first.value - first.ci_low, second.ci_high - second.value))
    high = value + float(np.hypot(first.ci_high - first.value, second.value - second.ci_low))
    pooled = (first.n * first.value + second.n * second.value) / (first.n + second.n)
    null_sd = float(np.sqrt(pooled * (1 - pooled) * (1 / first.n + 1 / second.n)))
    p_value = 1.0 if null_sd == 0 else float(2 * sps.norm.sf(abs(value) / null_sd))
    return Estimate(
        value, low, high, null_mean=0.0, null_sd=null_sd, p_value=p_value, n=first.n + second.n, level=level
    )
