"""How many people are there, are they what the image shows, and can a face be seen?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.filters.detecting import PERSON_NAMES, is_face
from equipoise.filters.protocol import FilterVerdict, below, whole_sets
from equipoise.filters.remaining import RemainingImages
from equipoise.models.protocols import Detections

_IN_CROWD = 2
"""The fewest people that make a group."""


@dataclass(frozen=True)
class People:
    """An image stays if it shows so many people, people enough among its objects, and a face.

    GABInsight (arXiv 2407.21001) asks that people are at least 15% of the detected objects and a face is found
    (preset ``gab``); GenSynth takes images with exactly one person (preset ``gensynth``). A group that the annotations
    draw as one is at least two people and one of the objects: an image with one never has ``exactly`` so many.
    """

    exactly: int | None = None
    at_least: int | None = 1
    share_least: float | None = None
    """Persons among all detected objects."""
    face: bool = False
    """Whether a face must be found, by the run's detector of faces."""
    threshold: float = 0.5
    """How sure a detection must be."""
    person_labels: tuple[str, ...] = PERSON_NAMES
    whole_sets: bool = False
    """Whether a set goes with one of its images."""
    detector: str = ""
    faces: str = ""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "gab": {"share_least": 0.15, "face": True},
        "gensynth": {"exactly": 1},
    }

    def __post_init__(self) -> None:
        for name in ("exactly", "at_least"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InputError(f"{name} = {value}: give a number of persons, at least 0")

    @property
    def columns(self) -> tuple[str, ...]:
        """None of its own: what it needs depends on the detector."""
        return ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Detections, of faces too if asked."""
        return ("detections of people and objects", *(("a detector of faces",) if self.face else ()))

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Scores ``persons`` (those that are drawn one by one), ``person_share`` and ``faces``."""
        detections = remaining.detections(self.detector, threshold=self.threshold)
        persons, objects = counts_of(detections, self.person_labels, self.threshold)
        crowds = remaining.crowds(self.detector)
        share = np.divide(persons + crowds, objects + crowds, out=np.zeros_like(persons), where=objects + crowds > 0)
        share[np.isnan(persons)] = np.nan
        failed = np.isnan(persons)
        notes = [f"{int(failed.sum())} images could not be looked at"] if failed.any() else []
        if self.exactly is not None:
            failed |= (persons != self.exactly) | (crowds > 0)
        elif self.at_least is not None:
            failed |= below(persons + _IN_CROWD * crowds, self.at_least)
        scores: dict[str, Floats] = {"persons": persons, "person_share": share}
        if self.share_least is not None:
            failed |= below(share, self.share_least)
        if self.face:
            detector = self.faces or remaining.models.faces
            if not detector:
                raise InputError("a face is asked for, but no detector of faces is named; give one as faces")
            scores["faces"] = self._faces(remaining, detector)
            if not (scores["faces"] > 0).any():
                who = "the table annotates no face" if detector == "annotations" else f"{detector} found no face"
                notes.append(f"{who}, so every image fails; name another with --faces, or --set people.face=false")
            failed |= below(scores["faces"], 1)
        dropped = whole_sets(failed, remaining.sets) if self.whole_sets else failed
        return FilterVerdict(failed, dropped, scores, notes=notes)

    def _faces(self, remaining: RemainingImages, detector: Any) -> Floats:
        if detector not in ("annotations", "detections"):
            detector = remaining.face_detector(detector)
        detections = remaining.detections(detector, threshold=self.threshold)
        labels = {
            label for of_image in detections if of_image is not None for label in of_image.labels if is_face(label)
        }
        return counts_of(detections, tuple(labels), self.threshold)[0]


def counts_of(
    detections: list[Detections | None], person_labels: tuple[str, ...], threshold: float = 0.5
) -> tuple[Floats, Floats]:
    """(n,) persons and (n,) all objects that are at least so sure; NaN where an image could not be looked at.

    >>> one = Detections(np.zeros((3, 4)), ("person", "dog", "cat"), np.array([0.9, 0.8, 0.1]))
    >>> [values.tolist() for values in counts_of([one, None], ("person",))]
    [[1.0, nan], [2.0, nan]]
    """
    persons, objects = np.full(len(detections), np.nan), np.full(len(detections), np.nan)
    wanted = {label.casefold() for label in person_labels}
    for i, of_image in enumerate(detections):
        if of_image is not None:
            sure = [label for label, score in zip(of_image.labels, of_image.scores, strict=True) if score >= threshold]
            objects[i] = len(sure)
            persons[i] = sum(label.casefold() in wanted for label in sure)
    return persons, objects
