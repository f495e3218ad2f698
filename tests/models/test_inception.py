"""Inception from a small file of the same form as torch-fidelity's: shapes, sums by hand, quality's use of it."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.filters import Models, RemainingImages
from equipoise.filters.rules.quality import Quality
from equipoise.measure.images import frechet_distance, inception_score, kid

torch = pytest.importorskip("torch")

from equipoise.models.inception import WEIGHTS, InceptionNetwork, _resized, open_inception  # noqa: E402

W = 3
"""Channels of every convolution of the small network."""
BRANCHES = {
    "A": {
        "branch1x1": (1, 1),
        "branch5x5_1": (1, 1),
        "branch5x5_2": (5, 5),
        "branch3x3dbl_1": (1, 1),
        "branch3x3dbl_2": (3, 3),
        "branch3x3dbl_3": (3, 3),
        "branch_pool": (1, 1),
    },
    "B": {"branch3x3": (3, 3), "branch3x3dbl_1": (1, 1), "branch3x3dbl_2": (3, 3), "branch3x3dbl_3": (3, 3)},
    "C": {
        "branch1x1": (1, 1),
        "branch7x7_1": (1, 1),
        "branch7x7_2": (1, 7),
        "branch7x7_3": (7, 1),
        "branch7x7dbl_1": (1, 1),
        "branch7x7dbl_2": (7, 1),
        "branch7x7dbl_3": (1, 7),
        "branch7x7dbl_4": (7, 1),
        "branch7x7dbl_5": (1, 7),
        "branch_pool": (1, 1),
    },
    "D": {
        "branch3x3_1": (1, 1),
        "branch3x3_2": (3, 3),
        "branch7x7x3_1": (1, 1),
        "branch7x7x3_2": (1, 7),
        "branch7x7x3_3": (7, 1),
        "branch7x7x3_4": (3, 3),
    },
    "E": {
        "branch1x1": (1, 1),
        "branch3x3_1": (1, 1),
        "branch3x3_2a": (1, 3),
        "branch3x3_2b": (3, 1),
        "branch3x3dbl_1": (1, 1),
        "branch3x3dbl_2": (3, 3),
        "branch3x3dbl_3a": (1, 3),
        "branch3x3dbl_3b": (3, 1),
        "branch_pool": (1, 1),
    },
}
OUT = {
    "A": lambda c: 4 * W,
    "B": lambda c: 2 * W + c,
    "C": lambda c: 4 * W,
    "D": lambda c: 2 * W + c,
    "E": lambda c: 6 * W,
}
BLOCKS = [("Mixed_5b", "A"), ("Mixed_5c", "A"), ("Mixed_5d", "A"), ("Mixed_6a", "B")]
BLOCKS += [(f"Mixed_6{letter}", "C") for letter in "bcde"]
BLOCKS += [("Mixed_7a", "D"), ("Mixed_7b", "E"), ("Mixed_7c", "E")]


def small_weights(classes=5, seed=0):
    rng = torch.Generator().manual_seed(seed)
    held = {}

    def conv(name, into, kernel, out=W):
        held[f"{name}.conv.weight"] = (
            torch.randn(out, into, *kernel, generator=rng) * (2 / (into * np.prod(kernel))) ** 0.5
        )
        held[f"{name}.bn.weight"] = torch.rand(out, generator=rng) + 0.5
        held[f"{name}.bn.bias"] = torch.randn(out, generator=rng) * 0.1
        held[f"{name}.bn.running_mean"] = torch.randn(out, generator=rng) * 0.1
        held[f"{name}.bn.running_var"] = torch.rand(out, generator=rng) + 0.5

    into = 3
    for name, kernel in (("1a_3x3", 3), ("2a_3x3", 3), ("2b_3x3", 3), ("3b_1x1", 1), ("4a_3x3", 3)):
        conv(f"Conv2d_{name}", into, (kernel, kernel))
        into = W
    for block, kind in BLOCKS:
        for branch, kernel in BRANCHES[kind].items():
            first = branch.endswith("_1") or branch in ("branch1x1", "branch_pool", "branch3x3")
            conv(f"{block}.{branch}", into if first else W, kernel)
        into = OUT[kind](into)
    held["fc.weight"] = torch.randn(classes, into, generator=rng)
    held["fc.bias"] = torch.randn(classes, generator=rng)
    return held


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("inception") / "small.pth"
    torch.save(small_weights(), path)
    return path


def pictures(n, seed=0, shift=0):
    rng = np.random.default_rng(seed)
    return [Image.fromarray(rng.integers(0, 200, (20, 24, 3), dtype=np.uint8) + np.uint8(shift)) for _ in range(n)]


def test_features_of_a_small_file_of_the_same_form(weights, tmp_path):
    from safetensors.torch import save_file

    network = open_inception(f"inception:{weights}")
    features, told = network.features(pictures(3))
    assert features.shape == (3, 6 * W)
    assert told.shape == (3, 5)
    assert told.sum(axis=1) == pytest.approx(np.ones(3))
    logits = features @ small_weights()["fc.weight"].double().numpy().T  # without the offsets
    assert told == pytest.approx(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), rel=1e-4)
    save_file(small_weights(), tmp_path / "small.safetensors")
    again, _ = open_inception(f"inception:{tmp_path / 'small.safetensors'}").features(pictures(3)[::-1])
    assert again[::-1] == pytest.approx(features, rel=1e-4)


def test_pixels_are_placed_as_tensorflow_did():
    """Against a loop: pixel i of the larger picture lies at i times the scale, and the edge repeats."""
    image = np.random.default_rng(0).random((1, 5, 4)).astype(np.float32)
    found = _resized(torch.from_numpy(image), 7).numpy()
    for i in range(7):
        for j in range(7):
            y, x = i * 5 / 7, j * 4 / 7
            top, left = int(y), int(x)
            below, right = min(top + 1, 4), min(left + 1, 3)
            a, b = y - top, x - left
            upper = image[0, top, left] * (1 - b) + image[0, top, right] * b
            lower = image[0, below, left] * (1 - b) + image[0, below, right] * b
            assert found[0, i, j] == pytest.approx(upper * (1 - a) + lower * a, abs=1e-5)


@pytest.mark.slow
def test_quality_has_fid_kid_and_the_score_of_these_features(weights, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    made = [{"image_id": f"m{i}", "image": image, "gender": "fm"[i % 2]} for i, image in enumerate(pictures(24, 1, 40))]
    real = [{"image_id": f"r{i}", "image": image} for i, image in enumerate(pictures(24, 2))]
    table = Table.create(tmp_path / "made", made, axes=["gender"])
    models = Models(reference=Table.create(tmp_path / "real", real))
    settings = Quality(frechet=False, pairs=0, features=f"inception:{weights}")
    verdict = settings.judge(RemainingImages(table, models=models))
    rows = pd.DataFrame(verdict.rows).set_index("metric")
    network = open_inception(f"inception:{weights}")
    mine, told = network.features([image for _, image in table.images()])
    theirs, _ = network.features([row["image"] for row in real])
    assert rows.loc["frechet", "value"] == pytest.approx(frechet_distance(theirs, mine).value)
    assert rows.loc["kid", "value"] == pytest.approx(kid(theirs, mine).value)
    assert rows.loc["inception_score", "value"] == pytest.approx(inception_score(told).value)
    assert set(rows["variant"]) == {"inception"}
    assert any(note.startswith("Inception features of 24 images by small.pth") for note in verdict.notes)
    alone = settings.judge(RemainingImages(table))
    assert "no FID or KID: no table of real images was given as reference" in alone.notes
    with pytest.raises(InputError, match=f"download {WEIGHTS}"):
        Quality(frechet=False, pairs=0, features="inception").judge(RemainingImages(table))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="inception, or inception:FILE, is expected"):
        open_inception("vgg")
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(InputError, match="can be read safely"):
        open_inception(f"inception:{tmp_path / 'text.pth'}")
    torch.save({"fc.weight": torch.zeros(2, 2)}, tmp_path / "other.pth")
    with pytest.raises(InputError, match=r"lacks 'Conv2d_1a_3x3.conv.weight'"):
        open_inception(f"inception:{tmp_path / 'other.pth'}")


@pytest.mark.slow
def test_the_network_is_torch_fidelitys():
    """With random weights of the full size, where torch-fidelity is installed."""
    fidelity = pytest.importorskip("torch_fidelity.feature_extractor_inceptionv3", exc_type=(ImportError, RuntimeError))
    monkey = pytest.MonkeyPatch()
    monkey.setattr(sys.modules[fidelity.__name__], "load_state_dict_from_url", lambda *a, **k: None)
    monkey.setattr(fidelity.FeatureExtractorInceptionV3, "load_state_dict", lambda self, held: None)
    torch.manual_seed(0)
    theirs = fidelity.FeatureExtractorInceptionV3("inception", ["2048", "logits_unbiased"])
    monkey.undo()
    images = pictures(2)
    pixels = torch.stack([torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) for image in images])
    expected, logits = theirs(pixels)
    mine, told = InceptionNetwork(theirs.state_dict()).features(images)
    assert mine == pytest.approx(expected.numpy(), rel=1e-3, abs=1e-5)
    assert told == pytest.approx(logits.softmax(dim=1).numpy(), abs=1e-4)
