"""Which way of training comes nearest to parity: do two classifiers see one group as often as the other?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.captions.counts import TwoSides, two_sided_estimate
from equipoise.measure.groups import Groups
from equipoise.measure.stats.estimate import Estimate


def parity_gap(
    others: Sequence[Groups],
    mine: Sequence[Groups],
    pair: tuple[str, str],
    *,
    draws: int = 999,
    replicates: int = 1000,
    seed: int = 0,
) -> Estimate:
    """How much farther from parity ``others`` are than ``mine``, classifiers of the same n images; above 0: farther.

    The distance of one classifier is |ln r|, r the images predicted to show ``pair[0]`` over those predicted to show
    ``pair[1]`` (half an image is added to both, so that none is infinite); the mean over classifiers that differ in
    their seed alone is taken on each side. Interval: bootstrap over images. Null: the two sides exchange their
    predictions image by image.

    >>> even = Groups.from_values(["m", "f"] * 20)
    >>> lopsided = Groups.from_values(["m"] * 36 + ["f"] * 4)
    >>> gap = parity_gap([lopsided], [even], ("m", "f"))
    >>> round(gap.value, 2), gap.p_value < 0.05  # ln(36.5 / 4.5)
    (2.09, True)
    """
    if not others or not mine:
        raise InputError("parity is compared between classifiers, and one side has none")
    sizes = {len(groups) for groups in (*others, *mine)}
    if len(sizes) > 1:
        raise InputError(f"predictions of {' and '.join(map(str, sorted(sizes)))} images; give the same images")
    first, second = (np.concatenate([_shown(groups, pair) for groups in side], axis=1) for side in (mine, others))
    if first.shape[1] != second.shape[1]:
        raise InputError(f"{len(mine)} classifiers against {len(others)}; give as many seeds on both sides")

    def farther(near: Floats, far: Floats, _: object) -> Floats:
        return _distance(far) - _distance(near)

    estimate = two_sided_estimate(
        TwoSides.paired(first, second),
        farther,
        n=sizes.pop(),
        n_groups=2,
        draws=draws,
        replicates=replicates,
        seed=seed,
        level=0.95,
        alternative="two-sided",
        least=-np.inf,
        most=np.inf,
    )
    return estimate.with_notes(f"mean over {len(mine)} seeds")


def _shown(groups: Groups, pair: tuple[str, str]) -> Floats:
    return np.stack([groups.labels == groups.index(name) for name in pair], axis=1).astype(np.float64)


def _distance(counts: Floats) -> Floats:
    """(b,) the mean over classifiers of |ln r|, from (b, 2 s) counts."""
    halves = counts.reshape(len(counts), -1, 2) + 0.5
    return np.asarray(np.abs(np.log(halves[:, :, 0] / halves[:, :, 1])).mean(axis=1))
