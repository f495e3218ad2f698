"""Tiny random checkpoints of every family, saved by the tests themselves in the files that real ones have."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

WORDS = "a photo of person doctor nurse man woman at the market with hat".split()
SIZE, PATCH, WIDTH, LENGTH = 32, 8, 16, 12
LAYERS = {"hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = LAYERS | {"image_size": SIZE, "patch_size": PATCH}
FAMILIES = (
    "clip siglip siglip2 align altclip flava blip chinese_clip groupvit xclip metaclip_2 clipseg aimv2 "
    "vision-text-dual-encoder"
).split()


def clip_words() -> Any:
    from equipoise.recipes.train_mini.tokenizer import tokenizer

    words = tokenizer(WORDS)
    words.model_max_length = LENGTH
    return words


def bert_words(length: int = LENGTH) -> Any:
    from transformers import BertTokenizer

    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = {word: i for i, word in enumerate([*marks, *WORDS])}
    return BertTokenizer(vocab=vocab, model_max_length=length)


def roberta_words() -> Any:
    from transformers import XLMRobertaTokenizer

    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocab += [(f"▁{word}", -1.0) for word in WORDS] + [("<mask>", 0.0)]
    return XLMRobertaTokenizer(vocab=vocab, model_max_length=LENGTH)


def lower_case_words() -> Any:
    """As SigLIP's: lower case, an end token and no start, and no mask given to the model."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocab = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=LENGTH,
        model_input_names=["input_ids"],
    )


def ids_of(words: Any) -> dict[str, Any]:
    start = words.bos_token_id if words.bos_token_id is not None else words.cls_token_id
    end = words.eos_token_id if words.eos_token_id is not None else words.sep_token_id
    return {"vocab_size": len(words), "bos_token_id": start, "eos_token_id": end, "pad_token_id": words.pad_token_id}


def text_settings(words: Any, **more: Any) -> dict[str, Any]:
    return LAYERS | {"max_position_embeddings": LENGTH} | ids_of(words) | more


def processor(name: str, **settings: Any) -> Any:
    import transformers

    return getattr(transformers, name)(**settings)


def clip_pixels() -> Any:
    return processor("CLIPImageProcessorPil", size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE})


def square(name: str, **more: Any) -> Any:
    return processor(name, size={"height": SIZE, "width": SIZE}, **more)


def parts(family: str) -> tuple[Any, Any, Any]:
    """Model, tokenizer and image processor of a family, tiny and random."""
    import transformers as t

    if family in ("clip", "groupvit", "xclip", "clipseg", "aimv2"):
        words = clip_words()
        text = text_settings(words)
        name = {"clip": "CLIP", "groupvit": "GroupViT", "xclip": "XCLIP", "clipseg": "CLIPSeg", "aimv2": "Aimv2"}[
            family
        ]
        vision: dict[str, Any] = dict(VISION)
        more: dict[str, Any] = {"projection_dim": 16}
        if family == "groupvit":
            vision |= {"depths": [1, 1, 1], "num_group_tokens": [4, 2, 0], "num_output_groups": [4, 2, 2]}
            more |= {"projection_intermediate_dim": 32}
        if family == "xclip":
            vision |= {
                "num_frames": 3,
                "mit_hidden_size": 16,
                "mit_intermediate_size": 32,
                "mit_num_attention_heads": 2,
            }
            more |= {"prompt_num_attention_heads": 2}
        config = getattr(t, f"{name}Config")(text_config=text, vision_config=vision, **more)
        return getattr(t, f"{name}Model")(config), words, clip_pixels()
    if family == "metaclip_2":
        words = roberta_words()
        config = t.MetaClip2Config(text_config=text_settings(words), vision_config=dict(VISION), projection_dim=16)
        return t.MetaClip2Model(config), words, clip_pixels()
    if family == "siglip":
        words = lower_case_words()
        config = t.SiglipConfig(text_config=text_settings(words), vision_config=dict(VISION))
        return t.SiglipModel(config), words, square("SiglipImageProcessorPil")
    if family == "siglip2":
        words = lower_case_words()
        vision = LAYERS | {"patch_size": PATCH, "num_patches": 16}
        config = t.Siglip2Config(text_config=text_settings(words), vision_config=vision)
        pixels = processor("Siglip2ImageProcessorPil", patch_size=PATCH, max_num_patches=16)
        return t.Siglip2Model(config), words, pixels
    if family == "align":
        words = bert_words(512)
        vision = {"image_size": SIZE, "width_coefficient": 0.25, "depth_coefficient": 0.2, "hidden_dim": 80}
        text = text_settings(words, max_position_embeddings=512)
        config = t.AlignConfig(text_config=text, vision_config=vision, projection_dim=80, temperature_init_value=0.5)
        return t.AlignModel(config), words, square("EfficientNetImageProcessorPil")
    if family == "altclip":
        words = roberta_words()
        text = text_settings(words, max_position_embeddings=LENGTH + 2, project_dim=16)
        config = t.AltCLIPConfig(text_config=text, vision_config=dict(VISION), projection_dim=16)
        return t.AltCLIPModel(config), words, clip_pixels()
    if family == "flava":
        words = bert_words()
        config = t.FlavaConfig(
            text_config=text_settings(words),
            image_config=dict(VISION),
            multimodal_config=dict(LAYERS),
            hidden_size=WIDTH,
            projection_dim=16,
        )
        pixels = square("FlavaImageProcessorPil", crop_size={"height": SIZE, "width": SIZE})
        return t.FlavaModel(config), words, pixels
    if family == "blip":
        words = bert_words()
        text = text_settings(words, encoder_hidden_size=WIDTH)
        config = t.BlipConfig(text_config=text, vision_config=VISION | {"initializer_range": 0.02})
        return t.BlipForImageTextRetrieval(config), words, square("BlipImageProcessorPil")
    if family == "chinese_clip":
        words = bert_words()
        config = t.ChineseCLIPConfig(text_config=text_settings(words), vision_config=dict(VISION), projection_dim=16)
        return t.ChineseCLIPModel(config), words, square("ChineseCLIPImageProcessorPil", do_center_crop=False)
    if family == "vision-text-dual-encoder":
        words = bert_words()
        config = t.VisionTextDualEncoderConfig.from_vision_text_configs(
            t.ViTConfig(**VISION), t.BertConfig(**text_settings(words)), projection_dim=16
        )
        return t.VisionTextDualEncoderModel(config), words, square("ViTImageProcessorPil")
    raise AssertionError(family)


