"""The interval of a cross-fitted mean: every caption was scored once, by a classifier that had not seen it.

Balanced splits of captions into training and test sets: the same images on both sides of a comparison.

LIC trains one classifier on a model's captions and others on human captions. Their difference means something only
when both sides train and test on the same images, so the draw here depends on nothing but the image ids and the
seed: not on the order of the rows, not on the captions.

Intervals of scores that are functions of summed counts (BLEU, METEOR): images are drawn, counts summed anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.arrays import Floats, as_count, as_vector, chosen, same_length
from equipoise.measure.groups import Groups
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.bootstrap import NO_WIDTH, bootstrap_statistic, cluster_sums, no_width_note
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import ALTERNATIVES, Alternative

__all__ = [
    "LEAST_FOLDS",
    "LEAST_TO_SPLIT",
    "Split",
    "balanced_split",
    "captions_variance",
    "cross_fit_folds",
    "cross_fitted",
    "estimates_of_sums",
    "fold_variance",
]


Indices = NDArray[np.intp]

LEAST_TO_SPLIT = 20
"""A group with fewer captions cannot be split: one tenth of it would be a single caption."""


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on, each in an order that depends on the ids and the seed alone."""

    train: Indices
    test: Indices

    @property
    def test_share(self) -> float:
        """Test rows over all rows used: what the corrected resampled t needs."""
        return len(self.test) / (len(self.train) + len(self.test))


def balanced_split(
    labels: Groups | Sequence[Any], seed: int, share: float = 0.1, *, ids: Sequence[Hashable] | None = None
) -> Split:
    """One balanced split: as many rows of each group as the smallest group has, ``share`` of them for testing.

    ``labels`` (n,): one group per row (:class:`Groups`, names, or integers; -1 or None is undefined and never drawn).
    Of each group n_min rows are drawn, n_min the size of the smallest; round(share * n_min) of them are the test
    set (LIC, CVPR 2022: 3,314 women give 5,966 training and 662 test captions). A row's rank in the draw is a hash
    of the seed and its id, so that two files with the same ids give the same split, in whatever order their rows
    come. Without ``ids`` a row's number is its id.

    >>> split = balanced_split(["m"] * 60 + ["f"] * 40, seed=0)
    >>> len(split.train), len(split.test), split.test_share
    (72, 8, 0.1)
    """
    if not 0 < share < 1:
        raise InputError(f"share = {share}: the test share is between 0 and 1, such as 0.1")
    ranks, drawn, size = _drawn(labels, seed, ids)
    n_test = min(size - 1, max(1, round(share * size)))
    return Split(
        _by_rank(np.concatenate([rows[n_test:] for rows in drawn]), ranks),
        _by_rank(np.concatenate([rows[:n_test] for rows in drawn]), ranks),
    )


def cross_fit_folds(
    labels: Groups | Sequence[Any], folds: int = 10, seed: int = 0, *, ids: Sequence[Hashable] | None = None
) -> tuple[Split, ...]:
    """``folds`` splits of one balanced set, such that each of its rows is tested exactly once.

    The balanced set is that of :func:`balanced_split` with the same seed. All of it is tested instead of a tenth, but
    the scores are not independent: see :func:`equipoise.measure.captions.fold_variance`.

    >>> made = cross_fit_folds(["m"] * 60 + ["f"] * 40, folds=4)
    >>> [len(split.test) for split in made], len({int(row) for split in made for row in split.test})
    ([20, 20, 20, 20], 80)
    """
    as_count(folds, "folds", least=2)
    ranks, drawn, size = _drawn(labels, seed, ids)
    if folds > size:
        raise InputError(f"folds = {folds}: the smallest group has {size} rows, so there can be {size} folds at most")
    parts = [np.array_split(rows, folds) for rows in drawn]
    splits = []
    for fold in range(folds):
        test = np.concatenate([part[fold] for part in parts])
        train = np.concatenate([chunk for part in parts for i, chunk in enumerate(part) if i != fold])
        splits.append(Split(_by_rank(train, ranks), _by_rank(test, ranks)))
    return tuple(splits)


def _drawn(
    labels: Groups | Sequence[Any], seed: int, ids: Sequence[Hashable] | None
) -> tuple[NDArray[np.uint64], list[Indices], int]:
    """Every row's rank in the draw; of each group its first n_min rows in that order; n_min."""
    groups = _as_groups(labels)
    names = [str(i) for i in (range(len(groups)) if ids is None else ids)]
    same_length(groups, "labels", names, "ids")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"ids holds {twice!r} twice; a split needs one row per image")
    counts = groups.counts()
    present = np.flatnonzero(counts)
    if len(present) < 2:
        named = [groups.names[g] for g in present]
        raise InputError(f"a balanced split needs two groups with captions; {named or 'none'} is all there is")
    smallest = int(present[np.argmin(counts[present])])
    size = int(counts[smallest])
    if size < LEAST_TO_SPLIT:
        name = groups.names[smallest]
        raise InputError(f"group {name!r} has too few captions to split: {size}, need {LEAST_TO_SPLIT}")
    ranks = _hashed(names, seed)
    drawn = [_by_rank(np.flatnonzero(groups.labels == g), ranks)[:size] for g in present]
    return ranks, drawn, size


