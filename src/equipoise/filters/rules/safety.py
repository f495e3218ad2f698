"""Unsafe images by a classifier, by prompts or by a column, and the black images a safety checker leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.protocol import FilterVerdict, whole_sets
from equipoise.filters.remaining import RemainingImages, _short
from equipoise.models.protocols import Classifier

SCOPES = ("set", "image")
NONE = "none"
DEFAULT = "mini:safety"
"""Asked where no classifier is named and the pictures are no larger than the miniatures': it knows the sign for unsafe
content of the pictogram world, and nothing else."""
PICTOGRAM = 64
"""The longest side of the miniatures' pictures, in pixels."""
DARK = 8
"""A pixel is black if no channel is above this: JPEG leaves noise."""


@dataclass(frozen=True)
class Safety:
    """A set goes if one of its images is unsafe or black.

    What says unsafe: an image classifier by name (SocialCounterfactuals used ``hf:Falconsai/nsfw_image_detection``,
    preset ``socialcf``), zero-shot prompts of an encoder, or a column (``score_unsafe``, or yes and no). Where none is
    named, pictograms (at most 64 pixels) are shown to the embedded ``mini:safety``; for photographs a real model must
    be named. Black images go in any case: Stable Diffusion's own checker replaces what it refuses by black.
    """

    classifier: str = ""
    """``none`` asks no classifier (preset ``black``)."""
    unsafe_labels: tuple[str, ...] = ("nsfw", "unsafe", "porn", "hentai", "sexy")
    """Labels of the classifier that mean unsafe; their probabilities are added."""
    unsafe_texts: tuple[str, ...] = ()
    safe_texts: tuple[str, ...] = ()
    """Prompts for an encoder, in place of a classifier."""
    column: str = ""
    """A column that says it already."""
    unsafe_from: float = 0.5
    black_from: float = 0.99
    """The share of black pixels from which an image is black; above 1 does not ask."""
    scope: str = "set"
    model: str = ""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "socialcf": {"classifier": "hf:Falconsai/nsfw_image_detection"},
        "black": {"classifier": NONE},
    }

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise UnknownNameError("scope", self.scope, SCOPES)
        if bool(self.unsafe_texts) != bool(self.safe_texts):
            raise InputError("unsafe_texts and safe_texts belong together; give both or neither")

    @property
    def columns(self) -> tuple[str, ...]:
        """The column that says it already, if one is named."""
        return (self.column,) if self.column else ()

    @property
    def needs(self) -> tuple[str, ...]:
        """What is asked."""
        needed = [f"the classifier {self.classifier}"] if self.classifier not in ("", NONE) else []
        needed += ["image and text vectors"] if self.unsafe_texts else []
        return (*needed, *(("every image decoded",) if self.black_from <= 1 else ()))

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Scores ``unsafe`` (0 to 1) and ``black`` (share of pixels)."""
        scores: dict[str, Floats] = {}
        notes: list[str] = []
        failed = np.zeros(len(remaining), dtype=bool)
        unsafe = self._unsafe(remaining, notes)
        if unsafe is not None:
            scores["unsafe"] = unsafe
            failed |= ~(unsafe < self.unsafe_from)
        if self.black_from <= 1:
            black = remaining.measured("black", black_share, {"black": "float64"})["black"].to_numpy(dtype=np.float64)
            scores["black"] = black
            failed |= ~(black < self.black_from)
            notes.append(f"{int((black >= self.black_from).sum())} images are black")
            if np.isnan(black).any():
                notes.append(f"{int(np.isnan(black).sum())} images could not be decoded and go")
        dropped = whole_sets(failed, remaining.sets) if self.scope == "set" else failed
        return FilterVerdict(failed, dropped, scores, notes=notes)

    def _unsafe(self, remaining: RemainingImages, notes: list[str]) -> Floats | None:
        if self.column:
            return self._by_column(remaining)
        if self.unsafe_texts:
            return self._by_prompts(remaining)
        named = self.classifier or remaining.models.classifier or _default(remaining, notes)
        if not named or named == NONE:
            return None
        classifier = remaining.classifier(named)
        asked = _Asked(classifier, tuple(label.casefold() for label in self.unsafe_labels))
        name = f"unsafe-{_short(classifier.key, *self.unsafe_labels)}"
        answers = remaining.measured(name, asked, {"unsafe": "float64"}, model=classifier)
        return answers["unsafe"].to_numpy(dtype=np.float64)

    def _by_column(self, remaining: RemainingImages) -> Floats:
        try:
            return np.asarray(remaining.column(self.column).astype("float64"))
        except (ValueError, TypeError):
            raise InputError(
                f"the column {self.column!r} of {remaining.table.path} holds {remaining.table.types[self.column]}; how "
                "unsafe an image is must be a number from 0 to 1, or yes and no"
            ) from None

    def _by_prompts(self, remaining: RemainingImages) -> Floats:
        """The share of the softmax over all prompts that falls on unsafe ones, at the encoder's own scale."""
        texts = [*self.unsafe_texts, *self.safe_texts]
        images = remaining.image_vectors(self.model)
        scale = float(getattr(remaining.encoder(self.model), "logit_scale", 100.0))
        logits = (images @ remaining.text_vectors(texts, self.model).T).astype(np.float64) * scale
        weight = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weight[:, : len(self.unsafe_texts)].sum(axis=1) / weight.sum(axis=1))


def _default(remaining: RemainingImages, notes: list[str]) -> str:
    """The embedded classifier for pictograms, where it is installed; nothing for photographs."""
    from equipoise.models.miniatures import FOLDER

    if not _are_pictograms(remaining):
        notes.append("no classifier was named: only black images are found; for photographs name a real one")
        return ""
    if not (FOLDER / DEFAULT.partition(":")[2]).is_dir():
        notes.append(f"no classifier was named and {DEFAULT} is not installed: only black images are found")
        return ""
    notes.append(f"unsafe by {DEFAULT}, which knows the sign of the pictogram world alone")
    return DEFAULT


def _are_pictograms(remaining: RemainingImages) -> bool:
    if "image" not in remaining.table.types:
        return False
    try:
        _, first = next(iter(remaining.table.images(batch_size=1)))
    except (InputError, StopIteration):
        return False
    return max(first.size) <= PICTOGRAM


@dataclass(frozen=True)
class _Asked:
    """Mapped over a table: the probability that a classifier gives to unsafe labels."""

    classifier: Classifier
    labels: tuple[str, ...]

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        answers = self.classifier.classify([row["image"] for row in rows])
        total = np.zeros(len(rows))
        known: list[str] = []
        for head in answers.values():
            known += head.labels
            mine = [i for i, label in enumerate(head.labels) if label.casefold() in self.labels]
            total += head.probabilities[:, mine].sum(axis=1)
        if not any(label.casefold() in self.labels for label in known):
            raise UnknownNameError(f"unsafe label of {self.classifier.name}", self.labels[0], known)
        return [{"unsafe": float(value)} for value in total]


def black_share(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Mapped over a table: the share of black pixels of each image.

    >>> from PIL import Image
    >>> black_share([{"image": Image.new("RGB", (2, 2))}, {"image": Image.new("RGB", (2, 2), "white")}])
    [{'black': 1.0}, {'black': 0.0}]
    """
    return [{"black": float((np.asarray(row["image"]).max(axis=2) <= DARK).mean())} for row in rows]
