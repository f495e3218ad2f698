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
