"""Train a task on a table into a run folder that ``hf:<folder>`` opens.

The folder holds the model, ``losses.csv`` and ``run.json``; while it is being trained, ``_work`` holds the checkpoint
that a killed run goes on from.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.labels import set_names
from equipoise.data.runs import RunFolder, claimed, read_run, same_only
from equipoise.data.settings import fitting_all
from equipoise.engine.progress import NoProgress, Progress
from equipoise.errors import InputError
from equipoise.models.folders import key_of
from equipoise.train.batches import Mixed, ReadAheadSteps, Stream, mixed, rows_at
from equipoise.train.loop import Course, Validation, one_thread, run
from equipoise.train.parameters import choose_parameters, count
from equipoise.train.processes import Processes, started_processes
from equipoise.train.rows import Parts, TrainingRows, note_on_left_out, parted, places_apart, refuse_other_pictures
from equipoise.train.settings import TrainSettings
from equipoise.train.task import TASKS, Inputs, Task, checkpoint_of

LOSSES = "losses.csv"
_WORK = "_work"
_JUDGED_BATCHES = 50
"""At most so many batches judge."""
Mixture = Mapping[str | Path | Table, float]


@dataclass(frozen=True)
class Trained:
    """What came of it."""

    folder: Path
    steps: int
    """Steps taken; fewer than planned where patience ended it."""
    loss: float
    """Mean of the last steps, up to fifty."""
    validation: float | None
    """The validation loss of the weights that were kept."""
    subjects: tuple[str, ...]
    """The subjects that it has learnt from."""


@dataclass
class Training:
    """Everything that a run needs, made from a table and a model but not begun."""

    task: Task
    model: Any
    settings: TrainSettings
    parts: Parts
    streams: list[Mixed]
    judges: Stream | None
    steps: int
    processes: Processes
    merge: Callable[[], None]
    """Put what was trained beside the weights into them."""
    of: dict[str, Any]
    spec: str

    @property
    def rows(self) -> TrainingRows:
        """The rows of the main table."""
        return self.streams[0].rows

    def inputs_at(self, step: int) -> Inputs:
        """What the loss reads at a step."""
        return self.task.inputs(rows_at(self.streams, step, self.processes, images=self.task.looks), step)

    def loss(self, model: Any, inputs: Inputs) -> Any:
        """This process's part of the loss."""
        return self.task.loss(model, placed(inputs, self.processes.device), self.processes)

    @property
    def learnt_subjects(self) -> tuple[str, ...]:
        """The subjects that are learnt from, in the main table and in those that are mixed in."""
        return tuple(sorted({subject for part in self.streams for subject in _subjects(part.rows, part.places)}))

    def subjects(self, places: Any) -> tuple[str, ...]:
        """The subjects of these rows of the main table."""
        return _subjects(self.rows, places)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which rows neither judge nor teach though they are there, and why."""
        n = self.parts.n_left_out
        judging = self.rows.labels.iloc[self.parts.validation]
        notes = [note_on_left_out(part.rows, part.places, judging) for part in self.streams[1:]]
        if n:
            where = "of the validation split share a subject, a set or a source with training and do not judge"
            notes.insert(0, f"{n:,} images {where}")
        return tuple(note for note in notes if note)

    def validation(self) -> Validation | None:
        """How the model is judged while it learns."""
        if self.judges is None:
            return None
        n_batches = min(_JUDGED_BATCHES, max(1, int(self.judges.steps_per_epoch)))
        batches = [self.judges.batch_at(number) for number in range(n_batches)]

        def loss(model: Any) -> float:
            total = 0.0
            for number, places in enumerate(batches):
                mine = self.rows.rows(self.processes.share(places).tolist(), images=self.task.looks)
                total += self.processes.total(float(self.loss(model, self.task.inputs(mine, number))))
            return total / len(batches)

        every = self.settings.val_every or max(1, self.steps // 10)
        return Validation(loss, every, self.settings.patience)


def prepared_training(
    task: str | Task,
    table: str | Path | Table,
    *,
    init: str,
    layers: Iterable[str | Path] = (),
    mixture: Mixture | None = None,
    options: Mapping[str, Any] | None = None,
    device: str = "auto",
    processes: Processes | None = None,
    settings: TrainSettings | None = None,
    choose: Callable[[TrainingRows], Parts] | None = None,
) -> Training:
    """Open the model and the tables and decide what every step will learn from; nothing is trained or written.

    ``choose`` decides which rows are learnt from and which judge, where :func:`~equipoise.train.rows.parted` should
    not.
    """
    how = settings or TrainSettings()
    learner: Task = _task(task, options)
    opened = _opened(table)
    opened = opened.with_layers([*opened.layers, *layers])
    rows = TrainingRows(opened, learner.columns)
    others = {TrainingRows(_opened(t), learner.columns): share for t, share in (mixture or {}).items()}
    parts = choose(rows) if choose else parted(rows, how.val_share, how.seed)
    units = set_names(rows.labels).tolist() if how.whole_sets and "set_id" in rows.labels else None
    if how.whole_sets and (units is None or not rows.labels["set_id"].notna().any()):
        raise InputError(f"{rows.name}: the table has no sets (set_id) to keep whole; leave whole_sets out")
    sampler = getattr(learner, "copies", None)
    copies = sampler(rows, parts.train, how.seed) if sampler else None
    judging = rows.labels.iloc[parts.validation]
    for other in others:
        refuse_other_pictures(rows, parts.validation, other)
    learnt = {other: places_apart(other, judging) for other in others}
    streams = mixed(rows, parts.train, others, how.batch, how.seed, copies=copies, units=units, places_of=learnt)
    judges = Stream(parts.validation, how.batch, how.seed, units=units) if len(parts.validation) else None
    if how.val_share and how.patience and judges is None:
        raise InputError(f"{rows.name}: no row is left to judge by, which patience needs")
    epochs = how.epochs or 1.0
    steps = how.steps or max(1, round(epochs * streams[0].stream.steps_per_epoch))
    checkpoint = checkpoint_of(init)
    model = learner.open(checkpoint, rows, fresh=how.fresh)
    where = processes or started_processes(device)
    new = tuple(getattr(learner, "new_parts", ()))
    core = learner.core(model) if hasattr(learner, "core") else model
    merge = choose_parameters(core, freeze=how.freeze, last_layers=how.last_layers, low_rank=how.low_rank, new=new)
    model.to(where.device)
    of = {
        "task": learner.name,
        "init": key_of(checkpoint.model_type, checkpoint.weights, checkpoint.config),
        "table": list(opened.fingerprints),
        "mixture": [[list(other.table.fingerprints), share] for other, share in others.items()],
    }
    return Training(learner, model, how, parts, streams, judges, steps, where, merge, of, init)


def fit(
    task: str | Task,
    table: str | Path | Table,
    out: str | Path,
    *,
    init: str,
    layers: Iterable[str | Path] = (),
    mixture: Mixture | None = None,
    options: Mapping[str, Any] | None = None,
    device: str = "auto",
    overwrite: bool = False,
    quiet: bool = False,
    readers: int = 1,
    **settings: Any,
) -> Trained:
    """Train a task on a table into a folder that ``hf:<folder>`` opens.

    A run that was stopped goes on with the same call, to the same weights; a finished one is given back.

    Args:
        task: one of :data:`TASKS`, by name or made.
        table: the main table, open or its folder; rows that a filter dropped are not used.
        out: the folder of the run.
        init: the model to start from, as ``hf:<repo or folder>`` or ``mini:<part>``.
        layers: further layers to read ``table`` with.
        mixture: further tables and their share of every batch; the shares are together below 1.
        options: those of the task; looked at only where ``task`` is a name.
        device: where the model is trained, such as ``cuda``; ``auto`` is a GPU where there is one.
        overwrite: train anew where ``out`` holds something other than this training.
        quiet: show no progress.
        readers: so many threads prepare batches ahead; 0 for none.
        **settings: fields of :class:`TrainSettings`, such as ``steps`` or ``epochs``, ``batch``, ``rate``, ``seed``,
            ``val_share`` and ``patience``.

    Returns:
        The folder, the steps taken, the losses, and the subjects that were learnt from.
    """
    how = TrainSettings().having(settings)
    training = prepared_training(
        task, table, init=init, layers=layers, mixture=mixture, options=options, device=device, settings=how
    )
    return carried_out(training, out, overwrite=overwrite, quiet=quiet, readers=readers)


def carried_out(
    training: Training,
    out: str | Path,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    readers: int = 1,
    beside: Callable[[Path], None] | None = None,
    **more: Any,
) -> Trained:
    """Train what was prepared. ``beside`` puts further files on the stage; ``more`` goes into ``run.json``."""
    settings = {**training.settings.plain(), "options": training.task.options()}
    of, first = training.of, training.processes.first
    with ExitStack() as held:
        home: RunFolder | None = None
        if first:
            parents = {"table": training.rows.table.fingerprint}
            accept = same_only("training", *json.loads(json.dumps([of, settings])))  # as run.json holds them
            home = held.enter_context(
                claimed(out, "training", of=of, settings=settings, parents=parents, accept=accept, overwrite=overwrite)
            )
        done = home is not None and home.before is not None and home.before.finished
        if training.processes.total(float(done)):
            return trained_in(Path(out))
        work = Path(out) / _WORK
        course = _trained(training, work, quiet=quiet, readers=readers)
        training.processes.wait()
        result = _result(training, course, Path(out))
        if home is not None:
            training.model.to("cpu").eval()
            with one_thread(training.processes):
                training.merge()
                training.task.save(training.model, home.stage)
            write_whole(home.stage / LOSSES, _curve(course, training).encode())
            if beside is not None:
                beside(home.stage)
            home.publish(**_about(training, result), **more)
            shutil.rmtree(work, ignore_errors=True)
    return result


def trained_in(folder: Path) -> Trained:
    """What ``run.json`` of a finished training says."""
    about = read_run(folder, "training", "result", "fitted_on").about
    result, subjects = about["result"], tuple(about["fitted_on"]["subjects"])
    return Trained(folder, result["steps"], result["loss"], result["validation"], subjects)


def placed(inputs: Any, device: Any) -> Any:
    """Inputs with their tensors on ``device``."""
    if hasattr(inputs, "to"):
        return inputs.to(device)
    return {name: placed(value, device) for name, value in inputs.items()} if isinstance(inputs, Mapping) else inputs


def _trained(training: Training, work: Path, *, quiet: bool, readers: int) -> Course:
    schedule = training.settings.schedule(training.steps)
    validation = training.validation()
    shown = NoProgress if quiet or not training.processes.first else Progress
    with (
        ReadAheadSteps(training.inputs_at, training.steps, readers=readers) as inputs,
        shown(f"train {training.task.name}", total=training.steps, unit="steps") as progress,
    ):

        def loss(model: Any, step: int) -> Any:
            return training.loss(model, inputs[step])

        def after(done: int) -> None:
            if not progress.n_done:  # what an earlier process did is not counted into the rate
                progress.n_done = progress._before = done - 1
            progress.advance(1)

        return run(
            training.model,
            loss,
            schedule,
            work,
            None,
            seed=training.settings.seed,
            processes=training.processes,
            validation=validation,
            after=after,
        )


def _result(training: Training, course: Course, folder: Path) -> Trained:
    recent = course.losses[-50:]
    kept = course.best_loss if training.settings.patience else course.judged[-1][1] if course.judged else None
    return Trained(folder, len(course.losses), float(np.mean(recent)), kept, training.learnt_subjects)


def _about(training: Training, result: Trained) -> dict[str, Any]:
    moved, every = count(training.model)
    return {
        "init": training.spec,
        "result": {"steps": result.steps, "loss": result.loss, "validation": result.validation},
        "fitted_on": {
            "n": len(training.parts.train),
            "table": training.rows.table.fingerprint,
            "subjects": list(result.subjects),
            "judged_by": list(training.subjects(training.parts.validation)),
        },
        "weights": {"trained": moved, "all": every},
    }


def _curve(course: Course, training: Training) -> str:
    schedule = training.settings.schedule(training.steps)
    judged = dict(course.judged)
    lines = ["step,loss,rate,validation\n"]
    for step, loss in enumerate(course.losses, start=1):
        lines.append(f"{step},{loss!r},{schedule.rate_at(step - 1):.6g},{judged.get(step, '')}\n")
    return "".join(lines)


def _task(task: str | Task, options: Mapping[str, Any] | None) -> Task:
    if not isinstance(task, str):
        return task
    kind = TASKS.load(task)
    settings = fitting_all(kind, options or {}, what=f"option of the task {task}")
    learner: Task = kind(**settings)
    return learner


def _subjects(rows: TrainingRows, places: Any) -> tuple[str, ...]:
    labels = rows.labels
    return tuple(sorted(map(str, labels["subject"].iloc[places].dropna().unique()))) if "subject" in labels else ()


def _opened(table: str | Path | Table) -> Table:
    return table if isinstance(table, Table) else Table.open(table)
