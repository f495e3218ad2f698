"""Names for content: the same bytes or the same text have the same 16-byte id, wherever they are kept.

An id is BLAKE2b with a digest of 16 bytes over a word for the type and the content, so that a text never has the id
of an image. Ids are kept as arrays of shape ``(n, 16)`` and type ``uint8``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images import image_bytes
from equipoise.errors import InputError

__all__ = ["ID_BYTES", "Ids", "as_ids", "hex_of", "ids_from_hex", "image_ids", "text_ids"]

ID_BYTES = 16
Ids = NDArray[np.uint8]


def text_ids(texts: Iterable[str]) -> Ids:
    """The ids of some texts.

    >>> hex_of(text_ids(["a photo of a doctor"]))
    ['53b558e82ac7fdcda08b10d986103ba7']
    """
    return _stacked([_digest(b"text\0", text.encode()) for text in texts])


def image_ids(images: Iterable[Any], *, root: str | os.PathLike[str] | None = None) -> Ids:
    """The ids of some images: encoded bytes, a table's ``{bytes, path}``, paths, or decoded Pillow images.

    A file and its bytes have the same id. A decoded image is named by its pixels, and so differs from the file it
    came from.
    """
    return _stacked([_image_digest(image, root) for image in images])


def hex_of(ids: Ids) -> list[str]:
    """Ids as text of 32 hexadecimal digits."""
    return [row.tobytes().hex() for row in as_ids(ids)]


def ids_from_hex(texts: Iterable[str]) -> Ids:
    """Ids from what :func:`hex_of` gave.

    >>> ids = text_ids(["a", "b"])
    >>> bool((ids_from_hex(hex_of(ids)) == ids).all())
    True
    """
    found = []
    for text in texts:
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        if len(data) != ID_BYTES:
            raise InputError(f"{text!r} is not a content id; one has {2 * ID_BYTES} hexadecimal digits")
        found.append(data)
    return _stacked(found)


def as_ids(ids: Any) -> Ids:
    """``ids`` as an array of shape ``(n, 16)`` and type ``uint8``; anything else is refused."""
    if isinstance(ids, list | tuple) and all(isinstance(item, bytes) and len(item) == ID_BYTES for item in ids):
        return _stacked(ids)
    array = np.asarray(ids)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != ID_BYTES:
        raise InputError(
            f"ids must be an array of shape (n, {ID_BYTES}) and type uint8, as text_ids and image_ids give it, not "
            f"{array.dtype} of shape {array.shape}"
        )
    return array


def _image_digest(image: Any, root: str | os.PathLike[str] | None) -> bytes:
    if hasattr(image, "tobytes") and hasattr(image, "mode"):
        return _digest(b"pixels\0", f"{image.mode} {image.width}x{image.height}\0".encode(), image.tobytes())
    return _digest(b"image\0", image_bytes(image, root=root))


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _stacked(digests: Iterable[bytes]) -> Ids:
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, ID_BYTES)
