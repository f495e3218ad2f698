"""Images in and out of tables: safe decoding to RGB, and encoding.

Whatever a file holds, :func:`decode` gives an upright 8-bit RGB image or an :class:`InputError` that says why not:
too many pixels, cut off, no image at all, a path that leads out of its folder.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from equipoise.data.late import forget, late, taking_turns
from equipoise.errors import InputError

__all__ = ["MAX_BYTES", "MAX_PIXELS", "anchored", "check", "decode", "encode", "image_bytes", "resolve"]

MAX_PIXELS = 64_000_000
"""No photograph of the public datasets comes near it; a decompression bomb does. Below Pillow's own limit."""

MAX_BYTES = 256 << 20
"""The longest encoded image that is read."""

# Formats that are pictures and nothing else: EPS, for one, would start an interpreter.
_FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF")
_ORIENTATION = 0x0112
_ROWS = 256


def decode(image: Any, *, root: str | os.PathLike[str] | None = None, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """An upright RGB image from a table's image value ``{bytes, path}``, from encoded bytes, or from a path.

    A relative path starts from ``root`` (default: the working folder) and may not leave it. EXIF orientation is
    applied, transparency is laid on white, 16 bits become 8, and of an animation the first frame is taken. Images of
    more than a million pixels may keep their bytes and be decoded when looked at, see :mod:`equipoise.data.late`.
    Where memory runs out, ``MemoryError`` is raised: it is not the image that is damaged.

    >>> decode(encode(Image.new("L", (2, 1), 255))).getpixel((0, 0))
    (255, 255, 255)
    >>> decode(b"GIF89a")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: cannot read 6 bytes as an image: it is no format that is known, or damaged
    """
    data = b"" if isinstance(image, Image.Image) else image_bytes(image, root=root)
    what = "it" if isinstance(image, Image.Image) else _described(image, data)
    try:
        if isinstance(image, Image.Image):
            return _upright_rgb(image).copy()
        return late(_decoded(data, max_pixels), partial(_decoded, data, max_pixels))
    except MemoryError:  # says nothing about the image; whoever asked may ask for fewer at a time
        raise
    except Exception as error:  # Pillow's decoders meet hostile bytes with any exception there is
        raise InputError(f"cannot read {what} as an image: {_reason(error, max_pixels)}") from None


def _decoded(data: bytes, max_pixels: int) -> Image.Image:
    with _opened(io.BytesIO(data), max_pixels) as opened, taking_turns(opened.width * opened.height):
        try:
            return _upright_rgb(opened)
        except MemoryError:
            forget()
        with _opened(io.BytesIO(data), max_pixels) as again:
            return _upright_rgb(again)


def check(image: Any, *, root: str | os.PathLike[str] | None = None, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Width and height from an image's head, without decoding it; :class:`InputError` if it is no image.

    It finds a missing file, a wrong format and a bomb, at a hundredth of the cost of decoding; it does not find
    a file that is cut off.

    >>> check(encode(Image.new("RGB", (3, 2))))
    (3, 2)
    """
    data, path = _parts(image)
    try:
        if data is None and path is not None:
            with _file(resolve(path, root)) as file, _opened(file, max_pixels) as opened:
                return opened.size
        with _opened(io.BytesIO(image_bytes(image)), max_pixels) as opened:
            return opened.size
    except (InputError, MemoryError):
        raise
    except Exception as error:
        what = _described(image, data or b"")
        raise InputError(f"cannot read {what} as an image: {_reason(error, max_pixels)}") from None


def encode(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    """``image`` as bytes; PNG by default, which loses nothing.

    >>> encode(Image.new("RGB", (1, 1)))[:4]
    b'\\x89PNG'
    """
    target = io.BytesIO()
    try:
        image.save(target, format=format, **options)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"an image of mode {image.mode} cannot be stored as {format}: {error}") from None
    return target.getvalue()


def image_bytes(image: Any, *, root: str | os.PathLike[str] | None = None) -> bytes:
    """The encoded bytes of an image value: its own, or those of the file its path leads to."""
    data, path = _parts(image)
    if data is None and path is None:
        raise InputError("the row has no image: neither bytes nor a path")
    if data is None:
        with _file(resolve(str(path), root)) as file:
            data = file.read()
    if not data:
        raise InputError(f"{path or 'the image'} is empty (0 bytes)")
    if len(data) > MAX_BYTES:
        raise InputError(f"{path or 'the image'} has {len(data)} bytes, more than the {MAX_BYTES} that are read")
    return data


def resolve(path: str, root: str | os.PathLike[str] | None = None) -> Path:
    """Where an image path leads: an absolute one as it is, a relative one from ``root``, which it may not leave.

    >>> resolve("train/1.jpg", "/data").as_posix()
    '/data/train/1.jpg'
    >>> resolve("../secret.jpg", "/data")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the image path '../secret.jpg' leads out of its folder; give an absolute path instead
    """
    if "\0" in path or not path:
        raise InputError(f"the image path {path!r} is not a path")
    if "://" in path:
        raise InputError(f"the image path {path!r} is an address on the web; download it first")
    given = Path(path)
    if given.is_absolute():
        return given
    depth = 0
    for part in PurePath(path).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            raise InputError(f"the image path {path!r} leads out of its folder; give an absolute path instead")
    return Path(root or ".") / given


def anchored(image: Any, root: str | os.PathLike[str]) -> Any:
    """A table's image value ``{bytes, path}`` that means the same in another table: a relative path made absolute.

    What may not be opened at all stays as it is, to be refused where it is opened.

    >>> anchored({"bytes": None, "path": "1.jpg"}, "/data")
    {'bytes': None, 'path': '/data/1.jpg'}
    """
    if image is None or image["bytes"] is not None or not image["path"]:
        return image
    try:
        return {"bytes": None, "path": os.path.abspath(resolve(image["path"], root))}
    except InputError:
        return image


def _parts(image: Any) -> tuple[bytes | None, str | None]:
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image), None
    if isinstance(image, str | os.PathLike):
        return None, os.fspath(image)
    if isinstance(image, Mapping):
        data, path = image.get("bytes"), image.get("path")
        return (None if data is None else bytes(data)), path
    if image is None:
        return None, None
    raise InputError(f"an image is bytes, a path or {{bytes, path}}, not {type(image).__name__}")


def _file(path: Path) -> BinaryIO:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe or a device would never end
            raise InputError(f"the image {path} is not a file")
        if found.st_size > MAX_BYTES:
            raise InputError(f"the image {path} has {found.st_size} bytes, more than the {MAX_BYTES} that are read")
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"the image {path} is missing") from None
    except OSError as error:
        raise InputError(f"the image {path} cannot be read: {error.strerror or error}") from None


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


class _NotUsableError(Exception):
    """A reason, for the reader, that an image cannot be used."""


def _opened(file: BinaryIO, max_pixels: int) -> Image.Image:
    with warnings.catch_warnings():
        # Pillow only warns up to twice its limit; ours is lower and is checked below
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        opened = Image.open(file, formats=_formats())
    width, height = opened.size
    if width < 1 or height < 1:
        raise _NotUsableError(f"its size is {width} x {height}")
    if width * height > max_pixels:
        raise _NotUsableError(f"it has {width} x {height} pixels, more than the {max_pixels} that are decoded")
    return opened


def _upright_rgb(image: Image.Image) -> Image.Image:
    image.load()
    image = _upright(image)
    if image.mode == "RGB" and "transparency" not in image.info:
        return image._new(image.im)  # the same pixels without the file; a copy would take as much memory again
    if image.mode.startswith("I"):
        image = _eight_bit(image)
    if image.mode == "F":
        raise _NotUsableError("its pixels are floating-point numbers with no agreed white; store it with 8 bits")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    try:
        turned = image.getexif().get(_ORIENTATION, 1) != 1
        return ImageOps.exif_transpose(image) if turned else image
    except Exception:  # damaged EXIF is common and says nothing about the picture itself
        return image


def _eight_bit(image: Image.Image) -> Image.Image:
    """Grey of 16 bits, scaled so that 65535 is white; Pillow's own conversion would clip everything above 255."""
    values = np.asarray(image)
    grey = np.empty(values.shape, dtype=np.uint8)
    for start in range(0, len(values), _ROWS):  # in strips: wider copies of the whole would take gigabytes
        grey[start : start + _ROWS] = np.clip(values[start : start + _ROWS].astype(np.int64), 0, 65535) // 257
    return Image.fromarray(grey)


def _described(image: Any, data: bytes) -> str:
    _, path = _parts(image)
    return str(path) if path else f"{len(data)} bytes"


def _reason(error: Exception, max_pixels: int) -> str:
    if isinstance(error, _NotUsableError):
        return str(error)
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"it has more than the {max_pixels} pixels that are decoded"
    if isinstance(error, UnidentifiedImageError):
        return "it is no format that is known, or damaged"
    if "truncated" in str(error).lower() or isinstance(error, EOFError):
        return "it is truncated"
    return f"it is damaged ({' '.join(str(error).split()) or type(error).__name__})"
