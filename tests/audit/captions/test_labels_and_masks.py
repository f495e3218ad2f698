"""Labels that mean a group of the lexicon in other words, and what may be said where nothing was masked."""

from __future__ import annotations

import pytest

from equipoise.audit.captions.measures import _group_of
from equipoise.audit.captions.verdict import Adjusted, judge
from equipoise.text import Lexicon


@pytest.mark.parametrize(
    ("label", "group"),
    [("male", "male"), ("Female", "female"), ("man", "male"), ("Women", "female"), ("M", "male"), ("f", "female")],
)
def test_a_label_is_a_group_by_name_letter_or_word(label, group):
    assert _group_of(label, Lexicon.load("equipoise")) == group


@pytest.mark.parametrize("label", ["light", "x", "person"])
def test_other_labels_are_none(label):
    assert _group_of(label, Lexicon.load("equipoise")) is None


def test_unmasked_captions_that_show_nothing_cannot_be_judged():
    about = {"metric": "lic", "model": "nic", "axis": "sex", "null_mean": 0.0, "n": 5000}
    nothing, leaning = ({**about, "value": v, "ci_low": v - 0.3, "ci_high": v + 0.3} for v in (0.0, 3.0))
    assert judge(nothing, Adjusted(0.9, 1), masked=True).outcome == "nothing found, and would have been"
    told = judge(nothing, Adjusted(0.9, 1), masked=False)
    assert told.outcome == "cannot tell"
    assert "words that name a group were not masked" in told.sentence
    assert judge(leaning, Adjusted(0.001, 1), masked=False).outcome == "leans"
