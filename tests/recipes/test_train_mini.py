"""Training a miniature: stopped and resumed it ends at the same weights, and stock transformers loads the result."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.data.runs import find_run  # noqa: E402
from equipoise.errors import InputError, UnknownNameError  # noqa: E402
from equipoise.recipes.train_mini import binding, captioner, clip, evaluate, judge, parts, train  # noqa: E402
from equipoise.recipes.train_mini.parts import train_into  # noqa: E402
from equipoise.recipes.train_mini.tokenizer import LENGTH, tokenizer  # noqa: E402
from equipoise.train.schedule import Schedule  # noqa: E402
from equipoise.world import captions, preset, sample, vocabulary  # noqa: E402

TINY = Schedule(steps=4, batch=6, warmup=2, save_every=2)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    for module in (clip, judge, captioner, binding):
        monkeypatch.setattr(module, "SCHEDULE", TINY)
    monkeypatch.setattr(captioner.train_captioner, "__defaults__", (TINY,))


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize(
    "part",
    [
        "clip",
        pytest.param("clip-binding", marks=pytest.mark.slow),
        pytest.param("judge", marks=pytest.mark.slow),
        pytest.param("captioner", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path, part):
    quiet = [].append
    train(part, tmp_path / "a-work", tmp_path / "a", quiet)
    train(part, tmp_path / "b-work", tmp_path / "b", quiet, stop_at=2)
    assert not (tmp_path / "b").exists()
    train(part, tmp_path / "b-work", tmp_path / "b", quiet)
    straight, resumed = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert straight.keys() == resumed.keys()
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)
    assert any(value.dtype == torch.float16 for value in straight.values())


def test_stock_transformers_loads_what_was_saved(tmp_path):
    from transformers import AutoModelForImageClassification, AutoTokenizer, CLIPModel, VisionEncoderDecoderModel

    for part in ("clip", "judge", "captioner"):
        train(part, tmp_path / "work" / part, tmp_path / part, [].append)
    model = CLIPModel.from_pretrained(tmp_path / "clip")
    assert model.dtype == torch.float32
    words = AutoTokenizer.from_pretrained(tmp_path / "clip")
    assert len(words("a photo of a nurse")["input_ids"]) == 7
    assert AutoModelForImageClassification.from_pretrained(tmp_path / "judge").dtype == torch.float32
    assert VisionEncoderDecoderModel.from_pretrained(tmp_path / "captioner").dtype == torch.float32
    assert set(evaluate.judge_figures(tmp_path / "judge", n=8)) >= {"gender", "occupation", "objects"}
    assert set(evaluate.captioner_figures(tmp_path / "captioner", n=4)) >= {"occupation", "gender Error"}


def test_every_word_of_the_grammar_is_one_token_and_every_caption_fits():
    words = tokenizer()
    assert [w for w in vocabulary() if len(words(w)["input_ids"]) != 3] == []
    texts = [text for scene in sample(preset("biased"), 300, seed=9) for text in captions(scene)]
    assert max(map(len, words(texts)["input_ids"])) <= LENGTH


def test_an_unknown_part_is_answered_with_the_closest(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'clip-fair'"):
        train("clip-fiar", tmp_path, tmp_path)


def test_captions_stand_against_their_exchanged_twins():
    scenes = binding.two_people(preset("binding"), 3, 16)
    assert len(scenes) == 16
    assert len(set(scenes.subjects)) == binding.TOGETHER
    for scene in scenes:
        assert {person.gender for person in scene.people} == {"male", "female"}
    texts, others = binding.told_twice(scenes, 3)
    different = [(text, other) for text, other in zip(texts, others, strict=True) if text != other]
    assert len(different) > 8
    again = binding.two_people(preset("binding"), 4, 16)
    shared = set(scenes.columns["seed"].tolist()) & set(again.columns["seed"].tolist())
    assert not shared, "every step has scenes of its own"


@pytest.mark.slow
def test_the_gap_of_a_model_that_knows_nothing_follows_nothing(tmp_path):
    train("clip", tmp_path / "work", tmp_path / "clip", [].append)
    gaps, right = binding.measured_binding(evaluate.ClipFolder(tmp_path / "clip"), sets=1)
    assert gaps.shape == right.shape == binding.injected_binding().shape == (18,)
    assert np.abs(gaps).max() < 0.05
    assert np.corrcoef(gaps, binding.injected_binding())[0, 1] < 0.9


def test_checkpoints_and_models_of_other_settings_are_neither_mixed_nor_replaced(tmp_path, monkeypatch):
    quiet = [].append
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds files but no miniature"):
        train_into("judge", tmp_path / "mine", quiet)
    for nowhere in (Path(), Path("/")):
        with pytest.raises(InputError, match="names no folder"):
            train_into("judge", nowhere, quiet)
    steps = []
    monkeypatch.setattr(parts, "train", lambda name, folder, target, say, **how: steps.append((name, how)) or (
        (folder / "checkpoint.safetensors").touch(),
        (target / "config.json").write_text(name),
    ))  # fmt: skip
    train_into("clip", tmp_path / "made", quiet, strength=2.0, steps=None)
    train_into("clip", tmp_path / "made", quiet, strength=2.0, steps=None)
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["config.json", "run.json"]
    assert find_run(tmp_path / "made").finished
    with pytest.raises(InputError, match="holds another miniature"):
        train_into("clip", tmp_path / "made", quiet, strength=1.0)
    with pytest.raises(InputError, match="checkpoints of another miniature"):
        train_into("clip", tmp_path / "other", quiet, work=tmp_path / "made-work", strength=1.0)
    with pytest.raises(UnknownNameError):
        train_into("clop", tmp_path / "new", quiet)
    with pytest.raises(InputError, match="with stop_at the clip is not finished"):
        train_into("clip", tmp_path / "new", quiet, stop_at=3)
    with pytest.raises(InputError, match="the dcg is trained in one go"):
        train("dcg", tmp_path / "work", tmp_path / "new", quiet, stop_at=0)
    assert len(steps) == 2
    assert not (tmp_path / "other").exists()
    (tmp_path / "made-work" / "old").touch()
    train_into("clip", tmp_path / "made", quiet, strength=1.0, overwrite=True)
    assert sorted(path.name for path in (tmp_path / "made-work").iterdir()) == ["asked.json", "checkpoint.safetensors"]
