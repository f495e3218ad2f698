import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.filters import bias
from equipoise.filters.bias import bias_test
from equipoise.filters.bias_strata import Within, paired_columns, strata_of
from equipoise.filters.funnel import StepOutcome, bias_tests, funnel_of, report_text, result_rows
from equipoise.measure.groups import Groups
from equipoise.measure.stats.exchange import permuted_labels


def sets_of_twelve(n_sets):
    """Two genders by six tones, the same in every set."""
    frame = pd.DataFrame(
        {
            "image_id": [f"{s}-{i}" for s in range(n_sets) for i in range(12)],
            "set_id": np.repeat([f"s{s}" for s in range(n_sets)], 12),
            "subject": np.repeat([f"job{s % 10}" for s in range(n_sets)], 12),
            "gender": ["female", "male"] * (6 * n_sets),
            "skin_tone": [f"tone{i // 2}" for i in range(12)] * n_sets,
        }
    )
    return frame, Groups.from_values(frame["gender"], axis="gender"), Groups.from_values(frame["skin_tone"])


def outcome(label, failed, dropped=None):
    every = np.ones(len(failed), dtype=bool)
    failed = np.asarray(failed, dtype=bool)
    return StepOutcome(label, every, failed if dropped is None else dropped, failed, every)


def global_p_values(failed, groups, strata, *, draws=999, seed=0, chunk=64):
    """(b,) p-values of b filters at once, ``failed`` (b, n): the same test, by one matrix product per block of draws.

    All filters share their shuffles.
    """
    y = np.asarray(failed, dtype=np.float32)
    defined = groups.labels >= 0
    rng = np.random.default_rng(seed)
    y, labels = bias._without_ties(y[:, defined], rng).astype(np.float32), groups.labels[defined]
    codes = np.unique(np.asarray(strata)[defined], return_inverse=True)[1]
    shares = bias._shares(labels, codes, groups.n_groups)
    sums = np.stack([np.bincount(codes, row, len(shares)) for row in y])
    squares = np.stack([np.bincount(codes, row.astype(np.float64) ** 2, len(shares)) for row in y])
    size = np.bincount(codes).astype(np.float64)
    scatter = np.clip(squares - sums**2 / size, 0, None)
    weight = np.where(size > 1, scatter * size / np.maximum(size - 1, 1), 0.0)
    expected = sums @ shares
    spread = np.sqrt(np.clip(weight @ (shares * (1 - shares)), 0, None))
    own = np.stack([y @ (labels == g).astype(np.float32) for g in range(groups.n_groups)], axis=1)
    z = np.abs(bias._scaled(own - expected, spread)).max(axis=1)
    above = np.zeros(len(y), dtype=np.int64)
    left = draws
    while left:
        now = min(chunk, left)
        for block in permuted_labels(labels, now, rng, codes):
            largest = np.zeros((len(block), len(y)))
            for g in range(groups.n_groups):
                counts = (block == g).astype(np.float32) @ y.T
                largest = np.maximum(largest, np.abs(bias._scaled(counts - expected[:, g], spread[:, g])))
            above += (largest >= z - bias._TIE).sum(axis=0)
        left -= now
    return np.asarray((1 + above) / (draws + 1))


def test_moments_by_hand():
    # set 1: f f m, one of three fails; set 2: f m, one of two: f expects 2/3 + 1/2
    groups = Groups.from_values(["f", "f", "m", "f", "m"], axis="gender")
    test = bias_test([True, False, False, True, False], groups, [0, 0, 0, 1, 1])
    assert test.expected == pytest.approx([(2 / 3 + 1 / 2) / 3, (1 / 3 + 1 / 2) / 2])
    # variances: 2/9 and 1/4
    assert test.sd == pytest.approx([np.sqrt(2 / 9 + 1 / 4) / 3, np.sqrt(2 / 9 + 1 / 4) / 2])
    assert test.rates == pytest.approx([2 / 3, 0])
    # none of f fails with chance 1/3 * 1/2, which is farther from 7/6; two with 2/3 * 1/2: ties, broken by the seed
    assert 1 / 6 - 0.04 < test.p_value < 1 / 3 + 1 / 6 + 0.05


