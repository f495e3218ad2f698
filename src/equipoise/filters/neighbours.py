"""Exact nearest neighbours in blocks: no index, no approximation, memory bounded by the block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.measure.select import Best

__all__ = ["nearest", "without"]

Index = NDArray[np.int64]

_QUERIES = 1024
_GALLERY = 8192


def nearest(queries: Any, gallery: Any, k: int) -> Index:
    """(q, min(k, N)) the nearest of ``gallery`` (N, d) to each of ``queries`` (q, d), by Euclidean distance.

    Nearest first; of two at the same distance the one with the lower number. Distances are compared by float32
    products, as |g|^2 / 2 - q.g: for unit vectors the order of cosines.

    >>> nearest([[0.0, 0.0]], [[3.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 2).tolist()
    [[1, 2]]
    """
    q, g = _matrix(queries, "queries"), _matrix(gallery, "gallery")
    if q.shape[1] != g.shape[1]:
        raise InputError(f"queries have {q.shape[1]} dimensions and the gallery {g.shape[1]}")
    if k < 1:
        raise InputError(f"k = {k}: give a whole number of at least 1")
    k = min(k, len(g))
    half = (np.einsum("nd,nd->n", g, g, dtype=np.float64) / 2).astype(np.float32)
    codes = np.zeros(len(g), dtype=np.int32)
    width = max(_GALLERY, 2 * k)
    out = np.empty((len(q), k), dtype=np.int64)
    for start in range(0, len(q), _QUERIES):
        part = q[start : start + _QUERIES]
        best = Best(len(part), k, codes, 1)
        for left in range(0, len(g), width):
            block = slice(left, min(left + width, len(g)))
            scores = part @ g[block].T
            scores -= half[block]
            best.add(scores, np.arange(block.start, block.stop, dtype=np.int64))
        out[start : start + _QUERIES] = best.result()[0]
    return out


def without(found: Index, forbidden: Any, k: int) -> Index:
    """(q, k) the first ``k`` of each row of ``found`` that are not in its row of ``forbidden`` (q, m); -1 fills up.

    Exact if ``found`` holds at least k + m neighbours, or all there are.

    >>> without(np.array([[4, 2, 7]]), [[2, -1]], 2).tolist()
    [[4, 7]]
    """
    bad = (found[:, :, None] == np.asarray(forbidden, dtype=np.int64)[:, None, :]).any(axis=2)
    order = np.argsort(bad, axis=1, kind="stable")
    kept = np.where(np.take_along_axis(bad, order, axis=1), -1, np.take_along_axis(found, order, axis=1))
    return np.asarray(kept[:, :k])


def _matrix(values: Any, name: str) -> NDArray[np.float32]:
    made = np.ascontiguousarray(values, dtype=np.float32)
    if made.ndim != 2 or not len(made):
        raise InputError(f"{name} must have shape (n, d) with n >= 1, not {np.shape(values)}")
    if not np.isfinite(made).all():
        raise InputError(f"{name} holds values that are not finite; leave those rows out")
    return made
