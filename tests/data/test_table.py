from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.data import Table, TableWriter, schema_for
from equipoise.data.shards import IMAGES_PER_GROUP, row_groups
from equipoise.errors import InputError, UnknownNameError

Rows = Callable[..., list[dict[str, Any]]]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def edit_manifest(folder: Path, **changes: Any) -> None:
    path = folder / "_table.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_is_written_is_read_back(people: Table, make_rows: Rows) -> None:
    expected = make_rows(25)
    assert len(people) == 25
    assert [s.rows for s in people.shards] == [10, 10, 5]
    assert people.axes == ("gender",)
    for found, row in zip(people.rows(), expected, strict=True):
        assert found["image"] == {"bytes": row["image"], "path": None}
        assert json.loads(found["params"]) == row["params"]
        same = {"image_id", "set_id", "caption", "captions", "subject", "gender", "seed"}
        assert {k: found[k] for k in same} == {k: row[k] for k in same}
        assert found["split"] is None
        assert found["source_id"] is None


texts = st.text(max_size=8)
any_row = st.fixed_dictionaries(
    {"image_id": st.text(min_size=1, max_size=6)},
    optional={
        "caption": st.none() | texts,
        "captions": st.none() | st.lists(st.none() | texts, max_size=3),
        "image": st.none() | st.binary(max_size=40) | st.builds(lambda p: {"bytes": None, "path": p}, texts),
        "seed": st.none() | st.integers(-(2**63), 2**63 - 1),
        "gender": st.none() | texts,
        "score_x": st.none() | st.floats(allow_nan=False),
        "params": st.dictionaries(texts, st.integers() | texts, max_size=3),
    },
)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(any_row, max_size=12, unique_by=lambda row: row["image_id"]), st.integers(1, 5))
def test_any_rows_come_back_as_they_were(rows: list[dict[str, Any]], rows_per_shard: int) -> None:
    with TemporaryDirectory() as folder:
        table = Table.create(
            Path(folder) / "t", rows, axes=["gender"], columns=["score_x"], rows_per_shard=rows_per_shard
        )
        table.validate()
        found = list(table.rows())
    assert len(found) == len(rows)
    for row, back in zip(rows, found, strict=True):
        image = row.get("image")
        assert back["image"] == ({"bytes": image, "path": None} if isinstance(image, bytes) else image)
        assert json.loads(back["params"] or "{}") == row.get("params", {})
        for name in ("image_id", "caption", "captions", "seed", "gender", "score_x"):
            assert back[name] == row.get(name)


def test_the_same_rows_give_the_same_bytes_and_others_do_not(tmp_path: Path, make_rows: Rows) -> None:
    rows = make_rows(250)
    Table.create(tmp_path / "a", rows, axes=["gender"], rows_per_shard=120, config={"b": 1, "a": 2})
    Table.create(tmp_path / "b", iter(rows), axes=["gender"], rows_per_shard=120, config={"a": 2, "b": 1})
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert set(files_of(tmp_path / "a")) == {"_table.json", *(f"part-0000{i}.parquet" for i in range(3))}
    rows[200]["seed"] = 0
    other = Table.create(tmp_path / "c", rows, axes=["gender"], rows_per_shard=120, config={"a": 2, "b": 1})
    assert other.fingerprint != Table.open(tmp_path / "a").fingerprint
    assert other.shards[0] == Table.open(tmp_path / "a").shards[0]


