"""A plan: what will be made, task by task, decided before the first image is.

A task is what is made or fails together: one counterfactual set, the edits of one photograph. Everything random in it
(seeds, shares, guidance) is drawn when the plan is made, from the task's name and the run's seed, so that a task gives
the same images whenever and wherever it is done.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.manifest import MANIFEST, UNFINISHED
from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.data.writer import TableWriter
from equipoise.errors import InputError, OtherSettingsError

Task = dict[str, Any]
"""What a maker must know, as JSON; ``id`` names it."""

_COLUMNS = {"task": "json"}
PLAN_FOLDER = ".plan"


@dataclass(frozen=True)
class WorkPlan:
    """What will be made. ``tasks`` may be asked more than once and gives the same each time."""

    kind: str
    """The name of the command: ``sets``, ``edits``, ..."""
    tasks: Callable[[], Iterator[Task]]
    n_tasks: int
    n_images: int
    make: Callable[..., list[Any]]
    """``make(rows, tools)``: the rows of the new table for each row of the plan."""
    config: Mapping[str, Any]
    """The settings, recorded with the table."""
    needs: tuple[str, ...] = ()
    """Which methods of a generator it uses."""
    axes: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the new table besides those of every table."""
    source: Table | None = None
    """The table whose images are changed."""
    parents: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """Up to three prompts."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many images of the source are not used, by reason."""
    each: str = ""
    """What is made of each image of the source, and which option makes less of it; for whoever waits."""
    together: int = 1
    """Tasks that are made in one call; where it fails they are made one by one."""
    by_finder: bool = False
    """Whether a detector looks for what is changed: any number of images in a row may not show it."""


def seed_of(seed: int, *names: object) -> int:
    """A seed for one task: 31 bits of a hash of the run's seed and the task's names.

    >>> seed_of(0, "doctor", 1) == seed_of(0, "doctor", 1), seed_of(0, "doctor", 1) == seed_of(1, "doctor", 1)
    (True, False)
    """
    text = json.dumps([int(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") >> 1


def drawn(seed: int, *names: object) -> np.random.Generator:
    """A stream of random numbers for one task."""
    return np.random.default_rng(seed_of(seed, *names))


def settings_of(config: Any) -> dict[str, Any]:
    """A settings dataclass as JSON holds it."""
    settings: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config), default=list))
    return settings


def task_of(row: Mapping[str, Any]) -> Task:
    """The task of a row of the written plan."""
    task: Task = json.loads(row["task"])
    return task


def examples_of(tasks: Iterable[Task], prompts: Callable[[Task], Sequence[str]], n: int = 3) -> tuple[str, ...]:
    """The first ``n`` different prompts of some tasks."""
    examples: dict[str, None] = {}
    for task in tasks:
        examples |= dict.fromkeys(prompts(task))
        if len(examples) >= n:
            break
    return tuple(examples)[:n]


def written(plan: WorkPlan, out: Path, tasks_per_shard: int) -> Table:
    """The plan as a table inside ``out``, where its shards decide what is lost when the run is killed: one of them."""
    digest, n = hashlib.sha256(), 0
    for task in plan.tasks():
        digest.update(row_of(task)["task"].encode() + b"\n")
        n += 1
    if not n:
        raise InputError(f"there is nothing to make: the plan of {plan.kind} has no task{_why(plan)}")
    config = {"plan": plan.kind, "sha256": digest.hexdigest(), "tasks_per_shard": tasks_per_shard, "n_tasks": n}
    parents = (*(plan.source.fingerprints if plan.source is not None else ()), *plan.parents)
    folder = out / PLAN_FOLDER
    try:
        with TableWriter(folder, schema_for("images", columns=_COLUMNS), config=config, parents=parents) as writer:
            if writer.finished:
                return writer.finish()
            rows, shards = map(row_of, plan.tasks()), 0
            while shard := list(islice(rows, tasks_per_shard)):
                writer.write_shard(shards, shard)
                shards += 1
            return writer.finish(shards)
    except InputError as error:
        if (folder / MANIFEST).exists() or isinstance(error, OtherSettingsError):
            raise InputError(_begun_otherwise(out)) from error
        raise


def refuse_other_settings(
    out: str | Path,
    kind: str,
    config: Mapping[str, Any],
    source: Table | None = None,
    *,
    unsettled: Sequence[str] = (),
) -> None:
    """Refuse a folder that was begun with other settings, and name those that differ.

    It reads what the folder records and nothing else, so that it can be asked before a model is loaded or a plan is
    made. ``config`` holds the settings that are known by then; ``unsettled`` names those of them that the model will
    settle. What it lets pass is compared in full when the plan is written.
    """
    folder = Path(out)
    begun = next((head for name in (MANIFEST, UNFINISHED) if (head := _head(folder / name))), {}).get("config", {})
    if "generate" not in begun:
        return
    if begun["generate"] != kind:
        raise OtherSettingsError(f"{out} holds what equipoise generate {begun['generate']} made; choose another path")
    differ = [
        f"{name.replace('_', ' ')} {_said(begun.get(name))}, now {_said(value)}"
        for name, value in config.items()
        if name not in unsettled and value != begun.get(name) and (value or name in begun)
    ]
    known = _head(folder / PLAN_FOLDER / MANIFEST).get("parents")
    if source is not None and known is not None:
        now = list(source.fingerprints)
        if known[: len(now)] != now:
            differ.append("another table, other layers, or other images of it")
    if differ:
        raise OtherSettingsError(_begun_otherwise(out, differ))


def _begun_otherwise(out: str | Path, differ: Sequence[str] = ()) -> str:
    which = f" ({'; '.join(differ)})" if differ else ""
    return (
        f"{out} was begun with other settings{which}; repeat those to go on with it, choose another path, or delete it"
    )


def _head(path: Path) -> dict[str, Any]:
    """What a table, finished or not, records of itself; nothing where there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _said(value: Any) -> str:
    """A setting as the sentence on other settings names it.

    >>> _said(None), _said([9.5, 15.0]), _said(True)
    ('not given', '9.5,15.0', 'yes')
    """
    if value is None or value in ([], {}, ""):
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def row_of(task: Task) -> dict[str, Any]:
    """The row of the written plan that holds ``task``; :func:`task_of` reads it."""
    return {"image_id": task["id"], "task": json.dumps(task, sort_keys=True, ensure_ascii=False)}


def _why(plan: WorkPlan) -> str:
    if not plan.left_out:
        return ""
    reasons = ", ".join(f"{reason}: {n}" for reason, n in sorted(plan.left_out.items(), key=lambda item: -item[1]))
    return f" ({reasons})"
