"""Image folders with metadata, as Hugging Face lays them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read, shape_of
from equipoise.errors import InputError


def test_csv_with_axes_and_further_columns(tmp_path: Path, collect: Any, touch: Any) -> None:
    (tmp_path / "metadata.csv").write_bytes(
        b"\xef\xbb\xbffile_name,text,gender,height (cm)\r\na.jpg,A man.,male,180\r\nsub/b.png,,,\r\n"
    )
    touch(tmp_path / "a.jpg")
    touch(tmp_path / "sub" / "b.png")
    touch(tmp_path / "stray.png")
    good, bad = collect("imagefolder", tmp_path)
    assert [(r["image_id"], r["caption"], r["gender"], r["height__cm_"]) for r in good] == [
        ("a", "A man.", "male", "180"),
        ("sub/b", None, None, None),
    ]
    assert [(b.where, b.reason) for b in bad] == [("stray.png", "the image has no row in the metadata")]
    assert shape_of("imagefolder", tmp_path).axes == ("gender",)
    assert shape_of("imagefolder", tmp_path, axes=()).columns == {"gender": "string", "height__cm_": "string"}


def test_jsonl_by_split_with_types(tmp_path: Path, collect: Any, touch: Any) -> None:
    lines = [
        {
            "file_name": "1.jpg",
            "image_id": 7,
            "captions": ["a", "b"],
            "score_x": 1,
            "ok": True,
            "tags": ["t"],
            "deep": {"a": 1},
        },
        {
            "file_name": "2.jpg",
            "image_id": "8",
            "caption": "c",
            "score_x": 0.5,
            "seed": 3,
            "params": {"n": 1},
            "set_id": 5,
        },
    ]
    for split in ("train", "validation"):
        touch(tmp_path / split / "1.jpg")
        touch(tmp_path / split / "2.jpg")
    (tmp_path / "train" / "metadata.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    (tmp_path / "validation" / "metadata.jsonl").write_text('{"file_name": "1.jpg"}\n{"file_name": "2.jpg"}\n')
    good, bad = collect("imagefolder", tmp_path)
    assert not bad
    assert [(r["image_id"], r["split"]) for r in good] == [
        ("7", "train"),
        ("8", "train"),
        ("validation/1", "val"),
        ("validation/2", "val"),
    ]
    assert (good[0]["caption"], good[0]["captions"], good[0]["deep"]) == ("a", ["a", "b"], '{"a": 1}')
    assert (good[1]["captions"], good[1]["seed"], good[1]["set_id"], good[1]["params"]) == (["c"], 3, "5", '{"n": 1}')
    assert shape_of("imagefolder", tmp_path).columns == {
        "score_x": "float64",
        "ok": "bool",
        "tags": "list<string>",
        "deep": "json",
    }


def test_bad_lines_cost_themselves(tmp_path: Path, collect: Any, touch: Any) -> None:
    (tmp_path / "metadata.jsonl").write_bytes(
        b'{"file_name": "a.jpg", "x": 1}\nnot json\n{"file_name": "gone.jpg"}\n{"caption": "no file"}\n[1]\n'
        b'{"file_name": "a.jpg", "image_id": "a"}\n{"file_name": "/etc/passwd"}\n{"file_name": "../a.jpg"}\n'
        b'{"file_name": "b.jpg", "x": NaN}\n{"file_name": "b.jpg", "caption": "\\ud800"}\n'
        b'{"file_name": "b.jpg", "captions": 5}\n{"file_name": "b.jpg", "seed": 1e300}\n'
    )
    touch(tmp_path / "a.jpg")
    touch(tmp_path / "b.jpg")
    good, bad = collect("imagefolder", tmp_path)
    assert [r["image_id"] for r in good] == ["a"]
    assert [b.where.rpartition(" ")[2] for b in bad] == [*"23456789", "10", "11", "12"]


def test_no_metadata_and_unknown_axes(tmp_path: Path, touch: Any) -> None:
    with pytest.raises(InputError, match="use the reader 'classfolder'"):
        list(read("imagefolder", tmp_path))
    (tmp_path / "metadata.csv").write_text("file_name,sex\n")
    with pytest.raises(InputError, match="has no column 'gender'"):
        list(read("imagefolder", tmp_path, axes="gender"))
    (tmp_path / "metadata.csv").write_text("name\n")
    with pytest.raises(InputError, match="no column 'file_name'"):
        list(read("imagefolder", tmp_path))


def test_a_seed_is_kept_to_its_last_digit_or_refused(tmp_path: Path, collect: Any, touch: Any) -> None:
    seeds = [9007199254740993, 2**63 - 1, "-9007199254740993", 4.0, 1.7, 2**63, True, "1e300"]
    lines = []
    for i, seed in enumerate(seeds):
        touch(tmp_path / f"{i}.jpg")
        lines.append(json.dumps({"file_name": f"{i}.jpg", "seed": seed}))
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    good, bad = collect("imagefolder", tmp_path)
    assert [row["seed"] for row in good] == [9007199254740993, 2**63 - 1, -9007199254740993, 4]
    assert len(bad) == 4
    assert bad[0].reason == "the seed is 1.7; a whole number is expected"
