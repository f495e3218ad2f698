"""A small world of counterfactual sets, encoders whose vectors are known, and a detector of coloured squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from equipoise.data import Table
from equipoise.models.protocols import Answers, Detections
from equipoise.world import preset, write_counterfactual_table

SUBJECTS = ("nurse", "chef", "farmer", "judge", "pilot")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What an earlier test run encoded must not answer for this one."""
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """30 sets of six pictures: five subjects, two genders by three skin tones."""
    path = tmp_path_factory.mktemp("filters") / "world"
    return write_counterfactual_table(path, preset("fair"), 6, subjects=SUBJECTS, size=32, seed=3)


@pytest.fixture(scope="session")
def fair_clip():
    from equipoise.models.miniatures import FOLDER

    if not (FOLDER / "clip-fair").is_dir():
        pytest.skip("the miniature clip-fair is not in this installation")
    pytest.importorskip("torch")
    from equipoise.models import load

    return load("mini:clip-fair")


def embeddings(path, ids, vectors, texts=(), text_vectors=()):
    """An embeddings table of images and texts."""
    rows = [
        {"id": name, "vector": np.asarray(vector, dtype=np.float32), "model": "test"}
        for name, vector in [*zip(ids, vectors, strict=True), *zip(texts, text_vectors, strict=True)]
    ]
    return Table.create(path, rows, kind="embeddings", dim=len(rows[0]["vector"]))


@pytest.fixture
def embedded(tmp_path):
    """``embedded(name, ids, vectors, texts, text_vectors)`` gives the spec ``table:<folder>``."""

    def make(name, *args):
        return f"table:{embeddings(tmp_path / name, *args).path}"

    return make


@pytest.fixture
def images(tmp_path):
    """``images(frame)`` gives a table without pictures, its axes gender and skin_tone where they are there."""

    def make(frame, name="images", **options):
        rows = frame.to_dict("records") if isinstance(frame, pd.DataFrame) else frame
        seen = {column for row in rows for column in row}
        axes = [axis for axis in ("gender", "skin_tone", "race", "physical") if axis in seen]
        return Table.create(tmp_path / name, rows, axes=axes, **options)

    return make


@dataclass(frozen=True)
class SquareDetector:
    """Finds red squares (``labels[0]``) and blue ones: as many as there are pixels of that colour, at most 3."""

    labels: tuple[str, ...] = ("person", "dog")
    name: str = "squares"

    @property
    def key(self):
        return f"squares {self.labels}"

    def detect(self, images, *, threshold=0.5):
        found = []
        for image in images:
            pixels = np.asarray(image)
            boxes, labels = [], []
            for label, channel in zip(self.labels, (0, 2), strict=True):
                mask = (pixels[..., channel] > 200) & (np.delete(pixels, channel, axis=2).max(axis=2) < 50)
                for y, x in list(zip(*np.nonzero(mask), strict=True))[:3]:
                    boxes.append([x, y, x + 1, y + 1])
                    labels.append(label)
            made = np.array(boxes, dtype=np.float32).reshape(-1, 4)
            found.append(Detections(made, tuple(labels), np.ones(len(labels), dtype=np.float32)))
        return found


@dataclass(frozen=True)
class MagentaClassifier:
    """Calls an image unsafe if it has the magenta of the world's sign for unsafe content."""

    name: str = "magenta"
    key: str = "magenta 1"

    def classify(self, images):
        share = []
        for image in images:
            p = np.asarray(image).astype(int)
            share.append((np.abs(p - (255, 0, 200)).max(axis=2) < 12).mean())
        unsafe = np.minimum(1.0, np.array(share, dtype=np.float32) * 400)
        return {"label": Answers(("normal", "nsfw"), np.stack([1 - unsafe, unsafe], axis=1))}


@pytest.fixture
def detector():
    return SquareDetector()


@pytest.fixture
def face_detector():
    """Red squares are faces to it, and blue ones are none."""
    return SquareDetector(("face", "dog"))


@pytest.fixture
def magenta():
    return MagentaClassifier()
