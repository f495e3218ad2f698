"""``engine.map``: a function over the shards of a table, resumable, here or on Ray.

The local engine: this process, with threads that read and decode ahead of the function.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.data.atomic import reached
from equipoise.data.layers import layer_place, layer_schema
from equipoise.data.schema import TableSchema, schema_for
from equipoise.data.table import Table
from equipoise.data.writer import TableWriter
from equipoise.engine.job import Form, Interrupted, Job, recorded_config, refuse_other_run
from equipoise.engine.ledger import Ledger
from equipoise.engine.progress import Interrupts, NoProgress, Progress, told_on_stderr
from equipoise.engine.ray_engine import run_ray
from equipoise.engine.reading import ReadAhead
from equipoise.engine.worker import Worker
from equipoise.errors import InputError, UnknownNameError


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


ENGINES = ("local", "ray")
_MOST_READERS = 4


def map(
    fn: Callable[..., Any],
    input: Table | str | Path,
    output: str | Path,
    *,
    columns: Sequence[str] | None = None,
    schema: TableSchema | str = "images",
    config: Mapping[str, Any] | None = None,
    setup: Callable[[], Any] | None = None,
    form: Form = "rows",
    decode: bool = False,
    only_kept: bool = False,
    batch_size: int = 32,
    engine: str = "local",
    workers: int | None = None,
    readers: int | None = None,
    resources: Mapping[str, Any] | None = None,
    max_failures: int | None = 100,
    on_interrupt: Callable[[str], None] = told_on_stderr,
    progress: bool = True,
    wait: float = 0.0,
) -> Table:
    """Run a function over the rows of a table in batches, into another table.

    ``fn(rows)`` takes a list of row dictionaries and returns a list with one item for each: a row, a list of rows
    (where one row gives several or none), an exception or a :class:`~equipoise.data.Rejected` (that row failed);
    or an Arrow table or DataFrame of any length. A row without ``image_id`` (``id``) gets its input's.

    Shard ``i`` of the output is made from shard ``i`` of the input and appears whole. A run that was stopped goes on
    where it was when called again with the same arguments, and ends with the same bytes; with other arguments it
    is refused. A row that fails costs itself and is kept in ``_errors/`` with the reason.

    Args:
        fn: must depend on its rows and its settings alone; it may be a class, built once for each worker.
        input: the table, or its folder.
        output: the folder of the new table.
        columns: those that ``fn`` is given, by default all but ``image``; the row's id is always there.
        schema: of the output, from :func:`equipoise.data.schema_for`, or the name of a kind.
        config: the settings that the result depends on; they are recorded in the table.
        setup: builds a model once for each worker, handed to ``fn`` as its last argument.
        form: ``"arrow"`` calls ``fn(record_batch)``, and ``fn(record_batch, images)`` with ``decode``.
        decode: give ``row["image"]`` as a decoded Pillow image (threads decode ahead).
        only_kept: leave out rows that a filter dropped.
        batch_size: at most so many rows at a time; halved for the rest of a shard when memory runs out.
        engine: ``"local"`` or ``"ray"``.
        workers: how many, on Ray; as many as fit unless given.
        readers: threads that decode ahead, for each worker; one for each processor, but at most four, unless given.
        resources: what each worker needs, on Ray, such as ``{"num_gpus": 1}``.
        max_failures: so many failed rows without a success in between are the job's own fault and stop it; ``None``
            records any number.
        on_interrupt: is told what happens at Ctrl-C, by default on standard error.
        progress: whether rate and time left are shown.
        wait: seconds to wait for another process that is writing ``output``.

    Returns:
        The new table.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> people = Table.create(f"{folder}/in", [{"image_id": "a", "caption": "A dog"}, {"image_id": "b"}])
    >>> def described(rows):
    ...     return [{"model": "length", "caption": str(len(row["caption"]))} for row in rows]
    >>> made = map(described, people, f"{folder}/out", schema="captions", progress=False)
    >>> made.to_pandas()["caption"].tolist(), made.errors()["reason"].tolist()
    (['5'], ["TypeError: object of type 'NoneType' has no len()"])
    """
    table = input if isinstance(input, Table) else Table.open(input)
    job = Job(
        fn=fn,
        setup=setup,
        table=_with_absolute_paths(table),
        output=Path(output).absolute(),
        schema=schema if isinstance(schema, TableSchema) else schema_for(schema),
        columns=_read_columns(table, columns, decode),
        form=form,
        decode=decode,
        only_kept=only_kept,
        batch_size=batch_size,
        readers=readers if readers is not None else min(_MOST_READERS, os.cpu_count() or 1),
        max_failures=max_failures,
    )
    _check(job, engine, workers)
    recorded, plan = recorded_config(job, config or {}), {"batch_size": batch_size}
    refuse_other_run(job, recorded, plan)
    writer = TableWriter(
        job.output, job.schema, config=recorded, parents=table.fingerprints, plan=plan, resume=True, wait=wait
    )
    with writer:
        if writer.finished:
            return writer.finish()
        todo, n_done = _todo(job, writer)
        bar = (Progress if progress else NoProgress)(job.output.name, total=len(table), done=n_done)
        ledger = Ledger(job, writer)
        with Interrupts(on_interrupt) as stop:
            with bar:
                if engine == "ray" and todo:
                    all_done = run_ray(job, todo, ledger, bar, stop, workers=workers, resources=resources)
                else:
                    all_done = run_local(job, todo, ledger, bar, stop) if todo else True
            if all_done:
                ledger.close()
                _remove_temporary_files(job.output)
                reached("map.before_finish")
                finished = writer.finish(len(table.shards))
            if stop.requested:  # also in the last shard: whoever called may have further steps in mind
                sentence = _how_to_resume(job, writer)
                on_interrupt(sentence)
                raise Interrupted(sentence)
        return finished


def map_layer(
    fn: Callable[..., Any],
    table: Table | str | Path,
    name: str,
    *,
    new_columns: Mapping[str, str] | Iterable[str] = (),
    axes: Iterable[str] = (),
    path: str | Path | None = None,
    **options: Any,
) -> Table:
    """Run a function over a table of images and write what it returns as a layer; no image is copied.

    Args:
        fn: as for :func:`map`; it returns one row or none for each image.
        table: of images, or its folder.
        name: of the layer, as ``dropped_by`` has it for rows that it drops.
        new_columns: the layer's columns, as ``columns`` of :func:`equipoise.data.schema_for`.
        axes: columns of the layer that hold groups.
        path: the folder of the layer, by whose name it then goes; by default ``_layers/<name>`` in the table's.
        **options: those of :func:`map`.

    Returns:
        The table, read with its layers and the new one.

    >>> import tempfile
    >>> people = Table.create(tempfile.mkdtemp() + "/in", [{"image_id": "a", "seed": 3}, {"image_id": "b", "seed": 8}])
    >>> def judged(rows):
    ...     return [{"score_seed": float(row["seed"]), "keep": row["seed"] > 5} for row in rows]
    >>> people = map_layer(judged, people, "high", new_columns=["score_seed", "keep"], progress=False)
    >>> people.to_pandas(["image_id"], only_kept=True)["image_id"].tolist()
    ['b']
    """
    opened = table if isinstance(table, Table) else Table.open(table)
    target = layer_place(opened, name, path)
    schema = layer_schema(opened, name, columns=new_columns, axes=axes)
    layer = map(fn, opened, target, schema=schema, **options)
    return opened.with_layers([*opened.layers, layer])


def _with_absolute_paths(table: Table) -> Table:
    """The same table under a path that means the same in another process."""
    layers = [Table.open(layer.path.absolute()) for layer in table.layers]
    return Table.open(table.path.absolute(), layers=layers)


def _read_columns(table: Table, columns: Sequence[str] | None, decode: bool) -> list[str]:
    if isinstance(columns, str):
        raise InputError(f"columns must be a list of names, not the text {columns!r}; write [{columns!r}]")
    named = [name for name in table.columns if name != "image"] if columns is None else list(columns)
    for name in [*named, *(["image"] if decode else [])]:
        if name not in table.types:
            raise UnknownNameError(f"column in {table.path}", name, table.types)
    key = table.schema.key or (["image_id"] if "image_id" in table.types else [])
    return list(dict.fromkeys([*key, *named, *(["image"] if decode else [])]))


def _check(job: Job, engine: str, workers: int | None) -> None:
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    if engine == "local" and workers not in (None, 1):
        raise InputError(f"workers={workers} was given, but the local engine is one worker; use engine='ray'")
    if not callable(job.fn):
        raise InputError(f"fn must be a function or a class, not {type(job.fn).__name__}")
    if job.form not in ("rows", "arrow"):
        raise InputError(f"form must be 'rows' or 'arrow', not {job.form!r}")
    for name, value in (("batch_size", job.batch_size), ("readers", job.readers), ("workers", workers)):
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, not {value}")
    if job.max_failures is not None and job.max_failures < 1:
        raise InputError(f"max_failures must be at least 1, or None for any number, not {job.max_failures}")
    if job.only_kept and "keep" not in job.table.types:
        raise InputError(f"only_kept was asked for, but {job.table.path} has no column 'keep'; open it with its layers")
    if job.output.resolve() == job.table.path.resolve():
        raise InputError(f"output {job.output} is the input; nothing is changed in place, choose another path")


def _todo(job: Job, writer: TableWriter) -> tuple[list[int], int]:
    """The shards that are not there yet, and how many input rows are behind the others."""
    there = set(writer.completed_shards())
    todo = [shard.index for shard in job.table.shards if shard.index not in there]
    return todo, sum(shard.rows for shard in job.table.shards if shard.index in there)


def _how_to_resume(job: Job, writer: TableWriter) -> str:
    there = writer.completed_shards()
    done = f"stopped with {len(there)} of {len(job.table.shards)} shards of {job.output} done"
    command = shlex.join(sys.argv) if sys.argv and sys.argv[0] not in ("", "-c") else "the same call"
    return f"{done}; go on with: {command}"


def _remove_temporary_files(folder: Path) -> None:
    """Left behind by Ray workers that died; the shards themselves were made again."""
    for place in (folder, folder / "_errors", folder / "_notes"):
        for leftover in place.glob(".part-*.tmp"):
            leftover.unlink(missing_ok=True)
