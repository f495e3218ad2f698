"""Balanced splits of captions into training and test sets: the same images on both sides of a comparison.

LIC trains one classifier on a model's captions and others on human captions. Their difference means something only
when both sides train and test on the same images, so the draw here depends on nothing but the image ids and the
seed: not on the order of the rows, not on the captions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, same_length
from equipoise.measure.groups import Groups

__all__ = ["LEAST_TO_SPLIT", "Split", "balanced_split", "cross_fit_folds"]

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

    ``labels`` (n,): a group a row (:class:`Groups`, names, or integers; -1 or None is undefined and never drawn).
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
    made = []
    for fold in range(folds):
        test = np.concatenate([part[fold] for part in parts])
        train = np.concatenate([chunk for part in parts for i, chunk in enumerate(part) if i != fold])
        made.append(Split(_by_rank(train, ranks), _by_rank(test, ranks)))
    return tuple(made)


def _drawn(
    labels: Groups | Sequence[Any], seed: int, ids: Sequence[Hashable] | None
) -> tuple[NDArray[np.uint64], list[Indices], int]:
    """Every row's rank in the draw; of each group its first n_min rows in that order; n_min."""
    groups = _as_groups(labels)
    names = [str(i) for i in (range(len(groups)) if ids is None else ids)]
    same_length(groups, "labels", names, "ids")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"ids holds {twice!r} twice; a split needs one row an image")
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
