"""Labels that mean a group of the lexicon in other words, and what may be said where nothing was masked."""

from __future__ import annotations

import pandas as pd
import pytest

from equipoise.audit.captions.inputs import read_inputs
from equipoise.audit.captions.measures import CaptionMeasures, _group_of, word_list
from equipoise.audit.captions.settings import CaptionSettings
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


@pytest.mark.parametrize(("labels", "fits"), [(("man", "boy", "woman"), True), (("man", "boy"), False)])
def test_labels_that_mean_one_group_are_counted_as_one(tmp_path, labels, fits):
    """Men and boys are the two largest of the labels, and one group of the lexicon."""
    rows = [(i, f"a {label} outside", label) for i, label in enumerate(labels * 4)]
    pd.DataFrame(rows, columns=["image_id", "caption", "gender"]).to_csv(tmp_path / "x.csv", index=False)
    inputs = read_inputs([tmp_path / "x.csv"], None, "gender")
    words = word_list("equipoise", inputs)
    assert (words.fits, bool(words.notes)) == (fits, not fits)
    measures = CaptionMeasures(inputs, inputs.models[0], words, CaptionSettings(), print)
    measures.mentions()
    ratios = [row["value"] for row in measures.findings.rows if row["metric"] == "ratio"]
    assert ratios[:1] == ([2.0] if fits else [])


def test_unmasked_captions_that_show_nothing_cannot_be_judged():
    about = {"metric": "lic", "model": "nic", "axis": "sex", "null_mean": 0.0, "n": 5000}
    nothing, leaning = ({**about, "value": v, "ci_low": v - 0.3, "ci_high": v + 0.3} for v in (0.0, 3.0))
    assert judge(nothing, Adjusted(0.9, 1), masked=True).outcome == "nothing found, and would have been"
    told = judge(nothing, Adjusted(0.9, 1), masked=False)
    assert told.outcome == "cannot tell"
    assert "words that name a group were not masked" in told.sentence
    assert judge(leaning, Adjusted(0.001, 1), masked=False).outcome == "leans"
