"""Images in and out of tables: safe decoding to RGB, and encoding.

Whatever a file holds, :func:`decode` gives an upright 8-bit RGB image or an :class:`InputError` that says why not:
too many pixels, cut off, no image at all, a path that leads out of its folder.

Decoded images that do not fill memory: beyond a number of pixels they are kept encoded, and decoded when looked at.

A JPEG of one kilobyte can claim 60 million pixels, which take 250 MB. So pixels of images above :data:`ORDINARY` are
counted over the whole process. While there are fewer than :data:`HELD`, images keep theirs; any further image keeps its
encoded bytes and is decoded again, to the same pixels, when someone looks at it.
"""

from __future__ import annotations

import io
import os
import stat
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from equipoise.errors import InputError

ORDINARY = 1_100_000
"""Images of up to so many pixels, 1024 x 1024 and a little more, are decoded once and are not counted."""
HELD = 64_000_000
"""So many pixels of larger images are held at a time, 256 MB: Pillow takes four bytes for a pixel."""
LARGE = 16_000_000
"""Images above so many pixels are worked on one at a time, however many threads there are."""

_turn = threading.RLock()
_count = threading.RLock()
_held = 0
_released: deque[int] = deque()
_recent: deque[weakref.ref[LateImage]] = deque()


class LateImage(Image.Image):
    """An RGB image like any other, whose pixels may be decoded again each time they are wanted."""

    _again: Callable[[], Image.Image] | None = None
    _kept: Any = None
    """The pixels, while they are held; those of an image that was changed are always held."""

    def __init__(self, image: Image.Image, again: Callable[[], Image.Image]) -> None:
        super().__init__()
        self._mode, self._size, self.info = image.mode, image.size, image.info
        self.readonly = 1  # Pillow copies the pixels before it changes them, which then belong to the image
        if _hold(self):
            self._kept = image.im
        else:
            self._again = again

    @property
    def im(self) -> Any:
        """The pixels, as Pillow's methods use them."""
        kept = self._kept
        if kept is None and self._again is not None:
            kept = self._again().im
            self._kept = kept
            _note(self)
        return kept

    @im.setter
    def im(self, im: Any) -> None:
        if im is not None:
            self._kept, self._again = im, None

    def load(self) -> Any:
        """Access to single pixels."""
        return self.im.pixel_access(self.readonly)

    def forget(self) -> None:
        """Give the memory of the pixels back, if they can be had again."""
        if self._again is not None:
            self._kept = None


def late(image: Image.Image, again: Callable[[], Image.Image]) -> Image.Image:
    """``image``, or one of the same pixels that is decoded by ``again`` when they are wanted.

    >>> plain = Image.new("RGB", (2000, 1000), "red")
    >>> made = [late(plain, plain.copy) for _ in range(40)]
    >>> held_pixels() <= HELD, held_pixels() >= 2_000_000, {image.getpixel((1, 1)) for image in made}
    (True, True, {(255, 0, 0)})
    """
    return image if image.width * image.height <= ORDINARY else LateImage(image, again)


def held_pixels() -> int:
    """How many pixels of larger images are held now, besides those looked at last."""
    global _held
    with _count:
        while _released:
            _held -= _released.popleft()
        return _held


def forget() -> None:
    """Give back the pixels that were looked at last; they are decoded again when they are wanted."""
    with _count:
        while _recent:
            image = _recent.popleft()()
            if image is not None:
                image.forget()


@contextmanager
def taking_turns(pixels: int) -> Iterator[None]:
    """One at a time, where so many ``pixels`` are worked on that several at once would fill memory."""
    if pixels <= LARGE:
        yield
        return
    with _turn:
        yield


def _hold(image: LateImage) -> bool:
    global _held
    pixels = image.width * image.height
    with _count:
        if held_pixels() + pixels > HELD:
            return False
        _held += pixels
    # Only noted: garbage may be collected while the lock is held.
    weakref.finalize(image, _released.append, pixels)
    return True


