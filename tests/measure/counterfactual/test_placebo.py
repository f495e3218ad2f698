"""The excess over placebo axes, against hand-worked values."""

import numpy as np
import pytest

from equipoise.errors import InputError
from equipoise.measure.counterfactual.cells import gap_cells
from equipoise.measure.counterfactual.placebo import placebo_excess, squared_sizes
from equipoise.measure.counterfactual.sizes import squared_gaps
from equipoise.measure.groups import Groups


def drawn(people=0.0, bag=0.0, n_subjects=10, n_sets=4, seed=0):
    """Sets of four: two genders, each with and without a bag; effects in units of the scenes' sd."""
    rng = np.random.default_rng(seed)
    shape = (n_subjects, n_sets, 2, 2)
    subject, number, gender, bagged = (p.ravel() for p in np.indices(shape))
    scores = (rng.normal(size=(n_subjects, n_sets, 1, 1)) + 0.1 * rng.normal(size=shape)).ravel()
    scores = scores + people * gender + bag * bagged
    sets = subject * n_sets + number
    first = gap_cells(scores, sets, Groups(gender, ("f", "m")), subjects=subject, strata=bagged)
    return first, gap_cells(scores, sets, Groups(bagged, ("no", "yes")), subjects=subject, strata=gender)


def test_the_value_is_the_difference_of_sizes():
    people, bags = drawn(0.8, 0.3)
    excess = placebo_excess(people, {"placebo_bag": bags})
    own, other = (np.sqrt(np.nanmean(squared_gaps(c, c.pairs()[0]))) for c in (people, bags))
    assert excess.value == pytest.approx(own - other)
    assert excess.ci_low < excess.value < excess.ci_high
    assert excess.p_value < 0.01
    assert (excess.n, excess.null_mean) == (10, 0.0)
    assert any("placebo_bag" in note for note in excess.notes)


def test_a_smaller_axis_has_a_negative_excess():
    excess = placebo_excess(*(lambda a, b: (a, {"placebo_bag": b}))(*drawn(0.1, 0.9)))
    assert excess.ci_high < 0
    assert excess.p_value < 0.01


def test_the_direction_of_gaps_does_not_matter():
    people, bags = drawn(0.8, 0.3)
    turned, _ = drawn(-0.8, 0.3)
    a, b = (placebo_excess(cells, {"placebo_bag": bags}).value for cells in (people, turned))
    assert a == pytest.approx(b, abs=0.1)


def test_placebos_are_averaged_in_squares():
    people, bags = drawn(0.5, 0.3)
    _, more = drawn(0.5, 1.2)
    both = placebo_excess(people, {"one": bags, "two": more})
    squares = [np.mean(list(squared_sizes(c).values())) for c in (people, bags, more)]
    assert both.value == pytest.approx(np.sqrt(squares[0]) - np.sqrt((squares[1] + squares[2]) / 2))


def test_two_subjects_that_are_alike_give_no_interval():
    people, bags = drawn(0.8, 0.3, n_subjects=1)
    excess = placebo_excess(people, {"placebo_bag": bags})
    assert excess.ci_low is None
    assert "no interval: one independent unit" in excess.notes
    assert excess.p_value == 1.0


def test_sets_without_noise_give_no_interval_and_that_is_why():
    subject, number, gender, bagged = (p.ravel() for p in np.indices((4, 3, 2, 2)))
    scores, sets = number + gender * (1.0 + subject) + 0.5 * bagged, subject * 3 + number
    people = gap_cells(scores, sets, Groups(gender, ("f", "m")), subjects=subject, strata=bagged)
    bags = gap_cells(scores, sets, Groups(bagged, ("no", "yes")), subjects=subject, strata=gender)
    excess = placebo_excess(people, {"placebo_bag": bags})
    assert excess.ci_low is None
    assert "no interval: too few independent units, or no noise between sets" in excess.notes


def test_without_placebos_or_common_subjects():
    people, _ = drawn()
    with pytest.raises(InputError, match="at least one placebo axis"):
        placebo_excess(people, {})
    alone = drawn(n_sets=1)[1]
    assert placebo_excess(people, {"placebo_bag": alone}) is None