@given(st.integers(0, 10_000))
def test_shuffles_have_the_stated_mean_and_spread(seed):
    rng = np.random.default_rng(seed)
    labels, strata = rng.integers(0, 3, 60), rng.integers(0, 6, 60)
    y = rng.random(60) < 0.4
    problem = bias._Problem.of(
        y.astype(float), Groups(labels, ("a", "b", "c")), Within(strata.astype(np.int64), "strata")
    )
    _, variance = problem.moments()
    null = problem.shuffled(400, np.random.default_rng(seed))
    spread = np.sqrt(variance)
    assert (np.abs(null.mean(axis=0)) < 6 * spread / 20 + 1e-9).all()
    assert null.std(axis=0) == pytest.approx(spread, rel=0.25, abs=1e-9)
    normal = problem.normal(4000, rng)
    assert normal.std(axis=0) == pytest.approx(spread, rel=0.1, abs=1e-6)
    assert np.allclose(normal.sum(axis=1), 0, atol=1e-6)


def test_the_normal_law_and_the_shuffles_agree(monkeypatch):
    frame, gender, _ = sets_of_twelve(100)
    rng = np.random.default_rng(1)
    failed = rng.random(len(frame)) < np.where(gender.labels == 0, 0.32, 0.25)
    exact = bias_test(failed, gender, strata_of(frame, gender), draws=1999)
    monkeypatch.setattr(bias, "EXACT_LIMIT", 0)
    normal = bias_test(failed, gender, strata_of(frame, gender), draws=1999)
    assert normal.notes
    assert not exact.notes
    assert normal.p_value == pytest.approx(exact.p_value, abs=0.015)
    assert 0.0005 <= exact.p_value < 0.05


def test_the_batch_gives_the_same_p_values():
    frame, gender, tone = sets_of_twelve(40)
    rng = np.random.default_rng(2)
    failed = rng.random((5, len(frame))) < 0.3
    for groups in (gender, tone):
        within = strata_of(frame, groups)
        one_by_one = [bias_test(y, groups, within, draws=1999).p_value for y in failed]
        together = global_p_values(failed, groups, within.strata, draws=1999)
        assert together == pytest.approx(one_by_one, abs=0.05)


@pytest.mark.slow
def test_unbiased_filters_raise_the_alarm_in_one_of_twenty():
    # harder sets lose more images, harder subjects too: none of it has to do with a group
    frame, gender, tone = sets_of_twelve(200)
    rng = np.random.default_rng(0)
    hard = rng.beta(2, 4, (1000, 200)).repeat(12, axis=1)
    failed = rng.random((1000, len(frame))) < hard
    started = time.process_time()
    # filters of one call share their shuffles, and so the shuffles' luck; ten calls even that out
    p = [
        np.concatenate(
            [
                global_p_values(failed[b::10], groups, strata_of(frame, groups).strata, seed=b + 10 * i)
                for b in range(10)
            ]
        )
        for i, groups in enumerate((gender, tone))
    ]
    took = time.process_time() - started
    alarms = np.minimum(p[0], p[1]) * 2 < 0.05  # Holm's first step
    assert 0.035 <= alarms.mean() <= 0.065
    for one in p:  # each axis alone keeps its level too
        assert 0.03 <= (one < 0.05).mean() <= 0.07
    assert took < 60


def test_a_planted_biased_filter_is_named_with_its_p_value():
    frame, _, _ = sets_of_twelve(60)
    rng = np.random.default_rng(5)
    dark = (frame["skin_tone"] == "tone5").to_numpy()
    biased = rng.random(len(frame)) < np.where(dark, 0.5, 0.2)
    fair = rng.random(len(frame)) < 0.2
    outcomes = [outcome("fair", fair), outcome("harsh", biased)]
    tests = bias_tests(frame, ("gender", "skin_tone"), outcomes, draws=999)
    alarms = {(one.step, one.test.axis): one for one in tests if one.alarm}
    assert ("harsh", "skin_tone") in alarms
    assert not any(step == "fair" for step, _ in alarms)
    assert ("harsh", "gender") not in alarms
    found = alarms["harsh", "skin_tone"]
    assert found.test.worst == "tone5"
    assert found.p_corrected < 0.01
    assert found.test.rates[found.test.names.index("tone5")] == pytest.approx(biased[dark].mean())
    text = report_text(funnel_of(frame, ("gender", "skin_tone"), outcomes), tests, outcomes)
    line = next(line for line in text.splitlines() if line.startswith("BIASED") and "skin_tone tone5" in line)
    assert "harsh is harder on skin_tone tone5: it drops" in line
    assert "p 0.0" in line
    rows = pd.DataFrame(result_rows(tests, outcomes))
    row = rows[(rows.metric == "filter_bias") & (rows.variant == "harsh") & (rows.axis == "skin_tone")].iloc[0]
    assert row["group"] == "tone5"
    assert row.p_value == found.p_corrected
    assert row.null_mean > 0
    groups = rows[(rows.metric == "filter_drop") & (rows.variant == "harsh") & (rows.axis == "skin_tone")]
    assert (groups.ci_low <= groups.value).all()
    assert (groups.value <= groups.ci_high).all()


