"""A table of images, and texts, into a table of embeddings: through the store, so that what it knows is not encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from equipoise.data.schema import Rejected, schema_for
from equipoise.data.shards import ERRORS_FOLDER, read_columns, shard_name
from equipoise.data.table import Table
from equipoise.data.writer import TableWriter
from equipoise.engine.asking import (
    Asking,
    StoredEncoder,
    filled_by_ray,
    image_batches,
    kept_ids,
    progress_of,
    ray_folder,
)
from equipoise.engine.mapping import map as map_table
from equipoise.engine.progress import Progress
from equipoise.engine.unreadable import Unreadable


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
    keep: bool = field(default=True, compare=False)

    @cached_property
    def stored(self) -> StoredEncoder:
        # Kept at once: the engine may be killed between any two batches. Out of memory is left to the engine, which
        # halves the batch and notes it.
        return StoredEncoder(
            self.encoder, Asking(store=self.store_root, keep=self.keep), seconds_between_saves=0, halve=False
        )

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        good, vectors, errors = self.stored.images([row["image"] for row in rows], root=self.image_root)
        cells: list[Any] = [errors.get(place) for place in range(len(rows))]
        for place, vector in zip(good, vectors, strict=True):
            cells[place] = {"vector": vector, "model": self.encoder.key}
        return cells


def embed_images(
    table: Table | str | Path,
    encoder: ImageEncoder,
    output: str | Path,
    *,
    store: str | Path | None = None,
    keep: bool = True,
    **options: Any,
) -> Table:
    """An ``embeddings`` table (id, vector, model) of the images of a table.

    An image that the store knows under the encoder's key is neither decoded nor encoded again, whatever table it comes
    from.

    Args:
        table: of images, or its folder.
        encoder: an :class:`equipoise.models.Encoder`; the store knows its vectors by its ``key``.
        output: the folder of the new table.
        store: the folder that vectors are kept in; the cache unless given.
        keep: whether vectors are looked up in the store and kept there.
        **options: those of :func:`equipoise.engine.map`, such as ``batch_size``, ``only_kept`` and ``engine``.

    Returns:
        The new table; an image that cannot be read has no row and is kept in ``_errors/`` with the reason.
    """
    opened = table if isinstance(table, Table) else Table.open(table)
    function = _StoredVectors(encoder, None if store is None else str(store), str(opened.image_root.absolute()), keep)
    schema = schema_for("embeddings", dim=dimension_of(encoder, function.stored))
    return map_table(function, opened, output, columns=["image"], schema=schema, **options)


def dimension_of(encoder: Any, stored: StoredEncoder) -> int:
    """The length of an encoder's vectors: as the store has it, as it says itself, or that of a text it is asked for.

    The store of one that changes the vectors of another holds the other's, which may be longer.
    """
    kept = stored.store.dim if stored.store is not None and not stored.changes else None
    known = kept or getattr(encoder, "dim", None)
    return int(known or np.shape(encoder.encode_texts(["a"]))[1])


_TEXTS_PER_SHARD = 65_536
_TEXTS = 256


def embed(
    encoder: Any,
    table: Table | str | Path,
    output: str | Path,
    *,
    texts: Iterable[str] = (),
    how: Asking | None = None,
) -> Table:
    """An ``embeddings`` table of the images of a table and of texts, which ``table:<output>`` opens as a model.

    An image that cannot be read is kept in ``_errors/`` with the reason; too many of them (``how.max_broken``) stop the
    run. A run that was killed goes on where it stopped.

    Args:
        encoder: an :class:`equipoise.models.Encoder`; the column ``model`` holds its ``key``.
        table: of images, or its folder; what a filter dropped is left out.
        output: the folder of the new table.
        texts: what to embed besides; a text that comes twice has one row.
        how: size of the batches, store, engine; by default those of :class:`Asking`.

    Returns:
        The new table, in which the ``id`` of a row is the image's, or the text itself.
    """
    chosen = how or Asking()
    opened = table if isinstance(table, Table) else Table.open(table)
    asked = list(dict.fromkeys(texts))
    wanted = frozenset(kept_ids(opened))
    digest = hashlib.blake2b("\0".join(asked).encode(), digest_size=8).hexdigest()
    config = {"model": encoder.key, "n_texts": len(asked), "texts": digest}
    with ExitStack() as stack:
        stored = stack.enter_context(StoredEncoder(encoder, chosen))
        schema = schema_for("embeddings", dim=dimension_of(encoder, stored))
        plan = {"batch_size": chosen.batch_size}
        writer = stack.enter_context(
            TableWriter(output, schema, config=config, parents=opened.fingerprints, plan=plan, resume=True)
        )
        if writer.finished:
            return writer.finish()
        if chosen.engine == "ray":
            chosen = filled_by_ray(encoder, opened, wanted, chosen, Path(stack.enter_context(ray_folder())))
            stored = stack.enter_context(StoredEncoder(encoder, chosen))
        bar = stack.enter_context(progress_of(f"vectors by {stored.name}", len(wanted) + len(asked), chosen))
        there = set(writer.completed_shards())
        unreadable = Unreadable(opened.path, len(wanted), chosen.max_broken)
        for index in sorted(there):
            for failed in _failed_before(writer.path, index):
                unreadable.add(failed["where"], failed["reason"])
        for index in range(len(opened.shards)):
            errors: list[Rejected] = []
            if index in there:
                ids = opened.own_columns(index, ["image_id"])["image_id"].to_pylist()
                bar.advance(sum(name in wanted for name in ids))
            else:
                batches = image_batches(opened, chosen.batch_size, wanted, [index])
                writer.write_shard(index, _image_rows(stored, opened, batches, errors, unreadable, bar), errors)
        n_shards = len(opened.shards)
        for start in range(0, len(asked), _TEXTS_PER_SHARD):
            some = asked[start : start + _TEXTS_PER_SHARD]
            if n_shards in there:
                bar.advance(len(some))
            else:
                writer.write_shard(n_shards, _text_rows(stored, encoder.key, some, bar))
            n_shards += 1
        return writer.finish(n_shards)


def _failed_before(folder: Path, index: int) -> list[dict[str, str]]:
    """The images of a finished shard that could not be read, as an earlier run noted them."""
    path = folder / ERRORS_FOLDER / shard_name(index)
    rows: list[dict[str, str]] = read_columns(path, ["where", "reason"]).to_pylist() if path.exists() else []
    return rows


def _image_rows(
    stored: StoredEncoder,
    table: Table,
    batches: Iterable[tuple[list[str], list[Any]]],
    errors: list[Rejected],
    unreadable: Unreadable,
    bar: Progress,
) -> Iterator[dict[str, Any]]:
    for names, images in batches:
        good, vectors, failed = stored.images(images, root=table.image_root)
        for place, error in failed.items():
            unreadable.add(names[place], error)
            errors.append(Rejected(names[place], str(error), {"id": names[place]}))
        for place, vector in zip(good, vectors, strict=True):
            yield {"id": names[place], "vector": vector, "model": stored.asked.key}
        bar.advance(len(names), failed=len(failed))


def _text_rows(stored: StoredEncoder, key: str, texts: Sequence[str], bar: Progress) -> Iterator[dict[str, Any]]:
    for start in range(0, len(texts), _TEXTS):
        some = texts[start : start + _TEXTS]
        for text, vector in zip(some, stored.texts(some), strict=True):
            yield {"id": text, "vector": vector, "model": key}
        bar.advance(len(some))
