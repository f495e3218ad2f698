"""A synthesis on captions whose bias is known: pairs differ where they should, and only there."""

import json
import random
import re

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data.runs import find_run
from equipoise.errors import InputError
from equipoise.mitigate.libra import SynthesisSettings, synthesise, synthesise_into
from equipoise.mitigate.libra.synthesis import named_captions
from equipoise.text import Lexicon

SKIRTS, TOOLS = ("flower", "dress", "kitchen", "kite"), ("drill", "truck", "garage", "ball")


def _captions(n=600, seed=0, nouns=("woman", "man")):
    """Captions whose object tells the group in four of five."""
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        group = rng.randrange(2)
        usual, other = (SKIRTS, TOOLS)[:: 1 if group == 0 else -1]
        thing = rng.choice(usual if rng.random() < 0.8 else other)
        texts.append(
            f"A {rng.choice(['tall', 'happy'])} {nouns[group]} sees a {thing} near the {rng.choice(['wall', 'park'])}."
        )
    return texts, [str(i) for i in range(n)]


def _words(text):
    return re.findall(r"[\w-]+|[^\w\s]", text)


@pytest.fixture(scope="module")
def made():
    texts, images = _captions()
    return synthesise(texts, images, SynthesisSettings(mix="1:1:1"))


def test_every_pair_differs_where_it_should_and_only_there(made):
    lexicon = Lexicon.load("equipoise")
    assert {pair.kind for pair in made.found} == {"swap", "fill", "merged"}
    for pair in made.found:
        old, new = _words(pair.original), _words(pair.biased)
        assert len(old) == len(new)
        changed = [(a.lower(), b.lower()) for a, b in zip(old, new, strict=True) if a != b]
        named = [(a, b) for a, b in changed if lexicon.label(a)]
        articles = [(a, b) for a, b in changed if {a, b} == {"a", "an"}]
        others = [one for one in changed if one not in named and one not in articles]
        assert bool(named) == (pair.kind in ("swap", "merged"))
        assert sorted(others) == sorted(pair.replaced)
        assert bool(pair.replaced) == (pair.kind in ("fill", "merged"))
        assert lexicon.label(pair.original) == pair.group
        assert lexicon.label(pair.biased) == pair.says
        assert (pair.says == pair.group) == (pair.kind == "fill")


def test_every_pair_passed_its_filters(made):
    for pair in made.found:
        if pair.kind == "swap":
            assert pair.p_before < 0.5
            assert pair.p_authentic is None
        else:
            assert pair.p_authentic > 0.3
        if pair.kind == "fill":
            assert pair.p_after > 0.5
            assert pair.p_after - pair.p_before > 0.2
        if pair.kind == "merged":
            assert pair.p_after < 0.5


def test_fills_make_stereotypes_and_swaps_follow_them(made):
    usual = {"female": SKIRTS, "male": TOOLS}
    for pair in made.found:
        assert any(thing in pair.biased for thing in usual[pair.says])
    assert made.counts["classifier"]["balanced_accuracy"] == pytest.approx(0.8, abs=0.06)
    taken = made.counts["taken"]
    assert len(set(taken.values())) == 1
    assert taken["swap"] == min(made.counts["found"].values())


def test_another_seed_makes_another_synthesis(made):
    texts, images = _captions()
    assert synthesise(texts, images, SynthesisSettings(mix="1:1:1", seed=1)).pairs != made.pairs


def test_nothing_is_half_swapped_and_what_cannot_be_is_counted():
    texts, images = _captions()
    extra = ["A guy riding his bike sees a dress near the wall", "A pregnant woman sees a truck near her drill"]
    found = synthesise(texts + extra, [*images, "x", "y"], SynthesisSettings(lexicon="libra", mix="1:0:0"))
    biased = {pair.biased for pair in found.pairs}
    assert "A gal riding her bike sees a dress near the wall" in biased
    assert not any("pregnant man" in text or "guy riding her" in text for text in biased)
    assert found.counts["refused"]["a word has no counterpart"] == 1


def test_any_axis_with_more_than_two_groups():
    rng = random.Random(1)
    things = {"Black": "drum", "Asian": "fan", "White": "hat"}
    texts = []
    for _ in range(600):
        group = rng.choice(list(things))
        thing = things[group] if rng.random() < 0.8 else rng.choice(list(things.values()))
        texts.append(f"An {group} person" if group == "Asian" else f"A {group} person")
        texts[-1] += f" holds a {thing} outside"
    made = synthesise(texts, [str(i) for i in range(600)], SynthesisSettings(lexicon="race", mix="1:0:0"))
    assert set(made.counts["named"]) == set(things)
    assert made.pairs
    assert all(things[pair.says] in pair.biased and pair.says != pair.group for pair in made.pairs)
    assert made.counts["classifier"]["chance"] == pytest.approx(1 / 3)


def test_bad_input_is_one_sentence(tmp_path):
    words = Lexicon.load("equipoise")
    with pytest.raises(InputError, match="none of the 2 captions has a word of exactly one group"):
        named_captions(["a dog", "a man and a woman"], ["1", "2"], words)
    with pytest.raises(InputError, match="20 of each at least; 1 name"):
        named_captions(["a man", " "], ["1", "2"], words)
    lonely = tmp_path / "lonely.toml"
    lonely.write_text(
        'id = "lonely"\naxis = "mood"\ngroups = ["glad", "sad"]\nsource = "a test"\n'
        'rows = [{ glad = "happy", neutral = "calm" }, { sad = "gloomy", neutral = "calm" }]\n'
    )
    with pytest.raises(InputError, match="has no pairs"):
        named_captions(["a happy dog"], ["1"], Lexicon.load(lonely))
    texts, images = _captions(100)
    with pytest.raises(InputError, match=r"no pairs in the mix 0:1:0"):
        synthesise_into(tmp_path / "none", texts, images, SynthesisSettings(mix="0:1:0", margin=0.99))
    assert not (tmp_path / "none").exists()
    empty = named_captions([*texts, ""], [*images, "e"], words)
    assert empty.left_out == {"empty": 1}


