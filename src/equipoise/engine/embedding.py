"""A table of images into a table of embeddings, through the store: only images never seen before are encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.engine.asking import Asking, StoredEncoder
from equipoise.engine.mapping import map as map_table

__all__ = ["ImageEncoder", "dimension_of", "embed_images"]


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
    def stored(self) -> StoredEncoder:
        # Kept at once: the engine may be killed between any two batches. Out of memory is left to the engine, which
        # halves the batch and notes it.
        return StoredEncoder(self.encoder, Asking(store=self.store_root), seconds_between_saves=0, halve=False)

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        good, vectors, errors = self.stored.images([row["image"] for row in rows], root=self.image_root)
        made: list[Any] = [errors.get(place) for place in range(len(rows))]
        for place, vector in zip(good, vectors, strict=True):
            made[place] = {"vector": vector, "model": self.encoder.key}
        return made


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
    schema = schema_for("embeddings", dim=dimension_of(encoder, function.stored))
    return map_table(function, opened, output, columns=["image"], schema=schema, **options)


def dimension_of(encoder: Any, stored: StoredEncoder) -> int:
    """The length of an encoder's vectors: as the store has it, as it says itself, or that of a text it is asked for."""
    known = (stored.store.dim if stored.store is not None else None) or getattr(encoder, "dim", None)
    return int(known or np.shape(encoder.encode_texts(["a"]))[1])
