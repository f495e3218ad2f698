"""The suite ``intersectional``: a planted preference is found with its sign, and none where there is none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, compare
from equipoise.audit.asking import SOCIALCF_PROMPTS, neutral_prompts
from equipoise.audit.suites import SUITES
from equipoise.errors import InputError

RACES = ("A", "B", "C")
RNG = np.random.default_rng


def social(bias: float = 0.0, n_subjects: int = 24, n_sets: int = 6, seed: int = 0, dim: int = 32):
    """Complete sets of two genders and three races; "male" images lean to their subject's text by ``bias``."""
    rng = RNG(seed)
    rows, vectors = [], {}
    for subject in (f"job{i}" for i in range(n_subjects)):
        direction = rng.normal(size=dim)
        for text in neutral_prompts([subject], SOCIALCF_PROMPTS)[0]:
            vectors[text] = direction + 0.05 * rng.normal(size=dim)
        for number in range(n_sets):
            scene = direction + rng.normal(size=dim)
            for gender in ("female", "male"):
                for race in RACES:
                    name = f"{subject}-{number}-{gender}-{race}"
                    rows.append(
                        {
                            "image_id": name,
                            "set_id": f"{subject}-{number}",
                            "subject": subject,
                            "gender": gender,
                            "race": race,
                            "label_source": "prompt",
                        }
                    )
                    vectors[name] = scene + bias * (gender == "male") * direction + 0.3 * rng.normal(size=dim)
    return rows, vectors


def test_a_planted_preference_is_found_on_its_axis_and_no_other(toy, picked):
    found = toy(*social(0.5), axes=["gender", "race"]).run("intersectional", draws=300, k=[6]).results
    gender = picked(found, metric="max_skew", axis="gender")
    race = picked(found, metric="max_skew", axis="race")
    assert gender.excess > 0.1
    assert gender.p_value < 0.01
    assert race.p_value > 0.05
    share = picked(found, metric="representation", axis="gender", group="male")
    assert share.value > 0.6 > 0.5 > picked(found, metric="representation", axis="gender", group="female").value
    gap = picked(found, metric="counterfactual_gap", axis="gender", group="female - male")
    assert gap.ci_high < 0
    assert gap.pool == "generated"


def test_more_bias_gives_more_skew(toy, picked):
    excess = []
    for bias in (0.0, 0.2, 0.6):
        world = toy(*social(bias, n_subjects=12), axes=["gender", "race"])
        found = world.run("intersectional", draws=50, k=[6]).results
        excess.append(picked(found, metric="ndkl", axis="gender").excess)
    assert excess[0] < excess[1] < excess[2]


def test_without_bias_the_excess_is_within_its_error(toy, picked):
    found = toy(*social(0.0), axes=["gender", "race"]).run("intersectional", draws=300).results
    for axis, k in (("gender", 2), ("race", 3), ("gender x race", 6)):
        row = picked(found, metric="max_skew", axis=axis)
        assert row.k == k
        assert abs(row.excess) < 3.5 * row.null_sd


def test_scores_and_vectors_give_the_same_ranking_metrics(toy, scored):
    rows, vectors = social(0.4, n_subjects=5)
    by_vectors = toy(rows, vectors, axes=["gender", "race"]).run("intersectional", draws=50, prompts=["{A}"]).results
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender", "race"]
    unit = {name: v / np.linalg.norm(v) for name, v in vectors.items()}
    suite, config = SUITES.load("intersectional"), AuditConfig(draws=50, prompts=("{A}",))
    evidence = scored(suite, frame, lambda row, text: float(unit[row["image_id"]] @ unit[text]), config)
    by_scores = suite.measure(evidence, config).frame()
    assert by_vectors["metric"].tolist() == by_scores["metric"].tolist()
    np.testing.assert_allclose(by_vectors["value"].astype(float), by_scores["value"].astype(float), atol=1e-6)


@pytest.mark.parametrize("pool", ["embed_mean_unit", "embed_mean_raw", "metric_mean"])
def test_every_way_to_join_prompts_finds_the_bias(toy, picked, pool):
    world = toy(*social(0.6, n_subjects=12), axes=["gender", "race"])
    found = world.run("intersectional", draws=100, k=[6], prompt_pool=pool).results
    assert picked(found, metric="max_skew", axis="gender").p_value < 0.02


def test_scores_cannot_be_weighed_by_the_length_of_vectors(scored):
    frame = pd.DataFrame(social(n_subjects=2)[0])
    frame.attrs["axes"] = ["gender", "race"]
    suite, config = SUITES.load("intersectional"), AuditConfig(draws=20, prompt_pool="embed_mean_raw")
    evidence = scored(suite, frame, lambda row, text: float(len(text) * len(row["image_id"])), config)
    with pytest.raises(InputError, match="embed_mean_raw weighs prompts by the length of their vectors"):
        suite.measure(evidence, config)


