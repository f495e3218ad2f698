"""Two steps of training for families of dual encoders, for ClipCap and BLIP-2, on tiny checkpoints of their form."""

import csv
import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.errors import InputError  # noqa: E402
from equipoise.models import load  # noqa: E402
from equipoise.models.folders import open_checkpoint  # noqa: E402
from equipoise.train.fitting import fit  # noqa: E402
from equipoise.train.processes import Processes  # noqa: E402
from equipoise.train.tasks.captioner import CaptionerTask  # noqa: E402

GIVEN = {"steps": 2, "batch": 6, "rate": 1e-3, "warmup": 0, "quiet": True, "device": "cpu", "val_share": 0.4}
TEXTS = ["a photo of a nurse", "a man with a hat"]


def losses(folder):
    with (folder / "losses.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def pictures_of(table, n):
    return [image for _, image in zip(range(n), (image for _, image in table.images()), strict=False)]


@pytest.mark.parametrize(
    "family", ["siglip", *(pytest.param(name, marks=pytest.mark.slow) for name in ("align", "flava", "blip"))]
)
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


def test_blip_2_learns_to_see_and_leaves_its_language_model(blip2_folder, world_sets, tmp_path):
    from safetensors.torch import load_file

    done = fit("captioner", world_sets, tmp_path / "out", init=f"hf:{blip2_folder}", **GIVEN)
    assert np.isfinite(losses(done.folder)).all()
    pictures = pictures_of(world_sets, 2)
    said = load(f"hf:{done.folder}", kind="captioner", device="cpu", max_new_tokens=5).caption(pictures)
    assert len(said) == 2
    one, other = (load_file(home / "model.safetensors") for home in (blip2_folder, done.folder))
    moved = {name.split(".")[0] for name in other if not torch.equal(one[name].float(), other[name])}
    assert {"vision_model", "qformer", "language_projection"} <= moved
    assert "language_model" not in moved


def test_the_loss_of_blip_2_is_the_stock_class_s_own(blip2_folder, world_sets):
    """One caption behind the tokens of its image: the class shifts the labels itself."""
    task = CaptionerTask()
    model = task.open(open_checkpoint(blip2_folder), None).eval()
    rows = [{"image_id": "i", "image": pictures_of(world_sets, 1)[0], "caption": "a photo of the woman"}]
    inputs = task.inputs(rows, 0)
    mine = task.loss(model, inputs, Processes())
    seen = torch.full((1, model.config.num_query_tokens), model.config.image_token_id)
    ids = torch.cat([seen, inputs["tokens"]], dim=1)
    labels = ids.clone()
    labels[:, : seen.shape[1] + 1] = -100
    assert inputs["tokens"][0].tolist()[0] == 1, "the caption starts as generation does"
    assert inputs["tokens"][0].tolist()[-1] == 2
    stock = model(pixel_values=inputs["pixels"], input_ids=ids, labels=labels).loss
    assert mine.item() == pytest.approx(stock.item(), rel=1e-5)


def test_blip_2_by_name_has_the_papers_settings_and_t5_is_refused(blip2_folder, world_sets, tmp_path, command_line):
    words = ["train", "captioner", world_sets.path, "--preset", "blip-2", "--init", f"hf:{blip2_folder}", "--steps", 1]
    done = command_line(*words, "--device", "cpu", "--val-share", 0.4, "-o", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    settings = json.loads((tmp_path / "model" / "run.json").read_text())["settings"]
    assert (settings["rate"], settings["batch"]) == (2e-6, 8)
    import transformers as t

    config = t.Blip2Config.from_pretrained(blip2_folder).to_dict()
    config["text_config"] = {"model_type": "t5", "vocab_size": 13, "d_model": 16, "d_kv": 8, "d_ff": 16}
    config["text_config"] |= {"num_layers": 1, "num_heads": 2, "pad_token_id": 0, "decoder_start_token_id": 0}
    shutil.copytree(blip2_folder, tmp_path / "t5")
    t.Blip2ForConditionalGeneration(t.Blip2Config(**config)).save_pretrained(tmp_path / "t5")
    with pytest.raises(InputError, match="with a 't5'; those with a decoder"):
        CaptionerTask().open(open_checkpoint(tmp_path / "t5"), None)
