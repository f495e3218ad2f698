"""LIC, splits and leakage: toy anchors, plain loops, and tests that do not cry wolf."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sps
from sklearn.metrics import roc_auc_score

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.captions import (
    balanced_split,
    corrected_resampled_t,
    cross_fit_folds,
    in_points,
    leakage,
    leakage_difference,
    leakage_of_vectors,
    lic,
    lic_chance,
    lic_d,
    lic_m,
    lic_scores,
    lic_shuffled,
    matched_vectors,
    sentence_classification,
)
from equipoise.measure.groups import Groups


def labelled(*sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


# Scores


def test_the_toy_of_the_paper():
    table = [[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.45, 0.55]]
    assert lic_scores(table, [0, 0, 1, 1]).mean() == pytest.approx(0.5125)


@pytest.mark.parametrize("groups", [2, 3, 7])
def test_a_classifier_that_knows_nothing_scores_chance(groups):
    scores = lic_scores(np.full((groups * 10, groups), 1 / groups), labelled(*[10] * groups))
    assert scores.mean() == pytest.approx(lic_chance(groups)) == pytest.approx(1 / groups**2)


@given(st.integers(2, 4), st.integers(1, 30), st.integers(0, 10_000))
def test_scores_are_those_of_a_plain_loop(groups, n, seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, size=(n, groups)) + 0.5  # few levels, so that ties occur
    table = table / table.sum(axis=1, keepdims=True)
    labels = rng.integers(0, groups, size=n)
    expected, shuffled = [], []
    for row, label in zip(table.tolist(), labels.tolist(), strict=True):
        best = row.index(max(row))
        expected.append(row[label] if best == label else 0.0)
        shuffled.append(np.mean([row[best] if best == other else 0.0 for other in labels.tolist()]))
    assert lic_scores(table, labels) == pytest.approx(expected, abs=1e-9)
    assert lic_shuffled(table, labels) == pytest.approx(np.mean(shuffled), abs=1e-9)


@pytest.mark.parametrize(
    ("table", "labels", "message"),
    [
        ([[0.5, 0.6]], [0], "row 0"),
        ([[1.0, 0.0]], [2], r"labels\[0\] = 2"),
        ([[1.0]], [0], "two groups"),
        ([[0.5, 0.5]], [0.0], "integers"),
        ([[0.5, 0.5]], [0, 1], "integers"),
        ([[1.5, -0.5]], [0], "distribution"),
    ],
)
def test_bad_probabilities_are_named(table, labels, message):
    with pytest.raises(InputError, match=message):
        lic_scores(table, labels)


# Splits


@pytest.mark.parametrize(("sizes", "train", "test"), [((7466, 3314), 5966, 662), ((9873, 1096), 1972, 220)])
def test_splits_have_the_sizes_of_the_paper(sizes, train, test):
    labels = labelled(*sizes)
    split = balanced_split(labels, seed=12)
    assert (len(split.train), len(split.test)) == (train, test)
    assert np.bincount(labels[split.test]).tolist() == [test // 2] * 2
    assert np.bincount(labels[split.train]).tolist() == [train // 2] * 2
    assert not set(split.train.tolist()) & set(split.test.tolist())


def test_both_sides_get_the_same_images_whatever_the_order_of_their_rows():
    rng = np.random.default_rng(3)
    ids, labels = np.arange(1000, 1300), labelled(200, 100)
    order = rng.permutation(300)
    here = balanced_split(labels, 5, ids=ids.tolist())
    there = balanced_split(Groups(labels[order], ("m", "f")), 5, ids=[str(i) for i in ids[order]])
    assert ids[here.test].tolist() == ids[order][there.test].tolist()
    assert ids[here.train].tolist() == ids[order][there.train].tolist()
    other = balanced_split(labels, 6, ids=ids.tolist())
    assert set(here.test.tolist()) != set(other.test.tolist())


def test_the_draw_is_even():
    # every image of the large group is drawn about as often, and tested about as often
    labels, drawn, tested = labelled(60, 30), np.zeros(90), np.zeros(90)
    for seed in range(2000):
        split = balanced_split(labels, seed)
        drawn[split.train] += 1
        tested[split.test] += 1
    drawn += tested
    assert sps.chisquare(drawn[:60]).pvalue > 0.001
    assert sps.chisquare(tested[60:]).pvalue > 0.001
    assert (drawn[60:] == 2000).all()


def test_folds_test_every_balanced_image_once():
    labels = np.array([0] * 57 + [1] * 43 + [2] * 41 + [-1] * 10)
    folds = cross_fit_folds(labels, 10, seed=3)
    tested = np.concatenate([fold.test for fold in folds])
    assert len(tested) == len(set(tested.tolist())) == 3 * 41
    assert np.bincount(labels[tested]).tolist() == [41, 41, 41]
    whole = balanced_split(labels, 3)
    assert set(tested.tolist()) == set(whole.train.tolist()) | set(whole.test.tolist())
    for fold in folds:
        assert set(fold.train.tolist()) | set(fold.test.tolist()) == set(tested.tolist())
        assert not set(fold.train.tolist()) & set(fold.test.tolist())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: balanced_split(["m"] * 50 + ["f"] * 3, 0), "'f' has too few captions to split: 3, need 20"),
        (lambda: balanced_split(["m"] * 50, 0), "two groups"),
        (lambda: balanced_split(["m"] * 50 + ["f"] * 50, 0, share=1.0), "share = 1.0"),
        (lambda: balanced_split(["m"] * 50 + ["f"] * 50, 0, ids=[7] * 100), "'7' twice"),
        (lambda: balanced_split(["m"] * 50 + ["f"] * 50, 0, ids=[7]), "100 items"),
        (lambda: cross_fit_folds(["m"] * 50 + ["f"] * 20, 21), "folds = 21"),
        (lambda: cross_fit_folds(["m"] * 50 + ["f"] * 20, 1), "folds"),
    ],
)
def test_what_cannot_be_split_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


# Summaries over splits


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12), st.floats(0.05, 0.5))
def test_the_corrected_t_is_the_formula(values, share):
    made = corrected_resampled_t(values, test_share=share, null_value=0.25)
    n, mean, sd = len(values), np.mean(values), np.std(values, ddof=1)
    error = np.sqrt((1 / n + share / (1 - share)) * sd**2)
    reach = sps.t.ppf(0.975, n - 1) * error
    assert made.value == pytest.approx(mean, abs=1e-9)
    if made.ci_low is None:  # no width is no certainty
        assert reach == pytest.approx(0, abs=1e-12)
        assert "no interval: all splits alike" in made.notes
    else:
        assert (made.ci_low, made.ci_high) == pytest.approx((mean - reach, mean + reach), abs=1e-9)
    if error > 1e-6:
        assert made.p_value == pytest.approx(sps.t.sf((mean - 0.25) / error, n - 1), abs=1e-9)


def test_one_split_has_no_interval_and_equal_splits_no_doubt():
    assert corrected_resampled_t([0.4], test_share=0.1).ci_low is None
    sure = corrected_resampled_t([0.4] * 5, test_share=0.1, null_value=0.25)
    assert sure.p_value == pytest.approx(0)
    assert corrected_resampled_t([0.25] * 5, test_share=0.1, null_value=0.25).p_value == pytest.approx(0.5)
    with pytest.raises(InputError, match="test_share"):
        corrected_resampled_t([0.4, 0.5], test_share=1.0)
    with pytest.raises(UnknownNameError):
        corrected_resampled_t([0.4, 0.5], test_share=0.1, alternative="more")


def test_lic_is_the_paired_difference():
    ours = np.array([0.44, 0.42, 0.45])
    theirs = np.array([[0.38, 0.40], [0.39, 0.37], [0.40, 0.40]])
    made = lic(ours, theirs)
    assert made.value == pytest.approx(ours.mean() - theirs.mean())
    assert made.value == pytest.approx(lic_m(ours).value - lic_d(theirs).value)
    assert made.null_mean == 0
    # what both sides share of a split's luck cancels
    luck = np.array([0.0, 0.1, -0.1])
    moved = lic(ours + luck, theirs + luck[:, None])
    assert (moved.ci_low, moved.ci_high) == pytest.approx((made.ci_low, made.ci_high))
    with pytest.raises(InputError, match="3 splits and human 2"):
        lic(ours, theirs[:2])


def test_points_are_a_hundred_times_as_large_and_p_stays():
    made = lic_m([0.44, 0.42, 0.45], n_groups=2)
    points = in_points(made)
    assert points.value == pytest.approx(100 * made.value)
    assert points.excess == pytest.approx(100 * made.excess)
    assert (points.p_value, points.n) == (made.p_value, made.n)


def test_the_corrected_t_is_not_fooled_by_overlapping_splits():
    """Labels without any relation to the score: re-drawn splits of one set must not find one."""
    rejected, naive, rounds = 0, 0, 300
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        right = rng.integers(0, 2, size=400).astype(float)  # luck of a blind classifier on the whole set
        splits = [right[rng.permutation(400)[:40]].mean() for _ in range(10)]
        rejected += corrected_resampled_t(splits, test_share=0.1, null_value=0.5).p_value < 0.05
        naive += sps.ttest_1samp(splits, 0.5, alternative="greater").pvalue < 0.05
    assert rejected <= sps.binom.ppf(0.9999, rounds, 0.05)
    assert naive > rejected


# Leakage and sentence classification


def test_leakage_weightings():
    table = [[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.45, 0.55]]
    confidence = leakage(table, [0, 0, 1, 1])
    accuracy = leakage(table, [0, 0, 1, 1], weighting="accuracy")
    assert (confidence.value, accuracy.value) == pytest.approx((0.5125, 0.75))
    assert confidence.null_mean == pytest.approx(np.mean([0.9, 0.6, 0.6, 0.55]) / 2)
    assert accuracy.null_mean == pytest.approx(0.5)
    with pytest.raises(UnknownNameError, match="weighting"):
        leakage(table, [0, 0, 1, 1], weighting="confident")


def test_leakage_p_values_are_not_too_small():
    rng = np.random.default_rng(0)
    found = []
    for seed in range(200):
        table = rng.dirichlet([0.3, 0.3, 0.3], size=60)  # overconfident and blind
        found.append(leakage(table, rng.permutation(labelled(20, 20, 20)), permutations=99, seed=seed))
    assert np.mean([one.p_value <= 0.05 for one in found]) <= sps.binom.ppf(0.9999, 200, 0.05) / 200
    assert all(abs(one.null_mean - 1 / 9) > 0.1 for one in found)  # 1 / G^2 is no chance level for such a classifier
    assert np.mean([one.excess for one in found]) == pytest.approx(0, abs=0.01)


@given(st.integers(2, 4), st.integers(0, 1000))
def test_auc_and_accuracy_are_sklearn_s(groups, seed):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(groups).repeat(2), rng.integers(0, groups, size=20)])
    table = rng.dirichlet(np.ones(groups), size=len(labels)).round(2) + 1e-9
    table = table / table.sum(axis=1, keepdims=True)
    found = sentence_classification(table, labels, permutations=9)
    if groups == 2:
        expected = roc_auc_score(labels, table[:, 1])
    else:
        expected = roc_auc_score(labels, table, multi_class="ovr", average="macro")
    assert found.auc.value == pytest.approx(expected, abs=1e-9)
    assert found.accuracy.value == pytest.approx(np.mean(table.argmax(axis=1) == labels), abs=1e-9)


def test_auc_of_three_groups_covers_and_does_not_cry_wolf():
    rng = np.random.default_rng(1)
    labels, small, covered = labelled(30, 40, 50), 0, 0
    for seed in range(150):
        found = sentence_classification(rng.dirichlet(np.ones(3), size=120), labels, permutations=99, seed=seed).auc
        small += found.p_value <= 0.05
        covered += found.ci_low <= 0.5 <= found.ci_high
    assert small <= sps.binom.ppf(0.9999, 150, 0.05)
    assert covered >= sps.binom.ppf(0.001, 150, 0.95)


def blind_reader(rng, groups, n_images=60, each=5):
    """Probabilities of captions, those of one image alike, by a classifier that knows nothing of their groups."""
    images = np.repeat(np.arange(n_images), rng.integers(each - 2, each + 3, size=n_images))
    scores = rng.normal(size=(n_images, groups))[images] + 0.3 * rng.normal(size=(len(images), groups))
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), images % groups, images.tolist()


def rates_of_a_blind_reader(groups, rounds, images_are_known):
    """How often accuracy, AUC and the difference of two such readers are called more than chance; AUC's coverage."""
    found = []
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        table, labels, images = blind_reader(rng, groups)
        known = images if images_are_known else None
        made = sentence_classification(table, labels, images=known, permutations=99, seed=seed)
        apart = leakage_difference(table, np.full(table.shape, 1 / groups), labels, images=known)
        held = made.auc.ci_low <= 0.5 <= made.auc.ci_high
        found.append([made.accuracy.p_value <= 0.05, made.auc.p_value <= 0.05, held, apart.ci_high - apart.ci_low])
    return np.mean(found, axis=0)


