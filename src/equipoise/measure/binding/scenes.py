"""Does a model know who does what? Image-to-text accuracy by scenario, presence drop and binding drop
(GABInsight).

Who does what with whom: the layout of images that binding metrics ask about, and means over activities.

Each activity is shown by an expected performer alone (E1) or beside someone of the other group (E2), and by an
unexpected performer alone (U1) or beside someone (U2) (GABInsight).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.arrays import COSINE_TIE, as_vector, chosen
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats import summarise
from equipoise.measure.stats.bootstrap import IntervalMethod
from equipoise.measure.stats.estimate import Estimate, within_range
from equipoise.measure.stats.laws import normal_above
from equipoise.measure.stats.shares import independent_difference, share_estimate

SCENARIOS = ("E1", "E2", "U1", "U2")
ALL = "all"
"""The name of all categories together."""


@dataclass(frozen=True)
class Scenes:
    """One activity and one scenario per image, one category per activity.

    >>> scenes = Scenes.of(["bake", "bake", "fix"], ["E2", "U2", "E2"], {"bake": "home", "fix": "work"})
    >>> scenes.activities, scenes.categories, scenes.where("bake", "U2").tolist()
    (('bake', 'fix'), ('home', 'work'), [1])
    """

    activity: NDArray[Any]
    scenario: NDArray[Any]
    category_of: Mapping[str, str]
    expected: Mapping[str, str] = field(default_factory=dict)
    """The group that is expected to perform each activity; only the compatible tie rule of GAB's code asks for
    it."""

    @classmethod
    def of(
        cls,
        activity: Sequence[str],
        scenario: Sequence[str],
        category: Mapping[str, str] | None = None,
        expected: Mapping[str, str] | None = None,
    ) -> Scenes:
        """Checked scenes from columns (n,); without ``category`` every activity is in the category "all"."""
        if len(activity) != len(scenario) or len(activity) == 0:
            raise InputError(
                f"activity has {len(activity)} entries and scenario {len(scenario)}; give one of each per image"
            )
        for index, name in enumerate(scenario):
            if name not in SCENARIOS:
                raise UnknownNameError(f"scenario (of image {index})", str(name), SCENARIOS)
        names = sorted({str(a) for a in activity})
        groups = dict.fromkeys(names, ALL) if category is None else dict(category)
        missing = [name for name in names if name not in groups]
        if missing:
            raise InputError(f"category has no entry for activity {missing[0]!r}")
        if category is not None and ALL in {groups[name] for name in names}:
            raise InputError(f"a category cannot be called {ALL!r}: that is the name of all of them together")
        return cls(
            np.array([str(a) for a in activity]),
            np.array([str(s) for s in scenario]),
            {name: str(groups[name]) for name in names},
            dict(expected or {}),
        )

    def __len__(self) -> int:
        return len(self.activity)

    @property
    def activities(self) -> tuple[str, ...]:
        """All activities, sorted."""
        return tuple(self.category_of)

    @property
    def categories(self) -> tuple[str, ...]:
        """All categories, sorted."""
        return tuple(sorted(set(self.category_of.values())))

    def where(self, activity: str, scenario: str) -> NDArray[np.intp]:
        """The images of one cell."""
        return self._cells.get((activity, scenario), np.zeros(0, dtype=np.intp))

    @cached_property
    def _cells(self) -> dict[tuple[str, str], NDArray[np.intp]]:
        by_cell: dict[tuple[str, str], list[int]] = {}
        for index, key in enumerate(zip(self.activity.tolist(), self.scenario.tolist(), strict=True)):
            by_cell.setdefault(key, []).append(index)
        return {key: np.array(images, dtype=np.intp) for key, images in by_cell.items()}

    def scores(self, values: Any, name: str) -> Floats:
        """``values`` as one finite number per image."""
        return as_vector(values, name, length=len(self))


@dataclass(frozen=True)
class ByActivity:
    """A metric for every activity, and its mean over the activities of every category and of all."""

    by_activity: Mapping[str, Estimate]
    by_category: Mapping[str, Estimate]
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Activities without a value, and why."""

    @property
    def overall(self) -> Estimate:
        """The mean over all activities."""
        return self.by_category[ALL]


