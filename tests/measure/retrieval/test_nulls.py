"""Nulls are right: exact laws against enumeration, shuffles, the chance table, and simulated unbiased models."""

from importlib import import_module
from itertools import combinations, permutations
from math import log

import numpy as np
import pytest
from scipy import stats as sps
from tests.simulations.bands import within

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure import retrieval as r

CHANCE_TABLE = {
    # groups = K: mean MaxSkew@K of random rankings of n complete sets, n = 2, 6, 13, 50, 500
    12: (0.692, 0.939, 0.988, 1.014, 1.024),
    10: (0.689, 0.901, 0.940, 0.974, 0.976),
    30: (0.693, 1.123, 1.184, 1.217, 1.230),
    60: (0.693, 1.217, 1.293, 1.333, 1.344),
}


class TestLaws:
    @pytest.mark.parametrize("n_groups", CHANCE_TABLE)
    def test_chance_table(self, n_groups):
        for sets, expected in zip((2, 6, 13, 50, 500), CHANCE_TABLE[n_groups], strict=True):
            assert r.max_skew_law([sets] * n_groups, n_groups).mean == pytest.approx(expected, abs=0.01)
        assert r.max_skew_law([1] * n_groups, n_groups).mean == 0.0

    def test_the_null_that_is_drawn_has_the_same_mean(self):
        groups = r.Groups(np.tile(np.arange(12), 13), tuple(map(str, range(12))))
        found = r.evaluate(r.Scores(np.random.default_rng(0).random((1, 156))), groups, k=12, metrics=["max_skew"])
        null = r.chance(found, draws=20_000)
        assert null.mean["max_skew"][0] == pytest.approx(r.max_skew_law([13] * 12, 12).mean, abs=0.008)
        assert null.sd["max_skew"][0] == pytest.approx(r.max_skew_law([13] * 12, 12).sd, abs=0.008)

    @pytest.mark.parametrize(("k", "expected"), [(25, 0.156), (100, 0.078)])
    def test_two_unequal_groups(self, k, expected):
        assert r.max_skew_law([1275, 539], k).mean == pytest.approx(expected, abs=0.01)

    @pytest.mark.parametrize(("k", "expected"), [(25, 0.1445), (100, 0.0751)])
    def test_two_equal_groups_in_a_large_pool(self, k, expected):
        assert r.max_skew_law([10**6, 10**6], k).mean == pytest.approx(expected, abs=1e-4)

    @pytest.mark.parametrize(
        ("pool", "k", "desired"),
        [([3, 2, 4], 4, "pool"), ([1, 5, 2], 3, "uniform"), ([6], 4, "pool"), ([2, 0, 3], 9, "pool")],
    )
    def test_exact_law_equals_enumeration(self, pool, k, desired):
        labels = np.repeat(np.arange(len(pool)), pool)
        share = r.desired_shares(desired, pool)
        picks = list(combinations(range(len(labels)), min(k, len(labels))))
        values = [float(r.max_skew(np.bincount(labels[list(pick)], minlength=len(pool)), share)) for pick in picks]
        law = r.max_skew_law(pool, k, desired=desired)
        assert law.mean == pytest.approx(np.mean(values), abs=1e-12)
        assert law.sd == pytest.approx(np.std(values), abs=1e-12)
        assert law.probabilities.sum() == pytest.approx(1, abs=1e-12)
        for value, chance in zip(law.values, law.probabilities, strict=True):
            assert chance == pytest.approx(np.isclose(values, value, atol=1e-9).mean(), abs=1e-12)

    def test_quantiles_and_samples_follow_the_law(self):
        law = r.DiscreteLaw(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.3, 0.2]))
        assert [law.quantile(q) for q in (0.5, 0.51, 0.8, 0.99)] == [0.0, 1.0, 1.0, 2.0]
        drawn = law.sample(20_000, np.random.default_rng(0))
        counts = [(drawn == value).sum() for value in law.values]
        assert sps.chisquare(counts, 20_000 * law.probabilities).pvalue > 1e-3

    def test_bias_at_k_of_a_random_model_with_most_images_undefined(self):
        groups = r.Groups(np.repeat([0, 1, -1], [1275, 539, 3186]), ("male", "female"))
        scores = np.random.default_rng(0).random((1000, 5000), dtype=np.float32)
        for k, expected in ((5, 0.363), (10, 0.401)):
            found = r.evaluate(r.Scores(scores), groups, k=k, pair=("male", "female"), metrics=["bias_at_k"])
            null = r.chance(found, draws=100)
            assert null.mean["bias_at_k"].mean() == pytest.approx(expected, abs=0.012)
            # a top K without anybody is an outcome, not a query that can show nothing
            row = r.summary(found, null)[0].estimate
            assert (row.value, row.n) == (found.values["bias_at_k"].mean(), 1000)
            assert (null.sd["bias_at_k"] == 0).any()


