"""The interval over captions of a cross-fitted mean."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from tests.examples import examples

from equipoise.errors import InputError
from equipoise.measure.captions import cross_fitted


def test_it_is_the_stratified_standard_error_worked_by_hand():
    # group 0: mean 0.5, squares 0.25 + 0.25; group 1: mean 0.2, squares 0.04 + 0.04; each pull is over 2 x 2
    found = cross_fitted([0.0, 1.0, 0.0, 0.4], ["a", "b", "c", "d"], [0, 0, 1, 1])
    error = (4 / 3 * (0.5 + 0.08) / 16) ** 0.5
    assert found.value == pytest.approx(0.35)
    assert found.ci_high - found.value == pytest.approx(1.959964 * error, rel=1e-6)
    assert found.p_value is None


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(0, 10_000), st.integers(4, 40))
def test_a_caption_tested_twice_counts_once(seed, n):
    rng = np.random.default_rng(seed)
    scores, groups = rng.random(n), np.arange(n) % 2
    once = cross_fitted(scores, np.arange(n), groups, null_value=0.25)
    twice = cross_fitted(np.tile(scores, 2), np.tile(np.arange(n), 2), np.tile(groups, 2), null_value=0.25)
    assert (twice.value, twice.ci_low, twice.p_value) == pytest.approx((once.value, once.ci_low, once.p_value))
    assert twice.n == once.n == n


@pytest.mark.slow
def test_it_covers_what_the_classifiers_score_on_new_captions():
    """A classifier that learns one number from the training folds, on captions whose true score is known."""
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(400):
        x, groups = rng.normal(size=200), np.arange(200) % 2
        x += 0.8 * groups
        fold = rng.permutation(np.arange(200) // 2 % 10)
        scores, truth = np.empty(200), []
        for k in range(10):
            train, test = fold != k, fold == k
            cut = (x[train & (groups == 0)].mean() + x[train & (groups == 1)].mean()) / 2
            scores[test] = np.where((x[test] > cut) == (groups[test] == 1), 0.7, 0.0)
            truth.append(0.35 * (norm.cdf(cut) + norm.sf(cut - 0.8)))
        found = cross_fitted(scores, np.arange(200), groups)
        covered.append(found.ci_low <= np.mean(truth) <= found.ci_high)
    assert 0.92 <= np.mean(covered) <= 0.98


@pytest.mark.slow
def test_its_test_keeps_its_level_and_never_says_nought():
    rng = np.random.default_rng(6)
    small = [
        cross_fitted(rng.random(100) < 0.25, np.arange(100), np.arange(100) % 2, null_value=0.25).p_value < 0.05
        for _ in range(1000)
    ]
    assert 0.03 <= np.mean(small) <= 0.075
    assert cross_fitted(np.linspace(0.9, 1, 5000), np.arange(5000), np.arange(5000) % 2, null_value=0.25).p_value > 0


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        (([0.1, 0.2], [0], [0, 1]), "2 scores, 1 captions"),
        (([0.1, np.nan], [0, 1], [0, 1]), "scores"),
        (([0.1, 0.2], [0, 1], [0, -1]), "groups holds -1, which is no group"),
    ],
)
def test_what_does_not_fit_is_named(given_, says):
    with pytest.raises(InputError, match=says):
        cross_fitted(*given_)
