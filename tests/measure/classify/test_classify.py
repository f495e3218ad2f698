"""Metrics of classifiers against hand-worked values, plain loops and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from tests.examples import examples
from tests.simulations.bands import within

from equipoise.errors import InputError
from equipoise.measure.captions import multi_attribute_amplification
from equipoise.measure.classify import (
    artefact_delta,
    average_precision,
    leakage_amplification,
    mean_average_precision,
    object_recall,
    predicted_ratio,
)
from equipoise.measure.groups import Groups

QUICK = {"draws": 19, "replicates": 19}


def plain_average_precision(scores, truth):
    """By thresholds, one after the other."""
    area, before = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        above = [y for s, y in zip(scores, truth, strict=True) if s >= threshold]
        recall = sum(above) / sum(truth)
        area += (recall - before) * sum(above) / len(above)
        before = recall
    return area


def test_average_precision_by_hand():
    # ranked 1 0 1 0: precision 1 at recall 1/2, 2/3 at recall 1
    assert average_precision([4, 3, 2, 1], [1, 0, 1, 0]) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    # all scores alike: one threshold, precision is the prevalence
    assert average_precision([7, 7, 7, 7], [0, 0, 1, 0]) == 0.25
    with pytest.raises(InputError, match="no 1"):
        average_precision([1, 2], [0, 0])
    with pytest.raises(InputError, match="0 and 1 only"):
        average_precision([1, 2], [0, 2])


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
@settings(max_examples=examples(60), deadline=None)
def test_average_precision_is_that_of_thresholds_and_of_scikit_learn(rows):
    scores, truth = [float(s) for s, _ in rows], [int(y) for _, y in rows]
    if not any(truth):
        truth[0] = 1
    found = average_precision(scores, truth)
    assert found == pytest.approx(plain_average_precision(scores, truth))
    assert found == pytest.approx(average_precision_score(truth, scores))


def test_map_leaves_out_labels_that_no_image_has_and_chance_is_near_prevalence():
    rng = np.random.default_rng(0)
    truth = (rng.random((400, 4)) < [0.3, 0.3, 0.3, 0.0]).astype(float)
    random = mean_average_precision(rng.random((400, 4)), truth, draws=99, replicates=99)
    assert random.estimate.dropped == {"labels that no image has": 1}
    assert np.isnan(random.by_label[3])
    assert random.estimate.null_mean == pytest.approx(truth[:, :3].mean(), abs=0.02)
    assert random.estimate.p_value > 0.01
    assert random.estimate.ci_low < random.estimate.null_mean < random.estimate.ci_high
    good = mean_average_precision(truth + rng.normal(0, 0.3, truth.shape), truth, draws=99, replicates=99)
    assert good.estimate.value > 0.8
    assert good.estimate.p_value == 0.01
    expected = [average_precision_score(truth[:, j], truth[:, j]) for j in range(3)]
    assert mean_average_precision(truth, truth, **QUICK).estimate.value == np.mean(expected) == 1.0


def test_leakage_of_random_predictions_is_chance_and_planted_leakage_is_found():
    rng = np.random.default_rng(4)
    groups = Groups.from_values(np.where(rng.random(600) < 0.7, "m", "f"))
    truth = (rng.random((600, 6)) < 0.3).astype(float)
    random = (rng.random((600, 6)) < 0.3).astype(float)
    for weighting in ("confidence", "accuracy"):
        found = leakage_amplification(random, truth, groups, weighting=weighting, seeds=(0, 1))
        level = found.model.estimate
        assert level.ci_low < level.null_mean < level.ci_high
        assert level.p_value > 0.05
        assert found.difference.ci_low < 0 < found.difference.ci_high
        assert level.n == 2 * groups.counts().min()  # balanced
    told = truth.copy()
    women = groups.labels == groups.index("f")
    told[women, 0] = 1.0
    found = leakage_amplification(told, truth, groups, weighting="accuracy", seeds=(0, 1))
    # the object is in all women's images and in .3 of men's: the best guess is right for 1 and .7
    assert found.model.estimate.value == pytest.approx(0.85, abs=0.05)
    assert found.difference.value > 0.25
    assert found.difference.p_value < 0.01
    assert leakage_amplification(0.7 * told, truth, groups, seeds=(0,)).difference.value > 0


def test_leakage_can_match_the_truth_to_the_errors_of_the_model():
    rng = np.random.default_rng(1)
    groups = Groups.from_values(np.tile(["f", "m"], 200))
    truth = (rng.random((400, 5)) < np.where(groups.labels == 0, 0.2, 0.8)[:, None]).astype(float)
    noisy = np.abs(truth - (rng.random(truth.shape) < 0.2))
    plain = leakage_amplification(noisy, truth, groups, seeds=(0,))
    matched = leakage_amplification(noisy, truth, groups, seeds=(0,), match=True)
    assert 0.7 < matched.f1 < 0.9
    assert plain.data.estimate.value > matched.data.estimate.value  # errors alone take leakage away
    with pytest.raises(InputError, match="scores"):
        leakage_amplification(noisy * 0.5, truth, groups, match=True)


def test_ratio_of_predictions_raw_and_folded():
    said = Groups.from_values(["m"] * 2 + ["f"] * 8 + [None])
    assert predicted_ratio(said, ("m", "f")).estimate.value == 0.25
    folded = predicted_ratio(said, ("m", "f"), convention="folded").estimate
    assert folded.value == 4.0
    assert folded.null_mean > 1
    assert folded.p_value == pytest.approx(2 * (1 + 10 + 45) / 1024)  # as far from 5 : 5 as 2 : 8, or further
    shown = Groups.from_values(["m"] * 4 + ["f"] * 7)
    assert predicted_ratio(said, ("m", "f"), labels=shown).estimate.null_mean == pytest.approx(4 / 7)
    silent = predicted_ratio(Groups.from_values(["f", "f"], ["m", "f"]), ("m", "f"))
    assert silent.estimate is None
    assert silent.notes[0] == "no ratio: no image is predicted to show m"


@given(st.lists(st.tuples(st.sampled_from("mf-"), st.sampled_from("mf-")), min_size=4, max_size=25))
@settings(max_examples=examples(25), deadline=None)
def test_artefact_delta_is_that_of_plain_counts(pairs):
    pairs = [("m", "f"), ("f", "m"), *pairs]
    sides = [[None if pair[i] == "-" else pair[i] for pair in pairs] for i in (0, 1)]
    before, after = (Groups.from_values(side, ["m", "f"]) for side in sides)
    r_o, r_i = (side.count("m") / side.count("f") for side in sides)
    found = artefact_delta(before, after, ("m", "f"), **QUICK)
    assert found.value == pytest.approx(100 * abs(r_o - r_i) / r_o)
    assert found.ci_low <= found.value <= found.ci_high
    assert found.ci_low >= 0


def test_artefact_delta_is_chance_for_noise_and_finds_a_planted_mark():
    rng = np.random.default_rng(2)
    before = np.where(rng.random(400) < 0.7, "m", "f")
    flips = rng.random(400) < 0.1
    noisy = np.where(flips & (np.arange(400) % 2 == 0), np.where(before == "m", "f", "m"), before)
    swapped = rng.random(400) < 0.5
    one, two = np.where(swapped, noisy, before), np.where(swapped, before, noisy)
    noise = artefact_delta(Groups.from_values(one), Groups.from_values(two), ("m", "f"), draws=199, replicates=199)
    assert noise.p_value > 0.05
    assert noise.ci_low < noise.null_mean
    marked = np.where(rng.random(400) < 0.3, "f", before)
    found = artefact_delta(Groups.from_values(before), Groups.from_values(marked), ("m", "f"))
    assert found.p_value < 0.01
    assert found.ci_low > found.null_mean
    with pytest.raises(InputError, match="no inpainted image"):
        artefact_delta(Groups.from_values(before), Groups.from_values(["m"] * 400, ["m", "f"]), ("m", "f"))


def test_the_interval_of_artefact_delta_by_hand():
    # 6 men, 4 women; two men and one woman change: 5 to 5
    before = Groups.from_values(["m"] * 6 + ["f"] * 4)
    after = Groups.from_values(["m"] * 4 + ["f"] * 2 + ["m"] + ["f"] * 3)
    found = artefact_delta(before, after, ("m", "f"), **QUICK)
    # with a quarter of each pair: 6.5 to 4.5 before, 5.5 to 5.5 after
    counts, centre = {"m": (6.5, 5.5), "f": (4.5, 5.5)}, np.log((5.5 / 5.5) / (6.5 / 4.5))
    left, right = 1 / counts["f"][1] + 1 / counts["m"][0], 1 / counts["m"][1] + 1 / counts["f"][0]
    stay = (4.25 * (1 / 5.5 - 1 / 6.5) ** 2, 3.25 * (1 / 4.5 - 1 / 5.5) ** 2)
    reach = 1.959964 * np.sqrt(2.25 * left**2 + 1.25 * right**2 + sum(stay))
    ends = 100 * np.expm1([centre - reach, centre + reach])
    assert ends[0] < 0 < ends[1]
    assert (found.ci_low, found.ci_high) == pytest.approx((0.0, max(abs(ends))), abs=1e-4)
    same = artefact_delta(before, before, ("m", "f"), **QUICK)
    assert same.value == same.ci_low == 0 < same.ci_high  # ten images do not prove that none would change


@pytest.mark.parametrize("n", [50, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("men", "women"), [(0.1, 0.1), (0.3, 0.05)])
def test_the_interval_of_artefact_delta_covers(n, men, women):
    """Half of the images show men; of these a share ``men``, of the others a share ``women``, changes."""
    share = 0.5 * (1 - men + women)
    truth, covered, repetitions = 100 * abs(share / (1 - share) - 1), 0, 150
    for number in range(repetitions):
        rng = np.random.default_rng([n, number])
        before = (rng.random(n) < 0.5).astype(int)
        after = np.where(rng.random(n) < np.where(before == 0, men, women), 1 - before, before)
        sides = (Groups(side, ("m", "f")) for side in (before, after))
        found = artefact_delta(*sides, ("m", "f"), draws=2, replicates=2)
        covered += found.ci_low - 1e-9 <= truth <= found.ci_high
    assert within(covered / repetitions, 0.92, 0.98, repetitions)


@given(st.lists(st.tuples(st.sampled_from("ab"), *[st.booleans()] * 4), max_size=25))
@settings(max_examples=examples(40), deadline=None)
def test_recall_by_group_is_that_of_plain_loops(rows):
    rows = [("a", True, True, True, False), ("b", True, True, False, True), *rows]
    groups = Groups.from_values([row[0] for row in rows])
    truth = np.array([row[1:3] for row in rows], dtype=float)
    said = np.array([row[3:5] for row in rows], dtype=float)
    found = object_recall(said, truth, groups, least=1, **QUICK)
    for name in "ab":
        recalls = []
        for column in (0, 1):
            hits = [row[3 + column] for row in rows if row[0] == name and row[1 + column]]
            recalls.append(sum(hits) / len(hits))
        assert found.by_group[name].value == pytest.approx(np.mean(recalls))
    assert found.gap.value == pytest.approx(abs(found.by_group["a"].value - found.by_group["b"].value))


def test_no_interval_is_a_point():
    rare = np.r_[1.0, np.zeros(19)][:, None]
    precision = mean_average_precision(rare, rare).estimate
    recall = object_recall(np.ones((20, 1)), np.ones((20, 1)), Groups.from_values(["a", "b"] * 10), **QUICK)
    for estimate in (precision, recall.gap, recall.by_group["a"]):
        assert (estimate.ci_low, estimate.ci_high) == (None, None)
        assert "no interval: the resamples do not differ" in estimate.notes


def test_draws_without_a_label_to_compare_are_left_out():
    # one label, on two of eight images of each group: the classifier finds it in women alone
    truth = np.tile([1.0, 1.0, *[0.0] * 6], 2)[:, None]
    groups = Groups.from_values(["f"] * 8 + ["m"] * 8)
    perfect = object_recall(truth, truth, groups, least=2)
    assert "no interval: the resamples do not differ" in perfect.by_group["f"].notes
    said = truth * (groups.labels == 0)[:, None]
    # 140 of the 1,820 deals of the four images over both groups leave one group none, and say nothing
    null = object_recall(said, truth, groups, least=2, draws=2000).gap.null_mean
    # two and two, 28 * 28 deals: a third part hits from misses (gap 1), the others do not (gap 0)
    # three and one, 2 * 56 * 8 deals: one of the three is like the one alone (gap 2/3)
    assert null == pytest.approx((784 / 3 + 896 * 2 / 3) / 1680, abs=0.03)


def test_recall_gap_is_chance_for_equal_groups_and_found_for_unequal_ones():
    rng = np.random.default_rng(3)
    groups = Groups.from_values(np.tile(["a", "b", "c"], 200))
    truth = (rng.random((600, 4)) < 0.4).astype(float)
    fair = truth * (rng.random(truth.shape) < 0.7)
    equal = object_recall(fair, truth, groups, draws=199, replicates=199)
    assert equal.gap.p_value > 0.05
    assert equal.gap.null_mean > 0
    worse = fair * np.where((groups.labels == 2)[:, None] & (rng.random(truth.shape) < 0.4), 0, 1)
    found = object_recall(worse, truth, groups, draws=199, replicates=199)
    assert found.gap.p_value == 1 / 200
    assert found.gap.ci_low > found.gap.null_mean
    assert min(found.by_group, key=lambda name: found.by_group[name].value) == "c"
    with pytest.raises(InputError, match="no label is in at least"):
        object_recall(fair, truth, groups, least=1000)


def test_amplification_over_sets_is_the_one_of_captions():
    groups = Groups.from_values(["f", "f", "m", "m"] * 10)
    shown = np.array([[1, 0], [1, 1], [1, 1], [0, 1]] * 10)
    said = shown.copy()
    said[groups.labels == 0, 1] = 0  # the second object is no longer seen beside women
    found = multi_attribute_amplification(groups, shown, groups, said, direction="group_to_sets", **QUICK)
    # sets {0}, {1}, {0, 1}: women 1 -> 1, 1/2 -> 0, 1/2 -> 0; men as before
    assert found.estimate.value == pytest.approx((0.5 + 0.5) / 6)


def recalls(rng, n_groups, n):
    """Six labels, recall .6 in every group."""
    truth = (rng.random((n, 6)) < 0.4).astype(float)
    return truth * (rng.random(truth.shape) < 0.6), truth, Groups(np.arange(n) % n_groups, tuple("abcdefg"[:n_groups]))


def recall_gap_coverage(n_groups, n, reps):
    gaps = [
        object_recall(*recalls(np.random.default_rng((n, rep)), n_groups, n), draws=2, replicates=200).gap
        for rep in range(reps)
    ]
    return np.mean([gap.ci_low == 0 for gap in gaps])


def test_the_interval_of_the_recall_gap_holds_the_0_of_equal_groups():
    assert recall_gap_coverage(7, 400, 10) >= 0.7


def test_groups_that_miss_nothing_are_one_to_the_recall_gap():
    truth = np.ones((60, 1))
    said = truth.copy()
    said[:10] = 0
    gap = object_recall(said, truth, Groups.from_values(["a"] * 20 + ["b"] * 20 + ["c"] * 20), draws=19).gap
    assert gap.value == 0.5
    assert 0.2 < gap.ci_low < 0.4
    assert 0.6 < gap.ci_high < 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("n_groups", "n"), [(2, 150), (3, 300), (7, 400)])
def test_coverage_of_the_recall_gap(n_groups, n):
    rate = recall_gap_coverage(n_groups, n, 300)
    assert within(rate, 0.93, 0.985, 300), f"{n_groups} groups: {rate:.3f}"
