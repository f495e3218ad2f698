"""What a model knows before it sees who acts: bias of the text encoder alone, and recognition of the activity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import COSINE_TIE, as_count, as_matrix, as_vector, chosen, row_blocks
from equipoise.measure.binding.pairs import choices
from equipoise.measure.binding.scenes import ALL, SCENARIOS, ByActivity, Scenes, over_activities
from equipoise.measure.metric import metric
from equipoise.measure.stats import summarise
from equipoise.measure.stats.bootstrap import IntervalMethod
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import sign_flip
from equipoise.measure.stats.shares import share_estimate


@dataclass(frozen=True)
class TextEncoderBias:
    """How often "a person is X" lies closer to the expected group's sentence than to the other's."""

    by_category: Mapping[str, Estimate]
    """Share of activities; chance 1/2."""
    margin: Estimate
    """Mean cosine gap over all activities; chance 0."""
    margins: Floats
    """(n,) cos(neutral, expected) - cos(neutral, unexpected) of each activity."""
    margin_quantiles: Mapping[float, float]
    """0, 1/4, 1/2, 3/4 and 1: how large the gaps are."""
    n_ties: int


@metric(
    "text_encoder_bias",
    takes="vectors",
    summary="Share of activities whose neutral sentence leans to the expected group.",
    citation="GABInsight, Table 1",
    formula="share with cos(neutral, expected) > cos(neutral, unexpected), ties 1/2",
    bounds=(0.0, 1.0),
    direction="1/2 is fair",
    chance="1/2",
    when_it_lies="Counts directions, not sizes: read the margins.",
    unit="share",
)
def text_encoder_bias(
    to_expected: Any,
    to_unexpected: Any,
    categories: Sequence[str] | None = None,
    *,
    variant: str = "raw",
    method: IntervalMethod = "t",
    level: float = 0.95,
    seed: int = 0,
) -> TextEncoderBias:
    """Share of activities with cos(T("A person is X"), T("A {expected} is X")) above the unexpected one (GAB, Table 1).

    Args:
        to_expected: (n,) the cosine of each activity's neutral sentence with the expected group's sentence.
        to_unexpected: (n,) its cosine with the other group's sentence.
        categories: (n,) the category of each activity; ``None``: there is only "all".
        variant: "raw" compares the cosines, a tie is one half; "round3" is the released code (softmax rounded to three
            decimals must exceed 0.5, so a gap below 0.002 counts as unbiased): its chance level is then below 1/2 and
            is left empty.
        method: of the intervals over activities, as in :func:`equipoise.measure.stats.mean_interval`.
        level: confidence level of the intervals.
        seed: which sign flips and resamples are drawn.

    Returns:
        The share in each category and in all, and how large the gaps between the two cosines are.

    >>> found = text_encoder_bias([0.9, 0.8, 0.801], [0.8, 0.9, 0.8])
    >>> round(found.by_category["all"].value, 4), found.n_ties
    (0.6667, 0)
    >>> text_encoder_bias([0.9, 0.8, 0.801], [0.8, 0.9, 0.8], variant="round3").n_ties
    1
    """
    chosen(variant, "variant", ("raw", "round3"))
    expected = as_vector(to_expected, "to_expected")
    unexpected = as_vector(to_unexpected, "to_unexpected", length=len(expected))
    names = np.array([ALL] * len(expected) if categories is None else [str(c) for c in categories])
    if len(names) != len(expected):
        raise InputError(f"categories has {len(names)} entries for {len(expected)} activities")
    margins = expected - unexpected
    choice = choices(margins, variant)
    values, chance = ((choice + 1) / 2, 0.5) if variant == "raw" else ((choice > 0).astype(np.float64), None)
    by_category = {
        name: share_estimate(
            values if name == ALL else values[names == name],
            null_value=chance,
            level=level,
            method=method,
            seed=seed,
        )
        for name in (*sorted(set(names.tolist()) - {ALL}), ALL)
    }
    steps = (0.0, 0.25, 0.5, 0.75, 1.0)
    return TextEncoderBias(
        by_category=by_category,
        margin=summarise(margins, null_value=0.0, level=level, method=method, seed=seed),
        margins=margins,
        margin_quantiles=dict(zip(steps, np.quantile(margins, steps).tolist(), strict=True)),
        n_ties=int((choice == 0).sum()),
    )


@dataclass(frozen=True)
class Recognition:
    """Whether the activity itself is recognised among activities close to it."""

    by_scenario: Mapping[str, Mapping[str, ByActivity]]
    """``by_scenario["U2"]["recall@1"]``; the metrics are "mrr" and "recall@k"."""
    values: Mapping[str, Floats]
    """(n,) the value of each image by metric."""
    chance: Mapping[str, Floats]
    """(n,) what a random order of that image's captions gives."""


def reciprocal_rank_chance(n_captions: Any) -> Floats:
    """Mean reciprocal rank of a random order of ``n_captions``: H_m / m, H the harmonic number.

    >>> reciprocal_rank_chance([1, 2, 4]).tolist()
    [1.0, 0.75, 0.5208333333333333]
    """
    counts = np.asarray(n_captions, dtype=np.intp)
    return np.asarray(_harmonic(int(counts.max()))[counts] / counts)


def _harmonic(most: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, most + 1))])


