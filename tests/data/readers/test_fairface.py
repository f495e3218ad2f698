"""FairFace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.errors import InputError


def test_labels_keep_the_files_spelling(tmp_path: Path, collect: Any, touch: Any) -> None:
    (tmp_path / "fairface_label_val.csv").write_bytes(
        b"file,age,gender,race,service_test\r\nval/1.jpg,3-9,Male,East Asian,False\r\n"
        b"val/2.jpg,more than 70,Female,Latino_Hispanic,True\r\nval/1.jpg,3-9,Male,East Asian,False\r\n"
        b"val/3.jpg,3-9,Male,Black,False\r\nval/4.jpg,,Female,\r\n"
    )
    (tmp_path / "fairface_label_train.csv").write_bytes(b"file,age,gender,race,service_test\ntrain/1.jpg,,Female,,x\n")
    root = tmp_path / "fairface-img-margin125-trainval"
    for name in ("val/1.jpg", "val/2.jpg", "val/4.jpg", "train/1.jpg"):
        touch(root / name)
    good, bad = collect("fairface", tmp_path)
    assert [(r["image_id"], r["gender"], r["race"], r["age"], r["split"]) for r in good] == [
        ("train/1", "Female", None, None, "train"),
        ("val/1", "Male", "East Asian", "3-9", "val"),
        ("val/2", "Female", "Latino_Hispanic", "more than 70", "val"),
    ]
    assert [b.where.rpartition(" ")[2] for b in bad] == ["4", "5", "6"]
    assert good[1]["image"]["path"] == str(root / "val/1.jpg")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fairface_label_val.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no column 'file'"):
        list(read("fairface", path))
