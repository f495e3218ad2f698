"""What is held fixed while one axis is shuffled: the other axes that vary inside sets, and placebo columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig
from equipoise.audit.subjects import links_of, set_codes, sets_or_images, shuffled_cells, strata
from equipoise.audit.suites.intersectional import SUITE
from equipoise.measure.groups import Groups
from equipoise.measure.retrieval import Candidates, Scores, chance, evaluate
from equipoise.measure.stats.group_means import group_means


def sets(**columns: list[object]) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"subject": ["cook"] * n, "set_id": ["s"] * n, **columns})


def test_levels_of_the_other_axis_are_the_code():
    frame = sets(gender=[*"fmfm"], race=[*"xxyy"])
    assert strata(frame, ["gender", "race"], ["gender"]).tolist() == [0, 0, 1, 1]
    assert strata(frame, ["gender", "race"], ["race"]).tolist() == [0, 1, 0, 1]


def test_nothing_is_held_when_both_axes_are_asked_or_nothing_else_varies():
    frame = sets(gender=[*"fmfm"], race=[*"xxyy"], age=["old"] * 4)
    assert strata(frame, ["gender", "race", "age"], ["gender", "race"]).tolist() == [0, 0, 0, 0]


def test_an_axis_that_varies_between_sets_only_is_not_held():
    frame = sets(gender=[*"fmfm"], race=[*"xxyy"])
    frame["set_id"] = [*"aabb"]
    assert strata(frame, ["gender", "race"], ["gender"]).tolist() == [0, 0, 0, 0]


def test_sets_of_the_same_name_of_two_subjects_are_two_sets():
    frame = sets(gender=[*"fmfm"], race=[*"xxyy"])
    frame["subject"] = ["cook", "cook", "nurse", "nurse"]
    assert strata(frame, ["gender", "race"], ["gender"]).tolist() == [0, 0, 0, 0]


def test_sets_without_a_subject_are_sets_and_images_without_a_set_are_none():
    frame = sets(gender=[*"fmfm"], race=[*"xxyy"])
    frame["subject"] = None
    assert strata(frame, ["gender", "race"], ["gender"]).tolist() == [0, 0, 1, 1]
    frame["set_id"] = None
    assert strata(frame, ["gender", "race"], ["gender"]).tolist() == [0, 0, 0, 0]


def test_one_set_in_which_it_varies_is_enough():
    frame = sets(gender=[*"fmfmfm"], race=[*"xxxxxy"])
    frame["set_id"] = [*"aabbcc"]
    assert strata(frame, ["gender", "race"], ["gender"]).tolist() == [0, 0, 0, 0, 0, 1]


def test_a_missing_level_is_minus_one_and_only_where_the_axis_counts():
    frame = sets(gender=[*"fmfm"], race=["x", "x", None, "y"], age=["old", None, None, "old"])
    assert strata(frame, ["gender", "race", "age"], ["gender"]).tolist() == [0, 0, -1, 1]


def test_placebo_columns_are_held_though_no_axis_names_them():
    frame = sets(gender=[*"fmfm"], placebo_bag=[True, True, False, False])
    codes = strata(frame, ["gender"], ["gender"])
    assert codes[0] == codes[1] != codes[2] == codes[3]
    assert strata(frame, ["gender"], ["gender", "placebo_bag"]).tolist() == [0, 0, 0, 0]


def test_three_axes_cross():
    frame = sets(gender=[*"fmfmfmfm"], race=[*"xxyyxxyy"], age=[*"oooonnnn"])
    codes = strata(frame, ["gender", "race", "age"], ["gender"])
    assert len(np.unique(codes)) == 4
    assert (codes[::2] == codes[1::2]).all()


def test_a_table_without_sets_or_without_images():
    frame = sets(gender=[*"fmfm"], race=[*"xxyy"]).drop(columns="set_id")
    assert strata(frame, ["gender", "race"], ["gender"]).tolist() == [0, 0, 0, 0]
    assert strata(sets(gender=[*"fm"], race=[*"xy"]).iloc[:0], ["gender", "race"], ["gender"]).tolist() == []


def test_sets_without_a_column_of_subjects_can_be_linked():
    frame = pd.DataFrame({"set_id": [*"1122"], "link": ["x"] * 4})
    assert links_of(frame, AuditConfig()).tolist() == [0, 0, 0, 0]


def test_one_wrong_level_leaves_out_no_set_whose_level_is_not_known():
    tones = np.repeat([None, "light", "dark", None], 10)
    frame = pd.DataFrame({"set_id": np.repeat(np.arange(40), 2).astype(str), "gender": [*"fm"] * 40})
    frame["tone"] = np.repeat(tones, 2)
    assert (strata(frame, ["gender", "tone"], ["gender"]) == 0).all()
    frame.loc[20, "tone"] = "dark"
    codes = strata(frame, ["gender", "tone"], ["gender"])
    assert codes[20] != codes[21]  # the set that shows two tones
    assert len(np.unique(np.delete(codes, [20, 21]))) == 1
    assert (codes >= 0).all()
    frame.loc[22:26:2, "tone"] = "dark"  # four of twenty: tones do vary inside sets
    assert (strata(frame, ["gender", "tone"], ["gender"]) < 0).sum() == 40


def test_one_image_without_a_set_leaves_the_sets_of_the_others_together(scored):
    """Twins score nearly alike, so that chance inside sets hardly changes who is first; over all images it does."""
    n = 12
    frame = pd.DataFrame({"set_id": np.repeat([f"set {i}" for i in range(n)], 2), "gender": [*"fm"] * n})
    frame = frame.assign(subject="cook", image_id=[f"image {i}" for i in range(2 * n)])
    lone = {"set_id": [None], "gender": ["f"], "subject": ["cook"], "image_id": ["lone"]}
    both = pd.concat([frame, pd.DataFrame(lone)], ignore_index=True)

    def null_sd(rows: pd.DataFrame) -> float:
        rows.attrs["axes"] = ["gender"]
        place = {image: i // 2 + 0.1 * (i % 2) for i, image in enumerate(frame["image_id"])}
        evidence = scored(SUITE, rows, lambda row, text: -place.get(row["image_id"], 99.0))
        found = SUITE.measure(evidence, AuditConfig(k=(6,), min_sets=1, draws=200)).frame()
        return float(found[found["metric"] == "max_skew"]["null_sd"].iloc[0])

    assert null_sd(frame) == null_sd(both) == 0.0
    assert null_sd(both.assign(set_id=None)) > 0.05


def test_gaps_inside_sets_stay_though_one_image_belongs_to_none(scored):
    frame = pd.DataFrame({"set_id": np.repeat([f"set {i}" for i in range(8)], 2), "gender": [*"fm"] * 8})
    frame = frame.assign(subject="cook", image_id=[f"image {i}" for i in range(16)])
    lone = pd.DataFrame({"set_id": [None], "gender": ["f"], "subject": ["cook"], "image_id": ["lone"]})

    def gaps(rows: pd.DataFrame) -> tuple[list[float], list[str]]:
        rows.attrs["axes"] = ["gender"]
        score = dict(zip(frame["image_id"], np.random.default_rng(0).normal(size=16), strict=True))
        evidence = scored(SUITE, rows, lambda row, text: score.get(row["image_id"], 99.0))
        found = SUITE.measure(evidence, AuditConfig(k=(4,), min_sets=1, draws=50))
        rows = found.frame()
        of_sets = rows["metric"].isin(["counterfactual_gap", "counterfactual_gap_size", "standard_gap"])
        return rows[of_sets]["value"].tolist(), found.notes

    values, notes = gaps(pd.concat([lone, frame], ignore_index=True))
    assert values
    assert values == gaps(frame)[0]
    assert "1 image of no counterfactual set left out of gaps inside sets" in notes
    nothing, notes = gaps(frame.assign(set_id=None))
    assert nothing == []
    assert "no counterfactual gaps: no image belongs to a counterfactual set" in notes


@pytest.mark.parametrize("lone", [0, 2, 4])
def test_images_of_no_set_do_not_hold_the_labels_of_people_fast(lone):
    """Photographs of men come first; the labels of a subject's four people must move, whoever else is there."""
    rng, rows, scores = np.random.default_rng(1), [], []
    for job in range(12):
        people = [("fm"[person % 2], f"person {person}") for person in range(4) for _ in range(3)]
        rows += [{"subject": f"job {job}", "set_id": name, "gender": group} for group, name in people]
        rows += [{"subject": f"job {job}", "set_id": None, "gender": "fm"[i % 2]} for i in range(lone)]
        scores += [(group == "m") + 0.01 * rng.normal() for group, _ in people]
        scores += rng.uniform(-0.5, 1.5, lone).tolist()
    frame = pd.DataFrame(rows)
    pools = Candidates(pd.factorize(frame["subject"])[0], np.arange(12))
    ranked = evaluate(
        Scores(np.tile(scores, (12, 1))),
        Groups.from_values(frame["gender"], axis="gender"),
        k=6,
        metrics=["max_skew"],
        candidates=pools,
    )
    sets = set_codes(frame, np.ones(len(frame), dtype=bool), ["gender"])
    null = chance(ranked, sets=sets, draws=200).suite["max_skew"]
    assert null.mean() < 0.35
    assert (null >= ranked.values["max_skew"].mean()).mean() < 0.02


