"""Images as every adapter takes them: 8-bit RGB, nothing scaled yet.

The checkpoint's own processor scales and normalises, once. Pixels that someone scaled before would be scaled twice,
which no shape or type error shows: the vectors are just wrong. So they are refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equipoise.data.images import LateImage, decode, taking_turns
from equipoise.errors import InputError, one_line
from equipoise.memory import is_out_of_memory

MOST_PIXELS = 16_000_000
"""A processor is given images of so many pixels at a time, or one; it makes several copies of each."""
MOST_PIXELS_AT_ONCE = 4 * MOST_PIXELS
"""The same where a model must see its whole batch at once; 64 images of 1024 x 1024 come close to it."""


def rgb_images(images: Sequence[Any]) -> list[Image.Image]:
    """The images as upright 8-bit RGB; Pillow images of any mode, or arrays of bytes (height, width[, 3]).

    >>> [image.mode for image in rgb_images([Image.new("L", (2, 1)), np.zeros((4, 3, 3), np.uint8)])]
    ['RGB', 'RGB']
    >>> rgb_images([np.zeros((4, 3, 3), np.float32)])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: image 0 holds pixels of type float32, as if they were scaled already; give 8-bit \
images, for the model's own processor scales them once
    """
    if isinstance(images, Image.Image | np.ndarray) or hasattr(images, "detach"):
        raise InputError("images must be a list of images, even for one; stacked or batched pixel values are not taken")
    return [_rgb(image, i) for i, image in enumerate(images)]


def pixels_of(image: Any) -> int:
    """The number of pixels of a Pillow image; one for what is none.

    >>> pixels_of(Image.new("RGB", (3, 2))), pixels_of("a text")
    (6, 1)
    """
    return image.width * image.height if isinstance(image, Image.Image) else 1


def processed(processor: Any, images: Sequence[Image.Image]) -> dict[str, Any]:
    """What the image processor makes of ``images``, as tensors (n, ...), without all of them in memory at full size.

    The same as in one call: a processor looks at each image alone. One that brings a batch to a common size is called
    once where images in parts would differ.
    """
    import torch

    parts: list[dict[str, Any]] = []
    for group in _groups(images):
        with taking_turns(sum(map(pixels_of, group))):
            parts.append(_at_once(processor, group) or _made(processor, group))
    if len(parts) == 1:
        return parts[0]
    try:
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    except (RuntimeError, TypeError):
        return _made(processor, list(images))


def _made(processor: Any, images: list[Image.Image]) -> dict[str, Any]:
    """What one call of the processor gives. The images are whole, so what fails is in the processor's settings."""
    try:
        return dict(processor(images=images, return_tensors="pt"))
    except Exception as error:
        if isinstance(error, InputError) or is_out_of_memory(error):
            raise
        raise InputError(f"the model's image processor cannot be used ({one_line(error)})") from error


_TABLES: WeakKeyDictionary[Any, dict[tuple[int, int], Any]] = WeakKeyDictionary()
"""For each processor and size, what it makes of the 256 values of each channel; ``None`` where that is not all."""


def _at_once(processor: Any, images: Sequence[Image.Image]) -> dict[str, Any] | None:
    """The same pixels as the processor's, for images that have the size it wants: then each value has its own answer.

    A processor brings every image to its size by itself, though nothing is to be done; a table of 256 answers for each
    channel, filled by the processor, is several times as fast. ``None`` where it cannot be used.
    """
    import torch

    size = images[0].size if images else (0, 0)
    if size[0] * size[1] < 256 or any(type(i) is not Image.Image or i.mode != "RGB" or i.size != size for i in images):
        return None
    tables = _TABLES.setdefault(processor, {})
    if size not in tables:
        tables[size] = _answers(processor, size)
    table = tables[size]
    if table is None:
        return None
    pixels = np.stack([np.asarray(image) for image in images])
    out = np.empty((len(images), 3, size[1], size[0]), dtype=np.float32)
    for channel in range(3):
        # every byte is in the table: no bounds to check, and no copy of the result to be safe from an error
        np.take(table[channel], pixels[..., channel], out=out[:, channel], mode="clip")
    return {"pixel_values": torch.from_numpy(out)}


def _answers(processor: Any, size: tuple[int, int]) -> NDArray[np.float32] | None:
    """(3, 256) what the processor makes of each value of each channel, if of an image of this size it looks at every
    pixel alone and leaves it where it is; two images of unlike contrast decide that.
    """
    rng = np.random.default_rng(0)
    n = size[0] * size[1]
    values = [rng.permutation(np.arange(n) % 256) for _ in range(3)]
    first = np.stack(values, axis=1).reshape(size[1], size[0], 3).astype(np.uint8)
    second = (first // 5 + 100).astype(np.uint8)
    second[: size[1] // 2] //= 3
    arrays = []
    for pixels in (first, second):
        batch = _made(processor, [Image.fromarray(pixels)])
        if list(batch) != ["pixel_values"] or tuple(batch["pixel_values"].shape) != (1, 3, size[1], size[0]):
            return None
        arrays.append(np.asarray(batch["pixel_values"][0]))
    if arrays[0].dtype != np.float32:
        return None
    table = np.zeros((3, 256), dtype=np.float32)
    for channel in range(3):
        table[channel, first[..., channel]] = arrays[0][channel]
    for pixels, wanted in zip((first, second), arrays, strict=True):
        if any(not np.array_equal(table[channel][pixels[..., channel]], wanted[channel]) for channel in range(3)):
            return None
    return table


def _groups(images: Sequence[Image.Image]) -> list[list[Image.Image]]:
    groups: list[list[Image.Image]] = [[]]
    size = 0
    for image in images:
        if groups[-1] and size + pixels_of(image) > MOST_PIXELS:
            groups.append([])
            size = 0
        groups[-1].append(image)
        size += pixels_of(image)
    return groups


def _rgb(image: Any, place: int) -> Image.Image:
    if isinstance(image, Image.Image):
        if type(image) is Image.Image and image.mode == "RGB" and not {"exif", "transparency"} & image.info.keys():
            return image  # decoded already, as tables give them
        if type(image) is LateImage and image.mode == "RGB":
            return image  # upright and on white already, whatever its file said
        if image.mode == "F":
            raise _scaled(place, "float32")
        return decode(image)
    if isinstance(image, np.ndarray) or hasattr(image, "detach"):
        return _from_array(image, place)
    raise InputError(f"image {place} is a {type(image).__name__}; give Pillow images, or arrays of 8-bit pixels")


def _from_array(image: Any, place: int) -> Image.Image:
    pixels = np.asarray(image.detach().cpu()) if hasattr(image, "detach") else image
    if pixels.dtype != np.uint8:
        raise _scaled(place, str(pixels.dtype))
    if pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3):
        return Image.fromarray(np.ascontiguousarray(pixels)).convert("RGB")
    raise InputError(f"image {place} has the shape {pixels.shape}; give (height, width, 3) or (height, width)")


def _scaled(place: int, kind: str) -> InputError:
    return InputError(
        f"image {place} holds pixels of type {kind}, as if they were scaled already; give 8-bit images, for the "
        "model's own processor scales them once"
    )
