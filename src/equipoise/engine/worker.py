"""The worker: holds the function (and its model) once, and turns batches of one shard into the rows to write."""

from __future__ import annotations

import errno
import functools
import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from equipoise.data.failpoints import reached
from equipoise.data.rows import Rejected
from equipoise.data.shards import ShardInfo, shard_name, write_shard
from equipoise.engine.job import Job, JobError
from equipoise.engine.notes import write_notes
from equipoise.engine.outcome import Outcome, outcome_of, reason_of, rejected_row
from equipoise.engine.reading import Batch
from equipoise.errors import MissingExtraError, UnknownNameError

__all__ = ["ShardResult", "Worker", "write_result"]

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
        errors = [error for _, error in sorted(run.errors, key=lambda found: found[0])]
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
        self._keep(Outcome(errors=list(batch.rejected)))
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
                self._keep(Outcome(errors=[rejected_row(piece, 0, failure.reason)]))
            else:
                self._one_by_one(piece)
            start += len(piece)

    def _one_by_one(self, piece: Batch) -> None:
        """A row that breaks its batch costs only itself."""
        for i in range(len(piece)):
            row = piece.piece(i, i + 1)
            outcome, failure = self._attempt(row)
            self._keep(outcome or Outcome(errors=[rejected_row(row, 0, failure.reason if failure else "")]))

    def _attempt(self, piece: Batch) -> tuple[Outcome | None, _Failure | None]:
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
        _free_memory()

    def _keep(self, outcome: Outcome) -> None:
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
            "mend it and run again"
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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` says that memory ran out; torch's errors are known by name, for torch may not be there.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("out of memory"))
    (True, False)
    """
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def _free_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():  # pragma: no cover
        torch.cuda.empty_cache()
