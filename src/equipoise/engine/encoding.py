"""From an encoder and a table, or texts, to vectors: the one path that audits, filters, remedies and checks take."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.engine.asking import Asking, StoredEncoder, Vectors
from equipoise.engine.cache import default_store_root
from equipoise.engine.mapping import map as map_table
from equipoise.engine.progress import NoProgress, Progress
from equipoise.engine.reading import exact_batches
from equipoise.errors import InputError

__all__ = [
    "file_vectors",
    "filled_by_ray",
    "image_batches",
    "kept_ids",
    "progress_of",
    "ray_folder",
    "vector_batches",
    "vectors",
]

_TEXTS = 256

Batch = tuple[NDArray[np.int64], Vectors]
"""Places of images, and their vectors."""


def vectors(
    model: Any,
    source: Table | str | Path | Sequence[str],
    how: Asking | None = None,
    *,
    ids: Sequence[str] | None = None,
) -> Vectors:
    """(n, d) the vectors of the images of a table, or of a list of texts, by an encoder or computed before.

    ``source``: a table or its folder, or a list of texts; ``ids``: only these images, in this order. What the store
    knows is not encoded again, and what was encoded before a kill is kept. An image that cannot be read is an
    :class:`InputError` with its name. See :func:`vector_batches` for more images than memory holds.

    >>> class Lengths:
    ...     key = "lengths"
    ...     def encode_texts(self, texts):
    ...         return [[len(text), 1.0] for text in texts]
    >>> vectors(Lengths(), ["a", "bcd", "a"], Asking(keep=False)).tolist()
    [[1.0, 1.0], [3.0, 1.0], [1.0, 1.0]]
    """
    chosen = how or Asking()
    if not isinstance(source, Table | str | Path):
        return _of_texts(model, list(source), chosen)
    table = source if isinstance(source, Table) else Table.open(source)
    wanted = kept_ids(table) if ids is None else list(ids)
    out: Vectors | None = None
    n_found = 0
    for at, some in vector_batches(model, table, wanted, chosen):
        if out is None:
            out = np.empty((len(wanted), some.shape[1]), dtype=np.float32)
        out[at] = some
        n_found += len(at)
    if n_found != len(wanted):
        raise InputError(f"{table.path}: holds {n_found} of the {len(wanted)} images that were asked for")
    return out if out is not None else np.empty((0, 0), np.float32)


def vector_batches(model: Any, table: Table, ids: Sequence[str], how: Asking | None = None) -> Iterator[Batch]:
    """Places in ``ids`` (b,) and the vectors (b, d) of these images of ``table``, batch after batch.

    ``model`` is an encoder (``encode_images``) or holds vectors computed before (``image_vectors``). Memory holds one
    batch. With ``engine="ray"`` the workers fill the store first, in the same batches.
    """
    if hasattr(model, "image_vectors"):
        if hasattr(model, "image_batches"):
            return iter(model.image_batches(list(ids)))
        return iter([(np.arange(len(ids)), np.asarray(model.image_vectors(list(ids))))])
    return _encoded(model, table, list(ids), how or Asking())


def _encoded(model: Any, table: Table, ids: list[str], how: Asking) -> Iterator[Batch]:
    place = {name: i for i, name in enumerate(ids)}
    with ExitStack() as stack:
        if how.engine == "ray":
            how = filled_by_ray(model, table, place.keys(), how, Path(stack.enter_context(ray_folder())))
        encoder = stack.enter_context(StoredEncoder(model, how))
        bar = stack.enter_context(progress_of(f"vectors by {encoder.name}", len(ids), how))
        for names, images in image_batches(table, how.batch_size, place):
            good, found, errors = encoder.images(images, root=table.image_root)
            for number, error in errors.items():
                raise InputError(f"{table.path}: image {names[number]!r}: {error}") from None
            yield np.array([place[names[i]] for i in good], dtype=np.int64), found
            bar.advance(len(names))


def image_batches(
    table: Table, batch_size: int, wanted: Collection[str] | None = None, shards: Iterable[int] | None = None
) -> Iterator[tuple[list[str], list[Any]]]:
    """Ids and image values of the ``wanted`` rows, batch after batch: those among so many rows of one shard."""
    for index in range(len(table.shards)) if shards is None else shards:
        for batch in exact_batches(
            table.shard_batches(index, ["image_id", "image"], batch_size=batch_size), batch_size
        ):
            rows = [row for row in batch.to_pylist() if wanted is None or row["image_id"] in wanted]
            if rows:
                yield [row["image_id"] for row in rows], [row["image"] for row in rows]


def file_vectors(
    model: Any, files: Sequence[Path], how: Asking | None = None
) -> Iterator[tuple[NDArray[np.int64], Vectors, dict[int, InputError]]]:
    """Places (b,) and vectors (b, d) of image files, batch after batch, and what is wrong with those left out."""
    chosen = how or Asking()
    with ExitStack() as stack:
        if chosen.engine == "ray":
            folder = Path(stack.enter_context(ray_folder()))
            table = _table_of_files(files, folder / "files", chosen.batch_size)
            chosen = filled_by_ray(model, table, frozenset(kept_ids(table)), chosen, folder)
        encoder = stack.enter_context(StoredEncoder(model, chosen))
        for start in range(0, len(files), chosen.batch_size):
            good, found, errors = encoder.images(files[start : start + chosen.batch_size])
            yield good + start, found, {start + place: error for place, error in errors.items()}


def _table_of_files(files: Sequence[Path], folder: Path, batch_size: int) -> Table:
    """The files as a table of paths, in shards that workers share: each of whole batches."""
    rows = [{"image_id": str(i), "image": {"path": str(path.absolute())}} for i, path in enumerate(files)]
    return Table.create(folder, rows, rows_per_shard=8 * batch_size)


def ray_folder() -> tempfile.TemporaryDirectory[str]:
    """Where workers note what they have done; on a cluster ``TMPDIR`` is a folder that every machine sees."""
    return tempfile.TemporaryDirectory(prefix="equipoise-ray-")


def progress_of(what: str, total: int, how: Asking) -> Progress:
    """A bar with rate and time left; without a terminal nothing is said of work that is done in a moment."""
    return Progress(what, total=total, unit="images", brief=True) if how.progress else NoProgress(what, total=total)


def _of_texts(model: Any, texts: list[str], how: Asking) -> Vectors:
    if hasattr(model, "text_vectors"):
        return np.asarray(model.text_vectors(texts))
    if not texts:
        return np.empty((0, 0), np.float32)
    with StoredEncoder(model, how) as encoder:
        return np.concatenate([encoder.texts(texts[i : i + _TEXTS]) for i in range(0, len(texts), _TEXTS)])


def kept_ids(table: Table) -> list[str]:
    """The ids of a table's images, without those that a filter dropped."""
    names: list[str] = table.to_pandas(["image_id"], only_kept="keep" in table.columns)["image_id"].tolist()
    return names


