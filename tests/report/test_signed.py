"""Numbers whose sign is a group, and groups that a p-value is about: who is named, and which end is the worse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.report import verdict_of, write
from equipoise.report.findings import leans
from equipoise.report.page.gallery import PictureOrder, _ends
from equipoise.report.sources import read_given

from .folders import folder, of_sets, row

LEAN = {"s0": 0.6, "s1": 0.5, "s2": 0.4, "s3": 0.3, "s4": 0.2, "s5": 0.0, "s6": -0.1, "s7": -0.9}
"""Bias@5 of eight subjects: most to one group, one of them far to the other."""


@pytest.fixture
def leaning(tmp_path):
    """An audit whose verdict rests on Bias@K."""
    rows = [
        row("max_skew", (0.22, 0.1, 0.34, 0.6), chance=0.2, sd=0.06, k=5, n=8),
        row("bias_at_k", (0.3, 0.2, 0.4, 0.0001), k=5, n=8),
    ]
    for metric in ("bias_at_k", "max_skew"):
        rows += [row(metric, (v, None, None, 0.01), sd=0.1, k=5, n=1, subject=s) for s, v in LEAN.items()]
    return folder(tmp_path / "audit", rows, suite="visogender")


def test_a_subject_far_to_the_other_side_is_among_the_most_skewed(leaning):
    frame = pd.DataFrame({"image_id": [*"abcd"], "gender": ["f", "f", "m", "m"]})
    ranking = PictureOrder(frame, {s: np.array([0, 1, 2, 3] if v > 0 else [2, 3, 0, 1]) for s, v in LEAN.items()})
    shown = _ends(read_given([leaning]).series[0], "bias_at_k", "gender", 2, ranking)
    assert [name for name, _, _ in shown] == ["s7", "s0", "s1", "s6", "s5"]
    assert [sure for _, _, sure in shown] == [True, True, True, True, False]


def test_the_page_does_not_call_one_side_of_a_signed_number_the_lopsided_one(leaning, tmp_path):
    text = write(leaning, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "the farther from the line, the more lopsided are its pictures" in text
    assert "right of the line" not in text


def test_a_subject_leans_against_the_group_that_its_p_value_is_about(tmp_path):
    """Of three groups a clear gap between two must not condemn the third, which is last by luck."""
    rows = [
        row("counterfactual_gap", (gap, None, None, p), sd=0.01, group=pair, subject="cook", axis="skin_tone", n=8)
        for pair, gap, p in (("a - b", 0.5, 0.0001), ("a - c", 0.52, 0.4), ("b - c", 0.02, 0.9))
    ]
    (lean,) = leans(read_given([folder(tmp_path / "audit", rows)]).series[0])
    assert (lean.towards, lean.against, lean.p_value, lean.sure) == ("a", "c", 1.0, False)


@pytest.mark.parametrize(
    ("subject", "table", "told"),
    [("s", "t", "asked the same,"), ("other ", "t", "asked about other pictures"), ("s", "u", "asked about other")],
)
def test_a_model_asked_about_something_else_is_not_said_to_be_asked_the_same(tmp_path, subject, table, told):
    rows = of_sets()
    first = folder(tmp_path / "A", rows, model="A")
    for one in rows:
        one["subject"] = one["subject"] and one["subject"].replace("s", subject)
    second = folder(tmp_path / "B", rows, model="B", table=table)
    assert f"For comparison, B, {told}" in verdict_of([first, second]).text
