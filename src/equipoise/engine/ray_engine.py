"""The Ray engine: one retryable task per shard, on a pool of actors that each hold the function once.

The actors write the shards with the same writer as the local engine, so the table is the same to the byte. All
machines must see the input and the output under the same path.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.data.shards import ShardInfo, shard_name
from equipoise.engine.job import Job, JobError
from equipoise.engine.ledger import Ledger, must_wait
from equipoise.engine.progress import Interrupts, Progress
from equipoise.engine.reading import ReadAhead
from equipoise.engine.worker import ShardResult, Worker, write_result
from equipoise.errors import InputError, MissingExtraError

RETRIES = 3
"""How often a shard is tried again after its worker process died."""

_LOOK_AT_STOP_EVERY = 0.5


class ShardActor:
    """What runs in a Ray worker process: builds the function at its first shard and keeps it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._worker: Worker | None = None

    def run(self, index: int) -> ShardInfo | ShardResult | InputError:
        """Do one shard: what was written, or what must wait, or why the job cannot go on.

        An error of the user's is handed back as a value, because Ray would wrap it.
        """
        try:
            if self._worker is None:
                self._worker = Worker(self._job)
            with ReadAhead(self._job, [index]) as reader:
                result = self._worker.run(index, reader.next_shard())
            return result if must_wait(self._job, result) else write_result(self._job, result)
        except InputError as error:
            return error


def run_ray(
    job: Job,
    todo: Sequence[int],
    ledger: Ledger,
    progress: Progress,
    stop: Interrupts,
    *,
    workers: int | None = None,
    resources: Mapping[str, Any] | None = None,
) -> bool:
    """Do the shards ``todo`` on Ray; whether all were done before ``stop`` was requested.

    ``workers``: how many actors; by default as many as the cluster can hold, at most one per shard.
    ``resources``: what each needs, as ``ray.remote`` takes it, such as ``{"num_gpus": 1}``.
    """
    ray = _ray()
    needs = {"num_cpus": 1, **(resources or {})}
    started_here = not ray.is_initialized()
    if started_here:
        # Connects to the cluster that RAY_ADDRESS names, or starts Ray on this machine.
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="warning")
    try:
        actor_class = ray.remote(ShardActor).options(max_restarts=RETRIES, max_task_retries=RETRIES, **needs)
        n_actors = min(workers or _room(ray, needs), len(todo))
        actors = [actor_class.remote(job) for _ in range(n_actors)]
        try:
            return _dispatched(ray, actors, job, todo, ledger, progress, stop)
        finally:
            for actor in actors:
                ray.kill(actor)
    finally:
        if started_here:
            ray.shutdown()


def needs_of(*models: Any) -> dict[str, Any]:
    """What Ray must give a worker so that ``models`` run there as they do here: a GPU, where one of them is on a GPU.

    >>> needs_of(None, "mini:clip")
    {}
    """
    kinds = [getattr(getattr(model, "device", None), "type", "") for model in models]
    return {"num_gpus": 1} if "cuda" in kinds else {}


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MissingExtraError("engine='ray'", "ray") from error
    return ray


def _room(ray: Any, needs: Mapping[str, Any]) -> int:
    """How many actors with these needs the cluster can hold at once."""
    there = ray.cluster_resources()
    named = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    wanted = {named[name]: amount for name, amount in needs.items() if name in named}
    wanted |= needs.get("resources", {})
    workers_that_fit = [int(there.get(name, 0) // amount) for name, amount in wanted.items() if amount]
    if workers_that_fit and min(workers_that_fit) < 1:
        raise InputError(f"the Ray cluster cannot hold a worker with {dict(needs)}; it has {there}")
    return min(workers_that_fit, default=1)


def _dispatched(
    ray: Any,
    actors: list[Any],
    job: Job,
    todo: Sequence[int],
    ledger: Ledger,
    progress: Progress,
    stop: Interrupts,
) -> bool:
    idle, left = deque(actors), deque(todo)
    running: dict[Any, tuple[Any, int]] = {}
    while left or running:
        while idle and left and not stop.requested:
            actor, index = idle.popleft(), left.popleft()
            running[actor.run.remote(index)] = (actor, index)
        if not running:
            return False
        # The timeout lets Python run the SIGINT handler.
        done, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_AT_STOP_EVERY)
        for reference in done:
            actor, index = running.pop(reference)
            _take(_answer(ray, reference, index), job, ledger, progress)
            idle.append(actor)
    return True


def _answer(ray: Any, reference: Any, index: int) -> ShardInfo | ShardResult | InputError:
    try:
        answer: ShardInfo | ShardResult | InputError = ray.get(reference)
    except ray.exceptions.RayActorError as error:
        raise JobError(
            f"the worker process died {RETRIES + 1} times over {shard_name(index)} (memory, or a crash in a library); "
            "finished shards are kept: remove the cause and run again, perhaps with fewer workers"
        ) from error
    return answer


def _take(answer: ShardInfo | ShardResult | InputError, job: Job, ledger: Ledger, progress: Progress) -> None:
    if isinstance(answer, InputError):
        raise answer
    if isinstance(answer, ShardResult):
        ledger.take(answer)
        failed = len(answer.errors)
    else:
        ledger.note(answer)
        failed = answer.n_errors
    index = answer.index
    progress.advance(job.table.shards[index].rows, failed=failed)
