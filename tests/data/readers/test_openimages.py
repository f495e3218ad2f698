"""Open Images with MIAP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HEADER = "ImageID,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepictionOf,"
HEADER += "IsInsideOf,GenderPresentation,AgePresentation\n"


def full(image: str) -> str:
    return image if image.startswith(".") else image.rjust(16, "0")


def line(image: str, gender: str, age: str, box: str = "0.25,0.75,0.5,1") -> str:
    return f"{full(image)},/m/01g317,1,{box},0,1,0,0,0,{gender},{age}\n"


def test_labels_of_boxes_and_images(tmp_path: Path, collect: Any, touch: Any) -> None:
    (tmp_path / "open_images_extended_miap_boxes_val.csv").write_text(
        HEADER
        + line("00a", "Predominantly Feminine", "Young")
        + line("00b", "Predominantly Masculine", "Middle")
        + line("00a", "Predominantly Feminine", "Older")
        + line("00b", "Unknown", "Middle")
        + line("00c", "Predominantly Feminine", "Young")
        + line("00c", "Predominantly Feminine", "Young", "0.9,0.1,0,1")
        + line("../x", "Unknown", "Unknown")
        + line("00d", "Unknown", "Unknown", "0,1.5,0,1")
        + line("dead", "Unknown", "Unknown")
        + line("00e", "Unknown", "Yung")
    )
    for name in ("00a", "00b", "00c", "00d"):
        touch(tmp_path / "images" / f"{full(name)}.jpg")
    (tmp_path / "labels.csv").write_text(
        f"ImageID,Source,LabelName,Confidence\n{full('00a')},verification,/m/011k07,1\n"
        f"{full('00a')},verification,/m/02,0\n{full('00b')},verification,/m/03,1\n"
        f"zzz,verification,/m/03,1\n{full('00a')},verification,/m/04,maybe\n"
    )
    (tmp_path / "names.csv").write_text("LabelName,DisplayName\n/m/011k07,Tortoise\n")
    good, bad = collect(
        "openimages",
        tmp_path,
        images=tmp_path / "images",
        labels=tmp_path / "labels.csv",
        names=tmp_path / "names.csv",
    )
    assert [(r["image_id"], r["gender"], r["age"], r["mixed"], r["objects"]) for r in good] == [
        (full("00a"), "Predominantly Feminine", None, ["age"], ["Tortoise"]),
        (full("00b"), None, "Middle", [], ["/m/03"]),
        (full("00c"), None, None, [], []),  # one of its boxes could not be read
    ]
    person = good[0]["people"][0]
    assert (person["box"], person["unit"]) == ([0.25, 0.5, 0.5, 0.5], "fraction")
    assert person["attributes"]["IsTruncated"] is True
    assert good[0]["split"] == "val"
    assert [b.where.rpartition(" ")[2] for b in bad] == ["7", "8", "9", "11", "6", full("dead")]


def test_without_labels_the_objects_are_not_known(tmp_path: Path, collect: Any) -> None:
    path = tmp_path / "open_images_extended_miap_boxes_test.csv"
    path.write_text(HEADER + line("00a", "Unknown", "Young"))
    good, _ = collect("openimages", path)
    assert (good[0]["objects"], good[0]["gender"], good[0]["age"], good[0]["split"]) == (None, None, "Young", "test")


@pytest.mark.parametrize("name", ["coco", "openimages"])
def test_unset_columns_are_null(name: str) -> None:
    from equipoise.data.readers import READERS

    assert READERS.get(name).info["columns"]["people"] == "json"
