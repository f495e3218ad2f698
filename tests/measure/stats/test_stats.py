"""Statistics: estimates, intervals, permutation p-values, corrections, equivalence, power."""

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure import stats
from equipoise.measure.stats.bootstrap import cluster_sums
from equipoise.measure.stats.estimate import Estimate


class TestEstimate:
    def test_row_has_the_columns_of_a_results_table_in_order(self):
        row = Estimate(1.5, 1.0, 2.0, 1.2, 0.1, 0.01, 30, 12, {"empty pool": 3, "none": 0}, ("note",)).row(
            metric="max_skew", model="m", k=12
        )
        assert (
            list(row)
            == (
                "metric variant suite pool model subject axis group k value null_mean null_sd excess ci_low ci_high "
                "p_value n n_groups notes dropped published side codes"
            ).split()
        )
        assert row["excess"] == pytest.approx(0.3)
        assert row["notes"] == "note; dropped 3 (empty pool)"
        assert row["suite"] is None

    def test_what_does_not_apply_is_none_and_never_nan(self):
        estimate = Estimate(0.5, n=3)
        assert estimate.excess is None
        assert estimate.row()["p_value"] is None
        assert repr(estimate) == "0.5 n = 3"
        with pytest.raises(InputError, match="p_value = NaN"):
            Estimate(0.5, p_value=float("nan"))
        with pytest.raises(UnknownNameError, match="model"):
            estimate.row(modle="m")

    def test_repr_can_be_read(self):
        text = repr(Estimate(1.0, null_mean=0.9, null_low=0.4, null_high=1.4, n=1, notes=("one subject",)))
        assert text == "1 chance 0.9, excess +0.1, n = 1; one subject; chance gives 0.4 to 1.4 in 95% of draws"
        assert Estimate(1.0).with_notes("a", "").notes == ("a",)


class TestIntervals:
    def test_t_interval_equals_scipy(self):
        values = np.random.default_rng(0).normal(3, 2, 40)
        low, high = sps.ttest_1samp(values, 0).confidence_interval()
        assert stats.mean_interval(values) == pytest.approx((low, high))

    def test_clusters_equal_the_interval_of_their_means_when_sizes_are_equal(self):
        rng = np.random.default_rng(1)
        values = rng.normal(size=(30, 4)) + rng.normal(size=(30, 1))
        clustered = stats.mean_interval(values.ravel(), clusters=np.repeat(np.arange(30), 4))
        assert clustered == pytest.approx(stats.mean_interval(values.mean(axis=1)))
        wide, narrow = clustered, stats.mean_interval(values.ravel())
        assert wide[1] - wide[0] > 1.3 * (narrow[1] - narrow[0])

    @pytest.mark.parametrize(("ours", "theirs"), [("percentile", "percentile"), ("bca", "BCa")])
    def test_bootstrap_intervals_equal_scipy(self, ours, theirs):
        values = np.random.default_rng(2).exponential(size=60)
        expected = sps.bootstrap((values,), np.mean, n_resamples=20_000, method=theirs, rng=0).confidence_interval
        assert stats.mean_interval(values, method=ours, replicates=20_000) == pytest.approx(tuple(expected), abs=0.01)

    @pytest.mark.parametrize("method", ["t", "percentile", "bca", "bootstrap_t"])
    def test_coverage_of_clustered_means(self, method):
        hits = 0
        for seed in range(400):
            rng = np.random.default_rng(seed)
            sizes = rng.integers(1, 6, 40)
            keys = np.repeat(np.arange(40), sizes)
            values = rng.normal(size=40)[keys] + 0.5 * rng.normal(size=len(keys))
            low, high = stats.mean_interval(values, clusters=keys, method=method, replicates=400, seed=seed)
            hits += low <= 0 <= high
        assert 0.915 <= hits / 400 <= 0.98

    @pytest.mark.parametrize("method", ["t", "percentile", "bca", "bootstrap_t"])
    def test_no_spread_and_one_cluster_no_interval(self, method):
        assert stats.mean_interval([2.0, 2.0, 2.0], method=method) is None
        assert stats.mean_interval([1.0, 2.0], clusters=["a", "a"], method=method) is None
        assert stats.mean_interval([2.0, 2.0], least_error=1.0)[1] > 2.0

    def test_bad_input_is_a_sentence(self):
        with pytest.raises(InputError, match="row 1 is not finite"):
            stats.mean_interval([1.0, np.nan])
        with pytest.raises(InputError, match=r"clusters has shape \(1,\) for 2 values"):
            stats.mean_interval([1.0, 2.0], clusters=["a"])
        with pytest.raises(UnknownNameError, match="percentile"):
            stats.mean_interval([1.0, 2.0], method="percent")
        with pytest.raises(InputError, match="level = 95"):
            stats.mean_interval([1.0, 2.0], level=95)
        with pytest.raises(InputError, match="at least one value"):
            stats.mean_interval([])
        with pytest.raises(InputError, match="replicates = 0"):
            stats.bootstrap_means([1.0, 2.0], replicates=0)


