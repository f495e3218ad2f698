"""Placebo twins: measured as placebos, and not ranked beside the pictures they were made from."""

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig
from equipoise.audit.asking import check_groups
from equipoise.data.labels import without_twins
from equipoise.errors import InputError


def test_the_usual_level_is_the_commonest_or_the_first():
    even = pd.DataFrame({"placebo_bag": ["none", "bag"] * 3})
    assert without_twins(even).tolist() == [True, False] * 3
    most = pd.DataFrame({"placebo_bag": ["bag", "none", "none"], "placebo_light": ["plain", "plain", None]})
    assert without_twins(most).tolist() == [False, True, True]
    assert without_twins(pd.DataFrame({"gender": ["f", "m"]})).all()


def test_a_link_or_a_placebo_is_no_axis():
    frame = pd.DataFrame({"link": ["a", "b"], "placebo_bag": ["none", "bag"], "gender": ["f", "m"]})
    for name, message in (("link", "not an axis"), ("placebo_bag", "is a placebo, not an axis")):
        with pytest.raises(InputError, match=message):
            check_groups(frame, name, ("gender",))
    check_groups(frame, "gender", ("gender",))
    assert AuditConfig().axes == ()


def sets_with_bags():
    """Three subjects with four sets of two genders and two tones, everyone again with a bag; and their vectors."""
    rng = np.random.default_rng(0)
    rows, vectors = [], {}
    for subject in ("cook", "nurse", "pilot"):
        direction = rng.normal(size=16)
        vectors[f"A photo of a {subject}"] = direction
        for number in range(4):
            for gender in ("female", "male"):
                for tone in ("dark", "light"):
                    name = f"{subject}-{number}-{gender}-{tone}"
                    shared = {"set_id": f"{subject}-{number}", "subject": subject, "gender": gender, "tone": tone}
                    for changed in ("", "-bag"):
                        level = "bag" if changed else "none"
                        rows.append({"image_id": name + changed, **shared, "placebo_bag": level})
                    vectors[name] = direction + rng.normal(size=16)
                    vectors[f"{name}-bag"] = vectors[name] + 0.3 * rng.normal(size=16)
    return rows, vectors


@pytest.mark.parametrize(
    ("suite", "metric"), [("intersectional", "max_skew"), ("marginal", "max_skew"), ("utility", "zero_shot_accuracy")]
)
def test_numbers_are_those_of_the_table_without_twins(toy, suite, metric):
    rows, vectors = sets_with_bags()
    alone = [{k: v for k, v in row.items() if k != "placebo_bag"} for row in rows if row["placebo_bag"] == "none"]
    options = {} if suite == "utility" else {"draws": 200, "k": [3]}
    audits = [
        toy(some, vectors, axes=["gender", "tone"], columns={"placebo_bag": "string"}).run(
            suite, prompts=["A photo of {a}"], **options
        )
        for some in (rows, alone)
    ]
    ranked = [audit.results[audit.results["metric"] == metric].reset_index(drop=True) for audit in audits]
    assert len(ranked[0]) == len(ranked[1]) > 0
    np.testing.assert_allclose(ranked[0]["value"], ranked[1]["value"])
    np.testing.assert_array_equal(ranked[0]["n"], ranked[1]["n"])
    np.testing.assert_allclose(ranked[0]["null_mean"].astype(float), ranked[1]["null_mean"].astype(float), atol=0.08)
    assert any("48 images left out" in note for note in audits[0].notes) == (suite != "intersectional")


def test_none_is_a_level_of_a_placebo(toy):
    """And not a word for an unknown group, as on an axis."""
    rows, vectors = sets_with_bags()
    audit = toy(rows, vectors, axes=["gender", "tone"], columns={"placebo_bag": "string"}).run(
        "intersectional", draws=50, k=[3], prompts=["A photo of {a}"]
    )
    placebo = audit.results[audit.results["axis"] == "placebo_bag"]
    assert set(placebo["group"].dropna()) == {"bag - none"}
    assert set(audit.results[audit.results["metric"] == "placebo_excess"]["axis"]) == {"gender", "tone"}


def test_a_placebo_named_by_the_settings_is_one_like_any_other(toy):
    """Whatever its column is called: "none" is a level of it, and twins are not ranked beside their pictures."""
    rows, vectors = sets_with_bags()
    named = [{("bag" if k == "placebo_bag" else k): v for k, v in row.items()} for row in rows]
    asked = {"draws": 50, "k": [3], "prompts": ["A photo of {a}"]}
    audits = [
        toy(some, vectors, axes=["gender", "tone"], columns={column: "string"}).run("intersectional", **asked, **more)
        for some, column, more in ((rows, "placebo_bag", {}), (named, "bag", {"placebos": ["bag"]}))
    ]
    told = ["model", "notes", "codes"]  # where the table and its placebos are named
    usual, other = (audit.results.drop(columns=told) for audit in audits)
    pd.testing.assert_frame_equal(other.replace({"axis": {"bag": "placebo_bag"}}), usual)
