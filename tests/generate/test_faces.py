"""The face detector's adapter, against a stand-in for MediaPipe with the same interface."""

from __future__ import annotations

import gc
import os
import pickle
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.errors import InputError, MissingExtraError
from equipoise.models.faces import from_mediapipe
from equipoise.models.protocols import Detections, Detector


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    (tmp_path / "face.tflite").write_bytes(b"weights")
    return tmp_path / "face.tflite"


@pytest.fixture
def media(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """MediaPipe that finds two faces, one of them half beyond the edge, and one wholly; and what it was given."""
    given: list[Any] = []

    def face(x: int, y: int, width: int, height: int, score: float) -> Any:
        box = SimpleNamespace(origin_x=x, origin_y=y, width=width, height=height)
        return SimpleNamespace(bounding_box=box, categories=[SimpleNamespace(score=score)])

    class Found:
        @classmethod
        def create_from_options(cls, options: Any) -> Any:
            if Path(options.base_options.model_asset_path).read_bytes() != b"weights":
                raise RuntimeError("bad\nflatbuffer")
            given.append(options)
            return cls()

        def close(self) -> None:
            given.append("closed")

        def detect(self, image: Any) -> Any:
            given.append(image.data)
            return SimpleNamespace(
                detections=[face(30, 2, 20, 8, 0.6), face(4, 5, 10, 12, 0.9), face(90, 0, 5, 5, 0.8)]
            )

    module = ModuleType("mediapipe")
    module.Image = SimpleNamespace  # type: ignore[attr-defined]
    module.ImageFormat = SimpleNamespace(SRGB=1)  # type: ignore[attr-defined]
    module.tasks = SimpleNamespace(  # type: ignore[attr-defined]
        BaseOptions=SimpleNamespace,
        vision=SimpleNamespace(FaceDetector=Found, FaceDetectorOptions=SimpleNamespace),
    )
    monkeypatch.setitem(sys.modules, "mediapipe", module)
    return given


def test_boxes_are_corners_inside_the_image_the_surest_first(weights: Path, media: list[Any]) -> None:
    model = from_mediapipe(str(weights))
    assert isinstance(model, Detector)
    found = model.detect([Image.new("L", (40, 20))] * 2, threshold=0.4)
    assert len(found) == 2
    assert found[0].boxes.tolist() == [[4, 5, 14, 17], [30, 2, 40, 10]]
    assert found[0].scores.tolist() == pytest.approx([0.9, 0.6])
    assert found[0].labels == ("face", "face")
    assert media[0].min_detection_confidence == 0.4
    assert media[1].shape == (20, 40, 3)
    assert sum(hasattr(one, "base_options") for one in media) == 1, "opened once"
    assert pickle.loads(pickle.dumps(model)).key == model.key
    del model
    gc.collect()
    assert media[-1] == "closed"


def test_what_is_missing_is_said(weights: Path, media: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"download a \.tflite from https"):
        from_mediapipe("nowhere.tflite")
    weights.write_bytes(b"other")
    with pytest.raises(InputError, match="not a model of faces that MediaPipe can open: bad flatbuffer"):
        from_mediapipe(str(weights)).detect([Image.new("RGB", (9, 9))])
    monkeypatch.setitem(sys.modules, "mediapipe", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[faces\]'"):
        from_mediapipe(str(weights))


@pytest.mark.skipif(
    find_spec("mediapipe") is None or not os.environ.get("EQUIPOISE_FACE_MODEL"),
    reason="needs mediapipe, and the path of a .tflite of faces in EQUIPOISE_FACE_MODEL",
)
def test_faces_of_real_photographs_lie_on_people(shared_data: Path) -> None:
    """On COCO's photographs most faces that are found have their middle inside a person's box; toys have faces too."""
    import json

    folder = shared_data / "photos"
    if not folder.is_dir():
        pytest.skip("the COCO photographs are not on this machine")
    document = json.loads((folder / "annotations" / "instances_val2017.json").read_text())
    people = {c["id"] for c in document["categories"] if c["name"] == "person"}
    model = from_mediapipe(os.environ["EQUIPOISE_FACE_MODEL"])
    inside = []
    for image in document["images"]:
        photo = Image.open(folder / "val2017" / image["file_name"]).convert("RGB")
        boxes = [
            a["bbox"] for a in document["annotations"] if a["image_id"] == image["id"] and a["category_id"] in people
        ]
        for left, top, right, bottom in model.detect([photo])[0].boxes.tolist():
            x, y = (left + right) / 2, (top + bottom) / 2
            inside.append(any(bx <= x <= bx + w and by <= y <= by + h for bx, by, w, h in boxes))
    assert len(inside) >= 5
    assert sum(inside) > len(inside) / 2


def test_heads_serve_where_a_detector_knows_no_faces_and_are_no_objects() -> None:
    from equipoise.generate.mask import _found as blacked
    from equipoise.generate.swap import _found as faces

    class Heads:
        name, labels, part_of = "heads", ("person", "head", "dog"), {"head": "person"}

        def detect(self, images: list[Any]) -> list[Detections]:
            boxes = np.array([[0, 0, 4, 8], [1, 0, 3, 2], [5, 5, 8, 8]], np.float32)
            return [Detections(boxes, ("person", "head", "dog"), np.ones(3, np.float32))]

    photo = Image.new("RGB", (8, 8))
    assert faces(photo, Heads()) == [[1.0, 0.0, 2.0, 2.0]]
    objects = blacked({"what": "object", "by": "box"}, photo, Heads())
    assert objects[5:, 5:].all()
    assert objects.sum() == 9, "the dog alone"
    Heads.labels = ("person", "dog")
    with pytest.raises(InputError, match="face"):
        faces(photo, Heads())
