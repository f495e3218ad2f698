"""Many tests at once: Holm and Benjamini-Hochberg."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError

__all__ = ["benjamini_hochberg", "holm"]

FloatArray = NDArray[np.float64]


def holm(p_values: ArrayLike) -> FloatArray:
    """Holm's adjusted p-values, in the order given: they bound the chance of one false discovery (Holm 1979).

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(len(p), 0, -1)
    return _in_given_order(np.minimum(1.0, np.maximum.accumulate(scaled)), order)


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Benjamini-Hochberg adjusted p-values, in the order given: they bound the share of false discoveries (1995).

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.04, 0.04]
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    return _in_given_order(np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1]), order)


def _checked(p_values: ArrayLike) -> FloatArray:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise InputError(f"p_values has shape {p.shape}; give a flat list of p-values")
    wrong = ~((p >= 0) & (p <= 1))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"p_values[{at}] = {p[at]}: a p-value is between 0 and 1")
    return p


def _in_given_order(values: FloatArray, order: NDArray[np.intp]) -> FloatArray:
    out = np.empty_like(values)
    out[order] = values
    return out