class TestBootstrap:
    def test_replicates_are_means_of_whole_clusters(self):
        # two clusters with means 0 (3 rows) and 1 (1 row): a replicate has 0, 1 or 2 of each
        draws = stats.bootstrap_means([0.0, 0.0, 0.0, 1.0], clusters=list("aaab"), replicates=4000)
        values, counts = np.unique(draws, return_counts=True)
        assert values.tolist() == [0.0, 0.25, 1.0]
        assert sps.chisquare(counts, [1000, 2000, 1000]).pvalue > 1e-3

    def test_columns_are_drawn_together(self):
        table = np.random.default_rng(0).normal(size=(50, 2))
        both = stats.bootstrap_means(table, replicates=30, seed=4)
        assert both.shape == (30, 2)
        assert both[:, 0] == pytest.approx(stats.bootstrap_means(table[:, 0], replicates=30, seed=4))

    def test_a_function_of_counts(self):
        rng = np.random.default_rng(0)
        counts = rng.multinomial(12, [0.5, 0.3, 0.2], size=200)

        def gap(summed):
            share = summed / summed.sum(axis=1, keepdims=True)
            return share.max(axis=1) - share.min(axis=1)

        draws = stats.bootstrap_statistic(counts, gap, replicates=500)
        slow = [gap(counts[rng.integers(0, 200, 200)].sum(axis=0)[None])[0] for _ in range(500)]
        assert draws.mean() == pytest.approx(np.mean(slow), abs=0.003)
        assert draws.std() == pytest.approx(np.std(slow), rel=0.15)
        with pytest.raises(InputError, match="one row per query"):
            stats.bootstrap_statistic([1, 2], gap)

    def test_a_thousand_replicates_over_a_thousand_queries_take_a_fraction_of_a_second(self):
        values = np.random.default_rng(0).random(1000)
        start = time.process_time()
        draws = stats.bootstrap_means(values, replicates=1000)
        assert time.process_time() - start < 1.0
        assert draws.std() == pytest.approx(values.std() / 1000**0.5, rel=0.1)

    def test_cluster_sums_keep_every_row(self):
        sums = cluster_sums([1.0, 2.0, 4.0], ["b", "a", "b"])
        assert sums.sums.ravel().tolist() == [2.0, 5.0]
        assert sums.mean[0] == pytest.approx(7 / 3)


