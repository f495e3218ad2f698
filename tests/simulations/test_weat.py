"""Coverage of association tests' effect sizes: the bootstrap covered 82% with four targets on a side."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as sps

from equipoise.measure.embedding.association import _noncentrality, association, effect_interval


def true_effect(gap: float, n: int, m: int, ratio: float = 1.0) -> float:
    """The effect of two normal populations ``gap`` apart, of sd 1 and ``ratio``, mixed as n to m."""
    part = n / (n + m)
    return gap / np.sqrt(part + (1 - part) * ratio**2 + part * (1 - part) * gap**2)


def coverage(n: int, m: int, gap: float, reps: int, ratio: float = 1.0) -> float:
    held = 0
    for rep in range(reps):
        rng = np.random.default_rng((n, m, rep))
        low, high, _ = effect_interval(rng.normal(gap, 1, n), rng.normal(0, ratio, m))
        assert -2 / (2 * np.sqrt(n * m) / (n + m)) < low < high < 2 / (2 * np.sqrt(n * m) / (n + m))
        held += low <= true_effect(gap, n, m, ratio) <= high
    return held / reps


@pytest.mark.parametrize("gap", [0.0, 1.0, 3.0])
def test_four_on_a_side(gap):
    assert coverage(4, 4, gap, 150) >= 0.90


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(4, 4), (8, 8), (25, 25), (4, 12), (8, 25)])
@pytest.mark.parametrize("gap", [0.0, 0.5, 1.5, 4.0])
def test_coverage(n, m, gap):
    # Welch's degrees of freedom are on the safe side where a small side decides a huge effect
    assert 0.93 <= coverage(n, m, gap, 1000) <= (0.975 if n == m else 0.99)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(8, 8), (25, 25)])
def test_coverage_with_sides_of_unequal_spread(n, m):
    assert 0.92 <= coverage(n, m, 1.0, 1000, ratio=2.0) <= 0.98


def test_too_few_targets_have_no_interval_and_say_so():
    rng = np.random.default_rng(0)
    x, y, a, b = (rng.normal(size=(2, 5)) for _ in range(4))
    effect = association(x, y, a, b).effect
    assert effect.ci_low is None
    assert effect.ci_high is None
    assert "no interval: fewer than 3 targets on a side" in effect.notes


def test_sides_without_spread_have_no_interval():
    low, high, why = effect_interval(np.ones(5), np.zeros(5))
    assert (low, high) == (None, None)
    assert why == ("no interval: the targets of each side do not vary",)


@pytest.mark.parametrize(
    ("t", "freedom", "tail"), [(1.5, 6.0, 0.975), (1.5, 6.0, 0.025), (-3.0, 14.3, 0.9), (0.0, 3.0, 0.5)]
)
def test_noncentralities_are_those_of_scipy_where_it_has_them(t, freedom, tail):
    assert sps.nct.cdf(t, freedom, _noncentrality(t, freedom, tail)) == pytest.approx(tail, abs=2e-3)


def test_a_huge_effect_stays_in_range():
    rng = np.random.default_rng(0)
    low, high, _ = effect_interval(100 + rng.normal(size=20), rng.normal(size=20))
    assert 1.9 < low < high < 2.0
