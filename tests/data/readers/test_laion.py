"""LAION metadata and its flag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from equipoise.data.readers import read
from equipoise.errors import InputError


def table(**columns: Any) -> pa.Table:
    n = len(next(iter(columns.values())))
    base: dict[str, Any] = {
        "SAMPLE_ID": [float(i + 10) for i in range(n)],
        "URL": [f"http://x/{i}" for i in range(n)],
        "TEXT": ["a dog"] * n,
        "HEIGHT": [300] * n,
        "WIDTH": [400] * n,
        "LICENSE": ["?"] * n,
        "NSFW": ["UNLIKELY"] * n,
        "similarity": [0.3] * n,
    }
    return pa.table(base | columns)


def test_flagged_rows_are_rejected_unless_allowed(tmp_path: Path, collect: Any) -> None:
    pq.write_table(table(NSFW=["UNLIKELY", "UNSURE", "NSFW", None, ""]), tmp_path / "part-00000.parquet")
    good, bad = collect("laion", tmp_path)
    assert [(r["image_id"], r["nsfw"]) for r in good] == [("10", "UNLIKELY"), ("11", "UNSURE")]
    assert [b.reason for b in bad] == [
        "the image is flagged 'NSFW'; allow= names the flags that may stay",
        *["the image has no flag; unflagged='keep' lets it stay"] * 2,
    ]
    assert (good[0]["url"], good[0]["width"], good[0]["similarity"], good[0]["image"]) == ("http://x/0", 400, 0.3, None)
    assert len(collect("laion", tmp_path, allow="unlikely,unsure,nsfw", unflagged="keep")[0]) == 5
    assert len(collect("laion", tmp_path, allow=["UNLIKELY"])[0]) == 1
    with pytest.raises(InputError, match="unflagged='maybe'"):
        list(read("laion", tmp_path, unflagged="maybe"))


def test_bad_rows_cost_themselves(tmp_path: Path, collect: Any) -> None:
    made = table(
        TEXT=["fine", None, " ", "fine", "fine", "fine"],
        URL=["http://0", "http://1", "http://2", "ftp://x", "http://4", "http://5"],
        SAMPLE_ID=[1.0, 2.0, 3.0, 4.0, 1.0, 5.5],
        similarity=[float("nan")] + [0.1] * 5,
    )
    pq.write_table(made, tmp_path / "a.parquet")
    good, bad = collect("laion", tmp_path)
    assert [r["url"] for r in good] == ["http://4"]  # the first row with its id was rejected, so it is the first
    assert len(bad) == 5
    lower = pa.table({"url": ["http://x"], "text": ["t"], "HEIGHT": pa.array([None], pa.int32())})
    pq.write_table(lower, tmp_path / "a.parquet")
    good, bad = collect("laion", tmp_path, unflagged="keep")
    assert [(r["image_id"], r["height"]) for r in good] == [("a-000000000", None)]
    with pytest.raises(InputError, match="no column NSFW, so no row is known to be safe"):
        list(read("laion", tmp_path))


def test_other_files_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"URL": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="has no column TEXT; it has: URL"):
        list(read("laion", tmp_path))


def test_files_of_equal_names_have_ids_of_their_own(tmp_path: Path, collect: Any) -> None:
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        pq.write_table(table(NSFW=["UNLIKELY"]).drop_columns(["SAMPLE_ID"]), tmp_path / part / "0000.parquet")
    good, bad = collect("laion", tmp_path)
    assert [r["image_id"] for r in good] == ["a/0000-000000000", "b/0000-000000000"]
    assert bad == []
    pq.write_table(table(WIDTH=[400.5]), tmp_path / "a" / "0000.parquet")
    _, bad = collect("laion", tmp_path / "a")
    assert bad[0].reason == "the WIDTH is 400.5; a whole number is expected"
