"""A linear classifier on single words and pairs of words: a screen for the LSTM's LIC_M at a hundredth of its cost.

It is an approximation: its LIC_M agrees with the LSTM's to about a point on captions of models; its LIC_D lies above,
because on the richer captions of people a linear classifier learns more than an LSTM does in twenty epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOOSENESS = 0.7
"""Of the regression: the inverse of its ridge. Near it LIC_M is closest to the LSTM's on the seven files of captions
that the authors of LIC released (within 1.3 points; with 1, skin tone was 1.6 and 1.9 above)."""


@dataclass(frozen=True)
class NgramTable:
    """How often each word (and, unless ``pairs`` is off, pair of words) stands in each caption, as a sparse table."""

    counts: Any
    names: tuple[str, ...]

    @classmethod
    def of(cls, tokens: Sequence[Sequence[str]], *, pairs: bool = True) -> NgramTable:
        """The table of these captions.

        >>> table = NgramTable.of([["a", "dog"], ["a", "a"]])
        >>> table.names, table.counts.toarray().tolist()
        (('a', 'a a', 'a dog', 'dog'), [[1, 0, 1, 1], [2, 1, 0, 0]])
        """
        from sklearn.feature_extraction.text import CountVectorizer

        vectorizer = CountVectorizer(analyzer=_words_and_pairs if pairs else list)
        return cls(vectorizer.fit_transform(tokens).tocsr(), tuple(vectorizer.get_feature_names_out().tolist()))

    def counts_of(self, tokens: Sequence[Sequence[str]]) -> Any:
        """The counts of other captions, in the columns of this table (with pairs); words that it lacks are left out.

        >>> NgramTable.of([["a", "dog"], ["a", "a"]]).counts_of([["a", "dog", "barks"]]).toarray().tolist()
        [[1, 0, 1, 1]]
        """
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(analyzer=_words_and_pairs, vocabulary=self.names).transform(tokens).tocsr()


@dataclass(frozen=True)
class LinearModel:
    """A fitted classifier: rows of a table in, probabilities out."""

    idf: NDArray[np.float64]
    regression: Any
    groups: int

    def features(self, counts: Any) -> Any:
        """Counts weighted by rarity in the training captions, each caption of length one."""
        from scipy import sparse
        from sklearn.preprocessing import normalize

        with _unchecked():
            return normalize(counts @ sparse.diags(self.idf), copy=False)

    def probabilities(self, counts: Any) -> NDArray[np.float64]:
        """(n, groups) how likely each group is for each caption."""
        return self.of_features(self.features(counts))

    def of_features(self, features: Any) -> NDArray[np.float64]:
        """(n, groups) the same from weighted counts."""
        probabilities = np.zeros((features.shape[0], self.groups))
        with _unchecked():
            probabilities[:, self.regression.classes_] = self.regression.predict_proba(features)
        return probabilities

    @property
    def weights(self) -> NDArray[np.float64]:
        """(groups, features) what a feature adds to the log odds of each group; rows add up to zero."""
        w = np.asarray(self.regression.coef_, dtype=np.float64)
        if len(w) == 1:
            w = np.concatenate([-w, w]) / 2
        full = np.zeros((self.groups, w.shape[1]))
        full[self.regression.classes_] = w - w.mean(axis=0)
        return full


def _words_and_pairs(caption: Sequence[str]) -> list[str]:
    return [*caption, *(f"{a} {b}" for a, b in pairwise(caption))]


def fit_linear(counts: Any, labels: NDArray[np.int64], groups: int) -> LinearModel:
    """Fit on captions ``counts`` (m, features) of groups ``labels`` (m,).

    >>> table = NgramTable.of([["red", "dog"], ["red", "cat"], ["blue", "dog"], ["blue", "cat"]])
    >>> fit_linear(table.counts, np.array([0, 0, 1, 1]), 2).probabilities(table.counts).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    idf = rarity(counts)
    features = LinearModel(idf, None, groups).features(counts)
    return LinearModel(idf, regress(features, labels, groups), groups)


def rarity(counts: Any) -> NDArray[np.float64]:
    """(features,) log((1 + m) / (1 + captions that have it)) + 1.

    A word that no caption has counts as one of a single caption; its weight is zero anyway.
    """
    seen = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.asarray(np.log((1 + counts.shape[0]) / (1 + np.maximum(seen, 1))) + 1)


def regress(features: Any, labels: NDArray[np.int64], groups: int) -> Any:
    """Logistic regression, to a precision at which LIC no longer moves by 0.1 points."""
    from sklearn.linear_model import LogisticRegression

    two = groups == 2
    model = LogisticRegression(
        C=LOOSENESS, solver="liblinear" if two else "lbfgs", tol=1e-2 if two else 1e-4, max_iter=1000, random_state=0
    )
    with _unchecked():
        return model.fit(features, labels)


def _unchecked() -> AbstractContextManager[None]:
    """Hundreds of small fits: looking at settings and at our own counts would take a good part of the time."""
    from sklearn import config_context

    unchecked: AbstractContextManager[None] = config_context(assume_finite=True, skip_parameter_validation=True)
    return unchecked
