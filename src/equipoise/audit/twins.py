"""Pictures and their placebo twins: the same picture again, changed in something that is no group of people."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.strata import PLACEBO

__all__ = ["without_twins"]


def without_twins(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """(N,) whether an image is as it was made: every column ``placebo_*`` at its usual level.

    A picture, the same one mirrored and the same one with a bag are one observation of the people in it, so whoever
    counts images or shuffles their labels takes the first alone. The usual level is the commonest, the first one
    in the table among equals; an empty cell is usual too.

    >>> frame = pd.DataFrame({"gender": [*"fmfm"], "placebo_bag": ["none", "none", "bag", "bag"]})
    >>> without_twins(frame).tolist()
    [True, True, False, False]
    """
    usual = np.ones(len(frame), dtype=bool)
    for name in frame.columns:
        if str(name).startswith(PLACEBO) and frame[name].notna().any():
            levels, _ = pd.factorize(frame[name])  # in order of appearance, so the first of equals is the least code
            commonest = np.bincount(levels[levels >= 0]).argmax()
            usual &= (levels == commonest) | (levels < 0)
    return usual