@pytest.mark.parametrize("groups", [2, 3])
def test_captions_of_one_image_are_not_independent(groups):
    naive, known = (rates_of_a_blind_reader(groups, 40, images_are_known) for images_are_known in (False, True))
    assert naive[1] >= 0.2
    assert (known[:2] <= sps.binom.ppf(0.999, 40, 0.05) / 40).all()
    assert known[2] >= sps.binom.ppf(0.001, 40, 0.95) / 40
    assert known[3] > 1.3 * naive[3]


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 3])
def test_readers_of_several_captions_do_not_cry_wolf(groups):
    rates = rates_of_a_blind_reader(groups, 400, images_are_known=True)
    assert (rates[:2] <= sps.binom.ppf(0.999, 400, 0.05) / 400).all()
    assert rates[2] >= sps.binom.ppf(0.001, 400, 0.93) / 400


@pytest.mark.parametrize("groups", [2, 3])
def test_one_caption_per_image_changes_nothing(groups):
    rng = np.random.default_rng(0)
    table, labels = rng.dirichlet(np.ones(groups), size=60), np.arange(60) % groups
    images = rng.permutation(60).tolist()
    plain, named = (sentence_classification(table, labels, images=ids, permutations=19) for ids in (None, images))
    assert plain == named
    assert leakage(table, labels, permutations=19) == leakage(table, labels, images=images, permutations=19)


