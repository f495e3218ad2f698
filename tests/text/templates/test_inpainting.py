"""Inpainting prompts: group words replaced, terms inserted, intersections, and captions without a person."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError, UnknownNameError
from equipoise.text import Lexicon
from equipoise.text.templates import article, inpainting_prompt, inpainting_prompts, person_span

COCO = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "coco" / "captions_val2017.json"


def prompt(caption, **targets):
    return inpainting_prompt(caption, targets)


@pytest.mark.parametrize(
    ("caption", "targets", "text"),
    [
        ("A person rides a horse", {"age": "elderly"}, "An elderly person rides a horse"),
        ("two people on a bench", {"skin_tone": "darker-skinned"}, "two darker-skinned people on a bench"),
        ("A person rides a horse", {"skin_tone": "lighter"}, "A lighter-skinned person rides a horse"),
        ("An officer on a bike", {"skin_tone": "darker"}, "A darker-skinned officer on a bike"),
        ("an umpire and a batter", {"skin_tone": "darker"}, "a darker-skinned umpire and a batter"),
        ("People crossing a street.", {"age": "elderly"}, "Elderly people crossing a street."),
        ("“People” on a bus", {"age": "elderly"}, "“Elderly people” on a bus"),
        ("A group of people eat", {"age": "elderly"}, "A group of elderly people eat"),
        ("A tennis player hits a ball", {"age": "elderly"}, "An elderly tennis player hits a ball"),
        ("Baseball players at bat", {"age": "elderly"}, "Elderly baseball players at bat"),
        ("a couple sits on a bench", {"age": "elderly"}, "an elderly couple sits on a bench"),
        ("A person's hand on a cat", {"age": "elderly"}, "An elderly person's hand on a cat"),
        ("A child's bed and a person", {"age": "elderly"}, "A child's bed and an elderly person"),
        ("A baby elephant and a person", {"age": "elderly"}, "A baby elephant and an elderly person"),
        ("A statue of a man near a person", {"age": "elderly"}, "A statue of a man near an elderly person"),
        ("THERE IS A PERSON HERE", {"age": "elderly"}, "THERE IS AN ELDERLY PERSON HERE"),
        (
            "There are no people but one firefighter",
            {"age": "elderly"},
            "There are no people but one elderly firefighter",
        ),
        ("A person rides", {"race": "Middle Eastern"}, "A Middle Eastern person rides"),
        ("A person with  two   cats!", {"race": "Asian"}, "An Asian person with  two   cats!"),
        ("Une personne et a person à Zürich", {"race": "Indian"}, "Une personne et an Indian person à Zürich"),
        ("A CEO speaks", {"race": "Asian"}, "An Asian CEO speaks"),
    ],
)
def test_a_term_is_inserted_before_the_person(caption, targets, text):
    found = inpainting_prompt(caption, targets, lexicons={})
    assert found.text == text
    assert set(found.how.values()) == {"inserted"}
    assert found.reason == ""
    assert found.source == caption


@pytest.mark.parametrize(
    ("caption", "targets", "text", "how"),
    [
        ("A man rides his horse", {"gender": "female"}, "A woman rides her horse", "replaced"),
        ("She looks at him.", {"gender": "male"}, "He looks at him.", "replaced"),
        ("A woman waves", {"gender": "female"}, "A woman waves", "kept"),
        ("A person waves", {"gender": "female"}, "A female person waves", "inserted"),
        ("A young man waves", {"age": "old"}, r"An? (?:old|elderly|older) man waves", "replaced"),
        ("A person waves", {"age": "old"}, "An elderly person waves", "inserted"),
    ],
)
def test_the_shipped_lexicons_replace_what_the_caption_says(caption, targets, text, how):
    found = inpainting_prompt(caption, targets)
    assert re.fullmatch(text.replace(".", r"\."), found.text)
    assert list(found.how.values()) == [how]


def test_a_term_that_stands_there_is_not_said_twice():
    found = inpainting_prompt("An elderly tall person waves", {"age": "elderly", "race": "Asian"}, lexicons={})
    assert found.text == "An elderly tall Asian person waves"
    assert found.how == {"age": "kept", "race": "inserted"}


def test_intersections_stand_in_the_order_english_has():
    found = prompt("A person waves", gender="female", skin_tone="darker", age="old")
    assert found.text == "An elderly darker-skinned female person waves"
    assert found.how == {"gender": "inserted", "skin_tone": "inserted", "age": "inserted"}
    assert found.targets == {"gender": "female", "skin_tone": "darker", "age": "old"}
    mixed = prompt("Two men with umbrellas", gender="female", skin_tone="lighter", mood="happy")
    assert mixed.text == "Two happy lighter-skinned women with umbrellas"
    assert mixed.how == {"gender": "replaced", "skin_tone": "inserted", "mood": "inserted"}


def test_every_combination():
    groups = {"skin_tone": ["lighter", "darker"], "gender": ["female", "male"]}
    found = list(inpainting_prompts("A man rides", groups))
    assert [p.text for p in found] == [
        "A lighter-skinned woman rides",
        "A lighter-skinned man rides",
        "A darker-skinned woman rides",
        "A darker-skinned man rides",
    ]


@pytest.mark.parametrize(
    "caption",
    [
        "",
        "A red bus",
        "A passenger train at a station",
        "A street with no people",
        "A beach without any people",
        "A baby elephant drinks",
        "A baby black bear and a boxer dog",
        "Children's toy animals",
        "A statue of a tall man",
        "A man-made lake",
        "A couple of zebras",
        "A family of bears",
        "A men's restroom",
        "A pitcher of water and a model train",
    ],
)
def test_a_caption_without_a_person_gives_no_prompt_and_the_reason(caption):
    found = inpainting_prompt(caption, {"age": "elderly"}, lexicons={})
    assert found.text is None
    assert found.reason == "the caption names no person"
    assert found.how == {}


def test_a_pronoun_can_be_replaced_but_nothing_inserted_before_it():
    assert prompt("He rides a horse", gender="female").text == "She rides a horse"
    found = prompt("He rides a horse", skin_tone="darker")
    assert found.text is None
    assert "pronoun" in found.reason
    assert "'darker-skinned'" in found.reason


def test_a_word_without_a_counterpart_gives_no_prompt_and_the_reason():
    class OnlyBrides:
        def groups_in(self, text):
            return frozenset({"female"} if "bride" in text else ())

        def swap(self, text, to):
            return text

    found = inpainting_prompt("A bride waves", {"gender": "male"}, lexicons={"gender": OnlyBrides()})
    assert found.text is None
    assert found.reason == "the caption has a word on the axis 'gender' that cannot be said of 'male'"


def test_a_function_can_replace_and_says_none_when_it_finds_no_group():
    def replace(caption, group):
        return caption.replace("king", "queen") if "king" in caption and group == "female" else None

    lexicons = {"gender": replace}
    assert inpainting_prompt("A king", {"gender": "female"}, lexicons=lexicons).text == "A queen"
    assert inpainting_prompt("A person", {"gender": "female"}, lexicons=lexicons).text == "A female person"


def test_nouns_that_only_the_lexicon_knows_are_people():
    found = inpainting_prompt("An actress bows", {"skin_tone": "darker", "gender": "female"})
    assert found.text == "A darker-skinned actress bows"


def test_terms_of_ones_own():
    found = inpainting_prompt("A person", {"age": "old"}, lexicons={}, terms={"age": {"old": "aged"}})
    assert found.text == "An aged person"
    with pytest.raises(InputError, match="term for group 'old' on the axis 'age' is empty"):
        inpainting_prompt("A person", {"age": "old"}, lexicons={}, terms={"age": {"old": " "}})


def test_no_targets_and_unknown_groups_are_refused():
    with pytest.raises(InputError, match="targets is empty"):
        inpainting_prompt("A person", {})
    with pytest.raises(UnknownNameError, match="'femal'; did you mean 'female'"):
        inpainting_prompt("A person", {"gender": "femal"})


def test_where_the_person_is():
    text = "A red bus and two police officers"
    start, end = person_span(text)
    assert text[start:end] == "police officers"
    assert person_span("A queue", also=[(2, 7)]) == (2, 7)


nouns = st.sampled_from(["person", "people", "tennis player", "firefighter", "officers", "child"])
terms = st.sampled_from(["elderly", "darker-skinned", "Asian", "one-armed", "honest", "European"])


@settings(deadline=None)
@given(
    st.sampled_from(["", "the ", "two ", "a ", "an ", "A ", "in front of a "]),
    nouns,
    st.text(st.characters(categories=["Ll", "Lo", "Nd", "Po", "Zs"]), max_size=20),
    terms,
)
def test_only_the_term_is_added_and_the_article_before_it_agrees(before, noun, behind, term):
    caption = f"{before}{noun} … {behind}"
    found = inpainting_prompt(caption, {"x": term}, lexicons={})
    match = re.search(r"(?i)\b(an?) $", before)
    fitting = before
    if match:
        chosen = article(term)
        fitting = before[: match.start()] + (chosen.capitalize() if match.group(1)[0] == "A" else chosen) + " "
    assert found.text == f"{fitting}{term} {noun} … {behind}"


@pytest.mark.skipif(not COCO.exists(), reason="the COCO val2017 captions are not here")
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)], ids=["every fourth", "all"])
def test_on_real_captions_all_who_say_people_get_a_prompt_and_no_article_goes_wrong(step):
    captions = [a["caption"] for a in json.loads(COCO.read_text())["annotations"]]
    assert len(captions) == 25_014
    captions = captions[::step]
    found = [inpainting_prompt(c, {"age": "elderly"}, lexicons={}) for c in captions]
    made = [p for p in found if p.text]
    assert len(made) > 10_000 / step
    assert not [p.text for p in made if re.search(r"\ba elderly\b", p.text, re.IGNORECASE)]
    assert Counter(p.how.get("age") for p in made).keys() <= {"inserted", "kept"}
    # What only says "person", "woman" or "man" once, and no statue or the like, always gets one.
    simple = re.compile(r"^(?:a|an|the) (?:person|man|woman) (?:is |was )?\w+ing\b", re.IGNORECASE)
    assert [p.source for p in found if simple.match(p.source) and not p.text] == []


@pytest.mark.slow
@pytest.mark.skipif(not COCO.exists(), reason="the COCO val2017 captions are not here")
def test_replacing_on_real_captions_leaves_no_other_gender():
    lexicon = Lexicon.load("equipoise")
    captions = [a["caption"] for a in json.loads(COCO.read_text())["annotations"]][:5_000]
    for caption in captions:
        found = inpainting_prompt(caption, {"gender": "female"}, lexicons={"gender": lexicon})
        if found.text is not None:
            assert "male" not in lexicon.groups_in(found.text)


@pytest.mark.parametrize("caption", ["A white man in a suit", "A black woman cooks", "An Asian family is eating"])
def test_no_skin_tone_is_put_beside_a_word_for_a_race(caption):
    for tone in ("light", "dark"):
        prompt = inpainting_prompt(caption, {"skin_tone": tone})
        assert prompt.text is None
        assert "'race' that cannot be said of" in prompt.reason
    both = inpainting_prompt("A white man in a suit", {"skin_tone": "dark", "race": "Black"})
    assert both.text == "A Black darker-skinned man in a suit", "both are said anew"


def test_colours_of_things_do_not_keep_a_skin_tone_out():
    prompt = inpainting_prompt("A man in a white shirt beside a black dog", {"skin_tone": "dark"})
    assert prompt.text == "A darker-skinned man in a white shirt beside a black dog"
    assert inpainting_prompt("A dark-skinned Black man", {"skin_tone": "dark"}).text == "A dark-skinned Black man"
