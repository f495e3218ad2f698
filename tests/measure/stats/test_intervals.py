"""Intervals that would pass for certainty: shares of 1, values all alike, groups in one cluster; and how they cover."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps
from tests.examples import examples

from equipoise.errors import InputError
from equipoise.measure import retrieval, stats
from equipoise.measure.groups import Groups
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.group_means import difference_interval, group_means
from equipoise.measure.stats.shares import (
    ClusteredShare,
    independent_difference,
    share_estimate,
    share_interval,
    wilson_interval,
)


def bounds(estimate):
    return estimate.ci_low, estimate.ci_high


@pytest.fixture(params=[120, pytest.param(400, marks=pytest.mark.slow)], ids=["in short", "at length"])
def repetitions(request) -> int:
    """How often an interval is made."""
    return request.param


def least(repetitions: int) -> float:
    """The smallest share of 95% intervals that must hold the truth: few may miss it more often by chance."""
    return 0.92 if repetitions >= 300 else 0.88


def clustered_hits(seed, sizes, share, alike):
    """Yes and no in clusters of the given sizes; ``alike`` is the correlation inside a cluster."""
    rng = np.random.default_rng(seed)
    each = rng.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), len(sizes))
    keys = np.repeat(np.arange(len(sizes)), sizes)
    return (rng.random(len(keys)) < each[keys]).astype(float), keys


class TestNoSpread:
    @pytest.mark.parametrize("values", [[1.0, 5.0], [1.1, 5.3]])
    def test_resamples_of_two_values_that_do_not_differ(self, values):
        assert stats.mean_interval(values, method="bootstrap_t") is None
        assert stats.summarise(values, method="bootstrap_t").notes == ("no interval: the resamples do not differ",)
        low, high = share_interval(np.array(values) / 10, method="bootstrap_t")
        assert 0 <= low < high <= 1

    def test_a_value_drawn_all_the_time_has_no_spread(self):
        # 0.1 three times is not 0.3 to the last digit
        low, high = stats.mean_interval([0.1, 0.3, 0.7], method="bootstrap_t")
        assert -50 < low < high < 50

    def test_an_interval_from_the_spread_of_chance_is_not_said_to_be_missing(self):
        draws = np.random.default_rng(0).normal(size=200)
        found = stats.compare([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], draws=draws)
        assert found.ci_low < 1 < found.ci_high
        assert found.notes == ("chance: labels shuffled alike for both",)
        other = stats.compare([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], draws=draws, method="percentile")
        assert bounds(other) == (None, None)
        assert "no interval: all 3 independent units have the same value" in other.notes

    @pytest.mark.parametrize("value", [0.5, 0.1, 0.0, -3.7e9])
    def test_values_all_alike_have_no_interval_and_a_note(self, value):
        found = stats.summarise([value] * 3, null_value=0.4)
        assert bounds(found) == (None, None)
        assert found.notes == ("no interval: all 3 independent units have the same value",)

    def test_equal_means_of_unequal_clusters_are_alike_too(self):
        found = stats.summarise([0.1, 0.3, 0.2, 0.2, 0.2], clusters=["a", "a", "b", "b", "b"])
        assert found.notes == ("no interval: all 2 independent units have the same value",)

    def test_a_small_spread_is_one(self):
        assert stats.mean_interval([1.0, 1.0 + 1e-9]) is not None


class TestShares:
    def test_all_right_in_a_few_clusters_is_not_certain(self):
        found = share_estimate(np.ones(40), clusters=np.repeat(np.arange(4), 10), null_value=0.5)
        # four yes in four tries: Clopper and Pearson's lower end is (1/40) ** (1/4)
        assert bounds(found) == (pytest.approx(0.025**0.25), 1.0)
        assert found.notes == ()
        none = share_estimate(np.zeros(40), clusters=np.repeat(np.arange(4), 10))
        assert bounds(none) == (0.0, pytest.approx(1 - 0.025**0.25))

    def test_misses_that_chance_expects_are_no_evidence(self):
        keys = np.repeat(np.arange(40), 2)
        # at one hit in a hundred, most models that guess hit none of 80
        assert share_estimate(np.zeros(80), clusters=keys, null_value=0.01).p_value == 1
        assert share_estimate(np.r_[0.5, np.zeros(79)], null_value=0.01).p_value == 1
        assert share_estimate(np.zeros(80), clusters=keys, null_value=0.5).p_value < 1e-3
        many = share_estimate(np.r_[np.ones(12), np.zeros(68)], clusters=keys, null_value=0.01, alternative="greater")
        assert many.p_value < 0.05

    @pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
    def test_the_least_p_value_is_that_of_independent_hits(self, alternative):
        share = ClusteredShare(0.3, 0.0, 20, 20.0)
        exact = sps.binomtest(6, 20, 0.15, alternative=alternative if alternative != "two-sided" else "greater").pvalue
        assert share.p_value(0.15, alternative) == pytest.approx(exact * (1 + (alternative == "two-sided")))

    def test_one_large_cluster_counts_as_little_more_than_one(self):
        low, _ = share_interval(np.ones(103), clusters=np.r_[np.zeros(100), 1, 2, 3])
        assert low < 0.05

    def test_ties_everywhere_have_a_width(self):
        low, high = bounds(share_estimate([0.5] * 6))
        assert low < 0.2
        assert high > 0.8

    def test_one_cluster_has_none(self):
        found = share_estimate([1.0, 0.0, 1.0], clusters=["a"] * 3)
        assert bounds(found) == (None, None)
        assert found.notes == ("no interval: one independent unit",)

    def test_many_single_values_are_as_wilson_has_them(self):
        values = np.r_[np.ones(700), np.zeros(300)]
        assert share_interval(values, clusters=np.arange(1000)) == pytest.approx(wilson_interval(700, 1000), abs=1e-3)

    def test_scores_that_hardly_vary_keep_the_t_interval(self):
        values = 0.5 + 0.01 * np.random.default_rng(0).normal(size=50)
        assert bounds(share_estimate(values)) == pytest.approx(stats.mean_interval(values), abs=1e-4)

    @settings(deadline=None, max_examples=examples(40))
    @given(st.integers(0, 10**6), st.sampled_from(["t", "percentile", "bootstrap_t"]))
    def test_inside_0_and_1_around_the_mean_and_never_a_point(self, seed, method):
        rng = np.random.default_rng(seed)
        values, keys = clustered_hits(seed, rng.integers(1, 9, int(rng.integers(2, 12))), 0.9, 0.3)
        low, high = share_interval(values, clusters=keys, method=method)
        assert 0 <= low < high <= 1
        if method == "t":
            assert low <= values.mean() <= high

    @pytest.mark.parametrize(
        ("sizes", "share", "alike"),
        [
            ([10] * 4, 0.95, 0.1),
            ([1] * 4, 0.5, 0.02),
            ([20] * 10, 0.9, 0.1),
            ([1, 2, 3, 5, 8, 13, 4, 4], 0.9, 0.2),
            ([5] * 30, 0.8, 0.3),
        ],
    )
    def test_coverage(self, sizes, share, alike, repetitions):
        hits = 0
        for seed in range(repetitions):
            values, keys = clustered_hits(seed, sizes, share, alike)
            low, high = share_interval(values, clusters=keys)
            hits += low <= share <= high
        assert hits / repetitions >= least(repetitions)


def matrices(values, first, codes):
    """Bell and McCaffrey's interval from its definition: the error and the degrees of freedom."""
    x = np.stack([first, ~first], axis=1).astype(float)
    inverse = np.linalg.inv(x.T @ x)
    maker = np.eye(len(values)) - x @ inverse @ x.T
    residual, contrast = maker @ values, inverse @ [1.0, -1.0]
    columns, variance = [], 0.0
    for code in np.unique(codes):
        rows = codes == code
        root, vectors = np.linalg.eigh(maker[np.ix_(rows, rows)])
        adjusted = vectors @ np.diag(1 / np.sqrt(root)) @ vectors.T @ x[rows] @ contrast
        variance += float(adjusted @ residual[rows]) ** 2
        columns.append(maker[rows].T @ adjusted)
    spread = np.linalg.eigvalsh(np.array(columns) @ np.array(columns).T)
    return np.sqrt(variance), spread.sum() ** 2 / (spread**2).sum()


