"""Two steps of training for families of dual encoders and for ClipCap, on tiny checkpoints of their form."""

import csv

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.models import load  # noqa: E402
from equipoise.train.fitting import fit  # noqa: E402

GIVEN = {"steps": 2, "batch": 6, "rate": 1e-3, "warmup": 0, "quiet": True, "device": "cpu", "val_share": 0.4}
TEXTS = ["a photo of a nurse", "a man with a hat"]


def losses(folder):
    with (folder / "losses.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def pictures_of(table, n):
    return [image for _, image in zip(range(n), (image for _, image in table.images()), strict=False)]


@pytest.mark.parametrize("family", ["siglip", "align", "flava", "blip"])
def test_both_towers_of_a_family_learn_and_open_again(family, tiny_checkpoint, world_sets, tmp_path):
    folder = tiny_checkpoint(family)
    done = fit("clip", world_sets, tmp_path / "out", init=f"hf:{folder}", **GIVEN)
    assert np.isfinite(losses(done.folder)).all()
    if family == "siglip":  # its own loss has a term for each of the six texts of an image, not one
        assert losses(done.folder)[0] > np.log(6)
    before, after = load(f"hf:{folder}", device="cpu"), load(f"hf:{done.folder}", device="cpu")
    pictures = pictures_of(world_sets, 2)
    assert after.key != before.key
    assert not np.allclose(before.encode_images(pictures), after.encode_images(pictures), atol=1e-4)
    assert not np.allclose(before.encode_texts(TEXTS), after.encode_texts(TEXTS), atol=1e-4)


def test_clipcap_learns_its_mapper_and_its_words_and_leaves_its_eyes(clipcap_folder, world_sets, tmp_path):
    from safetensors.torch import load_file

    done = fit("captioner", world_sets, tmp_path / "out", init=f"hf:{clipcap_folder}", **GIVEN)
    assert np.isfinite(losses(done.folder)).all()
    said = load(f"hf:{done.folder}", kind="captioner", device="cpu").caption(pictures_of(world_sets, 2))
    assert len(said) == 2
    moved = {}
    for part in (".", "gpt2", "clip"):
        one, other = (load_file(home / part / "model.safetensors") for home in (clipcap_folder, done.folder))
        moved[part] = [name for name in other if not torch.equal(one[name].float(), other[name])]
    assert len(moved["."]) == 4  # two layers, with their offsets
    assert moved["gpt2"]
    assert not moved["clip"]
