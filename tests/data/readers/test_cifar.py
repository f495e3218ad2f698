"""CIFAR, the binary version."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.data.readers import read
from equipoise.errors import InputError

RNG = np.random.default_rng(0)
PLANES = RNG.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)


def test_cifar10(tmp_path: Path, collect: Any) -> None:
    (tmp_path / "batches.meta.txt").write_bytes(b"airplane\r\nautomobile\r\n\r\n")
    (tmp_path / "data_batch_1.bin").write_bytes(
        bytes([1]) + PLANES[0].tobytes() + bytes([7]) + PLANES[1].tobytes() + bytes([0]) + b"cut off"
    )
    (tmp_path / "test_batch.bin").write_bytes(bytes([0]) + PLANES[1].tobytes())
    good, bad = collect("cifar", tmp_path)
    assert [(r["image_id"], r["subject"], r["split"]) for r in good] == [
        ("data_batch_1-00000", "automobile", "train"),
        ("test_batch-00000", "airplane", "test"),
    ]
    pixels = np.asarray(Image.open(io.BytesIO(good[0]["image"]["bytes"])))
    assert (pixels == PLANES[0].transpose(1, 2, 0)).all()
    assert [b.reason for b in bad] == [
        "the class is 7, but there are 2 classes",
        f"the file ends {3073 - 8} bytes before the end of the record",
    ]


def test_cifar100(tmp_path: Path, collect: Any) -> None:
    (tmp_path / "coarse_label_names.txt").write_text("fish\npeople\n")
    (tmp_path / "fine_label_names.txt").write_text("baby\nshark\n")
    (tmp_path / "train.bin").write_bytes(bytes([1, 0]) + PLANES[0].tobytes())
    good, bad = collect("cifar", tmp_path)
    assert not bad
    assert (good[0]["subject"], good[0]["superclass"]) == ("baby", "people")


def test_the_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x04.")
    with pytest.raises(InputError, match=r"python version, a pickle .* download the binary version"):
        list(read("cifar", tmp_path))


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no data_batch_1.bin or train.bin"):
        list(read("cifar", tmp_path))
    (tmp_path / "train.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"coarse_label_names.txt is missing"):
        list(read("cifar", tmp_path))