class TestDifferences:
    @settings(deadline=None, max_examples=examples(60))
    @given(st.integers(0, 10**6))
    def test_equals_the_definition_by_matrices(self, seed):
        rng = np.random.default_rng(seed)
        codes = np.concatenate([np.arange(4), np.arange(4), rng.integers(0, 6, int(rng.integers(0, 20)))])
        first = np.concatenate([np.repeat([True, False], 4), rng.random(len(codes) - 8) < 0.5])
        values = rng.normal(size=len(codes))
        error, freedom = matrices(values, first, codes)
        low, high, notes = difference_interval(values, first, codes, level=0.9)
        assert (high + low) / 2 == pytest.approx(values[first].mean() - values[~first].mean())
        assert (high - low) / 2 == pytest.approx(error * sps.t.ppf(0.95, freedom))
        assert notes == ()

    def test_one_of_each_in_every_cluster_is_the_paired_interval(self):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, 9))
        expected = sps.ttest_rel(a, b).confidence_interval()
        found = difference_interval(np.r_[a, b], np.repeat([True, False], 9), np.tile(np.arange(9), 2))
        assert found[:2] == pytest.approx(tuple(expected))

    def test_groups_of_equal_size_are_the_pooled_interval(self):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, 9))
        expected = sps.ttest_ind(a, b).confidence_interval()
        assert difference_interval(np.r_[a, b], np.repeat([True, False], 9))[:2] == pytest.approx(tuple(expected))

    @pytest.mark.parametrize(
        ("ours", "theirs", "size"), [(2, 10, 5), (3, 20, 5), (5, 5, 5), (2, 10, 1), (10, 30, None)]
    )
    def test_coverage_of_groups_in_different_clusters(self, ours, theirs, size, repetitions):
        hits = 0
        for seed in range(repetitions):
            rng = np.random.default_rng(seed)
            sizes = rng.integers(1, 20, ours + theirs) if size is None else size
            keys = np.repeat(np.arange(ours + theirs), sizes)
            values = rng.normal(size=ours + theirs)[keys] + 0.3 * rng.normal(size=len(keys))
            low, high, _ = difference_interval(values, keys < ours, keys)
            hits += low <= 0 <= high
        assert hits / repetitions >= least(repetitions)

    def test_independent_differences_are_newcombes(self):
        # Newcombe (1998), method 10: 56/70 - 48/80
        first = Estimate(56 / 70, *wilson_interval(56, 70))
        second = Estimate(48 / 80, *wilson_interval(48, 80))
        assert independent_difference(first, second) == pytest.approx((0.0524, 0.3339), abs=1e-4)
        assert independent_difference(first, Estimate(0.5)) is None


