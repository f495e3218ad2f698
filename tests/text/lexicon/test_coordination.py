"""Adjectives that "and" or "or" joins before one noun, and ages that are said as a number."""

import pytest

from equipoise.text import Lexicon

RACE = Lexicon.load("race")
AGE = Lexicon.load("age")


@pytest.mark.parametrize(
    ("words", "text", "groups", "neutral"),
    [
        (RACE, "White and Asian men", {"White", "Asian"}, "Men"),
        (RACE, "White and African American men", {"White", "Black"}, "Men"),
        (RACE, "White and Middle-Eastern men", {"White", "Middle Eastern"}, "Men"),
        (RACE, "white or black or Asian women", {"White", "Black", "Asian"}, "women"),
        (RACE, "a white African American man", {"White", "Black"}, "a man"),
        (AGE, "old and young men", {"old", "young"}, "men"),
        (AGE, "an old and middle-aged couple", {"old", "middle-aged"}, "a couple"),
        (AGE, "A group of young and older people", {"young", "old"}, "A group of people"),
        (AGE, "an old car and young woman", {"young"}, "an old car and woman"),
        (AGE, "old, and young men", {"old", "young"}, "men"),
        (RACE, "white, black and Asian women", {"White", "Black", "Asian"}, "women"),
        (RACE, "a crowd of White, Black, and Asian men", {"White", "Black", "Asian"}, "a crowd of men"),
        (AGE, "A young, blonde woman", {"young"}, "A blonde woman"),
        (AGE, "an elderly, smiling man", {"old"}, "a smiling man"),
        (AGE, "The young, old and middle-aged men", {"young", "old", "middle-aged"}, "The men"),
        (RACE, "the wall is white, black men walk by", {"Black"}, "the wall is white, men walk by"),
        (RACE, "a white shirt and black man", {"Black"}, "a white shirt and man"),
    ],
)
def test_joined_adjectives_are_all_said_of_the_noun(words, text, groups, neutral):
    assert words.groups_in(text) == groups
    assert words.label(text) == (next(iter(groups)) if len(groups) == 1 else None)
    assert words.neutralise(text) == neutral


@pytest.mark.parametrize(
    "text",
    [
        "a black and white photo of a man",
        "A man in a black and white shirt",
        "Black and white cows",
        "a black and white dog and a man",
        "a black and white striped shirt",
        "A black and white photo shows men in a field with a truck.",
        "Black and white historical photo man next to motorized bicycle.",
        "white and tall men",
        "the car is black, tall men stand near it",
        "a black, shiny car and a man",
        "a woman in white, men in suits",
        "in the black, men play on",
        "a man with a black, old hat",
        "a table, white, and a man",
    ],
)
def test_joined_colours_of_things_say_nothing_of_anyone(text):
    assert RACE.groups_in(text) == frozenset()
    assert RACE.neutralise(text) == RACE.mask(text) == RACE.swap(text, to="Black") == text


def test_a_swap_says_each_group_once():
    assert RACE.swap("White and Asian men", to="Black") == "Black men"
    assert RACE.swap("White and Asian men", to="Asian") == "Asian men"
    assert RACE.swap("White, and Asian men", to="Black") == "Black men"
    assert RACE.swap("White, Black, and Asian men", to="Asian") == "Asian men"
    assert AGE.swap("a young, blonde woman", to="old") == "an elderly, blonde woman"
    assert AGE.swap("old and young men", to="child") == "little men"
    assert AGE.swap("old and old men", to="old") == "old and old men"  # nothing was swapped
    assert AGE.swap("an old man and an old woman", to="young") == "a young man and a young woman"
    assert Lexicon.load("skin_tone").swap("a man with light and olive skin", to="dark") == "a man with dark skin"
    assert Lexicon.load("equipoise").swap("Male and female surfers") == "Female and male surfers"


@pytest.mark.parametrize(
    ("text", "group", "neutral"),
    [
        ("A 20 year old man", None, "A 20 year old man"),
        ("Two men, 20 years old", None, "Two men, 20 years old"),
        ("A 5-year-old boy", "child", "A 5-year-old person"),
        ("A little 5-year-old boy", "child", "A 5-year-old person"),
        ("A six-month-old baby", "child", "A six-month-old person"),
        ("A two week old baby", "child", "A two week old person"),
        ("An 80-year-old elderly man", "old", "An 80-year-old man"),
        ("An old man", "old", "A man"),
    ],
)
def test_a_number_of_years_is_not_the_group_old(text, group, neutral):
    assert AGE.label(text) == group
    assert AGE.neutralise(text) == neutral


@pytest.mark.parametrize(
    ("lexicon", "text", "neutral"),
    [
        ("age", "a tall, young man", "a tall man"),
        ("age", "The tall, dark, elderly woman smiles", "The tall, dark woman smiles"),
        ("race", "two smiling, Asian women", "two smiling women"),
        ("equipoise", "A tall, male surfer and his dog", "A tall surfer and their dog"),
        ("equipoise", "a tall, male man", "a tall person"),
        ("equipoise", "On a beach, male surfers wait", "On a beach, surfers wait"),
        ("equipoise", "in the open, male surfers wait", "in the open, surfers wait"),
        ("age", "the house is old, young men wait", "the house is old, men wait"),
        ("gensynth_code", "a tall, male man", "a tall, person person"),  # a published list writes what it wrote
    ],
)
def test_a_comma_goes_with_the_adjective_that_it_parted_from_the_noun(lexicon, text, neutral):
    words = Lexicon.load(lexicon)
    assert words.neutralise(text) == neutral
    assert words.neutralise_all(["A dog", text, "A cat"]) == ["A dog", neutral, "A cat"]
