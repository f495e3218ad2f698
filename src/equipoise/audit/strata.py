"""What must stay fixed when the labels of one axis are shuffled: the levels of the others that vary inside sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["PLACEBO", "strata"]

PLACEBO = "placebo_"
"""Columns with this beginning vary inside sets and are no group of people: a mirrored picture, a bag."""


def strata(frame: pd.DataFrame, axes: Sequence[str], asked: Sequence[str]) -> NDArray[np.int64]:
    """(N,) the combination of levels of the other axes of each image, -1 where such a level is missing.

    The other axes are those of ``axes`` and the columns ``placebo_*`` that are not in ``asked`` and that take more
    than one value inside at least one set (``subject``, ``set_id``). Shuffling labels inside a set only among images
    of the same code keeps a strong effect of one axis out of the null of another. All 0 where nothing else varies;
    a table without sets has nothing that varies inside them.

    >>> frame = pd.DataFrame({"set_id": ["s"] * 5, "gender": [*"fmfmf"], "race": ["x", "x", "y", "y", None]})
    >>> strata(frame, ["gender", "race"], ["gender"]).tolist()
    [0, 0, 1, 1, -1]
    """
    codes = np.zeros(len(frame), dtype=np.int64)
    placebos = [name for name in map(str, frame.columns) if name.startswith(PLACEBO)]
    others = [axis for axis in dict.fromkeys([*axes, *placebos]) if axis in frame and axis not in asked]
    if "set_id" not in frame:
        return codes
    keys = [frame[column] for column in ("subject", "set_id") if column in frame]
    missing = np.zeros(len(frame), dtype=bool)
    for axis in others:
        if not (frame[axis].groupby(keys).nunique() > 1).any():
            continue
        levels, names = pd.factorize(frame[axis], sort=True)
        missing |= levels < 0
        codes = codes * len(names) + levels
    codes[missing] = -1
    kept = ~missing
    codes[kept] = np.unique(codes[kept], return_inverse=True)[1]
    return codes
