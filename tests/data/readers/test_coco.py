"""COCO: captions, people, objects; and what real files get wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from equipoise.data.importing import import_table
from equipoise.data.masks import decode
from equipoise.data.people import people_of
from equipoise.data.readers import read
from equipoise.data.schema import Rejected
from equipoise.errors import InputError

SHARED = Path(__file__).parents[4] / "shared" / "data"

IMAGES = [
    {"id": 7, "file_name": "000000000007.jpg", "height": 4, "width": 6, "license": 1, "coco_url": "http://x/7.jpg"},
    {"id": 9, "file_name": "000000000009.jpg", "height": 4, "width": 6},
]
CAPTIONS: dict[str, Any] = {
    "info": {"year": 2017},
    "licenses": [],
    "images": IMAGES,
    "annotations": [
        {"image_id": 9, "id": 1, "caption": "Two people ride. "},
        {"image_id": 7, "id": 2, "caption": "A woman cooks."},
        {"image_id": 7, "id": 3, "caption": "Someone at a stove."},
    ],
}
INSTANCES: dict[str, Any] = {
    "images": IMAGES,
    "categories": [{"id": 1, "name": "person", "supercategory": "person"}, {"id": 79, "name": "oven"}],
    "annotations": [
        {
            "id": 100,
            "image_id": 7,
            "category_id": 1,
            "bbox": [1, 0, 2, 4],
            "area": 8.0,
            "iscrowd": 0,
            "segmentation": [[1, 0, 3, 0, 3, 4, 1, 4]],
        },
        {
            "id": 101,
            "image_id": 9,
            "category_id": 1,
            "bbox": [0, 0, 6, 4],
            "area": 24,
            "iscrowd": 1,
            "segmentation": {"size": [4, 6], "counts": [0, 24]},
        },
        {"id": 102, "image_id": 7, "category_id": 79, "bbox": [4, 0, 1, 1], "area": 1, "iscrowd": 0},
    ],
}


def make(root: Path, touch: Any, **documents: Any) -> Path:
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (root / "annotations" / f"{name}_val2017.json").write_text(json.dumps(document))
    for image in IMAGES:
        touch(root / "val2017" / image["file_name"])
    return root


def test_captions_people_and_objects_are_joined(tmp_path: Path, collect: Any, touch: Any) -> None:
    root = make(tmp_path, touch, captions=CAPTIONS, instances=INSTANCES)
    good, bad = collect("coco", root)
    assert not bad
    first, second = good
    assert first["image"] == {"bytes": None, "path": str(root / "val2017" / "000000000007.jpg")}
    assert (first["image_id"], first["split"], first["release"]) == ("7", "val", "2017")
    assert first["caption"] == "A woman cooks."
    assert first["captions"] == ["A woman cooks.", "Someone at a stove."]
    assert second["captions"] == ["Two people ride."]
    assert first["objects"] == ["oven", "person"]
    assert json.loads(first["object_boxes"]) == [{"name": "oven", "box": [4, 0, 1, 1], "mask": None, "iscrowd": False}]
    assert json.loads(second["object_boxes"]) == []
    (cook,) = first["people"]
    assert cook["box"] == [1, 0, 2, 4]
    assert not cook["iscrowd"]
    assert decode(cook["mask"], 4, 6).sum() == 8
    (crowd,) = second["people"]
    assert crowd["iscrowd"]
    assert decode(crowd["mask"], 4, 6).all()
    assert people_of(json.dumps(first["people"])) == first["people"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"bbox": [4, 0, -1, 1]}, "width of the box"),
        ({"segmentation": [[1, 2]]}, "a polygon has 2 numbers"),
        ({"iscrowd": 7}, "iscrowd"),
    ],
)
def test_a_damaged_object_costs_itself(
    tmp_path: Path, collect: Any, touch: Any, damage: dict[str, Any], words: str
) -> None:
    instances = copy.deepcopy(INSTANCES)
    instances["annotations"][2] |= damage
    good, bad = collect("coco", make(tmp_path, touch, captions=CAPTIONS, instances=instances))
    assert [row["object_boxes"] for row in good] == ["[]", "[]"]
    assert good[0]["objects"] == ["person"]
    (rejected,) = bad
    assert words in rejected.reason
    assert "annotations[2]" in rejected.where


def test_keypoints_join_the_same_person(tmp_path: Path, collect: Any, touch: Any) -> None:
    keypoints = copy.deepcopy(INSTANCES)
    keypoints["annotations"] = [INSTANCES["annotations"][0] | {"keypoints": [1, 2, 2] * 17, "num_keypoints": 17}]
    root = make(tmp_path, touch, captions=CAPTIONS, instances=INSTANCES, person_keypoints=keypoints)
    good, bad = collect("coco", root, parts=("captions", "instances", "person_keypoints"))
    assert not bad
    (cook,) = good[0]["people"]
    assert cook["keypoints"] == [1, 2, 2] * 17
    without = collect("coco", root, parts="captions")[0][0]
    assert (without["people"], without["object_boxes"]) == (None, None)


def test_2014_names_and_one_file_without_images(tmp_path: Path, collect: Any) -> None:
    document = copy.deepcopy(CAPTIONS)
    document["images"] = [{"id": 7, "file_name": "COCO_val2014_000000000007.jpg"}]
    document["annotations"] = document["annotations"][1:]
    path = tmp_path / "captions_val2014.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(document).encode())
    good, bad = collect("coco", path)
    assert not bad
    assert good[0]["image"] is None
    assert (good[0]["release"], good[0]["split"]) == ("2014", "val")


def test_what_real_files_get_wrong_costs_its_own_row(tmp_path: Path, collect: Any, touch: Any) -> None:
    captions = copy.deepcopy(CAPTIONS)
    captions["images"] += [IMAGES[0], {"id": 11, "file_name": "gone.jpg"}, {"id": 12}, "x"]
    captions["images"] += [{"id": 13, "file_name": "../x"}]
    captions["annotations"] += [
        {"image_id": 99, "id": 4, "caption": "Nobody's."},
        {"image_id": 9, "id": 5, "caption": "  "},
        {"image_id": 9, "id": 6, "caption": None},
        {"image_id": 9, "id": 7, "caption": "bad \ud800 text"},
        {"image_id": True, "id": 8, "caption": "x"},
        {"image_id": 9, "id": 9, "caption": "y" * 200_000},
        17,
    ]
    instances = copy.deepcopy(INSTANCES)
    base = INSTANCES["annotations"][0]
    instances["annotations"] += [
        base,
        base | {"id": 200, "bbox": [0, 0, -1, 2]},
        base | {"id": 201, "bbox": [0, 0, float("nan"), 2]},
        base | {"id": 202, "segmentation": {"size": [4, 6], "counts": [3]}},
        base | {"id": 203, "category_id": 5},
        base | {"id": 204, "keypoints": [1, 2]},
        base | {"id": 205, "iscrowd": "yes"},
        base | {"id": 10**30},
    ]
    root = make(tmp_path, touch, captions=captions, instances=instances)
    good, bad = collect("coco", root)
    clean, _ = collect("coco", make(tmp_path / "clean", touch, captions=CAPTIONS, instances=INSTANCES))
    for row, expected in zip(good, clean, strict=True):
        assert row | {"image": None} == expected | {"image": None}
    reasons = "\n".join(f"{b.where}: {b.reason}" for b in bad)
    for part in (
        "captions_val2017.json images[2]: the image id '7' was given before",
        "image 11: the image 'gone.jpg' is not in",
        "images[4]: the file name is None, not text",
        "images[5]: the image is 'x'; a JSON object is expected",
        "does not stay inside the folder",
        "annotations[3]: it belongs to image '99', which is not among the images",
        "annotations[4]: the caption is empty",
        "annotations[5]: the caption is None, not text",
        "annotations[6]: the caption is not valid UTF-8 text",
        "annotations[7]: the image id is True",
        "annotations[8]: the caption has 200000 characters",
        "annotations[3]: the annotation id '100' was given before",
        "the width of the box is -1",
        "the width of the box is nan",
        "add up to 3",
        "category '5' is not among the categories",
        "triples",
        "iscrowd is 'yes'",
        "more than 64 bits",
    ):
        assert part in reasons
    assert len(bad) == 20


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "not a COCO annotation file"),
        ('{"images": {}}', "not a COCO annotation file"),
        ('{"images": [], "annotations": 3}', "not a COCO annotation file"),
        ("", "is empty"),
    ],
)
def test_json_of_the_wrong_shape_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "captions_val2017.json"
    path.write_text(content)
    with pytest.raises(InputError, match=reason):
        list(read("coco", path))


def test_several_splits_need_a_choice(tmp_path: Path, touch: Any) -> None:
    root = make(tmp_path, touch, captions=CAPTIONS)
    (root / "annotations" / "captions_train2017.json").write_text(json.dumps(CAPTIONS))
    assert [row["split"] for row in read("coco", root)] == ["val", "val"]  # the only one with images
    (root / "train2017").mkdir()
    several = r"train2017, val2017; say which with --option split=val2017 \(in Python split='val2017'\)"
    with pytest.raises(InputError, match=several):
        list(read("coco", root))
    (root / "train2017").rmdir()
    (root / "val2017").rename(root / "pictures")
    with pytest.raises(InputError, match=several):
        list(read("coco", root))
    with pytest.raises(InputError, match="no captions or instances of split 'val2014'"):
        list(read("coco", root, split="val2014"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no annotation files; files such as captions_val2017.json"):
        list(read("coco", tmp_path / "empty"))
    (tmp_path / "empty" / "captions_mine.json").write_text("{}")
    with pytest.raises(InputError, match=r"names tell no split \(such as 'captions_mine.json'\)"):
        list(read("coco", tmp_path / "empty"))
    with pytest.raises(InputError, match="the parts of COCO are"):
        list(read("coco", root, parts=("captions", "stuff")))
    assert len(list(read("coco", root, split="val2017"))) == 2


def test_an_unknown_option_is_answered_with_the_closest() -> None:
    with pytest.raises(InputError, match="no option 'spilt'; did you mean 'split'"):
        read("coco", "x", spilt="val2017")


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the real COCO annotations are not here")
def test_on_the_real_annotations(collect: Any) -> None:
    good, bad = collect("coco", SHARED / "coco" / "captions_val2017.json")
    assert (len(good), sum(len(row["captions"]) for row in good), bad) == (5000, 25_014, [])
    for split, people in (("train2017", 172), ("val2017", 118)):
        good, bad = collect("coco", SHARED / "photos", split=split, parts="captions,instances,person_keypoints")
        assert not bad
        assert sum(len(row["people"]) for row in good) == people
        for row in good:
            assert Path(row["image"]["path"]).is_file()
            for person in row["people"]:
                mask = decode(person["mask"], row["height"], row["width"])
                assert abs(mask.sum() - person["area"]) <= max(4, 0.25 * person["area"])


def test_rejected_rows_keep_a_short_note(tmp_path: Path) -> None:
    path = tmp_path / "captions_val2017.json"
    document = {"images": [], "annotations": [{"image_id": 1, "id": 2, "caption": "x" * 1000}]}
    path.write_text(json.dumps(document))
    (bad,) = read("coco", path)
    assert isinstance(bad, Rejected)
    assert bad.row["image_id"] == "1"
    assert len(bad.row["caption"]) == 200


def test_image_files_without_an_annotation_are_counted(tmp_path: Path) -> None:
    (tmp_path / "coco" / "annotations").mkdir(parents=True)
    (tmp_path / "coco" / "val2017").mkdir()
    (tmp_path / "coco" / "annotations" / "captions_val2017.json").write_text(json.dumps(CAPTIONS))
    for name in ("000000000007.jpg", "000000000009.jpg", "000000000011.jpg", "000000000012.JPG"):
        Image.new("RGB", (6, 4)).save(tmp_path / "coco" / "val2017" / name)
    (tmp_path / "coco" / "val2017" / "readme.txt").write_text("no image")
    found = import_table("coco", tmp_path / "coco", tmp_path / "table")
    assert (found.n_rows, found.n_rejected) == (2, 0)
    assert "note: 2 image files of val2017 have no annotation and were left out" in str(found)
    some = import_table("coco", tmp_path / "coco", tmp_path / "one", limit=1)
    assert (some.n_rows, some.notes) == (1, ()), "a part of the rows does not tell what the rest would name"
