"""A two-tower encoder that is fitted in seconds: canonical correlation between coarse pixels and words.

It is no CLIP, and it sees little more than colours in places. But it learns from pairs as CLIP does, so what occurs
together in the pairs ends up close in its space: enough to show, offline, how an audit finds a bias that was put in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["LinearEncoder"]

GRID = 16
"""Pictures are brought to 16 x 16 pixels."""


class LinearEncoder:
    """Fitted on pictures (n, H, W, 3) and one text each; then an ``Encoder`` as any other.

    >>> rng = np.random.default_rng(0)
    >>> light, dark = rng.integers(200, 255, (40, 16, 16, 3)), rng.integers(0, 55, (40, 16, 16, 3))
    >>> images = np.concatenate([light, dark]).astype(np.uint8)
    >>> encoder = LinearEncoder("toy").fit(images, ["a day"] * 40 + ["a night"] * 40)
    >>> day, night = encoder.encode_texts(["a day", "a night"])
    >>> vector = encoder.encode_arrays(images[:1])[0]
    >>> bool(vector @ day > vector @ night)
    True
    """

    def __init__(self, name: str, *, dimensions: int = 48, ridge: float = 0.1) -> None:
        self.name = name
        self.key = ""
        self.logit_scale = 10.0
        self.dimensions = dimensions
        self.ridge = ridge

    def fit(self, images: NDArray[np.uint8], texts: Sequence[str]) -> LinearEncoder:
        """Find the directions in which pictures and words vary together."""
        if len(images) != len(texts):
            raise InputError(f"{len(images)} images and {len(texts)} texts: give one text per image")
        self.words_ = sorted({word for text in texts for word in text.split()})
        x, y = _coarse(images), self._counts(texts)
        self.image_mean_, self.text_mean_ = x.mean(axis=0), y.mean(axis=0)
        x, y = x - self.image_mean_, y - self.text_mean_
        white_x, white_y = _whitening(x, self.ridge), _whitening(y, self.ridge)
        left, strength, right = np.linalg.svd(white_x @ (x.T @ y / len(x)) @ white_y, full_matrices=False)
        kept = slice(0, min(self.dimensions, len(strength)))
        weight = np.sqrt(strength[kept])
        self.image_map_ = white_x @ left[:, kept] * weight
        self.text_map_ = white_y @ right[kept].T * weight
        self.key = hashlib.blake2b(self.image_map_.tobytes() + self.text_map_.tobytes(), digest_size=16).hexdigest()
        return self

    def encode_images(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        """(n, d) unit vectors of RGB images."""
        size = images[0].size
        return self.encode_arrays(np.stack([np.asarray(image.resize(size)) for image in images]))

    def encode_arrays(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(n, d) unit vectors of pictures (n, H, W, 3)."""
        return _unit((_coarse(images) - self.image_mean_) @ self.image_map_)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(m, d) unit vectors; words it has never seen count for nothing."""
        return _unit((self._counts([text.lower() for text in texts]) - self.text_mean_) @ self.text_map_)

    def _counts(self, texts: Sequence[str]) -> NDArray[np.float64]:
        place = {word: i for i, word in enumerate(self.words_)}
        counts = np.zeros((len(texts), len(place)))
        for row, text in enumerate(texts):
            for word in text.split():
                if word in place:
                    counts[row, place[word]] = 1.0
        return counts


def _coarse(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    n, height, width, _ = images.shape
    if height % GRID or width % GRID:
        raise InputError(f"pictures of {width} x {height} pixels cannot be brought to {GRID} x {GRID}")
    cells = images.reshape(n, GRID, height // GRID, GRID, width // GRID, 3)
    return np.asarray(cells.mean(axis=(2, 4)).reshape(n, -1) / 255.0)


def _whitening(values: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """The inverse square root of the covariance, held back where there is little variance."""
    covariance = values.T @ values / len(values)
    eigenvalues, vectors = np.linalg.eigh(covariance)
    damped = np.maximum(eigenvalues, 0) + ridge * covariance.trace() / len(covariance)
    return np.asarray((vectors / np.sqrt(damped)) @ vectors.T)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
