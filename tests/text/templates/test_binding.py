"""Binding captions: the 37 activities of GAB, their published counts, captions and near activities."""

import re
from collections import Counter

import pytest

from equipoise.errors import InputError, UnknownNameError
from equipoise.text import Lexicon
from equipoise.text.templates import (
    BINDING_GROUPS,
    activities,
    activity,
    activity_choices,
    article,
    binding_captions,
)

BY_ID = {a.id: a for a in activities()}


def test_37_activities_in_three_categories():
    assert len(BY_ID) == len(activities()) == 37
    assert Counter(a.category for a in activities()) == {"stereotypical": 12, "everyday": 15, "laion": 10}
    assert len({a.phrase for a in activities()}) == len({a.printed for a in activities()}) == 37


def test_the_published_counts():
    totals = [sum(a.images[g] for a in activities()) for g in BINDING_GROUPS]
    assert totals == [1_506, 1_366, 1_518, 1_367]
    assert sum(totals) == 5_757
    assert min(min(a.images.values()) for a in activities()) == 26
    assert all(set(a.images) == set(BINDING_GROUPS) for a in activities())
    assert sum(min(a.images["E1"], a.images["U1"]) for a in activities()) == 1_364
    assert sum(min(a.images["E2"], a.images["U2"]) for a in activities()) == 1_186


@pytest.mark.parametrize(
    ("id", "category", "expected", "images"),
    [
        ("applying_nail_polish", "stereotypical", "female", [43, 35, 43, 45]),
        ("tying_childs_hair_into_a_ponytail", "stereotypical", "female", [38, 30, 29, 44]),
        ("unclogging_drains_or_fixing_leaks", "stereotypical", "male", [36, 44, 35, 27]),
        ("spinning_pottery", "everyday", "female", [61, 31, 38, 59]),
        ("programming_new_software", "everyday", "male", [59, 64, 46, 27]),
        ("drinking_beer", "laion", "male", [31, 31, 101, 41]),
        ("picking_flower", "laion", "female", [31, 31, 34, 32]),
    ],
)
def test_single_activities(id, category, expected, images):
    one = activity(id)
    assert (one.category, one.expected) == (category, expected)
    assert [one.images[g] for g in BINDING_GROUPS] == images


def test_expected_genders():
    women = {a.id for a in activities() if a.expected == "female"}
    assert {a.expected for a in activities()} == {"female", "male"}
    assert Counter((a.category, a.expected) for a in activities()) == {
        ("stereotypical", "female"): 5,
        ("stereotypical", "male"): 7,
        ("everyday", "female"): 8,
        ("everyday", "male"): 7,
        ("laion", "female"): 5,
        ("laion", "male"): 5,
    }
    assert {"doing_pilates", "knitting_colorful_scarves", "holding_baby", "skating_in_a_roller_derby"} <= women
    assert not {"playing_poker", "tuning_guitar", "holding_gun", "leading_team"} & women


@pytest.mark.parametrize("one", activities(), ids=lambda a: a.id)
def test_wording_and_near_activities(one):
    assert len(one.near) >= 9
    phrases = [p.lower() for p in (one.phrase, *one.near)]
    assert len(set(phrases)) == len(phrases)
    lexicon = Lexicon.load("equipoise")
    for phrase in (one.phrase, *one.near):
        # A verb in -ing, behind a noun at most ("scuba diving"); small letters but for names.
        assert re.match(r"(?:[a-z]+ )?[a-z]+ing\b", phrase)
        assert re.fullmatch(r"[a-z' -]+", re.sub(r"\b(?:Pilates|American)\b", "", phrase))
        assert all(a == article(rest) for a, rest in re.findall(r"\b(an?) (\w+)", phrase))
        assert not lexicon.groups_in(phrase)


def test_our_wording_is_sentence_english_and_the_printed_name_stands_beside_it():
    one = activity("tying_childs_hair_into_a_ponytail")
    assert one.phrase == "tying a child's hair into a ponytail"
    assert one.printed == "Tying Child’s Hair into a Ponytail"
    assert activity("drinking_beer").phrase == "drinking beer"
    assert activity("baking_cake").phrase == "baking a cake"
    assert activity("preparing_herbal_teas").phrase == "preparing herbal teas"


def test_captions_of_the_four_groups():
    found = {(c.group, c.people): c for c in binding_captions(activity("holding_baby"))}
    assert set(found) == {
        ("E1", "one"),
        ("E2", "one"),
        ("E2", "two"),
        ("U1", "one"),
        ("U1", "two"),
        ("U2", "one"),
        ("U2", "two"),
    }
    assert found["E1", "one"].text == "A woman is holding a baby"
    assert found["E1", "one"].reversed == "A man is holding a baby"
    assert found["U1", "one"].text == "A man is holding a baby"
    assert found["E2", "two"].text == "A woman is holding a baby and a man is in the scene"
    assert found["E2", "two"].reversed == "A man is holding a baby and a woman is in the scene"
    assert found["U2", "two"].text == found["E2", "two"].reversed
    assert found["U2", "two"].reversed == found["E2", "two"].text
    assert {c.neutral for c in found.values()} == {"A person is holding a baby"}
    assert (found["U2", "two"].performer, found["U2", "two"].other) == ("male", "female")


@pytest.mark.parametrize("one", activities(), ids=lambda a: a.id)
def test_reversing_twice_gives_the_caption_back(one):
    captions = list(binding_captions(one))
    by_text = {(c.people, c.text): c.reversed for c in captions}
    for c in captions:
        assert by_text[c.people, c.reversed] == c.text
        assert c.text != c.reversed
        assert (c.performer == one.expected) == c.group.startswith("E")


def test_other_words_and_more_than_two_genders():
    words = {"female": "girl", "male": "boy", "nonbinary": "androgynous teenager"}
    captions = list(binding_captions(activity("drinking_beer"), words=words, unexpected="nonbinary"))
    assert captions[0].text == "A boy is drinking beer"
    assert captions[0].reversed == "An androgynous teenager is drinking beer"
    assert captions[2].text == "A boy is drinking beer and an androgynous teenager is in the scene"
    with pytest.raises(InputError, match="2 genders beside 'male'; say which with unexpected="):
        list(binding_captions(activity("drinking_beer"), words=words))
    with pytest.raises(InputError, match="unexpected='male' must be one of"):
        list(binding_captions(activity("drinking_beer"), words=words, unexpected="male"))
    with pytest.raises(InputError, match="no noun for 'male'"):
        list(binding_captions(activity("drinking_beer"), words={"female": "girl"}))


def test_choices_for_activity_recognition():
    one = activity("drinking_beer")
    choices = activity_choices(one)
    assert choices[0] == "A person is drinking beer"
    assert len(choices) == len(set(choices)) == 1 + len(one.near)
    two = activity_choices(one, performer="woman", other="man")
    assert all(c.startswith("A woman is ") and c.endswith(" and a man is in the scene") for c in two)


def test_an_unknown_activity():
    with pytest.raises(UnknownNameError, match="did you mean 'drinking_beer'"):
        activity("drinking_bear")