def test_whole_sets_cannot_be_biased_but_their_failures_can():
    frame, gender, _ = sets_of_twelve(30)
    failed = (gender.labels == 0) & (np.random.default_rng(0).random(len(frame)) < 0.2)
    gone = np.isin(frame["set_id"], frame["set_id"][failed].unique())
    tests = bias_tests(frame, ("gender",), [outcome("detect", failed, gone)])
    assert [(one.what, one.test.worst, one.alarm) for one in tests] == [("fail", "female", True)]
    assert bias_test(gone, gender, strata_of(frame, gender)) is None


def test_labels_that_never_vary_within_a_set_move_with_it():
    # every set has one group; 4 copies of a decision are one decision
    groups = Groups.from_values(np.repeat(["a", "b"] * 10, 4), axis="gender")
    frame = pd.DataFrame({"set_id": np.repeat([f"s{i}" for i in range(20)], 4), "subject": ["x"] * 80})
    within = strata_of(frame, groups)
    assert within.units is not None
    gone = np.repeat(np.arange(20) < 6, 4)  # three sets of each
    assert bias_test(gone, groups, within).p_value > 0.5
    gone = np.repeat((np.arange(20) % 2 == 0) & (np.arange(20) < 8), 4)  # four of a, none of b
    p_sets = bias_test(gone, groups, within).p_value
    p_images = bias_test(gone, groups, np.zeros(80)).p_value
    assert p_images < 0.01 < 0.05 < p_sets


def test_the_largest_sample_is_quick():
    frame, gender, _ = sets_of_twelve(20_000)
    failed = np.random.default_rng(0).random(len(frame)) < 0.3
    started = time.process_time()
    test = bias_test(failed, gender, strata_of(frame, gender))
    assert time.process_time() - started < 5
    assert test.notes
    assert test.n.sum() == 240_000


def test_undefined_groups_take_no_part():
    groups = Groups.from_values(["f", "m", None, "f", "m", None], axis="gender")
    test = bias_test([True, False, True, False, True, True], groups, [0, 0, 0, 1, 1, 1])
    assert test.n.tolist() == [2, 2]
    assert test.rates.tolist() == [0.5, 0.5]


def test_what_cannot_be_tested_is_none_and_too_few_draws_are_refused():
    one = Groups.from_values(["f", "f"], axis="gender")
    assert bias_test([True, False], one, [0, 0]) is None
    two = Groups.from_values(["f", "m"], axis="gender")
    assert bias_test([False, False], two, [0, 0]) is None
    with pytest.raises(InputError, match="at least 19"):
        bias_test([True, False], two, [0, 0], draws=10)


def test_the_funnel_adds_up():
    frame, _, _ = sets_of_twelve(20)
    rng = np.random.default_rng(0)
    first = rng.random(len(frame)) < 0.5
    second = ~first & (rng.random(len(frame)) < 0.5)
    every = np.ones(len(frame), dtype=bool)
    funnel = funnel_of(
        frame,
        ("gender", "skin_tone"),
        [StepOutcome("one", every, first, first, every), StepOutcome("two", ~first, second, second, every)],
    )
    assert list(funnel.columns[:6]) == ["step", "axis", "group", "subject", "kept", "dropped"]
    for axis in ("gender", "skin_tone", ""):
        part = funnel[(funnel.axis == axis) & (funnel.unit == "image")].groupby("step")[["kept", "dropped"]].sum()
        assert part.loc["one"].tolist() == [int((~first).sum()), int(first.sum())]
        assert part.loc["two"].tolist() == [int((~first & ~second).sum()), int(second.sum())]
    cell = funnel[(funnel.step == "one") & (funnel.group == "female") & (funnel.subject == "job3")]
    mine = (frame.gender == "female") & (frame.subject == "job3")
    assert cell[["kept", "dropped"]].values.tolist() == [[int((~first[mine]).sum()), int(first[mine].sum())]]
    sets = funnel[(funnel.unit == "set") & (funnel.step == "one")]
    gone = pd.Series(first).groupby(frame["set_id"]).all().sum()
    assert sets["dropped"].sum() == gone
    assert sets["kept"].sum() == 20 - gone


