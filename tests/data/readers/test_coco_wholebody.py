"""COCO-WholeBody: parts of people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def annotation(**more: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "image_id": 7,
        "category_id": 1,
        "bbox": [0, 0, 10, 20],
        "area": 100,
        "iscrowd": 0,
        "keypoints": [0, 0, 0] * 17,
        "face_box": [2, 1, 4, 5],
        "lefthand_box": [0.0, 0.0, 0.0, 0.0],
        "righthand_box": [1, 10, 2, 2],
        "face_valid": True,
        "lefthand_valid": False,
        "righthand_valid": True,
        "foot_valid": False,
        "face_kpts": [0, 0, 0] * 68,
    } | more


def test_valid_parts_only(tmp_path: Path, collect: Any, touch: Any) -> None:
    document = {
        "images": [{"id": 7, "file_name": "000000000007.jpg", "height": 30, "width": 30}],
        "categories": [{"id": 1, "name": "person"}],
        "annotations": [
            annotation(),
            annotation(id=2, face_valid=False, righthand_valid=False),
            annotation(id=3, face_box=[1, 2]),
            annotation(id=4, image_id=8),
            annotation(id=5, face_valid="yes"),
        ],
    }
    path = tmp_path / "coco_wholebody_val_v1.0.json"
    path.write_text(json.dumps(document))
    touch(tmp_path / "val2017" / "000000000007.jpg")
    good, bad = collect("coco-wholebody", tmp_path, images=tmp_path / "val2017")
    (row,) = good
    assert (row["split"], row["release"]) == ("val", "2017")
    assert row["people"][0]["parts"] == {"face": [2, 1, 4, 5], "right_hand": [1, 10, 2, 2]}
    assert row["people"][1]["parts"] is None
    assert [b.where for b in bad] == [f"{path.name} annotations[{i}]" for i in (3, 2, 4)]
    assert "the face box is [1, 2]" in bad[1].reason
