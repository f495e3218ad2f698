"""A model with a remedy behind it, which audits like any other.

A fitted remedy in a folder: settings and what it was fitted on as JSON, arrays as plain numpy, never pickle.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Vectors
from equipoise.data.atomic import write_whole
from equipoise.data.runs import RUN, RunFolder, claimed, read_run
from equipoise.data.settings import fitting_all
from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.protocol import REMEDIES, FittedOn, Remedy
from equipoise.models.protocols import Encoder, Precomputed

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "ARRAYS",
    "CHANGES",
    "RepairedEncoder",
    "RepairedVectors",
    "fingerprint",
    "load",
    "publish",
    "repaired",
    "save",
]


ARRAYS = "arrays.npz"


def save(remedy: Remedy, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Keep a fitted ``remedy`` in ``folder`` (new, empty, or that of a remedy, which it replaces)."""
    if remedy.fitted_on is None:
        raise InputError(f"the remedy {remedy.name!r} is not fitted; call fit before it is kept")
    if remedy.name not in REMEDIES:
        raise InputError(f"the remedy {remedy.name!r} is not registered, so that it could not be loaded again")
    of = {"remedy": remedy.name}
    with claimed(folder, "remedy", of=of, settings=remedy.settings(), overwrite=overwrite) as home:
        publish(remedy, home)
    return home.folder


def publish(remedy: Remedy, home: RunFolder) -> None:
    """Put a fitted remedy into its folder, with whatever else lies on the stage."""
    assert remedy.fitted_on is not None
    arrays = _packed(remedy)
    write_whole(home.stage / ARRAYS, arrays)
    home.publish(fitted_on=remedy.fitted_on.plain(), arrays=hashlib.sha256(arrays).hexdigest())


def load(folder: str | Path) -> Remedy:
    """The remedy that was kept in ``folder``; a missing or damaged file is refused in one sentence."""
    home = Path(folder)
    try:
        run = read_run(home, "remedy")
    except InputError as error:
        if home.is_dir() and "is missing" not in str(error):
            raise
        raise InputError(f"{home}: no remedy here ({RUN} is missing); fit one with: equipoise mitigate") from None
    try:
        name = run.of.get("remedy") or run.about["remedy"]  # an older folder says so at the top
        fitted_on, digest = FittedOn.from_plain(run.about["fitted_on"]), run.about["arrays"]
        made = REMEDIES.load(name)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{home / run.file}: damaged or cut short; fit the remedy again") from None
    settings = fitting_all(made, run.settings, what=f"setting of the remedy {name}", label=name)
    remedy: Remedy = made(**settings)
    return remedy.restore(_unpacked(home / ARRAYS, digest), fitted_on)


def fingerprint(remedy: Remedy) -> str:
    """What decides a remedy's answers, hashed: its name, settings and arrays.

    >>> from equipoise.mitigate import Projection
    >>> len(fingerprint(Projection().fit([[1.0, 0.0], [0.6, 0.8]], {"gender": ["a", "b"]})))
    16
    """
    digest = hashlib.sha256(json.dumps([remedy.name, remedy.settings()], sort_keys=True).encode())
    digest.update(_packed(remedy))
    return digest.hexdigest()[:16]


def _packed(remedy: Remedy) -> bytes:
    out = io.BytesIO()
    state: dict[str, Any] = {name: np.ascontiguousarray(array) for name, array in sorted(remedy.state().items())}
    for name, array in state.items():
        if array.dtype.hasobject:
            raise InputError(f"the remedy {remedy.name!r} keeps Python objects in {name!r}; arrays of numbers only")
    np.savez(out, **state)
    return out.getvalue()


def _unpacked(path: Path, digest: str) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError:
        raise InputError(f"{path}: missing; fit the remedy again") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise InputError(f"{path}: not what was kept (its hash differs); fit the remedy again")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, BadZipFile, OSError):
        raise InputError(f"{path}: damaged; fit the remedy again") from None


CHANGES = ("both", "images", "texts")
"""Whose vectors are changed. Directions fitted on images belong to both; Chuang et al. change those of texts."""
_BATCH = 8192


def repaired(
    model: str | Encoder | Precomputed,
    remedy: Remedy | str | Path,
    *,
    changes: str = "both",
    name: str | None = None,
    **options: Any,
) -> RepairedEncoder | RepairedVectors:
    """``model`` (or the one of that name) with ``remedy`` (or the one kept in that folder) behind it.

    ``changes``: ``both``, ``images`` or ``texts``. A remedy that was fitted on another model's vectors is refused.
    ``options`` go to :func:`equipoise.models.load`.
    """
    from equipoise.models import load as load_model

    if changes not in CHANGES:
        raise UnknownNameError("kind of vectors to change", changes, CHANGES)
    fitted = load(remedy) if isinstance(remedy, str | Path) else remedy
    asked = load_model(model, **options) if isinstance(model, str) else model
    about = fitted.fitted_on
    if about is None:
        raise InputError(f"the remedy {fitted.name!r} is not fitted; call fit first")
    if about.key and about.key != asked.key:
        raise InputError(
            f"the remedy was fitted on vectors of {about.model or about.key}, not of {asked.name}; fit it on this model"
        )
    told = name or f"{asked.name} + {fitted.name}"
    if isinstance(asked, Precomputed):
        return RepairedVectors(asked, fitted, changes, told)
    return RepairedEncoder(asked, fitted, changes, told)


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
        return self.changed_texts(self.encoder.encode_texts(texts))

    def changed_images(self, vectors: Vectors) -> Vectors:
        """The encoder's vectors of images, (n, d), as the remedy changes them: those in the cache serve as well."""
        return vectors if self.changes == "texts" else self.remedy.transform(vectors)

    def changed_texts(self, vectors: Vectors) -> Vectors:
        """The same for vectors of texts."""
        return vectors if self.changes == "images" else self.remedy.transform(vectors)


class RepairedVectors:
    """The same for vectors computed before."""

    def __init__(self, vectors: Precomputed, remedy: Remedy, changes: str, name: str) -> None:
        self.vectors, self.remedy, self.changes = vectors, remedy, changes
        self.name = name
        self.key = f"{vectors.key}+{fingerprint(remedy)}-{changes}"

    def image_vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, d) vectors of the images with these ids."""
        found = self.vectors.image_vectors(ids)
        return found if self.changes == "texts" else self.remedy.transform(found)

    def image_batches(self, ids: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
        """Places in ``ids`` (b,) and their vectors (b, d), batch after batch: memory holds one batch at a time."""
        for at, found in self._batches(ids):
            yield at, found if self.changes == "texts" else self.remedy.transform(found)

    def _batches(self, ids: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
        if hasattr(self.vectors, "image_batches"):
            yield from self.vectors.image_batches(ids)
            return
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            yield np.arange(start, start + len(some)), np.asarray(self.vectors.image_vectors(some))

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """(m, d) vectors of these texts."""
        found = self.vectors.text_vectors(texts)
        return found if self.changes == "images" else self.remedy.transform(found)
