"""Gaps inside counterfactual sets and their decomposition, against loops, hand-worked values and planted effects."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps
from tests.examples import examples
from tests.simulations.bands import within

from equipoise.errors import InputError
from equipoise.measure import counterfactual as cf
from equipoise.measure.counterfactual import decomposition
from equipoise.measure.groups import Groups


def world(n_subjects=5, sets_each=8, n_groups=3, effect=(0.0, 0.0, 0.0), seed=0, noise=1.0):
    """Scores with a strong set effect, a group effect and noise; every set complete."""
    rng = np.random.default_rng(seed)
    n_sets = n_subjects * sets_each
    labels = np.tile(np.arange(n_groups), n_sets)
    sets = np.repeat(np.arange(n_sets), n_groups)
    scores = 10 * rng.standard_normal(n_sets)[sets] + np.array(effect)[labels] + noise * rng.standard_normal(len(sets))
    groups = Groups(labels, tuple("abcdefgh"[:n_groups]))
    return scores, sets, groups, np.repeat(np.arange(n_subjects), sets_each * n_groups)


class TestTable:
    def test_incomplete_sets_repeats_and_undefined_images_are_counted(self):
        groups = Groups.from_values(["f", "m", "f", "f", None, "m"])
        table = cf.gap_cells([1.0, 2.0, 3.0, 5.0, 9.0, 4.0], ["x", "x", "y", "y", "y", "z"], groups)
        assert table.scores.tolist()[0] == [1.0, 2.0]
        assert table.scores[1, 0] == 4.0
        assert np.isnan(table.scores[1, 1])
        assert dict(table.dropped) == {
            "image without a group": 1,
            "image without a level of another axis": 0,
            "set that lacks a group": 2,
        }
        assert "1 groups have several images in one set" in table.notes[0]
        assert table.complete.tolist() == [True, False, False]
        gap = cf.pair_gaps(table)[0]
        assert gap.n_incomplete == 2
        assert gap.estimate.dropped == {"set without f or m": 2}
        assert "dropped 2 (set without f or m)" in gap.row()["notes"]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (([1.0, 2.0], ["x"], Groups.from_values(["f", "m"])), r"sets has shape \(1,\) for 2 images"),
            (([1.0, np.nan], ["x", "x"], Groups.from_values(["f", "m"])), r"scores\[1\] is not finite"),
            (([1.0], ["x"], Groups.from_values(["f", "m"])), "2 entries for 1 images"),
            (([1.0, 2.0], ["x", "x"], Groups.from_values(["f", "m"]), ["cook", "vet"]), "two subjects"),
            (([], [], Groups(np.zeros(0, dtype=int), ("f",))), "one score per image"),
        ],
    )
    def test_bad_input_is_a_sentence(self, arguments, words):
        with pytest.raises(InputError, match=words):
            cf.gap_cells(*arguments)


class TestPairs:
    @settings(deadline=None, max_examples=examples(60))
    @given(st.integers(0, 10**6))
    def test_equals_a_plain_loop(self, seed):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(5, 60))
        groups = Groups(np.append(rng.integers(-1, 4, n - 2), [0, 1]), tuple("abcd"))
        sets = np.append(rng.integers(0, 8, n - 2), [99, 99])
        subject_of = rng.integers(0, 3, 100)
        scores = rng.integers(-3, 4, n).astype(float)
        table = cf.gap_cells(scores, sets, groups, subject_of[sets])
        cells = {}
        for i in range(n):
            if groups.labels[i] >= 0:
                cells.setdefault((sets[i], groups.labels[i]), []).append(scores[i])
        rows = {(row.subject, row.first, row.second): row for row in cf.pair_gaps(table, by_subject=True, draws=99)}
        seen = 0
        for subject in np.unique(subject_of[sets]):
            for a, b in combinations(range(4), 2):
                gaps = [
                    np.mean(cells[s, a]) - np.mean(cells[s, b])
                    for s in np.unique(sets)
                    if subject_of[s] == subject and (s, a) in cells and (s, b) in cells
                ]
                key = (str(subject), "abcd"[a], "abcd"[b])
                if not gaps:
                    assert key not in rows
                    continue
                seen += 1
                row = rows[key]
                assert row.estimate.value == pytest.approx(np.mean(gaps), abs=1e-9)
                assert row.won_first == pytest.approx(np.mean([1.0 if g > 0 else 0.5 if g == 0 else 0.0 for g in gaps]))
                assert row.won_first + row.won_second == pytest.approx(1)
                assert row.estimate.n == len(gaps)
                if len(gaps) > 1 and np.std(gaps) > 0:
                    assert row.effect_size == pytest.approx(np.mean(gaps) / np.std(gaps, ddof=1))
                else:
                    assert row.effect_size is None
                flips = [abs(np.dot(signs, gaps)) for signs in product([1, -1], repeat=len(gaps))]
                extreme = np.mean(np.array(flips) >= abs(sum(gaps)) - 1e-9)
                assert row.estimate.p_value == pytest.approx(extreme)
        assert seen == len(rows)

    def test_a_pair_of_few_sets_is_tested_exactly_beside_one_of_many(self):
        # a and b in fourteen sets, c in five, where it always scores lower: 2 of 32 patterns are as extreme
        groups = Groups(np.append(np.tile([0, 1], 14), [2] * 5), tuple("abc"))
        scores = np.append(np.tile([1.0, 0.0], 14), [-1.0] * 5)
        sets = np.append(np.repeat(np.arange(14), 2), np.arange(5))
        rows = cf.pair_gaps(cf.gap_cells(scores, sets, groups), draws=99)
        assert {(row.first, row.second): row.estimate.p_value for row in rows} == {
            ("a", "b"): 1 / 100,
            ("a", "c"): 2 / 32,
            ("b", "c"): 2 / 32,
        }

    def test_all_subjects_count_once(self):
        groups = Groups(np.tile([0, 1], 4), ("a", "b"))
        # subject x: gaps 1, 1, 1; subject y: gap 5
        scores = [1, 0, 1, 0, 1, 0, 5, 0]
        table = cf.gap_cells(scores, np.repeat(np.arange(4), 2), groups, list("xxxxxxyy"))
        row = cf.pair_gaps(table)[0]
        assert row.estimate.value == 3.0
        assert row.estimate.n == 2  # what the interval and the p-value count
        assert "n is subjects, of 4 sets" in row.estimate.notes
        alone = cf.pair_gaps(cf.gap_cells(scores, np.repeat(np.arange(4), 2), groups))[0]
        assert alone.estimate.value == 2.0

    def test_gaps_all_alike_have_no_interval_and_say_so(self):
        groups = Groups(np.tile([0, 1], 3), ("a", "b"))
        row = cf.pair_gaps(cf.gap_cells([1, 0, 1, 0, 1, 0], np.repeat(np.arange(3), 2), groups))[0].estimate
        assert (row.ci_low, row.ci_high) == (None, None)
        assert "no interval: all 3 independent units have the same value" in row.notes

    @pytest.mark.parametrize("shared", [True, False])
    def test_links_are_noted_where_two_sets_share_one(self, shared):
        scores, sets, groups, subjects = world(n_groups=2, effect=(0, 0))
        row = cf.pair_gaps(cf.gap_cells(scores, sets, groups, subjects, links=sets % 8 if shared else sets))[0]
        assert ("linked sets flip together" in row.estimate.notes) is shared

    def test_one_link_for_all_gives_no_interval_and_that_is_why(self):
        scores, sets, groups, subjects = world(n_groups=2, effect=(0, 0))
        cells = cf.gap_cells(scores, sets, groups, subjects, links=np.zeros(len(sets), dtype=int))
        estimate = cf.pair_gaps(cells)[0].estimate
        assert (estimate.ci_low, estimate.ci_high) == (None, None)
        assert "no interval: one independent link" in estimate.notes

    def test_linked_sets_of_one_subject_are_not_independent(self):
        rng = np.random.default_rng(0)
        gap = np.tile(1.0 + rng.normal(size=4), 6) + 0.1 * rng.normal(size=24)
        scores, sets = np.stack([gap, np.zeros(24)], axis=1).ravel(), np.repeat(np.arange(24), 2)
        groups, links = Groups(np.tile([0, 1], 24), ("f", "m")), np.repeat(np.tile(np.arange(4), 6), 2)
        subjects = ["nurse"] * 48
        alone, linked, one = (
            cf.pair_gaps(cf.gap_cells(scores, sets, groups, subjects, links=keys), by_subject=True)[0].estimate
            for keys in (None, links, np.zeros(48, dtype=int))
        )
        assert alone.value == linked.value
        assert alone.p_value < 0.01
        assert linked.p_value >= 0.125  # no pattern of four signs says more
        assert linked.ci_high - linked.ci_low > 1.5 * (alone.ci_high - alone.ci_low)
        assert "linked sets flip together" in linked.notes
        assert (one.ci_low, one.p_value) == (None, 1.0)
        assert "no interval: one independent link" in one.notes

    def test_one_set_per_link_of_a_subject_changes_nothing(self):
        scores, sets, groups, subjects = world(n_groups=3)
        keep = np.random.default_rng(0).random(len(scores)) > 0.2
        given = scores[keep], sets[keep], groups.take(keep), subjects[keep]
        alone, linked = (
            cf.pair_gaps(cf.gap_cells(*given, links=links), by_subject=True) for links in (None, (sets % 8)[keep])
        )
        assert alone == linked

    def test_no_saturation_where_max_skew_saturates(self):
        small, large = (
            cf.pair_gaps(cf.gap_cells(*world(effect=(0, 0, e))[:3]), pairs=[("c", "a")])[0] for e in (5, 50)
        )
        assert large.estimate.value == pytest.approx(small.estimate.value + 45)
        assert large.won_first == 1.0

    def test_named_pairs_turn_the_sign(self):
        table = cf.gap_cells(*world(effect=(0.0, 2.0, 0.0)))
        ab, ba = cf.pair_gaps(table, pairs=[("a", "b"), ("b", "a")])
        assert ab.estimate.value == pytest.approx(-ba.estimate.value)
        with pytest.raises(InputError, match="paired with itself"):
            cf.pair_gaps(table, pairs=[("a", "a")])
        with pytest.raises(InputError, match="no group named 'z'"):
            cf.pair_gaps(table, pairs=[("a", "z")])
        with pytest.raises(InputError, match="no pair"):
            cf.pair_gaps(cf.gap_cells([1.0], [0], Groups(np.array([0]), ("a",))))

    def test_p_values_of_unbiased_scores_are_valid_and_holm_guards_the_family(self):
        found, families = [], 0
        for seed in range(300):
            rows = cf.pair_gaps(cf.gap_cells(*world(n_subjects=1, sets_each=20, seed=seed)[:3]), draws=199, seed=seed)
            found += [row.estimate.p_value for row in rows]
            families += min(row.p_holm for row in rows) <= 0.05
        share = np.mean(np.array(found) <= 0.05)
        assert 0.02 < share < 0.08
        assert families / 300 < 0.09

    def test_intervals_cover_the_planted_gap(self):
        hits = 0
        for seed in range(400):
            scores, sets, groups, _ = world(n_subjects=1, sets_each=15, effect=(0.7, 0.0, 0.0), seed=seed)
            e = cf.pair_gaps(cf.gap_cells(scores, sets, groups), pairs=[("a", "b")], draws=10)[0].estimate
            hits += e.ci_low <= 0.7 <= e.ci_high
        assert 0.92 < hits / 400 < 0.975


class TestSize:
    def test_opposite_gaps_cancel_signed_but_not_in_size(self):
        scores, sets, groups, subjects = world(n_subjects=10, sets_each=12, n_groups=2, effect=(0, 0))
        scores = scores + 1.5 * (groups.labels == 0) * np.where(subjects % 2 == 0, 1, -1)
        table = cf.gap_cells(scores, sets, groups, subjects)
        signed, size = cf.pair_gaps(table)[0].estimate, cf.size_of_gaps(table)[0].estimate
        assert signed.p_value > 0.05
        assert size.p_value == 1 / 1000
        assert size.value == pytest.approx(1.5, abs=0.3)
        assert 0.2 < size.null_mean < size.value

    def test_unbiased_scores_have_no_excess(self):
        tables = [cf.gap_cells(*world(n_subjects=6, seed=seed)) for seed in range(200)]
        estimates = [
            cf.size_of_gaps(table, pairs=[("a", "b")], draws=99, seed=i)[0].estimate for i, table in enumerate(tables)
        ]
        excess = np.array([e.excess for e in estimates])
        assert abs(excess.mean()) < 3.5 * excess.std() / 200**0.5
        assert sps.kstest([e.p_randomised for e in estimates], "uniform").pvalue > 0.001


def crossed(n_sets, cell, seed=0, noise=0.1):
    """Complete sets over axes of the shape of ``cell``, whose score is set effect + cell effect + noise."""
    rng = np.random.default_rng(seed)
    shape = cell.shape
    levels = np.array(list(np.ndindex(shape)))
    axes = [
        Groups(np.tile(levels[:, i], n_sets), tuple(f"{'xyz'[i]}{j}" for j in range(n)), "xyz"[i])
        for i, n in enumerate(shape)
    ]
    sets = np.repeat(np.arange(n_sets), cell.size)
    scores = 5 * rng.standard_normal(n_sets)[sets] + np.tile(cell.ravel(), n_sets)
    return scores + noise * rng.standard_normal(len(sets)), sets, axes


def people_of_many_subjects(seed):
    """20 subjects that show the same 8 people: what a person has about them is the same for every subject."""
    rng = np.random.default_rng(seed)
    scores, sets, axes = crossed(160, np.zeros((2, 2)), seed=seed)
    person = np.arange(160) % 8
    gaps = rng.standard_normal(8)[person][sets]
    return scores + gaps * axes[0].labels, sets, axes, sets // 8, person[sets]


class TestDecomposition:
    def test_additive_effects_leave_no_interaction(self):
        x, y = np.array([0.5, -0.2, -0.3]), np.array([0.4, -0.4])
        scores, sets, axes = crossed(40, x[:, None] + y[None, :])
        found = cf.decompose(scores, sets, axes, draws=999)
        assert found.terms["x"].effects == pytest.approx(x, abs=0.05)
        assert found.terms["y"].effects == pytest.approx(y, abs=0.05)
        assert found.terms["x:y"].effects == pytest.approx(np.zeros((3, 2)), abs=0.05)
        assert found.terms["x"].size.p_value == found.terms["y"].size.p_value == 1 / 1000
        assert found.terms["x:y"].size.p_value > 0.01
        assert found.terms["x:y"].share < 0.01
        assert sum(term.share for term in found.terms.values()) == pytest.approx(1)

    def test_a_pure_interaction_is_found_as_one(self):
        cell = np.array([[0.6, -0.6], [-0.6, 0.6]])
        scores, sets, axes = crossed(30, cell)
        found = cf.decompose(scores, sets, axes, draws=999)
        assert found.terms["x:y"].effects == pytest.approx(cell, abs=0.05)
        assert found.terms["x:y"].share > 0.98
        assert found.terms["x"].size.p_value > 0.01
        assert found.terms["x:y"].levels["x0 & y1"].value == pytest.approx(-0.6, abs=0.05)
        assert found.terms["x:y"].levels["x0 & y1"].ci_high < 0

    def test_three_axes_by_inclusion_and_exclusion(self):
        rng = np.random.default_rng(1)
        cell = rng.normal(size=(3, 2, 4))
        scores, sets, axes = crossed(6, cell, noise=0.3)
        found = cf.decompose(scores, sets, axes, draws=50)
        assert list(found.terms) == ["x", "y", "z", "x:y", "x:z", "y:z", "x:y:z"]
        mean = scores.reshape(6, 3, 2, 4).mean(axis=0)
        grand = mean.mean()
        main = [mean.mean(axis=(1, 2)) - grand, mean.mean(axis=(0, 2)) - grand, mean.mean(axis=(0, 1)) - grand]
        xy = mean.mean(axis=2) - grand - main[0][:, None] - main[1][None, :]
        assert found.terms["z"].effects == pytest.approx(main[2], abs=1e-9)
        assert found.terms["x:y"].effects == pytest.approx(xy, abs=1e-9)
        rebuilt = grand + sum(
            term.effects.reshape([n if "xyz"[i] in term.axes else 1 for i, n in enumerate((3, 2, 4))])
            for term in found.terms.values()
        )
        assert rebuilt == pytest.approx(mean, abs=1e-9)
        assert sum(term.share for term in found.terms.values()) == pytest.approx(1, abs=1e-9)

    def test_incomplete_sets_are_counted_and_subjects_are_units(self):
        scores, sets, axes = crossed(8, np.zeros((2, 2)))
        keep = np.arange(len(sets)) != 5
        found = cf.decompose(
            scores[keep], sets[keep], [axis.take(keep) for axis in axes], subjects=sets[keep] // 4, draws=20
        )
        assert (found.n_sets, found.n_units) == (7, 2)
        assert found.dropped["set that lacks a group"] == 1

    def test_linked_sets_widen_the_intervals(self):
        covered, runs = 0, 60
        for seed in range(runs):
            scores, sets, axes, subjects, people = people_of_many_subjects(seed)
            found = cf.decompose(scores, sets, axes, subjects=subjects, links=people, draws=99)
            for term in found.terms.values():
                for each in term.levels.values():
                    assert each.p_value <= 0.5 or each.ci_low <= 0 <= each.ci_high
            level = found.terms["x"].levels["x1"]
            covered += level.ci_low <= 0 <= level.ci_high
        assert within(covered / runs, 0.93, 0.99, runs)

    def test_links_that_no_two_sets_share_change_no_interval(self):
        (scores, sets, axes), subjects = crossed(12, np.zeros((2, 2))), np.repeat(np.arange(3), 16)
        alone, linked = (
            cf.decompose(scores, sets, axes, subjects=subjects, links=links, draws=19).terms["x"].levels["x0"]
            for links in (None, sets)
        )
        assert (alone.ci_low, alone.ci_high) == (linked.ci_low, linked.ci_high)

    def test_linked_sets_of_one_subject_are_not_independent(self):
        rng = np.random.default_rng(0)
        effect = np.tile(1.0 + rng.normal(size=4), 6)[:, None] * [-0.5, -0.5, 0.5, 0.5]
        scores = (effect + 0.1 * rng.normal(size=effect.shape)).ravel()
        sets = np.repeat(np.arange(24), 4)
        axes = [
            Groups(np.tile(labels, 24), ("0", "1"), name) for name, labels in (("x", [0, 0, 1, 1]), ("y", [0, 1] * 2))
        ]
        links = np.repeat(np.tile(np.arange(4), 6), 4)
        alone, linked = (cf.decompose(scores, sets, axes, links=keys, draws=999).terms["x"] for keys in (None, links))
        assert alone.size.value == linked.size.value
        assert alone.size.p_value < 0.01 < 0.05 < linked.size.p_value
        a, b = alone.levels["0"], linked.levels["0"]
        assert a.p_value < 0.01
        assert b.p_value >= 0.125  # no pattern of four signs says more
        assert b.ci_high - b.ci_low > 1.5 * (a.ci_high - a.ci_low)

    def test_one_link_for_all_gives_no_interval(self):
        scores, sets, axes = crossed(12, np.ones((2, 1)) * [[3.0, 0.0]])
        found = cf.decompose(scores, sets, axes, subjects=sets // 4, links=np.zeros(48, dtype=int), draws=19)
        level = found.terms["y"].levels["y0"]
        assert (level.ci_low, level.ci_high, level.p_value) == (None, None, 1.0)
        assert level.notes == ("no interval: one independent link",)

    def test_signs_drawn_in_blocks_are_the_same(self, monkeypatch):
        scores, sets, axes = crossed(23, np.zeros((3, 2)))
        whole = cf.decompose(scores, sets, axes, draws=101).terms
        monkeypatch.setattr(decomposition, "BLOCK", 300)
        blocks = cf.decompose(scores, sets, axes, draws=101).terms
        for name, term in whole.items():
            for fact in ("null_mean", "null_sd", "p_value", "p_randomised"):
                assert getattr(blocks[name].size, fact) == pytest.approx(getattr(term.size, fact), rel=1e-12)

    @pytest.mark.slow
    def test_unbiased_terms_have_uniform_p_values(self):
        p = {"x": [], "y": [], "x:y": []}
        for seed in range(200):
            found = cf.decompose(*crossed(25, np.zeros((3, 2)), seed=seed), draws=99, seed=seed)
            for name, values in p.items():
                values.append(found.terms[name].size.p_randomised)
        for values in p.values():
            assert sps.kstest(values, "uniform").pvalue > 0.001

    def test_bad_input_is_a_sentence(self):
        scores, sets, axes = crossed(3, np.zeros((2, 2)))
        with pytest.raises(InputError, match="two or more"):
            cf.decompose(scores, sets, axes[:1])
        with pytest.raises(InputError, match="not distinct"):
            cf.decompose(scores, sets, [axes[0], axes[0]])
        lone = np.arange(len(sets)) % 4 != 0
        with pytest.raises(InputError, match="none of 3 has all 4 combinations of x, y"):
            cf.decompose(scores[lone], sets[lone], [axis.take(lone) for axis in axes])
