"""The worker: holds the function (and its model) once, and turns batches of one shard into the rows to write.

What a function returned for some rows, sorted into rows to write and rows that failed.
"""

from __future__ import annotations

import errno
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from equipoise.data.arrays import batches_of, record_batch
from equipoise.data.atomic import reached
from equipoise.data.schema import Rejected
from equipoise.data.shards import ShardInfo, shard_name, write_shard
from equipoise.engine.job import Job, JobError
from equipoise.engine.progress import write_notes
from equipoise.engine.reading import Batch
from equipoise.errors import InputError, MissingExtraError, UnknownNameError
from equipoise.memory import free_memory, is_out_of_memory

_LONGEST_REASON = 1000
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


@dataclass
class ShardOutcome:
    """Arrow batches in the order of the input, and the failures with their positions in the shard."""

    batches: list[Any] = field(default_factory=list)
    errors: list[tuple[int, Rejected]] = field(default_factory=list)
    n_good: int = 0
    """How many input rows did not fail; each may have given any number of output rows."""


def outcome_of(job: Job, piece: Batch, returned: Any) -> ShardOutcome:
    """Sort what the function ``returned`` for ``piece``.

    It must be Arrow data or a DataFrame of any number of rows, or one item for each input row: a row, a list of
    rows, an exception, or a :class:`Rejected`. Anything else is the job's fault.
    """
    if isinstance(returned, pa.Table | pa.RecordBatch) or type(returned).__module__.partition(".")[0] == "pandas":
        batches = list(batches_of(returned, job.schema, where=job.function_name))
        _check_layer_ids(job, piece, batches)
        return ShardOutcome(batches, n_good=len(piece))
    return _sorted_items(job, piece, _items(job, piece, returned))


def rejected_row(piece: Batch, index: int, reason: str) -> tuple[int, Rejected]:
    """The failure of one row of ``piece``, with its position in the shard."""
    return piece.positions[index], Rejected(piece.names[index], reason, piece.row(index))


