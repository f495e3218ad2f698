"""The results table as one file: every number an audit gives, with its chance level, interval and n."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from equipoise.data.arrays import batches_of
from equipoise.data.atomic import atomic_file
from equipoise.data.schema import schema_for
from equipoise.data.shards import read_columns
from equipoise.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_results", "write_results"]


def write_results(path: str | Path, rows: Any) -> Path:
    """Write ``rows`` to the one file ``path`` (``results.parquet``), whole or not at all; return the path.

    ``rows``: mappings or dataclasses with the columns of :data:`equipoise.data.schema.RESULT_COLUMNS` (absent ones
    are null), an Arrow table or a DataFrame. NaN is refused: a number that cannot be had is null, with a note.

    >>> import tempfile
    >>> file = write_results(tempfile.mkdtemp() + "/results.parquet", [{"metric": "maxskew", "value": 0.29, "n": 10}])
    >>> read_results(file)[["metric", "value", "n"]].values.tolist()
    [['maxskew', 0.29, 10]]
    """
    target = Path(path)
    schema = schema_for("results")
    made = pa.Table.from_batches(batches_of(_plain(rows), schema, where=target.name), schema=schema.arrow)
    for name, kind in schema.columns:
        if kind == "float64" and any(value != value for value in made[name].to_pylist() if value is not None):
            raise InputError(f"{target}: column {name!r} holds NaN; leave it empty and say why in the notes")
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(target) as file:
        pq.write_table(made, file, compression="zstd")
    return target


def read_results(path: str | Path) -> pd.DataFrame:
    """The results in ``path``: that file, or ``results.parquet`` in that folder."""
    source = Path(path)
    if source.is_dir():
        source = source / "results.parquet"
    schema = schema_for("results")
    frame: pd.DataFrame = read_columns(source, schema.names, schema).to_pandas(types_mapper=_nullable)
    return frame


def _nullable(kind: Any) -> Any:
    """Whole numbers stay whole where some are missing."""
    import pandas as pd

    return pd.Int64Dtype() if kind == pa.int64() else None


def _plain(rows: Any) -> Any:
    if hasattr(rows, "to_pandas") or hasattr(rows, "to_numpy") or isinstance(rows, Mapping):
        return rows
    return _plain_rows(rows)


def _plain_rows(rows: Any) -> Iterator[Any]:
    for row in rows:
        yield dataclasses.asdict(row) if dataclasses.is_dataclass(row) and not isinstance(row, type) else row
