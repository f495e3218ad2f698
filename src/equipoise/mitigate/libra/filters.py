"""Which filled captions count: those that people could have written, and that tell their group more than before."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["is_authentic", "is_misread", "tells_more"]

Flags = NDArray[np.bool_]


def is_authentic(p_real: ArrayLike, least: float) -> Flags:
    """(n,) whether people could have written it: its probability is above ``least``.

    >>> is_authentic([0.2, 0.3, 0.4], 0.3).tolist()
    [False, False, True]
    """
    return np.asarray(np.asarray(p_real) > least)


def tells_more(before: ArrayLike, after: ArrayLike, groups: ArrayLike, margin: float) -> Flags:
    """(n,) whether the filled caption is read as its own group, and by more than ``margin`` more surely than before.

    ``before`` and ``after`` (n, groups) are probabilities; ``groups`` (n,) the group that each caption names.

    >>> tells_more([[0.5, 0.5]] * 3, [[0.8, 0.2], [0.6, 0.4], [0.2, 0.8]], [0, 0, 0], 0.2).tolist()
    [True, False, False]
    """
    first, last, own = np.asarray(before), np.asarray(after), np.asarray(groups)
    rows = np.arange(len(own))
    right = last.argmax(axis=1) == own
    return np.asarray(right & (last[rows, own] - first[rows, own] > margin))


def is_misread(probabilities: ArrayLike, groups: ArrayLike) -> Flags:
    """(n,) whether a caption's other words are read as another group than the one it names.

    >>> is_misread([[0.8, 0.2], [0.4, 0.6]], [0, 0]).tolist()
    [False, True]
    """
    return np.asarray(np.asarray(probabilities).argmax(axis=1) != np.asarray(groups))