class TestPermutation:
    def test_plus_one_rule_and_ties(self):
        assert stats.p_values(5.0, np.zeros(99)).value == 0.01
        assert stats.p_values(0.0, np.zeros(99)).value == 1.0
        assert stats.p_values(1.0, [1.0 + 1e-14, 0.0, 2.0]).value == 0.75
        assert stats.p_values(1.0, [0.0, 2.0, 3.0], alternative="less").value == 0.5
        assert stats.p_values(9.0, np.arange(99.0), alternative="two-sided").value == pytest.approx(2 * 11 / 100)

    @pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
    def test_randomised_p_values_of_a_coarse_statistic_are_uniform(self, alternative):
        rng = np.random.default_rng(0)
        draws = rng.binomial(3, 0.5, size=(3000, 60)).astype(float)
        found = [stats.p_values(row[0], row[1:], alternative=alternative, rng=rng) for row in draws]
        assert sps.kstest([p.randomised for p in found], "uniform").pvalue > 0.001
        for alpha in (0.05, 0.2, 0.5):
            assert np.mean([p.value <= alpha for p in found]) <= alpha + 0.02

    @settings(deadline=None, max_examples=examples(60))
    @given(st.lists(st.integers(-4, 4), min_size=1, max_size=8), st.sampled_from(["greater", "less", "two-sided"]))
    def test_exact_sign_flips_equal_enumeration(self, gaps, alternative):
        sums = np.array([np.dot(signs, gaps) for signs in product([1, -1], repeat=len(gaps))])
        seen = sum(gaps)
        extreme = {
            "greater": sums >= seen,
            "less": sums <= seen,
            "two-sided": np.abs(sums) >= abs(seen),
        }[alternative]
        test = stats.sign_flip(np.array(gaps, dtype=float) / 7, alternative=alternative)
        assert test.exact
        assert test.p_value == pytest.approx(extreme.mean())
        assert test.null_sd == pytest.approx((sums / len(gaps) / 7).std())

    def test_random_sign_flips_agree_with_exact_ones(self):
        gaps = np.random.default_rng(1).normal(0.5, 1, 12)
        exact = stats.sign_flip(gaps)
        drawn = stats.sign_flip(gaps, exact_limit=0, draws=40_000)
        assert not drawn.exact
        assert drawn.p_value == pytest.approx(exact.p_value, abs=0.01)

    def test_columns_with_missing_values_stand_alone(self):
        table = np.array([[1.0, 2.0], [np.nan, 3.0], [2.0, -1.0]])
        both = stats.sign_flip(table)
        for column in range(2):
            one = stats.sign_flip(table[~np.isnan(table[:, column]), column])
            assert both.value[column] == pytest.approx(one.value)
            assert both.p_value[column] == pytest.approx(one.p_value)
            assert both.null_sd[column] == pytest.approx(one.null_sd)

    def test_permutation_test_of_a_difference_of_means(self):
        x = np.random.default_rng(2).normal(size=30) + np.repeat([0.0, 1.2], 15)
        sides = np.repeat([-1.0, 1.0], 15) / 15
        _, null, p = stats.permutation_test(lambda order: x[order] @ sides, 30, draws=1999)
        reference = sps.permutation_test(
            (x[15:], x[:15]), lambda a, b: a.mean() - b.mean(), alternative="greater", rng=0
        )
        assert p.value == pytest.approx(reference.pvalue, abs=0.01)
        assert len(null) == 1999

    def test_bad_input_is_a_sentence(self):
        with pytest.raises(InputError, match="draws is empty"):
            stats.p_values(1.0, [])
        with pytest.raises(InputError, match="must be finite"):
            stats.p_values(np.nan, [1.0])
        with pytest.raises(UnknownNameError, match="two-sided"):
            stats.p_values(1.0, [1.0], alternative="two sided")
        with pytest.raises(InputError, match="column 1 has no value"):
            stats.sign_flip([[1.0, np.nan]])
        with pytest.raises(InputError, match="at least one difference"):
            stats.sign_flip([])
        with pytest.raises(InputError, match="draws = 0"):
            stats.permutation_test(lambda order: order[:, 0], 3, draws=0)


class TestCorrections:
    def test_holm_by_hand(self):
        assert stats.holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
        assert stats.holm([0.6, 0.9]).tolist() == [1.0, 1.0]

    @settings(deadline=None, max_examples=examples(50))
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
    def test_benjamini_hochberg_equals_scipy_and_holm_its_definition(self, p):
        assert stats.benjamini_hochberg(p) == pytest.approx(sps.false_discovery_control(p))
        order = sorted(range(len(p)), key=lambda i: p[i])
        running, adjusted = 0.0, {}
        for place, i in enumerate(order):
            running = max(running, (len(p) - place) * p[i])
            adjusted[i] = min(1.0, running)
        assert stats.holm(p) == pytest.approx([adjusted[i] for i in range(len(p))])

    def test_not_a_p_value(self):
        with pytest.raises(InputError, match=r"p_values\[1\] = 1.5"):
            stats.holm([0.1, 1.5])
        with pytest.raises(InputError, match="p_values"):
            stats.benjamini_hochberg([np.nan])
        assert stats.holm([]).size == 0