def test_the_seed_is_that_of_single_subjects_too(toy):
    made = toy(*social(n_subjects=2, n_sets=16), axes=["gender", "race"])
    runs = [made.run("intersectional", draws=20, k=[2], axes=["gender"], seed=seed).results for seed in (0, 1)]
    gaps = [found[(found["metric"] == "counterfactual_gap") & found["subject"].notna()] for found in runs]
    assert gaps[0]["value"].tolist() == gaps[1]["value"].tolist()
    assert gaps[0]["p_value"].tolist() != gaps[1]["p_value"].tolist()


def test_subjects_with_too_few_sets_are_left_out_and_told(toy):
    rows, vectors = social(0.0, n_subjects=4, n_sets=2)
    rows = [row for row in rows if not (row["subject"] == "job3" and row["set_id"].endswith("-1"))]
    audit = toy(rows, vectors, axes=["gender", "race"]).run("intersectional", draws=50)
    assert "1 subjects left out with fewer than 2 sets: job3" in audit.notes
    assert "job3" not in set(audit.results["subject"].dropna())
    with pytest.raises(InputError, match="no subject has 9 counterfactual sets; give a table with more sets"):
        toy(rows, vectors, axes=["gender", "race"]).run("intersectional", min_sets=9)


def test_images_of_other_subjects_change_nothing(toy):
    rows, vectors = social(0.4, n_subjects=4, n_sets=2)
    few = [row for row in rows if row["subject"] != "job3"]
    alone = toy(few, vectors, axes=["gender", "race"]).run("intersectional", draws=50).results
    rows = [row for row in rows if not (row["subject"] == "job3" and row["set_id"].endswith("-1"))]
    beside = toy(rows, vectors, axes=["gender", "race"]).run("intersectional", draws=50).results
    np.testing.assert_allclose(alone["value"].astype(float), beside["value"].astype(float), atol=1e-6)


def test_bias_at_k_is_given_for_the_axis_that_has_the_pair(toy, picked):
    world = toy(*social(0.6, n_subjects=12), axes=["gender", "race"])
    audit = world.run("intersectional", draws=50, k=[6], pair=["male", "female"])
    rows = audit.results[audit.results["metric"] == "bias_at_k"]
    assert set(rows["axis"]) == {"gender"}
    assert picked(audit.results, metric="bias_at_k", axis="gender").value > 0.2


def test_sets_of_one_image_do_not_hide_a_bias(toy, picked):
    rows, vectors = social(0.8, n_subjects=8)
    rows = [{**row, "set_id": row["image_id"]} for row in rows]
    audit = toy(rows, vectors, axes=["gender", "race"]).run("intersectional", axes=["gender"], draws=200, k=[6])
    row = picked(audit.results, metric="max_skew", axis="gender")
    assert row.excess > 0.1
    assert row.p_value < 0.01
    assert any("sets show one group" in note for note in audit.notes)


def test_an_axis_that_does_not_vary_inside_sets_is_exchanged_between_them(toy, picked):
    rows, vectors = social(0.0, n_subjects=12, n_sets=8)
    rng, looks = RNG(3), {}
    for row in rows:  # the sets of race A look like their subject's text, the others do not
        row["race"] = looks.setdefault(row["set_id"], "AB"[len(looks) % 2])
        text = vectors[neutral_prompts([row["subject"]], SOCIALCF_PROMPTS)[0][0]]
        vectors[row["image_id"]] = vectors[row["image_id"]] + 0.8 * (row["race"] == "A") * text
    asked = {"axes": ["race"], "k": [6]}
    biased = toy(rows, vectors, axes=["gender", "race"]).run("intersectional", draws=200, **asked)
    assert picked(biased.results, metric="max_skew", axis="race").p_value < 0.02
    blind = []
    for _ in range(10):
        by_set = {name: str(rng.choice(["A", "B"])) for name in looks}
        drawn = [{**row, "race": by_set[row["set_id"]]} for row in rows]
        found = toy(drawn, vectors, axes=["gender", "race"]).run("intersectional", draws=60, **asked).results
        blind.append(picked(found, metric="max_skew", axis="race").p_value < 0.05)
    assert sum(blind) <= 2  # images of a set come together: taken one by one they would call that a bias


def broken_sets(combinations):
    """Two axes, and in every set these combinations of them."""
    return [
        {"image_id": f"{s}{n}{i}", "set_id": f"{s}{n}", "subject": s, "gender": gender, "race": race}
        for s in ("cook", "nurse")
        for n in range(4)
        for i, (gender, race) in enumerate(combinations)
    ]