class TestTelling:
    """Queries that can show nothing are left out; those that show parity are not."""

    def twins(self, firsts, k=2, sets_each=4):
        """For each subject the images (set, group) ranked first; then all others."""
        sub, sets, group = (a.ravel() for a in np.indices((len(firsts), sets_each, 2)))
        scores = -np.arange(len(sub), dtype=float)
        for subject, images in enumerate(firsts):
            for place, (number, label) in enumerate(images):
                scores[(sub == subject) & (sets == number) & (group == label)] = 100 - place
        pools = r.Candidates(sub, np.arange(len(firsts)))
        found = r.evaluate(
            r.Scores(np.tile(scores, (len(firsts), 1))),
            r.Groups(group, ("f", "m")),
            k=k,
            candidates=pools,
            pair=("m", "f"),
        )
        return found, r.chance(found, sets=sub * sets_each + sets, draws=400)

    def test_a_query_that_ranks_twins_first_shows_parity_and_counts(self):
        parity, men = [(0, 0), (0, 1)], [(0, 1), (1, 1)]
        found, null = self.twins([parity, parity, parity, men])
        rows = {row.metric: row.estimate for row in r.summary(found, null) if row.group is None}
        assert (rows["max_skew"].value, rows["max_skew"].n) == (pytest.approx(np.log(2) / 4), 4)
        assert rows["max_skew"].null_mean == pytest.approx(np.log(2) / 2 / 4, abs=0.02)  # two coins of one subject
        assert rows["max_skew"].p_value == pytest.approx(0.5, abs=0.08)
        assert (rows["bias_at_k"].value, rows["bias_at_k"].n) == (0.25, 4)
        single = [row for row in r.per_query(found, null) if row.metric == "max_skew"]
        assert [row.estimate.value for row in single] == pytest.approx([0, 0, 0, np.log(2)])
        assert [row.estimate.p_value for row in single][:3] == [1, 1, 1]

    def test_a_pool_no_larger_than_k_shows_nothing_unless_its_order_matters(self):
        found, null = self.twins([[(0, 1), (1, 1)]] * 2, k=8)
        metrics = {row.metric for row in r.summary(found, null)}
        assert metrics.isdisjoint({"max_skew", "bias_at_k", "representation"})
        assert {"ndkl", "exposure_gap"} <= metrics

    def test_a_pool_without_a_label_that_can_move_shows_nothing(self):
        # each set of the second subject shows one group
        group = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1])
        sets = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5])
        subject = np.repeat([0, 1], [8, 6])
        scores = np.tile(np.arange(14.0), (2, 1))
        pools = r.Candidates(subject, [0, 1])
        found = r.evaluate(r.Scores(scores), r.Groups(group, ("f", "m")), k=3, candidates=pools, metrics=["max_skew"])
        assert r.summary(found, r.chance(found, sets=sets, draws=50))[0].estimate.n == 1


