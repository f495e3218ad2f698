"""Placebo twins on the page: pictures are shown and ranked as they were made."""

import pandas as pd

from equipoise.report.page.gallery import set_gallery


def test_a_set_is_shown_without_its_twins():
    rows = [
        {"image_id": f"{gender}{bag}", "set_id": "s", "subject": "cook", "gender": gender, "placebo_bag": bag}
        for bag in ("none", "bag")
        for gender in ("m", "f")
    ]
    [(title, members)] = set_gallery(pd.DataFrame(rows), ["gender"])
    assert title == "cook"
    assert members["image_id"].tolist() == ["fnone", "mnone"]


def test_sets_of_one_name_of_two_subjects_are_shown_apart():
    rows = [
        {"image_id": f"{subject}-{group}", "set_id": "1", "subject": subject, "gender": group}
        for subject in ("cook", "nurse")
        for group in ("female", "male")
    ]
    shown = set_gallery(pd.DataFrame(rows), ["gender"])
    assert [(title, members["image_id"].tolist()) for title, members in shown] == [
        ("cook", ["cook-female", "cook-male"]),
        ("nurse", ["nurse-female", "nurse-male"]),
    ]
