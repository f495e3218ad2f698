"""The local engine: this process, with threads that read and decode ahead of the function."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.data.failpoints import reached
from equipoise.engine.interrupts import Interrupts
from equipoise.engine.job import Job
from equipoise.engine.ledger import Ledger
from equipoise.engine.progress import Progress
from equipoise.engine.reading import ReadAhead
from equipoise.engine.worker import Worker

__all__ = ["run_local"]


def run_local(job: Job, todo: Sequence[int], ledger: Ledger, progress: Progress, stop: Interrupts) -> bool:
    """Do the shards ``todo`` one after the other; whether all were done before ``stop`` was requested."""
    worker = Worker(job)
    with ReadAhead(job, todo) as reader:
        for index in todo:
            if stop.requested:
                return False
            reached("map.before_shard")
            n_before = progress.n_done
            result = worker.run(
                index,
                reader.next_shard(),
                failed_before=ledger.n_failed_in_a_row,
                on_batch=lambda n, failed: progress.advance(n, failed=failed),
            )
            ledger.take(result)
            left_out = n_before + job.table.shards[index].rows - progress.n_done
            if left_out:  # rows that a filter dropped are done with, too
                progress.advance(left_out)
    return True