class TestDraws:
    @pytest.mark.parametrize(("pool", "length"), [([4, 3, 2], 4), ([400, 300, 200], 4), ([2, 1], 9)])
    def test_random_rankings_are_uniform(self, pool, length):
        # nine images are permuted, nine hundred drawn without replacement by rejection
        lists = r.random_rankings(pool, length, 30_000, np.random.default_rng(0))
        total = sum(pool)
        assert lists.shape == (30_000, min(length, total))
        seen = np.bincount(lists[:, 0] * 3 + lists[:, -1], minlength=9)
        expected = np.array(
            [[a * (b - (i == j)) for j, b in enumerate([*pool, 0][:3])] for i, a in enumerate([*pool, 0][:3])]
        )
        wanted = expected.ravel() / (total * (total - 1)) * 30_000
        assert seen[wanted == 0].sum() == 0
        assert sps.chisquare(seen[wanted > 0], wanted[wanted > 0]).pvalue > 1e-3

    def test_hypergeometric_counts_agree_with_scipy(self):
        counts = r.hypergeometric_counts([5, 3, 2], 4, 20_000, np.random.default_rng(1))
        kinds, seen = np.unique(counts, axis=0, return_counts=True)
        wanted = sps.multivariate_hypergeom(m=[5, 3, 2], n=4).pmf(kinds) * 20_000
        assert wanted.sum() == pytest.approx(20_000)
        assert sps.chisquare(seen, wanted).pvalue > 1e-3

    def test_shuffles_are_uniform_inside_blocks_of_any_size(self):
        labels = np.array([0, 1, 2, 0, 1, 3, 3])
        blocks = np.array(["a", "b", "a", "b", "a", "c", "c"])
        rows = r.LabelShuffler(labels, blocks)(12_000, np.random.default_rng(0))
        assert (rows[:, 5:] == 3).all()
        assert (np.sort(rows[:, [1, 3]], axis=1) == [0, 1]).all()
        orders = [list(order) for order in permutations([0, 2, 1])]
        seen = [(rows[:, [0, 2, 4]] == order).all(axis=1).sum() for order in orders]
        assert sum(seen) == 12_000
        assert sps.chisquare(seen).pvalue > 1e-3
        # blocks are shuffled independently
        table = sps.contingency.crosstab(rows[:, 1], rows[:, 0]).count
        assert sps.chi2_contingency(table).pvalue > 1e-3

    def test_within_set_null_equals_enumeration(self):
        # two sets of three groups; the top 3 holds two images of set 0 and one of set 1
        labels, sets = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
        groups = r.Groups(labels, tuple("abc"))
        found = r.evaluate(
            r.Scores([[9.0, 8.0, 1.0, 7.0, 0.5, 0.2]]), groups, k=3, metrics=["max_skew", "ndkl"], depth=3
        )
        null = r.chance(found, sets=sets, draws=20_000)
        assert null.kind == "within_set"
        lists = [(*a[:2], b[0]) for a in permutations(range(3)) for b in permutations(range(3))]
        ndkl = r.ndkl(np.array(lists), np.full(3, 1 / 3))
        skew = np.array([log(max(top.count(g) for g in range(3))) for top in lists])
        assert null.mean["max_skew"][0] == pytest.approx(skew.mean(), abs=0.01)
        assert null.sd["max_skew"][0] == pytest.approx(skew.std(), abs=0.01)
        assert null.mean["ndkl"][0] == pytest.approx(ndkl.mean(), abs=0.01)

    def test_sets_of_one_image_are_shuffled_over_their_pool(self):
        # every image a set of its own: the within-set null is that of no sets, and a bias stays a bias
        labels = np.arange(60) % 2
        groups, pools = r.Groups(labels, ("a", "b")), np.repeat([0, 1, 2], 20)
        scores = np.random.default_rng(0).random((3, 60)) + 3 * (labels == 0)
        candidates = r.Candidates(pools, np.arange(3))
        found = r.evaluate(r.Scores(scores), groups, k=5, metrics=["max_skew"], candidates=candidates)
        null = r.chance(found, sets=np.arange(60), draws=2000)
        plain = r.chance(found, draws=2000)
        assert null.mean["max_skew"] == pytest.approx(plain.mean["max_skew"], abs=0.02)
        assert null.sd["max_skew"] == pytest.approx(plain.sd["max_skew"], abs=0.02)
        assert null.notes == ("60 of 60 sets show one group; chance exchanges the labels of such sets",)
        row = next(row.estimate for row in r.summary(found, null) if row.metric == "max_skew")
        assert row.p_value < 0.01
        assert null.notes[0] in row.notes

    def test_sets_of_one_group_move_as_wholes(self):
        # four sets of two images alike; their labels can be exchanged in 6 ways, and images of a set stay together
        labels, sets = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.repeat(np.arange(4), 2)
        groups = r.Groups(labels, ("a", "b"))
        found = r.evaluate(r.Scores([np.arange(8.0)[::-1]]), groups, k=4, metrics=["representation"])
        null = r.chance(found, sets=sets, draws=12_000)
        share = null.suite["representation"][:, 0]
        seen = [(np.abs(share - level) < 1e-9).sum() for level in (0.0, 0.5, 1.0)]
        assert sum(seen) == 12_000
        assert sps.chisquare(seen, [2000, 8000, 2000]).pvalue > 1e-3

    def test_sets_that_can_move_and_sets_that_cannot(self):
        labels = np.array([0, 1, 0, 1, 0, 0, 1])
        sets = np.array([0, 0, 1, 1, 2, 3, 3])  # set 2 has no other set of its size to exchange labels with
        groups = r.Groups(labels, ("a", "b"))
        found = r.evaluate(r.Scores([np.arange(7.0)]), groups, k=7, metrics=["exposure_gap"])
        null = r.chance(found, sets=sets, draws=50)
        assert null.kind == "within_set"
        assert null.notes == ("1 of 7 images keep their label under chance: no partner that differs in it alone",)
        assert null.sd["exposure_gap"][0] > 0

    def test_labels_that_cannot_move_at_all_are_shuffled_over_the_pool(self):
        labels, sets = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1])
        groups = r.Groups(labels, ("a", "b"))
        found = r.evaluate(r.Scores([[5.0, 4, 3, 2, 1]]), groups, k=2, metrics=["max_skew"])
        null = r.chance(found, sets=sets, draws=200)
        assert null.kind == "random_ranking"
        assert null.sd["max_skew"][0] > 0
        assert "over each pool" in null.notes[0]

    def test_complete_sets_need_no_note(self):
        groups = r.Groups(np.arange(30) % 3, tuple("abc"))
        found = r.evaluate(r.Scores(np.random.default_rng(0).random((4, 30))), groups, k=5)
        assert r.chance(found, sets=np.arange(30) // 3, draws=20).notes == ()

    def test_queries_that_share_a_pool_share_their_luck(self):
        rng = np.random.default_rng(0)
        groups = r.Groups(rng.integers(0, 2, 100), ("a", "b"))
        same = np.tile(rng.random(100), (50, 1))
        found = r.evaluate(r.Scores(same), groups, k=10, metrics=["max_skew"])
        shuffled = r.chance(found, draws=2000)
        assert shuffled.kind == "label_shuffle"
        # fifty copies of one query are one query: the mean varies as one of them does
        assert shuffled.suite["max_skew"].std() == pytest.approx(shuffled.sd["max_skew"][0], rel=1e-6)
        independent = r.chance(found, kind="random_ranking", draws=2000)
        assert independent.suite["max_skew"].std() == pytest.approx(independent.sd["max_skew"][0] / 50**0.5, rel=0.1)
        assert independent.mean["max_skew"].mean() == pytest.approx(shuffled.mean["max_skew"].mean(), abs=0.01)

    def test_shuffles_stay_inside_the_pool(self):
        # pool 0 has only group a, pool 1 only group b: no shuffle may mix them
        groups = r.Groups(np.repeat([0, 1], 20), ("a", "b"))
        candidates = r.Candidates(np.repeat([0, 1], 20), np.array([0, 0, 1, 1]))
        scores = np.random.default_rng(0).random((4, 40))
        found = r.evaluate(r.Scores(scores), groups, k=4, pair=("a", "b"), candidates=candidates)
        null = r.chance(found, sets=np.zeros(40), draws=50)
        assert null.sd["bias_at_k"].max() == 0
        assert null.mean["bias_at_k"].tolist() == [1, 1, -1, -1]

    def test_undefined_images_keep_their_slots_in_every_draw(self):
        rng = np.random.default_rng(2)
        groups = r.Groups(rng.choice([-1, 0, 1, 2], 80, p=[0.3, 0.4, 0.1, 0.2]), tuple("abc"))
        found = r.evaluate(r.Scores(rng.random((6, 80))), groups, k=8, pair=("a", "b"))
        labelled = groups.defined[found.pair_indices].mean(axis=1)
        assert len(set(labelled)) > 2
        share = groups.counts() / groups.counts().sum()
        for kind in ("label_shuffle", "random_ranking"):
            null = r.chance(found, kind=kind, draws=3000)
            assert null.mean["representation"].mean(axis=0) == pytest.approx(share, abs=0.01)
            assert null.mean["bias_count_at_k"] == pytest.approx((share[0] - share[1]) * labelled, abs=0.02)

    @pytest.mark.parametrize("kind", ["label_shuffle", "random_ranking", "within_set"])
    def test_bias_is_held_against_lists_with_as_many_people(self, kind):
        # one of the top 3 has a group: whichever it is, the absolute bias is 1, as it is under chance
        groups = r.Groups(np.array([-1, -1, 0, -1, 0, 1, 1, -1]), ("a", "b"))
        found = r.evaluate(r.Scores([np.arange(8.0)[::-1]]), groups, k=3, pair=("a", "b"), metrics=["abs_bias_at_k"])
        null = r.chance(found, kind=kind, sets=np.zeros(8) if kind == "within_set" else None, draws=200)
        assert null.mean["abs_bias_at_k"].tolist() == found.values["abs_bias_at_k"].tolist() == [1.0]

    @pytest.mark.parametrize("names", ["ab", "abcd"])
    def test_lists_without_any_person_show_no_bias_by_chance_either(self, names):
        # two images without a group come first: no ranking of the others brings a person among the top 2
        groups = r.Groups(np.array([-1, -1, -1, 0, 1, 0, 1]), tuple(names))
        found = r.evaluate(r.Scores([np.arange(7.0)[::-1]]), groups, k=2, pair=("a", "b"))
        for kind in ("label_shuffle", "random_ranking"):
            assert r.chance(found, kind=kind, draws=20).mean["bias_at_k"].tolist() == [0.0]

    @pytest.mark.parametrize("kind", ["label_shuffle", "random_ranking"])
    def test_lists_that_ties_make_longer_are_as_long_under_chance(self, kind):
        # two of five images tie at rank 2: three of the five are counted, and divided by K = 2
        groups = r.Groups(np.array([0, 1, 0, 1, 0]), ("a", "b"))
        scores = [[5.0, 4.0, 4.0, 2.0, 1.0], [5.0, 4.0, 3.0, 2.0, 1.0]]
        found = r.evaluate(r.Scores(scores), groups, k=2, variant="berg", desired="pool")
        null = r.chance(found, kind=kind, draws=4000)
        assert null.mean["representation"].sum(axis=1) == pytest.approx([1.5, 1.0])
        assert null.mean["representation"][:, 0] == pytest.approx([0.9, 0.6], abs=0.03)

    def test_same_seed_same_draws(self):
        groups = r.Groups(np.arange(30) % 3, tuple("abc"))
        found = r.evaluate(r.Scores(np.random.default_rng(0).random((4, 30))), groups, k=5)
        one, two = (r.chance(found, draws=50, seed=9) for _ in range(2))
        assert all((one.suite[name] == two.suite[name]).all() for name in one.suite)
        assert (r.chance(found, draws=50, seed=8).suite["ndkl"] != one.suite["ndkl"]).any()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"draws": 1}, "draws = 1"),
            ({"kind": "within_set"}, "needs sets"),
            ({"sets": [0, 1]}, "for 30 images"),
            ({"strata": np.zeros(30, dtype=int)}, "give sets too"),
            ({"kind": "label_shuffle", "strata": np.zeros(30, dtype=int)}, "so leave them out"),
            (
                {"kind": "random_ranking", "sets": np.zeros(30), "strata": np.zeros(30, dtype=int)},
                "no use with kind='random_ranking', so leave them out",
            ),
        ],
    )
    def test_bad_input_is_a_sentence(self, arguments, words):
        groups = r.Groups(np.arange(30) % 3, tuple("abc"))
        found = r.evaluate(r.Scores(np.random.default_rng(0).random((4, 30))), groups, k=5)
        with pytest.raises(InputError, match=words):
            r.chance(found, **arguments)
        with pytest.raises(UnknownNameError):
            r.chance(found, kind="random")
        with pytest.raises(InputError, match="pool_counts"):
            r.random_rankings([0, 0], 3, 1, np.random.default_rng(0))
        with pytest.raises(InputError, match="k = 0"):
            r.max_skew_law([3, 3], 0)
        for pool, shares, group in (([6, 4], [1.0, 0.0], 1), ([6, 0], [0.0, 1.0], 0)):
            with pytest.raises(InputError, match=f"desired gives group {group} the share 0 but it is in the pool"):
                r.max_skew_law(pool, 2, desired=shares)
        assert r.max_skew_law([6, 0], 2, desired=[1.0, 0.0]).values.tolist() == [0.0]