class TestGroupMeans:
    def test_a_group_of_one_image_has_no_gap_interval_with_clusters_either(self):
        values = np.r_[np.random.default_rng(0).normal(size=60), 3.0]
        groups = Groups.from_values(["a"] * 60 + ["z"])
        for clusters in (None, np.r_[np.arange(60) // 2, 0], np.r_[np.arange(60) // 2, 99]):
            gap = group_means(values, groups, clusters=clusters, permutations=9).gap
            assert bounds(gap) == (None, None)
            assert {"z minus a", "no interval: one of the two groups has one independent unit"} <= set(gap.notes)

    def test_a_group_in_one_cluster_has_none(self):
        keys = np.repeat(np.arange(11), 5)
        groups = Groups.from_values(["A"] * 5 + ["B"] * 50)
        values = np.random.default_rng(0).normal(size=11)[keys]
        assert bounds(group_means(values, groups, clusters=keys, permutations=9).gap) == (None, None)

    def test_nothing_varies(self):
        groups = Groups.from_values(["a", "b"] * 4)
        gap = group_means([2.0, 1.0] * 4, groups, permutations=9).gap
        assert bounds(gap) == (None, None)
        assert gap.notes == ("a minus b", "no interval: nothing varies between independent units")

    def test_misses_that_cancel_in_every_set_leave_shares_an_interval(self):
        groups = Groups.from_values(["a", "a", "b", "b"] * 5)
        gap = group_means(
            [1.0, 0, 1, 0] * 5, groups, share=True, clusters=np.repeat(np.arange(5), 4), permutations=9
        ).gap
        assert gap.ci_low == 0  # a gap is never negative
        assert gap.ci_high > 0.3

    def test_two_groups_that_are_always_right(self):
        groups = Groups.from_values(["a"] * 20 + ["b"] * 20)
        gap = group_means(np.ones(40), groups, share=True, permutations=9).gap
        # 20 of 20 reaches down to 20 / (20 + 1.96²)
        assert bounds(gap) == (0, pytest.approx(0.1611, abs=1e-4))
        paired = group_means(np.ones(40), groups, share=True, clusters=np.tile(np.arange(20), 2), permutations=9).gap
        assert paired.ci_low == 0
        assert paired.ci_high > 0.1

    @pytest.mark.parametrize("mixed", [True, False])
    def test_coverage_of_a_gap_of_shares(self, mixed, repetitions):
        sizes = [6] * 16
        hits = 0
        for seed in range(repetitions):
            values, keys = clustered_hits(seed, sizes, 0.9, 0.15)
            labels = np.tile(["a", "b"], 48) if mixed else np.where(keys < 8, "a", "b")
            gap = group_means(values, Groups.from_values(labels), share=True, clusters=keys, permutations=1).gap
            hits += gap.ci_low <= 0 <= gap.ci_high
        assert hits / repetitions >= least(repetitions)


class TestRecall:
    def test_20_of_20_and_a_group_of_one_image(self):
        groups = Groups.from_values(["a"] * 20 + ["b"])
        found = retrieval.recall_by_group(np.ones(21), groups, 5, clusters=np.arange(21), draws=19)
        assert bounds(found.by_group["a"]) == pytest.approx(wilson_interval(20, 20))
        assert bounds(found.by_group["b"]) == (None, None)
        assert "no interval: one independent unit" in found.by_group["b"].notes
        assert bounds(found.gap) == (None, None)
        assert found.gap.notes == ("a minus b", "no interval: b has none")

    def test_the_captions_of_one_image_are_one_unit(self):
        groups = Groups.from_values(["a"] * 5 + ["b"] * 10)
        keys = np.r_[np.zeros(5), np.repeat([1, 2], 5)]
        found = retrieval.recall_by_group([1, 9, 1, 1, 1] * 3, groups, 5, clusters=keys, draws=19)
        assert bounds(found.by_group["a"]) == (None, None)
        assert found.by_group["b"].ci_high - found.by_group["b"].ci_low > 0.5

    def test_two_groups_that_are_always_found(self):
        groups = Groups.from_values(["a"] * 20 + ["b"] * 20)
        gap = retrieval.recall_by_group(np.ones(40), groups, 5, draws=19).gap
        assert bounds(gap) == (0, pytest.approx(0.1611, abs=1e-4))

    def test_means_of_any_numbers(self):
        groups = Groups.from_values(["a"] * 9 + ["b"] * 3)
        values = np.r_[np.random.default_rng(0).normal(5, 1, 9), 7, 7, 7]
        found = retrieval.gap_by_group(values, groups, draws=19)
        assert bounds(found.by_group["a"]) == pytest.approx(stats.mean_interval(values[:9]))
        assert "no interval: all 3 independent units have the same value" in found.by_group["b"].notes

    def test_a_named_group_without_queries_is_told(self):
        groups = Groups(np.array([0, 1] * 6), ("a", "b", "c"))
        gap = retrieval.gap_by_group(np.arange(12.0), groups, draws=19).gap
        assert "no query of c: left out of the gap" in gap.notes
        assert gap.n_groups == 2

    def test_no_shuffles_are_refused(self):
        with pytest.raises(InputError, match="draws must be a whole number of at least 1, not 0"):
            retrieval.gap_by_group([1.0, 2.0], Groups.from_values(["a", "b"]), draws=0)

    def test_a_median_needs_six_units(self):
        groups = Groups.from_values(["a"] * 5 + ["b"] * 6)
        found = retrieval.median_rank_by_group(np.arange(1, 12), groups, draws=99)
        assert "no interval: 5 independent units are too few for one of 95%" in found.by_group["a"].notes
        assert found.by_group["b"].ci_low < 8.5 < found.by_group["b"].ci_high
        assert bounds(found.gap) == (None, None)

    @pytest.mark.parametrize(
        ("ours", "theirs", "captions", "share"), [(20, 20, 1, 0.9), (5, 40, 5, 0.9), (30, 30, 5, 0.6)]
    )
    def test_coverage(self, ours, theirs, captions, share, repetitions):
        covered = np.zeros(3)
        for seed in range(repetitions):
            hits, keys = clustered_hits(seed, [captions] * (ours + theirs), share, 0.15)
            groups = Groups((keys >= ours).astype(int), ("a", "b"))
            found = retrieval.recall_by_group(np.where(hits, 1, 9), groups, 5, clusters=keys, draws=1)
            estimates = (found.by_group["a"], found.by_group["b"], found.gap)
            covered += [e.ci_low <= true <= e.ci_high for e, true in zip(estimates, (share, share, 0), strict=True)]
        assert (covered / repetitions >= least(repetitions)).all()

    def test_coverage_of_medians(self, repetitions):
        covered = np.zeros(2)
        for seed in range(repetitions):
            rng = np.random.default_rng(seed)
            keys = np.repeat(np.arange(50), 3)
            ranks = 1 + np.exp(2 + 0.7 * rng.normal(size=50)[keys] + 0.7 * rng.normal(size=150))
            groups = Groups((keys >= 20).astype(int), ("a", "b"))
            found = retrieval.median_rank_by_group(ranks, groups, clusters=keys, draws=200, seed=seed)
            one = found.by_group["b"]
            covered += [one.ci_low <= 1 + np.exp(2) <= one.ci_high, found.gap.ci_low <= 0 <= found.gap.ci_high]
        assert (covered / repetitions >= least(repetitions)).all()
