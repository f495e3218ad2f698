"""Images on their way into a model: those that have its size already take a shorter way to the same pixels."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from PIL import Image

from equipoise.errors import InputError
from equipoise.models import images, load
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


def test_a_processor_whose_settings_are_damaged_is_told_in_a_sentence():
    processor = image_processor(open_checkpoint(FOLDER / "clip"))
    processor.image_std = [0.5] * 5
    for size in ((64, 64), (8, 8)):
        with pytest.raises(InputError, match=r"image processor cannot be used \(std must have 3 elements"):
            images.processed(processor, pictures(size, 2))

    class Full:
        def __call__(self, **_):
            raise MemoryError

    with pytest.raises(MemoryError):  # so that the batch is halved
        images.processed(Full(), pictures((8, 8), 2))


def test_images_of_another_size_than_the_model_takes_are_told_in_a_sentence(tmp_path):
    folder = shutil.copytree(FOLDER / "clip", tmp_path / "clip")
    said = json.loads((folder / "preprocessor_config.json").read_text())
    said |= {"do_center_crop": False, "size": {"height": 32, "width": 64}}
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match="its settings do not fit its weights"):
        load(f"hf:{folder}").encode_images(pictures((64, 64)))


def test_a_classifier_that_cannot_be_run_is_told_in_a_sentence(monkeypatch):
    model = load("mini:judge", kind="classifier")

    def failing(**_):
        raise ValueError("size (64*2) does not match")

    monkeypatch.setattr(model, "model", failing)
    with pytest.raises(InputError, match=r"mini:judge: its settings do not fit its weights \(size"):
        model.classify(pictures((64, 64)))


def test_images_of_several_sizes_are_left_to_the_processor():
    processor = image_processor(open_checkpoint(FOLDER / "clip"))
    mixed = [*pictures((64, 64), 1), *pictures((40, 50), 1)]
    assert images._at_once(processor, mixed) is None
    assert images._at_once(processor, []) is None