def test_one_image_of_a_group_gives_no_interval():
    table = np.random.default_rng(0).dirichlet(np.ones(3), size=10)
    found = sentence_classification(table, labelled(2, 4, 4), images=[*"aabbccddee"], permutations=9).auc
    assert (found.ci_low, found.ci_high) == (None, None)
    assert found.notes == ("no interval: one image of a group",)


def test_captions_of_an_image_are_of_one_group():
    with pytest.raises(InputError, match="image 'a' has captions of two groups"):
        leakage(np.full((2, 2), 0.5), [0, 1], images=["a", "a"])


def test_a_missing_group_is_named():
    with pytest.raises(InputError, match="no item has label 2"):
        sentence_classification(np.full((4, 3), 1 / 3), [0, 0, 1, 1])


def test_leakage_difference_is_paired():
    rng = np.random.default_rng(0)
    labels = labelled(50, 50)
    data = np.clip(0.5 + rng.normal(0, 0.2, 100), 0.01, 0.99)
    data = np.stack([1 - data, data], axis=1)
    model = data * 0.3
    model[np.arange(100), labels] += 0.7
    made = leakage_difference(model, data, labels)
    assert made.value == pytest.approx(leakage(model, labels).value - leakage(data, labels).value)
    assert made.ci_low > 0
    assert made.p_value < 0.01


