"""Agreement between annotators against plain loops, hand-worked values and scikit-learn."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.stats.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha

answers = st.integers(0, 3)


@settings(deadline=None, max_examples=examples(80))
@given(
    st.lists(st.tuples(answers, answers), min_size=2, max_size=25), st.sampled_from(["nominal", "linear", "quadratic"])
)
def test_cohen_matches_scikit_learn(pairs, weights):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    assume(len({*first, *second}) > 1)
    # scikit-learn weighs by the index among the labels present, as we do
    name = None if weights == "nominal" else weights
    labels = sorted({*first, *second})
    expected = cohen_kappa_score(first, second, labels=labels, weights=name)
    assume(not math.isnan(expected))
    found = cohen_kappa(first, second, weights=weights, replicates=20)
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert found.n == len(pairs)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(answers, answers), min_size=2, max_size=25), st.sampled_from(["linear", "quadratic"]))
def test_cohen_counts_steps_that_nobody_chose(pairs, weights):
    first, second = [3 * a for a, _ in pairs], [3 * b if b < 3 else 10 for _, b in pairs]
    assume(len({*first, *second}) > 1)
    expected = cohen_kappa_score(first, second, labels=range(11), weights=weights)
    assume(not math.isnan(expected))
    found = cohen_kappa(first, second, weights=weights, categories=range(11), replicates=20)
    assert found.value == pytest.approx(expected, abs=1e-9)


def test_cohen_takes_answers_in_the_order_of_the_categories():
    first, second = ["low", "low", "high", "middle"], ["low", "middle", "high", "high"]
    by_name = cohen_kappa(first, second, weights="linear", categories=["low", "middle", "high"], replicates=20)
    place = {"low": 0, "middle": 1, "high": 2}
    numbers = [[place[answer] for answer in said] for said in (first, second)]
    assert by_name.value == cohen_kappa(*numbers, weights="linear", replicates=20).value
    with pytest.raises(InputError, match="'high' is not among the categories"):
        cohen_kappa(first, second, categories=["low", "middle"])


def test_cohen_textbook():
    # 2 x 2 table 20, 5 / 10, 15: observed .7, expected .5
    first = ["y"] * 25 + ["n"] * 25
    second = ["y"] * 20 + ["n"] * 5 + ["y"] * 10 + ["n"] * 15
    found = cohen_kappa(first, second)
    assert found.value == pytest.approx(0.4)
    assert found.ci_low < 0.4 < found.ci_high
    assert found.null_mean == 0.0


def test_cohen_drops_items_without_both_answers():
    found = cohen_kappa(["a", "b", None, "a"], ["a", "b", "a", float("nan")])
    assert found.value == 1.0
    assert found.n == 2
    assert found.dropped == {"items without both answers": 2}


@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(2, 5).flatmap(lambda r: st.lists(st.lists(answers, min_size=r, max_size=r), min_size=2, max_size=15))
)
def test_fleiss_matches_a_plain_loop(ratings):
    items, raters = len(ratings), len(ratings[0])
    flat = [answer for row in ratings for answer in row]
    assume(len(set(flat)) > 1)
    agreement = 0.0
    for row in ratings:
        same = sum(a == b for a, b in itertools.permutations(row, 2))
        agreement += same / (raters * (raters - 1))
    observed = agreement / items
    chance = sum((flat.count(c) / len(flat)) ** 2 for c in set(flat))
    expected = (observed - chance) / (1 - chance)
    assert fleiss_kappa(ratings, replicates=20).value == pytest.approx(expected, abs=1e-9)


def plain_alpha(ratings, metric):
    units = [[a for a in row if a is not None] for row in ratings]
    units = [row for row in units if len(row) >= 2]
    values = [a for row in units for a in row]
    n = len(values)

    def difference(a, b):
        if metric == "nominal":
            return float(a != b)
        if metric == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(values.count(g) for g in set(values) if low <= g <= high)
        return (between - (values.count(a) + values.count(b)) / 2) ** 2

    observed = (
        sum(sum(difference(a, b) for a, b in itertools.permutations(row, 2)) / (len(row) - 1) for row in units) / n
    )
    expected = sum(difference(a, b) for a, b in itertools.permutations(values, 2)) / (n * (n - 1))
    return None if expected == 0 else 1 - observed / expected


@settings(deadline=None)
@given(
    st.integers(2, 4).flatmap(
        lambda r: st.lists(
            st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=r, max_size=r), min_size=2, max_size=10
        )
    ),
    st.sampled_from(["nominal", "ordinal", "interval"]),
)
def test_alpha_matches_a_plain_loop_with_missing_answers(ratings, metric):
    assume(any(sum(a is not None for a in row) >= 2 for row in ratings))
    expected = plain_alpha(ratings, metric)
    if expected is None:
        with pytest.raises(InputError, match="all ratings are the same"):
            krippendorff_alpha(ratings, metric=metric, replicates=10)
    else:
        found = krippendorff_alpha(ratings, metric=metric, replicates=10)
        assert found.value == pytest.approx(expected, abs=1e-9)


def test_alpha_of_krippendorffs_example():
    # Krippendorff (2011), section C: four observers, twelve units, missing data
    n = None
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, n, n, n],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, n, 3],
        [n, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, n],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, n],
    ]
    units = list(zip(*observers, strict=True))
    assert krippendorff_alpha(units).value == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(units, metric="ordinal").value == pytest.approx(0.815, abs=5e-4)
    found = krippendorff_alpha(units, metric="interval")
    assert found.value == pytest.approx(0.849, abs=5e-4)
    assert found.n == 11
    assert found.dropped == {"items with fewer than two answers": 1}


def test_intervals_cover_and_shrink():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)
    noisy = [np.where(rng.random(400) < 0.7, truth, rng.integers(0, 3, 400)) for _ in range(3)]
    ratings = np.stack(noisy, axis=1)
    small, large = krippendorff_alpha(ratings[:50]), krippendorff_alpha(ratings)
    assert large.ci_high - large.ci_low < small.ci_high - small.ci_low
    # P(both draw the truth) etc.: agreement of a pair is .49 + .51 / 3, chance 1 / 3 -> alpha .49
    assert large.ci_low < 0.49 < large.ci_high
    assert fleiss_kappa(ratings).value == pytest.approx(large.value, abs=0.01)


def test_independent_annotators_are_at_chance():
    rng = np.random.default_rng(1)
    found = krippendorff_alpha(rng.integers(0, 2, (300, 3)))
    assert found.ci_low < 0 < found.ci_high


def test_bootstrap_resamples_of_one_answer_are_left_out_and_said():
    found = fleiss_kappa([["a", "a"], ["b", "b"]], replicates=200)
    assert found.value == 1.0
    assert any("left out" in note for note in found.notes)


def test_no_interval_says_whether_items_or_resamples_are_too_few():
    nearly_all_alike = [["a", "a"]] * 40 + [["a", "b"]]
    assert "no interval: one item" in krippendorff_alpha([["a", "b"]]).notes
    rare = krippendorff_alpha(nearly_all_alike, replicates=1)
    assert rare.ci_low is None
    assert "no interval: fewer than two resamples held more than one answer" in rare.notes


def test_degenerate_input_is_a_sentence():
    with pytest.raises(InputError, match="all ratings are the same"):
        cohen_kappa(["a", "a"], ["a", "a"])
    with pytest.raises(InputError, match="first has 1 items and second has 2"):
        cohen_kappa(["a"], ["a", "b"])
    with pytest.raises(InputError, match="no item was answered by both"):
        cohen_kappa(["a", None], [None, "b"])
    with pytest.raises(InputError, match="same number for every item"):
        fleiss_kappa([["a", "b"], ["a", None]])
    with pytest.raises(InputError, match="one row per item"):
        krippendorff_alpha([])
    with pytest.raises(InputError, match="no item has two answers"):
        krippendorff_alpha([[1, None], [None, 2]])
    with pytest.raises(InputError, match="needs numbers"):
        krippendorff_alpha([["a", "b"], ["a", "a"]], metric="interval")
    with pytest.raises(InputError, match="cannot be sorted"):
        krippendorff_alpha([["a", 1], ["a", "a"]])
    with pytest.raises(UnknownNameError, match="did you mean 'ordinal'"):
        krippendorff_alpha([[1, 2]], metric="ordnal")
    with pytest.raises(InputError, match="replicates must be"):
        fleiss_kappa([["a", "b"]], replicates=0)