def _note(image: LateImage) -> None:
    """Remember what was looked at, and forget what was looked at before it."""
    with _count:
        _recent.append(weakref.ref(image))
        known = [(ref, ref()) for ref in _recent]
        _recent.clear()
        _recent.extend(ref for ref, decoded in known if decoded is not None)
        total = sum(decoded.width * decoded.height for _, decoded in known if decoded is not None)
        while len(_recent) > 1 and total > LARGE:
            oldest = _recent.popleft()()
            if oldest is not None:
                total -= oldest.width * oldest.height
                oldest.forget()


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
    more than a million pixels may keep their bytes and be decoded when looked at.
    Where memory runs out, ``MemoryError`` is raised: it is not the image that is damaged.

    >>> decode(encode(Image.new("L", (2, 1), 255))).getpixel((0, 0))
    (255, 255, 255)
    >>> decode(b"GIF89a")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: cannot read 6 bytes as an image: it is not a known format, or it is damaged
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


_ENDS = {"PNG": b"IEND\xaeB`\x82", "GIF": b"\x00;", "MPO": b"\xff\xd9"}
"""What files end with, where Pillow does not miss it; some programs write a little more after it."""
_TAIL = 1 << 16


def _decoded(data: bytes, max_pixels: int) -> Image.Image:
    with _opened(io.BytesIO(data), max_pixels) as opened, taking_turns(opened.width * opened.height):
        if _ENDS.get(opened.format or "", b"") not in data[-_TAIL:]:
            raise _NotUsableError("it is truncated")
        try:
            return _upright_rgb(opened)
        except MemoryError:
            forget()
        with _opened(io.BytesIO(data), max_pixels) as again:
            return _upright_rgb(again)


def check(image: Any, *, root: str | os.PathLike[str] | None = None, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Width and height from an image's head, without decoding it; :class:`InputError` if it is no image.

    It finds a missing file, a wrong format and a bomb, at a hundredth of the cost of decoding; no file that is cut off.

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
    """``image`` as bytes, upright as EXIF says it; PNG by default, which loses nothing.

    >>> encode(Image.new("RGB", (1, 1)))[:4]
    b'\\x89PNG'
    """
    target = io.BytesIO()
    try:
        upright = _upright(image)
        as_rgb = format == "PNG" and upright.mode in ("CMYK", "YCbCr", "HSV", "LAB")  # modes that PNG has not
        (upright.convert("RGB") if as_rgb else upright).save(target, format=format, **options)
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


ALLOWED = "EQUIPOISE_IMAGES"
"""The environment variable with folders, separated as those of PATH are, whose images may be shown to others."""


def refuse_outside(image: Any, folder: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> None:
    """Refuse to show an image whose file lies outside the table in ``folder``: exports and pages go to others.

    A table of a stranger could name any file of this machine. Folders whose images may be shown are named in the
    environment variable ``EQUIPOISE_IMAGES``; images stored in the table are always its own.

    >>> refuse_outside({"bytes": b"...", "path": "/etc/passwd"}, "people")
    >>> refuse_outside({"bytes": None, "path": "/etc/passwd"}, "people")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the image /etc/passwd lies outside the table people, and what is shown to others may \
hold only the table's own; if it may be shown, say so with EQUIPOISE_IMAGES=/etc
    """
    data, path = _parts(image)
    if data is not None or path is None:
        return
    file = Path(os.path.realpath(resolve(path, root)))
    allowed = [folder, *(name for name in os.environ.get(ALLOWED, "").split(os.pathsep) if name)]
    if not any(file.is_relative_to(os.path.realpath(place)) for place in allowed):
        raise InputError(
            f"the image {file} lies outside the table {folder}, and what is shown to others may hold only the table's "
            f"own; if it may be shown, say so with {ALLOWED}={file.parent}"
        )


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
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # a pipe or a device would never end
            raise InputError(f"the image {path} is not a file")
        if state.st_size > MAX_BYTES:
            raise InputError(f"the image {path} has {state.st_size} bytes, more than the {MAX_BYTES} that are read")
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
        return "it is not a known format, or it is damaged"
    if "truncated" in str(error).lower() or isinstance(error, EOFError):
        return "it is truncated"
    return f"it is damaged ({' '.join(str(error).split()) or type(error).__name__})"
