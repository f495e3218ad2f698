"""Cross-fitted classifiers of captions: none is judged by a model trained on captions of its image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats, Ints
from equipoise.measure.captions.linear import LinearModel, NgramTable, fit_linear
from equipoise.models.caption_classifiers import CaptionClassifier, classifier


@dataclass(frozen=True)
class CrossFittedClassifier:
    """One model per fold, each trained on a balanced set of the other folds' captions."""

    table: NgramTable
    models: tuple[LinearModel, ...]
    fold: NDArray[np.intp]
    """(n,) the fold of each caption."""

    @classmethod
    def fitted(
        cls, tokens: Sequence[Sequence[str]], labels: Ints, images: Sequence[str], *, folds: int, seed: int
    ) -> CrossFittedClassifier:
        """Fit on captions (n) of groups ``labels`` (n,); the captions of an image are in one fold."""
        groups = int(labels.max()) + 1
        table, (rank, fold) = NgramTable.of(tokens), fold_of_each(images, folds, seed)
        models = []
        for number in range(folds):
            train = _balanced(np.flatnonzero(fold != number), rank, labels)
            models.append(fit_linear(table.counts[train], labels[train], groups))
        return cls(table, tuple(models), fold)

    def probabilities(self) -> Floats:
        """(n, groups) for the captions that it was fitted on, each by the model that has not seen its image."""
        return self._by_fold(self.table.counts, self.fold)

    def probabilities_of(self, tokens: Sequence[Sequence[str]], rows: Sequence[int]) -> Floats:
        """(m, groups) for captions made from the captions ``rows`` (m), by the models that have not seen those."""
        return self._by_fold(self.table.counts_of(tokens), self.fold[np.asarray(rows, dtype=np.intp)])

    def _by_fold(self, counts: object, fold: NDArray[np.intp]) -> Floats:
        probabilities = np.zeros((len(fold), self.models[0].groups))
        for number, model in enumerate(self.models):
            rows = np.flatnonzero(fold == number)
            if len(rows):
                probabilities[rows] = model.probabilities(counts[rows])  # type: ignore[index]
        return probabilities


@dataclass(frozen=True)
class CrossFittedReader:
    """The same by any classifier of captions, such as BERT; each is trained when it is asked, the same every time."""

    classifier: CaptionClassifier
    tokens: tuple[Sequence[str], ...]
    labels: Ints
    rank: NDArray[np.intp]
    fold: NDArray[np.intp]
    seed: int

    @classmethod
    def fitted(
        cls,
        classifier: CaptionClassifier,
        tokens: Sequence[Sequence[str]],
        labels: Ints,
        images: Sequence[str],
        *,
        folds: int,
        seed: int,
    ) -> CrossFittedReader:
        """As :meth:`CrossFittedClassifier.fitted`, by ``classifier``."""
        return cls(classifier, tuple(tokens), labels, *fold_of_each(images, folds, seed), seed)

    def probabilities(self) -> Floats:
        """(n, groups) for the captions that it was fitted on."""
        return self._of(self.tokens, np.arange(len(self.tokens)), self.fold)

    def probabilities_of(self, tokens: Sequence[Sequence[str]], rows: Sequence[int]) -> Floats:
        """(m, groups) for captions made from the captions ``rows`` (m)."""
        every = (*self.tokens, *tokens)
        return self._of(every, np.arange(len(self.tokens), len(every)), self.fold[np.asarray(rows, dtype=np.intp)])

    def _of(self, tokens: Sequence[Sequence[str]], asked: NDArray[np.intp], fold: NDArray[np.intp]) -> Floats:
        groups = int(self.labels.max()) + 1
        reader = self.classifier.read(tokens)
        probabilities = np.zeros((len(asked), groups))
        for number in np.unique(fold):
            train = _balanced(np.flatnonzero(self.fold != number), self.rank, self.labels)
            test = fold == number
            probabilities[test] = reader.probabilities(train, self.labels[train], asked[test], groups, self.seed)
        return probabilities


def cross_fitted(
    name: str,
    tokens: Sequence[Sequence[str]],
    labels: Ints,
    images: Sequence[str],
    *,
    folds: int,
    seed: int,
    device: str = "",
) -> CrossFittedClassifier | CrossFittedReader:
    """The classifier of this name (``fast``, ``lstm``, ``bert:NAME``, ``bert-frozen:NAME``), cross-fitted.

    ``device`` is where a text encoder is trained and asked, such as ``cuda``; the others run on the processor.
    """
    if name == "fast":
        return CrossFittedClassifier.fitted(tokens, labels, images, folds=folds, seed=seed)
    placed = {"device": device} if device and name.startswith("bert") else {}
    return CrossFittedReader.fitted(classifier(name, **placed), tokens, labels, images, folds=folds, seed=seed)


def _balanced(rows: NDArray[np.intp], rank: NDArray[np.intp], labels: Ints) -> NDArray[np.intp]:
    """Of each group as many of ``rows`` as the smallest has, by the rank of their images."""
    ordered = rows[np.argsort(rank[rows], kind="stable")]
    of_each = [ordered[labels[ordered] == group] for group in range(int(labels.max()) + 1)]
    smallest = min(map(len, of_each))
    return np.concatenate([some[:smallest] for some in of_each])


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