def fails_but_one():
    """Seven groups in forty sets; only g differs, which never fails."""
    frame = pd.DataFrame({"set_id": np.repeat(np.arange(40), 7), "subject": "s", "group": list("abcdefg") * 40})
    failed = (frame["group"] != "g").to_numpy() & (np.random.default_rng(1).random(280) < 0.25)
    return frame, failed


def test_the_alarm_names_the_group_its_p_value_is_of():
    frame, failed = fails_but_one()
    outcomes = [outcome("people", failed)]
    tests = bias_tests(frame, ("group",), outcomes)
    test = tests[0].test
    assert test.worst == "g"
    assert test.p_group[test.names.index("g")] == test.p_value
    assert test.excess == pytest.approx(-failed.mean())
    text = report_text(funnel_of(frame, ("group",), outcomes), tests, outcomes)
    assert (
        f"BIASED FILTER: people is easier on group g: it drops 0.0% of 40 images, below the {failed.mean():.1%} that"
        in text
    )
    row = pd.DataFrame(result_rows(tests, outcomes)).query("metric == 'filter_bias'").iloc[0]
    assert row["group"] == "g"
    assert row.value == pytest.approx(failed.mean())
    assert "of g is below what is even" in row.notes
    assert row.null_mean < row.value


def test_of_a_pair_the_one_that_fails_more_is_named():
    frame, gender, _ = sets_of_twelve(40)
    for group in (0, 1):
        failed = (gender.labels == group) & (np.random.default_rng(0).random(len(frame)) < 0.3)
        test = bias_test(failed, gender, strata_of(frame, gender))
        assert (test.worst, test.excess > 0) == (gender.names[group], True)


def test_more_shuffles_where_no_p_value_could_raise_the_alarm():
    frame, failed = fails_but_one()
    outcomes = [outcome(f"people-{i}", failed) for i in (1, 2)]
    tests = bias_tests(frame, ("group",), outcomes, draws=19)
    assert [one.alarm for one in tests] == [True, True]
    assert len(bias_tests(frame, ("group",), outcomes, draws=99)[0].test.null_largest) == 99


def test_rates_of_whole_sets_are_shares_of_their_images():
    # sets of nine fail in five images, sets of one never: all the same for f and m
    sizes = np.array([9, 1] * 10)
    sets = np.repeat(np.arange(20), sizes)
    groups = Groups.from_values(np.repeat(["f", "f", "m", "m"] * 5, sizes), axis="gender")
    failed = np.concatenate([np.arange(size) < (5 if size == 9 else 0) for size in sizes])
    frame = pd.DataFrame({"set_id": sets.astype(str), "subject": "s"})
    within = strata_of(frame, groups)
    assert within.name == "subjects, whole sets at a time"
    test = bias_test(failed, groups, within)
    assert test.rates == pytest.approx([0.5, 0.5])
    assert test.expected == pytest.approx([0.5, 0.5])
    for low, high in test.intervals:
        assert low < 0.5 < high
    # clusters of nine say less than nine images
    assert test.intervals[0][1] - test.intervals[0][0] > 0.1


def test_a_group_with_larger_sets_does_not_fail_more_for_that():
    # every set fails in a third of its images; those of f are three times as large
    sizes = np.tile([9, 3], 20)
    sets = np.repeat(np.arange(40), sizes)
    groups = Groups.from_values(np.repeat(np.tile(["f", "m"], 20), sizes), axis="gender")
    frame = pd.DataFrame({"set_id": sets.astype(str), "subject": "s"})
    within = strata_of(frame, groups)
    rng = np.random.default_rng(0)
    p = [bias_test(rng.random(len(sets)) < 1 / 3, groups, within, draws=199, seed=i).p_value for i in range(100)]
    assert np.mean(np.array(p) < 0.05) < 0.13
    lean = rng.random(len(sets)) < np.where(groups.labels == 0, 0.2, 0.6)
    test = bias_test(lean, groups, within)
    assert test.p_value < 0.01
    assert test.rates == pytest.approx([lean[groups.labels == g].mean() for g in (0, 1)])
    assert test.expected == pytest.approx([lean.mean()] * 2)