class TestSummary:
    def test_one_query_carries_quantiles_of_chance_and_no_interval(self):
        groups = r.Groups(np.arange(60) % 3, tuple("abc"))
        found = r.evaluate(r.Scores(np.random.default_rng(0).random((1, 60))), groups, k=6)
        null = r.chance(found, draws=500)
        for row in r.summary(found, null):
            if row.group is None:
                assert row.estimate.ci_low is None
                assert row.estimate.null_low <= row.estimate.null_mean <= row.estimate.null_high
                assert "no interval: one independent unit" in row.estimate.notes
        singles = {one.metric: one for one in r.per_query(found, null)}
        assert singles["max_skew"].estimate.p_value == next(
            row.estimate.p_value for row in r.summary(found, null) if row.metric == "max_skew"
        )

    def test_too_many_queries_to_keep_every_draw_are_said_so(self, monkeypatch):
        groups = r.Groups(np.arange(60) % 3, tuple("abc"))
        found = r.evaluate(r.Scores(np.random.default_rng(0).random((5, 60))), groups, k=6, metrics=["max_skew"])
        kept = list(r.per_query(found, r.chance(found, draws=50)))
        monkeypatch.setattr(import_module("equipoise.measure.retrieval.chance"), "KEPT_CELLS", 100)
        lean = list(r.per_query(found, r.chance(found, draws=50)))
        assert [one.estimate.null_mean for one in lean] == [one.estimate.null_mean for one in kept]
        assert all(one.estimate.p_value is not None for one in kept)
        assert all("too many queries" in one.row()["notes"] for one in lean)

    def test_a_biased_model_is_found_and_its_groups_named(self):
        rng = np.random.default_rng(0)
        groups = r.Groups(np.tile(np.arange(4), 300), tuple("abcd"))
        subject = np.repeat(np.arange(30), 40)
        scores = rng.random((30, 1200)) + 0.5 * (groups.labels == 2)
        found = r.evaluate(
            r.Scores(scores), groups, k=8, pair=("c", "a"), candidates=r.Candidates(subject, np.arange(30))
        )
        rows = {(row.metric, row.group): row for row in r.summary(found, r.chance(found, draws=500))}
        for metric in ("max_skew", "ndkl", "exposure_gap", "bias_at_k"):
            assert rows[metric, None].estimate.p_value == pytest.approx(1 / 501, rel=1.01)
            assert rows[metric, None].estimate.excess > 0
        for group in "abcd":
            estimate = rows["representation", group].estimate
            assert (estimate.excess > 0) == (group == "c")
            assert estimate.p_value < 0.01
            assert np.sign(rows["skew", group].estimate.value) == np.sign(estimate.excess)
        assert rows["max_skew", None].row(model="m")["k"] == 8
        assert rows["exposure_ratio", None].estimate.excess < 0

    def test_clusters_widen_the_interval(self):
        rng = np.random.default_rng(1)
        groups = r.Groups(np.arange(90) % 3, tuple("abc"))
        scores = np.repeat(rng.random((12, 90)), 5, axis=0)
        found = r.evaluate(r.Scores(scores), groups, k=6, metrics=["max_skew"])
        alone = r.summary(found)[0].estimate
        together = r.summary(found, clusters=np.repeat(np.arange(12), 5))[0].estimate
        assert together.ci_high - together.ci_low > 2 * (alone.ci_high - alone.ci_low)
        assert together.null_mean is None
        for keys in ([1, 2], np.zeros(61)):
            with pytest.raises(InputError, match="for 60 queries; give one key per query"):
                r.summary(found, clusters=keys)

    @pytest.mark.parametrize("draws", [0, 200])
    def test_skew_compares_with_what_the_same_queries_should_show(self, draws):
        # four pools of ten and ten in turn, and eight of two images of one group: these show nothing, either because
        # chance gives them no other, or because they are not ranked at all
        sizes = [20] * 4 + [2] * 8
        pools = np.repeat(np.arange(12), sizes)
        place = np.concatenate([np.arange(n) for n in sizes])
        groups = r.Groups(np.where(pools < 4, place % 2, 0), ("a", "b"))
        scores = np.where((pools < 4) | (draws > 0), -place, 0.0)[None].repeat(12, axis=0)
        found = r.evaluate(r.Scores(scores), groups, k=10, candidates=r.Candidates(pools, np.arange(12)))
        rows = r.summary(found, r.chance(found, draws=draws) if draws else None)
        skew = [row.estimate for row in rows if row.metric == "skew"]
        assert [e.value for e in skew] == pytest.approx([0, 0], abs=1e-9)
        assert [e.n for e in skew] == [4, 4]

    def test_values_without_spread_take_the_spread_of_chance(self):
        groups = r.Groups(np.tile(np.arange(4), 12 * 10), tuple("abcd"))
        subject = np.repeat(np.arange(12), 40)
        scores = np.random.default_rng(0).random((12, 480)) + 9.0 * (groups.labels == 1)
        candidates = r.Candidates(subject, np.arange(12))
        found = r.evaluate(r.Scores(scores), groups, k=4, metrics=["max_skew"], candidates=candidates)
        estimate = r.summary(found, r.chance(found, draws=200))[0].estimate
        assert estimate.value == pytest.approx(log(4))
        # ln 4 is the most that four groups as frequent can show, so the interval ends there
        assert estimate.ci_low < estimate.value == estimate.ci_high
        assert any("hardly vary" in note for note in estimate.notes)

    @pytest.mark.parametrize("own_pools", [True, False])
    def test_only_a_t_interval_says_that_it_has_the_spread_of_chance(self, own_pools):
        # eight queries that rank alike but for the last image, of one pool or of pools of their own
        labels, scores = np.tile(np.arange(2), 20), np.tile(np.arange(40.0), (8, 1))
        scores[0, 0] = 99.0
        groups, candidates = r.Groups(labels, ("a", "b")), None
        if own_pools:
            groups = r.Groups(np.tile(labels, 8), ("a", "b"))
            scores, candidates = np.tile(scores, (1, 8)), r.Candidates(np.repeat(np.arange(8), 40), np.arange(8))
        found = r.evaluate(r.Scores(scores), groups, k=4, metrics=["representation"], candidates=candidates)
        null = r.chance(found, kind="label_shuffle", draws=99)
        for method in ("t", "percentile"):
            notes = r.summary(found, null, method=method)[0].estimate.notes
            assert any("spread of chance" in note for note in notes) == (method == "t")


