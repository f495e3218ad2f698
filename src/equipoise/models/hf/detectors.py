"""Detectors: boxes from models of the DETR family, and boxes and masks from semantic segmentation.

A segmentation model says what each pixel shows; each connected patch of one class is one thing.

Outlines of what a box shows, by SAM: ``hf:facebook/sam-vit-base`` as a detector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import CheckpointAdapter
from equipoise.models.images import MOST_PIXELS_AT_ONCE, pixels_of, rgb_images
from equipoise.models.protocols import Detections
from equipoise.models.runtime import ModelSettings, from_transformers, in_batches


class BoxSegmenter(CheckpointAdapter):
    """A SAM that is shown boxes (Kirillov et al., Segment Anything, ICCV 2023); it finds nothing by itself.

    See :class:`~equipoise.models.protocols.Outliner`.
    """

    labels = ()

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: ModelSettings | None = None) -> None:
        super().__init__(checkpoint, name=name, settings=settings)
        model = self._loaded("SamModel", images=True)
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
        with self._fitting(), torch.inference_mode():
            outlines = self.model(**given, multimask_output=False).pred_masks.float().cpu()
        sizes = inputs["original_sizes"], inputs["reshaped_input_sizes"]
        masks = self.processor.post_process_masks(outlines, *sizes)[0]
        return np.asarray(masks[:, 0].numpy(), dtype=bool)

    def detect(self, images: Sequence[Any], *, threshold: float = 0.5) -> NoReturn:
        """Refused: it must be shown boxes."""
        raise InputError(
            f"{self.name} outlines what is in a box and finds nothing by itself; name a detector, or use it where "
            "boxes are known (generate inpaint --by finder)"
        )


NOTHING = frozenset({"background", "unlabeled", "void", "n/a", "none"})
"""Labels that name nothing, in lower case."""
SMALLEST = 0.002
"""Patches below this share of the picture are specks."""


def detector(checkpoint: Checkpoint, *, name: str, **options: Any) -> Any:
    """The detector in a checkpoint folder: by boxes, by segmentation, or one that outlines boxes (SAM), as its
    ``model_type`` says.
    """
    from_transformers("AutoModelForObjectDetection")
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES,
        MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES,
    )

    if checkpoint.model_type == "sam":
        return BoxSegmenter.opened(checkpoint, name=name, **options)
    if checkpoint.model_type in MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES:
        return ObjectDetector.opened(checkpoint, name=name, **options)
    if checkpoint.model_type in MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES:
        return SegmentationDetector.opened(checkpoint, name=name, **options)
    raise InputError(
        f"{checkpoint.folder}: a {checkpoint.model_type!r} model, which neither detects objects nor segments images"
    )


class ObjectDetector(CheckpointAdapter):
    """A detector of the DETR family; see :class:`~equipoise.models.protocols.Detector`."""

    _model_class = "AutoModelForObjectDetection"
    _batching: tuple[str, ...] = ("pictures of one size",)
    """A part of the key: boxes that are kept from padded batches are not these."""

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: ModelSettings | None = None) -> None:
        super().__init__(checkpoint, name=name, settings=settings)
        model = self._loaded(self._model_class, images=True)
        self._names = {int(i): str(label) for i, label in model.config.id2label.items()}
        self.labels = tuple(label for label in self._names.values() if label.lower() not in NOTHING)
        self._take(model, self.processor.to_dict(), *self._batching)

    def detect(self, images: Sequence[Any], *, threshold: float = 0.5) -> list[Detections]:
        """What is in each image, the surest first: everything that it is at least ``threshold`` sure of."""
        if not 0 <= threshold <= 1:
            raise InputError(f"threshold={threshold!r} must be from 0 to 1")
        pictures = rgb_images(images)
        by_place: dict[int, Detections] = {}
        for places in _places_by_size(pictures):
            batches = in_batches(
                lambda batch: self._detected(batch, threshold),
                [pictures[place] for place in places],
                self.settings.batch_size,
                weight=pixels_of,
                most=MOST_PIXELS_AT_ONCE,
            )
            by_place |= zip(places, (detections for batch in batches for detections in batch), strict=True)
        return [by_place[place] for place in range(len(pictures))]

    def _outputs(self, images: Sequence[Any]) -> Any:
        import torch

        inputs = self.processor(images=list(images), return_tensors="pt")
        wanted = {name: value for name, value in inputs.items() if name in ("pixel_values", "pixel_mask")}
        with self._fitting(), torch.inference_mode():
            return self.model(**self._placed(wanted))

    def _detected(self, images: Sequence[Any], threshold: float) -> list[Detections]:
        sizes = [(image.height, image.width) for image in images]
        outputs = self._outputs(images)
        rows = self.processor.post_process_object_detection(outputs, threshold=threshold, target_sizes=sizes)
        return [self._row(row, size) for row, size in zip(rows, sizes, strict=True)]

    def _row(self, row: Any, size: tuple[int, int]) -> Detections:
        """One image's boxes inside the image, without those that name nothing."""
        height, width = size
        scores = row["scores"].float().cpu().numpy()
        boxes = row["boxes"].float().cpu().numpy().reshape(-1, 4)
        names = [self._names[int(i)] for i in row["labels"]]
        chosen = [i for i in np.argsort(-scores, kind="stable") if names[i].lower() not in NOTHING]
        inside = np.clip(boxes[chosen], 0, [width, height, width, height])
        return Detections(
            boxes=np.asarray(inside, dtype=np.float32).reshape(-1, 4),
            labels=tuple(names[i] for i in chosen),
            scores=np.asarray(scores[chosen], dtype=np.float32),
        )


