"""What filters see with is kept beyond a run: a detector is asked about an image once."""

from __future__ import annotations

import numpy as np
from PIL import Image

from equipoise.data import Table
from equipoise.filters.remaining import Models, RemainingImages
from equipoise.models.protocols import Detections


class Finder:
    """Finds one dog in every image; counts the images it was given."""

    name = key = "finder"
    labels = ("dog",)

    def __init__(self):
        self.n = 0

    def detect(self, images, *, threshold=0.5):
        self.n += len(images)
        return [
            Detections(np.float32([[0, 0, *image.size]]), ("dog",), np.float32([image.getpixel((0, 0))[0] / 255]))
            for image in images
        ]


def test_a_detector_is_asked_about_an_image_once(tmp_path):
    rows = [{"image_id": str(i), "image": Image.new("RGB", (4, 4), (20 * i, 0, 0))} for i in range(6)]
    table = Table.create(tmp_path / "in", rows, rows_per_shard=4)
    finder = Finder()
    found = [RemainingImages(table, models=Models(detector=finder)).detections() for _ in range(2)]
    assert finder.n == 6
    assert [float(one.scores[0]) for one in found[0]] == [float(one.scores[0]) for one in found[1]]
    assert found[0][3].scores[0] == np.float32(60 / 255)
    RemainingImages(table, models=Models(detector=finder)).detections(threshold=0.9)
    assert finder.n == 12, "another threshold is another question"
    RemainingImages(table, models=Models(detector=finder, cache=False)).detections()
    assert finder.n == 18


def test_texts_and_images_of_an_encoder_are_kept_unless_told_otherwise(tmp_path):
    class Colours:
        name = key = "colours"

        def __init__(self):
            self.n = 0

        def encode_images(self, images):
            self.n += len(images)
            return np.array([np.asarray(image, np.float32).mean(axis=(0, 1)) + 1 for image in images])

        def encode_texts(self, texts):
            self.n += len(texts)
            return np.array([[len(text), 1.0, 2.0] for text in texts])

    rows = [{"image_id": str(i), "image": Image.new("RGB", (4, 4), (20 * i, 0, 0))} for i in range(6)]
    table = Table.create(tmp_path / "in", rows)
    encoder = Colours()
    first = [RemainingImages(table, models=Models(encoder=encoder)) for _ in range(2)]
    images = [remaining.image_vectors() for remaining in first]
    texts = [remaining.text_vectors(["a", "bc"]) for remaining in first]
    asked = encoder.n
    assert asked in (8, 9)  # six images, two texts, and perhaps one text to learn the dimension by
    np.testing.assert_array_equal(images[0], images[1])
    np.testing.assert_array_equal(texts[0], texts[1])
    again = RemainingImages(table, models=Models(encoder=encoder, cache=False))
    np.testing.assert_array_equal(again.image_vectors(), images[0])
    assert encoder.n >= asked + 6