def test_the_folder_holds_the_pairs_the_same_again_and_how_many_there_were(tmp_path, made):
    texts, images = _captions()
    synthesise_into(tmp_path / "pairs", texts, images, SynthesisSettings(mix="1:1:1"), source="here")
    rows = [json.loads(line) for line in (tmp_path / "pairs" / "pairs.jsonl").read_text().splitlines()]
    assert [row["biased"] for row in rows] == [pair.biased for pair in made.pairs]
    assert set(rows[0]) >= {"image_id", "biased", "original", "kind", "p_before", "p_after", "p_authentic"}
    run = find_run(tmp_path / "pairs")
    assert (run.kind, run.finished, run.settings["margin"]) == ("pairs", True, 0.2)
    assert run.about["counts"]["taken"] == made.counts["taken"]


def test_the_command_makes_pairs_and_says_what_it_left_out(tmp_path):
    texts, images = _captions(300)
    rows = [{"image_id": image, "caption": text} for image, text in zip(images, texts, strict=True)]
    rows += [{"image_id": "x", "caption": "A dog."}, {"image_id": "y", "caption": ""}]
    source, out = tmp_path / "captions.jsonl", tmp_path / "pairs"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = CliRunner().invoke(
        app, ["libra", "synthesise", str(source), "-o", str(out), "--mix", "1:0:0", "--count", "9"]
    )
    assert run.exit_code == 0, run.output
    assert "9 taken" in run.output
    assert "left out: 1 no group word, 1 empty" in run.output
    assert len((out / "pairs.jsonl").read_text().splitlines()) == 9
    dry = CliRunner().invoke(app, ["libra", "synthesise", str(source), "--dry-run"])
    assert "300 of 302 captions name one group" in dry.output
    assert "at most 1,200 captions" in dry.output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["libra", "synthesise", "c.jsonl"], "say where to keep the pairs"),
        (["libra", "synthesise", "c.jsonl", "-o", "p", "--set", "mix=1:1:0"], "say it with --mix"),
        (["libra", "synthesise", "c.jsonl", "-o", "p", "--set", "marginn=1"], "did you mean 'margin'"),
        (["libra", "synthesise", "c.jsonl", "-o", "p", "--set", "margin=2"], "margin = 2"),
        (["libra", "synthesise", "none.jsonl", "-o", "p"], "no such file"),
        (["mitigate", "libra", "synthesise"], "equipoise libra synthesise CAPTIONS -o DIR"),
    ],
)
def test_a_wrong_command_is_told_in_one_sentence(words, sentence):
    error = CliRunner().invoke(app, words).exception
    assert isinstance(error, InputError)
    assert sentence in str(error)


class _Worst:
    """A filler that always offers words that may not be taken."""

    mask = "[MASK]"

    def __init__(self, word):
        self.word = word

    def sample(self, texts, *, temperature, top_k, seed):
        return [[self.word] * text.count(self.mask) for text in texts]


@pytest.mark.parametrize(
    ("word", "reason"), [("she", "not a content word"), ("wife", "a word of a group"), ("7", "not a content word")]
)
def test_words_that_may_not_be_taken_are_refused_and_counted(word, reason):
    texts, images = _captions(100)
    made = synthesise(texts, images, SynthesisSettings(mix="0:1:1", tries=1), filler=_Worst(word))
    assert made.found == ()
    assert made.counts["refused"] == {"no content word": 0, reason: 100}


def test_fillings_alone_are_told_as_refused():
    class HalfGood(_Worst):
        def sample(self, texts, **how):
            good, bad = _Worst("stone").sample(texts, **how), _Worst("she").sample(texts, **how)
            return good[:60] + bad[60:]

    texts, images = _captions(100)
    extra = ["A woman", "A woman", "A pregnant woman sees a truck near her drill"]  # nothing to fill, nothing to swap
    lines = []
    made = synthesise(
        texts + extra,
        [*images, "x", "y", "z"],
        SynthesisSettings(lexicon="libra", mix="1:1:1", tries=1),
        filler=HalfGood(""),
        say=lines.append,
    )
    assert made.counts["refused"]["no content word"] == 2
    assert made.counts["refused"]["a word has no counterpart"] >= 1
    assert lines[1] == "60 captions filled; 41 fillings refused"


def test_the_device_reaches_the_classifier_or_is_refused(tmp_path):
    pytest.importorskip("transformers")
    texts, images = _captions(80)
    how = SynthesisSettings(mix="1:0:0")
    with pytest.raises(
        InputError, match=r"neither the filler \(captions\) nor the classifier \(fast\) runs on a device"
    ):
        synthesise_into(tmp_path / "fast", texts, images, how, device="cpu")
    bert = how.having({"classifier": "bert-frozen:mini:text"})
    with pytest.raises(InputError, match="device 'nowhere' cannot be used"):
        synthesise_into(tmp_path / "bert", texts, images, bert, device="nowhere")
