"""Balanced splits of captions into training and test sets: the same images on both sides of a comparison.

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

from equipoise.array_types import Floats, Positions
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, same_length
from equipoise.measure.groups import Groups
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.bootstrap import NO_WIDTH, bootstrap_statistic, cluster_sums, no_width_note
from equipoise.measure.stats.estimate import Estimate

LEAST_TO_SPLIT = 20
"""A group with fewer captions cannot be split: one tenth of it would be a single caption."""


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on, each in an order that depends on the ids and the seed alone."""

    train: Positions
    test: Positions

    @property
    def test_share(self) -> float:
        """Test rows over all rows used: what the corrected resampled t needs."""
        return len(self.test) / (len(self.train) + len(self.test))


def balanced_split(
    labels: Groups | Sequence[Any],
    seed: int,
    share: float = 0.1,
    *,
    ids: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Split:
    """One balanced split: as many rows of each group as the smallest group has, ``share`` of them for testing.

    Of each group n_min rows are drawn, n_min the size of the smallest; round(share * n_min) of them are the test
    set (LIC, CVPR 2022: 3,314 women give 5,966 training and 662 test captions). A row's rank in the draw is a hash
    of the seed and its id, so that two files with the same ids give the same split, in whatever order their rows
    come.

    Args:
        labels: (n,) one group per row (:class:`Groups`, names, or integers; -1 or None is undefined and never drawn),
            at least :data:`LEAST_TO_SPLIT` rows of each.
        seed: which rows are drawn, and which of them are tested.
        share: the part of the rows drawn that is for testing, between 0 and 1.
        ids: (n,) a name for each row, none twice; a row's number is its id if None.
        clusters: (n,) rows of one cluster are never on both sides; whole clusters are drawn until the test set is full,
            and what they hold beyond it is left out.

    Returns:
        The rows to train on and the rows to test on.

    >>> split = balanced_split(["m"] * 60 + ["f"] * 40, seed=0)
    >>> len(split.train), len(split.test), split.test_share
    (72, 8, 0.1)
    """
    if not 0 < share < 1:
        raise InputError(f"share = {share}: the test share is between 0 and 1, such as 0.1")
    if clusters is None:
        ranks, drawn, size = _drawn(labels, seed, ids)
        n_test = min(size - 1, max(1, round(share * size)))
        return Split(
            _by_rank(np.concatenate([rows[n_test:] for rows in drawn]), ranks),
            _by_rank(np.concatenate([rows[:n_test] for rows in drawn]), ranks),
        )
    whole = _Clusters.of(labels, clusters, seed, ids)
    size = int(whole.counts.sum(axis=0).min())
    n_test = min(size - 1, max(1, round(share * size)))
    filled = (whole.counts[whole.order].cumsum(axis=0) >= n_test).all(axis=1)
    tested = np.zeros(len(whole.order), dtype=bool)
    tested[whole.order[: int(np.argmax(filled)) + 1]] = True
    return whole.split(tested, most=n_test)


def cross_fit_folds(
    labels: Groups | Sequence[Any],
    folds: int = 10,
    seed: int = 0,
    *,
    ids: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[Split, ...]:
    """``folds`` splits of one balanced set, such that each of its rows is tested exactly once.

    The balanced set is that of :func:`balanced_split` with the same seed. All of it is tested instead of a tenth, but
    the scores are not independent: see :func:`equipoise.measure.captions.fold_variance`.

    Args:
        labels: (n,) one group per row, as :func:`balanced_split` takes them.
        folds: how many, at least 2 and at most the rows (or clusters) of the smallest group.
        seed: which rows are drawn, and into which fold each is dealt.
        ids: (n,) a name for each row, none twice; a row's number is its id if None.
        clusters: (n,) each cluster is in one fold; rows are left out at random where a fold, or the others, would not
            be balanced.

    Returns:
        One split per fold, which is its test set.

    >>> made = cross_fit_folds(["m"] * 60 + ["f"] * 40, folds=4)
    >>> [len(split.test) for split in made], len({int(row) for split in made for row in split.test})
    ([20, 20, 20, 20], 80)
    """
    return _folds(labels, folds, seed, ids, clusters, LEAST_TO_SPLIT)


def halved_folds(
    labels: Groups | Sequence[Any],
    turn: int,
    *,
    folds: int = 5,
    ids: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[tuple[Split, ...], tuple[Split, ...]]:
    """All rows, or whole ``clusters``, dealt into two halves, and :func:`cross_fit_folds` of each half on its own.

    The deal is another for each ``turn`` and depends on nothing else but ids; groups are halved too.

    Args:
        labels: (n,) one group per row, as in :func:`balanced_split`; four rows (or clusters) of each group at least.
        turn: which deal, any whole number.
        folds: how many for each half; fewer are made where a group has fewer rows (or clusters).
        ids: (n,) a name for each row, none twice; a row's number is its id if None.
        clusters: (n,) rows of one cluster are in the same half and in the same fold; their names are the ids of the
            deal.

    Returns:
        The splits of one half and the splits of the other.

    >>> one, two = halved_folds(["m"] * 60 + ["f"] * 40, turn=0)
    >>> [len(split.test) for split in one], {*one[0].train, *one[0].test} & {*two[0].train, *two[0].test}
    ([8, 8, 8, 8, 8], set())
    """
    groups = as_groups(labels)
    names = _names(groups, ids)
    keys = np.arange(len(groups)) if clusters is None else _cluster_keys(groups, clusters)[0]
    by_name = names if clusters is None else [str(cluster) for cluster in clusters]
    inside = groups.labels >= 0
    counts = np.zeros((int(keys.max(initial=-1)) + 1, groups.n_groups), dtype=np.int64)
    np.add.at(counts, (keys[inside], groups.labels[inside]), 1)
    ranks = np.zeros(len(counts), dtype=np.uint64)
    ranks[keys] = _hashed(by_name, f"half {turn}")
    order = np.lexsort([ranks, *counts.T])  # clusters of the same groups side by side, each at random
    half = np.zeros(len(counts), dtype=np.int64)
    half[order] = np.arange(len(order)) % 2
    present = groups.counts() > 0
    holders = min(int((counts[half == side][:, present] > 0).sum(axis=0).min()) for side in (0, 1))
    if holders < 2:
        raise InputError("a group has too few clusters to be halved: for an interval it must be in four at least")
    folds = min(folds, holders)
    one, two = (
        _folds(Groups(np.where(half[keys] == side, groups.labels, -1), groups.names), folds, turn, names, clusters, 2)
        for side in (0, 1)
    )
    return one, two


def _folds(
    labels: Groups | Sequence[Any],
    folds: int,
    seed: int,
    ids: Sequence[Hashable] | None,
    clusters: Sequence[Hashable] | None,
    least: int,
) -> tuple[Split, ...]:
    as_count(folds, "folds", least=2)
    if clusters is not None:
        whole = _Clusters.of(labels, clusters, seed, ids, least)
        fold_of = whole.dealt(folds)
        return tuple(whole.split(fold_of == fold) for fold in range(folds))
    ranks, drawn, size = _drawn(labels, seed, ids, least)
    if folds > size:
        raise InputError(f"folds = {folds}: the smallest group has {size} rows, so there can be {size} folds at most")
    parts = [np.array_split(rows, folds) for rows in drawn]
    splits = []
    for fold in range(folds):
        test = np.concatenate([part[fold] for part in parts])
        train = np.concatenate([chunk for part in parts for i, chunk in enumerate(part) if i != fold])
        splits.append(Split(_by_rank(train, ranks), _by_rank(test, ranks)))
    return tuple(splits)


@dataclass(frozen=True)
class _Clusters:
    """Rows that stay together, in an order that depends on the names of the clusters and the seed alone."""

    labels: NDArray[Any]
    """(n,) the group of each row, -1 for none."""
    keys: NDArray[np.intp]
    """(n,) the number of its cluster."""
    ranks: NDArray[np.uint64]
    """(n,) of rows, for what is left out."""
    counts: NDArray[np.int64]
    """(clusters, present groups) how many rows each has."""
    order: Positions
    """(clusters,) as they are drawn."""
    present: Positions

    @classmethod
    def of(
        cls,
        labels: Groups | Sequence[Any],
        clusters: Sequence[Hashable],
        seed: int,
        ids: Sequence[Hashable] | None,
        least: int = LEAST_TO_SPLIT,
    ) -> _Clusters:
        groups = as_groups(labels)
        ranks, _, _ = _drawn(groups, seed, ids, least)
        keys, named = _cluster_keys(groups, clusters)
        present = np.flatnonzero(groups.counts())
        table = np.zeros((len(named), groups.n_groups), dtype=np.int64)
        inside = groups.labels >= 0
        np.add.at(table, (keys[inside], groups.labels[inside]), 1)
        order = np.argsort(_hashed(named, seed), kind="stable")
        return cls(groups.labels, keys, ranks, table[:, present], order, present)

    def dealt(self, folds: int) -> NDArray[np.intp]:
        """(clusters,) the fold of each: the one that has the fewest rows of the cluster's groups so far."""
        fold_of, held = np.full(len(self.order), -1), np.zeros((folds, len(self.present)), dtype=np.int64)
        for cluster in self.order:
            rows = self.counts[cluster]
            if rows.any():
                fold_of[cluster] = fold = int(np.argmin(held @ rows))
                held[fold] += rows
        if (held == 0).any():
            few = int((self.counts > 0).sum(axis=0).min())
            raise InputError(
                f"folds = {folds}: a group is in {few} clusters only, too few for every fold to have one; give fewer "
                "folds"
            )
        return fold_of

    def split(self, tested: NDArray[np.bool_], most: int | None = None) -> Split:
        """Rows of ``tested`` clusters against all others, each side balanced, at most ``most`` of a group tested."""
        of_rows = tested[self.keys]
        return Split(self._balanced(~of_rows, None), self._balanced(of_rows, most))

    def _balanced(self, inside: NDArray[np.bool_], most: int | None) -> Positions:
        by_group = [_by_rank(np.flatnonzero(inside & (self.labels == g)), self.ranks) for g in self.present]
        size = min(len(rows) for rows in by_group)
        size = size if most is None else min(size, most)
        if size == 0:
            raise InputError("a group has too few clusters to be on both sides of a split; leave clusters out")
        return _by_rank(np.concatenate([rows[:size] for rows in by_group]), self.ranks)


def _cluster_keys(groups: Groups, clusters: Sequence[Hashable]) -> tuple[NDArray[np.intp], list[str]]:
    """(n,) the number of each row's cluster, and the names of the clusters; a cluster is what it prints as."""
    same_length(groups, "labels", clusters, "clusters")
    named, keys = np.unique(np.array([str(cluster) for cluster in clusters]), return_inverse=True)
    return keys, named.tolist()


def _names(groups: Groups, ids: Sequence[Hashable] | None) -> list[str]:
    names = [str(i) for i in (range(len(groups)) if ids is None else ids)]
    same_length(groups, "labels", names, "ids")
    return names


def _drawn(
    labels: Groups | Sequence[Any], seed: int, ids: Sequence[Hashable] | None, least: int = LEAST_TO_SPLIT
) -> tuple[NDArray[np.uint64], list[Positions], int]:
    """The rank in the draw of every row that has a group; of each group its first n_min rows in that order; n_min."""
    groups = as_groups(labels)
    names = _names(groups, ids)
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
    if size < least:
        name = groups.names[smallest]
        raise InputError(f"group {name!r} has too few captions to split: {size}, need {least}")
    rows = np.flatnonzero(groups.labels >= 0)
    ranks = np.zeros(len(names), dtype=np.uint64)
    ranks[rows] = _hashed([names[row] for row in rows.tolist()], seed)
    drawn = [_by_rank(np.flatnonzero(groups.labels == g), ranks)[:size] for g in present]
    return ranks, drawn, size


def as_groups(labels: Groups | Sequence[Any]) -> Groups:
    """The groups that ``labels`` mean: themselves, integers of which -1 is undefined, or names.

    >>> as_groups([1, 0, -1]).labels.tolist(), as_groups(["m", "f", None]).labels.tolist()
    ([1, 0, -1], [1, 0, -1])
    """
    if isinstance(labels, Groups):
        return labels
    given = np.asarray(labels)
    if np.issubdtype(given.dtype, np.integer) and given.size:
        return Groups(given, tuple(str(g) for g in range(max(1, int(given.max()) + 1))))
    return Groups.from_values(list(labels))


def _hashed(names: Sequence[str], seed: int | str) -> NDArray[np.uint64]:
    seeded = blake2b(f"{seed}\x00".encode(), digest_size=8)

    def digest(name: str) -> bytes:
        of_name = seeded.copy()  # a copy takes half the time of a new one
        of_name.update(name.encode())
        return of_name.digest()

    return np.frombuffer(b"".join(map(digest, names)), dtype="<u8").astype(np.uint64)


def _by_rank(rows: Positions, ranks: NDArray[np.uint64]) -> Positions:
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
