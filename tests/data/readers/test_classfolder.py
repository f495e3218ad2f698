"""One folder per class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.errors import InputError


def test_caltech_and_its_stray_files(tmp_path: Path, collect: Any, touch: Any) -> None:
    for name in ("001.ak47/001_0001.jpg", "056.dog/056_0001.jpg", "056.dog/greg/x.jpg", "198.spider/RENAME2", "a.txt"):
        touch(tmp_path / name)
    good, bad = collect("classfolder", tmp_path)
    assert [(r["image_id"], r["subject"], r["class_id"], r["split"]) for r in good] == [
        ("001.ak47/001_0001.jpg", "ak47", "001.ak47", None),
        ("056.dog/056_0001.jpg", "dog", "056.dog", None),
    ]
    assert [b.where for b in bad] == ["a.txt", "056.dog/greg", "198.spider/RENAME2"]


def test_imagenet_with_splits_and_names(tmp_path: Path, collect: Any, touch: Any) -> None:
    touch(tmp_path / "im" / "train" / "n01440764" / "n01440764_1.JPEG")
    touch(tmp_path / "im" / "val" / "n01443537" / "ILSVRC2012_val_1.JPEG")
    names = tmp_path / "LOC_synset_mapping.txt"
    names.write_bytes(b"n01440764 tench, Tinca tinca\r\nn01443537\r\n")
    good, bad = collect("classfolder", tmp_path / "im", names=names)
    assert [(r["subject"], r["split"]) for r in good] == [("tench", "train"), ("n01443537", "val")]
    assert [b.reason for b in bad] == ["the name of the class is empty"]


def test_no_class_folders(tmp_path: Path, touch: Any) -> None:
    touch(tmp_path / "ILSVRC2012_val_1.JPEG")
    with pytest.raises(InputError, match="holds no folder of a class"):
        list(read("classfolder", tmp_path))
    with pytest.raises(InputError, match="is a file"):
        list(read("classfolder", tmp_path / "ILSVRC2012_val_1.JPEG"))
