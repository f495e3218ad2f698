"""Faces in images by MediaPipe: ``mediapipe:<file.tflite>``.

MediaPipe comes without weights. Download ``blaze_face_short_range.tflite`` (or a full-range one) from
https://ai.google.dev/edge/mediapipe/solutions/vision/face_detector once; nothing touches the network after that. The
wheels of its versions 0.10 hold such files in ``mediapipe/modules/face_detection``; newer versions open them.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equipoise.errors import InputError, MissingExtraError, one_line
from equipoise.models.images import rgb_images
from equipoise.models.protocols import Detections

SOURCE = "https://ai.google.dev/edge/mediapipe/solutions/vision/face_detector"


class FaceDetector:
    """A :class:`~equipoise.models.protocols.Detector` of faces."""

    labels = ("face",)

    def __init__(self, file: str | Path, *, name: str = "") -> None:
        self.file = Path(file)
        if not self.file.is_file():
            raise InputError(f"{file}: there is no such model of faces; download a .tflite from {SOURCE}")
        self.name = name or f"mediapipe:{file}"
        self.key = "mediapipe-" + hashlib.sha256(self.file.read_bytes()).hexdigest()[:16]
        self._made: dict[float, Any] = {}
        _mediapipe()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": {}}

    def detect(self, images: Sequence[Image.Image], *, threshold: float = 0.5) -> list[Detections]:
        """The faces in each image that are at least as sure as ``threshold``, the surest first."""
        media = _mediapipe()
        detections = []
        for image in rgb_images(images):
            pixels = np.ascontiguousarray(np.asarray(image))
            seen = self._at(threshold).detect(media.Image(image_format=media.ImageFormat.SRGB, data=pixels))
            detections.append(_detections(seen.detections, *image.size))
        return detections

    def _at(self, threshold: float) -> Any:
        if threshold not in self._made:
            tasks = _mediapipe().tasks
            options = tasks.vision.FaceDetectorOptions(
                base_options=tasks.BaseOptions(model_asset_path=str(self.file)), min_detection_confidence=threshold
            )
            try:
                detector = tasks.vision.FaceDetector.create_from_options(options)
            except (RuntimeError, ValueError) as error:
                reason = one_line(error, 200)
                raise InputError(f"{self.file} is not a model of faces that MediaPipe can open: {reason}") from error
            # Not at the interpreter's end, when MediaPipe's own threads are gone already.
            weakref.finalize(self, detector.close).atexit = False
            self._made[threshold] = detector
        return self._made[threshold]


def _detections(faces: Sequence[Any], width: int, height: int) -> Detections:
    boxes, scores = [], []
    for face in sorted(faces, key=lambda face: -face.categories[0].score):
        box = face.bounding_box
        left, top = max(0, box.origin_x), max(0, box.origin_y)
        right, bottom = min(width, box.origin_x + box.width), min(height, box.origin_y + box.height)
        if left < right and top < bottom:  # a face may be guessed beyond the edge
            boxes.append([left, top, right, bottom])
            scores.append(face.categories[0].score)
    shaped = np.asarray(boxes, np.float32).reshape(-1, 4)
    return Detections(shaped, ("face",) * len(boxes), np.asarray(scores, np.float32))


def _mediapipe() -> Any:
    try:
        import mediapipe  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError as error:
        raise MissingExtraError("finding faces", "faces") from error
    return mediapipe


def from_mediapipe(
    rest: str,
    *,
    kind: str = "detector",
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int | None = None,
    allow_pickle: bool = False,
) -> FaceDetector:
    """The detector of ``mediapipe:<file>``; it runs on the CPU, so the options do not matter."""
    return FaceDetector(rest, name=f"mediapipe:{rest}")