def test_bytes_do_not_depend_on_how_the_rows_arrive(tmp_path: Path, make_rows: Rows) -> None:
    rows = make_rows(230)
    schema = schema_for("images", axes=["gender"])
    whole = Table.create(tmp_path / "a", rows, axes=["gender"])
    as_arrow = whole.without_layers().to_arrow(whole.columns)
    pieces = [as_arrow.slice(i, 7).combine_chunks().to_batches()[0] for i in range(0, 230, 7)]
    with TableWriter(tmp_path / "b", schema) as writer:
        writer.write_shard(0, iter(pieces))
        writer.finish()
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_the_manifest_is_sorted_and_holds_hashes_and_no_time(people: Table) -> None:
    text = (people.path / "_table.json").read_text()
    content = json.loads(text)
    assert text == json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    assert set(content) == {
        *("schema_version", "kind", "axes", "columns", "parents", "config", "shards", "errors"),
    }
    for entry in content["shards"]:
        data = (people.path / entry["file"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(data).hexdigest()
        assert entry["bytes"] == len(data)
    assert people.fingerprint == hashlib.sha256(text.encode()).hexdigest()


def test_image_bytes_are_stored_plain_in_groups_of_at_most_100(tmp_path: Path, make_rows: Rows) -> None:
    table = Table.create(tmp_path / "t", make_rows(250), axes=["gender"])
    metadata = table.open_shard(0).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [100, 100, 50]
    group = metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    image = columns["image.bytes"]
    assert (image.compression, image.has_dictionary_page, image.is_stats_set) == ("UNCOMPRESSED", False, False)
    assert columns["captions.list.element"].compression == "ZSTD"
    assert columns["gender"].has_dictionary_page
    assert columns["image_id"].is_stats_set


def test_row_groups_end_at_images_bytes_or_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from equipoise.data import shards

    monkeypatch.setattr(shards, "BYTES_PER_GROUP", 1000)
    monkeypatch.setattr(shards, "ROWS_PER_GROUP", 150)
    schema = schema_for("images")

    def sizes(lengths: list[int | None], piece: int) -> list[int]:
        from equipoise.data.arrays import record_batch

        rows = [
            {"image_id": str(i), "image": None if n is None else {"bytes": b"x" * n, "path": None}}
            for i, n in enumerate(lengths)
        ]
        batches = [record_batch(rows[i : i + piece], schema) for i in range(0, len(rows), piece)]
        return [len(group) for group in row_groups(batches, schema)]

    for piece in (1, 3, 1000):
        assert sizes([1] * 250, piece) == [IMAGES_PER_GROUP, IMAGES_PER_GROUP, 50]
        assert sizes([None] * 310, piece) == [150, 150, 10]
        assert sizes([600, 600, 600, 2000, 10, 10], piece) == [2, 2, 2]
        assert sizes([None] * 60 + [1] * 120, piece) == [150, 30]


def test_labels_are_read_without_reading_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = (
        {"image": rng.bytes(20_000), "image_id": f"i{i}", "gender": ("f", "m")[i % 2], "subject": "s"}
        for i in range(2000)
    )
    Table.create(tmp_path / "t", rows, axes=["gender"], rows_per_shard=500)
    table = Table.open(tmp_path / "t")
    before = bytes_read()
    frame = table.to_pandas(columns=["image_id", "gender", "subject"])
    labels_cost = bytes_read() - before
    assert len(frame) == 2000
    assert 0 < labels_cost < 0.01 * 2000 * 20_000
    before = bytes_read()
    assert sum(len(row["image"]["bytes"]) for row in table.rows(["image"])) == 2000 * 20_000
    assert bytes_read() - before > 2000 * 20_000, "the counter does count"


def bytes_read() -> int:
    path = Path("/proc/self/io")
    if not path.exists():
        pytest.skip("the system does not count the bytes a process reads")
    return int(path.read_text().split("rchar: ")[1].split()[0])


def test_batches_have_the_columns_and_sizes_asked_for(people: Table) -> None:
    batches = list(people.batches(["gender", "image_id"], batch_size=4))
    assert [len(b) for b in batches] == [4, 4, 2, 4, 4, 2, 4, 1]
    assert batches[0].schema.names == ["gender", "image_id"]
    with pytest.raises(UnknownNameError, match=r"no column in .* named 'gendre'; did you mean 'gender'"):
        list(people.batches(["gendre"]))
    with pytest.raises(InputError, match=r"write \['gender'\]"):
        list(people.batches("gender"))
    assert "image" not in people.to_pandas().columns
    assert "image" in people.to_pandas(["image"]).columns


def test_images_are_decoded_in_order(people: Table) -> None:
    found = list(people.images())
    assert [image_id for image_id, _ in found] == [f"img-{i:05d}" for i in range(25)]
    assert [image.getpixel((0, 0)) for _, image in found] == [(i, 0, 7) for i in range(25)]


def test_images_by_path_are_found_from_the_table_or_its_root(tmp_path: Path, make_png: Callable[..., bytes]) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.png").write_bytes(make_png((9, 9, 9)))
    rows = [{"image_id": "a", "image": "1.png"}]
    table = Table.create(tmp_path / "t", rows, config={"image_root": str(tmp_path / "photos")})
    ((_, image),) = table.images()
    assert image.getpixel((0, 0)) == (9, 9, 9)
    lost = Table.create(tmp_path / "u", rows)
    with pytest.raises(InputError, match=r"image 'a': the image .*/u/1.png is missing"):
        list(lost.images())


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", axes=["gender"])
    assert len(table) == 0
    assert len(table.shards) == 1
    assert list(table.rows()) == []
    assert table.to_pandas().columns.tolist() == [c for c in table.columns if c != "image"]
    table.validate()


@pytest.mark.parametrize(
    ("kind", "row", "dim"),
    [
        ("embeddings", {"id": "a", "vector": [0.6, 0.8], "model": "mini"}, 2),
        ("scores", {"image_id": "a", "text_id": "t", "score": 0.25}, None),
        ("captions", {"image_id": "a", "model": "mini", "caption": "a dog"}, None),
        ("labels", {"image_id": "a", "annotator": "p1", "question": "gender", "answer": "unsure"}, None),
        ("results", {"metric": "maxskew", "value": 0.5, "n": 10}, None),
    ],
)
def test_the_other_kinds_are_tables_too(tmp_path: Path, kind: str, row: dict[str, Any], dim: int | None) -> None:
    table = Table.create(tmp_path / "t", [row], kind=kind, dim=dim)
    again = Table.open(tmp_path / "t")
    assert (again.kind, len(again), again.fingerprint) == (kind, 1, table.fingerprint)
    (found,) = again.rows(list(row))
    if kind == "embeddings":
        found["vector"] = [round(x, 6) for x in found["vector"]]
    assert found == row
    again.validate()
    with pytest.raises(InputError, match="is empty"):
        Table.create(tmp_path / "u", [{k: v for k, v in row.items() if k in ("value", "n", "dim")}], kind=kind, dim=dim)


# What is refused, and how.


def test_a_wrong_column_is_refused_with_file_column_and_types(people: Table) -> None:
    path = people.path / "part-00001.parquet"
    content = pq.read_table(path)
    index = content.column_names.index("seed")
    wrong = content.set_column(index, "seed", content["seed"].cast(pa.string()))
    pq.write_table(wrong, path)
    entry = json.loads((people.path / "_table.json").read_text())["shards"]
    entry[1]["bytes"] = path.stat().st_size
    edit_manifest(people.path, shards=entry)
    table = Table.open(people.path)  # opening looks into the first shard only
    sentence = r"part-00001.parquet: column 'seed' is string, expected int64"
    with pytest.raises(InputError, match=sentence):
        list(table.batches(["image_id"]))
    with pytest.raises(InputError, match=sentence):
        table.validate(deep=False)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.drop_columns(["split"]), "column 'split' is missing, expected string"),
        (
            lambda t: t.append_column("more", pa.array([1] * len(t))),
            r"column 'more' \(int64\) is not one of the table's, expected none",
        ),
    ],
)
def test_a_missing_or_strange_column_is_refused_on_opening(
    people: Table, change: Callable[[Any], Any], sentence: str
) -> None:
    path = people.path / "part-00000.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    entry = json.loads((people.path / "_table.json").read_text())["shards"]
    entry[0]["bytes"] = path.stat().st_size
    edit_manifest(people.path, shards=entry)
    with pytest.raises(InputError, match=f"part-00000.parquet: {sentence}"):
        Table.open(people.path)


