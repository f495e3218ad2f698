"""PATA: labels in the list, captions of scenes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.errors import InputError

SCENES = [
    {
        "long": "photo of {age} {race} {gender}",
        "short": "drinking_water",
        "pos": {"races": ["photo of a fit person"], "gender": [], "age": []},
        "neg": {"races": ["photo of a thief"], "gender": [], "age": []},
    }
]


def test_list_and_captions(tmp_path: Path, collect: Any, touch: Any) -> None:
    (tmp_path / "pata_fairness.files.lst").write_bytes(
        b"drinking_water_caucasian_male_young|https://x/a.jpg?q=1|2\r\nsinger_eastasian_female_old|http://y/b.png\r\n"
        b"singer|http://y\r\nsinger_black_male_young\r\nsinger_black_male_young|\r\ngym_black_male_young|http://z\r\n"
    )
    (tmp_path / "pata_fairness.captions.json").write_text(json.dumps([*SCENES, {"short": ""}, 3]))
    touch(tmp_path / "images" / "0.jpg")
    touch(tmp_path / "images" / "singer_eastasian_female_old_1.png")
    good, bad = collect("pata", tmp_path, images=tmp_path / "images")
    assert [(r["image_id"], r["subject"], r["race"], r["gender"], r["age"]) for r in good] == [
        ("0", "drinking water", "caucasian", "male", "young"),
        ("1", "singer", "eastasian", "female", "old"),
    ]
    assert good[0]["url"] == "https://x/a.jpg?q=1|2"
    assert json.loads(good[0]["negative"])["race"] == ["photo of a thief"]
    assert (good[1]["positive"], good[0]["caption"], good[0]["captions"]) == (None, None, [])
    assert [b.where.rpartition(" ")[2] for b in bad] == ["[1]", "[2]", "3", "4", "5", "6"]


def test_wrong_captions_file(tmp_path: Path) -> None:
    (tmp_path / "pata_fairness.files.lst").write_text("a_b_c_d|http://x\n")
    (tmp_path / "pata_fairness.captions.json").write_text("{}")
    with pytest.raises(InputError, match="not PATA's captions file"):
        list(read("pata", tmp_path))
