"""The kinds of arrays that signatures name, in one place; shapes are said where they are used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
"""Rows are embeddings."""
Ints = NDArray[np.int64]
Positions = NDArray[np.intp]
"""Where rows stand in another array."""
Flags = NDArray[np.bool_]
Mask = NDArray[np.bool_]
"""Which pixels are meant."""
Pixels = NDArray[np.uint8]
