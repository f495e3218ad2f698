import numpy as np
import pytest

from equipoise.errors import InputError
from equipoise.world import SceneArrays, WorldConfig, draw, preset, sample, truth
from equipoise.world.catalog import OCCUPATIONS


def test_a_picture_depends_on_its_seed_alone():
    long = sample(preset("strong"), 300, seed=9)
    short = sample(preset("strong"), 40, seed=9, start=200)
    assert [long[200 + i] for i in range(40)] == list(short)
    scene = long[123]
    assert draw(preset("strong"), [scene.seed])[0] == scene
    assert sample(preset("strong"), 40, seed=10)[0] != long[0]


def test_slices_and_indices_agree():
    scenes = sample(preset("fair"), 20, seed=0)
    part = scenes[5:8]
    assert isinstance(part, SceneArrays)
    assert list(part) == [scenes[5], scenes[6], scenes[7]]
    assert scenes[-1] == scenes[19]
    with pytest.raises(IndexError):
        scenes[20]


@pytest.mark.parametrize("name", ["biased", "strong", "spurious", "imbalanced"])
def test_frequencies_follow_the_truth(name):
    config = preset(name)
    scenes = sample(config, 60_000, seed=4)
    table = truth(config).set_index(["kind", "subject", "axis", "group"])["p_given"]
    subjects, groups = scenes.subjects, {axis: scenes.labels(axis) for axis in ("gender", "skin_tone", "age")}
    worst = 0.0
    for (kind, subject, axis, group), expected in table.items():
        if kind in ("occupation", "activity"):
            where = subjects == subject
        elif kind == "scene":
            where = (
                np.array(["beach", "farm", "kitchen", "mountains", "office", "park", "stage", "street"])[
                    scenes.columns["scene"]
                ]
                == subject
            )
        else:
            continue
        seen, n = (groups[axis][where] == group).mean(), where.sum()
        worst = max(worst, abs(seen - expected) / np.sqrt(max(expected * (1 - expected), 1e-4) / n))
    assert worst < 4.8  # about 450 comparisons; a z-score of 4.8 has probability 1e-6 each


@pytest.mark.slow
def test_objects_follow_the_truth():
    config = preset("strong")
    scenes = sample(config, 40_000, seed=5)
    table = truth(config).query("kind == 'object' and axis == 'gender' and group == 'female'").set_index("subject")
    shown = [(scene.object_names, scene.group("gender")) for scene in scenes]
    for name in ("ball", "umbrella", "moon", "tent"):
        women = [gender == "female" for names, gender in shown if name in names]
        expected = table.loc[name, "p_given"]
        assert abs(np.mean(women) - expected) < 4.5 * np.sqrt(expected * (1 - expected) / len(women))


def test_visibility_noise_and_shares():
    config = WorldConfig(visible=0.75, label_noise=0.1, activity_share=0.25, two_people=0.5)
    scenes = sample(config, 20_000, seed=6)
    columns = scenes.columns
    assert columns["visible"].mean() == pytest.approx(0.75, abs=0.012)
    assert (columns["activity"] >= 0).mean() == pytest.approx(0.25, abs=0.012)
    assert columns["two"].mean() == pytest.approx(0.125, abs=0.01)
    for axis in ("gender", "skin_tone", "age"):
        assert (columns[axis] != columns[f"noted_{axis}"]).mean() == pytest.approx(0.1, abs=0.01)
    noisy = next(s for s in scenes if s.people[0].noted)
    axis, said = noisy.people[0].noted[0]
    assert noisy.noted(axis) == said != noisy.group(axis)


def test_three_figures():
    scenes = sample(WorldConfig(gender={"male": 1, "female": 1, "neutral": 2}), 8000, seed=1)
    assert (scenes.labels("gender") == "neutral").mean() == pytest.approx(0.5, abs=0.03)


def test_a_subject_can_be_fixed():
    assert {s.subject for s in draw(preset("fair"), range(30), subject="nurse")} == {"nurse"}
    two = draw(preset("fair"), range(30), subject="playing_drum", bystander=True)
    assert {len(s.people) for s in two} == {2}
    with pytest.raises(InputError, match="did you mean 'nurse'"):
        draw(preset("fair"), [1], subject="nurs")
    with pytest.raises(InputError, match="n=-1"):
        sample(preset("fair"), -1)
    with pytest.raises(InputError, match="start=-1"):
        sample(preset("fair"), 1, start=-1)
    assert len(sample(preset("fair"), 0)) == 0


def test_uniform_hats_leave_no_room_for_an_own_hat():
    for scene in sample(WorldConfig(visible=1.0, activity_share=0.0, trait=0.9), 300, seed=2):
        person = scene.people[0]
        assert not (person.hat and OCCUPATIONS[person.occupation].hat)
