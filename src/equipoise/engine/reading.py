"""Reading ahead: threads read and decode the next batches while the function works on this one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from equipoise.data.images import anchored, decode
from equipoise.data.schema import Rejected
from equipoise.engine.job import Job
from equipoise.errors import InputError

_SHARD_END = None
_POLL = 0.1


@dataclass(frozen=True)
class Batch:
    """Rows of one shard that are ready for the function, and those that could not be made ready."""

    names: Sequence[str]
    """What each row is called in a message."""
    positions: Sequence[int]
    """Where each row stands in its shard."""
    inputs: Any
    """Row dictionaries, or an Arrow ``RecordBatch``."""
    images: Sequence[Any] | None = None
    """The decoded images beside a ``RecordBatch``."""
    rejected: Sequence[tuple[int, Rejected]] = field(default_factory=tuple)

    def __len__(self) -> int:
        return len(self.positions)

    def piece(self, start: int, stop: int) -> Batch:
        """The rows from ``start`` up to ``stop``."""
        inputs = self.inputs[start:stop] if isinstance(self.inputs, list) else self.inputs.slice(start, stop - start)
        images = None if self.images is None else self.images[start:stop]
        return Batch(self.names[start:stop], self.positions[start:stop], inputs, images)

    def row(self, index: int) -> dict[str, Any]:
        """One row without its image, for the record of what failed."""
        row = self.inputs[index] if isinstance(self.inputs, list) else self.inputs.slice(index, 1).to_pylist()[0]
        return {name: value for name, value in row.items() if name != "image"}


class ReadAhead:
    """The batches of some shards, in order, read and decoded by threads a bounded number of batches ahead.

    One thread reads the files; ``job.readers`` threads decode. At most ``job.readers + 2`` batches wait, so memory
    does not grow with the table.
    """

    def __init__(self, job: Job, indexes: Sequence[int]) -> None:
        self._job = job
        self._indexes = list(indexes)
        self._waiting: Queue[Future[Batch] | BaseException | None] = Queue(maxsize=job.readers + 2)
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(job.readers, thread_name_prefix="equipoise-decode")
        self._reader = threading.Thread(target=self._read, name="equipoise-read", daemon=True)

    def __enter__(self) -> ReadAhead:
        self._reader.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()
        self._reader.join()
        self._pool.shutdown(cancel_futures=True)

    def next_shard(self) -> Iterator[Batch]:
        """The batches of the next shard; it must be used up before the one after it is asked for."""
        while (item := self._waiting.get()) is not _SHARD_END:
            if isinstance(item, BaseException):
                raise item
            yield item.result()

    def _read(self) -> None:
        try:
            for index in self._indexes:
                start = 0
                for batch in exact_batches(_shard_batches(self._job, index), self._job.batch_size):
                    if not self._put(self._pool.submit(prepared, self._job, batch, start)):
                        return
                    start += len(batch)
                if not self._put(_SHARD_END):
                    return
        except BaseException as error:  # it belongs to whoever waits for the batches
            self._put(error)

    def _put(self, item: Future[Batch] | BaseException | None) -> bool:
        """Whether there was a place for ``item`` before the reader was told to stop."""
        while not self._stop.is_set():
            try:
                self._waiting.put(item, timeout=_POLL)
                return True
            except Full:
                continue
        return False


def _shard_batches(job: Job, index: int) -> Iterator[Any]:
    return job.table.shard_batches(index, job.columns, batch_size=job.batch_size, only_kept=job.only_kept)


def exact_batches(batches: Iterator[Any], size: int) -> Iterator[Any]:
    """The same rows in batches of exactly ``size`` (the last may be smaller), whatever the file's layout is.

    >>> parts = [pa.record_batch({"a": [1, 2, 3]}), pa.record_batch({"a": [4]}), pa.record_batch({"a": [5]})]
    >>> [batch["a"].to_pylist() for batch in exact_batches(iter(parts), 2)]
    [[1, 2], [3, 4], [5]]
    """
    held: list[Any] = []
    n_held = 0
    for batch in batches:
        while len(batch):
            piece = batch.slice(0, size - n_held)
            batch = batch.slice(len(piece))
            held.append(piece)
            n_held += len(piece)
            if n_held == size:
                yield _joined(held)
                held, n_held = [], 0
    if held:
        yield _joined(held)


def _joined(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    return pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]


def prepared(job: Job, batch: Any, start: int) -> Batch:
    """``batch`` as the function wants it; rows whose image cannot be decoded are set aside with the reason."""
    positions = range(start, start + len(batch))
    names = _row_names(job, batch, start)
    if not job.decode:
        batch = _anchored(job, batch)
        inputs = batch.to_pylist() if job.form == "rows" else batch
        return Batch(names, positions, inputs)
    images, rejected = _decoded(job, batch, names, start)
    good = [i for i, image in enumerate(images) if image is not None]
    rest = batch.drop_columns(["image"])
    if rejected:
        names, positions = [names[i] for i in good], [positions[i] for i in good]  # type: ignore[assignment]
        rest = rest.take(pa.array(good, pa.int64()))
        images = [images[i] for i in good]
    if job.form == "arrow":
        return Batch(names, positions, rest, images, rejected)
    rows = [{**row, "image": image} for row, image in zip(rest.to_pylist(), images, strict=True)]
    return Batch(names, positions, rows, None, rejected)


def _anchored(job: Job, batch: Any) -> Any:
    """``batch`` with image paths that a function may hand on: the output would look for relative ones in its folder.

    Where the input's config says where they start from, the output's says so too (``job.recorded_config``).
    """
    if "image" not in batch.schema.names or "image" not in job.schema.types or job.table.config.get("image_root"):
        return batch
    column = batch.column("image")
    data, paths = pc.struct_field(column, "bytes"), pc.struct_field(column, "path").to_pylist()
    anchored_paths = [
        path if stored else anchored({"bytes": None, "path": path}, job.table.image_root)["path"]
        for path, stored in zip(paths, data.is_valid().to_pylist(), strict=True)
    ]
    if anchored_paths == paths:
        return batch
    parts = [data, pa.array(anchored_paths, pa.string())]
    whole = pa.StructArray.from_arrays(parts, fields=list(column.type), mask=column.is_null())
    return batch.set_column(batch.schema.get_field_index("image"), batch.schema.field("image"), whole)


def _decoded(job: Job, batch: Any, names: list[str], start: int) -> tuple[list[Any], list[tuple[int, Rejected]]]:
    images: list[Any] = []
    rejected: list[tuple[int, Rejected]] = []
    root = job.table.image_root
    for i, value in enumerate(batch.column("image").to_pylist()):
        try:
            images.append(decode(value, root=root))
        except InputError as error:
            images.append(None)
            row = batch.drop_columns(["image"]).slice(i, 1).to_pylist()[0]
            rejected.append((start + i, Rejected(names[i], str(error), row)))
    return images, rejected


def _row_names(job: Job, batch: Any, start: int) -> list[str]:
    if not job.key:
        return [f"row {start + i}" for i in range(len(batch))]
    columns = [batch.column(name).to_pylist() for name in job.key]
    return [", ".join(map(str, values)) for values in zip(*columns, strict=True)]
