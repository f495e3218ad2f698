"""Every family through the adapter gives what the stock classes give on the same image and text."""

import warnings

import numpy as np
import pytest

from equipoise.models import check, load
from equipoise.models.hf.families import FAMILIES, EncoderFamily

TEXTS = ["a photo of a doctor", "a nurse", "a photo of a man with a hat at the market with a hat and a woman"]
STOCK = (
    "clip siglip siglip2 align altclip flava blip chinese_clip groupvit xclip metaclip_2 clipseg aimv2 "
    "vision-text-dual-encoder"
).split()
PADDED = {"siglip": 12, "siglip2": 12, "align": 64}


def stock_inputs(folder, family, pictures):
    from transformers import AutoImageProcessor, AutoTokenizer

    pixels = AutoImageProcessor.from_pretrained(folder)(images=pictures, return_tensors="pt")
    words = AutoTokenizer.from_pretrained(folder)
    padding = {"padding": "max_length", "max_length": PADDED[family]} if family in PADDED else {"padding": True}
    tokens = words(TEXTS, truncation=True, return_tensors="pt", **padding)
    if family in ("siglip", "siglip2"):
        tokens = {"input_ids": tokens["input_ids"]}
    return dict(pixels), dict(tokens)


def stock_scores(folder, family, pictures):
    """Cosines of images and texts from the class's own forward pass."""
    import torch
    import transformers as t

    pixels, tokens = stock_inputs(folder, family, pictures)
    with torch.no_grad():
        if family == "blip":
            tokens.pop("token_type_ids", None)
            model = t.BlipForImageTextRetrieval.from_pretrained(folder).eval()
            return model(**pixels, **tokens, use_itm_head=False).itm_score.numpy()
        if family == "flava":
            model = t.FlavaModel.from_pretrained(folder).eval()
            images = model.image_projection(model.image_model(**pixels).last_hidden_state[:, 0])
            texts = model.text_projection(model.text_model(**tokens).last_hidden_state[:, 0])
        elif family == "xclip":
            model = t.XCLIPModel.from_pretrained(folder).eval()
            video = torch.stack([pixels["pixel_values"]] * 3, dim=1)
            images = model.get_video_features(pixel_values=video).pooler_output
            texts = model.get_text_features(**tokens).pooler_output
        else:
            model = t.AutoModel.from_pretrained(folder).eval()
            out = model(**pixels, **tokens)
            images, texts = out.image_embeds, out.text_embeds
        unit = torch.nn.functional.normalize
        return (unit(images, dim=-1) @ unit(texts, dim=-1).T).numpy()


@pytest.mark.parametrize("family", STOCK)
def test_the_adapter_equals_the_stock_call(family, tiny_checkpoint, pictures):
    folder = tiny_checkpoint(family)
    encoder = load(f"hf:{folder}")
    scores = encoder.encode_images(pictures) @ encoder.encode_texts(TEXTS).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the stock classes may warn as they like
        expected = stock_scores(folder, family, pictures)
    assert scores.shape == (5, 3)
    np.testing.assert_allclose(scores, expected, atol=2e-5)
    assert np.ptp(expected) > 1e-3  # else the comparison says nothing


@pytest.mark.parametrize(
    "family", [f if i % 3 == 0 else pytest.param(f, marks=pytest.mark.slow) for i, f in enumerate(STOCK)]
)
def test_every_family_keeps_its_promises(family, tiny_checkpoint):
    encoder = load(f"hf:{tiny_checkpoint(family)}")
    report = check(encoder)
    assert report.ok, str(report)
    assert encoder.key.startswith(f"{family}-")
    assert encoder.logit_scale > 0


def test_all_families_are_tested_and_described():
    dual = {entry.name for entry in FAMILIES if isinstance(FAMILIES.load(entry.name), EncoderFamily)}
    assert dual == {*STOCK, "laclip", "debias-clip"}
    for entry in FAMILIES:
        assert FAMILIES.load(entry.name).model_class


def test_scales_are_what_the_checkpoints_learned(tiny_checkpoint):
    # CLIP keeps the logarithm (2.6592), ALIGN a temperature (0.5 here), BLIP neither.
    assert load(f"hf:{tiny_checkpoint('clip')}").logit_scale == pytest.approx(np.exp(2.6592), rel=1e-6)
    assert load(f"hf:{tiny_checkpoint('align')}").logit_scale == pytest.approx(2.0)
    assert load(f"hf:{tiny_checkpoint('blip')}").logit_scale == pytest.approx(1 / 0.07)


def test_heads_around_the_dual_encoder_do_not_disturb(tmp_path, tiny_checkpoint, pictures):
    """Published CLIPSeg and FLAVA files hold more than the dual encoder, under a prefix."""
    import shutil

    from transformers import CLIPSegConfig, CLIPSegForImageSegmentation, CLIPSegModel

    plain = tiny_checkpoint("clipseg")
    config = CLIPSegConfig.from_pretrained(plain)
    config.extract_layers, config.reduce_dim, config.decoder_intermediate_size = [0, 1], 8, 16
    whole = CLIPSegForImageSegmentation(config)
    whole.clip = CLIPSegModel.from_pretrained(plain)
    shutil.copytree(plain, tmp_path / "whole")
    whole.save_pretrained(tmp_path / "whole")
    expected = load(f"hf:{plain}").encode_images(pictures)
    np.testing.assert_allclose(load(f"hf:{tmp_path / 'whole'}").encode_images(pictures), expected, atol=1e-6)


def test_siglip_2_of_a_fixed_size_reads_lower_case(tmp_path, tiny_parts):
    """Its folders say ``siglip`` and Gemma's tokenizer, which keeps capital letters that training never showed it."""
    import string

    import transformers as t
    from tests.models.conftest import LAYERS, VISION, livened

    marks = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    vocab = {letter: i for i, letter in enumerate([*marks, "▁", *string.ascii_letters])}
    words = t.GemmaTokenizer(vocab=vocab, merges=[], padding_side="right", model_max_length=24)
    text = LAYERS | {"max_position_embeddings": 24, "vocab_size": len(words)}
    config = t.SiglipConfig(text_config=text | {"pad_token_id": 0}, vision_config=dict(VISION))
    for part in (livened(t.SiglipModel(config)), words, tiny_parts("siglip")[2]):
        part.save_pretrained(tmp_path)
    encoder = load(f"hf:{tmp_path}")
    vectors = encoder.encode_texts(["A Photo of a Nurse", "a photo of a nurse", "a photo of a doctor"])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[1] - vectors[2]).max() > 1e-3
    stock = t.SiglipModel.from_pretrained(tmp_path)
    ids = words(["a photo of a nurse"], padding="max_length", max_length=24, return_tensors="pt")["input_ids"]
    expected = stock.get_text_features(input_ids=ids).pooler_output.detach()[0]
    np.testing.assert_allclose(vectors[0], expected / expected.norm(), atol=1e-5)
