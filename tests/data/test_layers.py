from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.data import LayerWriter, Table
from equipoise.data.layers import combine_verdicts
from equipoise.errors import InputError, UnknownNameError

Rows = Callable[..., list[dict[str, Any]]]


def ids(table: Table) -> list[str]:
    return table.to_pandas(["image_id"])["image_id"].tolist()


def size_of(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def test_a_layer_is_joined_by_image_id_whatever_its_order(people: Table) -> None:
    scores = {image_id: i / 100 for i, image_id in enumerate(ids(people))}
    rows = [{"image_id": k, "score_sharp": v} for k, v in reversed(scores.items())]
    view = people.add_layer("sharp", rows, columns=["score_sharp"])
    frame = view.to_pandas(["score_sharp", "image_id"])
    assert frame["score_sharp"].tolist() == list(scores.values())
    assert view.columns == [*people.columns, "score_sharp"]
    again = Table.open(people.path, layers=["sharp"])
    assert again.to_arrow().equals(view.to_arrow())
    assert Table.open(people.path).columns == people.columns
    assert again.layer_names() == ["sharp"]
    again.validate()


def test_images_that_a_layer_leaves_out_are_null_or_as_they_were(people: Table) -> None:
    frame = pd.DataFrame(
        {"image_id": ["img-00013", "img-00002"], "gender": ["non-binary", None], "score_x": [1.0, 2.0]}
    )
    view = people.add_layer("relabel", frame, axes=["gender"], columns=["score_x"])
    before = people.to_pandas(["gender"])["gender"]
    after = view.to_pandas(["gender", "score_x"])
    assert after["gender"][13] == "non-binary"
    assert before[2] == "male"
    assert pd.isna(after["gender"][2]), "a layer that says undefined is believed"
    others = [i for i in range(25) if i not in (2, 13)]
    assert after["gender"][others].equals(before[others])
    assert after["score_x"].notna().tolist() == [i in (2, 13) for i in range(25)]


def test_the_columns_of_a_frame_are_taken_with_their_types(people: Table) -> None:
    frame = pd.DataFrame(
        {"image_id": ["img-00001"], "keep": [False], "note": ["blurred"], "n_faces": [2], "tags": [["a", "b"]]}
    )
    view = people.add_layer("faces", frame)
    types = {"keep": "bool", "note": "string", "n_faces": "int64", "tags": "list<string>"}
    assert view.further_columns == {**types, "dropped_by": "string"}
    assert list(view.rows(list(types)))[1] == {"keep": False, "note": "blurred", "n_faces": 2, "tags": ["a", "b"]}
    with pytest.raises(InputError, match="rows need columns="):
        people.add_layer("x", [{"image_id": "img-00001", "keep": False}])
    copy = Table.create(people.path.parent / "copy", view.batches(), axes=view.axes, columns=view.further_columns)
    assert copy.to_arrow(view.columns).equals(view.to_arrow(view.columns))


def test_lists_are_joined_too(people: Table) -> None:
    rows = [{"image_id": "img-00003", "captions": ["new"], "boxes": [[1.0, 2.0]]}]
    with pytest.raises(InputError, match="the type of column 'boxes' is not known"):
        people.add_layer("text", rows, columns=["captions", "boxes"])
    view = people.add_layer("text", rows, columns={"captions": "list<string>", "boxes": "list<list<float64>>"})
    found = list(view.rows(["captions", "boxes"]))
    assert found[3] == {"captions": ["new"], "boxes": [[1.0, 2.0]]}
    assert found[4] == {"captions": ["a photo of person 4", "someone"], "boxes": None}


def test_keep_is_what_all_keep_and_dropped_by_the_first_that_dropped(people: Table) -> None:
    names = ids(people)
    view = people.add_layer(
        "blur",
        [
            {"image_id": n, "keep": i != 1 and i != 2, "dropped_by": "blur>3" if i == 1 else None}
            for i, n in enumerate(names)
        ],
        columns=["keep", "dropped_by"],
    )
    view = view.add_layer(
        "nsfw", [{"image_id": n, "keep": i not in (2, 3)} for i, n in enumerate(names[:20])], columns=["keep"]
    )
    found = list(view.rows(["keep", "dropped_by"]))
    assert [f["keep"] for f in found] == [i not in (1, 2, 3) if i < 20 else None for i in range(25)]
    assert [f["dropped_by"] for f in found] == [None, "blur>3", "blur", "nsfw", *[None] * 21]
    assert len(view.to_arrow(["image_id"], only_kept=True)) == 17
    assert [len(b) for b in view.batches(["image_id"], only_kept=True)] == [7, 10]
    assert next(view.rows(["dropped_by"])) == {"dropped_by": None}
    assert [name for name, _ in view.images(only_kept=True)][:2] == ["img-00000", "img-00004"]
    with pytest.raises(UnknownNameError, match=r"no column in .* named 'keep'"):
        list(people.rows(["image_id"], only_kept=True))


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(st.lists(st.sampled_from([True, False, None]), min_size=4, max_size=4), min_size=1, max_size=4))
def test_verdicts_combine_as_said(keeps: list[list[bool | None]]) -> None:
    verdicts = [
        (pa.array(keep, pa.bool_()), pa.array([str(i) if k is False else None for k in keep], pa.string()))
        for i, keep in enumerate(keeps)
    ]
    keep, by = combine_verdicts(verdicts)
    for row in range(4):
        column = [k[row] for k in keeps]
        expected = False if False in column else None if None in column else True
        assert keep[row].as_py() is expected
        assert by[row].as_py() == (str(column.index(False)) if False in column else None)


