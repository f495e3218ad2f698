"""Names of models: schemes, kinds, miniatures, and the command line."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from equipoise.cli.models import app
from equipoise.errors import InputError, UnknownNameError
from equipoise.models import SCHEMES, Captioner, Encoder, check, load, miniatures
from equipoise.models.hf.families import FAMILIES
from equipoise.models.miniatures import PARTS, figures_of

REAL = miniatures.FOLDER


@pytest.fixture
def packaged(tmp_path, monkeypatch, tiny_checkpoint):
    """A package with one miniature, the tiny CLIP, and its card."""
    monkeypatch.setattr(miniatures, "FOLDER", tmp_path)
    shutil.copytree(tiny_checkpoint("clip"), tmp_path / "clip")
    (tmp_path / "clip" / "README.md").write_text("# clip\n\n| figure | value |\n| --- | --- |\n| gender | 0.998 |\n")
    return tmp_path


def test_the_schemes_of_the_design_are_there():
    assert {"mini", "hf", "open_clip", "table"} <= set(SCHEMES.names())


def test_names_that_lack_something_are_refused():
    for spec in ("hf:", "hf", "table:", "mini:"):
        with pytest.raises(InputError, match="lacks what comes after the colon"):
            load(spec)
    with pytest.raises(UnknownNameError, match="no kind named 'painter'"):
        load("mini", kind="painter")
    with pytest.raises(InputError, match="open_clip: gives an encoder"):
        load("open_clip:ViT-B-32/openai", kind="captioner")


def test_mini_is_the_clip(packaged, pictures):
    whole, part = load("mini"), load("mini:clip")
    assert isinstance(whole, Encoder)
    assert (whole.name, part.name) == ("mini", "mini:clip")
    assert whole.key == part.key
    np.testing.assert_array_equal(whole.encode_images(pictures), part.encode_images(pictures))


def test_a_part_that_is_not_there_says_so(packaged):
    with pytest.raises(InputError, match=r"the miniature 'clip-fair' is not in this installation .* there is: clip; "):
        load("mini:clip-fair")
    with pytest.raises(InputError, match="the miniature 'captioner' is not in this installation"):
        load("mini", kind="captioner")
    with pytest.raises(UnknownNameError, match="no miniature named 'clpi'; did you mean 'clip'"):
        load("mini:clpi")
    with pytest.raises(InputError, match="is a captioner, and an encoder is needed here; give mini:clip, mini:clip-f"):
        load("mini:captioner")


def test_figures_of_a_card_are_read():
    card = "text\n| a | b |\n| --- | --- |\n| **gender** | 0.998 | 1000 |\n| slope | -0.02 |\n| note | none |\n"
    assert figures_of(card) == [("gender", "0.998"), ("slope", "-0.02")]


def test_what_the_training_saves_loads_through_the_adapters(tmp_path, monkeypatch, pictures):
    """Untrained, but of the same classes and in the same files as the packaged ones."""
    from equipoise.recipes.train_mini import captioner, clip, judge
    from equipoise.recipes.train_mini.saving import save_transformers
    from equipoise.recipes.train_mini.tokenizer import tokenizer

    monkeypatch.setattr(miniatures, "FOLDER", tmp_path)
    words, scaled = tokenizer(), {"mean": 0.5, "std": 0.5, "size": 64}
    save_transformers(clip.build(words), tmp_path / "clip", tokenizer=words, **scaled)
    save_transformers(captioner.build(words), tmp_path / "captioner", tokenizer=words, processor="vit", **scaled)
    save_transformers(judge.build(), tmp_path / "judge", processor="vit", **scaled)
    encoder = load("mini")
    assert encoder.encode_images(pictures).dtype == np.float32
    assert str(encoder.model.dtype) == "torch.float32"  # stored as float16
    assert check(encoder).ok
    assert len(load("mini", kind="captioner").caption(pictures, seed=0)) == 5
    answers = load("mini:judge", kind="classifier").classify(pictures)
    assert set(answers) == {*judge.HEADS, "object"}


SEEING = [part for part, (kind, _) in PARTS.items() if kind in ("encoder", "captioner", "classifier")]


@pytest.mark.parametrize("part", SEEING)
def test_the_packaged_miniatures_keep_their_promises(part):
    if not (REAL / part / "config.json").exists():
        pytest.skip(f"the miniature {part} is not trained yet")
    kind = PARTS[part][0]
    model = load(f"mini:{part}", kind=kind)
    report = check(model)
    assert report.ok, str(report)


@pytest.mark.parametrize("part", SEEING)
def test_stock_classes_load_the_packaged_miniatures(part, pictures):
    """With no code of ours and no network, on a plain image and text."""
    import torch
    import transformers as t

    folder = REAL / part
    if not (folder / "config.json").exists():
        pytest.skip(f"the miniature {part} is not trained yet")
    pixels = t.AutoImageProcessor.from_pretrained(folder)(images=pictures[:1], return_tensors="pt")
    with torch.no_grad():
        if PARTS[part][0] == "encoder":
            words = t.AutoTokenizer.from_pretrained(folder)(["a photo of a doctor"], return_tensors="pt")
            out = t.CLIPModel.from_pretrained(folder)(**pixels, **words)
            made = load(f"mini:{part}").encode_images(pictures[:1])
            np.testing.assert_allclose(made, out.image_embeds, atol=1e-5)
        elif PARTS[part][0] == "captioner":
            model = t.VisionEncoderDecoderModel.from_pretrained(folder)
            said = t.AutoTokenizer.from_pretrained(folder).batch_decode(
                model.generate(**pixels, do_sample=False), skip_special_tokens=True
            )
            captioner = load(f"mini:{part}", kind="captioner")
            assert isinstance(captioner, Captioner)
            assert captioner.caption(pictures[:1], seed=0) == [said[0].strip()]
        else:
            model = t.ResNetForImageClassification.from_pretrained(folder)
            assert model(**pixels).logits.shape[1] == len(model.config.id2label) >= 2


class Faulty:
    """An encoder that breaks one promise after the other."""

    name, key, logit_scale = "faulty", "faulty", 1.0

    def __init__(self, fault, good):
        self.fault, self.good, self.calls = fault, good, 0

    def encode_images(self, images):
        if self.fault == "scaled" and isinstance(images[0], np.ndarray):
            return np.ones((1, 16), np.float32) / 4
        vectors = self.good.encode_images(images)
        if self.fault == "norm":
            vectors = vectors * 2
        if self.fault == "order" and len(vectors) > 1:
            vectors = vectors[np.argsort(vectors[:, 0])]
        if self.fault == "batch":
            vectors = vectors - vectors.mean(axis=0) * (len(vectors) > 1)
            vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        if self.fault == "random":
            self.calls += 1  # never the same twice in a row
            vectors = np.roll(vectors, self.calls, axis=1)
        if self.fault == "constant":
            vectors = np.repeat(vectors[:1], len(vectors), axis=0)
        if self.fault == "type":
            vectors = vectors.astype(np.float64)
        return vectors

    def encode_texts(self, texts):
        return self.good.encode_texts(texts)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("norm", "unit vectors"),
        ("type", "unit vectors"),
        ("order", "image order"),
        ("batch", "batch independence"),
        ("random", "determinism"),
        ("constant", "tells apart"),
        ("scaled", "scaled pixels"),
    ],
)
def test_the_self_test_finds_broken_promises(fault, found, tiny_checkpoint):
    report = check(Faulty(fault, load(f"hf:{tiny_checkpoint('clip')}")))
    assert not report.ok
    assert found in {c.name for c in report.checks if not c.ok}
    assert f"FAIL {found}" in str(report)


def test_what_is_no_model_is_not_checked():
    with pytest.raises(InputError, match="a str is no encoder, captioner"):
        check("mini")


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_list_names_everything(packaged):
    out = run("list").output
    for name in [*SCHEMES.names(), *FAMILIES.names(), "vision-encoder-decoder", "mini:clip-fair"]:
        assert name in out
    assert "gender: 0.998" in out
    assert "not in this installation" in out
    told = json.loads(run("list", "--json").output)
    assert told["miniatures"][0]["figures"] == {"gender": "0.998"}
    assert told["miniatures"][0]["bytes"] > 1000
    assert told["miniatures"][0]["folder"] == str(miniatures.FOLDER / "clip")
    assert f"miniatures, each in a folder of its own in {miniatures.FOLDER}" in out


def test_checking_prints_what_it_found(packaged):
    done = run("check", "mini")
    assert done.exit_code == 0
    assert "family       clip" in done.output
    assert "ok   batch independence" in done.output
    told = json.loads(run("check", "mini", "--json").stdout)
    assert told["ok"] is True
    assert len(told["checks"]) == 8


def test_a_broken_promise_exits_with_one(packaged, monkeypatch):
    from equipoise.models import checking

    monkeypatch.setattr(checking, "_FULL", -1.0)
    done = run("check", "mini")
    assert done.exit_code == 1
    assert "FAIL determinism" in done.output


def test_a_model_that_cannot_be_had_is_an_error_of_the_user(packaged):
    done = run("check", "hf:/nowhere")
    assert isinstance(done.exception, InputError)  # `equipoise` turns it into one sentence and exit code 2


def test_converting_from_the_command_line(tmp_path, tiny_checkpoint):
    import torch
    from safetensors.torch import save_file

    save_file({"tokens": torch.zeros(2, 16)}, tmp_path / "tokens.safetensors")
    clip = str(tiny_checkpoint("clip"))
    done = run("convert", "debias-clip", str(tmp_path / "tokens.safetensors"), str(tmp_path / "out"), "--clip", clip)
    assert done.exit_code == 0, done.exception
    assert f"load it as hf:{tmp_path / 'out'}" in done.output
    assert load(f"hf:{tmp_path / 'out'}").family == "debias-clip"
    for arguments, sentence in (
        (("slip", "a", "b"), "slip needs tokenizer"),
        (("slip", "a", "b", "--gpt2", "x"), "slip does not take gpt2"),
        (("slap", "a", "b"), "no converter named 'slap'; did you mean 'slip'"),
    ):
        assert sentence in str(run("convert", *arguments).exception)
