"""What a function returned for some rows, sorted into rows to write and rows that failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from equipoise.data.arrays import batches_of, record_batch
from equipoise.data.rows import Rejected
from equipoise.engine.job import Job, JobError
from equipoise.engine.reading import Batch
from equipoise.errors import InputError

__all__ = ["Outcome", "outcome_of", "reason_of", "rejected_row"]

_LONGEST_REASON = 1000
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


@dataclass
class Outcome:
    """Arrow batches in the order of the input, and the failures with their positions in the shard."""

    batches: list[Any] = field(default_factory=list)
    errors: list[tuple[int, Rejected]] = field(default_factory=list)
    n_good: int = 0
    """How many input rows did not fail; each may have given any number of output rows."""


def outcome_of(job: Job, piece: Batch, returned: Any) -> Outcome:
    """Sort what the function ``returned`` for ``piece``.

    It must be Arrow data or a DataFrame of any number of rows, or one item for each input row: a row, a list of
    rows, an exception, or a :class:`Rejected`. Anything else is the job's fault.
    """
    if isinstance(returned, pa.Table | pa.RecordBatch) or type(returned).__module__.partition(".")[0] == "pandas":
        batches = list(batches_of(returned, job.schema, where=job.function_name))
        _check_layer_ids(job, piece, batches)
        return Outcome(batches, n_good=len(piece))
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


def _sorted_items(job: Job, piece: Batch, items: list[Any]) -> Outcome:
    outcome = Outcome()
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
    made = [dict(row) for row in rows]
    if job.own_id:
        own = _image_id(piece, index)
        for row in made:
            row.setdefault(job.own_id, own)
        if job.schema.kind == "layer" and [row["image_id"] for row in made] not in ([own], []):
            raise JobError(
                f"the function {job.function_name} returned rows for {[row['image_id'] for row in made]} when given "
                f"the image {own!r}; a layer has one row or none for each image"
            )
    return made


def _image_id(piece: Batch, index: int) -> Any:
    if isinstance(piece.inputs, list):
        return piece.inputs[index]["image_id"]
    return piece.inputs.column("image_id")[index].as_py()


def _add_rows(outcome: Outcome, job: Job, rows: list[dict[str, Any]]) -> None:
    if rows:
        outcome.batches.append(record_batch(rows, job.schema))


def _add_one_by_one(outcome: Outcome, job: Job, piece: Batch, good: list[tuple[int, list[dict[str, Any]]]]) -> None:
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
    made = [image_id for batch in batches for image_id in batch.column("image_id").to_pylist()]
    given = {_image_id(piece, index) for index in range(len(piece))}
    if len(set(made)) < len(made) or not set(made) <= given:
        raise JobError(
            f"the function {job.function_name} returned rows for images that it was not given, or two for one image; "
            "a layer has one row or none for each image"
        )