@metric(
    "activity_recognition",
    takes="scores",
    summary="Rank of the true activity among near ones: MRR, recall at 1 and 3.",
    citation="GABInsight",
    formula="mean 1 / rank; share with rank <= k",
    bounds=(0.0, 1.0),
    better="higher",
    chance="H_m / m; k / m",
    when_it_lies="Depends on how near the near activities are.",
    unit="share",
)
def activity_recognition(
    scenes: Scenes,
    true_scores: Any,
    near_scores: Any,
    near: Any = None,
    *,
    ks: Sequence[int] = (1, 3),
    ties: str = "expected",
    method: IntervalMethod = "t",
    level: float = 0.95,
    seed: int = 0,
) -> Recognition:
    """Rank of the true activity's caption among captions of near activities: MRR, recall@1, recall@3 (GABInsight).

    Means over an activity's images, then over activities; chance is H_m / m for MRR and k / m for recall@k with m
    captions, the true one included.

    Args:
        scenes: the activity and the scenario of each image.
        true_scores: (n,) each image with the caption of its own activity.
        near_scores: (n, c) each image with the captions of the activities near its own.
        near: (n, c) which of these captions exist, where activities have different numbers of them; ``None``: all.
        ks: the k of each recall@k.
        ties: "expected" averages over the order of tied captions; "favour_true" puts the true one first (the released
            code).
        method: of the intervals over activities, as in :func:`equipoise.measure.stats.mean_interval`.
        level: confidence level of the intervals.
        seed: which sign flips and resamples are drawn.

    Returns:
        Every metric by scenario, and its value and chance level for every image.

    >>> scenes = Scenes.of(["bake"] * 2, ["E1", "E1"])
    >>> found = activity_recognition(scenes, [0.9, 0.5], [[0.1, 0.2], [0.6, 0.5]])
    >>> found.values["mrr"].round(4).tolist(), found.chance["mrr"].round(4).tolist()
    ([1.0, 0.4167], [0.6111, 0.6111])
    """
    chosen(ties, "tie rule", ("expected", "favour_true"))
    own = scenes.scores(true_scores, "true_scores")
    exists = _existing(near, np.shape(near_scores), len(scenes))
    others = as_matrix(np.where(exists, np.asarray(near_scores, dtype=np.float64), 0.0), "near_scores")
    above, tied = np.empty(len(own)), np.empty(len(own))
    for rows in row_blocks(len(own), others.shape[1]):
        gap = others[rows] - own[rows, None]
        above[rows] = ((gap > COSINE_TIE) & exists[rows]).sum(axis=1)
        tied[rows] = ((np.abs(gap) <= COSINE_TIE) & exists[rows]).sum(axis=1)
    if ties == "favour_true":
        tied = np.zeros_like(tied)
    captions = 1 + exists.sum(axis=1)
    harmonic = _harmonic(int(captions.max()) + 1)
    first, last = above.astype(np.intp), (above + tied + 1).astype(np.intp)
    values = {"mrr": (harmonic[last] - harmonic[first]) / (tied + 1)}
    chance = {"mrr": reciprocal_rank_chance(captions)}
    for k in [as_count(k, "ks") for k in ks]:
        values[f"recall@{k}"] = np.clip(k - above, 0, tied + 1) / (tied + 1)
        chance[f"recall@{k}"] = np.minimum(k, captions) / captions
    by_scenario = {
        scenario: {
            metric: _by_activity(scenes, scenario, values[metric], chance[metric], method, level, seed)
            for metric in values
        }
        for scenario in SCENARIOS
        if (scenes.scenario == scenario).any()
    }
    return Recognition(by_scenario, values, chance)


def _existing(near: Any, shape: tuple[int, ...], n: int) -> NDArray[np.bool_]:
    if len(shape) != 2 or shape[0] != n or shape[1] < 1:
        raise InputError(f"near_scores has shape {shape}; it must be ({n}, number of near captions)")
    if near is None:
        return np.ones(shape, dtype=bool)
    exists = np.asarray(near, dtype=bool)
    if exists.shape != shape:
        raise InputError(f"near has shape {exists.shape} and near_scores {shape}; they must be the same")
    bare = np.flatnonzero(~exists.any(axis=1))
    if len(bare):
        raise InputError(f"near: image {bare[0]} has no near caption; an activity needs at least one to be told from")
    return exists


def _by_activity(
    scenes: Scenes,
    scenario: str,
    values: Floats,
    chance: Floats,
    method: IntervalMethod,
    level: float,
    seed: int,
) -> ByActivity:
    cells, expected = {}, {}
    for activity in scenes.activities:
        images = scenes.where(activity, scenario)
        if len(images):
            expected[activity] = float(chance[images].mean())
            estimate = share_estimate(values[images], level=level)
            cells[activity] = _against(estimate, values[images], chance[images], seed, draws=999)
    by_activity = over_activities(
        scenes, cells, what=f"images in {scenario}", null_value=None, method=method, level=level, seed=seed
    )
    by_category = {}
    for category, estimate in by_activity.by_category.items():
        members = [a for a in cells if category == ALL or scenes.category_of[a] == category]
        means = np.array([cells[a].value for a in members])
        by_category[category] = _against(estimate, means, np.array([expected[a] for a in members]), seed)
    return replace(by_activity, by_category=by_category)


def _against(estimate: Estimate, values: Floats, chance: Floats, seed: int, draws: int = 9999) -> Estimate:
    """``estimate`` with its chance level and the p-value of its values' excess over theirs."""
    test = sign_flip(values - chance, alternative="greater", seed=seed, draws=draws)
    return replace(estimate, null_mean=float(chance.mean()), null_sd=float(test.null_sd), p_value=float(test.p_value))
