"""A cross-fitted linear classifier of captions: none is judged by a model trained on captions of its image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from equipoise.measure.captions.linear import LinearModel, NgramTable, fit_linear

__all__ = ["CrossFittedClassifier", "fold_of_each"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class CrossFittedClassifier:
    """One model per fold, each trained on a balanced set of the other folds' captions."""

    table: NgramTable
    models: tuple[LinearModel, ...]
    fold: NDArray[np.intp]
    """(n,) the fold of each caption."""

    @classmethod
    def fitted(
        cls, tokens: Sequence[Sequence[str]], labels: Labels, images: Sequence[str], *, folds: int, seed: int
    ) -> CrossFittedClassifier:
        """Fit on captions (n) of groups ``labels`` (n,); the captions of an image are in one fold."""
        groups = int(labels.max()) + 1
        table, (rank, fold) = NgramTable.of(tokens), fold_of_each(images, folds, seed)
        models = []
        for number in range(folds):
            rows = np.flatnonzero(fold != number)
            rows = rows[np.argsort(rank[rows], kind="stable")]
            smallest = min(int((labels[rows] == group).sum()) for group in range(groups))
            train = np.concatenate([rows[labels[rows] == group][:smallest] for group in range(groups)])
            models.append(fit_linear(table.counts[train], labels[train], groups))
        return cls(table, tuple(models), fold)

    def probabilities(self) -> Floats:
        """(n, groups) for the captions that it was fitted on, each by the model that has not seen its image."""
        return self._by_fold(self.table.counts, self.fold)

    def probabilities_of(self, tokens: Sequence[Sequence[str]], rows: Sequence[int]) -> Floats:
        """(m, groups) for captions made from the captions ``rows`` (m), by the models that have not seen those."""
        return self._by_fold(self.table.counts_of(tokens), self.fold[np.asarray(rows, dtype=np.intp)])

    def _by_fold(self, counts: object, fold: NDArray[np.intp]) -> Floats:
        found = np.zeros((len(fold), self.models[0].groups))
        for number, model in enumerate(self.models):
            rows = np.flatnonzero(fold == number)
            if len(rows):
                found[rows] = model.probabilities(counts[rows])  # type: ignore[index]
        return found


def fold_of_each(images: Sequence[str], folds: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(n,) the rank of each caption's image in an order drawn by hashing, and (n,) its fold: ranks dealt in turn.

    >>> rank, fold = fold_of_each(["a", "b", "a", "c"], 2, seed=0)
    >>> int(fold[0]) == int(fold[2]), sorted(set(rank.tolist()))
    (True, [0, 1, 2])
    """
    ordered = sorted(set(images), key=lambda name: blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest())
    place = {name: number for number, name in enumerate(ordered)}
    rank = np.array([place[name] for name in images], dtype=np.intp)
    return rank, rank % folds
