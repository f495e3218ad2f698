"""What differs inside counterfactual sets: values less their set's mean, and covariances of what is left.

A covariance needs no copy of the vectors with the means taken away: X'X less the means' own part is the same, and with
indicators that have no mean in any set the means of the vectors fall out of the product.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["covariance_within", "within_sets"]


def within_sets(values: NDArray[np.float64], sets: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """``values`` (n, d) less the mean of their set, or of all where there are no sets.

    >>> within_sets(np.array([[1.0], [3.0], [10.0], [20.0]]), np.array([0, 0, 1, 1])).ravel().tolist()
    [-1.0, 1.0, -5.0, 5.0]
    """
    if sets is None:
        return np.asarray(values - values.mean(axis=0))
    sums, counts = _sums(values, sets)
    return np.asarray(values - (sums / counts[:, None])[sets])


def covariance_within(vectors: NDArray[np.float64], sets: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """(d, d) sums of products of ``vectors`` (n, d) less the means of their sets, or of all.

    >>> rows = np.array([[1.0, 0.0], [3.0, 1.0], [10.0, 5.0], [20.0, 5.0]])
    >>> covariance_within(rows, np.array([0, 0, 1, 1])).tolist()
    [[52.0, 1.0], [1.0, 0.5]]
    """
    sums, counts = (vectors.sum(axis=0)[None], np.array([len(vectors)])) if sets is None else _sums(vectors, sets)
    return np.asarray(vectors.T @ vectors - sums.T @ (sums / counts[:, None]))


def _sums(values: NDArray[np.float64], sets: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The sum and the number of each set's values; rows that lie set by set are not copied."""
    counts = np.bincount(sets)
    if (np.diff(sets) < 0).any():
        values = values[np.argsort(sets, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.asarray(np.add.reduceat(values, starts, axis=0)), counts
