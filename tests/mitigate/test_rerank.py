"""Re-ranking: the guarantee of each rule for every prefix, by hand and on random rankings."""

from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.errors import InputError
from equipoise.mitigate import Rerank
from equipoise.mitigate.rerank import det_const_sort, det_greedy, quota

POOLS = st.lists(st.integers(1, 25), min_size=2, max_size=6)


def prefixes(order, n_groups):
    return np.cumsum(np.eye(n_groups, dtype=int)[order], axis=0)


def ranked(sizes, seed):
    rng = np.random.default_rng(seed)
    return [np.sort(rng.random(n))[::-1] for n in sizes]


@settings(deadline=None, max_examples=examples(80))
@given(POOLS, st.integers(0, 1000), st.sampled_from([0.5, 0.8, 1.0]))
def test_det_const_sort_never_falls_below_the_floor(sizes, seed, share):
    shares, n = np.array(sizes) / sum(sizes), sum(sizes)
    counts = prefixes(det_const_sort(ranked(sizes, seed), shares, n, share=share), len(sizes))
    assert counts[-1].tolist() == sizes
    for k in range(1, n + 1):
        assert all(counts[k - 1][g] >= floor(share * shares[g] * k + 1e-9) for g in range(len(sizes))), k


@settings(deadline=None, max_examples=examples(80))
@given(st.lists(st.integers(1, 25), min_size=2, max_size=3), st.integers(0, 1000))
def test_det_greedy_stays_between_floor_and_ceiling_with_up_to_three_groups(sizes, seed):
    shares, n = np.array(sizes) / sum(sizes), sum(sizes)
    counts = prefixes(det_greedy(ranked(sizes, seed), shares, n), len(sizes))
    for k in range(1, n + 1):
        for g, p in enumerate(shares):
            assert floor(p * k + 1e-9) <= counts[k - 1][g] <= ceil(p * k - 1e-9), (k, g)


def test_det_greedy_has_no_guarantee_with_four():
    broken = 0
    for seed in range(200):
        sizes = np.random.default_rng(seed).integers(1, 25, 4)
        shares, n = sizes / sizes.sum(), int(sizes.sum())
        counts = prefixes(det_greedy(ranked(sizes, seed), shares, n), 4)
        broken += bool((counts < np.floor(np.outer(np.arange(1, n + 1), shares) + 1e-9)).any())
    assert broken > 0


@settings(deadline=None, max_examples=examples(80))
@given(POOLS)
def test_a_quota_is_never_a_whole_image_off(sizes):
    shares, n = np.array(sizes) / sum(sizes), sum(sizes)
    counts = prefixes(quota(shares, sizes, n), len(sizes))
    assert np.abs(counts - np.outer(np.arange(1, n + 1), shares)).max() < 1


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 10_000), st.sampled_from(["det_greedy", "det_const_sort", "quota"]), st.integers(1, 40))
def test_within_a_group_the_best_come_first_and_nothing_is_lost(seed, variant, depth):
    rng = np.random.default_rng(seed)
    labels, scores = rng.integers(0, 3, 30), rng.random((4, 30))
    orders = Rerank(variant, depth=depth).rerank(scores, labels=labels)
    for row, order in zip(scores, orders, strict=True):
        assert sorted(order.tolist()) == list(range(30))
        for group in range(3):
            mine = [i for i in order if labels[i] == group]
            assert mine == sorted(mine, key=lambda i: -row[i])
        rest = order[depth:]
        assert (np.diff(row[rest]) <= 0).all()


def test_a_ranking_by_hand():
    # four men before four women; even shares, and the best of each first
    scores, labels = [[8.0, 7, 6, 5, 4, 3, 2, 1]], [0, 0, 0, 0, 1, 1, 1, 1]
    for variant in ("det_greedy", "det_const_sort", "quota"):
        assert Rerank(variant).rerank(scores, labels=labels)[0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    half = Rerank("det_greedy", share=0.5).rerank(scores, labels=labels)[0].tolist()
    assert half == [0, 1, 2, 4, 3, 5, 6, 7]  # a quarter of every prefix, rounded down, and at most three quarters


def test_scores_are_dealt_out_again_within_pools():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 5))
    vectors[:, 0] = np.tile([2.0, -2.0], 20)
    remedy = Rerank().fit(vectors, {"gender": ["f", "m"] * 20})
    assert remedy.labels(vectors).tolist() == [0, 1] * 20
    scores, pools = rng.random((2, 40)) + vectors[:, 0], np.arange(40) // 20
    new = remedy.rescored(scores, vectors, pools)
    for q in range(2):
        for pool in (0, 1):
            mine = np.flatnonzero(pools == pool)
            np.testing.assert_allclose(np.sort(new[q, mine]), np.sort(scores[q, mine]), atol=1e-7)
            first = mine[np.argsort(-new[q, mine])[:10]]
            assert np.bincount(first % 2).tolist() == [5, 5]


def test_bad_input_is_refused():
    for call, match in (
        (lambda: Rerank("det_gready"), "did you mean 'det_greedy'"),
        (lambda: Rerank("quota", share=0.5), "a quota is met or not"),
        (lambda: Rerank(depth=0), "at least the first place"),
        (lambda: Rerank().rerank([[1.0, 2.0]]), "or labels"),
        (lambda: Rerank().rerank([[1.0, 2.0]], [[1.0], [2.0]]), "not fitted"),
        (lambda: Rerank().rerank([[1.0, 2.0]], labels=[0]), "give one for each"),
        (lambda: Rerank().rerank([[1.0, 2.0]], labels=[0, 1], shares=[0.5, 0.1]), "sum to 1"),
    ):
        with pytest.raises(InputError, match=match):
            call()
    from equipoise.mitigate import repaired
    from equipoise.mitigate.conformance import PlantedVectors

    fitted = Rerank().fit([[1.0, 0.0], [0.0, 1.0]], {"g": ["a", "b"]})
    with pytest.raises(InputError, match="changes rankings, not vectors"):
        repaired(PlantedVectors(), fitted)