def test_why_nothing_could_be_tested_is_said():
    # gender varies, but no subject has both
    frame = pd.DataFrame({"subject": ["nurse", "nurse", "chef", "chef"], "gender": ["f", "f", "m", "m"]})
    gone = [outcome("people", [True, False, True, True])]
    assert not bias_tests(frame, ("gender",), gone)
    text = report_text(funnel_of(frame, ("gender",), gone), [], gone)
    assert "no set, source or subject has images of two groups, alike on the other axes, of which some failed" in text
    none = [outcome("people", [False] * 4)]
    assert "tested for bias: nothing failed" in report_text(funnel_of(frame, ("gender",), none), [], none)


def people_with_four_images(seed, kind):
    """A filter hard on women, 60 people in three subjects; one label is wrong where ``kind`` says which."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(60), 4)
    gender = np.where((person // 3) % 2, "m", "f").astype(object)  # links of three people are of one gender
    frame = pd.DataFrame({"set_id": [f"s{i}" for i in person], "subject": np.array(["a", "b", "c"])[person % 3]})
    failed = rng.random(240) < rng.beta(2, 5, 60)[person] + 0.3 * (gender == "f")
    frame["pronoun"] = np.where(gender == "f", "she", "he")
    if "link" in kind:
        frame["link"] = [f"l{i // 3}" for i in person]
    if kind in ("set", "set of a link"):
        gender[0] = "m"
    if kind == "another axis":
        frame.loc[0, "pronoun"] = "he"
    if kind == "two images of one name":
        frame["set_id"] = [f"s{i}" for i in [0, *range(239)]]
        gender[0] = "m"
    return frame, Groups.from_values(gender, axis="gender"), failed


@pytest.mark.parametrize("kind", ["none", "set", "linked", "set of a link", "another axis", "two images of one name"])
def test_one_wrong_label_does_not_switch_the_test_off(kind):
    p = []
    for seed in range(5):
        frame, groups, failed = people_with_four_images(seed, kind)
        test = bias_test(failed, groups, strata_of(frame, groups, ["pronoun"]), draws=499)
        p.append(1.0 if test is None else test.p_value)
    assert np.median(p) < 0.03  # 0.9 or more where one label decided how all sets are tested


def test_labels_move_inside_the_few_sets_of_several_groups():
    frame = pd.DataFrame({"set_id": [*"aabbccddd"], "subject": "s", "tone": [*"xxxxyyxxy"]})
    groups = Groups.from_values([*"ffmmffmfm"], axis="gender")
    within = strata_of(frame, groups, ["tone"])
    assert within.name == "subjects, whole sets at a time, tone held fixed"
    units, strata = within.units.tolist(), within.strata.tolist()
    assert len(set(units)) == 6  # three sets, and the three images of the fourth
    assert strata[0] == strata[2] != strata[4]  # sets of one tone
    assert strata[6] == strata[7] not in (strata[0], strata[4], strata[8])  # inside the fourth, of one tone
    # exact: a and b change places or not, the two images of d do or not; f fails in a and in d
    failed = np.array([1, 1, 0, 0, 0, 1, 0, 1, 0], dtype=bool)
    test = bias_test(failed, groups, within, draws=3999)
    assert test.expected * test.n == pytest.approx([1 + 1 + 0.5, 1 + 0.5 + 0])
    assert test.p_value == pytest.approx(0.5, abs=0.03)  # both as they are, or both the other way


def test_one_wrong_tone_leaves_the_others_held_fixed():
    person = np.repeat(np.arange(40), 3)
    tone = np.where((person // 2) % 2, "light", "dark").astype(object)
    frame = pd.DataFrame({"set_id": person.astype(str), "subject": "s", "tone": tone})
    groups = Groups.from_values(np.where(person % 2, "m", "f"), axis="gender")
    clean = strata_of(frame, groups, ["tone"])
    frame.loc[1, "tone"] = "light"
    wrong = strata_of(frame, groups, ["tone"])
    assert wrong.name == clean.name == "subjects, whole sets at a time, tone held fixed"
    assert wrong.strata.tolist() == clean.strata.tolist()


def test_sets_that_have_lost_a_group_to_earlier_steps_do_not_exchange_theirs():
    frame = pd.DataFrame({"set_id": np.repeat(np.arange(60), 4).astype(str), "subject": "s", "gender": [*"ffmm"] * 60})
    groups = Groups.from_values(frame["gender"].to_numpy(dtype=object), axis="gender")
    left = (groups.labels == 1) | (np.arange(240) < 40)  # women are left in ten sets alone
    part, remaining = frame[left].reset_index(drop=True), groups.take(np.flatnonzero(left))
    within = strata_of(part, remaining, paired=paired_columns(frame, groups))
    assert within.name == "sets"
    assert len(np.unique(within.strata)) == 60
