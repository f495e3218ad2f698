"""Ratio: how often captions name one group for each time they name another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats as sps

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import chosen
from equipoise.measure.captions.counts import image_keys
from equipoise.measure.captions.mentions import Mentions
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.bootstrap import bootstrap_statistic
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.laws import normal_above
from equipoise.measure.stats.permutation import sign_flip
from equipoise.measure.stats.shares import wilson_interval

RatioConvention = Literal["lic", "burns", "folded"]
RATIO_CONVENTIONS = ("lic", "burns", "folded")
BURNS_EPSILON = 1e-5
FLIPS = 9999
"""Random signs behind the chance level of ``folded`` where images have several captions."""


@dataclass(frozen=True)
class NamedRatio:
    """How often two groups are named, and their ratio if it has one."""

    estimate: Estimate | None
    """``None`` when a count is 0: the ratio is then 0 or infinite, and neither is a measurement."""
    counts: tuple[int, int]
    """Captions that name only the first group of the pair, and only the second."""
    pair: tuple[str, str]
    convention: str
    notes: tuple[str, ...] = ()


@metric(
    "ratio",
    takes="captions",
    column="Ratio",
    summary="How often one group is named for each time another is.",
    citation="Hendricks et al., Women also Snowboard (Burns), ECCV 2018; LIC, CVPR 2022",
    formula="captions naming only a / captions naming only b (lic); b / a (burns); max(r, 1 / r) (folded)",
    range="(0, inf)",
    bounds=(0.0, math.inf),
    direction="compare with the ratio of the labels",
    better="chance",
    chance="the labels' ratio (paired delta method), or parity (exact binomial)",
    when_it_lies="Two opposite errors cancel; no value when a count is 0.",
    unit="ratio",
    digits=2,
)
def ratio(
    mentions: Mentions,
    pair: tuple[str, str],
    *,
    labels: Groups | None = None,
    convention: RatioConvention = "lic",
    zero: Literal["no_value", "burns"] = "no_value",
    images: Sequence[Any] | None = None,
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> NamedRatio:
    """Captions that name only ``pair[0]`` over captions that name only ``pair[1]``.

    - ``lic`` (LIC, CVPR 2022): first over second; with ("male", "female"), men over women.
    - ``burns`` (Burns 2018): second over first.
    - ``folded`` (inpainting, EMNLP 2024): max(r, 1 / r), for images whose person is masked; 1 is ideal.

    Chance: with ``labels`` the same ratio of the images' own labels (captions that name whom the images
    show), tested by the delta method on the difference of log ratios, image by image; without labels, and for
    ``folded`` always, parity: as many of one as of the other, exact binomial. For ``folded`` the chance level is the
    mean of max(r, 1 / r) under parity: above 1, more for few captions. Interval: Wilson's of the first group's share,
    as a ratio.

    Args:
        mentions: the groups that each of n captions names.
        pair: the names of two groups that ``mentions`` has.
        labels: (n,) the images' groups, both of the pair among them; not read for ``folded``.
        convention: one of the three above.
        zero: "no_value": a count of 0 gives no value and a note; "burns": 1e-5 is added to any denominator, as in the
            released code of Burns, and a count of 0 gives the huge number that follows (two counts of 0 still have no
            value for ``folded``); there is then neither interval nor chance level.
        images: (n,) the image of each caption, where one has several: the interval is a percentile bootstrap over
            images, none for a single one, and parity is tested by sign flips of whole images.
        replicates: how many times the bootstrap draws the images.
        seed: which resamples and signs are drawn.
        level: confidence level of the interval.

    Returns:
        The counts of both groups and the ratio, if it has a value.

    >>> said = Mentions.of(["A man"] * 6 + ["A woman"] * 2 + ["A dog"], "lic")
    >>> found = ratio(said, ("male", "female"))
    >>> found.estimate.value, found.counts, ratio(said, ("male", "female"), convention="burns").estimate.value
    (3.0, (6, 2), 0.3333333333333333)
    """
    chosen(convention, "convention of Ratio", RATIO_CONVENTIONS)
    chosen(zero, "rule for zero counts", ("no_value", "burns"))
    first, second = (mentions.index(name) for name in pair)
    if first == second:
        raise InputError(f"pair = {pair}: a ratio compares two different groups")
    only = mentions.only
    named = np.stack([only == first, only == second], axis=1).astype(np.float64)
    counts = (int(named[:, 0].sum()), int(named[:, 1].sum()))
    pair, notes = (pair[0], pair[1]), _left_out(mentions, counts)
    top, bottom = counts if convention != "burns" else counts[::-1]
    # folded, no number from 1 up stands for two counts of 0
    if min(counts) == 0 and (zero == "no_value" or (convention == "folded" and not any(counts))):
        missing = [name for name, count in zip(pair, counts, strict=True) if count == 0]
        silent = f"no ratio: no caption names only {' or '.join(missing)}"
        return NamedRatio(None, counts, pair, convention, (silent, *notes))
    if zero == "burns":
        value = top / (bottom + BURNS_EPSILON)
        if convention == "folded":
            value = max(value, 1 / value) if value > 0 else counts[1] / BURNS_EPSILON
        note = "1e-5 added to the denominator, as in the released code of Burns; no interval"
        estimate = Estimate(value, n=sum(counts), n_groups=2, notes=(note, *notes), level=level)
        return NamedRatio(estimate, counts, pair, convention, notes)
    interval = _interval(named, counts, images, replicates, seed, level)
    low, high = (None, None) if interval is None else _in_convention(*interval, convention)
    why = () if interval else (no_interval("one image, or the same ratio in every resample"),)
    value, null, null_sd, p_value = top / bottom, 1.0, None, 1.0
    leans = named @ np.array([1.0, -1.0])
    if images is not None:
        leans = np.bincount(image_keys(images, len(named)), leans)
    if convention == "folded":
        value = max(value, 1 / value)
        null, null_sd, p_value = _folded_parity(sum(counts), value, leans, seed)
    elif labels is None:
        p_value = _parity(leans, seed)
        notes = (*notes, "chance is parity: no labels given")
    else:
        null, p_value = _against_labels(named, labels, pair, convention, images)
        notes = (*notes, "chance is the ratio of the images' labels")
    estimate = Estimate(
        value,
        low,
        high,
        null_mean=null,
        null_sd=null_sd,
        p_value=p_value,
        n=sum(counts),
        n_groups=2,
        notes=(*notes, *why),
        level=level,
    )
    return NamedRatio(estimate, counts, pair, convention, notes)


def _left_out(mentions: Mentions, counts: tuple[int, int]) -> tuple[str, ...]:
    silent = int((~mentions.named.any(axis=1)).sum())
    several = int((mentions.named.sum(axis=1) > 1).sum())
    return (f"{sum(counts)} of {len(mentions)} captions count: {silent} name no group, {several} name several",)


def _interval(
    named: Floats, counts: tuple[int, int], images: Sequence[Any] | None, replicates: int, seed: int, level: float
) -> tuple[float, float] | None:
    """Interval of first over second; ``None`` where it would have no width."""
    if images is None:
        low, high = wilson_interval(counts[0], sum(counts), level=level)
        return low / (1 - low), high / (1 - high)
    keys = image_keys(images, len(named))
    # half a caption on both sides: a resample without any of one group would have no ratio
    draws = bootstrap_statistic(
        named, lambda c: (c[:, 0] + 0.5) / (c[:, 1] + 0.5), clusters=keys, replicates=replicates, seed=seed
    )
    if np.ptp(draws) <= 1e-12:
        return None
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    value = counts[0] / counts[1]
    return min(float(low), value), max(float(high), value)


def _in_convention(low: float, high: float, convention: str) -> tuple[float, float]:
    """The interval of first over second as one of the convention's own ratio."""
    if convention == "lic":
        return low, high
    if convention == "burns":
        return 1 / high, 1 / low
    return (1.0 if low <= 1 <= high else min(max(low, 1 / low), max(high, 1 / high))), max(high, 1 / low)


