import numpy as np
from PIL import Image, ImageFilter

from equipoise.data.images import encode
from equipoise.filters import Models, RemainingImages
from equipoise.filters.rules.sharpness import Sharpness, sharpness_of

BROKEN = {"bytes": b"not an image", "path": None}


def picture(image):
    return {"bytes": encode(image), "path": None}


def squares(red, blue, size=16):
    """A picture with so many red ("person") and blue ("dog") pixels."""
    pixels = np.full((size, size, 3), 255, dtype=np.uint8)
    pixels[0, :red] = (255, 0, 0)
    pixels[2, :blue] = (0, 0, 255)
    return Image.fromarray(pixels)


def test_blur_lowers_sharpness(world):
    image = next(world.images())[1].resize((128, 128))
    values = [sharpness_of(image.filter(ImageFilter.GaussianBlur(r))) for r in (0, 1, 3)]
    assert values[0] > values[1] > values[2] > 0


def test_a_limit_drops_blurred_images_and_none_only_scores(images, face_detector):
    sharp = squares(2, 2)
    rows = [
        {"image_id": "sharp", "image": picture(sharp)},
        {"image_id": "blurred", "image": picture(sharp.filter(ImageFilter.GaussianBlur(4)))},
    ]
    table = images(rows)
    scores = Sharpness(of="image").judge(RemainingImages(table)).scores["sharpness"]
    assert scores[0] > scores[1]
    limit = float(scores.mean())
    assert Sharpness(least=limit, of="image").judge(RemainingImages(table)).dropped.tolist() == [False, True]
    faces = Sharpness(of="face").judge(RemainingImages(table, models=Models(faces=face_detector)))
    assert np.isnan(faces.scores["sharpness"][1])  # no red pixel is left to be a face
    assert not faces.dropped.any()
    assert "no face was found in 1 images" in faces.notes[0]


def test_the_sharpness_of_a_broken_image_is_not_that_of_an_empty_one(images, face_detector):
    rows = [
        {"image_id": "face", "image": picture(squares(1, 0))},
        {"image_id": "empty", "image": picture(squares(0, 3))},
        {"image_id": "broken", "image": BROKEN},
    ]
    remaining = RemainingImages(images(rows), models=Models(faces=face_detector, max_broken=0.5))
    scored = Sharpness(of="face").judge(remaining)
    assert not scored.dropped.any()
    assert "1 images could not be decoded and stay, since no limit is set" in scored.notes
    limited = Sharpness(of="face", least=-1.0).judge(remaining)
    assert limited.dropped.tolist() == [False, False, True]
    assert limited.notes == [
        "no face was found in 1 images, which stay",
        "1 images could not be decoded and go",
    ]
