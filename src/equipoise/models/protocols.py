"""What the rest of Equipoise expects of a model: small protocols, not base classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Encoder", "Precomputed", "Vectors"]

Vectors = NDArray[np.float32]
"""One embedding per row."""


@runtime_checkable
class Encoder(Protocol):
    """Turns images and texts into vectors of one space."""

    name: str
    """What results call it: the spec it was loaded by."""
    key: str
    """Fingerprint of weights and preprocessing: the cache's name for it."""
    logit_scale: float
    """What a cosine is multiplied with before a softmax."""

    def encode_images(self, images: Sequence[Image.Image]) -> Vectors:
        """(n, d) unit vectors of n RGB images."""

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """(m, d) unit vectors of m texts."""


@runtime_checkable
class Precomputed(Protocol):
    """Vectors or scores that someone computed before: a closed model behind an API, or a machine with a GPU."""

    name: str
    key: str

    def image_vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, d) vectors of the images with these ids, as they were given."""

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """(m, d) vectors of these texts, as they were given."""
