"""How often the test of a filter's bias raises a false alarm, and how often it finds a bias.

Filters of known bias: blind to gender and hard on one skin tone, in complete and incomplete sets, in sets that show the
same people, and in sets of one group. The rates are of single tests at 5%.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.simulations.bands import within

from equipoise.filters.bias import bias_test
from equipoise.filters.bias_strata import strata_of
from equipoise.measure.groups import Groups

AXES = ("gender", "tone", "age")


def sets(n_sets: int, *, axes: int = 2, subjects: int = 5, linked: int = 1) -> pd.DataFrame:
    """Complete sets of two genders by three tones (by two ages); ``linked`` sets in a row share their people."""
    levels = [["f", "m"], ["dark", "light", "medium"], ["old", "young"]][:axes]
    rows = pd.MultiIndex.from_product([range(n_sets), *levels], names=["set", *AXES[:axes]]).to_frame(index=False)
    rows["set_id"] = "s" + rows["set"].astype(str)
    rows["subject"] = "job" + (rows["set"] % subjects).astype(str)
    if linked > 1:
        rows["link"] = "people" + (rows["set"] // linked).astype(str)
    return rows.drop(columns="set")


def hard_on_dark(
    frame: pd.DataFrame, rng: np.random.Generator, *, gender: float = 0.0, tone: float = 0.5
) -> np.ndarray:
    """Fails a tenth, more of hard sets, many more of dark skin, and more of f by ``gender``."""
    hard = rng.beta(1, 8, len(frame))[pd.factorize(frame["set_id"])[0]]
    rate = 0.1 + hard + tone * (frame["tone"] == "dark") + gender * (frame["gender"] == "f")
    return rng.random(len(frame)) < np.clip(rate, 0, 1)


def without(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """A third of the images is missing, those of dark women most; a twentieth of the tones is unknown."""
    share = np.where((frame["gender"] == "f") & (frame["tone"] == "dark"), 0.7, 0.25)
    part = frame[rng.random(len(frame)) > share].reset_index(drop=True)
    return part.assign(tone=part["tone"].where(rng.random(len(part)) > 0.05, None))


def p_value(frame: pd.DataFrame, failed: np.ndarray, axis: str = "gender", seed: int = 0, draws: int = 199) -> float:
    groups = Groups.from_values(frame[axis].to_numpy(dtype=object), axis=axis)
    others = [name for name in AXES if name in frame and name != axis]
    test = bias_test(failed, groups, strata_of(frame, groups, others), draws=draws, seed=seed)
    return 1.0 if test is None else test.p_value


def rate(one: Callable[[np.random.Generator, int], float], repetitions: int, seed: int = 0) -> float:
    rng = np.random.default_rng(seed)
    return float(np.mean([one(rng, i) < 0.05 for i in range(repetitions)]))


def complete(rng: np.random.Generator, i: int) -> float:
    frame = sets(40)
    return p_value(frame, hard_on_dark(frame, rng), seed=i)


def three_axes(rng: np.random.Generator, i: int) -> float:
    frame = sets(25, axes=3)
    return p_value(frame, hard_on_dark(frame, rng), seed=i)


def incomplete(rng: np.random.Generator, i: int) -> float:
    whole = sets(60)
    frame = without(whole, rng)
    dark = frame.assign(tone=frame["tone"].fillna("dark"))  # the filter sees what the table does not say
    return p_value(frame, hard_on_dark(dark, rng), seed=i)


def linked(rng: np.random.Generator, i: int) -> float:
    """Ten subjects show the same people, and what fails is mostly a matter of the person."""
    frame = sets(200, subjects=10, linked=10)
    keys = pd.factorize(frame["link"] + frame["gender"] + frame["tone"])[0]
    rate_of = np.clip(rng.beta(0.5, 1.5, keys.max() + 1)[keys] + 0.2 * (frame["tone"] == "dark"), 0, 1)
    return p_value(frame, rng.random(len(frame)) < rate_of, seed=i)


def whole_sets(rng: np.random.Generator, i: int) -> float:
    """Every set shows one gender, several tones, and has missing images."""
    frame = sets(80)
    gender = np.where(rng.random(80) < 0.4, "f", "m")
    frame["gender"] = np.repeat(gender, 6)
    frame = frame[rng.random(len(frame)) > np.where(frame["tone"] == "dark", 0.5, 0.1)].reset_index(drop=True)
    return p_value(frame, hard_on_dark(frame, rng), seed=i)


def whole_sets_of_one_tone(rng: np.random.Generator, i: int) -> float:
    """Every set shows one gender and one tone; women are mostly dark."""
    frame = sets(120, subjects=2)
    woman = rng.random(120) < 0.5
    dark = rng.random(120) < np.where(woman, 0.7, 0.3)
    frame["gender"] = np.repeat(np.where(woman, "f", "m"), 6)
    frame["tone"] = np.repeat(np.where(dark, "dark", "light"), 6)
    return p_value(frame, hard_on_dark(frame, rng), seed=i)


def no_sets(rng: np.random.Generator, i: int) -> float:
    frame = pd.DataFrame({"subject": np.repeat(["nurse", "chef"], 150)})
    woman = rng.random(300) < 0.5
    frame["gender"] = np.where(woman, "f", "m")
    frame["tone"] = np.where(rng.random(300) < np.where(woman, 0.7, 0.3), "dark", "light")
    frame["set_id"] = [f"i{k}" for k in range(300)]
    return p_value(frame, hard_on_dark(frame, rng), seed=i)


NULLS = [complete, three_axes, incomplete, linked, whole_sets, whole_sets_of_one_tone, no_sets]


@pytest.mark.parametrize(
    "null", [*NULLS[::3], *(pytest.param(null, marks=pytest.mark.slow) for null in NULLS if null not in NULLS[::3])]
)
def test_a_filter_blind_to_gender_is_seldom_called_biased(null):
    assert rate(null, 24) <= 0.17


@pytest.mark.slow
@pytest.mark.parametrize("null", NULLS)
def test_false_alarms_of_a_filter_that_is_hard_on_one_tone(null):
    assert within(rate(null, 400), 0.03, 0.07, 400)


def oracle(frame: pd.DataFrame, failed: np.ndarray, rng: np.random.Generator) -> float:
    """The sign test of the pairs that differ in gender alone, ties broken at random."""
    pairs = frame.assign(failed=failed).pivot_table(index=["set_id", "tone"], columns="gender", values="failed")
    more, less = int((pairs["f"] > pairs["m"]).sum()), int((pairs["f"] < pairs["m"]).sum())
    law = stats.binom(more + less, 0.5)
    far = max(more, less)
    return float(min(1.0, 2 * (law.sf(far) + rng.random() * law.pmf(far))))


def powers(repetitions: int) -> tuple[float, float]:
    rng = np.random.default_rng(1)
    found = []
    for i in range(repetitions):
        frame = sets(50)
        failed = hard_on_dark(frame, rng, gender=0.13)
        found.append((p_value(frame, failed, seed=i) < 0.05, oracle(frame, failed, rng) < 0.05))
    mine, best = np.mean(found, axis=0)
    return float(mine), float(best)


@pytest.mark.slow
def test_a_filter_that_is_hard_on_women_beside_a_strong_effect_of_tone_is_found():
    mine, best = powers(25)
    assert mine >= best - 0.1
    assert mine > 0.5


@pytest.mark.slow
def test_power_is_that_of_the_paired_oracle():
    mine, best = powers(400)  # of the same filters: the difference varies less than either
    assert abs(mine - best) <= 0.05
    assert 0.6 < mine < 0.95  # neither hopeless nor sure: a difference would show


def test_power_with_linked_sets():
    """Every fifth of the same people fails more: 20 people of each tone are enough to see it."""
    rng = np.random.default_rng(2)
    frame = sets(200, subjects=10, linked=10)
    failed = hard_on_dark(frame, rng, gender=0.25, tone=0.2)
    assert p_value(frame, failed, draws=999) < 0.01


def test_images_without_a_partner_do_not_move():
    frame = pd.DataFrame(
        {"set_id": ["a"] * 6, "subject": ["s"] * 6, "gender": [*"fmfmfm"], "tone": ["x", "x", "y", None, None, "z"]}
    )
    groups = Groups.from_values(frame["gender"].to_numpy(dtype=object), axis="gender")
    within = strata_of(frame, groups, ["tone"])
    assert np.bincount(within.strata).tolist() == [2, 1, 1, 1, 1]
    assert within.name == "sets, tone held fixed"
    # only the pair of the same tone can show anything, and all that the others do is even
    test = bias_test([True, False, True, True, False, False], groups, within)
    assert test.expected.tolist() == pytest.approx([(0.5 + 1 + 0) / 3, (0.5 + 1 + 0) / 3])
    assert bias_test([False, False, True, True, False, True], groups, within) is None
    for low, high in (interval for interval in test.intervals if interval):
        assert 0 <= low < high <= 1


def test_linked_sets_move_together():
    frame = sets(4, linked=2)
    groups = Groups.from_values(frame["gender"].to_numpy(dtype=object), axis="gender")
    within = strata_of(frame, groups, ["tone"])
    assert len(np.unique(within.units)) == 12  # two links, three tones, two genders
    assert len(np.unique(within.strata)) == 6
    assert len(np.unique(within.cells)) == 12  # four sets, three tones
    assert within.name.endswith("linked sets together")


def test_an_axis_that_tells_the_group_is_not_held_fixed():
    frame = sets(5).assign(word=lambda rows: np.where(rows["gender"] == "f", "woman", "man"))
    groups = Groups.from_values(frame["gender"].to_numpy(dtype=object), axis="gender")
    assert strata_of(frame, groups, ["tone", "word"]).name == "sets, tone held fixed"
