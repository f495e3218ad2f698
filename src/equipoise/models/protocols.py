"""What the rest of Equipoise expects of a model: small protocols, not base classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["KINDS", "Answers", "Captioner", "Classifier", "Encoder", "Precomputed", "Vectors"]

KINDS = ("encoder", "captioner", "classifier")
"""What a model can be asked to be; the ``kind`` of :func:`equipoise.models.load`."""

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
class Captioner(Protocol):
    """Says in words what images show."""

    name: str
    key: str

    def caption(self, images: Sequence[Image.Image], *, seed: int) -> list[str]:
        """One caption for each image; the same image and seed give the same caption, in any batch."""


@dataclass(frozen=True)
class Answers:
    """What a classifier says about one attribute of n images."""

    labels: tuple[str, ...]
    """The k values that the attribute can take."""
    probabilities: NDArray[np.float32]
    """(n, k) how likely each is; rows sum to one, unless the values do not exclude each other."""

    @property
    def best(self) -> list[str]:
        """The likeliest value of each image.

        >>> Answers(("indoors", "outdoors"), np.float32([[0.2, 0.8]])).best
        ['outdoors']
        """
        return [self.labels[i] for i in self.probabilities.argmax(axis=1)]


@runtime_checkable
class Classifier(Protocol):
    """Names attributes of images."""

    name: str
    key: str

    def classify(self, images: Sequence[Image.Image]) -> Mapping[str, Answers]:
        """What it says of each attribute it knows, by the attribute's name."""


@runtime_checkable
class Precomputed(Protocol):
    """Vectors or scores that someone computed before: a closed model behind an API, or a machine with a GPU."""

    name: str
    key: str

    def image_vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, d) vectors of the images with these ids, as they were given."""

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """(m, d) vectors of these texts, as they were given."""
