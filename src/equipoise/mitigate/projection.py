"""Orthogonal projection: take the directions in which groups differ out of embeddings.

With the unwanted directions as the rows of Q (orthonormal), a vector x becomes (I - Q'Q) x, brought to unit length.
What the directions are is the ``variant``:

``differences``
    How groups differ inside counterfactual sets, all else equal: for every axis the effect of each group on the vector,
    by least squares with an effect of its own for every set. G groups give G - 1 directions. The default.
``prompts``
    Chuang et al. (arXiv 2302.00070): the span of the given vectors themselves, which are those of prompts that name
    the groups, "a photo of a woman", "a photo of a man".
``calibrated``
    The same, times (lambda M + I)^-1, where M is the mean of (z_i - z_j)(z_i - z_j)' over pairs of one set that differ
    in the group: what names another group should land at the same place. Lambda is 1,000 there. The span is that of
    prompts without a set ("a photo of a woman"), the pairs are those with one ("a female nurse", "a male nurse").
    Where every prompt has a set, all of them span it, and then calibration has nothing left to do.
``equalised``
    (lambda M + I)^-1 alone, as they use it for generators (with lambda 500): not a projection, nothing is cut out.

The last three learn from vectors of prompts and change those of texts, as the paper does; ``differences`` learns from
images and changes both. :func:`equipoise.mitigate.repaired` can be told otherwise. ``share`` makes so much of the
change: with 0.5, half of what lies along the directions stays.

When it lies: a projection takes out what groups have in common over all subjects. What differs from subject to subject
stays, so a model that draws its bias from there is not repaired by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.base import LinearRemedy, checked_share, fitted_on, indicators, within_sets
from equipoise.mitigate.protocol import Axes, FittedOn, Labelled, checked_groups, checked_vectors

VARIANTS = ("differences", "prompts", "calibrated", "equalised")
LAMBDA = 1000.0
"""Chuang et al., for classification and retrieval."""
_RANK = 1e-6
"""A direction this small beside the largest is rounding, not a direction."""


class Projection(LinearRemedy):
    """Takes the directions in which groups differ out of vectors; see the module for the variants.

    >>> vectors = [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    >>> remedy = Projection().fit(vectors, {"gender": ["female", "male"]}, sets=["a", "a"])
    >>> remedy.directions[:, :2].round(3).tolist()
    [[0.707, -0.707]]
    >>> remedy.transform(vectors).astype(float).round(3).tolist()
    [[0.408, 0.408, 0.816], [0.408, 0.408, 0.816]]
    """

    name = "projection"

    def __init__(self, variant: str = "differences", strength: float = LAMBDA, share: float = 1.0) -> None:
        super().__init__()
        if variant not in VARIANTS:
            raise UnknownNameError("variant of projection", str(variant), VARIANTS)
        if not np.isfinite(strength) or strength <= 0:
            raise InputError(f"strength={strength}: lambda is a number above 0, such as 1000")
        self.variant = variant
        self.strength = float(strength)
        self.share = checked_share(share)
        self.learns_from = "images" if variant == "differences" else "texts"
        self.changes = "both" if variant == "differences" else "texts"
        # the span of a subject's own prompts would take the subject out; its pairs tell where the group lies
        self.names_subjects = variant in ("equalised", "calibrated")
        self._directions: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        state = "not fitted" if self._directions is None else f"{len(self._directions)} directions"
        return f"Projection({self.variant!r}, {state})"

    @property
    def directions(self) -> NDArray[np.float64]:
        """(r, d) orthonormal rows: what is taken out; none for ``equalised``."""
        return self.learnt(self._directions)

    def fit(self, vectors: ArrayLike, groups: Axes, *, sets: Sequence[Any] | None = None) -> Self:
        """Learn the directions from (n, d) ``vectors`` and their ``groups`` on every axis; see :class:`Remedy`.

        Without ``sets``, ``differences`` compares groups over all vectors; then whatever else differs between groups
        is taken out too. ``prompts`` compares nothing and looks at no set.
        """
        every = checked_vectors(vectors)
        named = sets if sets is not None and self.variant == "calibrated" else ()
        people = [i for i, name in enumerate(named) if name in (None, "")]
        known = checked_groups(every, groups, sets, compares=self.variant != "prompts")
        unit = known.vectors / _lengths(known)[:, None]
        spanning = _effects(unit, known) if self.variant == "differences" else unit
        if people:
            alone = checked_groups(
                every[people], {axis: [labels[i] for i in people] for axis, labels in groups.items()}, None
            )
            spanning = alone.vectors / _lengths(alone)[:, None]
        none = np.zeros((0, every.shape[1]))
        directions = none if self.variant == "equalised" else _span(spanning)
        if self.variant != "equalised" and not len(directions):
            raise InputError("the groups do not differ in these vectors; there is no direction to take out")
        if len(directions) >= every.shape[1]:
            raise InputError(
                f"{len(directions)} directions fill all {every.shape[1]} numbers of a vector: nothing would be left; "
                "give fewer prompts or groups"
            )
        matrix = np.eye(every.shape[1]) - directions.T @ directions
        if self.variant in ("calibrated", "equalised"):
            matrix = matrix @ np.linalg.inv(self.strength * _spread(unit, known) + np.eye(len(matrix)))
        self._directions = directions
        self._set(matrix, None, self.share)
        self.fitted_on = fitted_on(known, len(every), self.learns_from)
        return self

    def state(self) -> dict[str, NDArray[Any]]:
        """The directions, and the matrix that follows from them."""
        return {"directions": self.directions, "matrix": self.matrix}

    def restore(self, state: Mapping[str, NDArray[Any]], fitted_on: FittedOn) -> Self:
        """Take a state that was kept."""
        super().restore(state, fitted_on)
        directions = np.asarray(state["directions"], dtype=np.float64)
        if directions.ndim != 2 or directions.shape[1] != len(self.matrix):
            raise InputError(
                f"directions of shape {directions.shape} and a matrix of {self.matrix.shape} do not belong"
            )
        self._directions = directions
        return self


def _lengths(known: Labelled) -> NDArray[np.float64]:
    lengths = np.linalg.norm(known.vectors, axis=1)
    bad = np.flatnonzero(lengths == 0)
    if len(bad):
        raise InputError(f"the vector in row {known.rows[bad[0]]} has no length; compute it again or drop it")
    return np.asarray(lengths)


def _effects(vectors: NDArray[np.float64], known: Labelled) -> NDArray[np.float64]:
    """(groups, d) the effect of every group of every axis, all axes at once, within sets.

    Vectors and group indicators lose their set's mean first (Frisch and Waugh), so that sets with a missing image do
    not pass for a group's effect.
    """
    shown = within_sets(indicators(known), known.sets)
    # The normal equations, a product over all vectors and a small inverse. The indicators have no mean in any set, so
    # that the means of the vectors fall out of the product and need not be taken away first.
    return np.asarray(np.linalg.pinv(shown.T @ shown, rcond=1e-9, hermitian=True) @ (shown.T @ vectors))


def _span(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(r, d) orthonormal rows that span ``vectors``; their number is the rank, so that repeated ones do no harm.

    The sign of each is fixed (the first of its largest numbers is positive): a decomposition may return either.
    """
    _, sizes, rows = np.linalg.svd(vectors, full_matrices=False)
    if not len(sizes) or sizes[0] <= 1e-9:
        return rows[:0]
    rows = rows[sizes > _RANK * sizes[0]]
    sizes = np.abs(rows)
    first = (sizes > sizes.max(axis=1, keepdims=True) - 1e-9).argmax(axis=1)
    return np.asarray(rows * np.sign(rows[np.arange(len(rows)), first])[:, None])


def _spread(vectors: NDArray[np.float64], known: Labelled) -> NDArray[np.float64]:
    """(d, d) the mean of (z_i - z_j)(z_i - z_j)' over pairs of one set whose groups differ on some axis."""
    if known.sets is None:
        raise InputError("calibration compares prompts that differ in nothing but the group; say which with sets=...")
    groups = np.stack(list(known.codes.values()), axis=1)
    total, n = np.zeros((vectors.shape[1], vectors.shape[1])), 0
    for number in range(int(known.sets.max()) + 1):
        mine = np.flatnonzero(known.sets == number)
        gaps = [vectors[i] - vectors[j] for i, j in combinations(mine, 2) if (groups[i] != groups[j]).any()]
        if gaps:
            total += np.stack(gaps).T @ np.stack(gaps)
            n += len(gaps)
    if not n:
        raise InputError("no set holds two groups; calibration needs prompts that differ in nothing but the group")
    return np.asarray(total / n)
