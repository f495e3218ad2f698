"""LEACE: erase all that a linear function can tell of the groups, with the smallest change (Belrose et al., 2023).

With the covariance S of the vectors, their covariance C with the indicators of groups, and W = S^(-1/2), the vector x
becomes x - W^+ P W (x - mean), where P projects on the columns of W C. No linear function of the result is correlated
with any group, and no other affine map with that property changes vectors less, in mean square. Then each is brought
to unit length, as everywhere; :meth:`Leace.erased` gives the vectors before that, of which the theorem speaks.

With ``sets``, ``within=True`` takes each set's mean out of S and C first: then what is erased is how groups differ
inside sets. Images alone are changed by default: once no linear function of an image's vector tells the group, none of
a text's scores do, whatever the text.

When it lies: what a curved function can tell stays; and the theorem holds for the vectors it was fitted on. Few
vectors for their width (n below about 10 d) leave much of the signal in new ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.mitigate.base import LinearRemedy, checked_share, covariance_within, indicators, within_sets
from equipoise.mitigate.protocol import Labelled, checked_vectors

_RANK = 1e-6


class Leace(LinearRemedy):
    """Linear erasure in closed form; see the module.

    >>> rng = np.random.default_rng(0)
    >>> group = np.arange(400) % 2
    >>> vectors = rng.normal(size=(400, 5)) + np.outer(group, [2.0, 1, 0, 0, 0])
    >>> remedy = Leace().fit(vectors, {"gender": [str(g) for g in group]})
    >>> erased = remedy.erased(vectors)
    >>> bool(np.abs(erased[group == 0].mean(0) - erased[group == 1].mean(0)).max() < 1e-9)
    True
    """

    name = "leace"
    changes = "images"

    def __init__(self, share: float = 1.0, within: bool = False) -> None:
        super().__init__()
        self.share, self.within = checked_share(share), bool(within)
        self.compares = self.within

    def learn(self, known: Labelled) -> None:
        """Erase what the vectors tell of their groups; with ``within``, of how these differ inside sets."""
        if self.within and known.sets is None:
            raise InputError("within=True erases what differs inside sets; say which with sets=...")
        n, d = known.vectors.shape
        mean = known.vectors.mean(axis=0)
        across = known.vectors.T @ within_sets(indicators(known), known.sets)
        values, axes = np.linalg.eigh(covariance_within(known.vectors, known.sets) / max(1, n - 1))
        there = values > values[-1] * d * np.finfo(np.float64).eps
        roots = np.sqrt(np.where(there, values, 1.0))
        whitening = (axes * np.where(there, 1 / roots, 0.0)) @ axes.T
        unwhitening = (axes * np.where(there, roots, 0.0)) @ axes.T
        columns, sizes, _ = np.linalg.svd(whitening @ across / max(1, n - 1), full_matrices=False)
        kept = columns[:, sizes > max(_RANK * float(sizes.max(initial=0.0)), 1e-12)]
        if not kept.shape[1]:
            raise InputError("the groups do not differ in these vectors; there is nothing to erase")
        erased = (unwhitening @ kept) @ (kept.T @ whitening)
        self._set(np.eye(d) - erased, erased @ mean, self.share)

    def erased(self, vectors: ArrayLike) -> NDArray[np.float64]:
        """(m, d) the vectors after the affine map, before they are brought to unit length."""
        return np.asarray(checked_vectors(vectors, len(self.matrix)) @ self.matrix.T + self.offset)
