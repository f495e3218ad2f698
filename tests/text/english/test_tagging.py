"""The tagger finds the content words of captions."""

import csv
import sys
import time
from pathlib import Path

import pytest

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.english import tagging
from equipoise.text.english.stemming import stem
from equipoise.text.english.tagging import (
    TAGS,
    ContentWord,
    content_vocabulary,
    is_function_word,
    tag_tokens,
)
from equipoise.text.english.verb_forms import verb_forms

HAND_TAGGED = Path(__file__).with_name("tagged_captions.tsv")


@pytest.fixture(scope="module")
def captions():
    found = {}
    with HAND_TAGGED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found.setdefault(row["caption"], []).append((row["word"], row["tag"]))
    return list(found.values())


def test_the_hand_tagged_words_are_a_thousand(captions):
    words = [pair for caption in captions for pair in caption]
    assert len(words) == 1000
    assert {tag for _, tag in words} == set(TAGS)


def test_the_rules_are_right_for_98_in_100_words(captions):
    right = {tag: [0, 0] for tag in TAGS}
    for caption in captions:
        found = tag_tokens([word for word, _ in caption])
        for (_, wanted), got in zip(caption, found, strict=True):
            right[wanted][0] += wanted == got
            right[wanted][1] += 1
    assert sum(hits for hits, _ in right.values()) >= 980
    for tag, (hits, n) in right.items():
        assert hits / n >= 0.9, tag


@pytest.mark.parametrize(
    ("caption", "wanted"),
    [
        ("a parked car", "function adjective noun"),
        ("a car parked there", "function noun verb adverb"),
        ("a man rides a horse", "function noun verb function noun"),
        ("a long ride", "function adjective noun"),
        ("there is a dog", "function function function noun"),
        ("an orange on a plate", "function noun function function noun"),
        ("an orange cat", "function adjective noun"),
        ("people outside", "noun adverb"),
        ("people outside a shop", "noun function function noun"),
        ("the living room", "function noun noun"),
        ("a bigger dog", "function adjective noun"),
        ("a farmer", "function noun"),
        ("12 dogs", "function noun"),
        ("a half-eaten t-shirt", "function adjective noun"),
        ("men ride and jump", "noun verb function verb"),
    ],
)
def test_neighbours_decide(caption, wanted):
    assert tag_tokens(caption.split()) == wanted.split()


def test_capital_letters_do_not_matter():
    assert tag_tokens(["A", "Dog", "RUNS"]) == tag_tokens(["a", "dog", "runs"])


def test_no_words_no_tags():
    assert tag_tokens([]) == []


def test_the_vocabulary_counts_tokens_among_the_most_common_words():
    captions = ["A dog and a dog.", "a cat", ["the", "cat", "sleeps"]]
    assert content_vocabulary(captions) == [
        ContentWord("cat", "noun", 2),
        ContentWord("dog", "noun", 2),
        ContentWord("sleeps", "verb", 1),
    ]
    # "a" takes one of the two places, as it is a common word although no content word.
    assert content_vocabulary(captions, top=2) == [ContentWord("cat", "noun", 2)]


def test_a_word_is_a_content_word_when_most_of_its_uses_are():
    inside = ["people inside", "a dog inside a house", "a cat inside a box"]
    assert "inside" not in [found.word for found in content_vocabulary(inside)]
    assert "inside" in [found.word for found in content_vocabulary([*inside, "dogs inside", "cats inside"])]


@pytest.mark.slow
def test_a_hundred_thousand_captions_take_seconds(captions):
    texts = [" ".join(word for word, _ in caption) for caption in captions]
    many = [texts[i % len(texts)] for i in range(20_000)]
    start = time.process_time()
    content_vocabulary(many)
    assert (time.process_time() - start) * 5 < 20


def test_what_cannot_be_had_is_refused_in_a_sentence():
    with pytest.raises(UnknownNameError, match="there is no tagger named 'spaci'; did you mean 'spacy'"):
        tag_tokens(["a"], tagger="spaci")
    with pytest.raises(InputError, match="top = 0"):
        content_vocabulary(["a dog"], top=0)


def test_spacy_is_used_by_name():
    spacy = pytest.importorskip("spacy")
    if not spacy.util.is_package(tagging.SPACY_MODEL):
        pytest.skip(f"the model {tagging.SPACY_MODEL} is not installed")
    found = tag_tokens("a small dog runs quickly".split(), tagger="spacy")
    assert found == ["function", "adjective", "noun", "verb", "adverb"]


def test_the_absence_of_spacy_is_told(monkeypatch):
    tagging._spacy.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match="pip install spacy, or use 'rules'"):
        tag_tokens(["a"], tagger="spacy")


def test_function_words_are_closed_classes():
    assert all(map(is_function_word, "a the of and with she is 2 's n't".split()))
    assert not any(map(is_function_word, "dog run red quickly".split()))


@pytest.mark.parametrize(
    ("base", "forms"),
    [
        ("carry", "carries carried carrying"),
        ("tie", "ties tied tying"),
        ("watch", "watches watched watching"),
        ("stop", "stops stopped stopping"),
        ("see", "sees saw seen seeing"),
        ("play", "plays played playing"),
    ],
)
def test_forms_of_verbs(base, forms):
    assert set(verb_forms(base)) == {base, *forms.split()}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        # Porter's own examples
        ("caresses ponies ties caress cats", "caress poni ti caress cat"),
        ("feed agreed plastered bled motoring sing", "feed agre plaster bled motor sing"),
        ("conflated troubled sized hopping tanned falling", "conflat troubl size hop tan fall"),
        ("hissing fizzed failing filing happy sky", "hiss fizz fail file happi sky"),
        ("relational conditional valenci digitizer conformabli", "relat condit valenc digit conform"),
        ("radicalli vietnamization predication operator feudalism", "radic vietnam predic oper feudal"),
        ("decisiveness hopefulness formaliti sensitiviti sensibiliti", "decis hope formal sensit sensibl"),
        ("triplicate formative formalize electrical goodness", "triplic form formal electr good"),
        ("revival allowance inference airliner adjustable", "reviv allow infer airlin adjust"),
        ("replacement adjustment adoption homologous effective", "replac adjust adopt homolog effect"),
        ("probate rate cease controll roll", "probat rate ceas control roll"),
        ("a is t-shirt 12 café", "a is t-shirt 12 café"),
    ],
)
def test_stems(words, wanted):
    assert [stem(word) for word in words.split()] == wanted.split()
