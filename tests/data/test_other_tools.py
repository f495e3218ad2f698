"""A table is opened, as it is, by the tools people have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equipoise.data import Rejected, Table, TableWriter, schema_for


@pytest.fixture
def with_errors_and_layer(tmp_path: Path) -> Table:
    """A table in two shards with everything in the folder that other tools must not take for data."""
    from PIL import Image

    schema = schema_for("images", axes=["gender"], columns={"boxes": "list<list<float64>>", "width": "int64"})
    with TableWriter(tmp_path / "t", schema) as writer:
        for shard in range(2):
            rows = [
                {
                    "image": Image.new("RGB", (6, 5), (shard, i, 0)),
                    "image_id": f"{shard}-{i}",
                    "captions": ["a", "b"],
                    "gender": None if i else "female",
                    "boxes": [[0.0, 1.0]],
                    "width": 6,
                }
                for i in range(3)
            ]
            writer.write_shard(shard, rows, [Rejected("here", "because")])
        table = writer.finish()
    table.add_layer("sharp", [{"image_id": "1-1", "keep": False}], columns=["keep"])
    return table


def test_hugging_face_datasets_decode_the_images(with_errors_and_layer: Table, tmp_path: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    loaded = datasets.load_dataset(
        "parquet",
        data_files=str(with_errors_and_layer.path / "part-*.parquet"),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert isinstance(loaded.features["image"], datasets.Image)
    assert loaded.num_rows == 6
    row = loaded[4]
    assert row["image"].size == (6, 5)
    assert row["image"].convert("RGB").getpixel((0, 0)) == (1, 1, 0)
    assert (row["image_id"], row["captions"], row["boxes"]) == ("1-1", ["a", "b"], [[0.0, 1.0]])
    assert loaded["gender"][:2] == ["female", None]
    stream = datasets.load_dataset(
        "parquet", data_files=str(with_errors_and_layer.path / "part-*.parquet"), split="train", streaming=True
    )
    assert next(iter(stream))["image"].size == (6, 5)


def test_hugging_face_datasets_read_vectors(tmp_path: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    vectors = np.eye(3, 4, dtype=np.float32)
    rows = [{"id": str(i), "vector": v, "model": "m"} for i, v in enumerate(vectors)]
    table = Table.create(tmp_path / "e", rows, kind="embeddings", dim=4)
    loaded = datasets.load_dataset(
        "parquet",
        data_files=str(table.path / "part-*.parquet"),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert np.array_equal(np.array(loaded["vector"][:]), vectors)


def test_pandas_reads_the_folder_and_only_its_shards(with_errors_and_layer: Table) -> None:
    frame = pd.read_parquet(with_errors_and_layer.path)
    assert frame["image_id"].tolist() == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
    assert list(frame.columns) == with_errors_and_layer.columns
    assert frame["image"][0]["bytes"].startswith(b"\x89PNG")


def test_duckdb_reads_the_shards(with_errors_and_layer: Table) -> None:
    import duckdb

    files = with_errors_and_layer.path / "*.parquet"
    query = f"select gender, count(*), max(octet_length(image.bytes)) from '{files}' group by gender order by gender"
    found = duckdb.sql(query).fetchall()
    assert [(gender, n) for gender, n, _ in found] == [("female", 2), (None, 4)]
    assert all(size > 50 for *_, size in found)
    joined = duckdb.sql(
        f"select count(*) from '{files}' join '{with_errors_and_layer.path}/_layers/sharp/*.parquet' using (image_id)"
    )
    assert joined.fetchall() == [(1,)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_data_reads_the_folder(with_errors_and_layer: Table) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    ray_data = pytest.importorskip("ray.data", reason="Ray Data is not installed")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        found = ray_data.read_parquet(str(with_errors_and_layer.path)).take_all()
    finally:
        ray.shutdown()
    assert sorted(row["image_id"] for row in found) == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
    assert found[0]["image"]["bytes"].startswith(b"\x89PNG")