def filled_by_ray(model: Any, table: Table, wanted: Collection[str], how: Asking, folder: Path) -> Asking:
    """Let Ray's workers put the vectors into the store; how to read them there."""
    root = str(Path(how.store if how.store is not None else default_store_root()).absolute())
    here = replace(how, store=root if how.keep else str(folder / "store"), keep=True, engine="local", workers=None)
    asked = model.encoder if hasattr(model, "changed_images") else model
    if not getattr(asked, "key", ""):
        raise InputError("engine ray needs an encoder with a key, by which its workers share what they encoded")
    map_table(
        _Filling(asked, here, frozenset(wanted), str(table.image_root.absolute())),
        table,
        folder / "vectors",
        columns=["image"],
        schema=schema_for("embeddings", dim=1),
        batch_size=how.batch_size,
        max_failures=None,
        engine="ray",
        workers=how.workers,
        progress=how.progress,
    )
    return here


@dataclass(frozen=True)
class _Filling:
    """What a worker does: its batch goes into the store, and no row into the table."""

    encoder: Any
    how: Asking = field(compare=False)
    wanted: frozenset[str] = field(compare=False)
    image_root: str = field(compare=False)

    @cached_property
    def stored(self) -> StoredEncoder:
        return StoredEncoder(self.encoder, self.how, seconds_between_saves=0)

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        images = [row["image"] for row in rows if row["image_id"] in self.wanted]
        if images:
            self.stored.images(images, root=self.image_root)
        return [[] for _ in rows]