def reason_of(error: BaseException) -> str:
    """The reason as it is recorded: one line, the same in every run.

    >>> reason_of(KeyError("age"))
    "KeyError: 'age'"
    >>> reason_of(InputError("the image is empty (0 bytes)"))
    'the image is empty (0 bytes)'
    >>> reason_of(ValueError("<Thing object at 0x7f51c0ffee10> is odd"))
    'ValueError: <Thing object at 0x…> is odd'
    """
    text = " ".join(str(error).split())
    if not isinstance(error, InputError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return _ADDRESS.sub("0x…", text)[:_LONGEST_REASON]


def _items(job: Job, piece: Batch, returned: Any) -> list[Any]:
    if returned is None or isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise JobError(
            f"the function {job.function_name} returned {type(returned).__name__}; it must return a list with one "
            "item for each row it was given, or an Arrow table"
        )
    items = list(returned)
    if len(items) != len(piece):
        raise JobError(
            f"the function {job.function_name} returned {len(items)} items for {len(piece)} rows; it must return one "
            "for each row (a list of rows where one row gives several or none)"
        )
    return items


def _sorted_items(job: Job, piece: Batch, items: list[Any]) -> ShardOutcome:
    outcome = ShardOutcome()
    good: list[tuple[int, list[dict[str, Any]]]] = []
    for index, item in enumerate(items):
        if isinstance(item, Rejected):
            outcome.errors.append((piece.positions[index], replace(item, where=item.where or piece.names[index])))
        elif isinstance(item, Exception):
            outcome.errors.append(rejected_row(piece, index, reason_of(item)))
        else:
            good.append((index, _rows_of(job, piece, index, item)))
    try:
        _add_rows(outcome, job, [row for _, rows in good for row in rows])
        outcome.n_good = len(good)
    except InputError:
        _add_one_by_one(outcome, job, piece, good)
    return outcome


def _rows_of(job: Job, piece: Batch, index: int, item: Any) -> list[dict[str, Any]]:
    rows = [item] if isinstance(item, Mapping) else item
    if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
        raise JobError(
            f"the function {job.function_name} returned {type(item).__name__} for the row {piece.names[index]!r}; "
            "an item is a row, a list of rows, an exception or a Rejected"
        )
    copies = [dict(row) for row in rows]
    if job.own_id:
        own = _image_id(piece, index)
        for row in copies:
            row.setdefault(job.own_id, own)
        if job.schema.kind == "layer" and [row["image_id"] for row in copies] not in ([own], []):
            raise JobError(
                f"the function {job.function_name} returned rows for {[row['image_id'] for row in copies]} when given "
                f"the image {own!r}; a layer has one row or none for each image"
            )
    return copies


def _image_id(piece: Batch, index: int) -> Any:
    if isinstance(piece.inputs, list):
        return piece.inputs[index]["image_id"]
    return piece.inputs.column("image_id")[index].as_py()


def _add_rows(outcome: ShardOutcome, job: Job, rows: list[dict[str, Any]]) -> None:
    if rows:
        outcome.batches.append(record_batch(rows, job.schema))


def _add_one_by_one(
    outcome: ShardOutcome, job: Job, piece: Batch, good: list[tuple[int, list[dict[str, Any]]]]
) -> None:
    """A value that its column cannot hold costs the row that it belongs to."""
    for index, rows in good:
        try:
            _add_rows(outcome, job, rows)
            outcome.n_good += 1
        except InputError as error:
            outcome.errors.append(rejected_row(piece, index, reason_of(error)))


def _check_layer_ids(job: Job, piece: Batch, batches: list[Any]) -> None:
    if job.schema.kind != "layer":
        return
    image_ids = [image_id for batch in batches for image_id in batch.column("image_id").to_pylist()]
    given = {_image_id(piece, index) for index in range(len(piece))}
    if len(set(image_ids)) < len(image_ids) or not set(image_ids) <= given:
        raise JobError(
            f"the function {job.function_name} returned rows for images that it was not given, or two for one image; "
            "a layer has one row or none for each image"
        )


OnBatch = Callable[[int, int], None]

# A row cannot cause these: something is not installed, a name is wrong, the disk is full, too many files are open.
_JOBS_FAULT = (ImportError, MissingExtraError, UnknownNameError)
_JOBS_FAULT_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EROFS)


@dataclass(frozen=True)
class ShardResult:
    """Everything that is written for one shard."""

    index: int
    batches: list[Any]
    errors: list[Rejected]
    notes: list[dict[str, Any]]
    n_good: int

    @property
    def all_failed(self) -> bool:
        """Whether there were rows and none of them succeeded."""
        return bool(self.errors) and not self.n_good


def write_result(job: Job, result: ShardResult) -> ShardInfo:
    """Write the shard: its notes and errors first, so that a shard that exists has both beside it."""
    reached("map.before_write")
    write_notes(job.output, result.index, result.notes)
    info = write_shard(job.output, result.index, iter(result.batches), job.schema, errors=result.errors)
    reached("map.after_write")
    return info


