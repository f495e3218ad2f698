import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.measure.stats.correlation import pearson


def test_by_hand():
    # deviations (-1.5, -.5, .5, 1.5) and (-1.5, .5, -.5, 1.5): 4 / 5
    one = pearson([0, 1, 2, 3], [0, 2, 1, 3])
    assert one.value == pytest.approx(0.8)
    assert (one.null_mean, one.n) == (0.0, 4)
    # Fisher: tanh(atanh .8 +- 1.96)
    assert one.ci_low == pytest.approx(np.tanh(np.arctanh(0.8) - 1.959964), abs=1e-6)
    assert one.ci_high == pytest.approx(np.tanh(np.arctanh(0.8) + 1.959964), abs=1e-6)
    assert one.p_value == pytest.approx(0.2)  # t = 1.886 with two degrees of freedom


def test_what_does_not_vary_follows_nothing():
    assert pearson([1, 1, 1], [1, 2, 3]) is None
    assert pearson([1, 2, 3], [2, 2, 2]) is None
    assert pearson([1, 2], [1, 2]) is None
    assert pearson([1, 2, 4], [1, 2, 3]).ci_low is None
    with pytest.raises(InputError, match="two lists of the same length"):
        pearson([1, 2, 3], [1, 2])


@given(st.integers(4, 40), st.integers(0, 1000))
def test_brute_force(n, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.normal(size=n)
    one = pearson(x, y)
    dx, dy = x - x.mean(), y - y.mean()
    assert one.value == pytest.approx((dx * dy).sum() / np.sqrt((dx**2).sum() * (dy**2).sum()))
    assert one.ci_low <= one.value <= one.ci_high


def test_intervals_cover_and_p_values_are_uniform():
    rng = np.random.default_rng(0)
    draws = [pearson(*rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 28).T) for _ in range(400)]
    assert 0.92 <= np.mean([one.ci_low <= 0.6 <= one.ci_high for one in draws]) <= 0.98
    null = [pearson(rng.normal(size=28), rng.normal(size=28)).p_value for _ in range(400)]
    assert 0.02 <= np.mean(np.array(null) < 0.05) <= 0.09
