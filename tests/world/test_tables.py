import json

import numpy as np
import pandas as pd
import pytest

from equipoise.data import Table, masks
from equipoise.data.images import decode
from equipoise.data.people import people_of
from equipoise.errors import InputError
from equipoise.world import (
    WorldConfig,
    preset,
    render,
    sample,
    scene_of,
    truth,
    truth_of,
    what_is_where,
    write_binding_table,
    write_counterfactual_table,
    write_table,
    write_visogender_table,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    config = preset("strong").changed(activity_share=0.4, unsafe=0.2, label_noise=0.1)
    return write_table(tmp_path_factory.mktemp("world") / "t", config, 60, seed=4)


def test_a_table_opens_and_validates(table):
    again = Table.open(table.path)
    again.validate(decode=True)
    assert again.axes == ("gender", "skin_tone", "age")
    assert len(again) == 60
    assert again.config["world"]["name"] == "strong"
    pd.testing.assert_frame_equal(
        truth_of(again), truth(preset("strong").changed(activity_share=0.4)), check_dtype=False
    )


def test_rows_say_what_is_shown(table):
    config = preset("strong").changed(activity_share=0.4, unsafe=0.2, label_noise=0.1)
    scenes = sample(config, 60, seed=4)
    for row, scene in zip(table.rows(), scenes, strict=True):
        assert row["subject"] == scene.subject
        assert row["gender"] == scene.noted("gender")
        assert row["captions"] == scene.captions(5)
        assert row["caption"] == row["captions"][0]
        assert row["objects"] == sorted(scene.object_names)
        assert row["unsafe"] == (scene.unsafe is not None)
        assert row["label_source"] == "world"
        assert row["seed"] == scene.seed
        picture = np.asarray(decode(row["image"]))
        assert (picture == render(scene)).all()
        where = what_is_where(scene)
        people = people_of(row["people"])
        assert len(people) == len(scene.people)
        for i, person in enumerate(people):
            mask = masks.decode(person["mask"], 64, 64)
            assert (mask == where.people[i]).all()
            assert person["box"] == masks.to_box(mask)
            assert person["attributes"]["gender"] == scene.group("gender", i)
        for thing in json.loads(row["object_boxes"]):
            assert thing["name"] in scene.object_names
            assert masks.decode(thing["mask"], 64, 64).any()
        if len(scene.people) == 2:
            assert ("gender" in row["mixed"]) == (scene.group("gender") != scene.group("gender", 1))


def test_a_row_can_be_made_again_larger(table):
    row = next(iter(table.rows(["params"])))
    config = preset("strong").changed(activity_share=0.4, unsafe=0.2, label_noise=0.1)
    scene = scene_of(row["params"], config)
    assert scene == sample(config, 1, seed=4)[0]
    assert render(scene, 256).shape == (256, 256, 3)


def test_the_same_settings_give_the_same_bytes(tmp_path):
    first = write_table(tmp_path / "a", preset("biased"), 15, seed=1)
    second = write_table(tmp_path / "b", preset("biased"), 15, seed=1)
    assert first.fingerprint == second.fingerprint
    assert write_table(tmp_path / "c", preset("biased"), 15, seed=2).fingerprint != first.fingerprint


def test_counterfactual_table(tmp_path):
    seen = []
    table = write_counterfactual_table(
        tmp_path / "cf",
        preset("biased"),
        2,
        subjects=["nurse", "police officer"],
        axes=["gender", "age"],
        progress=seen.append,
    )
    table.validate()
    frame = table.to_pandas()
    assert len(frame) == len(seen) == 2 * 2 * 6
    assert frame.groupby("set_id").size().unique().tolist() == [6]
    assert frame.groupby("set_id")["subject"].nunique().max() == 1
    assert frame.groupby("set_id")[["skin_tone", "scene"]].nunique().to_numpy().max() == 1
    assert frame["occupation_visible"].all()
    assert table.config["varied"] == ["gender", "age"]


def test_binding_table(tmp_path):
    table = write_binding_table(tmp_path / "b", preset("biased"), 1, activities=["playing_guitar", "holding_baby"])
    table.validate()
    frame = table.to_pandas()
    assert sorted(frame["cell"]) == ["E1"] * 2 + ["E2"] * 2 + ["U1"] * 2 + ["U2"] * 2
    row = frame[(frame["subject"] == "holding_baby") & (frame["cell"] == "U2")].iloc[0]
    assert (row["gender"], row["other_gender"], row["expected_gender"]) == ("male", "female", "female")
    assert row["caption"] == "a man is holding a baby and a woman is in the scene"
    assert row["reversed_caption"] == "a woman is holding a baby and a man is in the scene"
    assert frame.loc[frame["cell"] == "E1", "other_gender"].isna().all()


def test_what_is_no_world_is_refused(tmp_path):
    with pytest.raises(InputError, match="n=0"):
        write_table(tmp_path / "x", WorldConfig(), 0)
    other = Table.create(tmp_path / "y", [{"image_id": "a"}])
    with pytest.raises(InputError, match="holds no truth"):
        truth_of(other)
    with pytest.raises(InputError, match="no scene"):
        scene_of({"model": "x"})
    for params in ("nope", "3", "null"):
        with pytest.raises(InputError, match="no scene"):
            scene_of(params)
    with pytest.raises(InputError, match="not a scene of the world"):
        scene_of({"scene": {"people": 3}})


@pytest.mark.parametrize(
    ("write", "names", "kind"),
    [
        (write_counterfactual_table, "subjects", "subject"),
        (write_binding_table, "activities", "activity"),
        (write_visogender_table, "occupations", "occupation"),
    ],
)
def test_one_name_is_no_list_of_names(write, names, kind, tmp_path):
    with pytest.raises(
        InputError, match=rf"the {kind} must be in a list of names, not the text 'nurse'; write \['nurse'\]"
    ):
        write(tmp_path / "t", preset("fair"), 1, **{names: "nurse"})
