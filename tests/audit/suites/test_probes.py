"""Probes of captions and images: what was planted is found, what was not is not, and bad input is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from tests.examples import examples

from equipoise.audit.suites._probes import _auc_of, caption_probe, image_probes, neutral_texts, stored_features
from equipoise.errors import InputError
from equipoise.measure.groups import Groups
from equipoise.text import Lexicon

THINGS = ["dog", "bench", "street", "table", "pizza", "car", "tree", "hat", "ball", "phone"]


def captions(n: int, tell: float, seed: int = 0) -> tuple[list[str], Groups]:
    """Captions of random things; with probability ``tell`` one names the thing of the group."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    texts = []
    for label in labels:
        own = "skateboard" if label else "umbrella"
        other = rng.choice(["skateboard", "umbrella"])
        things = rng.choice(THINGS, 3, replace=False)
        texts.append(f"a person with a {own if rng.random() < tell else other} and a {' '.join(things)}")
    return texts, Groups(labels.astype(np.int32), ("female", "male"))


@pytest.mark.slow
def test_a_planted_word_is_found_and_named():
    texts, groups = captions(400, 0.6)
    found = caption_probe(texts, groups, permutations=49)
    # the word is right with 0.6 + 0.4 / 2 = 0.8: the best AUC there is
    assert found.auc.ci_low <= 0.8 <= found.auc.ci_high
    assert found.auc.p_value == pytest.approx(0.02)
    assert found.telling["male"][0] == "skateboard"
    assert found.telling["female"][0] == "umbrella"
    assert found.auc.n == 400


@pytest.mark.slow
def test_captions_that_tell_nothing_are_at_chance():
    values, p_values, inside = [], [], 0
    for seed in range(8):
        texts, groups = captions(100, 0.0, seed)
        auc = caption_probe(texts, groups, permutations=9, seed=seed).auc
        values.append(auc.excess)
        p_values.append(auc.p_value)
        inside += auc.ci_low <= 0.5 <= auc.ci_high
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(8)
    assert np.mean(np.array(p_values) <= 0.1) < 0.45
    assert inside >= 6


def test_three_groups_are_told_one_against_the_rest():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    texts = [f"a {['red', 'green', 'blue'][label]} {rng.choice(THINGS)}" for label in labels]
    groups = Groups(labels.astype(np.int32), ("a", "b", "c"))
    found = caption_probe(texts, groups, permutations=0)
    assert found.auc.value == pytest.approx(1)
    assert found.auc.p_value is None
    assert [words[0] for words in found.telling.values()] == ["red", "green", "blue"]
    assert "made no error" in found.auc.row()["notes"]


