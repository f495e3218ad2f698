"""Gaps in spreads, wins of twins and their sizes, against hand-worked values, loops and enumeration."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps
from tests.examples import examples

from equipoise.errors import InputError
from equipoise.measure.counterfactual.cells import gap_cells
from equipoise.measure.counterfactual.sizes import outranks, squared_gaps, standard_gap_sizes, standard_gaps
from equipoise.measure.groups import Groups

TWO = ("f", "m")


def by_hand(scores, **named):
    """Subjects x sets x two groups as cells."""
    table = np.asarray(scores, dtype=float)
    n_sets = table.shape[1]
    subject, number, group = (place.ravel() for place in np.indices(table.shape))
    sets = subject * n_sets + number
    return gap_cells(table.ravel(), sets, Groups(group, TWO), subjects=[f"job{s:02}" for s in subject], **named)


def random_cells(seed, *, n_strata=2, missing=0.2, n_subjects=3, n_sets=4):
    rng = np.random.default_rng(seed)
    shape = (n_subjects, n_sets, n_strata, 3)
    scores = rng.integers(-4, 5, shape).astype(float)
    there = rng.random(shape) >= missing
    there[0, :2, 0, :] = True  # something can always be measured
    scores[0, 0, 0] += [1.0, 0.0, 2.0]
    places = [p[there] for p in np.indices(shape)]
    cells = gap_cells(
        scores[there],
        places[0] * n_sets + places[1],
        Groups(places[3], ("a", "b", "c")),
        subjects=places[0],
        strata=places[2],
    )
    return np.where(there, scores, np.nan), cells


class TestAgainstLoops:
    @settings(deadline=None, max_examples=examples(40))
    @given(st.integers(0, 10**6))
    def test_spread_gaps_wins_and_squares(self, seed):
        scores, cells = random_cells(seed)
        squares, degrees = 0.0, 0
        for subject, stratum, group in product(range(3), range(2), range(3)):
            cell = scores[subject, :, stratum, group]
            cell = cell[~np.isnan(cell)]
            if len(cell):
                squares += ((cell - cell.mean()) ** 2).sum()
                degrees += len(cell) - 1
        spread = np.sqrt(squares / degrees)
        assert cells.spread.value == pytest.approx(spread)
        assert cells.spread.degrees == degrees
        assert cells.spread.by_subject.sum() == pytest.approx(0, abs=1e-9)
        rows = {(r.first, r.second): r.estimate for r in standard_gaps(cells, draws=99)}
        wins = {(r.first, r.second): r.estimate for r in outranks(cells, draws=99)}
        for a, b in combinations(range(3), 2):
            means, shares, products = [], [], []
            for subject in range(3):
                gaps, won = [], []
                for number in range(4):
                    twins = scores[subject, number, :, a] - scores[subject, number, :, b]
                    twins = twins[~np.isnan(twins)]
                    if len(twins):
                        gaps.append(twins.mean())
                        won.append(np.mean([1.0 if t > 0 else 0.5 if t == 0 else 0.0 for t in twins]))
                if gaps:
                    means.append(np.mean(gaps))
                    shares.append(np.mean(won))
                pairs = [x * y for x, y in combinations(gaps, 2)]
                products.append(np.mean(pairs) / spread**2 if pairs else np.nan)
            key = ("abc"[a], "abc"[b])
            assert rows[key].value == pytest.approx(np.mean(means) / spread)
            assert wins[key].value == pytest.approx(np.mean(shares))
            np.testing.assert_allclose(squared_gaps(cells, cells.pair(a, b)), products, atol=1e-9)
            assert 0 <= wins[key].ci_low <= wins[key].value <= wins[key].ci_high <= 1

    def test_a_size_and_its_flips_by_enumeration(self):
        table = np.random.default_rng(5).normal(size=(2, 3, 2)) + np.array([0.8, 0.0])
        cells = by_hand(table)
        gaps, spread = table[..., 0] - table[..., 1], cells.spread.value

        def square(g):
            return np.mean([np.mean([x * y for x, y in combinations(row, 2)]) for row in g])

        found = standard_gap_sizes(cells, draws=4000)[0].estimate
        assert found.value == pytest.approx(np.sqrt(max(square(gaps), 0)) / spread)
        null = np.array([square(gaps * np.reshape(s, (2, 3))) for s in product([1, -1], repeat=6)])
        assert found.null_mean == pytest.approx(np.sqrt(np.maximum(null, 0)).mean() / spread, abs=0.02)
        assert found.p_value == pytest.approx(np.mean(null >= square(gaps) - 1e-9), abs=0.03)

    def test_hand_worked(self):
        # one subject, sets 0 and 1; f scores 3 and 5, m scores 1 and 2: gaps 2 and 3
        cells = by_hand([[[3, 1], [5, 2]]])
        assert cells.spread.value == pytest.approx(np.sqrt((2.0 + 0.5) / 2))
        found = standard_gaps(cells)[0].estimate
        assert found.value == pytest.approx(2.5 / np.sqrt(1.25))
        assert (found.n, found.p_value) == (2, 0.5)
        assert standard_gap_sizes(cells)[0].estimate.value == pytest.approx(np.sqrt(6 / 1.25))
        assert outranks(cells)[0].estimate.value == 1.0


class TestMeaning:
    def test_halving_and_moving_all_scores_changes_nothing(self):
        table = np.random.default_rng(0).normal(size=(8, 4, 2)) + np.array([0.5, 0.0])
        for scaled in (0.5 * table, 1000 * table + 7):
            for measure in (standard_gaps, standard_gap_sizes, outranks):
                for by_subject in (False, True):
                    old = [r.estimate for r in measure(by_hand(table), by_subject=by_subject)]
                    new = [r.estimate for r in measure(by_hand(scaled), by_subject=by_subject)]
                    assert len(old) == (8 if by_subject else 1)
                    for a, b in zip(old, new, strict=True):
                        for name in ("value", "ci_low", "ci_high", "null_mean", "p_value"):
                            assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-6, abs=1e-9), name

    def test_another_axis_neither_inflates_the_spread_nor_leaks_into_the_gap(self):
        rng = np.random.default_rng(1)
        shape = (6, 4, 2, 2)
        plain = rng.normal(size=(6, 4, 1, 1)) + 0.2 * rng.normal(size=shape)
        subject, number, gender, race = (p.ravel() for p in np.indices(shape))
        there = ~((gender == 0) & (race == 1) & (rng.random(len(race)) < 0.6))  # most of one combination is missing
        values = []
        for effect in (0.0, 50.0):
            scores = (plain + effect * np.array([0, 1])).ravel()[there]
            cells = gap_cells(
                scores, (subject * 4 + number)[there], Groups(gender[there], TWO),
                subjects=subject[there], strata=race[there],
            )  # fmt: skip
            values.append([standard_gaps(cells)[0].estimate.value, cells.spread.value])
        assert values[0] == pytest.approx(values[1])
        mixed = gap_cells(scores, (subject * 4 + number)[there], Groups(gender[there], TWO), subjects=subject[there])
        assert abs(standard_gaps(mixed)[0].estimate.value) > 5 * abs(values[1][0])

    def test_opposite_gaps_cancel_in_the_gap_and_not_in_the_size(self):
        table = np.random.default_rng(2).normal(size=(10, 6, 1)) + 0.1 * np.random.default_rng(3).normal(
            size=(10, 6, 2)
        )
        table[:5, :, 0] += 1
        table[5:, :, 0] -= 1
        gap, size = (measure(by_hand(table))[0].estimate for measure in (standard_gaps, standard_gap_sizes))
        assert abs(gap.value) < 0.1
        assert gap.p_value > 0.5
        assert size.p_value < 0.01
        assert size.ci_low > 0.5

    def test_a_size_of_one_subject_is_that_of_its_gap(self):
        table = np.random.default_rng(4).normal(size=(1, 9, 2)) + np.array([4.0, 0.0])
        gap, size = (measure(by_hand(table))[0].estimate for measure in (standard_gaps, standard_gap_sizes))
        assert size.value < gap.value
        assert size.p_value == gap.p_value
        assert size.ci_low == pytest.approx(gap.ci_low, rel=0.2)
        flipped = standard_gap_sizes(by_hand(table[..., ::-1]))[0].estimate
        assert flipped.value == pytest.approx(size.value)
        assert flipped.ci_high == pytest.approx(size.ci_high)

    def test_all_subjects_weigh_the_same_however_many_sets_they_have(self):
        scores, sets = [1, 0, 5, 2, 3, 2, 9, 4], [0, 0, 1, 1, 2, 2, 3, 3]
        cells = gap_cells(scores, sets, Groups(np.tile([0, 1], 4), TWO), subjects=list("xxxxxxyy"))
        assert standard_gaps(cells)[0].estimate.value * cells.spread.value == pytest.approx((5 / 3 + 5) / 2)
        size = standard_gap_sizes(cells)[0].estimate
        assert "1 subjects with one set left out" in size.notes
        assert size.n == 3  # one subject is left: its sets count

    def test_one_link_for_all_gives_no_interval_and_that_is_why(self):
        cells = by_hand(np.random.default_rng(0).normal(size=(6, 3, 2)), links=np.zeros(36, dtype=int))
        for measure in (standard_gaps, outranks):
            estimate = measure(cells)[0].estimate
            assert (estimate.ci_low, estimate.ci_high) == (None, None)
            assert "no interval: one independent link" in estimate.notes

    def test_linked_sets_flip_together_and_widen_the_interval(self):
        rng = np.random.default_rng(0)
        people = np.repeat(rng.normal(size=(1, 4)), 20, axis=0)
        table = np.stack([people, np.zeros((20, 4))], axis=2) + 0.05 * rng.normal(size=(20, 4, 2))
        number = np.tile(np.repeat(np.arange(4), 2), 20)
        alone, linked = by_hand(table), by_hand(table, links=number)
        for measure in (standard_gaps, standard_gap_sizes, outranks):
            a, b = (measure(cells)[0].estimate for cells in (alone, linked))
            assert a.value == b.value
            assert b.p_value > max(0.1, a.p_value)
            assert b.ci_high - b.ci_low > a.ci_high - a.ci_low
        assert "linked sets flip together" in standard_gaps(linked)[0].estimate.notes

    def test_linked_sets_of_one_subject_are_not_independent(self):
        rng = np.random.default_rng(0)
        people = np.tile(1.0 + rng.normal(size=4), 6)
        table = np.stack([people, np.zeros(24)], axis=1)[None] + 0.3 * rng.normal(size=(1, 24, 2))
        links = np.repeat(np.tile(np.arange(4), 6), 2)
        alone, linked = (standard_gap_sizes(by_hand(table, links=keys))[0].estimate for keys in (None, links))
        assert alone.value == linked.value
        assert alone.p_value < 0.01
        assert linked.p_value >= 0.125  # no pattern of four signs says more
        assert linked.ci_high - linked.ci_low > 1.5 * (alone.ci_high - alone.ci_low)
        one = standard_gap_sizes(by_hand(table, links=np.zeros(48, dtype=int)))[0].estimate
        assert (one.ci_low, one.p_value) == (None, 1.0)
        assert any(note.startswith("no interval") for note in one.notes)

    def test_links_that_no_two_sets_share_change_nothing(self):
        table = np.random.default_rng(0).normal(size=(3, 5, 2))
        for by_subject in (False, True):
            alone, linked = (
                standard_gap_sizes(by_hand(table[:1] if not by_subject else table, links=links), by_subject=by_subject)
                for links in (None, np.tile(np.repeat(np.arange(5), 2), 3 if by_subject else 1))
            )
            assert [(a.value, a.ci_low, a.ci_high, a.p_value) for a in (row.estimate for row in alone)] == [
                (a.value, a.ci_low, a.ci_high, a.p_value) for a in (row.estimate for row in linked)
            ]


class TestEdges:
    def test_without_spread_there_is_no_standard_gap_but_wins_are_counted(self):
        cells = by_hand(np.tile([0.3, 0.1], (3, 4, 1)))
        assert not cells.spread.measurable
        assert standard_gaps(cells) == standard_gap_sizes(cells) == []
        found = outranks(cells)[0].estimate
        assert found.value == 1.0
        assert found.ci_low < 0.5  # three subjects that agree are not certainty
        assert found.ci_high == 1.0

    def test_one_set_a_subject_has_no_spread(self):
        assert standard_gaps(by_hand(np.random.default_rng(0).normal(size=(5, 1, 2)))) == []

    def test_sets_without_twins_are_counted(self):
        cells = gap_cells([1, 0, 3, 2, 5], [0, 0, 1, 1, 2], Groups([0, 1, 0, 1, 0], TWO))
        row = standard_gaps(cells)[0].row(axis="gender")
        assert (row["metric"], row["group"], row["n"]) == ("standard_gap", "f - m", 2)
        assert "dropped 1 (set without f or m)" in row["notes"]

    def test_an_image_without_a_level_is_left_out(self):
        groups = Groups(np.tile([0, 1], 4), TWO)
        scores, sets = [1, 0, 100, 0, 2, 0, 0, 50], [0, 0, 0, 0, 1, 1, 1, 1]
        cells = gap_cells(scores, sets, groups, strata=[0, 0, -1, 1, 0, 0, 1, -1])
        assert cells.pairs()[0].gaps.tolist() == [1.0, 2.0]

    def test_ties_count_half(self):
        assert outranks(by_hand([[[1, 1], [2, 1]], [[1, 1], [1, 1]]]))[0].estimate.value == pytest.approx(0.625)

    def test_one_subject_s_interval_is_a_t_interval_with_the_error_of_the_spread(self):
        table = np.random.default_rng(6).normal(size=(40, 5, 2))
        cells = by_hand(table)
        row = standard_gaps(cells, by_subject=True)[3].estimate
        gaps = (table[3, :, 0] - table[3, :, 1]) / cells.spread.value
        reach = sps.t.ppf(0.975, 4) * np.hypot(sps.sem(gaps), row.value * cells.spread.error / 2)
        assert (row.ci_low, row.ci_high) == pytest.approx((gaps.mean() - reach, gaps.mean() + reach))

    def test_intervals_of_sizes_start_at_0_and_have_a_width(self):
        for seed in range(30):
            found = standard_gap_sizes(by_hand(np.random.default_rng(seed).normal(size=(6, 3, 2))), draws=19)[
                0
            ].estimate
            assert 0 <= found.ci_low <= found.value <= found.ci_high
            assert found.ci_high > 0.05

    @pytest.mark.parametrize(
        ("named", "words"),
        [
            ({"strata": [0, 1]}, "strata has shape"),
            ({"subjects": list("aabb"), "sets": list("xyxy")}, "'x' holds images of two subjects"),
            ({"links": list("abab"), "sets": list("xxyy")}, "'x' holds images of two links"),
            ({"scores": [0.0, 1.0, np.nan, 0.0]}, r"scores\[2\] is not finite"),
            ({"scores": [[0.0]]}, "one score per image"),
        ],
    )
    def test_bad_input_is_a_sentence(self, named, words):
        given = {"scores": [0.0, 1.0, 2.0, 3.0], "sets": list("xxyy")} | named
        with pytest.raises(InputError, match=words):
            gap_cells(given.pop("scores"), given.pop("sets"), Groups([0, 1, 0, 1], TWO), **given)