def subjects(seed):
    """24 subjects with 2 to 13 complete sets of 12 groups: labels, sets and pools."""
    n_sets = np.random.default_rng(seed).choice([2, 3, 4, 6, 8, 13], 24)
    labels = np.concatenate([np.tile(np.arange(12), n) for n in n_sets])
    subject = np.repeat(np.arange(24), n_sets * 12)
    sets = np.repeat(np.arange(n_sets.sum()), 12)
    return r.Groups(labels, tuple(map(str, range(12)))), sets, r.Candidates(subject, np.arange(24))


def check_calibration(table):
    """``table``: per model p_randomised, p_value, ci_low, ci_high, chance level, excess."""
    uniform, ordinary, low, high, level, excess = np.array(table, dtype=float).T
    n = len(uniform)
    assert sps.kstest(uniform, "uniform").pvalue > 0.001
    for alpha in (0.01, 0.05, 0.1, 0.25, 0.5):
        assert (ordinary <= alpha).mean() <= alpha + 3.3 * (alpha * (1 - alpha) / n) ** 0.5
    assert within(((low <= level) & (level <= high)).mean(), 0.93, 0.97, n)
    assert abs(excess.mean()) < 3.5 * excess.std() / n**0.5


@pytest.mark.slow
def test_simulated_unbiased_models_are_called_unbiased():
    groups, _, candidates = subjects(7)
    rng = np.random.default_rng(2024)
    metrics = ["max_skew", "exposure_gap", "absent_groups"]
    table = {name: [] for name in metrics}
    null = None
    for model in range(800):
        # every model scores every image by chance; all 24 subjects of a model at once
        scores = np.broadcast_to(rng.random(len(groups)), (24, len(groups)))
        found = r.evaluate(r.Scores(scores), groups, k=12, metrics=metrics, candidates=candidates)
        # the chance of random rankings depends on the pools alone, so one long run of draws serves all models
        null = null or r.chance(found, draws=10_000, seed=1)
        for row in r.summary(found, null, seed=model):
            e = row.estimate
            table[row.metric].append((e.p_randomised, e.p_value, e.ci_low, e.ci_high, e.null_mean, e.excess))
    for name in metrics:
        check_calibration(table[name])


