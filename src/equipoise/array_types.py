"""The kinds of arrays that signatures name, in one place; shapes are said where they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
"""Rows are embeddings."""
AnyVectors = NDArray[np.floating[Any]]
"""Embeddings as they come, before they are float32."""
AnyFloats = NDArray[Any]
"""float32 or float64, as they were given."""
Codes = NDArray[np.int32]
"""The group of each image as a number, -1 where it is undefined."""
Ints = NDArray[np.int64]
Positions = NDArray[np.intp]
"""Where rows stand in another array."""
Flags = NDArray[np.bool_]
Mask = NDArray[np.bool_]
"""Which pixels are meant."""
Pixels = NDArray[np.uint8]