def _parity(leans: Floats, seed: int) -> float:
    """P-value that captions (or images) lean to either group alike: ``leans`` (n,), first less second of each.

    Signs are flipped. Where all lean as far, that is the exact binomial test of how many lean to the first.
    """
    some = leans[leans != 0]
    if not some.size:
        return 1.0
    if np.ptp(np.abs(some)) == 0:
        return min(1.0, float(sps.binomtest(int((some > 0).sum()), len(some), 0.5).pvalue))
    return float(sign_flip(some, seed=seed).p_value)


def _folded_parity(n: int, value: float, leans: Floats, seed: int) -> tuple[float, float, float]:
    """Mean and sd of max(r, 1 / r) when either group is named with probability 1/2, and P(as large or larger).

    ``n`` captions; ``leans`` as in :func:`_parity`, whose signs are flipped where images lean by several captions.
    """
    if (leans != 0).sum() < n:
        return (*_flipped_folded(n, leans, seed), _parity(leans, seed))
    hits = np.arange(1, n)
    chances = sps.binom.pmf(hits, n, 0.5)
    folded = np.maximum(hits / (n - hits), (n - hits) / hits)
    mean = float((chances * folded).sum() / chances.sum())
    spread = float((chances * (folded - mean) ** 2).sum() / chances.sum())
    ends = 2 * 0.5**n  # one group never named: larger than any ratio
    as_large = float(chances[folded >= value * (1 - 1e-12)].sum()) + ends
    return mean, float(np.sqrt(spread)), min(1.0, as_large)


def _flipped_folded(n: int, leans: Floats, seed: int) -> tuple[float, float]:
    """Mean and sd of max(r, 1 / r) over random signs of ``leans`` that leave it finite."""
    rng, lean = np.random.default_rng(seed), np.zeros(FLIPS)
    for size, images in zip(*np.unique(np.abs(leans), return_counts=True), strict=True):
        lean += size * (2 * rng.binomial(images, 0.5, size=FLIPS) - images)
    apart = np.abs(lean[np.abs(lean) < n])
    folded = (n + apart) / (n - apart)
    return float(folded.mean()), float(folded.std())


def _against_labels(
    named: Floats, labels: Groups, pair: tuple[str, str], convention: str, images: Sequence[Any] | None
) -> tuple[float, float]:
    """The labels' own ratio, and the p-value that the captions' is the same (delta method, paired by image)."""
    labels.check_length(len(named))
    shown = np.stack([labels.labels == labels.index(name) for name in pair], axis=1).astype(np.float64)
    sizes = shown.sum(axis=0)
    if (sizes == 0).any():
        raise InputError(f"labels holds no image of {pair[int(np.argmin(sizes))]!r}; leave labels out to test parity")
    # log(a / b) - log(c / d): an image moves it by its share of each count
    influence = (named / named.sum(axis=0)) @ np.array([1.0, -1.0]) - (shown / sizes) @ np.array([1.0, -1.0])
    if images is not None:
        influence = np.bincount(image_keys(images, len(named)), influence)
    said = named.sum(axis=0)
    gap = float(np.log(said[0] / said[1]) - np.log(sizes[0] / sizes[1]))
    spread = float(np.sqrt((influence**2).sum()))
    p_value = 1.0 if abs(gap) < 1e-12 else 0.0 if spread == 0 else min(1.0, 2 * float(normal_above(abs(gap) / spread)))
    truth = float(sizes[0] / sizes[1])
    return (truth if convention == "lic" else 1 / truth), p_value
