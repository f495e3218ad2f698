"""The suite ``marginal``: one axis given a group of another."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.audit.asking import SOCIALCF_PROMPTS, neutral_prompts
from equipoise.errors import InputError

RNG = np.random.default_rng


def sets(bias_in: str | None, n_subjects: int = 20, n_sets: int = 10, races=("A", "B"), dim: int = 32):
    """Gender matters to the score only among images of the race ``bias_in``."""
    rng = RNG(1)
    rows, vectors = [], {}
    for subject in (f"job{i}" for i in range(n_subjects)):
        direction = rng.normal(size=dim)
        vectors |= dict.fromkeys(neutral_prompts([subject], SOCIALCF_PROMPTS)[0], direction)
        for number in range(n_sets):
            scene = direction + rng.normal(size=dim)
            for race in races:
                for gender in ("female", "male"):
                    name = f"{subject}-{number}-{race}-{gender}"
                    lean = 0.8 * (race == bias_in and gender == "male")
                    rows.append(
                        {
                            "image_id": name,
                            "set_id": f"{subject}-{number}",
                            "subject": subject,
                            "race": race,
                            "gender": gender,
                        }
                    )
                    vectors[name] = scene + lean * direction + 0.3 * rng.normal(size=dim)
    return rows, vectors


def test_gender_bias_is_found_given_the_race_that_has_it(toy, picked):
    found = toy(*sets("A"), axes=["gender", "race"]).run("marginal", draws=300).results
    there = picked(found, metric="max_skew", axis="gender | race=A")
    not_there = picked(found, metric="max_skew", axis="gender | race=B")
    assert there.k == not_there.k == 12
    assert there.excess > 0.1
    assert there.p_value < 0.01
    assert not_there.p_value > 0.05
    assert picked(found, metric="representation", axis="gender | race=A", group="male").value > 0.6
    # men of race A score high, so among men race A is over-represented, among women it is not
    assert picked(found, metric="max_skew", axis="race | gender=male").p_value < 0.01
    assert picked(found, metric="max_skew", axis="race | gender=female").p_value > 0.05


def test_without_bias_the_excess_is_within_its_error(toy, picked):
    found = toy(*sets(None), axes=["gender", "race"]).run("marginal", draws=300).results
    axes = {"gender | race=A", "gender | race=B", "race | gender=female", "race | gender=male"}
    assert set(found["axis"]) == axes
    for axis in axes:
        row = picked(found, metric="max_skew", axis=axis)
        assert abs(row.excess) < 3.5 * row.null_sd


def test_k_is_half_the_largest_pool_where_no_pool_has_more_than_twelve(toy):
    found = toy(*sets(None, n_sets=4, n_subjects=3), axes=["gender", "race"]).run("marginal", draws=50).results
    assert set(found["k"]) == {4}


def test_pools_too_small_for_k_are_left_out_and_told(toy, picked):
    rows, vectors = sets(None, n_subjects=3)
    rows = [row for row in rows if not (row["subject"] == "job0" and int(row["set_id"].split("-")[1]) >= 5)]
    audit = toy(rows, vectors, axes=["gender", "race"]).run("marginal", draws=50)
    assert "gender | race=A: 1 subjects left out with at most K = 12 such images" in audit.notes
    assert picked(audit.results, metric="max_skew", axis="gender | race=A").n == 2
    with pytest.raises(InputError, match=r"measured nothing: .*no subject has more than K = 30 such images"):
        toy(rows, vectors, axes=["gender", "race"]).run("marginal", k=[30])
    with pytest.raises(InputError, match="K = 500, but only 40 images are of the largest pool"):
        toy(rows, vectors, axes=["gender", "race"]).run("marginal", k=[500])


def test_one_axis_is_not_enough(toy):
    with pytest.raises(InputError, match="asks about one axis given another, but there is only 'gender'; name two"):
        toy(*sets(None, n_subjects=2), axes=["gender", "race"]).run("marginal", axes=["gender"])
