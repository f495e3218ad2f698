"""Hugging Face Parquet by a mapping of columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from equipoise.data.readers import read, shape_of
from equipoise.errors import InputError

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def image(name: str) -> dict[str, Any]:
    return {"bytes": b"JPEG of " + name.encode(), "path": None}


def social(rows: list[tuple[str, str, str, str, str, str]]) -> pa.Table:
    return pa.table(
        {
            "image": pa.array([image(row[3]) for row in rows], IMAGE),
            "caption": [row[3] for row in rows],
            "counterfactual_set": [row[0] for row in rows],
            "a1_type": [row[1].split("/")[0] for row in rows],
            "a1": [row[2].split("/")[0] for row in rows],
            "a2_type": [row[1].split("/")[1] for row in rows],
            "a2": [row[2].split("/")[1] for row in rows],
        }
    )


def test_social_counterfactuals(tmp_path: Path, collect: Any) -> None:
    name = "a_picture_of_race_gender_plumber_0"
    table = social(
        [
            (name, "race/gender", "Indian/male", "A picture of an Indian male plumber", "", ""),
            (name, "race/gender", "Middle Eastern/female", "A picture of a Middle Eastern female plumber", "", ""),
            (name, "race/gender", "Indian/male", "A picture of an Indian male plumber", "", ""),
            ("s2", "physical/race", "obese/Asian", "A photo of an obese Asian special ed teacher", "", ""),
            ("s3", "height/race", "tall/Asian", "A photo of a tall Asian cook", "", ""),
        ]
    )
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "train-00000-of-00061-ab.parquet")
    good, bad = collect("parquet", tmp_path, preset="social-counterfactuals")
    assert [(r["image_id"], r["subject"], r["race"], r["gender"], r["physical"]) for r in good] == [
        (f"{name}-Indian-male", "plumber", "Indian", "male", None),
        (f"{name}-Middle Eastern-female", "plumber", "Middle Eastern", "female", None),
        ("s2-obese-Asian", "special ed teacher", "Asian", None, "obese"),
    ]
    assert {(r["set_id"], r["split"], r["label_source"]) for r in good[:2]} == {(name, "train", "prompt")}
    assert good[0]["image"]["bytes"].startswith(b"JPEG")
    assert ["was given before" in bad[0].reason, "the axis is 'height'" in bad[1].reason] == [True, True]


def test_files_of_equal_names_in_folders_of_splits(tmp_path: Path, collect: Any) -> None:
    for split in ("train", "partial-test"):
        (tmp_path / "default" / split).mkdir(parents=True)
        pq.write_table(pa.table({"caption": [split, "x"]}), tmp_path / "default" / split / "0000.parquet")
    good, bad = collect("parquet", tmp_path)
    assert [(r["image_id"], r["split"]) for r in good] == [
        ("default/partial-test/0000-0000000", "test"),
        ("default/partial-test/0000-0000001", "test"),
        ("default/train/0000-0000000", "train"),
        ("default/train/0000-0000001", "train"),
    ]
    assert bad == []


def test_any_other_by_columns_and_class_names(tmp_path: Path, collect: Any) -> None:
    features = {"sex": {"_type": "ClassLabel", "names": ["Male", "Female"]}, "img": {"_type": "Image"}}
    schema = pa.schema(
        [
            ("img", IMAGE),
            ("sex", pa.int64()),
            ("alt", pa.string()),
            ("n", pa.int32()),
            ("when", pa.struct([("y", pa.int8())])),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    rows = [
        {"img": image("a"), "sex": 1, "alt": "A woman.", "n": 3, "when": {"y": 1}},
        {"img": image("b"), "sex": -1, "alt": None, "n": None, "when": None},
        {"img": None, "sex": 0, "alt": "x", "n": 1, "when": None},
        {"img": image("d"), "sex": 9, "alt": "x", "n": 1, "when": None},
        {"img": image("e"), "sex": 0, "alt": " ", "n": 1, "when": None},
    ]
    path = tmp_path / "validation-00000.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    options: dict[str, Any] = {"columns": "image=img,gender=sex,caption=alt", "axes": "gender", "extra": ["n", "when"]}
    good, bad = collect("parquet", path, **options)
    assert [(r["gender"], r["caption"], r["n"], r["when"], r["split"]) for r in good] == [
        ("Female", "A woman.", 3, '{"y": 1}', "val"),
        (None, None, None, None, "val"),
    ]
    assert [b.reason for b in bad] == [
        "there is no image",
        "column 'sex' has class 9, but there are 2 classes",
        "the caption is empty",
    ]
    assert shape_of("parquet", path, **options).columns == {"n": "int64", "when": "json"}


def test_paths_instead_of_bytes_are_looked_for(tmp_path: Path, collect: Any, touch: Any) -> None:
    touch(tmp_path / "a.jpg")
    cells = [{"bytes": None, "path": p} for p in ("a.jpg", "gone.jpg", "../a.jpg")]
    pq.write_table(pa.table({"image": pa.array(cells, IMAGE)}), tmp_path / "x.parquet")
    good, bad = collect("parquet", tmp_path / "x.parquet")
    assert [r["image"]["path"] for r in good] == [str(tmp_path / "a.jpg")]
    assert len(bad) == 2


def test_text_that_is_not_utf8_costs_its_row(tmp_path: Path, collect: Any) -> None:
    texts = pa.array([b"fine", b"caf\xe9", b"also fine"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"caption": texts, "image_id": ["a", "b", "c"]}), tmp_path / "x.parquet")
    good, bad = collect("parquet", tmp_path / "x.parquet")
    assert [r["image_id"] for r in good] == ["a", "c"]
    assert "column 'caption' cannot be read" in bad[0].reason


def test_a_broken_shard_is_rejected_and_no_shard_at_all_is_an_error(tmp_path: Path, collect: Any) -> None:
    pq.write_table(pa.table({"caption": ["x"]}), tmp_path / "b.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nonsense PAR1")
    (tmp_path / "_hidden.parquet").write_bytes(b"")
    good, bad = collect("parquet", tmp_path)
    assert (len(good), len(bad)) == (1, 1)
    assert "the file cannot be opened" in bad[0].reason
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(InputError, match="is not a Parquet file that can be read"):
        list(read("parquet", tmp_path))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"preset": "social"}, "did you mean 'social-counterfactuals'"),
        ({"preset": "social-counterfactuals", "extra": "x"}, "extra= was given beside preset='social-counter"),
        ({"preset": "social-counterfactuals", "label_source": "me"}, "label_source= was given beside preset"),
        ({"columns": "caption=alt"}, "caption.*is 'alt', but the columns of the file are: x"),
        ({"columns": "gender=x"}, "add it to axes="),
        ({"columns": "nonsense"}, "pairs like"),
        ({"axes": "gender"}, "no column is that axis"),
        ({"columns": 5}, "a mapping from our column names"),
        ({}, "no column of .* is known"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    pq.write_table(pa.table({"x": ["a"]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=reason):
        list(read("parquet", tmp_path, **options))
