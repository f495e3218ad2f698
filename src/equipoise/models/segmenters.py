"""Outlines of what a box shows, by SAM: ``hf:facebook/sam-vit-base`` as a detector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hugging_face import CheckpointAdapter, image_processor, stock_model
from equipoise.models.images import rgb_images
from equipoise.models.runtime import Settings, quiet

__all__ = ["BoxSegmenter"]


class BoxSegmenter(CheckpointAdapter):
    """A SAM that is shown boxes (Kirillov et al., Segment Anything, ICCV 2023); it finds nothing by itself.

    See :class:`~equipoise.models.protocols.Outliner`.
    """

    kind = "detector"
    labels = ()

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: Settings | None = None) -> None:
        checkpoint.needs_images()
        super().__init__(checkpoint, name=name, settings=settings)
        with quiet():
            self.processor = image_processor(checkpoint)
            model = stock_model(checkpoint, "SamModel")
        self._take(model, self.processor.to_dict())

    def outline(self, image: Any, boxes: Sequence[Sequence[float]]) -> NDArray[np.bool_]:
        """(k, height, width): what is in each of k boxes (left, top, right, bottom in pixels of the image)."""
        import torch

        picture = rgb_images([image])[0]
        if not len(boxes):
            return np.zeros((0, picture.height, picture.width), dtype=bool)
        inputs = self.processor(images=[picture], return_tensors="pt")
        height, width = (int(side) for side in inputs["reshaped_input_sizes"][0])
        scale = [width / picture.width, height / picture.height] * 2
        asked = torch.tensor([[[v * s for v, s in zip(box, scale, strict=True)] for box in boxes]])
        given = self._placed({"pixel_values": inputs["pixel_values"], "input_boxes": asked.float()})
        with torch.inference_mode():
            found = self.model(**given, multimask_output=False).pred_masks.float().cpu()
        sizes = inputs["original_sizes"], inputs["reshaped_input_sizes"]
        masks = self.processor.post_process_masks(found, *sizes)[0]
        return np.asarray(masks[:, 0].numpy(), dtype=bool)

    def detect(self, images: Sequence[Any], *, threshold: float = 0.5) -> NoReturn:
        """Refused: it must be shown boxes."""
        raise InputError(
            f"{self.name} outlines what is in a box and finds nothing by itself; name a detector, or use it where "
            "boxes are known (generate inpaint --by finder)"
        )
