"""What must be the same for a run to be continued, and a sentence about what is not.

The settings that decide the result are recorded in the table's config under ``engine``; ``batch_size`` may change
a model's last digits and is recorded in the plan that an unfinished table keeps.

The description of one run, as a worker needs it, and the errors that end a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from equipoise.data.manifest import MANIFEST, UNFINISHED, Manifest
from equipoise.data.schema import TableSchema
from equipoise.data.table import Table
from equipoise.engine.content import function_name, identity
from equipoise.errors import InputError

Form = Literal["rows", "arrow"]


class JobError(InputError):
    """The run itself is at fault, not one of its rows; finished shards are kept."""


class Interrupted(KeyboardInterrupt):
    """The run was stopped by Ctrl-C after a whole shard; the text says how to go on."""


@dataclass(frozen=True)
class Job:
    """What a worker must know to turn one shard of the input into one shard of the output. It can be pickled."""

    fn: Callable[..., Any]
    setup: Callable[[], Any] | None
    table: Table
    output: Path
    schema: TableSchema
    columns: Sequence[str]
    form: Form
    decode: bool
    only_kept: bool
    batch_size: int
    readers: int
    max_failures: int | None

    @property
    def function_name(self) -> str:
        """The function's name, for messages."""
        return function_name(self.fn)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that name an input row."""
        if self.table.schema.key:
            return self.table.schema.key
        return ("image_id",) if "image_id" in self.table.types else ()

    @property
    def own_id(self) -> str | None:
        """The output column that takes the input's ``image_id`` where the function leaves it out."""
        if "image_id" not in self.columns:
            return None
        return "image_id" if "image_id" in self.schema.types else "id" if "id" in self.schema.types else None


_MAKER = "engine"
_ABSENT = object()


def recorded_config(job: Job, config: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's ``config`` with, under ``engine``, the function and what it was given."""
    if _MAKER in config:
        raise InputError(f"config holds {_MAKER!r}, which is where engine.map records the function; use another name")
    made_by: dict[str, Any] = {"function": identity(job.fn), "columns": list(job.columns)}
    if job.setup is not None:
        made_by["setup"] = identity(job.setup)
    if job.decode:
        made_by["decode"] = True
    if job.only_kept:
        made_by["only_kept"] = True
    recorded = {**config, _MAKER: made_by}
    if "image" in job.schema.types and "image_root" in job.table.config:
        # Image paths that are handed on still start from where the input's start.
        recorded.setdefault("image_root", job.table.config["image_root"])
    return recorded


def refuse_other_run(job: Job, config: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Raise :class:`InputError`, naming the first difference, if the output was begun or made by another run."""
    wanted = Manifest(job.schema, parents=job.table.fingerprints, config=dict(config)).head()
    recorded = _recorded_head(job.output)
    if recorded is None:
        return
    state = "a finished table" if (job.output / MANIFEST).exists() else "an unfinished table"
    if "plan" in recorded:
        wanted["plan"] = dict(plan)
    difference = first_difference(recorded, json.loads(json.dumps(wanted)))
    if difference:
        raise InputError(
            f"{job.output} holds {state} of another run ({difference}); repeat that run, choose another path, or "
            "delete it"
        )


def _recorded_head(folder: Path) -> dict[str, Any] | None:
    """What the table in ``folder`` was or is being made from; ``None`` where there is none that can be read."""
    if (folder / MANIFEST).exists():
        return json.loads(json.dumps(Manifest.load(folder).head()))  # type: ignore[no-any-return]
    try:
        recorded = json.loads((folder / UNFINISHED).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return recorded if isinstance(recorded, dict) else None


def first_difference(before: Any, now: Any, place: str = "") -> str:
    """Where two pieces of JSON differ first, in words; empty if they are equal.

    >>> first_difference({"config": {"steps": 20}}, {"config": {"steps": 30}})
    'config.steps was 20, is now 30'
    >>> first_difference({"a": 1}, {"a": 1})
    ''
    """
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            difference = first_difference(
                before.get(name, _ABSENT), now.get(name, _ABSENT), f"{place}.{name}".lstrip(".")
            )
            if difference:
                return difference
        return ""
    if before is now or before == now:
        return ""
    if place == "parents":
        return "it was made from another input table"
    if place.endswith("sha256"):
        return f"the source of {place.removesuffix('.sha256')} has changed"
    return f"{place} was {_shown(before)}, is now {_shown(now)}"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
