"""Commands that look at every image stay below 2 GB: on images that claim to be huge, and on very many."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table

ORDINARY = int(os.environ.get("EQUIPOISE_MANY_IMAGES", "50000"))
COMMANDS = ("embed", "audit", "filter", "caption")


def jpeg_claiming(side: int) -> bytes:
    """A file of about a kilobyte whose header says that it is ``side`` pixels high and wide."""
    target = io.BytesIO()
    Image.new("RGB", (64, 64), (90, 120, 40)).save(target, "JPEG")
    data = bytearray(target.getvalue())
    place = data.index(b"\xff\xc0") + 5  # marker, length, bits; then height and width
    data[place : place + 4] = side.to_bytes(2, "big") * 2
    return bytes(data)


def ordinary_jpegs(n: int) -> Iterator[bytes]:
    """``n`` pictures of 64 pixels that differ: a few hundred, each with comments of their own."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(min(n, 300)):
        target = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).resize((64, 64)).save(target, "JPEG")
        made.append(target.getvalue())
    for i in range(n):
        comment = f"picture {i}".encode()
        data = made[i % len(made)]
        yield data[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + data[2:]


def write_table(folder: Path, images: Iterator[bytes]) -> None:
    Table.create(
        folder,
        (
            {
                "image_id": f"i{i:06d}",
                "image": data,
                "set_id": f"s{i // 2:06d}",
                "subject": f"job {i // 2 % 20}",
                "gender": ("female", "male")[i % 2],
            }
            for i, data in enumerate(images)
        ),
        axes=["gender"],
        rows_per_shard=5000,
    )


def words_of(name: str, table: Path, out: Path) -> list[Any]:
    return {
        "embed": ["embed", "mini:clip", table, "-o", out / "vectors"],
        "audit": ["audit", "mini:clip", "-s", "intersectional", "-t", table, "--draws", "9", "-o", out / "audit"],
        "filter": ["filter", table, "-s", "sharpness", "--draws", "19", "-o", out / "filter"],
        "caption": ["caption", "mini:captioner", table, "--batch-size", "64", "-o", out / "captions.jsonl"],
    }[name]


@pytest.mark.slow
def test_images_that_claim_to_be_huge(equipoise: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write_table(tmp_path / "bombs", iter([jpeg_claiming(7900)] * 30))
    peaks = {}
    for name in COMMANDS:
        more = ["--max-broken", "1"] if name != "filter" else []
        ended = equipoise(*words_of(name, tmp_path / "bombs", tmp_path), *more, seconds=1200).check_in_order()
        peaks[name] = ended.peak_mib
        print(name, ended.code, ended.peak_mib, "MB", ended.sentence[:200], flush=True)
    assert max(peaks.values()) < 2048, peaks


@pytest.mark.slow
def test_fifty_thousand_ordinary_images(equipoise: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write_table(tmp_path / "many", ordinary_jpegs(ORDINARY))
    for name in COMMANDS:
        ended = equipoise(*words_of(name, tmp_path / "many", tmp_path), seconds=7200).check_in_order()
        assert ended.code == 0, ended.told[-2000:]
        assert ended.peak_mib < 2048, (name, ended.peak_mib)
        print(name, ended.peak_mib, "MB", f"{ended.seconds:.0f} s", flush=True)
    captions = (tmp_path / "captions.jsonl").read_text()
    assert len(re.findall("\n", captions)) == ORDINARY
