"""Decoded images that do not fill memory: beyond a number of pixels they are kept encoded, and decoded when looked at.

A JPEG of one kilobyte can claim 60 million pixels, which take 250 MB. A batch of such images, and the batches read
ahead of it, would take all memory there is. So the pixels of images above :data:`ORDINARY` are counted over the whole
process. While there are fewer than :data:`HELD`, images keep theirs; any further image keeps its encoded bytes and is
decoded again, to the same pixels, when someone looks at it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from PIL import Image

__all__ = ["HELD", "ORDINARY", "LateImage", "forget", "held_pixels", "late", "taking_turns"]

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
        _recent.extend(ref for ref, found in known if found is not None)
        total = sum(found.width * found.height for _, found in known if found is not None)
        while len(_recent) > 1 and total > LARGE:
            oldest = _recent.popleft()()
            if oldest is not None:
                total -= oldest.width * oldest.height
                oldest.forget()
