"""Are faces, or people, sharp? The variance of the Laplacian of the crop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import ndimage

from equipoise.array_types import Floats
from equipoise.errors import UnknownNameError
from equipoise.filters.detecting import is_face, person_in
from equipoise.filters.protocol import FilterVerdict, below, whole_sets
from equipoise.filters.remaining import RemainingImages, _short
from equipoise.filters.thresholds import EXPECTED, columns_for, compared, mean_rows
from equipoise.measure.groups import Groups

SIDE = 112
"""Crops are brought to this width, or a larger face would count as sharper."""
WHAT = ("face", "person", "image")


@dataclass(frozen=True)
class Sharpness:
    """An image goes if its largest face (or person, or all of it) is blurred.

    The variance of the Laplacian of grey values from 0 to 1, on a crop of 112 pixels' width (Pech-Pacheco 2000). There
    is no limit that suits all images: look at the scores of yours first (``least = none``). The mean of each group,
    and the gap against chance, are among the results, by the axes or by what ``by`` names (``expected``: expected
    against unexpected scenes, preset ``gab``).
    """

    least: float | None = None
    of: str = "person"
    """``face`` (by the run's detector of faces), ``person`` (by the annotations or detections), or ``image``."""
    whole_sets: bool = False
    faces: str = ""
    by: tuple[str, ...] = ()
    draws: int = 199

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"gab": {"of": "face", "by": (EXPECTED,)}}

    def __post_init__(self) -> None:
        if self.of not in WHAT:
            raise UnknownNameError("thing to be sharp", self.of, WHAT)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are compared."""
        return columns_for(self.by)

    @property
    def needs(self) -> tuple[str, ...]:
        """Pixels."""
        return ("every image decoded", *(("a detector of faces",) if self.of == "face" else ()))

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Score ``sharpness``; an image without the thing itself has none and stays, one that is broken goes."""
        reads = [name for name in ("people", "detections") if name in remaining.table.types and self.of == "person"]
        detector: Any = None
        if self.of == "face":
            detector = remaining.face_detector(self.faces)
        measured = remaining.measured(
            f"sharpness-{self.of}-{_short(getattr(detector, 'key', ''))}",
            _Measured(self.of, detector),
            {"sharpness": "float64", "read": "bool"},
            reads=reads,
        )
        values: Floats = measured["sharpness"].to_numpy(dtype=np.float64)
        broken = measured["read"].isna().to_numpy()
        without = np.isnan(values) & ~broken
        failed = below(values, self.least) & ~without
        dropped = whole_sets(failed, remaining.sets) if self.whole_sets else failed
        notes = [f"no {self.of} was found in {int(without.sum())} images, which stay"] if without.any() else []
        if broken.any():
            becomes = "stay, since no limit is set" if self.least is None else "go"
            notes.append(f"{int(broken.sum())} images could not be decoded and {becomes}")
        return FilterVerdict(
            failed, dropped, {"sharpness": values}, notes=notes, rows=list(self._by_group(remaining, values))
        )

    def _by_group(self, remaining: RemainingImages, values: Floats) -> Iterator[dict[str, Any]]:
        seen = np.isfinite(values)
        for axis, groups in compared(remaining, self.by):
            there = Groups(groups.labels[seen], groups.names, axis)
            if (there.counts() > 0).sum() > 1:
                yield from mean_rows(
                    "sharpness",
                    values[seen],
                    there,
                    variant=self.of,
                    draws=self.draws,
                    seed=remaining.seed,
                    sets=remaining.sets[seen],
                )


def sharpness_of(image: Any) -> float:
    """The variance of the Laplacian of an image brought to 112 pixels' width, grey from 0 to 1.

    >>> from PIL import Image
    >>> sharpness_of(Image.new("RGB", (40, 60), "grey"))
    0.0
    """
    from PIL import Image

    height = max(3, round(image.height * SIDE / image.width))
    grey = image.convert("L").convert("F").resize((SIDE, height), Image.Resampling.BILINEAR)
    return float(ndimage.laplace(np.asarray(grey, dtype=np.float64) / 255).var())


@dataclass(frozen=True)
class _Measured:
    of: str
    detector: Any = None

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        boxes = [_person(row) for row in rows] if self.of == "person" else self._faces(rows)
        return [
            {"sharpness": None if box is None else sharpness_of(row["image"].crop(box)), "read": True}
            for row, box in zip(rows, boxes, strict=True)
        ]

    def _faces(self, rows: list[dict[str, Any]]) -> list[Any]:
        images = [row["image"] for row in rows]
        if self.of == "image":
            return [(0, 0, *image.size) for image in images]
        return [
            _largest(detections.boxes[[is_face(label) for label in detections.labels]], image.size)
            for detections, image in zip(self.detector.detect(images), images, strict=True)
        ]


def _person(row: dict[str, Any]) -> Any:
    return person_in(row.get("people"), row.get("detections"), row["image"].size)


def _largest(boxes: Any, size: tuple[int, int]) -> tuple[int, int, int, int] | None:
    if not len(boxes):
        return None
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left, top, right, bottom = boxes[int(np.argmax(areas))].tolist()
    box = (max(0, int(left)), max(0, int(top)), min(size[0], int(np.ceil(right))), min(size[1], int(np.ceil(bottom))))
    return box if box[2] > box[0] and box[3] > box[1] else None
