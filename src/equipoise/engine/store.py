"""The embedding store: an image or a text is encoded once by each encoder, and never again.

:func:`stores` says which are kept, :func:`clear_stores` removes them.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Vectors
from equipoise.data.atomic import locked, write_whole
from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.data.writer import TableWriter
from equipoise.engine import segments as files
from equipoise.engine.cache import (
    MARKER,
    VERSION,
    StoreInfo,
    default_store_root,
    marker_bytes,
    read_marker,
    refuse_strange_files,
)
from equipoise.engine.content import Ids, as_ids, hex_of, ids_from_hex, image_ids, text_ids
from equipoise.engine.segments import Segment
from equipoise.errors import InputError, closest
from equipoise.memory import is_out_of_memory

MOST_SEGMENTS = 64
"""More than these, and the smaller half is merged into one."""

_ROWS_AT_ONCE = 65_536
_KEEP_AFTER_ROWS = 4096
_KEEP_AFTER_SECONDS = 30.0
_LONGEST_WAIT = 600.0
_PAUSE = 0.02


class EmbeddingStore:
    """Vectors by content, for the encoder that ``key`` names, in a folder of its own below ``root``.

    ``root=None`` is the cache (``EQUIPOISE_CACHE``, or the operating system's place for caches). Ids are what
    :func:`~equipoise.engine.content.image_ids` and :func:`~equipoise.engine.content.text_ids` give. Vectors are
    read from memory-mapped files; nothing but what is asked for is held in memory. Several processes may read and
    write the same store.

    >>> import tempfile
    >>> store = EmbeddingStore(tempfile.mkdtemp(), "toy encoder, weights 1a2b")
    >>> calls = []
    >>> def lengths(texts):
    ...     calls.extend(texts)
    ...     return [[len(text), 1.0] for text in texts]
    >>> store.encode(["a", "bcd", "a"], lengths).tolist()
    [[1.0, 1.0], [3.0, 1.0], [1.0, 1.0]]
    >>> _ = store.encode(["bcd", "ef"], lengths)
    >>> calls
    ['a', 'bcd', 'ef']
    """

    def __init__(self, root: str | Path | None, key: str) -> None:
        if not key or not isinstance(key, str):
            raise InputError(f"key must be the encoder's key, a text that names its weights, not {key!r}")
        self.key = key
        self.root = Path(root) if root is not None else default_store_root()
        self.path = self.root / folder_name(key)
        self._segments: list[Segment] = []
        self._check_marker()
        self._clear_left_overs()

    @classmethod
    def in_folder(cls, folder: Path) -> EmbeddingStore:
        """The store that lies in ``folder``, to look at or delete, whatever the folder is called.

        Where ``store.json`` names no encoder, the folder's name stands for its key.
        """
        key = (read_marker(folder) or {}).get("key")
        store = cls(folder.parent, key if key and isinstance(key, str) else folder.name)
        store.path = folder
        return store

    def __reduce__(self) -> tuple[type[EmbeddingStore], tuple[Path, str]]:
        # Otherwise a pickle would hold all vectors.
        return EmbeddingStore, (self.root, self.key)

    def __repr__(self) -> str:
        return f"EmbeddingStore({str(self.root)!r}, {self.key!r})"

    def __len__(self) -> int:
        self._refresh()
        return sum(map(len, self._segments))

    @property
    def dim(self) -> int | None:
        """The length of the vectors; ``None`` as long as there are none."""
        self._refresh()
        return next((int(segment.vectors.shape[1]) for segment in self._segments), None)

    def info(self) -> StoreInfo:
        """How much is in the store."""
        n, dim = len(self), self.dim
        sizes = [path.stat().st_size for path in self.path.glob("*") if path.is_file()]
        return StoreInfo(self.key, self.path, n, dim, len(self._segments), sum(sizes))

    def has(self, ids: Any) -> NDArray[np.bool_]:
        """Which of ``ids``, shape ``(n, 16)``, are in the store."""
        self._refresh()
        return self._located(as_ids(ids))[0] >= 0

    def get(self, ids: Any) -> tuple[Vectors, NDArray[np.bool_]]:
        """The vectors of ``ids``, shape ``(n, d)``, and which are missing, shape ``(n,)``; those rows are NaN.

        An empty store gives ``d = 0``.
        """
        self._refresh()
        which, row = self._located(as_ids(ids))
        dim = next((segment.vectors.shape[1] for segment in self._segments), 0)
        vectors = np.full((which.size, dim), np.nan, np.float32)
        for number, segment in enumerate(self._segments):
            mine = np.flatnonzero(which == number)
            for start in range(0, mine.size, _ROWS_AT_ONCE):
                part = mine[start : start + _ROWS_AT_ONCE]
                vectors[part] = segment.vectors[row[part]]
        return vectors, which < 0

    def add(self, ids: Any, vectors: Any) -> int:
        """Add ``vectors``, shape ``(n, d)``, under ``ids`` and return how many were new.

        An id that is there keeps the vector it has. What is added is on disk, whole, when this returns.
        """
        ids, checked = as_ids(ids), _checked_vectors(vectors)
        if len(ids) != len(checked):
            raise InputError(f"{len(ids)} ids were given for {len(checked)} vectors")
        words = files.words_of(ids)
        order = files.first_of_each(words)
        with self._locked():
            self._refresh()
            self._check_dim(checked)
            order = order[self._located(ids[order])[0] < 0]
            if not order.size:
                return 0
            self._clean_up()
            pieces = (checked[order[s : s + _ROWS_AT_ONCE]] for s in range(0, order.size, _ROWS_AT_ONCE))
            files.write_segment(self.path, words[:, order], pieces, checked.shape[1])
            self._refresh()
            if len(self._segments) > MOST_SEGMENTS:
                smaller_half = sorted(self._segments, key=len)[: len(self._segments) // 2 + 1]
                files.merge_segments(self.path, smaller_half)
                self._clean_up()
        return int(order.size)

    def encode(
        self,
        items: Sequence[Any],
        encode_fn: Callable[[list[Any]], Any],
        *,
        batch_size: int = 32,
        ids: Any = None,
        load: Callable[[Any], Any] | None = None,
    ) -> Vectors:
        """The vectors of ``items``, shape ``(n, d)``, of which only those that are new are encoded.

        ``items``: texts, or images as :func:`image_ids` takes them. ``encode_fn`` takes a list of at most
        ``batch_size`` of them (halved when memory runs out) and gives their vectors. ``load`` makes an item ready
        for it (such as :func:`equipoise.data.images.decode`), and is called for the new ones alone. ``ids`` are
        those of the items, if they are known. What was encoded before an interruption is kept.
        """
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}")
        named = as_ids(ids) if ids is not None else _ids_of_items(items)
        if len(named) != len(items):
            raise InputError(f"{len(named)} ids were given for {len(items)} items")
        vectors, missing = self.get(named)
        if not missing.any():
            return vectors
        new = np.flatnonzero(missing)
        new = new[np.sort(files.first_of_each(files.words_of(named[new])))]
        self._encode_new(items, named, new, encode_fn, batch_size, load)
        return self.get(named)[0]

    def export(self, path: str | Path, *, ids: Any = None, names: Sequence[str] | None = None) -> Table:
        """Write an ``embeddings`` table of ``ids`` (default: all) for other tools, and return it.

        Its ``id`` is ``names``, or the content id in hexadecimal; its ``model`` is the key.
        """
        self._refresh()
        wanted = self._all_ids() if ids is None else as_ids(ids)
        if not len(wanted) or self.dim is None:
            raise InputError(f"there is nothing to export from the embedding store {self.key!r}")
        if names is not None and len(names) != len(wanted):
            raise InputError(f"{len(names)} names were given for {len(wanted)} ids")
        missing = ~self.has(wanted)
        if missing.any():
            raise InputError(
                f"{int(missing.sum())} of {len(wanted)} ids are not in the embedding store {self.key!r}, such as "
                f"{hex_of(wanted[missing][:1])[0]}; encode them first"
            )
        with TableWriter(path, schema_for("embeddings", dim=self.dim), resume=False) as writer:
            for index, start in enumerate(range(0, len(wanted), _ROWS_AT_ONCE)):
                part = slice(start, start + _ROWS_AT_ONCE)
                labels = names[part] if names is not None else hex_of(wanted[part])
                writer.write_shard(index, self._export_rows(wanted[part], labels))
            return writer.finish()

    def add_table(self, table: Table | str | Path) -> int:
        """Add what :meth:`export` wrote elsewhere and return how many vectors were new."""
        opened = table if isinstance(table, Table) else Table.open(table)
        if opened.kind != "embeddings":
            raise InputError(f"{opened.path} is a table of kind {opened.kind!r}, not of embeddings")
        added = 0
        for batch in opened.batches(["id", "vector", "model"]):
            strange = set(batch.column("model").to_pylist()) - {self.key}
            if strange:
                raise InputError(f"{opened.path} holds vectors of {min(strange)!r}, but this store is for {self.key!r}")
            vectors = batch.column("vector").flatten().to_numpy().reshape(len(batch), -1)
            added += self.add(ids_from_hex(batch.column("id").to_pylist()), vectors)
        return added

    def delete(self) -> None:
        """Delete the store; a folder that holds anything else is refused."""
        with self._locked():
            refuse_strange_files(self.path)
            self._segments = []
            for path in sorted(self.path.iterdir(), key=lambda path: (path.name == MARKER, path.name)):
                path.unlink()  # the marker last: what is left by a kill is still known for a store
            self.path.rmdir()

    def _encode_new(
        self,
        items: Sequence[Any],
        ids: Ids,
        new: NDArray[np.int64],
        encode_fn: Callable[[list[Any]], Any],
        batch_size: int,
        load: Callable[[Any], Any] | None,
    ) -> None:
        waiting: list[Vectors] = []
        kept, done = 0, 0
        last = time.monotonic()
        try:
            for start in range(0, new.size, batch_size):
                batch = [items[i] for i in new[start : start + batch_size]]
                waiting.append(_encoded([load(item) for item in batch] if load else batch, encode_fn))
                done = start + len(batch)
                if done - kept >= _KEEP_AFTER_ROWS or time.monotonic() - last > _KEEP_AFTER_SECONDS:
                    self.add(ids[new[kept:done]], np.concatenate(waiting))
                    waiting, kept, last = [], done, time.monotonic()
        finally:
            if waiting:
                self.add(ids[new[kept:done]], np.concatenate(waiting))

    def _export_rows(self, ids: Ids, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(ids), 1000):
            vectors, _ = self.get(ids[start : start + 1000])
            for name, vector in zip(names[start : start + 1000], vectors, strict=True):
                yield {"id": name, "vector": vector, "model": self.key}

    def _all_ids(self) -> Ids:
        words = [segment.words for segment in self._segments]
        if not words:
            return np.empty((0, 16), np.uint8)
        together = np.concatenate(words, axis=1)
        return files.ids_of(together[:, files.sorted_order(together)])

    def _located(self, ids: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which segment each id is in and in which row of it; -1 where it is in none."""
        words = files.words_of(ids)
        order = files.sorted_order(words)  # neighbours in the file are asked for together
        which = np.full(order.size, -1, np.int64)
        row = np.full(order.size, -1, np.int64)
        for number, segment in enumerate(self._segments):
            left = order[which[order] < 0]
            if not left.size:
                break
            rows = segment.find(words[:, left])
            which[left[rows >= 0]] = number
            row[left[rows >= 0]] = rows[rows >= 0]
        return which, row

    def _refresh(self) -> None:
        """Take notice of segments that were written or merged since the last look, by whomever."""
        known = {segment.name: segment for segment in self._segments}
        while True:
            try:
                names = files.segment_names(self.path)
                segments = [known.get(name) or files.open_segment(self.path, name) for name in names]
            except FileNotFoundError:  # merged away between listing and opening; what it was merged into is there
                continue
            self._segments = [segment for segment in segments if segment is not None]
            return

    def _clean_up(self) -> None:
        self._refresh()
        files.clean_up(self.path, [segment.name for segment in self._segments])

    def _clear_left_overs(self) -> None:
        """Remove what a killed writer left: the run that goes on may have nothing more to add. Whoever writes stays."""
        if self.path.is_dir() and next(self.path.glob(".*.tmp"), None) is not None:
            with suppress(InputError, OSError), self._lock():
                self._clean_up()

    def _lock(self) -> AbstractContextManager[None]:
        return locked(self.root / f".{self.path.name}.lock", what=f"the embedding store {self.key!r}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the store's lock; others hold it for moments only, so this waits without a word."""
        self.root.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + _LONGEST_WAIT
        while True:
            holder = self._lock()
            try:
                holder.__enter__()
                break
            except InputError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
        try:
            self.path.mkdir(exist_ok=True)
            if read_marker(self.path) is None:
                write_whole(self.path / MARKER, marker_bytes(self.key))
            yield
        finally:
            holder.__exit__(None, None, None)

    def _check_marker(self) -> None:
        marker = read_marker(self.path)
        if marker is None:
            if self.path.is_dir() and any(not path.name.startswith(".") for path in self.path.iterdir()):
                raise InputError(f"{self.path} holds files but is not an embedding store; choose another root")
            return
        if marker.get("key") != self.key:
            raise InputError(f"{self.path} is the embedding store of {marker.get('key')!r}, not of {self.key!r}")
        if not isinstance(marker.get("version"), int) or marker["version"] > VERSION:
            raise InputError(
                f"{self.path} has store version {marker.get('version')!r}, but this equipoise reads up to {VERSION}; "
                "upgrade it with: pip install -U equipoise"
            )

    def _check_dim(self, vectors: Vectors) -> None:
        there = next((segment.vectors.shape[1] for segment in self._segments), vectors.shape[1])
        if vectors.shape[1] != there:
            raise InputError(
                f"the embedding store {self.key!r} holds vectors of length {there}, not {vectors.shape[1]}; another "
                "encoder needs another key"
            )


def folder_name(key: str) -> str:
    """A folder name that a person can recognise and no other key has."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", key).strip("._")[:60]
    return f"{readable or 'store'}-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}"


def _checked_vectors(vectors: Any) -> Vectors:
    checked = np.asarray(vectors, np.float32)
    if checked.ndim != 2 or (checked.size == 0 and checked.shape[0]):
        raise InputError(f"vectors must have the shape (n, d), not {checked.shape}")
    bad = np.flatnonzero(~np.isfinite(checked).all(axis=1))
    if bad.size:
        raise InputError(f"vector {bad[0]} holds values that are not finite; the encoder is at fault")
    return checked


def _ids_of_items(items: Sequence[Any]) -> Ids:
    texts = [isinstance(item, str) for item in items]
    if all(texts):
        return text_ids(items)
    if any(texts):
        raise InputError(f"items must be all texts or all images, but item {texts.index(False)} is not a text")
    return image_ids(items)


def _encoded(batch: list[Any], encode_fn: Callable[[list[Any]], Any]) -> Vectors:
    def checked(items: list[Any]) -> Vectors:
        vectors = _checked_vectors(encode_fn(items))
        if len(vectors) != len(items):
            raise InputError(f"encode_fn gave {len(vectors)} vectors for {len(items)} items")
        return vectors

    return np.asarray(in_halves(checked, batch))


def in_halves(encode: Callable[[list[Any]], Any], batch: list[Any]) -> Any:
    """``encode(batch)``, in halves where memory runs out."""
    try:
        return encode(batch)
    except Exception as error:
        if len(batch) == 1 or not is_out_of_memory(error):
            raise
    # Outside the handler: the exception's frames held the memory that the halves need.
    half = len(batch) // 2
    return np.concatenate([in_halves(encode, batch[:half]), in_halves(encode, batch[half:])])


def stores(root: str | Path | None = None) -> list[StoreInfo]:
    """The embedding stores below ``root`` (default: the cache), by key."""
    place = Path(root) if root is not None else default_store_root()
    folders = sorted(place.iterdir()) if place.is_dir() else []
    infos = [
        EmbeddingStore.in_folder(folder).info()
        for folder in folders
        if read_marker(folder) is not None and not folder.is_symlink()
    ]
    return sorted(infos, key=lambda info: info.key)


def chosen_stores(root: str | Path | None = None, *, key: str | None = None) -> list[StoreInfo]:
    """The stores below ``root``, or the one of ``key``; an unknown key is answered with the closest ones."""
    infos = stores(root)
    if key is None:
        return infos
    if key not in [info.key for info in infos]:
        place = root if root is not None else default_store_root()
        if not infos:
            raise InputError(f"no embeddings of {key!r} are kept in {place}; nothing is kept there")
        near = closest(key, [info.key for info in infos], n=1) or [info.key for info in infos]
        hint = f"did you mean {near[0]!r}?" if len(near) == 1 else f"kept are: {', '.join(near)}"
        raise InputError(f"no embeddings of {key!r} are kept in {place}; {hint}")
    return [info for info in infos if info.key == key]


def clear_stores(root: str | Path | None = None, *, key: str | None = None) -> list[StoreInfo]:
    """Delete the embedding stores below ``root`` (or the one of ``key``) and return what they were.

    Only folders that say that they are a store are touched, and one that holds anything else is refused whole.
    """
    infos = chosen_stores(root, key=key)
    for info in infos:
        refuse_strange_files(info.path)
    for info in infos:
        EmbeddingStore.in_folder(info.path).delete()
    return infos
