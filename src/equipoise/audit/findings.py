"""What an audit found: rows for the results table, and the values of single queries for paired comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.atomic import atomic_file
from equipoise.data.results import read_results, write_results
from equipoise.errors import InputError
from equipoise.measure.retrieval import Ranking

QUERY_COLUMNS = ("metric", "variant", "suite", "pool", "model", "axis", "group", "k", "query", "cluster", "value")
"""The columns of ``queries.parquet``: one row for each query's value of each metric."""
DRAW_COLUMNS = ("metric", "variant", "suite", "pool", "model", "axis", "group", "k", "n", "shuffle", "draws")
"""The columns of ``draws.parquet``: what the null drew for a row of the results, a list in ``draws``."""
RANKING_COLUMNS = ("query", "rank", "image_id", "score")
"""The columns of ``ranking.parquet``: the images that each query ranks first, from rank 1."""
LABELS = "labels.parquet"
"""The labels of the ranked images, in a folder of results whose evidence lies in another one."""


Key = str | int | float | None
"""The value of a column that says what a number is of."""
Column = Key | Sequence[object] | NDArray[Any]
"""One such value for all queries, or one per query."""


class HasRow(Protocol):
    """An estimate, alone or with what it is of."""

    def row(self, **keys: Any) -> dict[str, Any]:
        """One row of a results table."""


@dataclass
class Findings:
    """Rows gathered while a suite is measured."""

    suite: str
    model: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    queries: list[dict[str, list[Any]]] = field(default_factory=list)
    """The columns of :data:`QUERY_COLUMNS`, for each call of :meth:`add_queries`."""
    notes: list[str] = field(default_factory=list)
    draws: list[dict[str, Any]] = field(default_factory=list)
    rankings: list[pd.DataFrame] = field(default_factory=list)
    k_told: str = ""
    """Which K the suite chose and why, in one sentence; empty where somebody gave it."""

    def add(self, measured: HasRow, **keys: Any) -> None:
        """One estimate (anything with ``row(**keys)``) and what it is of."""
        named: dict[str, Any] = {"suite": self.suite, "model": self.model}
        self.rows.append(measured.row(**(named | keys)))

    def add_queries(self, values: Iterable[float], query: Iterable[object], **keys: Column) -> None:
        """The values of single queries; ``query`` names each, so that two audits can be paired."""
        numbers = [float(value) for value in values]
        named = {"suite": self.suite, "model": self.model, **keys, "query": [str(q) for q in query], "value": numbers}
        unknown = set(named) - set(QUERY_COLUMNS)
        if unknown:
            raise TypeError(f"no column of queries is called {sorted(unknown)[0]!r}")
        self.queries.append({name: _per_query(name, named.get(name), len(numbers)) for name in QUERY_COLUMNS})

    def add_draws(self, values: Iterable[float], **keys: Key) -> None:
        """What the null drew for one row; audits whose ``shuffle`` is the same shuffled the same labels alike."""
        self.draws.append({"suite": self.suite, "model": self.model, **keys, "draws": [float(v) for v in values]})

    def add_ranking(self, ranking: Ranking, query: Sequence[str], image_ids: Sequence[str]) -> None:
        """The images that queries rank first, for whoever shows them; ``query`` names each."""
        place, rank = np.nonzero(ranking.indices >= 0)
        images = np.asarray(image_ids, dtype=object)[ranking.indices[place, rank]]
        scores = ranking.scores[place, rank].astype(np.float64)
        columns = (np.asarray(query, dtype=object)[place], rank + 1, images, scores)
        self.rankings.append(pd.DataFrame(dict(zip(RANKING_COLUMNS, columns, strict=True))))

    def note(self, text: str) -> None:
        """Something that a reader of the results must know; the same is said once."""
        if text not in self.notes:
            self.notes.append(text)

    def frame(self) -> pd.DataFrame:
        """The rows as a table with the columns of a results file."""
        from equipoise.measure.stats.estimate import RESULT_COLUMNS

        return pd.DataFrame(self.rows, columns=list(RESULT_COLUMNS))

    def query_frame(self) -> pd.DataFrame:
        """The values of single queries as one table."""
        # thousands of small tables would take longer to build and join than the numbers to compute
        return pd.DataFrame({name: [v for part in self.queries for v in part[name]] for name in QUERY_COLUMNS})

    def save(self, folder: Path) -> None:
        """Write ``results.parquet``, ``results.json``, and as far as they are: queries, draws and ranking.

        A file of an audit before that this one has not is taken away.
        """
        folder.mkdir(parents=True, exist_ok=True)
        write_results(folder / "results.parquet", self.rows)
        with atomic_file(folder / "results.json") as file:
            rows = [{name: _for_json(value) for name, value in row.items()} for row in self.rows]
            told = {"k": self.k_told} if self.k_told else {}
            whole = {**told, "notes": self.notes, "results": rows}
            file.write(json.dumps(whole, indent=1, allow_nan=False).encode())
        draws = pd.DataFrame(self.draws).reindex(columns=list(DRAW_COLUMNS)) if self.draws else None
        ranking = pd.concat(self.rankings, ignore_index=True) if self.rankings else None
        for name, frame in (("queries", self._query_values()), ("draws", draws), ("ranking", ranking)):
            if frame is None:
                (folder / f"{name}.parquet").unlink(missing_ok=True)
            else:
                write_frame(folder / f"{name}.parquet", frame)

    def _query_values(self) -> pd.DataFrame | None:
        if not self.queries:
            return None
        together = self.query_frame()
        for name in ("metric", "variant", "suite", "pool", "model", "axis", "group", "cluster"):
            together[name] = together[name].astype("string")
        together["k"] = together["k"].astype("Int64")
        return together


def _per_query(name: str, column: Column, n: int) -> list[Any]:
    """One value per query."""
    if column is None or isinstance(column, str | int | float | np.generic):
        return [column] * n
    if len(column) != n:
        raise ValueError(f"{name}: {len(column)} values for {n} queries")
    return list(column)


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a DataFrame as one Parquet file, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with atomic_file(path) as file:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), file)


def read_queries(folder: Path) -> pd.DataFrame:
    """The single queries' values that an audit left in ``folder``."""
    path = folder / "queries.parquet"
    if not path.is_file():
        read_results(folder)  # says what is wrong with the folder, if it is no result at all
        raise InputError(f"{folder}: the values of single queries are missing (queries.parquet)")
    return _read(path, QUERY_COLUMNS)


def read_draws(folder: Path) -> pd.DataFrame:
    """What the nulls drew; empty where the audit kept nothing (an older one, or nothing to shuffle)."""
    path = folder / "draws.parquet"
    if not path.is_file():
        return pd.DataFrame(columns=list(DRAW_COLUMNS))
    return _read(path, DRAW_COLUMNS)


def _read(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); measure the audit again") from None
    missing = [name for name in columns if name not in frame]
    if missing:
        raise InputError(f"{path}: the column {missing[0]!r} is missing; measure the audit again")
    return frame


def _for_json(value: Any) -> Any:
    """JSON has no infinity: the skew of a group that is absent is written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.item() if hasattr(value, "item") else value
