"""PHASE: votes, agreement of regions, mixed images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.errors import InputError


def labels(**more: str) -> dict[str, str]:
    base = {"age": "adult", "gender": "female", "skintone": "lighter", "ethnicity": "east_asian"}
    return base | {"emotion": "happiness", "activity": "posing"} | more


def region(annotations: Any, box: Any = (10, 20, 40, 80)) -> dict[str, Any]:
    return {"region": list(box), "annotations": annotations}


def test_an_image_has_a_label_only_if_all_regions_have_it(tmp_path: Path, collect: Any, touch: Any) -> None:
    document = {
        "489254": {"caption": "a couple poses", "person1": region(labels()), "person2": region(labels(gender="male"))},
        "948611": {"caption": "friends", "person1": region(labels()), "person2": region(labels(age="unsure"))},
        "3": {"caption": "no people annotated"},
        "4": {"caption": "", "person1": region(labels(gender="disagreement"))},
    }
    (tmp_path / "phase_gcc_val_regions_20221101.json").write_text(json.dumps(document))
    (tmp_path / "phase_gcc_val_all_20221101.json").write_text("{}")
    for name in document:
        touch(tmp_path / "images" / "val" / name)
    good, bad = collect("phase", tmp_path)
    assert not bad
    couple, friends, nobody, unsure = good
    assert (couple["gender"], couple["mixed"]) == (None, ["gender"])
    assert (couple["race"], couple["age"], couple["skin_tone"]) == ("east asian", "adult", "lighter")
    assert couple["people"][0]["box"] == [10, 20, 30, 60]
    assert couple["people"][1]["attributes"]["gender"] == "male"
    assert (friends["age"], friends["gender"], friends["mixed"]) == (None, "female", [])
    assert (nobody["gender"], nobody["people"]) == (None, [])
    assert (unsure["gender"], unsure["caption"], unsure["activity"]) == (None, None, "posing")
    assert {r["split"] for r in good} == {"val"}


def test_the_vote_of_three(tmp_path: Path, collect: Any) -> None:
    votes = [labels(worker="a"), labels(worker="b", gender="male"), labels(worker="c", age="young")]
    split = [labels(gender="male"), labels(), labels(gender="unsure")]
    document = {"1": {"caption": "x", "person1": region(votes)}, "2": {"caption": "y", "person1": region(split)}}
    path = tmp_path / "phase_gcc_train_all_20221101.json"
    path.write_text(json.dumps(document))
    good, bad = collect("phase", path)
    assert not bad
    assert (good[0]["gender"], good[0]["age"], good[0]["split"]) == ("female", "adult", "train")
    assert (good[1]["gender"], good[1]["age"], good[1]["mixed"]) == (None, "adult", [])


def test_bad_entries_cost_themselves(tmp_path: Path, collect: Any, touch: Any) -> None:
    document: dict[str, Any] = {
        "1": {"caption": "fine", "person1": region(labels())},
        "2": {"caption": "gone", "person1": region(labels())},
        "3": {"caption": "x", "person1": region(labels(), (1, 2, 3))},
        "4": {"caption": "x", "person1": region(labels(), (5, 5, 1, 9))},
        "5": {"caption": "x", "person1": region("none")},
        "6": [1],
        "7": {"caption": "x", "person1": region(labels(), (0, 0, float("inf"), 9))},
    }
    path = tmp_path / "phase_gcc_val_regions_20221101.json"
    path.write_text(json.dumps(document))
    for name in "134567":
        touch(tmp_path / "im" / name)
    good, bad = collect("phase", path, images=tmp_path / "im")
    assert [r["image_id"] for r in good] == ["1"]
    assert [b.where.rpartition(" ")[2] for b in bad] == ["2", "3", "4", "5", "6", "7"]


def test_wrong_shape(tmp_path: Path) -> None:
    path = tmp_path / "phase_gcc_val_regions_20221101.json"
    path.write_text("[]")
    with pytest.raises(InputError, match="not a PHASE file"):
        list(read("phase", path))
