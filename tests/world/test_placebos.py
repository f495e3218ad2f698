"""Placebos: what changes in the picture, what does not, and that nothing was put in."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from equipoise.errors import InputError
from equipoise.world import (
    Scene,
    preset,
    render,
    sample,
    scene_of,
    truth,
    truth_of,
    what_is_where,
    write_counterfactual_table,
)
from equipoise.world.figures import MONK
from equipoise.world.placebos import PLACEBOS, brighter

FAIR = preset("fair")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    home = tmp_path_factory.mktemp("placebos")
    given = {"subjects": ["nurse", "pilot", "chef"], "seed": 5}
    plain = write_counterfactual_table(home / "plain", FAIR, 3, **given)
    changed = write_counterfactual_table(home / "changed", FAIR, 3, placebos=["mirror", "brightness", "bag"], **given)
    return plain, changed


def test_a_mirrored_picture_is_the_picture_mirrored_with_its_masks():
    for scene in sample(FAIR, 20, seed=1):
        other = scene.with_placebo("mirror")
        assert (render(other) == render(scene)[:, ::-1]).all()
        here, there = what_is_where(scene), what_is_where(other)
        for one, two in zip((*here.people, *here.objects), (*there.people, *there.objects), strict=True):
            assert (two == one[:, ::-1]).all()


def test_more_light_changes_every_colour_a_little_and_mixes_none():
    scene = sample(FAIR, 1, seed=1)[0]
    before, after = (render(one).astype(int) for one in (scene, scene.with_placebo("brightness")))
    assert (after - before).min() >= 0
    assert 5 < (after - before).max() < 15
    colours = len(np.unique(before.reshape(-1, 3), axis=0))
    assert len(np.unique(after.reshape(-1, 3), axis=0)) == pytest.approx(colours, rel=0.02)
    tones = np.array([[int(tone[i : i + 2], 16) for i in (1, 3, 5)] for tone in MONK])
    lit = np.asarray(brighter(Image.fromarray(tones.astype(np.uint8)[None]))).astype(int)[0]
    nearest = np.linalg.norm(lit[:, None] - tones[None], axis=2).argmin(axis=1) + 1
    assert [FAIR.tone_group(int(step)) for step in nearest] == [FAIR.tone_group(step) for step in range(1, 11)]


def test_a_bag_is_always_one_more_and_inside_the_person():
    for scene in sample(FAIR, 40, seed=2):
        for carried in (False, True):
            first = replace(scene.people[0], bag=carried)
            base = replace(scene, people=(first, *scene.people[1:]))
            other = base.with_placebo("bag")
            differs = (render(base) != render(other)).any(axis=2)
            assert differs.any()
            assert not (differs & ~what_is_where(other).people[0]).any()
            assert other.captions() == base.captions()


def test_one_placebo_at_a_time_and_no_other():
    scene = sample(FAIR, 1)[0]
    with pytest.raises(InputError, match="one at a time"):
        scene.with_placebo("bag").with_placebo("mirror")
    with pytest.raises(InputError, match="brightness"):
        scene.with_placebo("brightnes")
    assert "placebo" not in scene.as_dict(), "tables without placebos stay as they were"
    for name in PLACEBOS:
        assert Scene.from_dict(scene.with_placebo(name).as_dict()) == scene.with_placebo(name)


def test_a_table_holds_its_base_pictures_byte_for_byte(tables):
    plain, changed = tables
    changed.validate(decode=True)
    frame, before = (table.to_pandas(list(table.columns)) for table in (changed, plain))
    assert len(frame) == 4 * len(before)
    usual = (frame["placebo_bag"] == "none") & (frame["placebo_mirror"] == "plain")
    base = frame[usual & (frame["placebo_brightness"] == "plain")]
    assert base["image_id"].tolist() == before["image_id"].tolist()
    assert [i["bytes"] for i in base["image"]] == [i["bytes"] for i in before["image"]]
    assert base["params"].tolist() == before["params"].tolist()
    for name, (level, other) in PLACEBOS.items():
        twins = frame[frame[f"placebo_{name}"] == other]
        assert len(twins) == len(before), "one at a time: not crossed"
        assert set(frame[f"placebo_{name}"]) == {level, other}
        assert twins["image_id"].tolist() == [f"{i}-{name}" for i in before["image_id"]]
        for column in ("captions", "neutral_captions", "gendered_captions"):
            assert [list(t) for t in twins[column]] == [list(t) for t in before[column]]
        assert all(a["bytes"] != b["bytes"] for a, b in zip(twins["image"], before["image"], strict=True))


def test_placebos_are_no_axes_of_the_table(tables):
    plain, changed = tables
    assert changed.axes == plain.axes == ("gender", "skin_tone", "age")
    assert "placebo_bag" not in plain.columns
    assert changed.config["placebos"] == ["bag", "mirror", "brightness"]
    assert "placebos" not in plain.config
    assert "link" not in changed.columns, "sets of different subjects share nobody"


def test_a_changed_picture_can_be_made_again(tables):
    _, changed = tables
    for row in changed.rows(["image_id", "params", "placebo_mirror", "people"]):
        scene = scene_of(row["params"], FAIR)
        assert (scene.placebo == "mirror") == (row["placebo_mirror"] == "mirrored")
        if scene.placebo == "bag":
            assert '"bag": true' in row["people"]


def test_the_order_of_the_names_changes_nothing(tmp_path):
    one, other = (
        write_counterfactual_table(tmp_path / "".join(names), FAIR, 1, subjects=["chef"], placebos=names)
        for names in (["bag", "mirror"], ["mirror", "bag"])
    )
    assert one.fingerprint == other.fingerprint


def test_the_truth_about_placebos_is_nothing(tables):
    plain, changed = tables
    held = truth_of(changed)
    placebos = held[held["axis"].str.startswith("placebo_")]
    assert set(placebos["axis"]) == {f"placebo_{name}" for name in PLACEBOS}
    assert (placebos[["log_odds", "log_ratio"]] == 0).all().all()
    assert set(placebos["kind"]) == set(held["kind"])
    rest = held[~held["axis"].str.startswith("placebo_")].reset_index(drop=True)
    assert rest.equals(truth_of(plain))
    biased = truth(preset("biased"), ["bag"])
    assert biased[biased["axis"] == "placebo_bag"]["log_odds"].abs().max() == 0
    assert biased[biased["axis"] == "gender"]["log_odds"].abs().max() > 1
