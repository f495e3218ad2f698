"""Flickr30k: Karpathy's JSON and the token file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.errors import InputError


def entry(name: str, *captions: Any, split: str = "train", **more: Any) -> dict[str, Any]:
    sentences = [{"tokens": [], "raw": c, "imgid": 0, "sentid": i} for i, c in enumerate(captions)]
    return {"filename": name, "imgid": 0, "sentids": [], "split": split, "sentences": sentences} | more


def test_karpathys_json(tmp_path: Path, collect: Any, touch: Any) -> None:
    images = [
        entry("1.jpg", "A dog.", " ", "A dog runs."),
        entry("1.jpg", "Again."),
        entry("gone.jpg", "x", split="val"),
        entry("2.jpg", split="test"),
        entry("COCO_val2014_000000000042.jpg", "A bench.", filepath="val2014", cocoid=42, split="restval"),
        {"filename": 5},
        None,
    ]
    (tmp_path / "dataset_flickr30k.json").write_text(json.dumps({"images": images, "dataset": "flickr30k"}))
    for name in ("1.jpg", "2.jpg", "val2014/COCO_val2014_000000000042.jpg"):
        touch(tmp_path / "flickr30k-images" / name)
    good, bad = collect("flickr30k", tmp_path)
    assert [(r["image_id"], r["captions"], r["split"]) for r in good] == [
        ("1", ["A dog.", "A dog runs."], "train"),
        ("2", [], "test"),
        ("42", ["A bench."], "restval"),
    ]
    assert [b.reason.split(";")[0][:24] for b in bad] == [
        "the caption is empty",
        "the image id '1' was giv",
        "the image 'gone.jpg' is ",
        "the file name is 5, not ",
        "the image is None",
    ]


def test_the_token_file(tmp_path: Path, collect: Any, touch: Any) -> None:
    path = tmp_path / "results_20130124.token"
    path.write_bytes(
        b"\xef\xbb\xbf1.jpg#0\tTwo men .\r\n1.jpg#1\tA caf\xc3\xa9 .\r\n2.jpg#0\t\r\nno tab here\r\n"
        b"3.jpg#0\tcaf\xe9\r\n4.jpg#x\tz\r\n\r\n5.jpg#0\tGone.\r\n"
    )
    touch(tmp_path / "flickr30k_images" / "1.jpg")
    good, bad = collect("flickr30k", path)
    assert [(r["image_id"], r["captions"]) for r in good] == [("1", ["Two men .", "A café ."])]
    assert [b.where.removeprefix(path.name + " ") for b in bad] == [
        "line 3",
        "line 4",
        "line 5",
        "line 6",
        "image 5.jpg",
    ]


def test_of_several_files_in_a_folder_flickrs_own_is_read(tmp_path: Path, collect: Any) -> None:
    for name in ("coco", "flickr30k", "flickr8k"):
        (tmp_path / f"dataset_{name}.json").write_text(json.dumps({"images": [entry(f"{name}.jpg", "A dog.")]}))
    good, _ = collect("flickr30k", tmp_path)
    assert [row["image_id"] for row in good] == ["flickr30k"]
    (tmp_path / "dataset_flickr30k.json").unlink()
    (tmp_path / "results.token").write_text("1.jpg#0\tTwo men .\n")
    with pytest.raises(InputError, match=r"several .* \(dataset_coco\.json, dataset_flickr8k\.json\); give the path"):
        list(read("flickr30k", tmp_path))
    good, _ = collect("flickr30k", tmp_path / "dataset_flickr8k.json")
    assert [row["image_id"] for row in good] == ["flickr8k"]


def test_wrong_shape(tmp_path: Path) -> None:
    path = tmp_path / "dataset_flickr30k.json"
    path.write_text("[1, 2]")
    with pytest.raises(InputError, match="not one of Karpathy's files"):
        list(read("flickr30k", path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no file dataset_\*.json or \*.token"):
        list(read("flickr30k", tmp_path / "empty"))