@pytest.mark.parametrize("classifier", ["logistic", "mlp"])
def test_vectors_that_leak_are_found_and_others_not(classifier):
    rng = np.random.default_rng(0)
    labels = labelled(150, 100)
    vectors = rng.integers(0, 2, size=(250, 6)).astype(float)
    blind = leakage_of_vectors(vectors, labels, classifier=classifier, seeds=(0, 1, 2))
    assert blind.estimate.p_value > 0.01
    assert blind.estimate.null_mean > lic_chance(2)
    vectors[:, 0] = np.where(rng.random(250) < 0.9, labels, 1 - labels)
    told = leakage_of_vectors(vectors, labels, classifier=classifier, weighting="accuracy", seeds=(0, 1, 2))
    assert told.estimate.value > 0.75
    assert told.estimate.p_value < 0.01
    assert len(told.values) == len(told.shuffled) == 3


def test_folds_of_vectors_and_undefined_rows():
    rng = np.random.default_rng(0)
    groups = Groups(np.array([0] * 40 + [1] * 40 + [-1] * 9), ("m", "f"))
    found = leakage_of_vectors(rng.normal(size=(89, 3)), groups, folds=4, seeds=(0,))
    assert (len(found.values), found.test_share, found.estimate.n) == (4, 0.25, 80)
    vectors = np.random.default_rng(0).normal(size=(89, 3))
    plain = leakage_of_vectors(vectors, groups.labels.tolist(), folds=4, seeds=(0,))
    assert plain.estimate == found.estimate
    with pytest.raises(InputError, match="seeds is empty"):
        leakage_of_vectors(rng.normal(size=(89, 3)), groups, seeds=())


def test_the_interval_of_leakage_stays_within_what_is_possible():
    rng = np.random.default_rng(0)
    told = rng.normal(size=(80, 2))
    told[:, 0] += np.tile([0, 5], 40)
    found = leakage_of_vectors(told, np.tile([0, 1], 40), weighting="accuracy", folds=4, seeds=(0,)).estimate
    assert found.ci_low < found.value <= found.ci_high == 1


def test_an_f1_that_cannot_be_matched_is_refused():
    truth = [[1.0, 1.0, 1.0, 0.0]]
    assert matched_vectors(truth, 2 / 3).sum() == 3
    with pytest.raises(InputError, match=r"1 zeros to set for 2 ones to drop; match an F1 of 0\.67 or more"):
        matched_vectors(truth, 0.3)


@given(st.floats(0.05, 1.0), st.integers(0, 100))
def test_matched_vectors_have_the_f1_asked_for(f1, seed):
    truth = (np.random.default_rng(seed).random((50, 8)) < 0.2).astype(float)
    made = matched_vectors(truth, f1, seed=seed)
    assert made.sum() == truth.sum()
    assert 2 * (made * truth).sum() / (made.sum() + truth.sum()) == pytest.approx(f1, abs=0.51 / truth.sum())
    with pytest.raises(InputError, match="0 and 1"):
        matched_vectors([[0.5]], 0.5)
