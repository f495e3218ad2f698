from __future__ import annotations

import io
import os
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from equipoise.data.images import check, decode, encode, image_bytes, resolve
from equipoise.errors import InputError


def saved(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, format=format, **options)
    return target.getvalue()


def png_head(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8))
CORNERS = np.array(
    [[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[9, 9, 9], [99, 99, 99], [200, 200, 200]]], dtype=np.uint8
)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    upright = {
        1: CORNERS,
        2: CORNERS[:, ::-1],
        3: CORNERS[::-1, ::-1],
        4: CORNERS[::-1],
        5: CORNERS.transpose(1, 0, 2),
        6: np.rot90(CORNERS, -1),
        7: CORNERS[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(CORNERS),
    }[orientation]
    data = saved(Image.fromarray(CORNERS), exif=exif)
    assert np.array_equal(np.asarray(decode(data)), upright)
    # a picture that Pillow opened lies as its file does, and what is stored does not say how to turn it
    assert np.array_equal(np.asarray(decode(encode(Image.open(io.BytesIO(data))))), upright)


def test_damaged_exif_does_not_cost_the_image() -> None:
    assert decode(saved(Image.fromarray(CORNERS), "JPEG", exif=b"Exif\0\0garbage")).size == (3, 2)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("L", (2, 2), 100), (100, 100, 100)),
        (Image.new("1", (2, 2), 1), (255, 255, 255)),
        (Image.new("LA", (2, 2), (0, 0)), (255, 255, 255)),
        (Image.new("RGBA", (2, 2), (255, 0, 0, 0)), (255, 255, 255)),
        (Image.new("RGBA", (2, 2), (255, 0, 0, 255)), (255, 0, 0)),
        (Image.new("RGBA", (2, 2), (0, 0, 0, 51)), (204, 204, 204)),
        (Image.new("RGB", (2, 2), (7, 8, 9)).convert("P", palette=Image.Palette.ADAPTIVE), (7, 8, 9)),
        (Image.fromarray(np.full((2, 2), 65535, dtype=np.uint16)), (255, 255, 255)),
        (Image.fromarray(np.full((2, 2), 25700, dtype=np.uint16)), (100, 100, 100)),
        (Image.fromarray(np.full((2, 2), 51400, dtype=np.int32)), (200, 200, 200)),
    ],
)
def test_every_mode_becomes_rgb(image: Image.Image, expected: tuple[int, int, int]) -> None:
    found = decode(saved(image, "TIFF" if image.mode == "I" else "PNG"))
    assert found.mode == "RGB"
    assert found.getpixel((1, 1)) == expected


def test_transparent_colour_of_a_palette_or_rgb_png_is_white() -> None:
    palette = Image.new("P", (2, 1), 0)
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((1, 0), 1)
    found = decode(saved(palette, transparency=0))
    assert [found.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (40, 50, 60)]
    rgb = Image.new("RGB", (1, 1), (1, 2, 3))
    assert decode(saved(rgb, transparency=(1, 2, 3))).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "HSV"])
def test_a_picture_in_colours_that_png_has_not_is_stored_as_rgb(mode: str) -> None:
    picture = Image.new("RGB", (8, 8), (200, 30, 40)).convert(mode)
    assert decode(encode(picture)).getpixel((0, 0)) == picture.convert("RGB").getpixel((0, 0))


