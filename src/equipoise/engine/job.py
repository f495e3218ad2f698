"""The description of one run, as a worker needs it, and the errors that end a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from equipoise.data.schema import TableSchema
from equipoise.data.table import Table
from equipoise.engine.identity import function_name
from equipoise.errors import InputError

__all__ = ["Interrupted", "Job", "JobError"]

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
