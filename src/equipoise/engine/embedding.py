"""A table of images into a table of embeddings, through the store: only images never seen before are encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from equipoise.data.images import decode
from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.engine.content import image_ids
from equipoise.engine.mapping import map as map_table
from equipoise.engine.store import EmbeddingStore
from equipoise.errors import InputError

__all__ = ["ImageEncoder", "embed_images"]


class ImageEncoder(Protocol):
    """The part of an encoder that is needed here; see :mod:`equipoise.models`."""

    key: str

    def encode_images(self, images: Sequence[Any]) -> Any:
        """(n, d) vectors of n RGB images."""

    def encode_texts(self, texts: Sequence[str]) -> Any:
        """(m, d) vectors of m texts."""


@dataclass(frozen=True)
class _StoredVectors:
    """The function that is mapped: vectors from the store, or encoded and put there."""

    encoder: ImageEncoder
    store_root: str | None = field(compare=False)  # where the cache lies does not change the result
    image_root: str = field(compare=False)

    @cached_property
    def store(self) -> EmbeddingStore:
        return EmbeddingStore(self.store_root, self.encoder.key)

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        made: list[Any] = [_id_or_error(row["image"], self.image_root) for row in rows]
        named = [i for i, item in enumerate(made) if isinstance(item, bytes)]
        ids = [made[i] for i in named]
        known, missing = self.store.get(ids)
        new: dict[bytes, Any] = {}
        for i, vector, is_missing in zip(named, known, missing, strict=True):
            if not is_missing:
                made[i] = self._row(vector)
            elif made[i] not in new:
                new[made[i]] = _image_or_error(rows[i]["image"], self.image_root)
        new |= self._encoded({name: image for name, image in new.items() if not isinstance(image, Exception)})
        return [new[item] if isinstance(item, bytes) else item for item in made]

    def _encoded(self, images: dict[bytes, Any]) -> dict[bytes, Any]:
        """The rows of images that are new; out of memory is left to the engine, which halves and notes it."""
        if not images:
            return {}
        vectors = np.asarray(self.encoder.encode_images(list(images.values())), np.float32)
        self.store.add(list(images), vectors)
        return {name: self._row(vector) for name, vector in zip(images, vectors, strict=True)}

    def _row(self, vector: Any) -> dict[str, Any]:
        return {"vector": vector, "model": self.encoder.key}


def _id_or_error(image: Any, root: str) -> bytes | InputError:
    try:
        return bytes(image_ids([image], root=root)[0])
    except InputError as error:
        return error


def _image_or_error(image: Any, root: str) -> Any:
    try:
        return decode(image, root=root)
    except InputError as error:
        return error


def embed_images(
    table: Table | str | Path,
    encoder: ImageEncoder,
    output: str | Path,
    *,
    store: str | Path | None = None,
    **options: Any,
) -> Table:
    """An ``embeddings`` table (id, vector, model) of the images of ``table``, made by ``encoder``.

    An image that the ``store`` (default: the cache) knows under the encoder's key is neither decoded nor encoded
    again, whatever table it comes from. ``options`` are those of :func:`equipoise.engine.map`, such as
    ``batch_size``, ``only_kept`` and ``engine``.
    """
    opened = table if isinstance(table, Table) else Table.open(table)
    function = _StoredVectors(encoder, None if store is None else str(store), str(opened.image_root.absolute()))
    # an encoder of images alone says its dimension; others are asked for a text
    known = function.store.dim or getattr(encoder, "dim", None)
    dim = int(known or np.shape(encoder.encode_texts(["a"]))[1])
    schema = schema_for("embeddings", dim=dim)
    return map_table(function, opened, output, columns=["image"], schema=schema, **options)
