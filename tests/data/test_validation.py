from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from equipoise.data import Table, TableWriter, schema_for
from equipoise.data.atomic import sha256_of
from equipoise.data.validation import problems
from equipoise.errors import InputError


def rewrite(table: Table, shard: int, change: Callable[[Any], Any]) -> Table:
    """Replace a shard by changed rows and make ``_table.json`` agree, as a careless tool would."""
    path = table.path / f"part-{shard:05d}.parquet"
    content = change(pq.read_table(path))
    pq.write_table(content, path)
    manifest = json.loads((table.path / "_table.json").read_text())
    manifest["shards"][shard] |= {"bytes": path.stat().st_size, "sha256": sha256_of(path), "rows": len(content)}
    (table.path / "_table.json").write_text(json.dumps(manifest))
    return Table.open(table.path)


def with_column(content: Any, name: str, values: list[Any]) -> Any:
    index = content.column_names.index(name)
    return content.set_column(index, content.schema.field(index), pa.array(values, content.schema.field(index).type))


def test_a_good_table_has_no_problems(people: Table) -> None:
    view = people.add_layer("a", [{"image_id": "img-00003", "keep": True}], columns=["keep"])
    assert list(problems(view, decode=True)) == []


@pytest.mark.parametrize(
    ("column", "values", "sentence"),
    [
        (
            "image_id",
            ["img-00003", *(f"new-{i}" for i in range(9))],
            "image_id 'img-00003' is in part-00000.parquet already",
        ),
        (
            "image_id",
            [None, *(f"new-{i}" for i in range(9))],
            "part-00001.parquet: column 'image_id' is empty in 1 rows",
        ),
        ("params", ["{broken", *["{}"] * 9], "part-00001.parquet: column 'params' holds '{broken', expected JSON"),
        ("split", [*["train"] * 9, "test"], "set 'set-4' is in the splits 'train' and 'test'"),
    ],
)
def test_wrong_content_is_found(people: Table, column: str, values: list[Any], sentence: str) -> None:
    table = rewrite(people, 1, lambda content: with_column(content, column, values))
    found = list(problems(table))
    assert len(found) == 1
    assert sentence in found[0]
    assert list(problems(table, deep=False)) == []
    with pytest.raises(InputError, match=sentence.split(":")[0]):
        table.validate()


def test_rows_that_were_added_or_lost_are_found(people: Table) -> None:
    table = rewrite(people, 1, lambda content: content.slice(0, 4))
    manifest = json.loads((table.path / "_table.json").read_text())
    manifest["shards"][1]["rows"] = 10
    (table.path / "_table.json").write_text(json.dumps(manifest))
    assert list(problems(Table.open(table.path), deep=False)) == [
        f"{table.path / 'part-00001.parquet'} has 4 rows, expected 10"
    ]


def test_a_shard_that_is_not_listed_is_found(people: Table) -> None:
    (people.path / "part-00007.parquet").write_bytes((people.path / "part-00000.parquet").read_bytes())
    assert "part-00007.parquet is not in _table.json" in next(problems(people))
    with pytest.raises(InputError, match=r"part-00007.parquet is not in _table.json"):
        people.validate()


def test_all_problems_are_listed(people: Table) -> None:
    for index in (0, 2):
        path = people.path / f"part-{index:05d}.parquet"
        data = bytearray(path.read_bytes())
        data[30] ^= 1
        path.write_bytes(bytes(data))
    assert [p.split()[0][-18:] for p in problems(people)] == ["part-00000.parquet", "part-00002.parquet"]
    with pytest.raises(InputError, match="and there is more: equipoise table validate"):
        people.validate()


def test_damaged_errors_are_found(tmp_path: Path) -> None:
    from equipoise.data import Rejected

    with TableWriter(tmp_path / "t", schema_for("images")) as writer:
        writer.write_shard(0, [{"image_id": "a"}], [Rejected("here", "why")])
        table = writer.finish()
    path = table.path / "_errors" / "part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(bytes(data))
    (found,) = problems(table)
    assert "_errors/part-00000.parquet has another SHA-256" in found
    path.unlink()
    (found,) = problems(table)
    assert "_errors/part-00000.parquet is missing" in found


def test_images_that_do_not_decode_are_named(tmp_path: Path) -> None:
    rows = [
        {"image_id": "a", "image": b"no image"},
        {"image_id": "b", "image": None},
        {"image_id": "c", "image": "/x.png"},
    ]
    table = Table.create(tmp_path / "t", rows)
    table.validate()
    found = list(problems(table, decode=True))
    assert len(found) == 2
    assert "part-00000.parquet: image 'a': cannot read 8 bytes as an image" in found[0]
    assert "image 'c': the image /x.png is missing" in found[1]


def test_a_layer_that_does_not_fit_is_found(people: Table, tmp_path: Path) -> None:
    schema = schema_for("layer", columns=["keep"])

    def layer(name: str, n_shards: int) -> Table:
        with TableWriter(tmp_path / name, schema, parents=[people.fingerprint]) as writer:
            for index in range(n_shards):
                writer.write_shard(index, [{"image_id": f"img-{index + 9:05d}", "keep": True}])
            return writer.finish()

    with pytest.raises(InputError, match="has 2 shards, expected 3"):
        people.with_layers([layer("short", 2)])
    found = list(problems(people.with_layers([layer("strange", 3)])))
    assert [p.split(": ")[1] for p in found] == [f"image 'img-00011' is not in that shard of {people.path}"]
