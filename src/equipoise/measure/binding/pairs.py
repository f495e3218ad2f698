"""Text-to-image choices between an expected and an unexpected performer, over all pairs or over sampled ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.arrays import COSINE_TIE, as_count, chosen
from equipoise.measure.binding.scenes import ALL, ByActivity, Scenes, over_activities
from equipoise.measure.metric import metric
from equipoise.measure.stats.bootstrap import IntervalMethod
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.shares import pair_probability, wilson_interval

PAIRS = {"E2": "U2", "E1": "U1"}
CAPTIONS = ("expected", "unexpected", "neutral")
PAIRINGS = ("random", "in_order")


@metric(
    "text_to_image",
    takes="scores",
    summary="Probability that a caption prefers the matching performer.",
    citation="GABInsight",
    formula="P(s(C, right image) > s(C, other)) over all pairs of an activity, ties 1/2",
    bounds=(0.0, 1.0),
    direction="higher is better",
    chance="1/2",
    when_it_lies="Only pairs inside an activity are comparable.",
    unit="share",
)
def text_to_image(
    scenes: Scenes,
    scores: Any,
    *,
    caption: str = "expected",
    people: int = 2,
    method: IntervalMethod = "t",
    level: float = 0.95,
    seed: int = 0,
) -> ByActivity:
    """Probability that a caption scores its matching image above one of the other performer (GABInsight, section 4).

    Exact over all pairs of an activity (AUC, ties one half), then a mean over activities. Chance 1/2.

    Args:
        scenes: the activity and the scenario of each image.
        scores: (n,) each image with the activity's caption for the ``caption`` performer.
        caption: "expected": an E image is right; "unexpected": a U image is right; "neutral" ("a person is ..."): an E
            image counts.
        people: 2 compares E2 with U2, 1 compares E1 with U1.
        method: of the intervals over activities, as in :func:`equipoise.measure.stats.mean_interval`.
        level: confidence level of the intervals.
        seed: which sign flips and resamples are drawn.

    Returns:
        The probability for each activity with images of both performers, and the means over activities.

    >>> scenes = Scenes.of(["bake"] * 4, ["E2", "E2", "U2", "U2"])
    >>> text_to_image(scenes, [0.3, 0.2, 0.25, 0.1]).overall.value
    0.75
    """
    chosen(caption, "caption", CAPTIONS)
    values = scenes.scores(scores, "scores")
    first, second = _scenarios(people)
    by_activity = {}
    for activity, expected, unexpected in _both(scenes, first, second):
        right, wrong = (unexpected, expected) if caption == "unexpected" else (expected, unexpected)
        by_activity[activity] = pair_probability(values[right], values[wrong], level=level)
    what = f"images in both {first} and {second}"
    return over_activities(scenes, by_activity, what=what, null_value=0.5, method=method, level=level, seed=seed)


@metric(
    "neutral_preference",
    takes="scores",
    summary='Preference of "a person is ..." for the expected performer.',
    citation="GABInsight",
    formula="P(s(neutral, E image) > s(neutral, U image)), ties 1/2",
    bounds=(0.0, 1.0),
    direction="1/2 is fair; above: person means the expected group",
    chance="1/2",
    when_it_lies="E and U images may differ in more than the performer.",
    unit="share",
)
def neutral_preference(
    scenes: Scenes,
    scores: Any,
    *,
    people: int = 2,
    method: IntervalMethod = "t",
    level: float = 0.95,
    seed: int = 0,
) -> ByActivity:
    """Probability that "a person is ..." scores the expected performer's image above the unexpected one's.

    1/2 is no preference; above 1/2 the model takes "a person" for the expected group. See :func:`text_to_image`.

    Args:
        scenes: the activity and the scenario of each image.
        scores: (n,) each image with the activity's neutral caption.
        people: 2 compares E2 with U2, 1 compares E1 with U1.
        method: of the intervals over activities, as in :func:`equipoise.measure.stats.mean_interval`.
        level: confidence level of the intervals.
        seed: which sign flips and resamples are drawn.

    Returns:
        The probability for each activity with images of both performers, and the means over activities.

    >>> scenes = Scenes.of(["bake"] * 2, ["E1", "U1"])
    >>> neutral_preference(scenes, [0.2, 0.2], people=1).overall.value
    0.5
    """
    return text_to_image(scenes, scores, caption="neutral", people=people, method=method, level=level, seed=seed)


@dataclass(frozen=True)
class SampledPairs:
    """One-to-one pairs instead of all of them, for comparison with published figures."""

    mean: ByActivity
    """Averaged over the repeats."""
    repeats: Mapping[str, Floats]
    """(R,) values of each category: how much the pairing alone moves the figure."""
    n_pairs: int
    """Pairs of one repeat."""


@metric(
    "sampled_pairs",
    takes="scores",
    summary="Text-to-image choice over one-to-one pairs, as published.",
    citation="GABInsight, code",
    formula="share of one-to-one pairs won",
    bounds=(0.0, 1.0),
    direction="higher is better",
    chance="1/2",
    when_it_lies="One random pairing moves the figure by itself; rounding to 3 decimals hides gaps below 0.002.",
    unit="share",
)
def sampled_pairs(
    scenes: Scenes,
    scores: Any,
    *,
    caption: str = "expected",
    people: int = 2,
    pairing: str = "random",
    variant: str = "raw",
    tie_goes_to: str | None = None,
    repeats: int = 100,
    level: float = 0.95,
    seed: int = 0,
) -> SampledPairs:
    """The text-to-image choice over one-to-one pairs of images, cut to the shorter list (GABInsight).

    The released code is ``pairing="in_order", variant="round3", tie_goes_to="man"``.

    Args:
        scenes: the activity and the scenario of each image.
        scores: (n,) each image with the activity's caption for the ``caption`` performer.
        caption: "expected", "unexpected" or "neutral", as in :func:`text_to_image`.
        people: 2 compares E2 with U2, 1 compares E1 with U1.
        pairing: "random" draws pairs ``repeats`` times; "in_order" pairs images as they come, once.
        variant: "raw" compares scores; "round3" compares the two-way softmax of raw cosines rounded to three decimals,
            so that any gap below 0.002 is a tie.
        tie_goes_to: the group whose image wins a tie (``scenes.expected`` must say who is expected); ``None``: a tie is
            one half.
        repeats: how many random pairings are averaged.
        level: confidence level of the intervals.
        seed: which pairs and sign flips are drawn.

    Returns:
        The mean over the repeats, the value of each repeat by category, and the number of pairs.

    >>> scenes = Scenes.of(["bake"] * 3, ["E2", "U2", "U2"], expected={"bake": "woman"})
    >>> sampled_pairs(scenes, [0.3, 0.2, 0.4], pairing="in_order").mean.overall.value
    1.0
    """
    chosen(caption, "caption", CAPTIONS)
    chosen(pairing, "pairing", PAIRINGS)
    chosen(variant, "variant", ("raw", "round3"))
    values = scenes.scores(scores, "scores")
    first, second = _scenarios(people)
    count = 1 if pairing == "in_order" else as_count(repeats, "repeats")
    rng = np.random.default_rng(seed)
    means: dict[str, Floats] = {}
    estimates: dict[str, Estimate] = {}
    n_pairs = 0
    for activity, expected, unexpected in _both(scenes, first, second):
        size = min(len(expected), len(unexpected))
        n_pairs += size
        worth = _tie_worth(scenes, activity, caption, tie_goes_to)
        outcomes = np.empty((count, size))
        for repeat in range(count):
            left, right = expected, unexpected
            if pairing == "random":
                left, right = rng.permutation(expected), rng.permutation(unexpected)
            choice = choices(values[left[:size]] - values[right[:size]], variant)
            wins = -choice if caption == "unexpected" else choice
            outcomes[repeat] = np.where(wins == 0, worth, (wins > 0).astype(np.float64))
        means[activity] = outcomes.mean(axis=1)
        estimates[activity] = _paired_estimate(float(outcomes.mean()), size, level)
    what = f"images in both {first} and {second}"
    mean = over_activities(scenes, estimates, what=what, null_value=0.5, level=level, seed=seed)
    by_category = {
        category: np.mean([v for a, v in means.items() if category == ALL or scenes.category_of[a] == category], axis=0)
        for category in mean.by_category
    }
    return SampledPairs(mean, by_category, n_pairs)


def _paired_estimate(value: float, size: int, level: float) -> Estimate:
    # the repeats share their images, so they add no certainty: the width is that of one repeat
    low, high = wilson_interval(value * size, size, level=level)
    return Estimate(value, low, high, null_mean=0.5, null_sd=0.5 / float(np.sqrt(size)), n=size, level=level)


def rounded_choice(gap: Any) -> Floats:
    """1, 0 or -1: which of two raw cosines wins after a softmax rounded to three decimals, by their ``gap``.

    >>> rounded_choice([0.0019, 0.0021, -0.5]).tolist()
    [0.0, 1.0, -1.0]
    """
    share = np.round(1 / (1 + np.exp(-np.asarray(gap, dtype=np.float64))), 3)
    return np.asarray(np.sign(share - 0.5))


def choices(gap: Floats, variant: str) -> Floats:
    """1, 0 or -1: which of two cosines wins by their ``gap``; of the ``variant`` "raw" exactly, else rounded.

    >>> choices(np.array([0.001, -0.5]), "raw").tolist()
    [1.0, -1.0]
    """
    if variant == "round3":
        return rounded_choice(gap)
    return np.asarray(np.where(np.abs(gap) <= COSINE_TIE, 0.0, np.sign(gap)))


def _tie_worth(scenes: Scenes, activity: str, caption: str, tie_goes_to: str | None) -> float:
    if tie_goes_to is None:
        return 0.5
    if activity not in scenes.expected:
        raise InputError(f"tie_goes_to = {tie_goes_to!r} needs scenes.expected to name who is expected to {activity!r}")
    if tie_goes_to not in set(scenes.expected.values()):
        raise UnknownNameError("expected performer", tie_goes_to, set(scenes.expected.values()))
    to_expected = scenes.expected[activity] == tie_goes_to
    return float(to_expected != (caption == "unexpected"))


def _scenarios(people: int) -> tuple[str, str]:
    first = f"E{people}"
    if first not in PAIRS:
        raise InputError(f"people must be 1 (E1 with U1) or 2 (E2 with U2), not {people!r}")
    return first, PAIRS[first]


def _both(scenes: Scenes, first: str, second: str) -> list[tuple[str, Any, Any]]:
    cells = [(a, scenes.where(a, first), scenes.where(a, second)) for a in scenes.activities]
    return [cell for cell in cells if len(cell[1]) and len(cell[2])]