def test_seven_layers_copy_no_image(tmp_path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    image_bytes = 300 * 20_000
    table = Table.create(
        tmp_path / "t", ({"image_id": f"i{i}", "image": rng.bytes(20_000)} for i in range(300)), rows_per_shard=100
    )
    before = size_of(table.path)
    parts = {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in table.path.glob("part-*")}
    names = ids(table)
    view = table
    for number in range(7):
        rows = [{"image_id": n, f"score_f{number}": i / 7, "keep": i % 9 != number} for i, n in enumerate(names)]
        view = view.add_layer(f"f{number}", rows, columns=[f"score_f{number}", "keep"], uses=view.fingerprints[1:])
    assert len(view.layers) == 7
    assert size_of(table.path) - before < 0.02 * image_bytes
    assert {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in table.path.glob("part-*")} == parts
    kept = view.to_pandas(["image_id", "keep", "score_f6"], only_kept=True)
    assert kept["image_id"].tolist() == [n for i, n in enumerate(names) if i % 9 >= 7]
    assert len(list(view.rows(["image", "keep"]))) == 300
    assert len(view.fingerprints) == 8
    view.validate()


def test_a_layer_can_be_written_shard_by_shard(people: Table, tmp_path: Path) -> None:
    with LayerWriter(people, "elsewhere", columns=["score_a"], path=tmp_path / "far") as writer:
        for index in range(3):
            shard = people.open_shard(index).read(columns=["image_id"])["image_id"].to_pylist()
            writer.write_shard(index, [{"image_id": i, "score_a": float(index)} for i in shard[1:]])
        layer = writer.finish()
    assert layer.parents == (people.fingerprint,)
    view = Table.open(people.path, layers=[tmp_path / "far"])
    assert view.to_pandas(["score_a"])["score_a"].isna().sum() == 3
    assert [len(b) for b in people.batches(["score_a"], layers=[layer])] == [10, 10, 5]


def test_a_layer_of_another_table_is_refused(people: Table, tmp_path: Path, make_rows: Rows) -> None:
    other = Table.create(tmp_path / "other", make_rows(24), axes=["gender"])
    layer = other.add_layer("sharp", [{"image_id": "img-00001", "keep": True}], columns=["keep"]).layers[0]
    with pytest.raises(InputError, match=r"belongs to another table \(fingerprint .*make the layer again"):
        Table.open(people.path, layers=[layer.path])
    with pytest.raises(InputError, match="is a table of kind 'images', not a layer"):
        Table.open(people.path, layers=[other.path])
    with pytest.raises(InputError, match="only a table of images has layers"):
        layer.add_layer("more", [{"image_id": "img-00001", "keep": True}], columns=["keep"])


def test_a_layer_must_fit_its_table(people: Table) -> None:
    with pytest.raises(InputError, match=r"layer 'x' names 1 images that are not in .*: nobody"):
        people.add_layer("x", [{"image_id": "nobody", "keep": True}], columns=["keep"])
    with pytest.raises(InputError, match="the layer 'x' names image 'img-00001' twice"):
        people.add_layer("x", [{"image_id": "img-00001", "keep": True}] * 2, columns=["keep"])
    with pytest.raises(InputError, match="column 'seed' is string, expected int64 as in"):
        people.add_layer("x", [], columns={"seed": "string"})
    with pytest.raises(InputError, match="a layer holds no images"):
        people.add_layer("x", [], columns={"crop": "image"})
    with pytest.raises(InputError, match=r"layer name '../x' is not usable"):
        people.add_layer("../x", [], columns=["keep"])
    with (
        LayerWriter(people, "y", columns=["keep"]) as writer,
        pytest.raises(InputError, match=r"image 'img-00020' is not in .*part-00000.parquet"),
    ):
        writer.write_shard(0, [{"image_id": "img-00020", "keep": True}])
    with LayerWriter(people, "y", columns=["keep"]) as writer:
        writer.write_shard(0, [])
        with pytest.raises(InputError, match=r"cannot be finished with 3 shards: part-00001.parquet is missing"):
            writer.finish()
    assert people.layer_names() == []


def test_layers_are_named_or_all(people: Table) -> None:
    people.add_layer("a", [], columns=["score_a"])
    people.add_layer("b", [], columns={"score_b": "float64", "note": "string"})
    assert [layer.path.name for layer in Table.open(people.path, layers="all").layers] == ["a", "b"]
    with pytest.raises(UnknownNameError, match=r"no layer of .* named 'c'; known: a, b"):
        Table.open(people.path, layers=["c"])
    with pytest.raises(InputError, match=r"write \['a'\]"):
        Table.open(people.path, layers="a")
    with pytest.raises(InputError, match=r"there is a finished table at .* already"):
        people.add_layer("a", [], columns=["score_a"])
    people.add_layer("c", [], columns={"note": "int64"})
    with pytest.raises(InputError, match="layer 'c': column 'note' is int64, expected string as before"):
        Table.open(people.path, layers=["b", "c"])


def test_a_damaged_layer_is_found(people: Table) -> None:
    view = people.add_layer("a", [{"image_id": "img-00001", "score_a": 0.0}], columns=["score_a"])
    path = view.layers[0].path / "part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="another SHA-256"):
        view.validate()
    data[4:60] = b"\xff" * 56
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"part-00000.parquet is not a readable Parquet file"):
        view.to_pandas(["score_a"])
