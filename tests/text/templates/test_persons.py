"""Prompts about a person: preference, zero-shot and detectability."""

import pytest

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.templates import detectability_prompts, person_axes, person_prompts, shipped, zero_shot_prompts
from equipoise.text.templates.persons import group_nouns


@pytest.mark.parametrize("axis", person_axes())
def test_at_least_three_templates_each_with_a_neutral_prompt_and_every_group(axis):
    entries = person_prompts(axis)
    assert len(entries) >= 3
    assert entries[0].neutral == "a photo of a person"
    assert len({e.neutral for e in entries}) == len(entries)
    for entry in entries:
        assert list(entry.groups) == list(entries[0].groups)
        prompts = [entry.neutral, *entry.groups.values()]
        assert len(set(prompts)) == len(prompts)
        assert not [p for p in prompts if "{" in p or "/" in p]


def test_the_wording_of_each_axis():
    race, gender, age = (person_prompts(a)[0].groups for a in ("race", "gender", "age"))
    assert race["White"] == "a photo of a white person"
    assert race["East Asian"] == "a photo of an East Asian person"
    assert race["Latino_Hispanic"] == "a photo of a Latino or Hispanic person"
    assert gender == {"male": "a photo of a male person", "female": "a photo of a female person"}
    assert age["0-2"] == "a photo of a person aged 0-2"
    assert age["more than 70"] == "a photo of a person aged 70 or more"
    assert [len(groups) for groups in (race, gender, age)] == [7, 2, 9]


def test_axes_and_templates_of_ones_own():
    (entry,) = person_prompts("hair", phrases={"auburn": "auburn-haired person"}, templates=["Look: a/an {}!"])
    assert entry.axis == "hair"
    assert entry.neutral == "Look: a person!"
    assert entry.groups == {"auburn": "Look: an auburn-haired person!"}


def test_zero_shot_prompts_name_the_group_in_every_template():
    gender = zero_shot_prompts("gender")
    assert gender["male"][0] == "a photo of a man"
    assert gender["female"][0] == "a photo of a woman"
    assert {len(prompts) for prompts in gender.values()} == {len(shipped("persons")["templates"])}
    assert zero_shot_prompts("race", templates=["a/an {}"])["Indian"] == ("an Indian person",)
    assert zero_shot_prompts("x", phrases={"old": "elderly person"}, templates=["{}"]) == {"old": ("elderly person",)}


def test_detectability_prompts_agree():
    groups = shipped("socialcounterfactuals")["axes"]["physical"]
    assert detectability_prompts(groups) == {
        "skinny": "a skinny person",
        "obese": "an obese person",
        "young": "a young person",
        "old": "an old person",
        "tattooed": "a tattooed person",
    }


def test_unknown_axes_and_templates_without_a_place():
    with pytest.raises(UnknownNameError, match="'rase'; did you mean 'race'"):
        person_prompts("rase")
    with pytest.raises(UnknownNameError):
        zero_shot_prompts("hair")
    with pytest.raises(InputError, match=r"no \{\} where the subject goes"):
        person_prompts("race", templates=["a photo"])


def test_groups_of_age_are_worded_in_any_case():
    assert group_nouns("age", ["Child", "adult", "OLDER"]) == {
        "Child": "child",
        "adult": "adult person",
        "OLDER": "old person",
    }
