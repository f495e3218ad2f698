from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageFilter

from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.filters import Models, RemainingImages
from equipoise.filters.rules.quality import Quality, frechet_gap
from equipoise.filters.rules.sharpness import Sharpness
from equipoise.measure.groups import Groups


def picture(image):
    return {"bytes": encode(image), "path": None}


def squares(red, blue, size=16):
    """A picture with so many red ("person") and blue ("dog") pixels."""
    pixels = np.full((size, size, 3), 255, dtype=np.uint8)
    pixels[0, :red] = (255, 0, 0)
    pixels[2, :blue] = (0, 0, 255)
    return Image.fromarray(pixels)


def test_a_group_of_one_image_does_not_stop_the_run(images):
    rows = [
        {"image_id": f"{i}", "image": picture(squares(i, 9 - i)), "gender": "female" if i == 0 else "male"}
        for i in range(9)
    ]
    verdict = Quality(frechet=False, size=16).judge(RemainingImages(images(rows)))
    assert any(note.startswith("no SSIM by gender: a gap needs two groups") for note in verdict.notes)
    assert [row["metric"] for row in verdict.rows if row["metric"] == "ssim"] == ["ssim"]  # of all together


def test_a_group_that_looks_less_real_has_the_larger_distance():
    rng = np.random.default_rng(0)
    real, images = rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    labels = np.arange(200) % 2
    images[labels == 1] += 0.8
    found, gap = frechet_gap(real, images, Groups(labels, ("expected", "unexpected"), "cell"), draws=49)
    assert found["unexpected"].value > found["expected"].value + 1
    assert gap.p_value == pytest.approx(0.02)
    even, none = frechet_gap(real, rng.normal(size=(200, 4)), Groups(labels, ("a", "b"), "cell"), draws=49)
    assert none.p_value > 0.05
    assert set(even) == {"a", "b"}
    with pytest.raises(InputError, match="fewer than two groups"):
        frechet_gap(real, images, Groups(np.zeros(200, int), ("a", "b")))


def test_quality_drops_nothing_and_measures_by_group(world, tmp_path, embedded):
    ids = world.to_pandas(["image_id"])["image_id"]
    rng = np.random.default_rng(0)
    spec = embedded("v", [*ids, *(f"r{i}" for i in range(60))], rng.normal(size=(len(ids) + 60, 4)))
    reference = Table.create(tmp_path / "real", [{"image_id": f"r{i}"} for i in range(60)])
    settings = Quality(by=("gender",), pairs=20, draws=19, size=32)
    verdict = settings.judge(RemainingImages(world, models=Models(encoder=spec, reference=reference)))
    assert not verdict.dropped.any()
    rows = pd.DataFrame(verdict.rows)
    assert {"frechet", "frechet_gap", "ssim", "ssim_gap"} <= set(rows["metric"])
    by_group = rows[(rows["metric"] == "ssim") & rows["group"].notna()]
    assert set(by_group["group"]) == {"female", "male"}
    if find_spec("lpips") is None:
        assert "no LPIPS: the package lpips is not installed; type: pip install " in " ".join(verdict.notes)
    alone = Quality(by=("gender",), pairs=0).judge(RemainingImages(world, models=Models(encoder=spec)))
    assert "no Fréchet distance: no table of real images was given as reference" in alone.notes


class _Distance:
    """As the package lpips: a network of pictures in -1 to 1, (n, 3, height, width), that gives (n, 1, 1, 1)."""

    def __init__(self, net, verbose):
        assert (net, verbose) == ("squeeze", False)

    def eval(self):
        return self

    def __call__(self, a, b):
        assert a.shape[1] == 3
        assert a.abs().max() <= 1
        return (a - b).abs().mean(dim=(1, 2, 3), keepdim=True)


def _refused(error):
    def made(**_):
        raise error

    return made


def test_lpips_is_measured_where_its_package_is_and_says_why_not(world, tmp_path, embedded, monkeypatch):
    import sys
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from urllib.error import URLError

    pytest.importorskip("torch")
    module = ModuleType("lpips")
    module.__spec__ = ModuleSpec("lpips", None)
    monkeypatch.setitem(sys.modules, "lpips", module)
    settings = Quality(by=("gender",), frechet=False, pairs=10, draws=19, size=32)
    module.LPIPS = _Distance
    rows = pd.DataFrame(settings.judge(RemainingImages(world)).rows)
    mine = rows[rows["metric"] == "lpips"].set_index("group")["value"]
    assert (mine > 0.01).all()
    assert {"female", "male"} <= set(mine.index)
    assert "lpips_gap" in set(rows["metric"])
    for error, words in (
        (URLError("no network"), "SqueezeNet are not here and cannot be downloaded"),
        (RuntimeError("operator torchvision::nms does not exist"), "cannot be used (operator torchvision::nms"),
    ):
        module.LPIPS = _refused(error)
        verdict = settings.judge(RemainingImages(world))
        assert any(words in note for note in verdict.notes), verdict.notes
        assert "lpips" not in set(pd.DataFrame(verdict.rows)["metric"])


def test_expected_and_unexpected_scenes_are_compared(images, embedded, tmp_path):
    """Unexpected scenes are blurred: sharpness tells, with a gap above chance; the sets of a cell stay whole."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(40):
        cell = ("E1", "E2", "U1", "U2")[i % 4]
        sharp = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        shown = sharp.filter(ImageFilter.GaussianBlur(2)) if cell[0] == "U" else sharp
        rows.append({"image_id": str(i), "image": picture(shown), "cell": cell, "gender": "fm"[i % 2]})
    table = images(rows, columns={"cell": "string"})
    settings = Sharpness(of="image", by=("expected", "gender"))
    assert settings.columns == ("cell", "gender")
    found = pd.DataFrame(settings.judge(RemainingImages(table)).rows).set_index(["metric", "axis", "group"])["value"]
    assert found["sharpness", "expected", "expected"] > 2 * found["sharpness", "expected", "unexpected"]
    p = pd.DataFrame(settings.judge(RemainingImages(table)).rows).set_index(["metric", "axis"])["p_value"]
    assert p["sharpness_gap", "expected"] == pytest.approx(1 / 200)
    assert p["sharpness_gap", "gender"] > 0.01
    quality = Quality(**Quality.presets["gab"], frechet=False, pairs=8, draws=19, size=16)
    rows_of_pairs = pd.DataFrame(quality.judge(RemainingImages(table)).rows)
    assert {"expected", "unexpected"} <= set(rows_of_pairs[rows_of_pairs["axis"] == "expected"]["group"].dropna())
    spoiled = images([{"image_id": "a", "cell": "E1"}], "bare", columns={"cell": "string"})
    with pytest.raises(InputError, match="cell"):
        Sharpness(by=("expected",)).judge(
            RemainingImages(images([{"image_id": "a", "image": rows[0]["image"]}], "none"))
        )
    assert Quality(by=("expected",), frechet=False, pairs=0).judge(RemainingImages(spoiled)).rows == []