class TestPower:
    def test_equivalence_by_hand(self):
        values = np.random.default_rng(0).normal(0.02, 0.1, 50)
        found = stats.equivalence(values, -0.1, 0.1)
        low = sps.ttest_1samp(values, -0.1, alternative="greater").pvalue
        high = sps.ttest_1samp(values, 0.1, alternative="less").pvalue
        assert (found.p_low, found.p_high) == pytest.approx((low, high))
        assert found.p_value == max(low, high)
        assert stats.equivalence(values[:3], -0.01, 0.01).p_value > 0.05

    @pytest.mark.parametrize("value", [0.0, 0.1, 2.0])
    def test_values_that_are_all_alike_show_no_equivalence(self, value):
        found = stats.equivalence([value] * 3, -1, 1)
        assert (found.p_low, found.p_high, found.p_value) == (1.0, 1.0, 1.0)

    def test_equivalence_keeps_its_level_at_the_bound(self):
        rng = np.random.default_rng(1)
        wrong = [stats.equivalence(rng.normal(0.5, 1, 30), -0.5, 0.5).p_value <= 0.05 for _ in range(1000)]
        assert np.mean(wrong) <= 0.05 + 0.02

    @pytest.mark.parametrize(("n", "effect"), [(34, 0.4953), (20, 0.6604), (10, 0.9968)])
    def test_minimum_detectable_effect_has_the_power_it_claims(self, n, effect):
        found = stats.minimum_detectable_effect(sd=1.0, n=n)
        assert found == pytest.approx(effect, abs=0.003)
        draws = np.random.default_rng(n).normal(found, 1.0, size=(4000, n))
        assert (sps.ttest_1samp(draws, 0, axis=1).pvalue <= 0.05).mean() == pytest.approx(0.8, abs=0.025)

    def test_from_values_and_clusters(self):
        values = np.random.default_rng(0).normal(size=60)
        direct = stats.minimum_detectable_effect(sd=float(values.std(ddof=1)), n=60)
        assert stats.minimum_detectable_effect(values) == pytest.approx(direct)
        alike = np.repeat(values[:12], 5)
        clustered = stats.minimum_detectable_effect(alike, clusters=np.repeat(np.arange(12), 5))
        assert clustered > 2 * stats.minimum_detectable_effect(alike)

    def test_bad_input_is_a_sentence(self):
        with pytest.raises(InputError, match="below the upper"):
            stats.equivalence([1.0, 2.0], 1, 0)
        with pytest.raises(InputError, match="at least 2"):
            stats.equivalence([1.0], -1, 1)
        with pytest.raises(InputError, match="both sd and n"):
            stats.minimum_detectable_effect(sd=1.0)
        with pytest.raises(InputError, match="n = 1"):
            stats.minimum_detectable_effect(sd=1.0, n=1)
        with pytest.raises(InputError, match="power"):
            stats.minimum_detectable_effect(sd=1.0, n=9, power=1.2)


class TestSummaries:
    def test_comparison_is_paired(self):
        rng = np.random.default_rng(0)
        hard = rng.normal(0, 5, 200)
        a, b = hard + rng.normal(0.3, 0.5, 200), hard + rng.normal(0, 0.5, 200)
        found = stats.compare(a, b)
        assert found.value == pytest.approx((a - b).mean())
        assert found.p_value < 0.001
        assert found.ci_low > 0
        assert stats.compare(a, rng.permutation(b)).p_value > 0.01
        with pytest.raises(InputError, match=r"values_a has shape \(200,\) and values_b \(3,\)"):
            stats.compare(a, b[:3])

    def test_clusters_are_flipped_as_one(self):
        # four clusters: at most 16 sign patterns, so no p-value below 1/8
        found = stats.compare(np.ones(40) + 0.001 * np.arange(40), np.zeros(40), clusters=np.repeat(np.arange(4), 10))
        assert found.p_value == 0.125
        assert found.n == 40

    def test_null_value_and_its_spread(self):
        values = np.array([0.7, 0.9, 0.4, 0.6])
        found = stats.summarise(values, null_value=0.5, alternative="greater")
        assert found.null_mean == 0.5
        assert found.null_sd == pytest.approx(np.sqrt(((values - 0.5) ** 2).sum()) / 4)
        assert found.excess == pytest.approx(0.15)
        plain = stats.summarise([0.5], notes=("why",), dropped={"x": 2}, n_groups=3)
        assert plain.notes == ("why", "no interval: one independent unit")
        assert (plain.null_mean, plain.p_value, plain.n_groups) == (None, None, 3)
