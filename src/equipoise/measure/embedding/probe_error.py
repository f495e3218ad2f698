"""How sure a cross-validated score is: other images to test on, and other images to train on.

The error of a score over the images tested (DeLong's for AUC) takes the trained probe as given. With 200 images the
probe itself would have come out differently: such intervals cover 82 to 88% instead of 95%.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.laws import t_quantile

BLOCKS = 10
NO_ERROR = no_interval("the probe made no error, so nothing says how often it would")


def deleted_blocks(labels: NDArray[np.integer], clusters: NDArray[np.integer] | None, seed: int) -> NDArray[np.intp]:
    """(n,) which of ten blocks each item is left out with: whole clusters, groups spread over the blocks.

    Which group has which number makes no difference: they are taken in the order in which they appear.

    >>> deleted_blocks(np.array([0, 0, 1, 1]), np.array([5, 5, 6, 6]), 0).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    >>> labels = np.array([1, 0, 0, 1, 1, 1, 0] * 3)
    >>> bool((deleted_blocks(labels, None, 0) == deleted_blocks(1 - labels, None, 0)).all())
    True
    """
    codes = np.arange(len(labels)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    label = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    label[codes] = labels
    _, first, number = np.unique(label, return_index=True, return_inverse=True)
    label = np.argsort(np.argsort(first))[number.ravel()]
    order = np.lexsort((np.random.default_rng(seed).random(len(label)), label))
    block = np.empty(len(label), dtype=np.intp)
    block[order] = np.arange(len(label)) % min(BLOCKS, len(label))
    return block[codes]


def jackknife_variance(left_out: Floats) -> Floats:
    """Variance of a score from its values (J, ...) with one block of items left out (Efron 1982).

    It counts the part that comes from two items together, as training does, twice (Efron and Stein 1981).

    >>> float(jackknife_variance(np.array([1.0, 2.0, 3.0])))
    1.3333333333333333
    """
    count = len(left_out)
    return np.asarray((count - 1) / count * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))


def held_out_variance(influence: Floats, clusters: NDArray[np.integer] | None) -> float:
    """Variance over the items tested, from each item's ``influence`` (n,) on the score, summed over clusters.

    >>> round(held_out_variance(np.array([0.1, -0.1]), None), 3)
    0.04
    """
    sums = influence if clusters is None else np.bincount(np.unique(clusters, return_inverse=True)[1], influence)
    return float((sums**2).sum() * len(sums) / max(1, len(sums) - 1))


def score_estimate(
    value: float, tested: float, training: float, units: int, *, level: float, null_mean: float, notes: tuple[str, ...]
) -> Estimate:
    """A score in [0, 1] with a t interval from the variance over items ``tested`` and that of ``training``.

    >>> score_estimate(0.9, 0.001, 0.0, 200, level=0.95, null_mean=0.5, notes=())
    0.9 [0.8376, 0.9624] chance 0.5, excess +0.4, n = 0
    """
    error = float(np.sqrt(tested + max(0.0, training)))
    if error <= 1e-12:
        return Estimate(value, null_mean=null_mean, level=level, notes=(*notes, NO_ERROR))
    reach = float(t_quantile(0.5 + level / 2, max(1, units - 1))) * error
    low, high = max(0.0, value - reach), min(1.0, value + reach)
    return Estimate(value, low, high, null_mean=null_mean, level=level, notes=notes)
