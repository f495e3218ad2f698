"""Perceived gender and skin tone on COCO val2014."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.errors import InputError

HEADER = "id,bb_gender,bb_skin,split\r\n"


def test_both_and_unsure_are_no_label(tmp_path: Path, collect: Any, touch: Any) -> None:
    lines = "785,Female,Light,val\r\n872,Both,Dark,val\r\n1000,Unsure,Both,train\r\n1001,,,\r\n"
    (tmp_path / "images_val2014.csv").write_bytes(b"\xef\xbb\xbf" + (HEADER + lines).encode())
    for image_id in (785, 872, 1000, 1001):
        touch(tmp_path / "val2014" / f"COCO_val2014_{image_id:012d}.jpg")
    captions = tmp_path / "captions_val2014.json"
    document = {
        "images": [{"id": 785, "file_name": "COCO_val2014_000000000785.jpg"}],
        "annotations": [{"image_id": 785, "id": 1, "caption": "A woman skis."}],
    }
    captions.write_text(json.dumps(document))
    good, bad = collect("coco-gender-skin", tmp_path, images=tmp_path / "val2014", captions=captions)
    assert not bad
    assert [(r["image_id"], r["gender"], r["skin_tone"], r["mixed"]) for r in good] == [
        ("785", "Female", "Light", []),
        ("872", None, "Dark", ["gender"]),
        ("1000", None, None, ["skin_tone"]),
        ("1001", None, None, []),
    ]
    assert good[0]["captions"] == ["A woman skis."]
    assert good[1]["captions"] == []
    assert {r["label_source"] for r in good} == {"annotator"}
    assert good[0]["image"]["path"].endswith("COCO_val2014_000000000785.jpg")
    assert [r["split"] for r in good] == ["val", "val", "train", None]


def test_bad_rows_cost_themselves(tmp_path: Path, collect: Any, touch: Any) -> None:
    path = tmp_path / "images_val2014.csv"
    path.write_bytes(
        (HEADER + "785,Female,Light,val\n785,Male,Light,val\n12.5,Male,Light,val\n9,Male,Light,val\n").encode()
    )
    with path.open("ab") as file:
        file.write(b"10,M\xe9le,Light,val\n99999999999999999999,Male,Dark,val\n11,Male,Dark\n")
    touch(tmp_path / "val2014" / "COCO_val2014_000000000785.jpg")
    touch(tmp_path / "val2014" / "COCO_val2014_000000000010.jpg")
    good, bad = collect("coco-gender-skin", path, images=tmp_path / "val2014")
    assert [r["image_id"] for r in good] == ["785"]
    reasons = [b.reason for b in bad]
    assert "the image id '785' was given before; the first row stays" in reasons
    assert sum("at most 12 digits" in r for r in reasons) == 2
    assert any("'COCO_val2014_000000000009.jpg' is not in" in r for r in reasons)
    assert any("not valid UTF-8" in r for r in reasons)
    assert any("3 fields" in r for r in reasons)


def test_other_names_of_columns(tmp_path: Path, collect: Any) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("image,sex,skin\n5,Female,Dark\n")
    good, _ = collect("coco-gender-skin", path, id_column="image", gender_column="sex", skin_column="skin")
    assert (good[0]["gender"], good[0]["skin_tone"], good[0]["image"]) == ("Female", "Dark", None)
    with pytest.raises(InputError, match="no column 'id'; its columns are: image, sex, skin"):
        list(read("coco-gender-skin", path))