def test_cmyk_and_grey_jpegs_become_rgb() -> None:
    red = decode(saved(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100)).getpixel((4, 4))
    assert np.abs(np.array(red) - [255, 0, 0]).max() <= 3
    assert decode(saved(Image.new("L", (8, 8), 128), "JPEG")).getpixel((4, 4)) == (128, 128, 128)


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_taken(format: str) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue", "lime")]
    data = saved(frames[0], format, save_all=True, append_images=frames[1:], duration=50, loop=0)
    red, green, blue = decode(data).getpixel((2, 2))  # type: ignore[misc]
    assert (red > 240, green < 15, blue < 15) == (True, True, True)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"hello", "not a known format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not a known format"),
        (png_head(0, 5), "cannot read"),
        (png_head(30_000, 30_000), "pixels that are decoded"),
        (png_head(9_000, 9_000), "9000 x 9000 pixels, more than the 64000000"),
        # Where Pillow itself only warns: the same sentence, and no warning (warnings are errors here)
        (png_head(10_000, 10_000), "10000 x 10000 pixels, more than the 64000000"),
        (png_head(100, 100), "truncated"),
        (saved(NOISE)[:-400], "truncated"),
        (saved(NOISE, "JPEG")[:700], "truncated"),
        (saved(NOISE, "GIF")[:3000], "truncated"),
        (saved(Image.fromarray(np.ones((2, 2), dtype=np.float32)), "TIFF"), "floating-point"),
    ],
)
def test_what_is_no_usable_image_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        decode(data)


def test_the_limit_on_pixels_can_be_lowered() -> None:
    data = encode(Image.new("RGB", (100, 100)))
    assert decode(data, max_pixels=10_000).size == (100, 100)
    with pytest.raises(InputError, match="100 x 100 pixels, more than the 9999"):
        decode(data, max_pixels=9_999)
    with pytest.raises(InputError, match="100 x 100 pixels, more than the 9999"):
        check(data, max_pixels=9_999)


def test_check_looks_at_the_head_only() -> None:
    data = saved(NOISE.crop((0, 0, 64, 32)), "JPEG")
    assert check(data[:700]) == (64, 32)
    with pytest.raises(InputError, match="not a known format"):
        check(b"hello")


def test_all_forms_of_an_image_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(Image.new("RGB", (2, 2), (1, 2, 3)))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.png").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    forms: list[Any] = [
        *(data, bytearray(data), memoryview(data), {"bytes": data, "path": None}, {"bytes": data, "path": "gone.png"}),
        *("a/x.png", Path("a/x.png"), str(tmp_path / "a" / "x.png"), {"bytes": None, "path": "a/x.png"}),
        *({"path": "a/x.png"}, Image.new("RGB", (2, 2), (1, 2, 3))),
    ]
    for form in forms:
        assert decode(form).getpixel((0, 0)) == (1, 2, 3), form
    assert image_bytes("x.png", root=tmp_path / "a") == data
    for nothing in (None, {}, {"bytes": None, "path": None}):
        with pytest.raises(InputError, match="the row has no image"):
            decode(nothing)
    with pytest.raises(InputError, match="not int"):
        decode(5)


@pytest.mark.parametrize("path", ["../x.png", "a/../../x.png", "..", "a/b/../../../x"])
def test_a_relative_path_may_not_leave_its_root(path: str) -> None:
    with pytest.raises(InputError, match="leads out of its folder"):
        resolve(path, "/data")


def test_paths_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    assert resolve("a/../x.png", "/data") == Path("/data/a/../x.png")
    for path, reason in [
        ("http://example.org/x.png", "address on the web"),
        ("a\0b", "is not a path"),
        ("", "is not a path"),
        ("x" * 5000, "cannot be read"),
        ("missing.png", "is missing"),
        (".", "is not a file"),
    ]:
        with pytest.raises(InputError, match=reason):
            decode({"bytes": None, "path": path}, root=tmp_path)
    os.mkfifo(tmp_path / "pipe")
    result: list[str] = []

    def read() -> None:
        try:
            decode("pipe", root=tmp_path)
        except InputError as error:
            result.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(5)
    assert result, "a pipe must not be waited for"
    assert "is not a file" in result[0]


@settings(deadline=None)
@given(st.data())
def test_damaged_files_give_an_image_or_a_reason(data: st.DataObject) -> None:
    picture = NOISE.crop((0, 0, 16, 12)).convert("RGB")
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM"]))
    content = bytearray(saved(picture, kind))
    for _ in range(data.draw(st.integers(1, 8))):
        where = data.draw(st.integers(0, len(content) - 1))
        content[where] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(1, len(content)))]
    try:
        found = decode(bytes(content))
    except InputError:
        return
    assert found.mode == "RGB"
    assert min(found.size) >= 1