@pytest.mark.parametrize(
    "combinations",
    [
        [("f", "A"), ("m", "B"), ("f", "A"), ("m", "B")],
        [("f", "A"), ("m", "B"), ("f", "B"), (None, "A")],
    ],
)
def test_sets_without_every_combination_leave_the_rest_standing(scored, combinations):
    frame = pd.DataFrame(broken_sets(combinations))
    frame.attrs["axes"] = ["gender", "race"]
    suite, config = SUITES.load("intersectional"), AuditConfig(draws=20)
    rng = RNG(0)
    found = suite.measure(scored(suite, frame, lambda row, text: rng.normal(), config), config)
    assert "no decomposition: sets: none of 8 has all 4 combinations of gender, race" in found.notes
    assert "max_skew" in set(found.frame()["metric"])
    # where every man is B and every woman A, no two images differ in one of the two alone
    confounded = combinations[0] == combinations[2]
    assert ("gender: no gaps, because no two images of a set differ in it alone" in found.notes) == confounded
    assert ("counterfactual_gap" in set(found.frame()["metric"])) == (not confounded)


def test_sets_may_be_numbered_anew_in_each_subject(scored):
    complete = broken_sets([("f", "A"), ("m", "B"), ("f", "B"), ("m", "A")])
    suite, config = SUITES.load("intersectional"), AuditConfig(draws=20)
    found = []
    for renumbered in (False, True):
        frame = pd.DataFrame(complete)
        if renumbered:
            frame["set_id"] = frame["set_id"].str[-1]
        frame.attrs["axes"] = ["gender", "race"]
        rng = RNG(0)
        found.append(
            suite.measure(scored(suite, frame, lambda row, text, rng=rng: rng.normal(), config), config).frame()
        )
    pd.testing.assert_frame_equal(*found)


def test_the_level_is_that_of_every_interval(toy, picked):
    world = toy(*social(0.3, n_subjects=6), axes=["gender", "race"])
    wide, narrow = (world.run("intersectional", draws=50, level=level) for level in (0.95, 0.5))
    for metric, group in (("max_skew", None), ("counterfactual_gap", "female - male")):
        a, b = (picked(one.results, metric=metric, axis="gender", group=group) for one in (wide, narrow))
        assert a.value == b.value
        assert b.ci_high - b.ci_low < 0.5 * (a.ci_high - a.ci_low)
    assert "95% interval" in str(wide)
    assert "50% interval" in str(narrow)
    assert "95%" not in str(narrow)


def test_n_of_a_gap_is_what_its_interval_counts(toy, picked):
    found = toy(*social(0.3, n_subjects=6), axes=["gender", "race"]).run("intersectional", draws=50).results
    row = picked(found, metric="counterfactual_gap", axis="gender", group="female - male")
    assert row.n == 6
    assert "n is subjects, of 36 sets" in row.notes
    one = picked(found, metric="counterfactual_gap", axis="gender", group="female - male", subject="job0")
    assert one.n == 6
    assert "n is subjects" not in one.notes


def test_a_table_of_one_group_is_refused(scored):
    frame = pd.DataFrame(broken_sets([("f", "A"), ("f", "B"), ("f", "A"), ("f", "B")]))
    frame.attrs["axes"] = ["gender"]
    suite, config = SUITES.load("intersectional"), AuditConfig(draws=20)
    with pytest.raises(InputError, match="the axis 'gender' shows one group, 'f'; an audit compares groups"):
        suite.check(frame, config)


def test_a_k_beyond_every_pool_leaves_out_what_it_cannot_show(scored):
    frame = pd.DataFrame(broken_sets([("f", "A"), ("m", "B"), ("f", "B"), ("m", "A")]))
    frame.attrs["axes"] = ["gender", "race"]
    suite, config = SUITES.load("intersectional"), AuditConfig(draws=20, k=(100_000,))
    rng = RNG(0)
    found = suite.measure(scored(suite, frame, lambda row, text: rng.normal(), config), config)
    assert "max_skew" not in set(found.frame()["metric"])
    assert any("max_skew" in note and "no pool has more than K images (the largest has" in note for note in found.notes)


def test_a_comparison_is_over_the_subjects_that_the_audits_count(toy, picked):
    """A subject whose pool is no larger than K is in neither mean, so it must not shrink their difference."""
    audits = []
    for bias in (0.8, 0.0):
        rows, vectors = social(bias, n_subjects=8)
        rows = [row for row in rows if int(row["subject"][3:]) % 2 or row["set_id"][-1] in "01"]  # half have two sets
        made = toy(rows, vectors, axes=["gender", "race"])
        audits.append(made.run("intersectional", "out", axes=["gender"], draws=100, k=[12]))
    means = [picked(audit.results, metric="max_skew") for audit in audits]
    assert [row.n for row in means] == [4, 4]
    row = picked(compare(*(audit.folder for audit in audits)).frame(), metric="max_skew")
    assert (row.value, row.n) == (pytest.approx(means[0].value - means[1].value), 4)
    assert "labels shuffled alike for both" in row.notes