def test_a_future_schema_version_says_what_to_upgrade(people: Table) -> None:
    edit_manifest(people.path, schema_version=99)
    with pytest.raises(InputError, match=r"schema version 99, .* up to 1; upgrade it with: pip install -U equipoise"):
        Table.open(people.path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"schema_version": None}, "schema_version is None"),
        ({"schema_version": "1"}, "schema_version is '1'"),
        ({"shards": None}, "garbles an entry"),
        ({"shards": [{}]}, "garbles an entry"),
        ({"columns": {"a": 1}}, "garbles an entry"),
        ({"columns": [{"name": "x", "type": "complex"}]}, "no column type named 'complex'"),
        ({"columns": []}, "column 'image' is missing, expected image"),
        ({"kind": "pictures"}, "no kind of table named 'pictures'"),
        ({"axes": ["age"]}, "column 'age' is missing, expected string"),
    ],
)
def test_a_garbled_manifest_is_refused_in_a_sentence(people: Table, changes: dict[str, Any], sentence: str) -> None:
    edit_manifest(people.path, **changes)
    with pytest.raises(InputError, match=sentence):
        Table.open(people.path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"nul", b"[" * 100_000])
def test_a_manifest_that_is_no_json_object_is_refused(people: Table, content: bytes) -> None:
    (people.path / "_table.json").write_bytes(content)
    with pytest.raises(InputError, match=r"_table.json is not"):
        Table.open(people.path)


