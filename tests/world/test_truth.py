from dataclasses import replace

import numpy as np
import pytest

from equipoise.world import Scene, WorldConfig, preset, sample, truth


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
    for name in ("fair", "biased", "spurious", "imbalanced", "strong", "binding", "background"):
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


def test_to_whom_captions_give_an_activity_by_hand():
    # One activity leans by 2; captions give it to whoever does it with log-odds 3, and 2 more towards women.
    config = WorldConfig(
        strength=1.0, binding=1.0, care=3.0, leans={"activity": {"gender": {"playing_drum": 2.0}}}, activity_share=1.0
    ).changed(reach={}, activities={"playing_drum": 1.0, "playing_tennis": 1.0})
    table = truth(config).query("kind == 'binding' and group == 'female'").set_index("subject")
    given = {name: 0.5 * (1 / (1 + np.exp(-(3 + v))) + 1 / (1 + np.exp(3 - v))) for name, v in _LEANS.items()}
    for name, p in given.items():
        assert table.loc[name, "p_given"] == pytest.approx(p)
    mean = sum(given.values()) / 2
    logit = np.log(given["playing_drum"] / (1 - given["playing_drum"]))
    assert table.loc["playing_drum", "log_odds"] == pytest.approx(logit - np.log(mean / (1 - mean)))


_LEANS = {"playing_drum": 2.0, "playing_tennis": 0.0}


def test_captions_lean_as_the_truth_says():
    world = preset("binding").changed(activity_share=1.0, two_people=1.0, activities={"holding_baby": 1.0})
    scenes = [s for s in sample(world, 6000, 3) if {p.gender for p in s.people} == {"male", "female"}]
    said = np.mean([scene.said("gender") == "female" for scene in scenes])
    row = truth(world).query("kind == 'binding' and group == 'female' and subject == 'holding_baby'")
    assert said == pytest.approx(row["p_given"].item(), abs=3 * 0.5 / np.sqrt(len(scenes)))
    shown = np.mean([scene.group("gender") == "female" for scene in scenes])
    assert shown == pytest.approx(0.5, abs=3 * 0.5 / np.sqrt(len(scenes))), "what is shown does not lean"
    for scene in [s for s in scenes if s.exchanged][:20]:
        text = scene.captions(1, "gendered")[0]
        true = replace(scene, exchanged=False).captions(1, "gendered")[0]
        assert text != true
        assert scene.noted("gender") == scene.group("gender"), "the record is right, only captions are not"
        assert Scene.from_dict(scene.as_dict()) == scene


def test_other_worlds_say_who_does_it():
    for name in ("fair", "biased", "strong"):
        assert not any(scene.exchanged for scene in sample(preset(name), 200, 1))
        assert "binding" not in set(truth(preset(name))["kind"])


def test_a_gender_that_is_in_the_background_alone():
    scenes = list(sample(preset("background"), 300, 2))
    assert {scene.group("gender") for scene in scenes} == {"neutral"}
    assert {scene.noted("gender") for scene in scenes} == {"male", "female"}
    shown = preset("background").changed(hidden=0.0)
    for hidden, plain in zip(scenes[:40], sample(shown, 40, 2), strict=True):
        assert (hidden.scene, hidden.objects, hidden.noted("gender")) == (
            plain.scene,
            plain.objects,
            plain.noted("gender"),
        )
        assert hidden.captions() == plain.captions(), "captions go by the record"
    women = [scene.scene == "beach" for scene in scenes if scene.noted("gender") == "female"]
    men = [scene.scene == "beach" for scene in scenes if scene.noted("gender") == "male"]
    assert np.mean(women) > np.mean(men) + 0.1
