import numpy as np
import pytest

from equipoise.world import WorldConfig, preset, truth


def test_hand_worked_log_odds():
    # Two occupations, equally common: P(female | nurse) = 1 / (1 + e^-2), P(female | chef) = 1/2.
    config = WorldConfig(
        strength=1.0, leans={"occupation": {"gender": {"nurse": 2.0}}}, occupations={"nurse": 1.0, "chef": 1.0}
    )
    table = truth(config).set_index(["subject", "axis", "group"])
    nurse = 1 / (1 + np.exp(-2))
    mean = (nurse + 0.5) / 2
    row = table.loc[("nurse", "gender", "female")]
    assert row["p_given"] == pytest.approx(nurse)
    assert row["p"] == pytest.approx(mean)
    assert row["log_ratio"] == pytest.approx(np.log(nurse / mean))
    assert row["log_odds"] == pytest.approx(2.0 - np.log(mean / (1 - mean)))
    assert ("police officer", "gender", "female") not in table.index


def test_bayes_for_places():
    # P(beach | female) and P(beach | male) from one lean; the other seven places do not lean.
    config = WorldConfig(
        strength=1.0,
        reach={"scene": 1.0},
        leans={"scene": {"gender": {"beach": 2 * np.log(2)}}},
        gender={"male": 1, "female": 3},
    )
    table = truth(config).set_index(["subject", "axis", "group"])
    women, men = 2 / (2 + 7), 0.5 / (0.5 + 7)
    expected = 0.75 * women / (0.75 * women + 0.25 * men)
    assert table.loc[("beach", "gender", "female"), "p_given"] == pytest.approx(expected)


def test_probabilities_add_up():
    for name in ("fair", "biased", "spurious", "imbalanced", "strong"):
        sums = truth(preset(name)).groupby(["kind", "subject", "axis"])[["p_given", "p"]].sum()
        assert np.allclose(sums, 1.0)


def test_strength_scales_log_odds_and_fair_has_none():
    def gap(strength):
        table = truth(preset("biased").changed(strength=strength))
        rows = table.query("kind == 'occupation' and axis == 'gender' and group == 'female'")
        return rows["log_odds"].max() - rows["log_odds"].min()

    assert gap(0.0) == pytest.approx(0.0)
    assert gap(1.0) == pytest.approx(4.8)
    assert gap(2.0) == pytest.approx(9.6)


def test_injected_axes_are_uncorrelated():
    table = truth(preset("biased")).query("kind == 'occupation'")
    poles = [("gender", "female"), ("skin_tone", "dark"), ("age", "older")]
    columns = [
        table[(table["axis"] == axis) & (table["group"] == group)].sort_values("subject")["log_odds"]
        for axis, group in poles
    ]
    off_diagonal = np.corrcoef(columns) - np.eye(3)
    assert np.abs(off_diagonal).max() < 0.1


@pytest.mark.parametrize("strength", [1, 5, 16, 40])
def test_what_was_put_in_is_told_at_any_strength(strength):
    # Each row alone: P(female | nurse) = 1 / (1 + e^-2.4 strength), and the mean of two opposite leans is one half.
    leans = {"occupation": {"gender": {"nurse": 2.4, "chef": -2.4}}}
    config = WorldConfig(strength=strength, leans=leans, occupations={"nurse": 1.0, "chef": 1.0})
    table = truth(config).set_index(["subject", "axis", "group"])["log_odds"]
    assert np.isfinite(table).all()
    for subject, sign in (("nurse", 1), ("chef", -1)):
        assert table[subject, "gender", "female"] == pytest.approx(sign * 2.4 * strength)
        assert table[subject, "gender", "male"] == pytest.approx(-sign * 2.4 * strength)


def test_things_that_lean_as_far_as_allowed_have_a_truth():
    config = preset("strong").changed(
        strength=40.0, reach=dict.fromkeys(("occupation", "activity", "scene", "object"), 1.0)
    )
    table = truth(config)
    assert np.isfinite(table[["p_given", "p", "log_ratio", "log_odds"]]).all(axis=None)
    assert table["log_odds"].abs().max() > 90


def test_a_world_of_one_group_has_no_log_odds():
    table = truth(preset("biased").changed(gender={"male": 1})).query("axis == 'gender'")
    assert set(table["group"]) == {"male"}
    assert (table["log_odds"] == 0).all()