class SegmentationDetector(ObjectDetector):
    """A semantic segmentation model as a detector: connected patches of one class, each with its box and mask.

    The score of a patch is the mean probability of its class in it. A pixel has one class, so a model whose classes
    hold a part of something says so in ``part_of`` of its config (``{"head": "person"}``): a person has its head then.
    """

    _model_class = "AutoModelForSemanticSegmentation"
    _batching = ()

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: ModelSettings | None = None) -> None:
        super().__init__(checkpoint, name=name, settings=settings)
        part_of = getattr(self.model.config, "part_of", None) or {}
        known = set(self._names.values())
        if not isinstance(part_of, dict) or not {*part_of, *map(str, part_of.values())} <= known:
            raise InputError(
                f"{checkpoint.folder}: part_of in config.json must name labels of the model for its labels"
            )
        self.part_of = {str(part): str(whole) for part, whole in part_of.items()}

    def _detected(self, images: Sequence[Any], threshold: float) -> list[Detections]:
        logits = self._outputs(images).logits.float()
        return [self._patches(row, image, threshold) for row, image in zip(logits, images, strict=True)]

    def _patches(self, logits: Any, image: Any, threshold: float) -> Detections:
        import torch

        size = (image.height, image.width)
        large = torch.nn.functional.interpolate(logits[None], size=size, mode="bilinear", align_corners=False)[0]
        shares = large.softmax(dim=0).cpu().numpy()
        classes = shares.argmax(axis=0)
        seen = {self._names[int(place)] for place in np.unique(classes)}
        patches = []
        for label in sorted(seen | {self.part_of[part] for part in seen & self.part_of.keys()}):
            if label.lower() not in NOTHING:
                places = [i for i, name in self._names.items() if label in (name, self.part_of.get(name))]
                share = shares[places].sum(axis=0)
                for mask in components(np.isin(classes, places)):
                    patches.append((float(share[mask].mean()), label, mask))
        patches = sorted((row for row in patches if row[0] >= threshold), key=lambda row: -row[0])
        return Detections(
            boxes=np.array([box_of(mask) for _, _, mask in patches], dtype=np.float32).reshape(-1, 4),
            labels=tuple(label for _, label, _ in patches),
            scores=np.array([score for score, _, _ in patches], dtype=np.float32),
            masks=np.array([mask for _, _, mask in patches], dtype=bool).reshape(-1, *size),
        )


def _places_by_size(pictures: Sequence[Any]) -> list[list[int]]:
    """The places of pictures of each size: one of another size in the same batch would be padded.

    Padding moves what is found: a YOLOS sees it as part of the picture, and a DETR's backbone does at the edge.
    """
    places: dict[tuple[int, int], list[int]] = {}
    for place, picture in enumerate(pictures):
        places.setdefault(picture.size, []).append(place)
    return list(places.values())


def components(mask: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """The connected patches of a mask (corners connect), without specks.

    >>> [int(patch.sum()) for patch in components(np.array([[1, 1, 0, 0], [0, 0, 0, 1]], bool))]
    [2, 1]
    """
    from scipy import ndimage

    numbered, n = ndimage.label(mask, structure=np.ones((3, 3)))
    patches = [numbered == i for i in range(1, n + 1)]
    return [patch for patch in patches if patch.sum() >= SMALLEST * mask.size]


def box_of(mask: NDArray[np.bool_]) -> tuple[float, float, float, float]:
    """Left, top, right and bottom edge of a mask that is not empty.

    >>> box_of(np.array([[0, 0, 0], [0, 1, 1]], bool))
    (1.0, 1.0, 3.0, 2.0)
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)
