import numpy as np
import pytest
from scipy import stats

from equipoise.world.draws import pick, seeds_for, uniform, uniforms


def test_numbers_are_uniform_and_independent():
    seeds = seeds_for(3, 50_000)
    assert len(set(seeds.tolist())) == 50_000
    assert seeds.min() >= 0
    first, second = uniforms(seeds, "gender"), uniforms(seeds, "age")
    assert stats.kstest(first, "uniform").pvalue > 1e-4
    assert stats.kstest(second, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.02


def test_seeds_differ_by_seed_and_purpose():
    assert not (seeds_for(1, 100) == seeds_for(2, 100)).any()
    assert not (seeds_for(1, 100) == seeds_for(1, 100, of="set nurse")).any()
    assert (seeds_for(-1, 5) == seeds_for(2**64 - 1, 5)).all()


def test_one_number_equals_that_of_many():
    seeds = seeds_for(9, 4)
    assert [uniform(int(s), "tone") for s in seeds] == uniforms(seeds, "tone").tolist()


def test_pick_follows_the_shares():
    u = (np.arange(1000) + 0.5) / 1000
    assert np.bincount(pick(u, np.array([2.0, 0.0, 6.0])), minlength=3).tolist() == [250, 0, 750]
    rows = np.tile([[1.0, 0.0], [0.0, 1.0]], (500, 1))
    assert (pick(u, rows) == np.tile([0, 1], 500)).all()
    assert pick(np.array([0.999999999999]), np.array([0.1] * 10)) == pytest.approx(9)
