"""The parts of a synthesis: mask counts, places, both filters, the mixes, and the filler without a model."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.errors import InputError
from equipoise.mitigate.libra.classifier import CrossFittedClassifier
from equipoise.mitigate.libra.masking import content_spans, filled, with_masks
from equipoise.mitigate.libra.neighbours import NeighbourFiller, synonyms_by
from equipoise.mitigate.libra.pairs import KINDS, MIXES, CaptionPair, mix_of, mixed, sizes
from equipoise.mitigate.libra.synthesis import is_authentic, is_misread, tells_more
from equipoise.text import Lexicon
from equipoise.text.english.hiding import mask_count


def test_mask_counts_round_half_up_and_are_never_zero():
    assert [mask_count(n, 0.2) for n in (7, 8, 10, 12, 13)] == [1, 2, 2, 2, 3]
    assert [mask_count(n, 0.15) for n in (1, 5, 9, 10, 30, 50)] == [1, 1, 1, 2, 5, 8]


def test_only_content_words_are_masked_and_never_the_period_or_a_group_word():
    words = Lexicon.load("equipoise")
    text = "A young man is riding his t-shirt-coloured bike near two women ."
    spans = content_spans(text, words)
    assert [text[a:b] for a, b in spans] == ["young", "riding", "t-shirt-coloured", "bike"]
    hidden, taken = with_masks(text, spans, 0.5, "[MASK]", seed=3)
    assert hidden.count("[MASK]") == len(taken) == 2
    assert set(taken) <= set(spans)
    assert hidden.endswith(" .")
    draws = {with_masks(text, spans, 0.15, "[MASK]", seed=seed)[1] for seed in range(40)}
    assert draws == {(span,) for span in spans}


def test_a_filled_word_is_written_as_the_old_one_and_its_article_follows():
    assert filled("A apple", [(2, 7)], ["pear"]) == "A pear"
    assert filled("An apple and a bat", [(3, 8), (15, 18)], ["pear", "egg"]) == "A pear and an egg"
    assert filled("Dogs bark", [(0, 4)], ["cats"]) == "Cats bark"


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_both_filters_agree_with_counting_by_hand(data):
    n, groups = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    before, after = rng.dirichlet(np.ones(groups), n), rng.dirichlet(np.ones(groups), n)
    own, margin = rng.integers(0, groups, n), data.draw(st.sampled_from([-1.0, 0.0, 0.2, 0.5]))
    for i in range(n):
        best = max(range(groups), key=lambda g: (after[i, g], -g))
        more = best == own[i] and after[i, own[i]] - before[i, own[i]] > margin
        assert tells_more(before, after, own, margin)[i] == more
        assert is_misread(after, own)[i] == (best != own[i])
        assert is_authentic(after[:, 0], 0.3)[i] == (after[i, 0] > 0.3)
    assert not (tells_more(before, after, own, margin) & is_misread(after, own)).any()


def _brute_sizes(found, shares, most):
    best = [0, 0, 0]
    for unit in range(max(found) + 1):
        tried = [unit * share for share in shares]
        if all(a <= b for a, b in zip(tried, found, strict=True)) and (most is None or sum(tried) <= most):
            best = tried
    return best


@pytest.mark.parametrize("mix", [*MIXES, "3:0:2"])
def test_the_mixes_are_the_largest_that_keep_their_shares(mix):
    for found in product((0, 1, 4, 9), repeat=3):
        for most in (None, 5, 12):
            assert sizes(found, mix_of(mix), most) == _brute_sizes(found, mix_of(mix), most)


def test_the_papers_counts_are_reached_where_there_are_enough():
    plenty = [10**6] * 3
    assert sizes(plenty, mix_of("1:1:0"), MIXES["1:1:0"]) == [28_642, 28_642, 0]
    assert sizes(plenty, mix_of("0:1:1"), MIXES["0:1:1"]) == [0, 57_284, 57_284]
    assert sizes(plenty, mix_of("1:2:1"), MIXES["1:2:1"]) == [28_642, 57_284, 28_642]


def test_a_mix_draws_by_the_seed_and_keeps_the_order():
    pairs = [CaptionPair(str(i), f"b{i}", f"o{i}", KINDS[i % 3], "a", "b", 0.5, 0.5, None) for i in range(30)]
    taken = mixed(pairs, "1:2:1", seed=1)
    assert [sum(p.kind == kind for p in taken) for kind in KINDS] == [5, 10, 5]
    assert taken == [pair for pair in pairs if pair in taken]
    assert taken != mixed(pairs, "1:2:1", seed=2)
    assert len(mixed(pairs, "1:2:1", count=7, seed=1)) == 4
    assert set(mixed(pairs[::-1], "1:2:1", seed=1)) == set(taken)
    for bad in ("1:1", "0:0:0", "a:b:c", "-1:1:1"):
        with pytest.raises(InputError, match="such as 0:1:1"):
            mix_of(bad)


def test_words_between_the_same_neighbours_are_drawn_as_often_as_they_stand_there():
    filler = NeighbourFiller(["a cat runs"] * 3 + ["a dog runs", "the sun shines"])
    assert filler.fill(["A [MASK] runs"], top=2) == [[("cat", 0.75), ("dog", 0.25)]]
    drawn = [filler.sample(["a [MASK] runs"], seed=seed)[0][0] for seed in range(400)]
    assert drawn.count("cat") / 400 == pytest.approx(0.75, abs=0.08)
    assert {filler.sample(["a [MASK] runs"], seed=seed, top_k=1)[0][0] for seed in range(20)} == {"cat"}
    assert filler.sample(["the [MASK] [MASK]"])[0][0] == "sun"
    texts = ["a [MASK] runs", "the [MASK] shines"]
    assert filler.sample(texts, seed=5) == [filler.sample([text], seed=5)[0] for text in texts]
    with pytest.raises(InputError, match=re.escape("does not hold [MASK]")):
        filler.sample(["a cat runs"])


def test_no_caption_is_judged_by_a_model_that_saw_its_image():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    images = [str(i // 2) for i in range(200)]
    # each image has a word of its own, which tells its label to whoever was trained on it
    tokens = [[f"word{image}", "same"] for image in images]
    labels = labels[[2 * (i // 2) for i in range(200)]]
    made = CrossFittedClassifier.fitted(tokens, labels, images, folds=5, seed=0)
    assert all(len({int(made.fold[i]) for i in (2 * k, 2 * k + 1)}) == 1 for k in range(100))
    seen = made.models[0].probabilities(made.table.counts[made.fold != 0])
    assert (seen.argmax(axis=1) == labels[made.fold != 0]).mean() > 0.9
    assert np.allclose(made.probabilities(), 0.5, atol=0.05)
    again = made.probabilities_of(tokens, range(200))
    assert np.allclose(again, made.probabilities())


def test_synonyms_are_refused_by_wordnet_or_said_not_to_be():
    try:
        from nltk.corpus import wordnet

        wordnet.ensure_loaded()
    except (ModuleNotFoundError, LookupError):
        assert synonyms_by("auto")[1] == "none"
        with pytest.raises(InputError, match="needs nltk with WordNet"):
            synonyms_by("wordnet")
    else:
        assert "automobile" in synonyms_by("wordnet")[0]("car")


def test_any_classifier_is_cross_fitted_as_the_linear_one_is():
    """By ``fast`` both ways give the same probabilities: the same folds, the same balance, the same captions."""
    from equipoise.mitigate.libra.classifier import CrossFittedClassifier, CrossFittedReader
    from equipoise.models.caption_classifiers import classifier

    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    tokens = [["a", ("dog", "cat")[label if rng.random() < 0.8 else 1 - label], "runs"] for label in labels]
    images = [str(i // 2) for i in range(80)]
    one = CrossFittedClassifier.fitted(tokens, labels, images, folds=4, seed=1)
    other = CrossFittedReader.fitted(classifier("fast"), tokens, labels, images, folds=4, seed=1)
    np.testing.assert_allclose(one.probabilities(), other.probabilities(), atol=1e-6)
    new = [["a", "cat"], ["a", "dog"]]
    np.testing.assert_allclose(one.probabilities_of(new, [3, 60]), other.probabilities_of(new, [3, 60]), atol=1e-6)