def test_images_of_no_set_and_no_subject_share_a_number_of_their_own():
    frame = pd.DataFrame({"set_id": ["p", "p", None, None, "q", "q"], "gender": [*"fmfmfm"]})
    frame["subject"] = ["cook", "cook", "cook", None, None, None]
    assert set_codes(frame, np.ones(6, dtype=bool), ["gender"]).tolist() == [0, 0, 2, 3, 1, 1]


def test_people_of_several_subjects_are_numbered_alike_for_chance_and_for_intervals():
    frame = pd.DataFrame({"subject": ["cook", "pilot", "cook", "nurse"], "set_id": [*"ppqq"], "gender": [*"ffmm"]})
    assert set_codes(frame, np.ones(4, dtype=bool), ["gender"]).tolist() == sets_or_images(frame).tolist()


def test_the_gap_of_images_of_no_set_is_not_taken_for_chance():
    """Sixty pairs of twins without a gap, fifty images of no set with one of .6: chance knows nothing of it."""
    rng = np.random.default_rng(0)
    twins = pd.DataFrame({"set_id": np.repeat([f"set {i}" for i in range(60)], 2), "gender": [*"fm"] * 60})
    frame = pd.concat([twins, pd.DataFrame({"set_id": None, "gender": [*"fm"] * 25})], ignore_index=True)
    lone = frame["set_id"].isna().to_numpy()
    values = 0.1 * rng.normal(size=len(frame)) + 0.6 * (lone & (frame["gender"] == "m").to_numpy())
    sets = sets_or_images(frame)
    groups = Groups.from_values(frame["gender"], axis="gender")
    cells = shuffled_cells(frame, sets, "gender")
    gap = group_means(values, groups, clusters=sets, shuffle_within=cells, permutations=400).gap
    assert gap.null_mean < 0.06
    assert gap.p_value < 0.01
