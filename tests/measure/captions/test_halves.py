"""Halves of captions and what they say of the variance; splits that keep clusters whole."""

import numpy as np
import pytest
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.captions import (
    balanced_split,
    cross_fit_folds,
    half_means,
    half_variance,
    halved_folds,
    halved_t,
    leakage_of_vectors,
)

LABELS = [0] * 57 + [1] * 43 + [-1] * 5


def rows_of(splits):
    return {int(row) for split in splits for row in (*split.train, *split.test)}


def test_halves_have_no_row_in_common_and_halve_each_group():
    for turn in range(4):
        one, two = (rows_of(half) for half in halved_folds(LABELS, turn))
        assert not one & two
        assert sorted(
            np.bincount(np.array(LABELS)[sorted(one)]).tolist() + np.bincount(np.array(LABELS)[sorted(two)]).tolist()
        ) == [21, 21, 22, 22]
    assert rows_of(halved_folds(LABELS, 0)[0]) != rows_of(halved_folds(LABELS, 1)[0])


def test_halves_depend_on_ids_and_not_on_the_order_of_rows():
    order = np.random.default_rng(0).permutation(len(LABELS))
    ids = [f"image {i}" for i in range(len(LABELS))]
    here = halved_folds(LABELS, 3, ids=ids)
    there = halved_folds(np.array(LABELS)[order], 3, ids=[ids[i] for i in order])
    assert {ids[i] for i in rows_of(here[0])} == {ids[order[i]] for i in rows_of(there[0])}


def test_the_variance_of_independent_rows_is_that_of_their_mean():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(25):
        x = rng.normal(size=80)
        halves = half_means(lambda splits, x=x: [np.mean([x[split.test].mean() for split in splits])], [0, 1] * 40)
        found.append(half_variance(halves[..., 0]))
    assert np.mean(found) == pytest.approx(1 / 80, rel=0.25)


def test_the_t_of_halves_by_hand():
    made = halved_t([0.5, 0.7], [[0.6, 0.4], [0.5, 0.5]], null_value=0.4)
    sampling, splitting = (0.2**2 + 0) / 2 / 4, 0.02 / 2
    freedom = (sampling + splitting) ** 2 / (sampling**2 / 2 + splitting**2 / 1)
    error = np.sqrt(sampling + splitting)
    reach = sps.t.ppf(0.975, freedom) * error
    assert (made.value, made.null_sd) == pytest.approx((0.6, error))
    assert (made.ci_low, made.ci_high) == pytest.approx((0.6 - reach, 0.6 + reach))
    assert made.p_value == pytest.approx(sps.t.sf(0.2 / error, freedom))
    whole = halved_t([0.5, 0.7], [[0.6, 0.4], [0.5, 0.5]], null_value=0.4, folds=True)
    assert whole.null_sd == pytest.approx(np.sqrt(sampling))
    # the chance level moves with the value: the difference does not vary
    tied = halved_t([0.5, 0.7], [[0.6, 0.4], [0.5, 0.5]], null_value=[0.4, 0.6], null_halves=[[0.5, 0.3], [0.4, 0.4]])
    assert tied.p_value == pytest.approx(0)
    assert tied.ci_low == pytest.approx(made.ci_low)


def test_one_split_or_equal_halves_have_no_interval():
    assert halved_t([0.4], [[0.6, 0.4]]).notes == ("no interval: one split",)
    assert halved_t([0.4, 0.4], [[0.5, 0.5]]).notes == ("no interval: all halves alike",)
    with pytest.raises(InputError, match="two numbers per halving"):
        half_variance([0.1, 0.2])


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (1, 7), (5, 2)])
def test_no_cluster_is_on_both_sides_of_a_split(sizes):
    rng = np.random.default_rng(sum(sizes))
    labels = np.array([0] * 90 + [1] * 60 + [-1] * 10)
    clusters = np.concatenate([np.arange(90) // sizes[0], 1000 + np.arange(60) // sizes[1], np.arange(10)])
    order = rng.permutation(160)
    labels, clusters = labels[order], clusters[order]
    for split in (balanced_split(labels, 4, clusters=clusters), *cross_fit_folds(labels, 5, 4, clusters=clusters)):
        assert not set(clusters[split.train]) & set(clusters[split.test])
        for rows in (split.train, split.test):
            counts = np.bincount(labels[rows], minlength=2)
            assert counts[0] == counts[1] > 0
    assert len(balanced_split(labels, 4, clusters=clusters).test) == 12  # a tenth of 60, of each group
    one, two = (rows_of(half) for half in halved_folds(labels, 0, clusters=clusters))
    assert not set(clusters[sorted(one)]) & set(clusters[sorted(two)])


def test_clusters_that_hold_both_groups_are_split_whole():
    labels, clusters = np.tile([0, 1], 50), np.arange(100) // 2
    folds = cross_fit_folds(labels, 5, clusters=clusters)
    assert [len(split.test) for split in folds] == [20] * 5
    assert sorted(row for split in folds for row in split.test.tolist()) == list(range(100))


def test_too_few_clusters_are_refused():
    labels, clusters = [0] * 40 + [1] * 40, [0] * 40 + list(range(1, 41))
    with pytest.raises(InputError, match="in 1 clusters only"):
        cross_fit_folds(labels, 5, clusters=clusters)
    with pytest.raises(InputError, match="too few clusters"):
        balanced_split(labels, 0, clusters=clusters)
    with pytest.raises(InputError, match="too few clusters to be halved"):
        halved_folds(labels, 0, clusters=clusters)
    with pytest.raises(InputError, match="80 items"):
        balanced_split(labels, 0, clusters=[1])


def test_rows_of_one_person_are_no_leakage():
    """Twelve people of each group, four rows each, as alike as two rows can be: only their rows give them away."""
    rng = np.random.default_rng(3)
    people = np.repeat(np.arange(24), 4)
    vectors = rng.normal(size=(24, 20))[people] + rng.normal(0, 0.1, size=(96, 20))
    labels = (people % 2).tolist()
    told = leakage_of_vectors(vectors, labels, weighting="accuracy", seeds=(0, 1)).estimate
    assert told.value > 0.9
    apart = leakage_of_vectors(vectors, labels, weighting="accuracy", folds=4, seeds=(0,), clusters=people).estimate
    assert apart.value < 0.7
    assert apart.p_value > 0.05
