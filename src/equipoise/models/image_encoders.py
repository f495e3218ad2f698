"""Encoders of images alone: DINO and other backbones of ``transformers``, for neighbours and distances of pictures.

A backbone is one :class:`Backbone` here (or in another package) and one line in
:data:`equipoise.models.families.FAMILIES`; ``hf:<repo or folder>`` loads it. Texts are refused: it knows no words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hugging_face import CheckpointAdapter, image_processor, stock_model
from equipoise.models.images import processed, rgb_images
from equipoise.models.protocols import Vectors
from equipoise.models.runtime import Settings, quiet

__all__ = ["Backbone", "ImageEncoder"]


@dataclass(frozen=True)
class Backbone:
    """How one family of backbones is loaded and read."""

    model_class: str
    """The class of ``transformers``."""
    pooled: bool = False
    """Read the pooled output; otherwise the first token after the last norm, as DINO's authors do."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """What to tell the class, such as not to make a pooling layer that most checkpoints have no weights for."""


_PLAIN = {"add_pooling_layer": False}
VIT = Backbone("ViTModel", parts=_PLAIN)
DEIT = Backbone("DeiTModel", parts=_PLAIN)
VIT_MSN = Backbone("ViTMSNModel")
DINOV2 = Backbone("Dinov2Model")
DINOV2_REGISTERS = Backbone("Dinov2WithRegistersModel")
DINOV3 = Backbone("DINOv3ViTModel")
SWIN = Backbone("SwinModel", pooled=True)
CONVNEXT = Backbone("ConvNextModel", pooled=True)
RESNET = Backbone("ResNetModel", pooled=True)


class ImageEncoder(CheckpointAdapter):
    """A backbone asked for unit vectors of images; see :class:`~equipoise.models.protocols.Encoder`."""

    kind = "encoder"
    logit_scale = 1.0
    reads_texts = False

    def __init__(self, checkpoint: Checkpoint, how: Backbone, *, name: str, settings: Settings | None = None) -> None:
        checkpoint.needs_images()
        super().__init__(checkpoint, name=name, settings=settings)
        with quiet():
            self.processor = image_processor(checkpoint)
            model = stock_model(checkpoint, how.model_class, **how.parts)
        self._how = how
        self._take(model, self.processor.to_dict(), how.pooled)

    def encode_images(self, images: Sequence[Any]) -> Vectors:
        """(n, d) unit vectors of n images: Pillow images, or 8-bit arrays (height, width, 3)."""
        made = self._unit_vectors(self._batch, rgb_images(images))
        return np.concatenate(made) if made else np.zeros((0, self.dim), np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Refused: the model knows no words."""
        raise InputError(
            f"{self.name} is a {self.family!r} model, which encodes images and no texts; for captions or prompts name "
            "a dual encoder, such as hf:openai/clip-vit-base-patch32"
        )

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.encode_images([np.zeros((8, 8, 3), np.uint8)]).shape[1])

    def _batch(self, images: Sequence[Any]) -> Any:
        pixels = processed(self.processor, images)["pixel_values"]
        found = self.model(**self._placed({"pixel_values": pixels}))
        return found.pooler_output.flatten(1) if self._how.pooled else found.last_hidden_state[:, 0]
