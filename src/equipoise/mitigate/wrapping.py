"""A model with a remedy behind it, which audits like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Vectors
from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.keeping import fingerprint, load
from equipoise.mitigate.protocol import Queries, Remedy
from equipoise.models.protocols import Encoder, Precomputed

if TYPE_CHECKING:
    from PIL import Image

CHANGES = ("both", "images", "texts")
"""Whose vectors are changed; a remedy says itself which it is made for."""
_BATCH = 8192


def repaired(
    model: str | Encoder | Precomputed,
    remedy: Remedy | str | Path,
    *,
    changes: str | None = None,
    name: str | None = None,
    **options: Any,
) -> RepairedEncoder | RepairedVectors:
    """A model with a remedy behind it, which audits like any other.

    A remedy that was fitted on another model's vectors is refused, and so is one that changes rankings.

    Args:
        model: a model, or the name of one.
        remedy: a fitted remedy, or the folder where one is kept.
        changes: whose vectors are changed, ``both``, ``images`` or ``texts``; what the remedy is made for unless given.
        name: what results call it; the model's name and the remedy's with a plus between them unless given.
        **options: go to :func:`equipoise.models.load` where ``model`` is a name.

    Returns:
        The repaired model, with ``encode_images`` as an encoder has it, or ``image_vectors`` where vectors were
        computed before.
    """
    from equipoise.models import load as load_model

    if changes is not None and changes not in CHANGES:
        raise UnknownNameError("kind of vectors to change", changes, CHANGES)
    fitted = load(remedy) if isinstance(remedy, str | Path) else remedy
    opened = load_model(model, **options) if isinstance(model, str) else model
    if not hasattr(fitted, "transform"):
        raise InputError(
            f"the remedy {fitted.name!r} changes rankings, not vectors, so that it cannot stand behind a model; "
            "see its rerank, or equipoise tournament"
        )
    check_model(fitted, opened)
    label = name or f"{opened.name} + {fitted.name}"
    sides = changes or fitted.changes
    if isinstance(opened, Precomputed):
        return RepairedVectors(opened, fitted, sides, label)
    return RepairedEncoder(opened, fitted, sides, label)


def check_model(remedy: Remedy, model: Encoder | Precomputed) -> None:
    """Refuse a remedy that is not fitted, or was fitted on vectors of another model."""
    about = remedy.fitted_on
    if about is None:
        raise InputError(f"the remedy {remedy.name!r} is not fitted; call fit first")
    if about.key and about.key != model.key:
        raise InputError(
            f"the remedy was fitted on vectors of {about.model or about.key}, not of {model.name}; fit it on this model"
        )


class RepairedEncoder:
    """An encoder whose vectors a remedy has changed."""

    def __init__(self, encoder: Encoder, remedy: Remedy, changes: str, name: str) -> None:
        self.encoder, self.remedy, self.changes = encoder, remedy, changes
        self.name = name
        self.key = f"{encoder.key}+{fingerprint(remedy)}-{changes}"
        self.logit_scale = encoder.logit_scale

    def encode_images(self, images: Sequence[Image.Image]) -> Vectors:
        """(n, d) unit vectors of n RGB images."""
        return self.changed_images(self.encoder.encode_images(images))

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """(m, d) unit vectors of m texts."""
        return self.changed_texts(self.encoder.encode_texts(texts), texts)

    def changed_images(self, vectors: Vectors) -> Vectors:
        """The encoder's vectors of images, (n, d), as the remedy changes them: those in the cache serve as well."""
        return vectors if self.changes == "texts" else self.remedy.transform(vectors, "image")

    def changed_texts(self, vectors: Vectors, texts: Sequence[str] | None = None) -> Vectors:
        """The same for vectors of texts; a query-conditional remedy asks for the ``texts`` themselves too."""
        if self.changes == "images":
            return vectors
        return self.remedy.transform(vectors, "text", queries_of(self.remedy, texts, self.encoder.encode_texts))


class RepairedVectors:
    """The same for vectors computed before."""

    def __init__(self, vectors: Precomputed, remedy: Remedy, changes: str, name: str) -> None:
        self.vectors, self.remedy, self.changes = vectors, remedy, changes
        self.name = name
        self.key = f"{vectors.key}+{fingerprint(remedy)}-{changes}"

    def image_vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, d) vectors of the images with these ids."""
        vectors = self.vectors.image_vectors(ids)
        return vectors if self.changes == "texts" else self.remedy.transform(vectors, "image")

    def image_batches(self, ids: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
        """Places in ``ids`` (b,) and their vectors (b, d), batch after batch: memory holds one batch at a time."""
        for at, vectors in self._batches(ids):
            yield at, vectors if self.changes == "texts" else self.remedy.transform(vectors, "image")

    def _batches(self, ids: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
        if hasattr(self.vectors, "image_batches"):
            yield from self.vectors.image_batches(ids)
            return
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            yield np.arange(start, start + len(some)), np.asarray(self.vectors.image_vectors(some))

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """(m, d) vectors of these texts."""
        vectors = self.vectors.text_vectors(texts)
        if self.changes == "images":
            return vectors
        return self.remedy.transform(vectors, "text", queries_of(self.remedy, texts, None))


def queries_of(
    remedy: Remedy, texts: Sequence[str] | None, encode: Callable[[Sequence[str]], Vectors] | None
) -> Queries | None:
    """What is known of ``texts``; with an encoder also the vectors of the texts that ``remedy`` would name groups in.

    A remedy that wants those has ``naming(text)``, which gives the text once for each group, or nothing.
    """
    if texts is None:
        return None
    named = getattr(remedy, "naming", None)
    if encode is None or named is None:
        return Queries(list(texts))
    wanted = [list(named(text)) for text in texts]
    if not wanted or not wanted[0]:
        return Queries(list(texts))
    flat = [text for some in wanted for text in some]
    vectors = np.asarray(encode(flat))
    return Queries(list(texts), vectors.reshape(len(texts), len(wanted[0]), -1))
