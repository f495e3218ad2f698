"""The demonstration's encoders: each looks at a picture once, however many audits ask about it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

    from equipoise.models.protocols import Encoder, Vectors

__all__ = ["Remembering"]


class Remembering:
    """An encoder that keeps the vectors of the pictures it has seen.

    The same pictures are audited, used to fit a repair, and audited again with and without it; encoding them is the
    costly part. Texts are few and not kept.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.name, self.key, self.logit_scale = encoder.name, encoder.key, encoder.logit_scale
        self._seen: dict[bytes, Vectors] = {}

    def encode_images(self, images: Sequence[Image.Image]) -> Vectors:
        """(n, d) unit vectors of n RGB images."""
        marks = [_mark(image) for image in images]
        new = {mark: image for mark, image in zip(marks, images, strict=True) if mark not in self._seen}
        if new:
            vectors = np.asarray(self.encoder.encode_images(list(new.values())))
            self._seen |= dict(zip(new, vectors, strict=True))
        return np.stack([self._seen[mark] for mark in marks])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """(m, d) unit vectors of m texts."""
        return self.encoder.encode_texts(texts)


def _mark(image: Image.Image) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16, key=repr((image.mode, image.size)).encode()).digest()
