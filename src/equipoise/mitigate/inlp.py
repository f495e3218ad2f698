"""INLP: take out the direction of the best linear guess at the group, guess again, and so on (Ravfogel et al., 2020).

Every round fits a linear guess for each axis by ridge regression on the indicators of its groups, takes its directions
out of the vectors by orthogonal projection, and goes on with what is left. The projection at the end takes out all of
them. Only the covariances are needed, so that a round costs a decomposition and no pass over the vectors.

The paper guesses with logistic regression or a linear support vector machine; least squares finds the same directions
where the groups have one covariance.

When it lies: every round also takes out something that is no group. More rounds are not better.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from equipoise.errors import InputError
from equipoise.mitigate.base import LinearRemedy, covariance_within, indicators, within_sets
from equipoise.mitigate.protocol import Labelled

_RIDGE = 1e-4
"""Beside the mean variance of a number."""


class Inlp(LinearRemedy):
    """Iterative nullspace projection; see the module.

    >>> rng = np.random.default_rng(0)
    >>> group = np.arange(400) % 2
    >>> vectors = rng.normal(size=(400, 6)) + np.outer(group, [3.0, 1, 0, 0, 0, 0])
    >>> remedy = Inlp(rounds=2).fit(vectors, {"gender": [str(g) for g in group]})
    >>> int(round(6 - np.trace(remedy.matrix)))
    2
    """

    name = "inlp"
    compares = True

    def __init__(self, rounds: int = 4) -> None:
        super().__init__()
        if rounds < 1:
            raise InputError(f"rounds={rounds}: guess at least once")
        self.rounds = int(rounds)

    def learn(self, known: Labelled) -> None:
        """Take out what guesses the groups; with sets, from what differs inside them."""
        n, d = known.vectors.shape
        shown = within_sets(indicators(known), known.sets)
        within, across = covariance_within(known.vectors, known.sets) / n, known.vectors.T @ shown / n
        directions = _nullspace(within, across, self.rounds)
        if not len(directions):
            raise InputError("the groups do not differ in these vectors; there is no direction to take out")
        if len(directions) >= d:
            raise InputError(f"{self.rounds} rounds take out all {d} numbers of a vector; give fewer rounds")
        self._set(np.eye(d) - directions.T @ directions, None, 1.0)


def _nullspace(within: NDArray[np.float64], across: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """(r, d) orthonormal rows: the directions of all rounds."""
    d = len(within)
    directions = np.zeros((0, d))
    first = 0.0
    for _ in range(rounds):
        # (I - F'F) S (I - F'F) without a product of two large matrices: F has few rows
        taken = directions @ within
        rest = within - directions.T @ taken - taken.T @ directions + directions.T @ (taken @ directions.T) @ directions
        signal = across - directions.T @ (directions @ across)
        size = float(np.linalg.norm(signal))
        first = first or size
        if size <= 1e-9 * max(first, 1e-300):
            break
        rest[np.diag_indices(d)] += _RIDGE * max(np.trace(within) / d, 1e-300)
        weights = solve(rest, signal, assume_a="pos")
        rows, sizes, _ = np.linalg.svd(weights - directions.T @ (directions @ weights), full_matrices=False)
        new = rows[:, sizes > 1e-6 * sizes[0]].T if sizes[0] > 0 else rows[:, :0].T
        if not len(new):
            break
        directions = np.linalg.qr(np.concatenate([directions, new]).T)[0].T
        if len(directions) >= d:
            break
    return directions
