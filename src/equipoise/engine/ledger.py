"""The ledger of a run: which shards are written, and which wait because nothing in them succeeded."""

from __future__ import annotations

from equipoise.data.shards import ShardInfo
from equipoise.data.writer import TableWriter
from equipoise.engine.job import Job, JobError
from equipoise.engine.worker import ShardResult, write_result


class Ledger:
    """Takes the results of shards as they come.

    A shard in which every row failed is held back until some other row succeeds: if a server went down or a folder
    is missing, the run stops, and those rows are not recorded as failed for good but done again by the next run.
    """

    def __init__(self, job: Job, writer: TableWriter) -> None:
        self._job = job
        self._writer = writer
        self._held: list[ShardResult] = []
        self._any_written = bool(writer.completed_shards())

    @property
    def n_failed_in_a_row(self) -> int:
        """How many rows failed since the last success, in the shards held back."""
        return sum(len(result.errors) for result in self._held)

    def take(self, result: ShardResult) -> None:
        """Write ``result``, or hold it back if nothing in it succeeded."""
        if not must_wait(self._job, result):
            self.note(write_result(self._job, result))
            return
        self._held.append(result)
        most = self._job.max_failures
        if most is not None and self.n_failed_in_a_row >= most:
            raise self._stopped(f"{self.n_failed_in_a_row} rows failed one after the other")

    def note(self, info: ShardInfo) -> None:
        """A shard in which something succeeded was written: now those held back may be written too."""
        self._writer.add(info)
        self._any_written = True
        self._release()

    def close(self) -> None:
        """The run is at its end: write what was held back, unless nothing succeeded at all."""
        if self._held and not self._any_written:
            raise self._stopped("every row failed")
        self._release()

    def _release(self) -> None:
        for result in self._held:
            self._writer.add(write_result(self._job, result))
        self._held = []

    def _stopped(self, what: str) -> JobError:
        last = self._held[-1].errors[-1]
        return JobError(
            f"{what} in {self._job.table.path}, the last of them {last.where!r}: {last.reason}; none of these rows "
            "was written: remove the cause and run again (max_failures=None records them and goes on)"
        )


def must_wait(job: Job, result: ShardResult) -> bool:
    """Whether a shard is not to be written before another one succeeded."""
    return result.all_failed and job.max_failures is not None
