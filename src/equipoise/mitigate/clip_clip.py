"""CLIP-clip: drop the numbers of an embedding that tell most about the group (Wang et al., 2021).

The mutual information of every number with the group is estimated on the vectors that the remedy is fitted on, and the
``m`` numbers with the most are dropped from both sides. m = 100 of 512 keeps 412, as in GenSynth (arXiv 2305.15407).

Estimators of the mutual information, in nats:

``quantiles``
    A histogram of so many equally filled bins by classes, with the Miller-Madow correction. The default.
``smoothed``
    Wang et al.'s code: a 64 x 64 histogram of the number and the class's code, smoothed by a Gaussian of one bin with
    zeros around it. Smoothing along the classes lets mass leak at the edges, so that its values mean little; the order
    is much the same.
``ksg``
    Nearest neighbours (Ross, 2014), as scikit-learn has it: no bins, but slow.

Orders: ``drop_then_normalise`` (GenSynth; the default) brings what is left to unit length. ``normalise_then_drop``
(Wang et al.'s code) drops from unit vectors and takes the plain product of what is left. Here that product is kept by
two more numbers, one for each side, which bring vectors to unit length and never meet: an image's product with a text
is the paper's, and 412 numbers become 414. Products of two images, or of two texts, are not.

Images without a group are left out by default, as everywhere; in the paper they are a class of their own: give them
one, such as "neutral". The remedy is fitted on the subjects that are not held out: the published script fits it on
the images that it is judged by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.base import BaseRemedy
from equipoise.mitigate.protocol import FittedOn, Labelled, Queries, checked_side, checked_vectors, unit_rows

ESTIMATORS = ("quantiles", "smoothed", "ksg")
ORDERS = ("drop_then_normalise", "normalise_then_drop")
_COLUMNS = 32
"""Numbers of an embedding that are binned at a time."""


class ClipClip(BaseRemedy):
    """Drops the most telling numbers; see the module.

    >>> rng = np.random.default_rng(0)
    >>> group = np.arange(600) % 2
    >>> vectors = rng.normal(size=(600, 12))
    >>> vectors[:, 7] += 2 * group
    >>> remedy = ClipClip(m=1).fit(vectors, {"gender": [str(g) for g in group]})
    >>> remedy.dropped.tolist(), remedy.transform(vectors).shape
    ([7], (600, 11))
    """

    name = "clip-clip"

    def __init__(
        self, m: float = 100, estimator: str = "quantiles", order: str = "drop_then_normalise", bins: int = 16
    ) -> None:
        if estimator not in ESTIMATORS:
            raise UnknownNameError("estimator of mutual information", str(estimator), ESTIMATORS)
        if order not in ORDERS:
            raise UnknownNameError("order of dropping", str(order), ORDERS)
        if not m > 0 or (m >= 1 and m != int(m)):
            raise InputError(f"m={m}: how many numbers to drop, such as 100, or below 1 a share of them")
        if bins < 2:
            raise InputError(f"bins={bins}: give at least 2")
        self.m, self.estimator, self.order, self.bins = float(m), estimator, order, int(bins)
        self._information: NDArray[np.float64] | None = None

    @property
    def information(self) -> NDArray[np.float64]:
        """(d,) what each number tells of the groups, in nats; the mean over axes."""
        return self.learnt(self._information)

    @property
    def dropped(self) -> NDArray[np.int64]:
        """The numbers that are dropped, in order of place."""
        d = len(self.information)
        count = int(self.m) if self.m >= 1 else max(1, round(self.m * d))
        if count >= d:
            raise InputError(f"m={count} of {d} numbers would leave nothing; give fewer, or a share such as 0.2")
        return np.sort(np.argsort(-self.information, kind="stable")[:count])

    @property
    def kept(self) -> NDArray[np.int64]:
        """The numbers that stay."""
        return np.setdiff1d(np.arange(len(self.information)), self.dropped)

    def learn(self, known: Labelled) -> None:
        """Estimate the information of every number."""
        every_axis = known.codes.values()
        by_axis = [mutual_information(known.vectors, codes, self.estimator, bins=self.bins) for codes in every_axis]
        self._information = np.mean(by_axis, axis=0)
        self.dropped  # noqa: B018 - refuses an m that leaves nothing

    def transform(self, vectors: ArrayLike, side: str = "image", query: Queries | None = None) -> NDArray[np.float32]:
        """(m, d - dropped) vectors of unit length; with ``normalise_then_drop`` two numbers more."""
        checked_side(side)
        rows: NDArray[Any] = np.asarray(vectors)
        if rows.ndim != 2 or rows.shape[1] != len(self.information) or rows.dtype.kind not in "fiu":
            rows = checked_vectors(vectors, len(self.information))  # says what is wrong
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not np.isfinite(lengths).all():
            checked_vectors(rows)
        if self.order == "drop_then_normalise":
            return unit_rows(np.take(rows, self.kept, axis=1), lengths)
        left = unit_rows(rows, 0 * lengths)[:, self.kept]
        rest = np.sqrt(np.clip(1 - np.einsum("ij,ij->i", left, left, dtype=np.float64), 0, None))
        beside = np.zeros((len(rows), 2), dtype=np.float32)
        beside[:, 0 if side == "image" else 1] = rest
        return np.concatenate([left, beside], axis=1)

    def state(self) -> dict[str, NDArray[Any]]:
        """What every number tells: which are dropped follows from it."""
        return {"information": self.information}

    def restore(self, state: Mapping[str, NDArray[Any]], fitted_on: FittedOn) -> Self:
        """Take a state that was kept."""
        self._information, self.fitted_on = np.asarray(state["information"], dtype=np.float64), fitted_on
        return self


def mutual_information(
    vectors: NDArray[np.float64], codes: NDArray[np.int64], estimator: str = "quantiles", *, bins: int = 16
) -> NDArray[np.float64]:
    """(d,) the mutual information, in nats, of every column of (n, d) ``vectors`` with the groups ``codes`` (n,).

    >>> codes = np.arange(4000) % 2
    >>> noise = np.random.default_rng(0).normal(size=(4000, 2))
    >>> found = mutual_information(noise + np.outer(codes, [0.0, 20.0]), codes)
    >>> bool(abs(found[0]) < 0.01), round(float(found[1]), 2)  # ln 2 where the groups do not overlap
    (True, 0.69)
    """
    if estimator == "ksg":
        from sklearn.feature_selection import mutual_info_classif

        return np.asarray(mutual_info_classif(vectors, codes, random_state=0))
    parts = []
    for start in range(0, vectors.shape[1], _COLUMNS):
        some = np.ascontiguousarray(vectors[:, start : start + _COLUMNS].T)
        parts.append(_smoothed(some, codes) if estimator == "smoothed" else _by_quantiles(some, codes, bins))
    return np.concatenate(parts)


def _by_quantiles(columns: NDArray[np.float64], codes: NDArray[np.int64], bins: int) -> NDArray[np.float64]:
    """From (d, n) numbers, each row one of the embedding's."""
    n = columns.shape[1]
    cuts = [n * b // bins for b in range(1, bins)]
    n_groups = int(codes.max()) + 1
    counts = np.empty((len(columns), bins, n_groups))
    for row, count in zip(columns, counts, strict=True):
        cells = codes.copy()
        for end in np.sort(row)[cuts]:  # a comparison for each end costs less than a search for each number
            cells += n_groups * (row >= end)
        count[:] = np.bincount(cells, minlength=bins * n_groups).reshape(bins, n_groups)
    # Miller and Madow: a plain histogram finds (bins - 1)(groups - 1) / 2n nats in noise
    return np.asarray(_information(counts / n) - (bins - 1) * (n_groups - 1) / (2 * n))


def _smoothed(columns: NDArray[np.float64], codes: NDArray[np.int64], bins: int = 64) -> NDArray[np.float64]:
    from scipy.ndimage import gaussian_filter

    low, high = columns.min(axis=1, keepdims=True), columns.max(axis=1, keepdims=True)
    width = np.where(high > low, high - low, 1.0)
    places = np.minimum(((columns - low) / width * bins).astype(np.int64), bins - 1)
    spread = max(1, int(codes.max()))
    across = np.minimum(codes * bins // spread, bins - 1)
    d = len(places)
    flat = (np.arange(d)[:, None] * bins + places) * bins + across
    counts = np.bincount(flat.ravel(), minlength=d * bins * bins).reshape(d, bins, bins).astype(np.float64)
    smooth = gaussian_filter(counts, (0, 1, 1), mode="constant") + np.finfo(np.float64).eps
    return _information(smooth / smooth.sum(axis=(1, 2), keepdims=True))


def _information(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """(d,) from joint shares (d, bins, groups)."""
    apart = joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(joint / apart), 0.0)
    return np.asarray(terms.sum(axis=(1, 2)))
