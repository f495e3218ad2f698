"""Images on their way into a model: those that have its size already take a shorter way to the same pixels."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from PIL import Image

from equipoise.models import images
from equipoise.models.folders import open_checkpoint
from equipoise.models.hf.checkpoint import image_processor
from equipoise.models.miniatures import FOLDER


def pictures(size, n=3):
    rng = np.random.default_rng(5)
    return [Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)) for _ in range(n)]


@pytest.mark.parametrize(("size", "is_short"), [((64, 64), True), ((80, 64), False), ((32, 32), False)])
def test_pixels_are_those_of_the_processor_bit_for_bit(size, is_short):
    processor = image_processor(open_checkpoint(FOLDER / "clip"))
    some = pictures(size)
    expected = processor(images=some, return_tensors="pt")["pixel_values"]
    found = images.processed(processor, some)["pixel_values"]
    assert np.array_equal(expected, found)
    assert (images._TABLES[processor][size] is not None) == is_short


def test_a_processor_that_looks_at_the_whole_image_is_called_itself():
    import torch

    class Stretching:
        """Brings the contrast of each image to 1: what becomes of a pixel depends on the others."""

        def __call__(self, images, return_tensors):
            pixels = np.stack([np.asarray(image, dtype=np.float32) for image in images]).transpose(0, 3, 1, 2)
            return {"pixel_values": torch.from_numpy(pixels / pixels.max(axis=(1, 2, 3), keepdims=True))}

    processor = Stretching()
    some = [image.point(lambda value: value // 2) for image in pictures((16, 16))]
    found = images.processed(processor, some)["pixel_values"]
    assert images._TABLES[processor] == {(16, 16): None}
    assert np.array_equal(found, processor(some, "pt")["pixel_values"])


def test_images_of_several_sizes_are_left_to_the_processor():
    processor = image_processor(open_checkpoint(FOLDER / "clip"))
    mixed = [*pictures((64, 64), 1), *pictures((40, 50), 1)]
    assert images._at_once(processor, mixed) is None
    assert images._at_once(processor, []) is None
