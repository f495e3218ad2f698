"""A language model in a local folder writes prompts out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from equipoise.errors import InputError  # noqa: E402
from equipoise.generate import rewriting  # noqa: E402
from equipoise.generate.rewriting import REQUEST, rewriter, writer  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2, tiny and random, in the files of a real one."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    path = tmp_path_factory.mktemp("gpt2")
    words = [*dict.fromkeys((REQUEST + "a nurse at the market in the morning").split()), "<|end|>", "<|unknown|>"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<|unknown|>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokens = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|end|>", unk_token="<|unknown|>", pad_token="<|end|>"
    )
    end = words.index("<|end|>")
    config = transformers.GPT2Config(
        vocab_size=len(words), n_positions=300, n_embd=16, n_layer=1, n_head=2, bos_token_id=end, eos_token_id=end
    )
    torch.manual_seed(0)
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    tokens.save_pretrained(path)
    return path


def test_a_local_model_writes_by_seed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "NEW_TOKENS", 12)
    write = writer(f"hf:{folder}")
    first, again, other = (write(REQUEST + "a nurse", 0.63, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first.split()) <= 12, "the answer without the request"
    made = rewriter(write, least=5)("a nurse", [], 3)
    assert len(made) >= 5


def test_what_is_no_language_model_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="run: hf download nobody/nothing"):
        writer("hf:nobody/nothing")
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(InputError, match="tokenizer is missing"):
        writer(f"hf:{tmp_path}")
    with pytest.raises(InputError, match="must be api:<url>#<model> or hf:"):
        writer("gpt2")