def livened(model: Any) -> Any:
    """The model with weights spread enough that different inputs give different vectors."""
    import torch

    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 2:
                weight.normal_(0, 2 / weight[0].numel() ** 0.5)
            elif weight.ndim > 1:
                weight.normal_(0, 0.3)
            elif "scale" not in name and "temperature" not in name:
                weight.add_(torch.randn_like(weight) * 0.1)
    return model.eval()


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a family's tiny checkpoint, made once."""
    made: dict[str, Path] = {}

    def folder_of(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            for part in (livened(parts(family)[0]), *parts(family)[1:]):
                part.save_pretrained(made[family])
        return made[family]

    return folder_of


@pytest.fixture(scope="session")
def tiny_parts() -> Callable[[str], tuple[Any, Any, Any]]:
    """Model, tokenizer and image processor of a family, not saved."""
    return parts


@pytest.fixture(scope="session")
def clipcap_folder(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Callable[[str], Path]) -> Path:
    """A ClipCap converted from a checkpoint in the published layout: clip_project.model.{0,2} and gpt.*"""
    import torch
    import transformers as t
    from tokenizers import Tokenizer, models, pre_tokenizers

    from equipoise.models import convert

    folder = tmp_path_factory.mktemp("clipcap")
    vocab = {word: i for i, word in enumerate([*WORDS, ".", "<|endoftext|>"])}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<|endoftext|>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words = t.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>", unk_token="<|endoftext|>")
    end = vocab["<|endoftext|>"]
    config = t.GPT2Config(
        vocab_size=len(words), n_positions=80, n_embd=16, n_layer=1, n_head=2, eos_token_id=end, bos_token_id=end
    )
    stock = t.GPT2LMHeadModel(config)
    stock.save_pretrained(folder / "gpt2")
    words.save_pretrained(folder / "gpt2")
    tuned = livened(t.GPT2LMHeadModel(config))
    state = {f"gpt.{name}": value for name, value in tuned.state_dict().items()}
    state["gpt.transformer.h.0.attn.bias"] = torch.ones(1, 1, 80, 80)  # old versions saved their causal mask
    torch.manual_seed(2)
    state |= {
        "clip_project.model.0.weight": torch.randn(16, 16),
        "clip_project.model.0.bias": torch.randn(16),
        "clip_project.model.2.weight": torch.randn(32, 16),
        "clip_project.model.2.bias": torch.randn(32),
    }
    torch.save(state, folder / "coco_weights.pt")
    return convert.clipcap(
        folder / "coco_weights.pt",
        folder / "converted",
        clip=tiny_checkpoint("clip"),
        gpt2=folder / "gpt2",
        allow_pickle=True,
    )


def lively(model: Any, spread: float = 0.5) -> Any:
    """Weights so far apart that different images get different captions."""
    import torch

    torch.manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, spread)
    return model.eval()


@pytest.fixture(scope="session")
def blip2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BLIP-2 with an OPT, in the files of the published ones."""
    import transformers as t
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("blip2")
    vocab = {w: i for i, w in enumerate("<pad> <s> </s> <unk> a photo of man woman at the market <image>".split())}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words = t.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["<image>"],
    )
    layers = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = t.Blip2Config(
        vision_config=layers | {"intermediate_size": 32, "image_size": 32, "patch_size": 8, "initializer_range": 0.2},
        qformer_config=layers | {"intermediate_size": 32, "encoder_hidden_size": 16, "vocab_size": 20},
        text_config=layers
        | {
            "model_type": "opt",
            "vocab_size": len(words),
            "ffn_dim": 32,
            "word_embed_proj_dim": 16,
            "max_position_embeddings": 64,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
        num_query_tokens=4,
        image_token_index=vocab["<image>"],
    )
    model = lively(t.Blip2ForConditionalGeneration(config))
    pixels = t.BlipImageProcessorPil(size={"height": 32, "width": 32})
    model.save_pretrained(folder)
    t.Blip2Processor(pixels, words, num_query_tokens=4).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def pictures() -> list[Any]:
    """Five small photos-like images of different sizes."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    sizes = [(40, 30), (32, 32), (64, 48), (30, 70), (50, 50)]
    return [
        Image.fromarray(rng.integers(0, 255, (4, 4, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
        for size in sizes
    ]


@pytest.fixture(autouse=True)
def _one_quiet_thread() -> None:
    import torch
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
