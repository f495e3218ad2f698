"""Captioners of each form: the adapter says what the stock classes say."""

import json
import pickle
import shutil

import numpy as np
import pytest
from tests.models.conftest import lively

from equipoise.data import Table
from equipoise.engine import Asking
from equipoise.engine.answers import captions
from equipoise.errors import InputError
from equipoise.models import check, load
from equipoise.models.miniatures import FOLDER

LENGTH = 10


@pytest.fixture(scope="session")
def decoder_folder(tmp_path_factory, tiny_parts):
    """A vision-encoder-decoder of a ViT and a GPT-2."""
    import transformers as t

    folder = tmp_path_factory.mktemp("captioner")
    words = tiny_parts("clip")[1]
    start, end = words.bos_token_id, words.eos_token_id
    vision = t.ViTConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8
    )
    text = t.GPT2Config(
        vocab_size=len(words),
        n_positions=LENGTH,
        n_embd=16,
        n_layer=1,
        n_head=2,
        add_cross_attention=True,
        is_decoder=True,
        bos_token_id=start,
        eos_token_id=end,
    )
    config = t.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, text)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = start, end, end
    model = lively(t.VisionEncoderDecoderModel(config))
    model.generation_config.update(decoder_start_token_id=start, eos_token_id=end, pad_token_id=end, max_length=LENGTH)
    pixels = t.ViTImageProcessorPil(size={"height": 32, "width": 32})
    for part in (model, words, pixels):
        part.save_pretrained(folder)
    return folder


def test_a_vision_encoder_decoder_says_what_the_stock_class_says(decoder_folder, pictures):
    from transformers import AutoImageProcessor, AutoTokenizer, VisionEncoderDecoderModel

    captioner = load(f"hf:{decoder_folder}", kind="captioner")
    model = VisionEncoderDecoderModel.from_pretrained(decoder_folder)
    pixels = AutoImageProcessor.from_pretrained(decoder_folder)(images=pictures, return_tensors="pt")
    ids = model.generate(**pixels, do_sample=False)
    expected = AutoTokenizer.from_pretrained(decoder_folder).batch_decode(ids, skip_special_tokens=True)
    assert captioner.caption(pictures, seed=0) == [text.strip() for text in expected]
    assert len(set(expected)) > 1


def test_blip_2_says_what_the_stock_class_says(blip2_folder, pictures):
    import transformers as t

    captioner = load(f"hf:{blip2_folder}", kind="captioner", max_new_tokens=6)
    processor = t.AutoProcessor.from_pretrained(blip2_folder)
    model = t.AutoModelForImageTextToText.from_pretrained(blip2_folder)
    ids = model.generate(**processor(images=pictures, return_tensors="pt"), do_sample=False, max_new_tokens=6)
    expected = [text.strip() for text in processor.batch_decode(ids, skip_special_tokens=True)]
    assert captioner.caption(pictures, seed=0) == expected
    assert len(set(expected)) > 1
    assert captioner.key.startswith("blip-2-")


def test_a_prompt_is_asked_and_not_repeated(blip2_folder, pictures):
    plain = load(f"hf:{blip2_folder}", kind="captioner", max_new_tokens=6)
    asked = load(f"hf:{blip2_folder}", kind="captioner", max_new_tokens=6, prompt="a photo of")
    said = asked.caption(pictures)
    assert said != plain.caption(pictures)
    assert not any(text.startswith("a photo of a photo of") for text in said)
    assert asked.key != plain.key


@pytest.mark.parametrize("form", ["decoder_folder", "blip2_folder", "clipcap_folder"])
def test_captioners_keep_their_promises(form, request):
    report = check(load(f"hf:{request.getfixturevalue(form)}", kind="captioner"))
    assert report.ok, str(report)


def test_sampled_captions_follow_the_seed_and_nothing_else(decoder_folder, pictures):
    captioner = load(f"hf:{decoder_folder}", kind="captioner", temperature=2.0)
    together = captioner.caption(pictures, seed=1)
    assert together == [captioner.caption([image], seed=1)[0] for image in pictures]
    assert together == captioner.caption(pictures, seed=1)
    assert together != captioner.caption(pictures, seed=2)


def test_sampling_leaves_the_random_numbers_of_others_alone(decoder_folder, pictures):
    import torch

    captioner = load(f"hf:{decoder_folder}", kind="captioner", temperature=1.0)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    captioner.caption(pictures[:1], seed=9)
    assert torch.equal(torch.rand(3), expected)


