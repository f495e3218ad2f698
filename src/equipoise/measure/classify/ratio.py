"""Whom a classifier sees: the Ratio of predicted groups, and whether inpainting leaves marks that change it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.captions.counts import TwoSides, two_sided_estimate
from equipoise.measure.captions.mentions import Mentions
from equipoise.measure.captions.ratio import NamedRatio, RatioConvention, ratio
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.laws import normal_quantile


def predicted_ratio(
    predicted: Groups,
    pair: tuple[str, str],
    *,
    labels: Groups | None = None,
    convention: RatioConvention = "lic",
    level: float = 0.95,
) -> NamedRatio:
    """Images predicted to show ``pair[0]`` over images predicted to show ``pair[1]``.

    The metric ``ratio`` of captions, with predictions for words. On images whose person is masked nothing of the person
    is left to see, so parity is ideal and is the chance level; give no ``labels`` there.

    Args:
        predicted: the group predicted for each image; an image predicted to show neither does not count.
        pair: the names of the two groups.
        labels: the groups of whole images, whose own ratio is the chance level; ``None``: it is parity.
        convention: ``lic`` is raw (first over second), ``burns`` is second over first, ``folded`` is max(r, 1 / r),
            whose chance is parity always.
        level: confidence level of the interval.

    Returns:
        The two counts and their ratio, which is missing where one of them is 0.

    >>> found = predicted_ratio(Groups.from_values(["m", "m", "m", "f", None]), ("m", "f"))
    >>> found.estimate.value, found.counts, found.estimate.notes[0]
    (3.0, (3, 1), '4 of 5 images count; the others are predicted to show neither m nor f')
    """
    mentions = Mentions(predicted.labels[:, None] == np.arange(predicted.n_groups), predicted.names)
    named = ratio(mentions, pair, labels=labels, convention=convention, level=level)
    counted = sum(named.counts)
    counts = f"{counted} of {len(predicted)} images count"
    if counted < len(predicted):
        counts += f"; the others are predicted to show neither {pair[0]} nor {pair[1]}"
    if named.estimate is None:
        missing = " or ".join(name for name, count in zip(pair, named.counts, strict=True) if not count)
        return replace(named, notes=(f"no ratio: no image is predicted to show {missing}", counts))
    chance = "chance is parity" if labels is None or convention == "folded" else "chance is the ratio of the labels"
    return replace(named, estimate=replace(named.estimate, notes=(counts, chance)), notes=(counts, chance))


@metric(
    "artefact_delta",
    takes="labels",
    title="artefact Δ",
    summary="How far the Ratio of predictions moves, in percent, when one body part is redrawn and nothing else.",
    citation="Hirota et al., Resampled Datasets Are Not Enough, EMNLP 2024 (artefact test)",
    formula="100 |r_o - r_i| / r_o; r: predicted first group over second, on original (o) and inpainted (i) images",
    range="[0, inf)",
    bounds=(0.0, float("inf")),
    direction="0: redrawing leaves the predictions as they were; higher: the model sees the traces of inpainting",
    better="lower",
    alternative="greater",
    chance="above 0: sizes do not cancel; original and inpainted exchanged image by image",
    when_it_lies="Opposite changes cancel in the ratio; redrawn parts may show another perceived group.",
    unit="percent",
)
def artefact_delta(
    original: Groups,
    inpainted: Groups,
    pair: tuple[str, str],
    *,
    draws: int = 999,
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """100 |r_o - r_i| / r_o of the groups predicted for the same n images, original (o) and inpainted (i).

    Images that are given another group than the two of ``pair``, or none, count in neither ratio. Interval: that of
    log(r_i / r_o), which is nearly normal, over images (delta method), as a distance from 0; one image more, a quarter
    of each kind of pair, counts in it, so that few changed predictions are not taken for none (as Agresti and Min 2005
    do for paired shares). In simulations of 50 and 500 images it covers 94 to 98%; where one or two predictions change,
    more. Null: which of an image's two predictions is the original's is dealt anew. A draw in which a group is never
    predicted gets half an image on all four counts, for it would have no ratio.

    Args:
        original: (n,) the groups predicted for the original images.
        inpainted: (n,) the groups predicted for the same images, a part of each redrawn.
        pair: the names of two groups; r is the first over the second, and both must be predicted on either side.
        draws: how many times the predictions are dealt anew for the null.
        replicates: how many resamples of the images; the p-value is at least that of a normal test with the error they
            give.
        seed: which deals and resamples are drawn.
        level: confidence level of the interval.

    Returns:
        The change in percent, with its interval, chance level and p-value.

    >>> before = Groups.from_values(["m"] * 4 + ["f"] * 4)
    >>> delta = artefact_delta(before, Groups.from_values(["m"] * 6 + ["f"] * 2), ("m", "f"))
    >>> delta.value, round(delta.ci_low), round(delta.ci_high)
    (200.0, 0, 948)
    """
    if len(original) != len(inpainted):
        raise InputError(
            f"original has {len(original)} predictions and inpainted {len(inpainted)}; give the same images in both"
        )
    sides = [np.stack([g.labels == g.index(name) for name in pair], axis=1) for g in (original, inpainted)]
    for side, whose in zip(sides, ("original", "inpainted"), strict=True):
        if not side.any(axis=0).all():
            missing = pair[int(np.argmin(side.any(axis=0)))]
            raise InputError(f"no {whose} image is predicted to show {missing!r}, so there is no ratio to compare")
    estimate = two_sided_estimate(
        TwoSides.paired(*(side.astype(np.float64) for side in sides)),
        lambda first, second, _: _delta(first, second),
        n=len(original),
        n_groups=2,
        draws=draws,
        replicates=replicates,
        seed=seed,
        level=level,
        alternative="greater",
        least=0.0,
        most=np.inf,
    )
    low, high = _interval(sides[0].astype(np.float64), sides[1].astype(np.float64), level)
    # the notes of the bootstrap are on its own interval
    return replace(estimate, ci_low=min(low, estimate.value), ci_high=max(high, estimate.value), notes=())


def _interval(before: Floats, after: Floats, level: float) -> tuple[float, float]:
    """Of 100 |r_i / r_o - 1|, from the groups (n, 2) of each image ``before`` and ``after``."""
    pairs = np.eye(2)
    shown = np.concatenate([before, pairs[[0, 0, 1, 1]]]), np.concatenate([after, pairs[[0, 1, 0, 1]]])
    weights = np.concatenate([np.ones(len(before)), np.full(4, 0.25)])
    counts = [weights @ side for side in shown]
    logs = [float(np.log(of[0] / of[1])) for of in counts]
    pulls = [side @ ([1, -1] / of) for side, of in zip(shown, counts, strict=True)]
    error = float(np.sqrt(weights @ (pulls[1] - pulls[0]) ** 2))
    reach = float(normal_quantile(0.5 + level / 2)) * error
    ends = [100 * float(np.expm1(logs[1] - logs[0] + move)) for move in (-reach, reach)]
    nearest = 0.0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends))
    return nearest, max(map(abs, ends))


def _delta(first: Floats, second: Floats) -> Floats:
    counts = np.concatenate([first, second], axis=1)
    counts = counts + 0.5 * (counts == 0).any(axis=1, keepdims=True)
    before, after = counts[:, 0] / counts[:, 1], counts[:, 2] / counts[:, 3]
    return np.asarray(100 * np.abs(before - after) / before)
