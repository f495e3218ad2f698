"""How a model is asked, and an encoder that is asked only for what the store does not know.

Batches are the same in every run: so many rows of a shard, from its beginning. What a batch gave is kept as a whole, so
that a run that was killed goes on with the very batches that were missing, and ends with the same digits.

From an encoder and a table, or texts, to vectors: the one path that audits, filters, remedies and checks take.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Vectors
from equipoise.data.images import decode
from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.engine.cache import default_store_root
from equipoise.engine.content import image_ids, text_ids
from equipoise.engine.mapping import ENGINES
from equipoise.engine.mapping import map as map_table
from equipoise.engine.progress import NoProgress, Progress
from equipoise.engine.ray_engine import needs_of
from equipoise.engine.reading import exact_batches
from equipoise.engine.store import EmbeddingStore, in_halves
from equipoise.engine.unreadable import MOST, Unreadable
from equipoise.errors import InputError, UnknownNameError

_TEXTS = 256

Batch = tuple[NDArray[np.int64], Vectors]
"""Places of images, and their vectors."""


def vectors(
    model: Any,
    source: Table | str | Path | Sequence[str],
    how: Asking | None = None,
    *,
    ids: Sequence[str] | None = None,
    unreadable: Unreadable | None = None,
) -> Vectors:
    """The vectors of the images of a table, or of a list of texts, by an encoder or computed before.

    What the store knows is not encoded again, and what was encoded before a kill is kept. See :func:`vector_batches`
    for more images than memory holds.

    Args:
        model: an encoder (``encode_images``, ``encode_texts``), or what holds vectors computed before
            (``image_vectors``, ``text_vectors``).
        source: a table or its folder, or a list of texts.
        how: size of the batches, store, engine; by default those of :class:`Asking`.
        ids: only these images, in this order; by default all that no filter dropped.
        unreadable: notes the images that cannot be read, whose rows are then NaN; without it, the first of them is an
            :class:`InputError` with its name.

    Returns:
        (n, d) a vector for each image or text.

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
    for at, some in vector_batches(model, table, wanted, chosen, unreadable=unreadable):
        if out is None:
            out = np.full((len(wanted), some.shape[1]), np.nan, dtype=np.float32)
        out[at] = some
        n_found += len(at)
    if n_found + (len(unreadable.reasons) if unreadable is not None else 0) != len(wanted):
        raise InputError(f"{table.path}: holds {n_found} of the {len(wanted)} images that were asked for")
    return out if out is not None else np.empty((0, 0), np.float32)


def vector_batches(
    model: Any, table: Table, ids: Sequence[str], how: Asking | None = None, *, unreadable: Unreadable | None = None
) -> Iterator[Batch]:
    """The vectors of images of a table, batch after batch.

    Memory holds one batch. With ``engine="ray"`` the workers fill the store first, in the same batches.

    Args:
        model: an encoder (``encode_images``), or what holds vectors computed before (``image_vectors``).
        table: of the images; not read where their vectors were computed before.
        ids: which images, each once.
        how: size of the batches, store, engine; by default those of :class:`Asking`.
        unreadable: notes the images that cannot be read, which are then left out; without it, the first of them is
            refused with its name.

    Returns:
        Places in ``ids`` (b,) and the vectors of these images (b, d), in an order that need not be that of ``ids``.
    """
    if hasattr(model, "image_vectors"):
        if hasattr(model, "image_batches"):
            return iter(model.image_batches(list(ids)))
        return iter([(np.arange(len(ids)), np.asarray(model.image_vectors(list(ids))))])
    return _encoded(model, table, list(ids), how or Asking(), unreadable)


def _encoded(model: Any, table: Table, ids: list[str], how: Asking, unreadable: Unreadable | None) -> Iterator[Batch]:
    place = {name: i for i, name in enumerate(ids)}
    with ExitStack() as stack:
        if how.engine == "ray":
            how = filled_by_ray(model, table, place.keys(), how, Path(stack.enter_context(ray_folder())))
        encoder = stack.enter_context(StoredEncoder(model, how))
        bar = stack.enter_context(progress_of(f"vectors by {encoder.name}", len(ids), how))
        for names, images in image_batches(table, how.batch_size, place):
            good, vectors, errors = encoder.images(images, root=table.image_root)
            for number, error in errors.items():
                if unreadable is None:
                    raise InputError(f"{table.path}: image {names[number]!r}: {error}") from None
                unreadable.add(names[number], error)
            if len(good):
                yield np.array([place[names[i]] for i in good], dtype=np.int64), vectors
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
            good, vectors, errors = encoder.images(files[start : start + chosen.batch_size])
            yield good + start, vectors, {start + place: error for place, error in errors.items()}


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
    if not texts:
        return np.empty((0, 0), np.float32)
    if hasattr(model, "text_vectors"):
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}  # a table gives each text once
        given = np.asarray(model.text_vectors(list(place)))
        # a wrong number is refused by whoever asked
        return given[[place[text] for text in texts]] if len(given) == len(place) < len(texts) else given
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
    keep = _Encoding(asked, here, str(table.image_root.absolute()))
    fill_by_ray(keep, table, wanted, how, folder / "vectors", needs_of(asked))
    return here


@dataclass(frozen=True)
class _Encoding:
    """Puts the vectors of images into the store; the encoder is opened where it is used."""

    encoder: Any
    how: Asking = field(compare=False)
    image_root: str = field(compare=False)

    @cached_property
    def stored(self) -> StoredEncoder:
        return StoredEncoder(self.encoder, self.how, seconds_between_saves=0)

    def __call__(self, images: list[Any]) -> None:
        self.stored.images(images, root=self.image_root)


