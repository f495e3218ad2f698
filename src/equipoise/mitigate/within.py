"""What differs inside counterfactual sets: vectors and indicators less their set's mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["within_sets"]


def within_sets(values: NDArray[np.float64], sets: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """``values`` (n, d) less the mean of their set, or of all where there are no sets.

    >>> within_sets(np.array([[1.0], [3.0], [10.0], [20.0]]), np.array([0, 0, 1, 1])).ravel().tolist()
    [-1.0, 1.0, -5.0, 5.0]
    """
    if sets is None:
        return np.asarray(values - values.mean(axis=0))
    order = np.argsort(sets, kind="stable")
    counts = np.bincount(sets)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means = np.add.reduceat(values[order], starts, axis=0) / counts[:, None]
    return np.asarray(values - means[sets])
