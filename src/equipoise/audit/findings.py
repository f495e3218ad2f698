"""What an audit found: rows for the results table, and the values of single queries for paired comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data.atomic import atomic_file
from equipoise.data.results import read_results, write_results
from equipoise.errors import InputError

__all__ = ["QUERY_COLUMNS", "Findings", "read_queries", "table_of", "write_frame"]

QUERY_COLUMNS = ("metric", "variant", "suite", "pool", "model", "axis", "group", "k", "query", "cluster", "value")
"""The columns of ``queries.parquet``: one row for each query's value of each metric."""


@dataclass
class Findings:
    """Rows gathered while a suite is measured."""

    suite: str
    model: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    queries: list[pd.DataFrame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, measured: Any, **keys: Any) -> None:
        """One estimate (anything with ``row(**keys)``) and what it is of."""
        keys = {"suite": self.suite, "model": self.model} | keys
        self.rows.append(measured.row(**keys))

    def add_queries(self, values: Iterable[float], query: Sequence[Any], **keys: Any) -> None:
        """The values of single queries; ``query`` names each, so that two audits can be paired."""
        frame = pd.DataFrame({"value": pd.Series(list(values), dtype=float), "query": [str(q) for q in query]})
        keys = {"suite": self.suite, "model": self.model} | keys
        self.queries.append(frame.assign(**keys).reindex(columns=list(QUERY_COLUMNS)))

    def extend(self, other: Findings) -> None:
        """Take over everything of ``other``."""
        self.rows += other.rows
        self.queries += other.queries
        self.notes += [n for n in other.notes if n not in self.notes]

    def frame(self) -> pd.DataFrame:
        """The rows as a table with the columns of a results file."""
        from equipoise.measure.estimate import RESULT_COLUMNS

        return pd.DataFrame(self.rows, columns=list(RESULT_COLUMNS))

    def save(self, folder: Path) -> None:
        """Write ``results.parquet``, ``results.json`` and ``queries.parquet``."""
        if not self.rows:
            raise InputError(f"suite {self.suite!r} measured nothing: " + ("; ".join(self.notes) or "no row was left"))
        folder.mkdir(parents=True, exist_ok=True)
        write_results(folder / "results.parquet", self.rows)
        with atomic_file(folder / "results.json") as file:
            rows = [{name: _for_json(value) for name, value in row.items()} for row in self.rows]
            file.write(json.dumps({"notes": self.notes, "results": rows}, indent=1, allow_nan=False).encode())
        if self.queries:
            together = pd.concat(self.queries, ignore_index=True)
            for name in ("metric", "variant", "suite", "pool", "model", "axis", "group", "cluster"):
                together[name] = together[name].astype("string")
            together["k"] = together["k"].astype("Int64")
            write_frame(folder / "queries.parquet", together)


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
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


DETAILS = ("representation", "skew", "exposure", "exposure_ratio", "infeasible_index", "infeasible_count")
"""Metrics that are in the results and not in the printed table, unless everything is asked for."""


def table_of(frame: pd.DataFrame, *, everything: bool = False, limit: int = 60) -> str:
    """Results as text a person can read: one line a number, with chance, excess, interval, p and n.

    Single subjects, the shares of single groups and secondary metrics are left to the results file, unless
    ``everything`` is asked for.
    """
    shown = frame if everything else frame[frame["subject"].isna() & ~frame["metric"].isin(DETAILS)]
    limit = len(frame) if everything else limit
    if shown.empty:
        shown = frame
    lines = [
        f"{'metric':24} {'variant':10} {'pool':10} {'axis':18} {'group':14} {'k':>5} {'value':>8} {'chance':>8} "
        f"{'excess':>8} {'95% interval':>18} {'p':>7} {'n':>7}"
    ]
    for row in shown.head(limit).to_dict("records"):
        interval = ""
        if pd.notna(row["ci_low"]) and pd.notna(row["ci_high"]):
            interval = f"[{row['ci_low']:.3f}, {row['ci_high']:.3f}]"
        label = _text(row["subject"]) or _text(row["group"])
        lines.append(
            f"{row['metric'][:24]:24} {_text(row['variant'])[:10]:10} {_text(row['pool'])[:10]:10} "
            f"{_text(row['axis'])[:18]:18} {label[:14]:14} {_text(row['k']):>5} {_number(row['value']):>8} "
            f"{_number(row['null_mean']):>8} {_number(row['excess'], sign=True):>8} {interval:>18} "
            f"{_p(row['p_value']):>7} {_text(row['n']):>7}"
        )
    if len(shown) > limit:
        lines.append(f"... and {len(shown) - limit} more rows in results.parquet")
    return "\n".join(line.rstrip() for line in lines)


def _for_json(value: Any) -> Any:
    """JSON has no infinity: the skew of a group that is absent is written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.item() if hasattr(value, "item") else value


def _text(value: Any) -> str:
    if value is None or (not isinstance(value, str) and pd.isna(value)):
        return ""
    return str(int(value)) if isinstance(value, float) else str(value)


def _number(value: Any, *, sign: bool = False) -> str:
    return "" if value is None or pd.isna(value) else (f"{value:+.3f}" if sign else f"{value:.3f}")


def _p(value: Any) -> str:
    if value is None or pd.isna(value):
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"