class Worker:
    """Builds the function once and runs it over shards."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._function = _built(job)

    def run(
        self, index: int, batches: Iterable[Batch], *, failed_before: int = 0, on_batch: OnBatch | None = None
    ) -> ShardResult:
        """The result of shard ``index``.

        ``failed_before``: how many rows before this shard failed without a success since. ``on_batch`` is told
        the number of rows and of failures of each batch.
        """
        run = _ShardRun(self._job, self._function, index, failed_before)
        for batch in batches:
            reached("map.before_batch")
            n_errors = len(run.errors)
            run.take(batch)
            if on_batch:
                on_batch(len(batch) + len(batch.rejected), len(run.errors) - n_errors)
        errors = [error for _, error in sorted(run.errors, key=lambda placed: placed[0])]
        return ShardResult(index, run.batches, errors, run.notes, run.n_good)


def _built(job: Job) -> Callable[..., Any]:
    target = job.fn
    while isinstance(target, functools.partial):
        target = target.func
    function = job.fn() if isinstance(target, type) else job.fn
    return functools.partial(_with_model, function, job.setup()) if job.setup else function


def _with_model(function: Callable[..., Any], model: Any, *inputs: Any) -> Any:
    return function(*inputs, model)


class _ShardRun:
    """One shard's work: what came out so far, and how large a batch may be."""

    def __init__(self, job: Job, function: Callable[..., Any], index: int, failed_before: int) -> None:
        self.batches: list[Any] = []
        self.errors: list[tuple[int, Rejected]] = []
        self.notes: list[dict[str, Any]] = []
        self.n_good = 0
        self._job = job
        self._function = function
        self._index = index
        self._limit = job.batch_size
        self._failed_in_a_row = failed_before

    def take(self, batch: Batch) -> None:
        """Run the function over ``batch``, in smaller pieces where memory is short."""
        self._keep(ShardOutcome(errors=list(batch.rejected)))
        start = 0
        while start < len(batch):
            piece = batch.piece(start, min(start + self._limit, len(batch)))
            outcome, failure = self._attempt(piece)
            if failure and failure.out_of_memory and len(piece) > 1:
                self._halve(piece)
                continue
            if outcome is not None:
                self._keep(outcome)
            elif failure and len(piece) == 1:
                self._keep(ShardOutcome(errors=[rejected_row(piece, 0, failure.reason)]))
            else:
                self._one_by_one(piece)
            start += len(piece)

    def _one_by_one(self, piece: Batch) -> None:
        """A row that breaks its batch costs only itself."""
        for i in range(len(piece)):
            row = piece.piece(i, i + 1)
            outcome, failure = self._attempt(row)
            self._keep(outcome or ShardOutcome(errors=[rejected_row(row, 0, failure.reason if failure else "")]))

    def _attempt(self, piece: Batch) -> tuple[ShardOutcome | None, _Failure | None]:
        inputs = (piece.inputs,) if piece.images is None else (piece.inputs, piece.images)
        try:
            return outcome_of(self._job, piece, self._function(*inputs)), None
        except JobError:
            raise
        except SystemExit as error:
            raise JobError(self._stopped(f"asked to exit (code {error.code!r})")) from error
        except Exception as error:
            if is_jobs_fault(error):
                raise JobError(self._stopped(f"cannot run: {reason_of(error)}")) from error
            # Only the reason is kept: the exception's frames would hold the memory that a retry needs.
            return None, _Failure(reason_of(error), is_out_of_memory(error))

    def _halve(self, piece: Batch) -> None:
        self._limit = (len(piece) + 1) // 2
        self.notes.append({"row": piece.positions[0], "out_of_memory_with": len(piece), "batch_size": self._limit})
        free_memory()

    def _keep(self, outcome: ShardOutcome) -> None:
        self.batches += outcome.batches
        self.n_good += outcome.n_good
        self.errors += outcome.errors
        self._failed_in_a_row = 0 if outcome.n_good else self._failed_in_a_row + len(outcome.errors)
        most = self._job.max_failures
        if most is not None and self._failed_in_a_row >= most and outcome.errors:
            name, reason = outcome.errors[-1][1].where, outcome.errors[-1][1].reason
            raise JobError(
                self._stopped(
                    f"failed for {self._failed_in_a_row} rows one after the other, the last of them {name!r}: {reason}"
                )
            )

    def _stopped(self, what: str) -> str:
        return (
            f"the function {self._job.function_name} {what} (in {shard_name(self._index)}); finished shards are kept: "
            "fix it and run again"
        )


@dataclass(frozen=True)
class _Failure:
    reason: str
    out_of_memory: bool


def is_jobs_fault(error: BaseException) -> bool:
    """Whether no row can be blamed for ``error``.

    >>> is_jobs_fault(OSError(errno.ENOSPC, "no space left")), is_jobs_fault(OSError(errno.ENOENT, "no such file"))
    (True, False)
    """
    causes = (error, error.__cause__)
    full = any(isinstance(cause, OSError) and cause.errno in _JOBS_FAULT_NUMBERS for cause in causes)
    return full or isinstance(error, _JOBS_FAULT)
