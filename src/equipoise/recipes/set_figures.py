"""How good counterfactual sets of the pictogram world are: what the judge sees in them, and what moves behind people.

No filter asks the judge. Backgrounds are compared where neither of two pictures shows a person. The miniature
detector finds the persons; where it is not installed, or finds nobody, a person is taken to be wherever one stands in
more than one of twenty renders of the world.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Floats, Mask, Pixels
from equipoise.generate.persons import dilated
from equipoise.measure.notes import no_interval, no_null
from equipoise.measure.stats import compare, summarise
from equipoise.measure.stats.bootstrap import bootstrap_statistic
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.shares import share_estimate
from equipoise.world import WorldConfig, sample, what_is_where

MARGIN = 2
"""Pixels around a person that are not background either."""
STANDING = 0.05
LEAST_SETS = 5
"""Of fewer caption sets a bootstrap gives no interval worth the name: of one, a point."""


@dataclass(frozen=True)
class Pool:
    """n pictures of sets: what was asked for, what is seen."""

    frame: pd.DataFrame
    """``set_id``, ``prompt_set``, ``candidate``, ``caption``, ``subject`` and one column per axis."""
    images: Pixels
    """(n, height, width, 3)."""
    seen: Mapping[str, NDArray[np.str_]]
    """What the judge sees, by axis; ``occupation`` is the subject."""
    people: Mask
    """(n, height, width) where persons are."""

    def part(self, rows: Any) -> Pool:
        """The pool of some rows, in their order."""
        at = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        seen = {axis: values[at] for axis, values in self.seen.items()}
        return Pool(self.frame.iloc[at].reset_index(drop=True), self.images[at], seen, self.people[at])

    def right(self, axis: str) -> NDArray[np.bool_]:
        """(n,) whether the judge sees what was asked for."""
        asked = self.frame["subject" if axis == "occupation" else axis].to_numpy(dtype=str)
        return np.asarray(self.seen[axis] == asked)


def accuracies(pool: Pool, axes: Mapping[str, int], attributes: Sequence[str]) -> dict[str, Estimate]:
    """Shares of pictures that show what was asked for, by axis, against guessing among so many groups.

    ``attributes``, the mean over these axes, comes first. Intervals and p-values are by caption set.
    """
    sets = pool.frame["prompt_set"].to_numpy()
    answers = {
        axis: share_estimate(pool.right(axis).astype(float), clusters=sets, null_value=1 / n, alternative="greater")
        for axis, n in axes.items()
    }
    together = np.mean([pool.right(axis) for axis in attributes], axis=0)
    chance = float(np.mean([1 / axes[axis] for axis in attributes]))
    return {"attributes": share_estimate(together, clusters=sets, null_value=chance, alternative="greater"), **answers}


def differences(images: Pixels, people: Mask, pairs: Sequence[tuple[int, int]]) -> Floats:
    """(p,) mean absolute difference (0 to 255) of two pictures where neither shows a person; NaN where none is left.

    >>> pictures = np.zeros((2, 1, 2, 3), np.uint8)
    >>> pictures[1] = 10
    >>> differences(pictures, np.zeros((2, 1, 2), bool), [(0, 1)]).tolist()
    [10.0]
    """
    values = np.full(len(pairs), np.nan)
    for k, (i, j) in enumerate(pairs):
        outside = ~(people[i] | people[j])
        if outside.any():
            values[k] = np.abs(images[i][outside].astype(np.int16) - images[j][outside]).mean()
    return values


def inside_sets(pool: Pool) -> pd.DataFrame:
    """``prompt_set``, ``set_id``, ``value``: the mean difference over all pairs of pictures of one set."""
    return pd.DataFrame(
        [
            {"prompt_set": str(rows["prompt_set"].iloc[0]), "set_id": str(name), "value": value}
            for name, rows in pool.frame.groupby("set_id", sort=True)
            for value in [_mean(pool, list(combinations(rows.index, 2)))]
        ]
    )


def between_seeds(pool: Pool) -> pd.DataFrame:
    """``prompt_set``, ``value``: the mean difference of pictures of one caption that were made from other seeds."""
    return pd.DataFrame(
        [
            {"prompt_set": str(name), "value": _mean(pool, list(_same_caption(rows)))}
            for name, rows in pool.frame.groupby("prompt_set", sort=True)
        ]
    )


def _same_caption(rows: pd.DataFrame) -> Iterator[tuple[int, int]]:
    for _, same in rows.groupby("caption", sort=True):
        yield from combinations(same.index, 2)


def _mean(pool: Pool, pairs: list[tuple[Any, Any]]) -> float:
    values = differences(pool.images, pool.people, pairs)
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def ratio(inside: pd.DataFrame, between: pd.DataFrame) -> Estimate:
    """The mean difference inside sets over that between seeds, with an interval by caption set from five sets on.

    >>> a = pd.DataFrame({"prompt_set": list("abc"), "value": [1.0, 2.0, 3.0]})
    >>> ratio(a, a.assign(value=[10.0, 20.0, 30.0])).value
    0.1
    """
    values = _side_by_side(inside, between)
    value = float(values[:, 0].sum() / values[:, 1].sum())
    note = no_null("chance is another seed, which is the denominator")
    if len(values) < LEAST_SETS:
        return Estimate(value, n=len(values), notes=(note, no_interval(f"fewer than {LEAST_SETS} caption sets")))
    draws = bootstrap_statistic(values, lambda sums: sums[:, 0] / sums[:, 1])
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(value, float(low), float(high), n=len(values), notes=(note,))


def paired(first: pd.DataFrame, second: pd.DataFrame) -> Estimate:
    """The mean of first minus second over the same sets, with its interval and p-value."""
    values = _side_by_side(first, second)
    return compare(values[:, 0], values[:, 1])


def described(values: pd.DataFrame) -> Estimate:
    """The mean over caption sets with its interval."""
    return summarise(_by_caption_set(values).dropna(), notes=(no_null("a difference of pixels is no bias"),))


def _by_caption_set(values: pd.DataFrame) -> pd.Series[Any]:
    return values.groupby("prompt_set", sort=True)["value"].mean()


def _side_by_side(first: pd.DataFrame, second: pd.DataFrame) -> Floats:
    """(sets, 2): the caption sets that both have."""
    both = pd.DataFrame({"first": _by_caption_set(first), "second": _by_caption_set(second)})
    return both.dropna().to_numpy(dtype=np.float64)


def person_masks(images: Pixels, detector: Any = None) -> tuple[Mask, str]:
    """(n, height, width) where persons are, and a sentence that says how that is known."""
    from PIL import Image

    fallback = standing(images.shape[1])
    usual = "a person is taken to be where one stands in more than 5% of renders"
    if detector is None:
        return np.broadcast_to(fallback, images.shape[:3]).copy(), f"no detector: {usual}"
    masks = np.empty(images.shape[:3], dtype=bool)
    missed = 0
    for i, detections in enumerate(detector.detect([Image.fromarray(image) for image in images])):
        mask = _person(detections, images.shape[1:3])
        missed += not mask.any()
        masks[i] = dilated(mask, MARGIN) if mask.any() else fallback
    note = f"persons found by {detector.name}, with {MARGIN} pixels around them"
    return masks, note + (f"; in {missed} of {len(images)} pictures it found nobody, and {usual}" if missed else "")


def _person(detections: Any, size: tuple[int, int]) -> Mask:
    mask = np.zeros(size, dtype=bool)
    for i, label in enumerate(detections.labels):
        if label == "person" and detections.masks is not None:
            mask |= detections.masks[i]
        elif label == "person":
            left, top, right, bottom = (int(v) for v in detections.boxes[i])
            mask[top:bottom, left:right] = True
    return mask


@cache
def standing(size: int = 64) -> Mask:
    """(size, size) where a person stands in more than 5% of 500 renders of people at work."""
    scenes = sample(WorldConfig(activity_share=0.0, visible=1.0), 500, 91_000)
    return np.asarray(np.mean([what_is_where(scene, size).people[0] for scene in scenes], axis=0) > STANDING)
