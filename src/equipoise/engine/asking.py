"""How a model is asked, and an encoder that is asked only for what the store does not know.

Batches are the same in every run: so many rows of a shard, from its beginning. What a batch gave is kept as a whole, so
that a run that was killed goes on with the very batches that were missing, and ends with the same digits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images import decode
from equipoise.engine.content import image_ids, text_ids
from equipoise.engine.mapping import ENGINES
from equipoise.engine.store import EmbeddingStore
from equipoise.engine.worker import is_out_of_memory
from equipoise.errors import InputError, UnknownNameError

__all__ = ["Asking", "StoredEncoder"]

Vectors = NDArray[np.float32]

SECONDS_BETWEEN_SAVES = 1.0
"""A kill costs the work of so many seconds, or of the batch in hand."""
_MOST_WAITING = 4096


@dataclass(frozen=True)
class Asking:
    """How a model is asked about the images of a table, or about texts.

    >>> Asking(workers=4)
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: 4 workers were asked for, but the local engine is one; ask for them with engine ray
    """

    batch_size: int = 64
    """So many images at a time."""
    store: str | Path | None = None
    """Where answers are kept; ``None`` is the cache."""
    keep: bool = True
    """Whether answers are kept, and looked up; without, every image is asked about again."""
    engine: str = "local"
    """``local``, or ``ray``: the batches are shared out among workers."""
    workers: int | None = None
    """How many, on Ray; as many as there is room for unless given."""
    progress: bool = True

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UnknownNameError("engine", self.engine, ENGINES)
        if self.engine == "local" and self.workers not in (None, 1):
            raise InputError(
                f"{self.workers} workers were asked for, but the local engine is one; ask for them with engine ray"
            )
        for name, value in (("batch_size", self.batch_size), ("workers", self.workers)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}")


class StoredEncoder:
    """An encoder with the store before it; use it in a ``with`` block, so that what waits to be kept is kept.

    An encoder that changes the vectors of another (``encoder``) by ``changed_images`` and ``changed_texts`` is asked
    through the other's store: vectors are encoded once, however many remedies are put behind them. An encoder without
    a ``key`` cannot be told from others, so nothing of it is kept.
    """

    def __init__(
        self, encoder: Any, how: Asking, *, seconds_between_saves: float | None = None, halve: bool = True
    ) -> None:
        self.name = str(getattr(encoder, "name", type(encoder).__name__))
        self.changes = hasattr(encoder, "changed_images")
        self.asked = encoder
        self.encoder = encoder.encoder if self.changes else encoder
        key = getattr(self.encoder, "key", "")
        self.store = EmbeddingStore(how.store, key) if how.keep and key else None
        self._pause = SECONDS_BETWEEN_SAVES if seconds_between_saves is None else seconds_between_saves
        self._halve = halve
        self._waiting: dict[bytes, Vectors] = {}
        self._saved = time.monotonic()

    def __enter__(self) -> StoredEncoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.save()

    def images(
        self, images: Sequence[Any], *, root: str | Path | None = None
    ) -> tuple[NDArray[np.int64], Vectors, dict[int, InputError]]:
        """One batch: which images have vectors (g,), these (g, d), and what is wrong with each of the others.

        ``images`` are a table's ``{bytes, path}``, encoded bytes, or paths below ``root``.
        """
        names = [self._image_name(place, image, root) for place, image in enumerate(images)]
        known: dict[bytes, Any] = self._known([name for name in names if isinstance(name, bytes)])
        new: dict[bytes, Any] = {}
        for image, name in zip(images, names, strict=True):
            if isinstance(name, bytes) and name not in known and name not in new:
                new[name] = _decoded(image, root)
        ready = {name: image for name, image in new.items() if not isinstance(image, InputError)}
        known |= new | self._encoded(ready, self.encoder.encode_images, "images")
        found = [known[name] if isinstance(name, bytes) else name for name in names]
        errors = {place: item for place, item in enumerate(found) if isinstance(item, InputError)}
        good = np.array([place for place in range(len(found)) if place not in errors], dtype=np.int64)
        vectors = _stacked([found[place] for place in good])
        return good, self.asked.changed_images(vectors) if self.changes and len(good) else vectors, errors

    def texts(self, texts: Sequence[str]) -> Vectors:
        """One batch: the vectors (m, d) of some texts."""
        if self.store is None:
            names = [place.to_bytes(16, "big") for place in range(len(texts))]
        else:
            names = [row.tobytes() for row in text_ids(texts)]
        known = self._known(names)
        new = {name: text for name, text in zip(names, texts, strict=True) if name not in known}
        known |= self._encoded(new, self.encoder.encode_texts, "texts")
        vectors = _stacked([known[name] for name in names])
        return self.asked.changed_texts(vectors) if self.changes and len(vectors) else vectors

    def save(self) -> None:
        """Put what waits into the store."""
        if self.store is not None and self._waiting:
            self.store.add(list(self._waiting), np.stack(list(self._waiting.values())))
        self._waiting.clear()
        self._saved = time.monotonic()

    def _image_name(self, place: int, image: Any, root: str | Path | None) -> bytes | InputError:
        if self.store is None:  # nothing is looked up, so that the image need not be read for a name
            return place.to_bytes(16, "big")
        try:
            return bytes(image_ids([image], root=root)[0])
        except InputError as error:
            return error

    def _known(self, names: Sequence[bytes]) -> dict[bytes, Any]:
        if self.store is None or not names:
            return {}
        vectors, missing = self.store.get(list(names))
        found = {name: vector for name, vector, lost in zip(names, vectors, missing, strict=True) if not lost}
        return found | {name: self._waiting[name] for name in names if name in self._waiting}

    def _encoded(self, items: Mapping[bytes, Any], encode: Callable[[list[Any]], Any], what: str) -> dict[bytes, Any]:
        if not items:
            return {}
        batch = list(items.values())
        made = np.asarray(_in_halves(encode, batch) if self._halve else encode(batch))
        if made.ndim != 2 or len(made) != len(items):
            raise InputError(
                f"{self.name} gave vectors of shape {made.shape} for {len(items)} {what}; one each is expected"
            )
        rows = dict(zip(items, made.astype(np.float32, copy=False), strict=True))
        # What is not finite is for the caller to refuse by name, and not worth keeping.
        self._waiting |= {name: vector for name, vector in rows.items() if np.isfinite(vector).all()}
        if len(self._waiting) >= _MOST_WAITING or time.monotonic() - self._saved >= self._pause:
            self.save()
        return rows


def _decoded(image: Any, root: str | Path | None) -> Any:
    try:
        return decode(image, root=root)
    except InputError as error:
        return error


def _stacked(vectors: Sequence[Any]) -> Vectors:
    return np.stack(vectors) if vectors else np.empty((0, 0), np.float32)


def _in_halves(encode: Callable[[list[Any]], Any], batch: list[Any]) -> Any:
    """``encode(batch)``, in halves where memory runs out."""
    try:
        return encode(batch)
    except Exception as error:
        if len(batch) == 1 or not is_out_of_memory(error):
            raise
    # Outside the handler: the exception's frames held the memory that the halves need.
    half = len(batch) // 2
    return np.concatenate([_in_halves(encode, batch[:half]), _in_halves(encode, batch[half:])])
