"""T5 as a filler: a word for each mask, by the text and the seed alone."""

import json
import shutil

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.errors import InputError  # noqa: E402
from equipoise.models import load  # noqa: E402
from equipoise.models.miniatures import FOLDER  # noqa: E402

WORDS = "a man woman rides holds red bike kite in the park".split()


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    from transformers import T5Config, T5ForConditionalGeneration, T5Tokenizer

    home = tmp_path_factory.mktemp("t5")
    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((f"▁{word}", -1.0) for word in WORDS)]
    words = T5Tokenizer(vocab=vocab)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(words), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    T5ForConditionalGeneration(config).save_pretrained(home)
    words.save_pretrained(home)
    return load(f"hf:{home}", kind="filler", device="cpu")


def test_a_word_or_nothing_for_every_mask_by_text_and_seed(t5):
    texts = ["a <mask> rides a <mask>", "a woman in the <mask>", "<mask>"]
    together = t5.sample(texts, seed=1)
    assert [len(row) for row in together] == [2, 1, 1]
    assert together == [t5.sample([text], seed=1)[0] for text in texts]
    draws = {tuple(t5.sample([texts[0]], seed=seed)[0]) for seed in range(8)}
    assert len(draws) > 1
    assert {word for row in draws for word in row} <= {*WORDS, ""}


def test_the_likeliest_words_come_first_with_shares_of_the_whole_vocabulary(t5):
    (row,) = t5.fill(["a man in the <mask>"], top=3)
    assert len(row) == 3
    assert all(word in WORDS for word, _ in row)
    assert [share for _, share in row] == sorted((share for _, share in row), reverse=True)


def test_what_cannot_be_filled_is_one_sentence(t5):
    with pytest.raises(InputError, match="does not hold <mask>"):
        t5.sample(["a man"])
    with pytest.raises(InputError, match="2 times; it must stand there once"):
        t5.fill(["<mask> <mask>"])


def changed_copy(folder, copy, file, change):
    """A copy of a checkpoint with something else in one of its JSON files."""
    shutil.copytree(folder, copy)
    said = json.loads((copy / file).read_text())
    change(said)
    (copy / file).write_text(json.dumps(said))
    return copy


def likelier(said):
    said["model"]["vocab"] = [[piece, score / 2] for piece, score in said["model"]["vocab"]]


def cased(said):
    said["do_lower_case"] = False


@pytest.mark.parametrize("form", ["T5", "BERT"])
def test_weights_and_how_texts_are_read_are_part_of_the_key(form, t5, tmp_path):
    """Two fillers of one vocabulary are two, where one learnt more or cuts texts into tokens otherwise."""
    from safetensors.torch import load_file, save_file

    folder = t5.checkpoint.folder if form == "T5" else FOLDER / "text"
    file, change = ("tokenizer.json", likelier) if form == "T5" else ("tokenizer_config.json", cased)
    other = changed_copy(folder, tmp_path / "other", file, change)
    same = shutil.copytree(folder, tmp_path / "same")
    taught = shutil.copytree(folder, tmp_path / "taught")
    weights = load_file(taught / "model.safetensors")
    save_file({name: value + 0.01 for name, value in weights.items()}, taught / "model.safetensors", {"format": "pt"})
    fillers = [load(f"hf:{place}", kind="filler", device="cpu") for place in (folder, same, other, taught)]
    assert fillers[0].words.get_vocab() == fillers[2].words.get_vocab()
    keys = [filler.key for filler in fillers]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_it_fills_biased_captions(t5):
    from equipoise.mitigate.libra import SynthesisSettings
    from equipoise.mitigate.libra.baselines import perturbed_pairs

    texts = [f"a {who} rides a red {what}" for who in ("man", "woman") for what in ("bike", "kite")] * 15
    pairs = perturbed_pairs(texts, [str(i) for i in range(60)], SynthesisSettings(), filler=t5)
    assert all(pair.biased.split()[1] == pair.original.split()[1] for pair in pairs), "words of a group stay"
