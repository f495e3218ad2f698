"""A tiny ViLT and a tiny GPT-2, saved in the files that real ones have, and pictures of two kinds."""

import json
from pathlib import Path

import pytest

WORDS = "a photo of person doctor nurse man woman boy girl at the market with hat red blue".split()
SIZE = 32


@pytest.fixture(scope="session")
def tiny_towers(tmp_path_factory) -> tuple[Path, Path]:
    """The folders of a ``ViltForMaskedLM`` and of a ``GPT2LMHeadModel`` without cross-attention."""
    torch = pytest.importorskip("torch")
    from transformers import BertTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Tokenizer, ViltConfig, ViltForMaskedLM
    from transformers.models.vilt.image_processing_pil_vilt import ViltImageProcessorPil

    home = tmp_path_factory.mktemp("towers")
    torch.manual_seed(0)
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = BertTokenizer(vocab={word: i for i, word in enumerate([*marks, *WORDS])}, model_max_length=40)
    config = ViltConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=SIZE,
        patch_size=8,
        max_position_embeddings=40,
    )
    ViltForMaskedLM(config).save_pretrained(home / "vilt")
    words.save_pretrained(home / "vilt")
    ViltImageProcessorPil(size={"shortest_edge": SIZE}, size_divisor=8).save_pretrained(home / "vilt")
    letters = sorted(set("".join(WORDS) + "Ġ."))
    vocab = {token: i for i, token in enumerate([*letters, "<|endoftext|>"])}
    tongue = GPT2Tokenizer(vocab=vocab, merges=[])
    end = vocab["<|endoftext|>"]
    gpt = GPT2Config(
        vocab_size=len(vocab), n_positions=64, n_embd=24, n_layer=2, n_head=2, bos_token_id=end, eos_token_id=end
    )
    GPT2LMHeadModel(gpt).save_pretrained(home / "gpt2")
    tongue.save_pretrained(home / "gpt2")
    return home / "vilt", home / "gpt2"


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> Path:
    """A folder of twelve pictures, some wider than high."""
    import numpy as np
    from PIL import Image

    home = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for number in range(12):
        pixels = rng.integers(0, 255, (SIZE, SIZE + 8 * (number % 3), 3), dtype=np.uint8)
        Image.fromarray(pixels).save(home / f"{number}.png")
    return home


@pytest.fixture
def pairs(tmp_path) -> Path:
    """Pairs of these pictures."""
    path = tmp_path / "pairs.jsonl"
    lines = [{"image_id": str(i), "biased": "a man doctor with hat", "original": "a woman nurse"} for i in range(12)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
