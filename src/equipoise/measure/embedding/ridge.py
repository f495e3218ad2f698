"""A ridge probe of many labellings at once: least squares on the one-hot groups, every group counting as much."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from equipoise.array_types import Floats


def ridge_scores(
    x: Any, labellings: NDArray[np.intp], held_out: Any, n_groups: int, strength: float
) -> tuple[Floats, int]:
    """Scores (P, m, G) of the held-out rows under each of ``labellings`` (P, n); no fit fails to converge."""
    # least squares is linear in the targets: all labellings share one factorisation
    targets = np.eye(n_groups)[labellings].transpose(1, 0, 2).reshape(x.shape[0], -1)
    predicted = _sparse_ridge if sparse.issparse(x) else _dense_ridge
    scores = _evened(*predicted(x, targets, held_out, x.shape[0] / (100 * strength)), targets)
    return scores.reshape(held_out.shape[0], -1, n_groups).transpose(1, 0, 2), 0


def _evened(scores: Floats, lift: Floats, targets: Floats) -> Floats:
    """Scores (m, T) on a scale where the members of each group were at +1/2 on average in training, others at -1/2.

    Least squares hardly gives a rare group the highest score, however well its members are told apart: their scores
    begin at the group's share. ``lift`` (T,): by how much the training scores of the members exceed it, added up.

    >>> _evened(np.array([[0.1], [0.3]]), np.array([0.4]), np.repeat([[1.0], [0.0]], [2, 8], axis=0)).round(3).tolist()
    [[-0.7], [0.1]]
    """
    n, members = len(targets), targets.sum(axis=0)
    tells = (lift > 1e-12 * n) & (members > 0) & (members < n)
    inside, outside = lift / np.maximum(members, 1), -lift / np.maximum(n - members, 1)
    middle, apart = np.where(tells, (inside + outside) / 2, 0.0), np.where(tells, inside - outside, 1.0)
    return np.asarray((scores - members / n - middle) / apart)


def _sparse_ridge(x: Any, targets: Floats, held_out: Any, penalty: float) -> tuple[Floats, Floats]:
    """The scores of the held-out rows, and the lift of each column of ``targets``; see :func:`_evened`."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted = make_pipeline(StandardScaler(with_mean=False), Ridge(alpha=penalty)).fit(x, targets)
    known = fitted.predict(x).reshape(targets.shape)
    return fitted.predict(held_out), (targets * (known - targets.mean(axis=0))).sum(axis=0)


def _dense_ridge(x: Floats, targets: Floats, held_out: Floats, penalty: float) -> tuple[Floats, Floats]:
    """The same, written out: hundreds of small fits, of which scikit-learn's checks would take 19 parts in 20.

    >>> x, targets = np.random.default_rng(0).normal(size=(9, 4)), np.eye(9)[:, :2]
    >>> dense, plain = (fit(x, targets, x, 2.0) for fit in (_dense_ridge, _sparse_ridge))
    >>> bool(np.allclose(dense[0], plain[0])), bool(np.allclose(dense[1], plain[1]))
    (True, True)
    """
    n, width = x.shape
    mean, variance = x.mean(axis=0), x.var(axis=0)
    rounding = n * np.finfo(np.float64).eps
    still = variance <= rounding * variance + (rounding * mean) ** 2  # a column that does not vary has no spread
    scale = np.where(still, 1.0, np.sqrt(variance))
    known, asked, centre = (x - mean) / scale, (held_out - mean) / scale, targets.mean(axis=0)
    wide = width > n
    gram = known @ known.T if wide else known.T @ known
    gram[np.diag_indices_from(gram)] += penalty
    towards = known.T @ (targets - centre)
    found = linalg.solve(gram, targets - centre if wide else towards, assume_a="pos")
    slopes = known.T @ found if wide else found
    return np.asarray(asked @ slopes + centre), np.asarray((towards * slopes).sum(axis=0))
