"""Questionnaires: those of the package, one's own, and what is refused."""

import pytest

from equipoise.errors import InputError
from equipoise.review.questions import (
    MONK,
    Question,
    preset,
    preset_names,
    questionnaire_called,
    questionnaire_of,
    read_questionnaire,
)


@pytest.mark.parametrize("name", preset_names())
def test_every_questionnaire_of_the_package_can_be_asked(name):
    sheet = preset(name, axis="gender", trait="competent")
    assert sheet.citation
    assert sheet.instructions
    assert any(q.kind == "note" and q.optional for q in sheet.questions)  # a free note is always there
    assert "{" not in str(sheet.plain()).replace("{'", "").replace("{}", "")


def test_the_papers_tasks_are_there():
    assert set(preset_names()) == {
        "perceived-group",
        "matches-caption",
        "counterfactual-set",
        "group-failures",
        "similar-to-source",
        "monk-skin-tone",
        "activity-and-group",
        "which-reply",
    }
    assert preset("perceived-group", axis="gender").questions[0].unsure == "unsure"
    tone = preset("monk-skin-tone").questions[0]
    assert tone.choices == (*map(str, range(1, 11)), "cannot tell")
    assert len(MONK) == 10
    assert all(q.each for q in preset("similar-to-source").questions if q.kind != "note")


def test_what_is_left_open_must_be_said():
    with pytest.raises(InputError, match="leaves the axis open; give it with --axis, such as --axis gender"):
        preset("perceived-group")
    with pytest.raises(InputError, match="say what is asked with --ask"):
        questionnaire_called("")


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "T"\n[[question]]\nname = "ok"\ntext = "OK?"\nanswers = ["yes", "no"]\naccept = ["yes"]\n')
    sheet = read_questionnaire(str(path))
    assert sheet.questions[0].accepted("yes") is True
    assert sheet.questions[0].accepted("no") is False
    assert sheet.questions[0].accepted(None) is None
    assert questionnaire_of(sheet.plain()) == sheet  # as the review keeps it


def test_several_answers_are_accepted_if_each_of_them_is():
    told = {"kind": "several", "answers": ["none", "tiny", "face"], "unsure": "unsure", "accept": ["none", "tiny"]}
    ask = Question("fault", "What is wrong?", **told)
    assert ask.accepted('["none"]') is ask.accepted('["none", "tiny"]') is True
    assert ask.accepted('["tiny", "face"]') is False
    assert ask.accepted('["tiny", "unsure"]') is ask.accepted("[]") is None


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, "asks nothing"),
        ({"question": [{"name": "Bad Name", "text": "?", "answers": ["a"]}]}, "small letters"),
        ({"question": [{"name": "q", "text": " ", "answers": ["a"]}]}, "has no text"),
        ({"question": [{"name": "q", "text": "?"}]}, "no answers"),
        ({"question": [{"name": "q", "text": "?", "answers": ["a", "a"]}]}, "different texts"),
        ({"question": [{"name": "q", "text": "?", "answers": list("abcdefghijklm")}]}, "12 are the most"),
        ({"question": [{"name": "q", "text": "?", "answers": ["a"], "accept": ["b"]}]}, "no answer of question 'q'"),
        ({"question": [{"name": "q", "text": "?", "kind": "note", "answers": ["a"]}]}, "brings its own answers"),
        ({"question": [{"name": "q", "text": "?", "answers": ["a"], "colour": "red"}]}, "no setting of a question"),
        ({"about": "replies", "question": [{"name": "q", "text": "?", "answers": ["a"]}]}, "two columns of text"),
        ({"question": [{"name": "q", "text": "?", "answers": ["a"]}] * 2}, "two questions are called 'q'"),
        ({"question": "what?"}, "write each question"),
        ({"titel": "T"}, "did you mean 'title'"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_sentence(told, why):
    with pytest.raises(InputError, match=why):
        questionnaire_of(told)


def test_only_answers_that_can_be_given_fit():
    one = Question("q", "?", answers=["a", "b"], unsure="unsure")
    assert [one.fits(x) for x in ("a", "unsure", "c", ["a"], None, 1)] == [True, True, False, False, False, False]
    many = Question("q", "?", kind="several", answers=["a", "b"])
    assert [many.fits(x) for x in ([], ["a", "b"], ["a", "a"], ["c"], "a")] == [True, True, False, False, False]
    note = Question("q", "?", kind="note")
    assert [note.fits(x) for x in ("", "x" * 2000, "x" * 2001, ["x"])] == [True, True, False, False]


def test_an_axis_that_is_called_perceived_is_asked_about_once():
    asked = preset("perceived-group", axis="perceived_gender")
    assert asked.title == "Perceived gender"
    assert asked.questions[0].text == "Perceived gender of the person in the picture"
    assert asked.questions[0].axis == "perceived_gender"  # the column is still the data's
