"""Shares that depend on the text of an image's own group: what the images say, and what the texts alone say.

A model may take "a photo of a person" before "a photo of an Indian person" for any image whatever. Chance is therefore
what the same texts give over everybody's images, not one half; and a share must be asked in several wordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.estimate import Estimate
from equipoise.measure.group_means import GroupMeans, group_means, kept_groups, size_of
from equipoise.measure.group_range import range_interval, t_bounds
from equipoise.measure.groups import Groups
from equipoise.measure.label_shuffles import shuffled_labels
from equipoise.measure.stats import p_values

__all__ = ["MOST_TEMPLATES", "own_text_means", "prompt_sensitivity"]

MOST_TEMPLATES = 10


def own_text_means(
    worth: Any,
    groups: Groups,
    *,
    clusters: Any = None,
    shuffle_within: Any = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> GroupMeans:
    """Mean of each group's own column of ``worth`` (n, G) over its own images, against everybody's images.

    ``worth[i, g]`` in [0, 1] is what image i would count if it were of group g. Null: labels shuffled (inside
    ``shuffle_within`` where given, else as whole clusters) and every image asked with the text of its new group. A
    model that is blind to the groups has no excess, however unlike its texts are; nor has the gap. ``clusters`` (n,) are not independent.

    >>> groups = Groups.from_values(["a"] * 30 + ["b"] * 30)
    >>> blind = np.tile([[0.0, 1.0]], (60, 1))  # text "a" always loses, text "b" always wins, whoever is shown
    >>> found = own_text_means(blind, groups)
    >>> found.gap.value, found.gap.excess, found.by_group["b"].excess
    (1.0, 0.0, 0.0)
    """
    table = np.asarray(worth, dtype=np.float64)
    if table.shape != (len(groups), groups.n_groups):
        raise InputError(f"worth has shape {table.shape} for {len(groups)} images of {groups.n_groups} groups")
    own = table[np.arange(len(table)), np.maximum(groups.labels, 0)]
    base = group_means(own, groups, clusters=clusters, share=True, permutations=2, seed=seed, level=level)
    kept, _ = kept_groups(groups, 1)
    inside = groups.defined
    labels = groups.labels[inside]
    sets = None if shuffle_within is None else np.asarray(shuffle_within)[inside]
    keys = None if clusters is None else np.asarray(clusters)[inside]
    rng = np.random.default_rng(seed)
    draws = np.concatenate(
        [
            np.stack([(block == g) @ table[inside, g] / np.maximum((block == g).sum(axis=1), 1) for g in kept], axis=1)
            for block in shuffled_labels(labels, permutations, rng, sets, keys)
        ]
    )
    by_group = {
        groups.names[g]: _against(base.by_group[groups.names[g]], draws[:, at], "two-sided")
        for at, g in enumerate(kept)
    }
    gap = _against(base.gap, draws.max(axis=1) - draws.min(axis=1), "greater")
    return replace(base, by_group=by_group, gap=gap)


def _against(estimate: Estimate, null: Any, alternative: Any) -> Estimate:
    tests = p_values(estimate.value, null, alternative=alternative)
    return replace(
        estimate,
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)),
        p_value=tests.value,
        p_randomised=tests.randomised,
    )


def prompt_sensitivity(
    outcomes: Any, names: Sequence[str], *, replicates: int = 2000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """How far wording alone moves a share: highest minus lowest mean over templates of ``outcomes`` (n, T), 0 or 1.

    Chance: each image's answers dealt to the templates at random, as if the wording did not matter (exact: images
    with the same number of 1s are exchangeable). The interval is that of the range over all templates,
    whichever two are the extremes.

    >>> found = prompt_sensitivity([[1, 0], [1, 0], [1, 1], [0, 0]] * 10, ["a photo", "a picture"])
    >>> found.value, found.notes
    (0.5, ('highest with "a photo", lowest with "a picture"',))
    """
    given = np.asarray(outcomes, dtype=np.int64)
    if given.ndim != 2 or not 2 <= given.shape[1] <= MOST_TEMPLATES or not len(given):
        raise InputError(f"outcomes has shape {given.shape}; give one row an image and 2 to {MOST_TEMPLATES} templates")
    n, width = given.shape
    means = given.mean(axis=0)
    top, bottom = int(means.argmax()), int(means.argmin())
    rng = np.random.default_rng(seed)
    null = np.zeros((replicates, width))
    for ones, images in zip(*np.unique(given.sum(axis=1), return_counts=True), strict=True):
        deals = np.zeros((comb(width, int(ones)), width))
        for row, chosen in enumerate(combinations(range(width), int(ones))):
            deals[row, list(chosen)] = 1
        null += rng.multinomial(images, np.full(len(deals), 1 / len(deals)), size=replicates) @ deals
    low, high, why = _wording_interval(given, level)
    note = f'highest with "{names[top]}", lowest with "{names[bottom]}"'
    found = Estimate(float(means[top] - means[bottom]), low, high, n=n, level=level, notes=(note, *why))
    return _against(found, (null.max(axis=1) - null.min(axis=1)) / n, "greater")


def _wording_interval(outcomes: Any, level: float) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Interval of the range over templates, which share their images; whichever two are the extremes."""
    distinct = np.unique(outcomes, axis=1)  # templates that always agree are one
    n, width = distinct.shape
    covariance = np.atleast_2d(np.cov(distinct.T)) / n if n > 1 else np.zeros((width, width))
    own = np.diag(covariance)
    error = np.sqrt(np.maximum(own[:, None] + own - 2 * covariance, 0.0))
    if width < 2 or not (error > 1e-12)[~np.eye(width, dtype=bool)].all():
        return None, None, ("no interval: the wording makes the same difference for every image, or none",)
    means = distinct.mean(axis=0)
    bounds = t_bounds(means, error, n - 1)
    if width == 2:
        z = float(sps.norm.ppf(0.5 + level / 2))
        low, high = size_of(float(bounds(-z)[0, 1]), float(bounds(z)[0, 1]))
    else:
        low, high = range_interval(means, covariance, bounds, level=level)
    return low, min(1.0, high), ()