@pytest.mark.slow
@pytest.mark.parametrize("paired", [False, True])
def test_simulated_unbiased_models_with_their_own_draws(paired):
    groups, sets, candidates = subjects(8)
    metrics = ["max_skew", "ndkl", "exposure_gap"]
    table = {name: [] for name in metrics}
    for model in range(600):
        rng = np.random.default_rng([5, model])
        # images of one set look alike: with sets, a random ranking is the wrong null and the shuffled one right
        scores = rng.random(len(groups)) + (0.4 * rng.standard_normal(sets.max() + 1)[sets] if paired else 0.0)
        source = r.Scores(np.broadcast_to(scores, (24, len(groups))))
        found = r.evaluate(source, groups, k=12, depth=48, metrics=metrics, candidates=candidates)
        null = r.chance(found, sets=sets if paired else None, draws=199, seed=model)
        for row in r.summary(found, null, seed=model):
            e = row.estimate
            table[row.metric].append((e.p_randomised, e.p_value, e.ci_low, e.ci_high, e.null_mean, e.excess))
    for name in metrics:
        check_calibration(table[name])


@pytest.mark.slow
def test_intervals_of_a_biased_model_cover_its_expected_value():
    # the estimand is the expected value under the model's own scores: 24 alike subjects, a known group effect
    groups = r.Groups(np.tile(np.arange(12), 10 * 24), tuple(map(str, range(12))))
    candidates = r.Candidates(np.repeat(np.arange(24), 120), np.arange(24))
    effect = np.linspace(0, 1.0, 12)[groups.labels]
    rng = np.random.default_rng(3)
    table = []
    for _ in range(600):
        scores = np.broadcast_to(rng.standard_normal(len(groups)) + effect, (24, len(groups)))
        found = r.evaluate(
            r.Scores(scores), groups, k=12, depth=36, metrics=["max_skew", "ndkl"], candidates=candidates
        )
        table.append([(e.value, e.ci_low, e.ci_high) for e in (row.estimate for row in r.summary(found))])
    for values, low, high in np.array(table).transpose(1, 2, 0):
        covered = ((low <= values.mean()) & (values.mean() <= high)).mean()
        assert within(covered, 0.93, 0.97, 600)