def fill_by_ray(
    keep: Callable[[list[Any]], object],
    table: Table,
    wanted: Collection[str],
    how: Asking,
    output: Path,
    resources: Mapping[str, Any],
) -> None:
    """Let Ray's workers call ``keep`` with the ``wanted`` images, in the batches that are asked for later.

    ``resources``: what each worker needs for the model that ``keep`` asks.
    """
    map_table(
        _Filling(keep, frozenset(wanted)),
        table,
        output,
        columns=["image"],
        schema=schema_for("embeddings", dim=1),
        batch_size=how.batch_size,
        max_failures=None,
        engine="ray",
        workers=how.workers,
        resources=resources,
        progress=how.progress,
    )


@dataclass(frozen=True)
class _Filling:
    """What a worker does: its batch goes into a store, and no row into the table."""

    keep: Callable[[list[Any]], object]
    wanted: frozenset[str] = field(compare=False)

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        images = [row["image"] for row in rows if row["image_id"] in self.wanted]
        if images:
            self.keep(images)
        return [[] for _ in rows]


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
    """How many, on Ray; as many as fit unless given."""
    progress: bool = True
    max_broken: float = MOST
    """The share of images that may be unreadable; more of them stop the run (:class:`~equipoise.engine.Unreadable`)."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UnknownNameError("engine", self.engine, ENGINES)
        if not 0 <= self.max_broken <= 1:
            raise InputError(f"max_broken={self.max_broken:g}: a share of the images from 0 to 1 is expected")
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

    def __exit__(self, *raised: object) -> None:
        self.save()

    def images(
        self, images: Sequence[Any], *, root: str | Path | None = None
    ) -> tuple[NDArray[np.int64], Vectors, dict[int, InputError]]:
        """One batch: which images have vectors (g,), these (g, d), and what is wrong with each of the others.

        ``images`` are a table's ``{bytes, path}``, encoded bytes, or paths below ``root``.
        """
        if self.store is None:  # nothing is looked up, so that the image need not be read for a name
            names: Sequence[bytes | InputError] = [place.to_bytes(16, "big") for place in range(len(images))]
        else:
            names = [image_name(image, root) for image in images]
        vectors_or_errors = answered(
            names, images, root, self._known, lambda new: self._encoded(new, self.encoder.encode_images, "images")
        )
        errors = {place: item for place, item in enumerate(vectors_or_errors) if isinstance(item, InputError)}
        good = np.array([place for place in range(len(vectors_or_errors)) if place not in errors], dtype=np.int64)
        vectors = _stacked([vectors_or_errors[place] for place in good])
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
        return self.asked.changed_texts(vectors, texts) if self.changes and len(vectors) else vectors

    def save(self) -> None:
        """Put what waits into the store."""
        if self.store is not None and self._waiting:
            self.store.add(list(self._waiting), np.stack(list(self._waiting.values())))
        self._waiting.clear()
        self._saved = time.monotonic()

    def _known(self, names: Sequence[bytes]) -> dict[bytes, Any]:
        if self.store is None or not names:
            return {}
        vectors, missing = self.store.get(list(names))
        known = {name: vector for name, vector, lost in zip(names, vectors, missing, strict=True) if not lost}
        return known | {name: self._waiting[name] for name in names if name in self._waiting}

    def _encoded(self, items: Mapping[bytes, Any], encode: Callable[[list[Any]], Any], what: str) -> dict[bytes, Any]:
        if not items:
            return {}
        batch = list(items.values())
        encoded = np.asarray(in_halves(encode, batch) if self._halve else encode(batch))
        if encoded.ndim != 2 or len(encoded) != len(items):
            raise InputError(
                f"{self.name} gave vectors of shape {encoded.shape} for {len(items)} {what}; one each is expected"
            )
        rows = dict(zip(items, encoded.astype(np.float32, copy=False), strict=True))
        # What is not finite is for the caller to refuse by name, and not worth keeping.
        self._waiting |= {name: vector for name, vector in rows.items() if np.isfinite(vector).all()}
        if len(self._waiting) >= _MOST_WAITING or time.monotonic() - self._saved >= self._pause:
            self.save()
        return rows


def image_name(image: Any, root: str | Path | None) -> bytes | InputError:
    """What an image is kept under, or what is wrong with it."""
    try:
        return bytes(image_ids([image], root=root)[0])
    except InputError as error:
        return error


def answered(
    names: Sequence[bytes | InputError],
    images: Sequence[Any],
    root: str | Path | None,
    get: Callable[[list[bytes]], Mapping[bytes, Any]],
    ask: Callable[[dict[bytes, Any]], Mapping[bytes, Any]],
) -> list[Any]:
    """For each name what ``get`` knows of it, else what ``ask`` says of its image, decoded; or why that is no image.

    Each name is asked about once.
    """
    found = dict(get([name for name in names if isinstance(name, bytes)]))
    new: dict[bytes, Any] = {}
    for image, name in zip(images, names, strict=True):
        if isinstance(name, bytes) and name not in found:
            try:
                new[name] = found[name] = decode(image, root=root)
            except InputError as error:
                found[name] = error
    if new:
        found |= ask(new)
    return [found[name] if isinstance(name, bytes) else name for name in names]


def _stacked(vectors: Sequence[Any]) -> Vectors:
    return np.stack(vectors) if vectors else np.empty((0, 0), np.float32)