def test_a_folder_that_is_no_table_says_why(tmp_path: Path, people: Table) -> None:
    with pytest.raises(InputError, match="there is no table at"):
        Table.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is a file, but a table is a folder"):
        Table.open(people.path / "_table.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"is not a table: it holds no _table.json"):
        Table.open(tmp_path / "empty")
    (people.path / "_table.json").unlink()
    with pytest.raises(InputError, match=r"holds Parquet files but no _table.json"):
        Table.open(people.path)


def test_a_flipped_bit_is_never_a_wrong_row(tmp_path: Path, make_rows: Rows) -> None:
    table = Table.create(tmp_path / "t", make_rows(30), axes=["gender"])
    right = list(table.rows())
    path = table.path / "part-00000.parquet"
    data = path.read_bytes()
    n_found = 0
    for position in range(5, len(data), 61):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(bytes(flipped))
        try:
            found = list(table.rows())
        except InputError:
            n_found += 1
        else:
            assert found == right, f"bit of byte {position}"
    assert n_found > 20


def test_a_missing_cut_or_changed_shard_is_found(people: Table) -> None:
    path = people.path / "part-00002.parquet"
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(InputError, match=r"part-00002.parquet is missing"):
        Table.open(people.path)
    path.write_bytes(data[:-10])
    with pytest.raises(InputError, match=r"part-00002.parquet has \d+ bytes, expected \d+"):
        Table.open(people.path)
    flipped = bytearray(data)
    flipped[50] ^= 1
    path.write_bytes(bytes(flipped))
    table = Table.open(people.path)
    with pytest.raises(InputError, match=r"part-00002.parquet has another SHA-256"):
        table.validate()
    path.write_bytes(b"\0" * len(data))
    with pytest.raises(InputError, match=r"part-00002.parquet is not a readable Parquet file"):
        Table.open(people.path).validate(deep=False)


def test_a_table_is_not_written_over_or_into_another_folder(people: Table, tmp_path: Path, make_rows: Rows) -> None:
    before = files_of(people.path)
    with pytest.raises(InputError, match=r"there is a finished table at .* already"):
        Table.create(people.path, make_rows(3))
    assert files_of(people.path) == before
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_bytes(b"x")
    with pytest.raises(InputError, match=r"holds other files \(such as 'me.jpg'\)"):
        Table.create(tmp_path / "photos", make_rows(3))
    assert files_of(tmp_path / "photos") == {"me.jpg": b"x"}


def test_a_repeated_id_is_refused_wherever_it_is(tmp_path: Path) -> None:
    rows = [{"image_id": str(i)} for i in [*range(25), 3]]
    with pytest.raises(InputError, match=r"part-00002.parquet: image_id '3' is in part-00000.parquet already"):
        Table.create(tmp_path / "t", rows, rows_per_shard=10)
    with pytest.raises(InputError, match="is in the same file already"):
        Table.create(tmp_path / "u", [{"image_id": "a"}, {"image_id": "a"}])
    with pytest.raises(InputError, match=r"there is no table at"):
        Table.open(tmp_path / "t")


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rows_per_shard must be at least 1"):
        Table.create(tmp_path / "t", rows_per_shard=0)
    with pytest.raises(InputError, match="config cannot be stored as JSON"):
        Table.create(tmp_path / "t", config={"when": object()})
    assert not (tmp_path / "t").exists()


def test_counts_by_group(people: Table) -> None:
    assert people.group_counts("gender") == {None: 9, "female": 8, "male": 8}
    assert list(people.group_counts("gender")) == [None, "female", "male"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"image_id": "a"}, {"image_id": "b", "seed": "x"}], "seed"),
        ([{"image_id": "a"}, {"image_id": "b", "colour": "red"}], "colour"),
        ([{"image_id": "a"}, {"image_id": "b"}, {"image_id": "a"}], "'a'"),
    ],
)
def test_a_table_that_is_refused_leaves_nothing_behind(
    tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Table.create(tmp_path / "new", rows, rows_per_shard=1)
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    with pytest.raises(InputError, match=message):
        Table.create(tmp_path / "old", rows, rows_per_shard=1)
    assert list((tmp_path / "old").iterdir()) == [], "a folder that was there stays, empty as it was"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="holds other files"):
        Table.create(tmp_path / "other", rows)
    assert (tmp_path / "other" / "thesis.txt").exists()