def test_a_captioner_survives_the_way_to_another_process(decoder_folder, pictures):
    captioner = load(f"hf:{decoder_folder}", kind="captioner", max_new_tokens=3)
    again = pickle.loads(pickle.dumps(captioner))
    assert again.key == captioner.key
    assert again.caption(pictures) == captioner.caption(pictures)


def test_beams_and_lengths_are_passed_on(decoder_folder, pictures):
    short = load(f"hf:{decoder_folder}", kind="captioner", max_new_tokens=2, num_beams=2)
    assert all(len(text.split()) <= 2 for text in short.caption(pictures))
    with pytest.raises(InputError, match="num_beams must be above 0, not 0"):
        load(f"hf:{decoder_folder}", kind="captioner", num_beams=0)


def test_without_a_length_of_its_own_a_caption_ends_in_time(decoder_folder, tmp_path, pictures):
    """A GPT-2 of ten positions must not be asked for forty tokens."""
    copy = shutil.copytree(decoder_folder, tmp_path / "copy")
    (copy / "generation_config.json").unlink()
    assert len(load(f"hf:{copy}", kind="captioner").caption(pictures)) == len(pictures)


def with_settings(folder, copy, file, **changed):
    """A copy of a checkpoint with other settings in one of its JSON files."""
    shutil.copytree(folder, copy)
    said = json.loads((copy / file).read_text()) if (copy / file).is_file() else {}
    (copy / file).write_text(json.dumps(said | changed))
    return copy


@pytest.mark.parametrize(
    ("form", "inner"), [("decoder_folder", "."), ("blip2_folder", "."), ("clipcap_folder", "gpt2")]
)
def test_generation_settings_and_tokenizer_are_part_of_the_key(form, inner, request, tmp_path):
    folder = request.getfixturevalue(form)
    said = json.loads((folder / inner / "tokenizer.json").read_text())
    vocab = said["model"]["vocab"]
    first, second = sorted(vocab, key=vocab.get)[4:6]
    swapped = said["model"] | {"vocab": vocab | {first: vocab[second], second: vocab[first]}}
    places = [
        folder,
        with_settings(folder, tmp_path / "short", f"{inner}/generation_config.json", repetition_penalty=9.0),
        with_settings(folder, tmp_path / "swapped", f"{inner}/tokenizer.json", model=swapped),
        with_settings(folder, tmp_path / "spaced", f"{inner}/tokenizer_config.json", clean_up_tokenization_spaces=True),
        with_settings(folder, tmp_path / "newer", f"{inner}/generation_config.json", transformers_version="99.0"),
    ]
    keys = [load(f"hf:{place}", kind="captioner").key for place in places]
    assert len(set(keys[:4])) == 4
    assert keys[4] == keys[0], "the release that saved it changes no caption"


def test_captions_of_other_generation_settings_do_not_come_from_the_store(decoder_folder, tmp_path, pictures):
    shorter = with_settings(decoder_folder, tmp_path / "short", "generation_config.json", max_length=4)
    table = Table.create(tmp_path / "t", [{"image_id": str(i), "image": image} for i, image in enumerate(pictures)])
    how = Asking(store=tmp_path / "store", progress=False)
    models = [load(f"hf:{folder}", kind="captioner") for folder in (decoder_folder, shorter)]
    for model in models:
        assert [text for _, text in captions(model, table, how)] == model.caption(pictures)
    assert models[0].caption(pictures) != models[1].caption(pictures)


def test_a_reviser_keeps_its_promises():
    report = check(load("mini:dcg", kind="reviser"))
    assert report.ok, str(report)
    assert [promise.name for promise in report.checks] == ["revisions", "seed and batch"]


@pytest.mark.parametrize("file", ["generation_config.json", "decoder/tokenizer_config.json"])
def test_how_a_reviser_writes_is_part_of_its_key(file, tmp_path):
    changed = {"length_penalty": 0.1, "clean_up_tokenization_spaces": True}
    other = with_settings(FOLDER / "dcg", tmp_path / "other", file, **changed)
    assert load(f"hf:{other}", kind="reviser").key != load(f"hf:{FOLDER / 'dcg'}", kind="reviser").key