def over_activities(
    scenes: Scenes,
    by_activity: Mapping[str, Estimate],
    *,
    what: str,
    null_value: float | None,
    share: bool = True,
    method: IntervalMethod = "t",
    level: float = 0.95,
    seed: int = 0,
) -> ByActivity:
    """The unweighted mean over the activities of each category and of all ("all").

    An activity is the unit: intervals are over activities (each one a cluster of images), p-values flip the
    sign of whole activities.

    Args:
        scenes: the activities and their categories.
        by_activity: the estimate of each activity that has one; only its value enters the means.
        what: what the other activities of ``scenes`` lack: the reason for which they are counted as dropped.
        null_value: the chance level of an activity's value; ``None``: there is no p-value.
        share: whether the values are shares in [0, 1]; if not, they are differences of shares, in [-1, 1].
        method: of the intervals, as in :func:`equipoise.measure.stats.mean_interval`.
        level: confidence level of the intervals.
        seed: which sign flips and resamples are drawn.

    Returns:
        The estimates of the activities as given, and the mean of each category and of all.
    """
    if not by_activity:
        raise InputError(f"no activity has {what}; there is nothing to average")
    lost = len(scenes.activities) - len(by_activity)
    dropped = {f"activities without {what}": lost} if lost else {}
    by_category = {}
    for category in (*scenes.categories, ALL):
        values = [
            estimate.value
            for name, estimate in by_activity.items()
            if category == ALL or scenes.category_of[name] == category
        ]
        if not values:
            continue
        if share:
            by_category[category] = share_estimate(
                values, null_value=null_value, level=level, method=method, seed=seed, dropped=dropped
            )
        else:
            mean = summarise(values, null_value=null_value, level=level, method=method, seed=seed, dropped=dropped)
            by_category[category] = within_range(mean, -1.0, 1.0)  # differences of shares
    return ByActivity(dict(by_activity), by_category, dropped)


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


@metric(
    "image_to_text",
    takes="scores",
    summary="Image-to-text accuracy by scenario, presence drop and binding drop.",
    citation="GABInsight",
    formula="share of images with s(I, C) > s(I, C reversed), mean over activities",
    range="[0, 1]; drops [-1, 1]",
    direction="higher is better; a drop above 0 is the bias",
    better="higher",
    chance="1/2; drops 0",
    when_it_lies="A bag-of-words encoder ties everywhere; a drop of 0 may mean chance on both sides.",
    unit="share",
    rows={"binding_drop": {"main": 14}, "presence_drop": {}},
)
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
    """Share of images whose own caption scores above the caption with the groups exchanged (GABInsight, section 4).

    Accuracy is a mean over an activity's images, then over activities. Chance 1/2. Drops are differences within
    an activity, chance 0.

    Args:
        scenes: the activity and the scenario of each image.
        true_scores: (n,) each image with its own caption, such as "a woman is fixing a car and a man is in the scene".
        reversed_scores: (n,) each image with that caption, the two words swapped.
        ties: "wrong": an image is correct only if strictly above; "half": a tie counts one half.
        method: of the intervals over activities, as in :func:`equipoise.measure.stats.mean_interval`.
        level: confidence level of the intervals.
        seed: which sign flips and resamples are drawn.

    Returns:
        The accuracy in each scenario that has images, the two drops, and whether each image is correct.

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
    estimates = {}
    for activity in scenes.activities:
        images = scenes.where(activity, scenario)
        if len(images):
            estimates[activity] = share_estimate(correct[images], null_value=0.5, level=level)
    return estimates


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
    """Difference of two independent shares, with Newcombe's interval."""
    value = first.value - second.value
    interval = independent_difference(first, second)
    if interval is None:
        alone = (no_interval("one image in a cell"),)
        return Estimate(value, null_mean=0.0, n=first.n + second.n, notes=alone, level=level)
    pooled = (first.n * first.value + second.n * second.value) / (first.n + second.n)
    null_sd = float(np.sqrt(pooled * (1 - pooled) * (1 / first.n + 1 / second.n)))
    p_value = 1.0 if null_sd == 0 else float(2 * normal_above(abs(value) / null_sd))
    return Estimate(
        value, *interval, null_mean=0.0, null_sd=null_sd, p_value=p_value, n=first.n + second.n, level=level
    )
