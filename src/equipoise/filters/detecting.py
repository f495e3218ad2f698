"""Detections from annotations, from JSON and from detectors; and vectors of person crops."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.data import Table
from equipoise.data.people import people_of
from equipoise.engine.answers import AnswerStore, default_answer_root
from equipoise.errors import InputError, UnknownNameError
from equipoise.models.protocols import Detections, Detector, Encoder

if TYPE_CHECKING:
    from PIL import Image

PERSON = "person"
PERSON_NAMES = (PERSON, "man", "woman", "people", "boy", "girl")
"""Labels that mean a person."""
FACE = "face"


def as_json(detections: Detections) -> str:
    """A cell of the column ``detections``: boxes (left, top, right, bottom in pixels), labels and scores.

    >>> as_json(Detections(np.float32([[0, 0, 2, 3]]), ("dog",), np.float32([0.5])))
    '[{"box": [0.0, 0.0, 2.0, 3.0], "label": "dog", "score": 0.5}]'
    """
    rows = [
        {"box": [float(v) for v in box], "label": label, "score": float(score)}
        for box, label, score in zip(detections.boxes, detections.labels, detections.scores, strict=True)
    ]
    return json.dumps(rows)


def from_json(cell: Any) -> Detections | None:
    """What a cell of the column ``detections`` says; ``None`` if it is empty.

    >>> from_json('[{"box": [0, 0, 2, 3], "label": "dog", "score": 0.5}]').labels
    ('dog',)
    """
    if not isinstance(cell, str):
        return None
    try:
        rows = json.loads(cell)
        boxes = np.array([row["box"] for row in rows], dtype=np.float32).reshape(-1, 4)
        labels = tuple(str(row["label"]) for row in rows)
        return Detections(boxes, labels, np.array([row.get("score", 1.0) for row in rows], dtype=np.float32))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"the column 'detections' holds {cell[:60]!r}; a list of objects with box, label and score is expected"
        ) from error


def sure(detections: Detections | None, threshold: float) -> Detections | None:
    """Those of the detections that have at least this score.

    >>> both = Detections(np.zeros((2, 4)), ("dog", "cat"), np.array([0.9, 0.1]))
    >>> sure(both, 0.5).labels
    ('dog',)
    """
    if detections is None:
        return None
    at = np.flatnonzero(detections.scores >= threshold)
    return Detections(detections.boxes[at], tuple(detections.labels[i] for i in at), detections.scores[at])


def is_face(label: str) -> bool:
    """Whether a detector's label means a face.

    >>> is_face("face"), is_face("Human face"), is_face("person")
    (True, True, False)
    """
    return FACE in label.casefold().split()


def check_finds_faces(detector: Any) -> None:
    """Refuse a detector of other things: every box of a detector of people would count as a face."""
    labels = tuple(getattr(detector, "labels", ()))
    if labels and not any(map(is_face, labels)):
        raise UnknownNameError(f"label of {detector.name}", FACE, labels)


def from_annotations(table: Table, column: Callable[[str], Iterable[Any]], n_images: int) -> list[Detections | None]:
    """The people and objects that the table itself names, surest first because all are sure.

    ``column`` gives the cells of a column for the ``n_images`` images that are looked at.
    """
    if "people" not in table.types and "objects" not in table.types:
        raise InputError(
            f"{table.path} has neither the column 'people' nor 'objects'; name a detector, or add the column "
            "'detections' as a layer"
        )
    cells = [
        column(name) if name in table.types else [None] * n_images for name in ("people", "object_boxes", "objects")
    ]
    return [_annotated(*of_image) for of_image in zip(*cells, strict=True)]


def _annotated(people: Any, things: Any, names: Any) -> Detections | None:
    """What three cells name; ``None`` where all are empty, for then nobody looked. An empty list says that none is.

    Groups drawn as one are left out: how many there are is unknown (:func:`n_crowds` counts the groups).
    """
    if not isinstance(people, str) and not isinstance(things, str) and (names is None or isinstance(names, float)):
        return None
    boxes: list[list[float]] = []
    labels: list[str] = []
    for person in people_of(people if isinstance(people, str) else None):
        if not person.get("iscrowd"):
            boxes.append(_corners(person.get("box")))
            labels.append(PERSON)
    boxed = json.loads(things) if isinstance(things, str) else []
    for thing in boxed:
        if not thing.get("iscrowd"):
            boxes.append(_corners(thing.get("box")))
            labels.append(str(thing["name"]))
    if names is not None and not isinstance(names, float):
        # Objects known by name alone: what is there, though not where. The list of people, if there is one, is whole.
        known = {name.casefold() for name in (*labels, *(PERSON_NAMES if isinstance(people, str) else ()))}
        for name in sorted({str(name) for name in names}):
            if name.casefold() not in known:
                boxes.append([0.0] * 4)
                labels.append(name)
    return Detections(
        np.array(boxes, dtype=np.float32).reshape(-1, 4), tuple(labels), np.ones(len(labels), dtype=np.float32)
    )


def n_crowds(cell: Any) -> int:
    """How many groups of people, each drawn as one, a cell of ``people`` names.

    >>> n_crowds('[{"box": [0, 0, 2, 3], "iscrowd": true}, {"box": [1, 1, 4, 9]}]')
    1
    """
    return sum(bool(person.get("iscrowd")) for person in people_of(cell if isinstance(cell, str) else None))


def _corners(box: Any) -> list[float]:
    if not box:
        return [0.0] * 4
    x, y, width, height = (float(v) for v in box)
    return [x, y, x + width, y + height]


def largest_person(cell: Any, size: tuple[int, int]) -> tuple[int, int, int, int] | None:
    """The box (left, top, right, bottom) of the largest person of a cell of ``people``, inside the image.

    >>> largest_person('[{"box": [0, 0, 2, 3]}, {"box": [1, 1, 4, 9]}]', (5, 8))
    (1, 1, 5, 8)
    """
    width, height = size
    best: tuple[float, tuple[int, int, int, int]] | None = None
    for person in people_of(cell if isinstance(cell, str) else None):
        if not person.get("box") or person.get("iscrowd"):
            continue
        left, top, right, bottom = _corners(person["box"])
        if person.get("unit") == "fraction":
            left, right, top, bottom = left * width, right * width, top * height, bottom * height
        box = (max(0, int(left)), max(0, int(top)), min(width, int(np.ceil(right))), min(height, int(np.ceil(bottom))))
        area = (box[2] - box[0]) * (box[3] - box[1])
        if box[2] > box[0] and box[3] > box[1] and (best is None or area > best[0]):
            best = (area, box)
    return None if best is None else best[1]


@dataclass(frozen=True)
class PersonVectors:
    """Mapped over a table: the vector of the largest person of each image, of the whole image where none is known."""

    encoder: Encoder

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        """One row of an embeddings table for each image."""
        crops = [self._crop(row) for row in rows]
        vectors = np.asarray(self.encoder.encode_images(crops), dtype=np.float32)
        return [{"vector": vector, "model": self.encoder.key} for vector in vectors]

    def _crop(self, row: dict[str, Any]) -> Image.Image:
        image: Image.Image = row["image"]
        box = person_in(row.get("people"), row.get("detections"), image.size)
        return image if box is None else image.crop(box)


def person_in(people: Any, detections: Any, size: tuple[int, int]) -> tuple[int, int, int, int] | None:
    """The box of the largest person by a cell of ``people``, or else by one of ``detections``."""
    return largest_person(people, size) or _detected_person(detections, size)


def _detected_person(cell: Any, size: tuple[int, int]) -> tuple[int, int, int, int] | None:
    detections = from_json(cell)
    if detections is None:
        return None
    people = [
        {"box": [box[0], box[1], box[2] - box[0], box[3] - box[1]]}
        for box, label in zip(detections.boxes.tolist(), detections.labels, strict=True)
        if label == PERSON
    ]
    return largest_person(json.dumps(people), size)


@dataclass(frozen=True)
class _Looked:
    detector: Detector
    threshold: float
    store: AnswerStore | None = field(default=None, compare=False)  # what is kept does not change the result

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        images = [row["image"] for row in rows]
        cells = self._found(images) if self.store is None else self.store.answers(images, self._found)
        return [{"detections": cell} for cell in cells]

    def _found(self, images: list[Any]) -> list[str]:
        return [as_json(detections) for detections in self.detector.detect(images, threshold=self.threshold)]


def looked_at(detector: Detector, threshold: float, *, cache: bool = False) -> Callable[..., Any]:
    """The function that is mapped over a table to fill the column ``detections``.

    ``cache``: what the detector found is kept by image, and not asked for again in another run.
    """
    kept = cache and bool(detector.key)
    store = AnswerStore(default_answer_root().absolute(), f"{detector.key} detections from {threshold:g}")
    return _Looked(detector, threshold, store if kept else None)