def test_a_dual_encoder_cannot_caption_and_says_so(tiny_checkpoint, decoder_folder):
    with pytest.raises(InputError, match="a 'clip' model, which cannot caption"):
        load(f"hf:{tiny_checkpoint('clip')}", kind="captioner")
    with pytest.raises(InputError, match="'vision-encoder-decoder' model, which is not an encoder"):
        load(f"hf:{decoder_folder}")


def assert_greedy(folder, picture, tokens):
    """Every token is the likeliest after those before it, up to rounding, by ClipCap's parts one by one."""
    import torch
    import transformers as t
    from safetensors.torch import load_file

    clip = t.CLIPVisionModelWithProjection.from_pretrained(folder / "clip")
    gpt = t.GPT2LMHeadModel.from_pretrained(folder / "gpt2")
    pixels = t.AutoImageProcessor.from_pretrained(folder / "clip")(images=[picture], return_tensors="pt")
    weights = load_file(folder / "model.safetensors")
    with torch.no_grad():
        vector = clip(**pixels).image_embeds
        hidden = torch.tanh(vector @ weights["model.0.weight"].T + weights["model.0.bias"])
        rows = (hidden @ weights["model.2.weight"].T + weights["model.2.bias"]).reshape(1, 2, 16)
        for token in tokens:
            logits = gpt(inputs_embeds=rows).logits[0, -1]
            assert logits[token] >= logits.max() - 1e-4
            rows = torch.cat([rows, gpt.transformer.wte.weight[token].reshape(1, 1, 16)], dim=1)


def test_clipcap_says_what_its_parts_say_by_hand(clipcap_folder, pictures, monkeypatch):
    """The tokens are read before they become text, which leaves out special ones."""
    import transformers as t

    batches = []
    generate = t.GPT2LMHeadModel.generate
    monkeypatch.setattr(
        t.GPT2LMHeadModel, "generate", lambda *args, **how: batches.append(generate(*args, **how)) or batches[-1]
    )
    said = load(f"hf:{clipcap_folder}", kind="captioner").caption(pictures)
    written = [row for ids in batches for row in ids.tolist()]
    words = t.AutoTokenizer.from_pretrained(clipcap_folder / "gpt2")
    stop = words.convert_tokens_to_ids(".")
    for picture, caption, row in zip(pictures, said, written, strict=True):
        tokens = row[: row.index(stop) + 1] if stop in row else row
        assert tokens[-1] == stop or len(tokens) == 67
        assert words.decode(tokens, skip_special_tokens=True).strip() == caption
        assert_greedy(clipcap_folder, picture, tokens)
    assert len(set(said)) > 1


def test_a_classifier_answers_head_by_head(tmp_path, pictures):
    import transformers as t

    labels = ["age:young", "age:old", "scene:park", "scene:office", "scene:street", "object:ball", "object:hat"]
    config = t.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        layer_type="basic",
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        problem_type="multi_label_classification",
    )
    lively(t.ResNetForImageClassification(config)).save_pretrained(tmp_path)
    t.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    classifier = load(f"hf:{tmp_path}", kind="classifier")
    answers = classifier.classify(pictures)
    assert {head: found.labels for head, found in answers.items()} == {
        "age": ("young", "old"),
        "scene": ("park", "office", "street"),
        "object": ("ball", "hat"),
    }
    for head in ("age", "scene"):
        np.testing.assert_allclose(answers[head].probabilities.sum(axis=1), 1, rtol=1e-5)
    model = t.ResNetForImageClassification.from_pretrained(tmp_path)
    pixels = t.AutoImageProcessor.from_pretrained(tmp_path)(images=pictures, return_tensors="pt")
    logits = model(**pixels).logits.detach()
    np.testing.assert_allclose(answers["age"].probabilities, logits[:, :2].softmax(1), atol=1e-5)
    np.testing.assert_allclose(answers["object"].probabilities, logits[:, 5:].sigmoid(), atol=1e-5)
    assert answers["age"].best == [["young", "old"][i] for i in logits[:, :2].argmax(1)]
    assert check(classifier).ok
    again = pickle.loads(pickle.dumps(classifier)).classify(pictures)
    np.testing.assert_array_equal(again["age"].probabilities, answers["age"].probabilities)


def test_an_encoder_is_no_classifier(tiny_checkpoint):
    with pytest.raises(InputError, match="a 'flava' model, which is not an image classifier"):
        load(f"hf:{tiny_checkpoint('flava')}", kind="classifier")
