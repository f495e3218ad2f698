"""Large images: the same pixels as ever, in bounded memory."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table, images
from equipoise.data import images as late_images
from equipoise.data.images import HELD, ORDINARY, LateImage, decode, held_pixels
from equipoise.errors import InputError


def saved(image: Image.Image, format: str = "JPEG", **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, format=format, **options)
    return target.getvalue()


def photo(width: int = 1500, height: int = 1000) -> Image.Image:
    rng = np.random.default_rng(width)
    return Image.fromarray(rng.integers(0, 256, (10, 15, 3), dtype=np.uint8)).resize((width, height))


@pytest.fixture(autouse=True)
def nothing_held() -> None:
    gc.collect()
    late_images.forget()


@pytest.mark.parametrize("held", [HELD, 0], ids=["held", "decoded again"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_large_images_have_the_pixels_that_pillow_gives(
    held: int, orientation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_images, "HELD", held)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(photo(), exif=exif)
    with Image.open(io.BytesIO(data)) as opened:
        plain = np.asarray(opened.convert("RGB"))
    expected = np.rot90(plain, -1) if orientation == 6 else plain
    made = decode(data)
    assert type(made) is LateImage
    assert (made.mode, made.size) == ("RGB", expected.shape[1::-1])
    for _ in range(2):
        assert np.array_equal(np.asarray(made), expected)
        made.forget()
    assert made.getpixel((3, 4)) == tuple(expected[4, 3])
    assert made.load()[3, 4] == tuple(expected[4, 3])
    assert np.array_equal(np.asarray(made.crop((10, 20, 50, 60))), expected[20:60, 10:50])
    for other in (made.copy(), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert np.array_equal(np.asarray(other), expected)
    for change in (
        lambda image: image.thumbnail((30, 30)),
        lambda image: image.paste("red", (0, 0, 9, 9)),
        lambda image: image.putpixel((0, 0), 0),
    ):
        changed, other = decode(data), decode(data).copy()
        change(changed)
        change(other)
        changed.forget()
        assert np.array_equal(np.asarray(changed), np.asarray(other)), "what was changed is not decoded again"


def test_ordinary_images_are_plain() -> None:
    assert type(decode(saved(Image.new("RGB", (1024, 1024))))) is Image.Image
    assert 1024 * 1024 <= ORDINARY < 1500 * 1000


@pytest.mark.slow
def test_pixels_that_are_held_are_counted_and_bounded() -> None:
    data = saved(photo(4000, 3000))
    before = held_pixels()
    made = [decode(data) for _ in range(12)]
    assert before < held_pixels() <= HELD < 12 * 12_000_000
    first = np.asarray(made[0])
    assert all(np.array_equal(np.asarray(image), first) for image in made)
    loaded = sum(12_000_000 for image in made if image._kept is not None)  # type: ignore[attr-defined]
    assert loaded <= HELD + late_images.LARGE, "those that were looked at are forgotten again"
    del made
    gc.collect()
    assert held_pixels() == before


def test_many_threads_look_at_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_images, "HELD", 0)
    monkeypatch.setattr(late_images, "LARGE", 2_000_000)
    made = [decode(saved(photo(1500 + i, 1000))) for i in range(4)]
    sums = [int(np.asarray(image).sum()) for image in made]
    wrong: list[int] = []

    def look(offset: int) -> None:
        for i in range(8):
            at = (i + offset) % 4
            if int(np.asarray(made[at].convert("RGB")).sum()) != sums[at]:
                wrong.append(at)

    threads = [threading.Thread(target=look, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_cut_off_large_image_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="truncated"):
        decode(saved(photo())[:-2000])


def test_running_out_of_memory_is_not_the_images_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(image: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(images, "_upright_rgb", short)
    for size in ((8, 8), (1500, 1000)):
        with pytest.raises(MemoryError):
            decode(saved(Image.new("RGB", size)))
    tried: list[int] = []

    def once_short(image: Any) -> Any:
        tried.append(1)
        if len(tried) == 1:
            raise MemoryError
        return image.convert("RGB")

    monkeypatch.setattr(images, "_upright_rgb", once_short)
    assert decode(saved(Image.new("RGB", (8, 8)))).size == (8, 8), "others are forgotten, and it is tried again"


def test_sixteen_bits_become_eight_as_before() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 65536, (700, 30)).astype(np.uint16)
    found = np.asarray(decode(saved(Image.fromarray(values), "PNG")))
    assert np.array_equal(found[:, :, 0], values.astype(np.int64) // 257)


BOMB = """
import re, sys
from pathlib import Path
sys.argv = ["equipoise", *sys.argv[1:]]
from equipoise.cli.main import run
try:
    run()
except SystemExit as stop:
    print("exit", stop.code)
print("peak", int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def bomb_table(folder: Path, n: int = 30, side: int = 7900) -> Path:
    """Pictures of one kilobyte or so that claim to have 62 million pixels; their labels are those of a real table."""
    data = saved(Image.new("L", (side, side), 90), quality=5)
    # A JPEG of one colour compresses to hundreds of bytes for each million pixels.
    rows = [
        {
            "image_id": f"{i:02d}",
            "set_id": str(i // 2),
            "subject": ("doctor", "nurse", "chef")[i // 2 % 3],
            "gender": ("man", "woman")[i % 2],
            "caption": "a photo of a doctor",
            "image": {"bytes": data, "path": None},
        }
        for i in range(n)
    ]
    Table.create(folder, rows, axes=["gender"])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["filter", "{table}", "-s", "sharpness", "--set", "sharpness.of=image", "-o", "{out}"],
        ["filter", "{table}", "-s", "similarity", "-m", "mini:clip", "-o", "{out}"],
        ["audit", "mini:clip", "-t", "{table}", "-s", "intersectional", "--axis", "gender", "-o", "{out}"],
    ],
    ids=["sharpness", "similarity", "audit"],
)
def test_a_table_of_bombs_takes_less_than_two_gigabytes(command: list[str], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    table = bomb_table(tmp_path / "bombs")
    words = [word.format(table=table, out=tmp_path / "out") for word in command]
    environment = os.environ | {"EQUIPOISE_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BOMB, *words], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert "exit 0" in done.stdout, done.stdout + done.stderr
    peak = int(done.stdout.split("peak ")[1].split()[0])
    assert peak < 2048, f"{peak} MB"
