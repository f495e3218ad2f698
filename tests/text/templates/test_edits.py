"""Edit instructions: GenSynth's sixteen, and any further groups."""

from collections import Counter

import pytest

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.templates import edit_groups, edit_instructions

TABLE_6 = [
    ("Make this person more feminine", "female"),
    ("Make this person more masculine", "male"),
    ("Make this person look like a woman", "female"),
    ("Make this person look like a man", "male"),
    ("Turn this person into a woman", "female"),
    ("Turn this person into a man", "male"),
    ("Convert this into a woman", "female"),
    ("Convert this into a man", "male"),
]


def test_the_published_edits_of_one_image():
    edits = list(edit_instructions())
    assert len(edits) == len(set(edits)) == 16
    for scale in (9.5, 15.0):
        assert [(e.text, e.group) for e in edits if e.guidance_scale == scale] == TABLE_6
    assert Counter(e.template for e in edits) == dict.fromkeys([e.template for e in edits], 4)


def test_edits_that_differ_only_in_the_group_stand_together():
    edits = list(edit_instructions())
    pairs = list(zip(edits[::2], edits[1::2], strict=True))
    assert all(a.template == b.template and a.guidance_scale == b.guidance_scale for a, b in pairs)
    assert {(a.group, b.group) for a, b in pairs} == {("female", "male")}


def test_a_shipped_group_that_is_not_published_is_had_by_name():
    edits = list(edit_instructions(["androgynous", "male"], guidance_scales=[7.5]))
    assert [e.text for e in edits][:4:2] == [
        "Make this person more androgynous",
        "Make this person look like an androgynous person",
    ]
    assert len(edits) == 8
    assert {e.guidance_scale for e in edits} == {7.5}


def test_any_groups_and_templates():
    groups = {"old": {"noun": "elderly person"}, "young": {"noun": "young person"}, "child": {"noun": "child"}}
    edits = list(edit_instructions(groups, templates=["Show a/an {noun}"], guidance_scales=[1, 2]))
    assert [e.text for e in edits] == ["Show an elderly person", "Show a young person", "Show a child"] * 2
    assert [e.guidance_scale for e in edits] == [1.0] * 3 + [2.0] * 3


def test_changing_what_is_given_back_changes_no_later_answer():
    edit_groups()["female"]["noun"] = "x"
    assert edit_groups()["female"]["noun"] == "woman"


@pytest.mark.parametrize(
    ("groups", "options", "error", "message"),
    [
        (["femal"], {}, UnknownNameError, "'femal'; did you mean 'female'"),
        ({"old": {"noun": "x"}}, {}, InputError, r"asks for \{adjective\}, which group 'old' does not give"),
        (["male"], {"templates": ["Do it"]}, InputError, "has no field"),
        (["male"], {"templates": ["Do {noun"]}, InputError, "cannot be read"),
        (["male"], {"guidance_scales": [0]}, InputError, "guidance_scales holds 0"),
        (["male"], {"guidance_scales": [float("nan")]}, InputError, "guidance_scales holds nan"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(groups, options, error, message):
    with pytest.raises(error, match=message):
        edit_instructions(groups, **options)
