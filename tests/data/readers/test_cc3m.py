"""Conceptual Captions: the TSV and webdataset shards."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.data.readers.files import tarshards
from equipoise.errors import InputError


def shard(path: Path, files: list[tuple[str, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def sample(key: str, caption: bytes = b"a dog", **metadata: Any) -> list[tuple[str, bytes]]:
    about = {
        "caption": caption.decode("utf-8", "replace"),
        "url": "http://x",
        "key": key,
        "status": "success",
    } | metadata
    return [
        (f"{key}.jpg", b"JPEG " + key.encode()),
        (f"{key}.json", json.dumps(about).encode()),
        (f"{key}.txt", caption),
    ]


def test_the_tsv(tmp_path: Path, collect: Any, touch: Any) -> None:
    path = tmp_path / "Train_GCC-training.tsv"
    path.write_bytes(
        b'a "very" big dog\thttp://x/1\r\n\thttp://x/2\r\nno address\r\na\tb\tc\r\ncaf\xe9\thttp://x/5\r\nlast\thttp://x/6'
    )
    good, bad = collect("cc3m", path)
    assert [(r["image_id"], r["caption"], r["url"], r["image"]) for r in good] == [
        ("cc3m-train-000000000", 'a "very" big dog', "http://x/1", None),
        ("cc3m-train-000000005", "last", "http://x/6", None),
    ]
    assert [b.where.rpartition(" ")[2] for b in bad] == ["2", "3", "4", "5"]
    touch(tmp_path / "images" / "00000" / "000000005.jpg")
    good, bad = collect("cc3m", path, images=tmp_path / "images")
    assert [r["image_id"] for r in good] == ["cc3m-train-000000005"]
    assert "'000000000.jpg' is not in" in bad[0].reason


def test_the_header_of_img2dataset_does_not_count(tmp_path: Path, collect: Any) -> None:
    path = tmp_path / "Validation_GCC-1.1.0-Validation.tsv"
    path.write_text("caption\turl\nfirst\thttp://x\n")
    good, bad = collect("cc3m", path)
    assert not bad
    assert [(r["image_id"], r["split"]) for r in good] == [("cc3m-val-000000000", "val")]


def test_shards(tmp_path: Path, collect: Any) -> None:
    shard(
        tmp_path / "train" / "00000.tar",
        [
            *sample("000000000"),
            *sample("000000001", b"  "),
            *sample("000000002", status="failed_to_download"),
            ("000000003.json", b"{"),
            ("000000003.jpg", b"JPEG"),
            ("000000004.txt", b"no image"),
            ("000000005.jpg", b"JPEG"),
            ("000000005.txt", b"caf\xe9"),
            *sample("000000000"),
        ],
    )
    shard(tmp_path / "train" / "00001.tar", [*sample("000010000"), *sample("000000000")])
    good, bad = collect("cc3m", tmp_path)
    assert [(r["image_id"], r["image"]["bytes"]) for r in good] == [
        ("cc3m-train-000000000", b"JPEG 000000000"),
        ("cc3m-train-000010000", b"JPEG 000010000"),
    ]
    assert [b.reason[:20] for b in bad] == [
        "the caption is empty",
        "the download ended w",
        "the sample's .json i",
        "the sample has no im",
        "the caption is not v",
        "the key was given be",
        "the image id 'cc3m-t",
    ]


def test_a_shard_that_breaks_off(tmp_path: Path, collect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shard(tmp_path / "train.tar", [*sample("1"), *sample("2"), *sample("3")])
    whole = path.read_bytes()
    for length in (512 * 11 + 100, 512 * 12):  # in the second sample, and right behind it
        path.write_bytes(whole[:length])
        good, bad = collect("cc3m", path)
        assert [r["image_id"] for r in good] == ["cc3m-train-1"]
        assert "the shard breaks off here" in bad[-1].reason
    monkeypatch.setattr(tarshards, "MAX_MEMBER", 6)
    shard(path, [("1.jpg", b"too large"), ("1.txt", b"x")])
    good, bad = collect("cc3m", path)
    assert not good
    assert "more than 6" in bad[0].reason
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a tar file"):
        list(read("cc3m", path))
