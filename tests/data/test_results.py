from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from equipoise.data import read_results, write_results
from equipoise.data.schema import RESULT_COLUMNS
from equipoise.errors import InputError


@dataclass
class Figure:
    metric: str
    value: float | None
    k: int | None = None
    notes: str | None = None


def test_rows_dataclasses_and_frames_are_written_alike(tmp_path: Path) -> None:
    figures = [Figure("maxskew", 0.25, 10), Figure("fid", None, None, "no reference images")]
    rows = [vars(figure) for figure in figures]
    files = [
        write_results(tmp_path / "a" / "results.parquet", figures),
        write_results(tmp_path / "b.parquet", rows),
        write_results(tmp_path / "c.parquet", pd.DataFrame(rows)),
        write_results(tmp_path / "d.parquet", (row for row in rows)),
        write_results(tmp_path / "e.parquet", pa.Table.from_pylist(rows)),
    ]
    assert len({file.read_bytes() for file in files}) == 1
    frame = read_results(tmp_path / "a")
    assert list(frame.columns) == list(RESULT_COLUMNS)
    assert frame["k"].tolist() == [10, pd.NA]
    assert frame["value"][0] == 0.25
    assert frame["value"].isna().tolist() == [False, True]
    assert frame["notes"][1] == "no reference images"


def test_what_is_no_results_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="column 'value' holds NaN; leave it empty"):
        write_results(tmp_path / "r.parquet", [{"metric": "m", "value": float("nan")}])
    with pytest.raises(InputError, match="column 'metric' is empty"):
        write_results(tmp_path / "r.parquet", [{"value": 1.0}])
    with pytest.raises(InputError, match="column 'p' is not in the table's schema"):
        write_results(tmp_path / "r.parquet", [{"metric": "m", "p": 1.0}])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"results.parquet is missing"):
        read_results(tmp_path)
    pq.write_table(pa.table({"metric": [1]}), tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"r.parquet: column 'metric' is int64, expected string"):
        read_results(tmp_path / "r.parquet")
    (tmp_path / "s.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match=r"s.parquet is not a readable Parquet file"):
        read_results(tmp_path / "s.parquet")