def _as_groups(labels: Groups | Sequence[Any]) -> Groups:
    if isinstance(labels, Groups):
        return labels
    given = np.asarray(labels)
    if np.issubdtype(given.dtype, np.integer) and given.size:
        return Groups(given, tuple(str(g) for g in range(max(1, int(given.max()) + 1))))
    return Groups.from_values(list(labels))


def _hashed(names: Sequence[str], seed: int) -> NDArray[np.uint64]:
    digests = b"".join(blake2b(f"{seed}\x00{name}".encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _by_rank(rows: Indices, ranks: NDArray[np.uint64]) -> Indices:
    return np.asarray(rows[np.argsort(ranks[rows], kind="stable")])


def estimates_of_sums(
    counts: Floats,
    statistic: Callable[[Floats], Floats],
    *,
    clusters: ArrayLike | None,
    level: float,
    replicates: int,
    seed: int,
    notes: tuple[str, ...] = (),
) -> list[Estimate]:
    """An estimate for each column of ``statistic``, a function of summed counts (b, c) -> (b, s).

    ``counts`` (n, c) has one row per caption; captions, or whole ``clusters`` of them, are drawn with replacement and
    the interval is between quantiles of the draws; there is none, and a note says why, where it would have no width.

    >>> hits = np.array([[1.0, 2.0], [2.0, 2.0], [1.0, 2.0], [0.0, 2.0]])
    >>> estimates_of_sums(
    ...     hits, lambda s: s[:, :1] / s[:, 1:], clusters=None, level=0.9, replicates=200, seed=0
    ... )
    [0.5 [0.25, 0.75] n = 4]
    """
    if not 0 < level < 1:
        raise InputError(f"level = {level}: a confidence level is between 0 and 1, such as 0.95")
    units = len(cluster_sums(counts, clusters).sizes)
    values = statistic(counts.sum(axis=0, keepdims=True))[0]
    n = len(counts)
    if units < 2:
        alone = (*notes, no_interval("one independent unit"))
        return [Estimate(float(value), n=n, notes=alone, level=level) for value in values]
    draws = bootstrap_statistic(counts, statistic, clusters=clusters, replicates=replicates, seed=seed)
    tail = (1 - level) / 2
    low, high = np.quantile(draws, (tail, 1 - tail), axis=0)
    estimates = []
    for place, value in enumerate(values):
        estimate = Estimate(float(value), float(low[place]), float(high[place]), n=n, notes=notes, level=level)
        if high[place] - low[place] <= NO_WIDTH:
            why = no_width_note(draws[:, place])
            estimate = replace(estimate, ci_low=None, ci_high=None, notes=(*notes, why))
        estimates.append(estimate)
    return estimates


LEAST_FOLDS = 4
"""With fewer there are no two pairs of folds that share none, and :func:`fold_variance` has nothing to compare."""


def cross_fitted(
    scores: ArrayLike,
    captions: ArrayLike,
    groups: ArrayLike,
    *,
    variance: float | None = None,
    freedom: int | None = None,
    null_value: float | None = None,
    alternative: Alternative = "greater",
    level: float = 0.95,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    notes: tuple[str, ...] = (),
) -> Estimate:
    """Mean over groups of the mean of out-of-fold ``scores`` (n,), with an interval.

    Without ``variance`` the interval is for what *these* classifiers score on new captions: out-of-fold scores then
    vary as independent ones do (Bayle et al., Cross-validation Confidence Intervals for Test Error, NeurIPS 2020). It
    is too narrow for a statement about the captioner. The score of LIC is not what the classifier was fitted to, so a
    caption moves the mean twice, once where it is tested and once more through all the others that are tested by
    classifiers trained on it: over new draws of captions the mean varies up to three times as much. ``variance`` (from
    :func:`fold_variance`) has both; the larger of it and :func:`captions_variance` is taken, with Student's t of
    ``freedom`` degrees (normal unless given).

    ``captions`` (n,) says whose score each is: a caption that was tested several times counts as one; give the image
    where one has several captions. ``groups`` (n,): deviations are taken from the mean of the caption's group.
    ``bounds`` are the least and the largest possible value: no interval leaves them.

    >>> cross_fitted([0.9, 0.0, 0.7, 0.6, 0.0, 0.8], range(6), [0, 0, 0, 1, 1, 1], null_value=0.25)
    0.5 [0.1813, 0.8187] chance 0.25 ± 0.16, excess +0.25, p = 0.062, n = 6, 2 groups
    """
    chosen(alternative, "alternative", ALTERNATIVES)
    numbers = as_vector(scores, "scores")
    of, group = np.unique(np.asarray(captions), return_inverse=True)[1], np.unique(groups, return_inverse=True)[1]
    if not len(numbers) == len(of) == len(group):
        raise InputError(
            f"{len(numbers)} scores, {len(of)} captions and {len(group)} groups; give each score its caption and group"
        )
    if not 0 < level < 1:
        raise InputError(f"level = {level}: a confidence level is between 0 and 1, such as 0.95")
    n = int(of.max()) + 1
    value = float((np.bincount(group, numbers) / np.bincount(group)).mean())
    n_groups = int(group.max()) + 1
    if n < 2:
        alone = (*notes, no_interval("one caption"))
        return Estimate(value, null_mean=null_value, n=n, n_groups=n_groups, notes=alone)
    own = captions_variance(numbers, of, group)
    error = float(np.sqrt(own if variance is None else max(own, variance)))
    spread = sps.norm() if freedom is None else sps.t(freedom)
    reach = float(spread.ppf(0.5 + level / 2)) * error
    p_value = None if null_value is None else _test(value - null_value, error, spread, alternative)
    estimate = Estimate(
        value,
        max(bounds[0], value - reach),
        min(bounds[1], value + reach),
        null_mean=null_value,
        null_sd=None if null_value is None else error,
        p_value=p_value,
        n=n,
        n_groups=n_groups,
        notes=notes,
        level=level,
    )
    if reach > 0:
        return estimate
    # all scores alike: an interval without width would pass for certainty
    return replace(estimate, ci_low=None, ci_high=None, notes=(*notes, no_interval("all scores are alike")))


def captions_variance(scores: ArrayLike, captions: ArrayLike, groups: ArrayLike) -> float:
    """The variance of the mean of :func:`cross_fitted` if captions varied and the classifiers did not.

    >>> round(captions_variance([0.0, 1.0, 0.0, 0.4], range(4), [0, 0, 1, 1]), 6)
    0.048333
    """
    given = as_vector(scores, "scores")
    of, group = np.unique(np.asarray(captions), return_inverse=True)[1], np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(group)
    means = np.bincount(group, given) / sizes
    pulls = np.bincount(of, (given - means[group]) / (sizes[group] * len(sizes)))
    n = len(pulls)
    return float(n / (n - 1) * (pulls**2).sum()) if n > 1 else 0.0


def fold_variance(fold_means: ArrayLike, left_out: ArrayLike) -> float:
    """The variance of the mean over folds, from how much each fold matters as training captions of each other one.

    ``fold_means`` (k,): the mean score of each fold, by the classifier of the others. ``left_out`` (k, k): the mean
    score of fold a by a classifier trained without a and b; the diagonal is not read. Training one fold less moves a's
    score by what b had to say about a: the cross-fitted mean is then a mean over pairs of folds, and its variance is
    the square of the mean less the mean product of pairs that share no fold, which is unbiased where nothing but
    pairs matters. (The jackknife over folds counts what comes from pairs twice: 1.5 times the standard error for LIC.)
    It is noisy and can be negative; :func:`cross_fitted` takes the variance over captions where that is larger.

    >>> means = [0.3, 0.5, 0.4, 0.6]
    >>> round(fold_variance(means, [[m] * 4 for m in means]), 6)  # training does not matter: sd² / k
    0.004167
    """
    means, without = as_vector(fold_means, "fold_means"), np.array(left_out, dtype=np.float64)
    k = len(means)
    if k < LEAST_FOLDS or without.shape != (k, k):
        raise InputError(
            f"fold_means has {k} folds and left_out the shape {without.shape}; give (k, k), k at least {LEAST_FOLDS}"
        )
    change = means[:, None] - without
    np.fill_diagonal(change, 0.0)
    # b is one of k - 1 training folds; without it the others weigh more, hence k - 2
    pseudo_values = means[:, None] + (k - 2) * (change - change.sum(axis=1, keepdims=True) / (k - 1))
    pairs = (pseudo_values + pseudo_values.T) / 2 - means.mean()
    np.fill_diagonal(pairs, 0.0)
    by_fold, squares = pairs.sum(axis=1), float((pairs**2).sum())
    apart = float(pairs.sum()) ** 2 - 2 * squares - 4 * (float((by_fold**2).sum()) - squares)
    return -apart / (k * (k - 1) * (k - 2) * (k - 3))


def _test(difference: float, error: float, spread: Any, alternative: Alternative) -> float:
    ratio = difference / error if error > 0 else float(np.copysign(np.inf, difference)) if difference else 0.0
    if alternative == "two-sided":
        tail = min(1.0, 2 * spread.sf(abs(ratio)))
    else:
        tail = spread.sf(ratio if alternative == "greater" else -ratio)
    return float(max(tail, np.finfo(float).tiny))  # never 0: no sample is that sure