@settings(deadline=None, max_examples=examples(25))
@given(st.integers(0, 10_000))
def test_the_area_is_the_one_of_scikit_learn(seed):
    """One fold at a time, weighted by its pairs."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    features, labels = rng.normal(size=(40, 3)), np.array([0, 1] * 20)
    order = rng.permutation(40)
    splits = [(order[20:], order[:20]), (order[:20], order[20:])]
    value, influence = _auc_of(features, labels, splits, 1.0)
    total = pairs = 0.0
    for train, test in splits:
        if len(set(labels[test])) < 2:
            continue
        model = LogisticRegression(class_weight="balanced", max_iter=200).fit(features[train], labels[train])
        weight = (labels[test] == 0).sum() * (labels[test] == 1).sum()
        total += weight * roc_auc_score(labels[test], model.predict_proba(features[test])[:, 1])
        pairs += weight
    assert value == pytest.approx(total / pairs, abs=1e-9)
    assert influence.sum() == pytest.approx(0, abs=1e-9)


def test_copies_are_remembered_unless_they_are_named():
    rng = np.random.default_rng(1)
    base = [" ".join(f"w{i}" for i in rng.choice(400, 8, replace=False)) for _ in range(80)]
    labels = np.repeat(rng.integers(0, 2, 80), 4)
    groups = Groups(labels.astype(np.int32), ("a", "b"))
    texts = [text for text in base for _ in range(4)]
    assert caption_probe(texts, groups, permutations=0).auc.value > 0.9
    found = caption_probe(texts, groups, clusters=np.repeat(np.arange(80), 4), permutations=0).auc
    assert found.value < 0.65
    assert found.ci_high - found.ci_low > 0.15  # 80 texts, not 320
    with pytest.raises(InputError, match="one key per image"):
        caption_probe(texts, groups, clusters=[1, 2])
    with pytest.raises(InputError, match="all images are of one"):
        caption_probe(texts, groups, clusters=[1] * 320)


def test_neutral_texts_say_nothing_of_the_group():
    words = Lexicon.load("equipoise")
    texts = neutral_texts([["A woman and her dog", "She runs"], ["The man's hat"]], words)
    assert texts == ["a person and their dog they runs", "the person's hat"]
    assert words.label_all(texts) == [None, None]


def test_undefined_and_lone_groups_are_left_out_and_counted():
    groups = Groups.from_values(["a"] * 10 + ["b"] * 10 + ["c"] + [None] * 3)
    texts = ["red car"] * 10 + ["blue car"] * 10 + ["car"] * 4
    auc = caption_probe(texts, groups, permutations=0).auc
    assert auc.n == 20
    assert auc.dropped == {"undefined group": 3, "group 'c' has fewer than 2": 1}


@pytest.mark.parametrize(
    ("texts", "labels", "sentence"),
    [
        (["a"], ["x", "y"], "1 texts for 2 labels"),
        (["red car"] * 3, ["x", "x", "y"], "two groups with two images or more"),
        (["", "", "", ""], ["x", "x", "y", "y"], "no word is in two captions"),
    ],
)
def test_bad_captions_are_told(texts, labels, sentence):
    with pytest.raises(InputError, match=sentence):
        caption_probe(texts, Groups.from_values(labels))


def test_masked_images_against_their_control():
    rng = np.random.default_rng(3)
    groups = Groups(np.tile([0, 1], 150).astype(np.int32), ("a", "b"))
    noise = rng.normal(size=(300, 6))
    background = noise + 0.5 * groups.labels[:, None] * np.eye(6)[0]
    whole = background + 3.0 * groups.labels[:, None] * np.eye(6)[1]
    found = image_probes(groups, masked=background, unmasked=whole, permutations=49)
    # two normal clouds d apart: AUC = Phi(d / sqrt 2)
    assert found.masked.auc.ci_low <= 0.638 <= found.masked.auc.ci_high
    assert found.masked.auc.p_value == pytest.approx(0.02)
    assert found.unmasked.auc.ci_low <= 0.984 <= found.unmasked.auc.ci_high
    assert found.person_adds.value == pytest.approx(
        found.unmasked.balanced_accuracy.value - found.masked.balanced_accuracy.value
    )
    assert found.person_adds.ci_low > 0.2


def test_images_that_tell_nothing_and_the_same_features_twice():
    rng = np.random.default_rng(4)
    groups = Groups(np.tile([0, 1], 100).astype(np.int32), ("a", "b"))
    features = rng.normal(size=(200, 5))
    found = image_probes(groups, masked=features, unmasked=features, permutations=49)
    assert found.person_adds.value == 0
    assert found.masked.auc.p_value > 0.02
    assert found.masked.auc.ci_low < 0.5 < found.masked.auc.ci_high + 0.05
    assert image_probes(groups, masked=features, permutations=0).unmasked is None


def test_near_duplicates_must_be_named_as_clusters():
    rng = np.random.default_rng(5)
    base = rng.normal(size=(60, 40))
    features = np.repeat(base, 4, axis=0) + 0.01 * rng.normal(size=(240, 40))
    labels = np.repeat(rng.permutation([0, 1] * 30), 4)
    groups = Groups(labels.astype(np.int32), ("a", "b"))
    remembered = image_probes(groups, masked=features, permutations=0).masked.auc.value
    read = image_probes(groups, masked=features, clusters=np.repeat(np.arange(60), 4), permutations=0).masked.auc.value
    assert remembered > 0.85  # the same image is in training and test
    assert read < 0.7


def test_stored_features_come_in_the_order_asked_for(embeddings_table):
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    table = embeddings_table("clip", ["x", "y", "z"], vectors)
    assert stored_features(table.path, ["z", "x"]).tolist() == [[4, 5], [0, 1]]
    with pytest.raises(InputError, match="lacks 1 of 2 image ids, for example 'w'"):
        stored_features(table.path, ["x", "w"])


def test_images_need_features():
    with pytest.raises(InputError, match="masked images, of unmasked images, or both"):
        image_probes(Groups.from_values(["a", "b"]))
    with pytest.raises(InputError, match="row 1"):
        image_probes(Groups.from_values(["a", "b"] * 2), masked=[[0.0], [np.nan], [1.0], [2.0]])
