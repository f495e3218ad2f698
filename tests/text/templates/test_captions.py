"""Counterfactual caption sets: counts, wording, word order, ids; and what is refused."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.text.templates import PREFIXES, Axis, article, caption_sets

RACE = Axis.of("race", ["Asian", "Black"])
GENDER = Axis.of("gender", ["male", "female"])
AGE = Axis.of("age", {"young": "young", "old": "elderly"})


def only(*args, **kwargs):
    sets = list(caption_sets(*args, **kwargs))
    assert len(sets) == 1
    return sets[0]


def test_one_set_by_hand():
    one = only(["umpire"], [AGE, GENDER], prefixes=["An image of"])
    assert one.set_id == "age-gender--an_image_of--umpire"
    assert (one.subject, one.prefix, one.axes) == ("umpire", "An image of", ("age", "gender"))
    assert one.neutral == "An image of an umpire"
    assert [(c.text, c.attributes) for c in one.captions] == [
        ("An image of a young male umpire", {"age": "young", "gender": "male"}),
        ("An image of a young female umpire", {"age": "young", "gender": "female"}),
        ("An image of an elderly male umpire", {"age": "old", "gender": "male"}),
        ("An image of an elderly female umpire", {"age": "old", "gender": "female"}),
    ]


def test_the_bare_prefix_starts_with_the_article_in_a_capital():
    one = only(["university student"], [RACE], prefixes=["A/An"])
    assert one.neutral == "A university student"
    assert [c.text for c in one.captions] == ["An Asian university student", "A Black university student"]
    assert one.set_id == "race--a-an--university_student"


def test_a_prefix_may_say_where_the_phrase_goes():
    one = only(["hour clerk"], [GENDER], prefixes=["A photo of {a} at work"])
    assert one.neutral == "A photo of an hour clerk at work"
    assert one.captions[0].text == "A photo of a male hour clerk at work"


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_any_number_of_axes(n):
    axes = [Axis.of(f"axis{i}", [f"w{i}{j}" for j in range(i + 2)]) for i in range(n)]
    one = only(["chef"], axes, prefixes=["A/An"])
    expected = [" ".join(words) for words in itertools.product(*(axis.words.values() for axis in axes))]
    assert [c.text for c in one.captions] == [f"A {words} chef" for words in expected]
    assert len({tuple(c.attributes.items()) for c in one.captions}) == len(one)


@pytest.mark.parametrize("order", list(itertools.permutations(["race", "gender", "subject"])))
def test_every_word_order(order):
    one = only(["chef"], [RACE, GENDER], prefixes=["A photo of"], order=order)
    words = {"race": "Asian", "gender": "female", "subject": "chef"}
    phrase = " ".join(words[name] for name in order)
    assert f"A photo of {article(phrase)} {phrase}" in [c.text for c in one.captions]
    assert one.neutral == "A photo of a chef"


def test_an_axis_may_stand_behind_the_subject():
    chair = Axis.of("aid", {"wheelchair": "in a wheelchair", "cane": "with a cane"})
    one = only(["artist"], [GENDER, chair], prefixes=["A/An"], order=["gender", "subject", "aid"])
    assert one.captions[0].text == "A male artist in a wheelchair"
    assert one.neutral == "An artist"


def test_a_held_axis_makes_its_own_sets_and_stays_in_the_neutral_prompt():
    trait = Axis.of("trait", ["honest", "lazy"])
    sets = list(caption_sets(["chef"], [trait, GENDER], prefixes=["A/An"], hold=["trait"]))
    assert [s.neutral for s in sets] == ["An honest chef", "A lazy chef"]
    assert [s.subject for s in sets] == ["honest chef", "lazy chef"]
    assert [s.set_id for s in sets] == ["trait-gender--a-an--honest--chef", "trait-gender--a-an--lazy--chef"]
    assert sets[1].captions[1].text == "A lazy female chef"
    assert sets[1].captions[1].attributes == {"trait": "lazy", "gender": "female"}


def test_sets_are_made_as_they_are_asked_for():
    def endless():
        for i in itertools.count():
            yield f"subject {i}"

    sets = caption_sets(endless(), [GENDER], prefixes=["A/An"])
    assert next(sets).subject == "subject 0"
    assert next(sets).subject == "subject 1"


@pytest.mark.parametrize(
    ("subjects", "axes", "options", "message"),
    [
        (["doctor"], [], {}, "at least one axis"),
        (["doctor"], [GENDER, GENDER], {}, "'gender' is given twice"),
        (["doctor"], [GENDER], {"prefixes": []}, "at least one prefix"),
        (["doctor"], [GENDER], {"prefixes": [" "]}, "prefix is empty"),
        (["doctor"], [GENDER], {"prefixes": ["A photo of", "a photo of"]}, "prefix 'a photo of' is given twice"),
        (["doctor"], [GENDER, RACE], {"order": ["gender", "subject"]}, "each of gender, race, subject exactly once"),
        (["doctor"], [GENDER], {"order": ["gender", "gender", "subject"]}, "exactly once"),
        (["doctor"], [GENDER], {"hold": ["race"]}, "'race', which is not an axis"),
        (["doctor"], [GENDER], {"hold": ["gender"]}, "every axis is held"),
        (["doctor", "Doctor"], [GENDER], {}, "'Doctor' is given twice"),
        (["  "], [GENDER], {}, "subject is empty"),
        (["a doctor"], [GENDER], {}, "begins with the article 'a'"),
        (["The doctor"], [GENDER], {}, "begins with the article 'The'"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(subjects, axes, options, message):
    with pytest.raises(InputError, match=message):
        list(caption_sets(subjects, axes, **options))


def test_a_wrong_plan_is_refused_before_the_first_set_is_asked_for():
    with pytest.raises(InputError, match="at least one axis"):
        caption_sets(["doctor"], [])


@pytest.mark.parametrize(
    ("name", "groups", "message"),
    [
        ("subject", ["x"], "cannot be used"),
        ("set_id", ["x"], "cannot be used"),
        ("skin tone", ["x"], "cannot be used"),
        ("race", [], "has no groups"),
        ("race", ["Asian", "Asian"], "'Asian' twice"),
        ("race", {"a": "Asian", "b": "asian"}, "two groups are called 'asian'"),
        ("race", {"a": " "}, "group 'a' has no word"),
    ],
)
def test_axes_that_cannot_be_used(name, groups, message):
    with pytest.raises(InputError, match=message):
        Axis.of(name, groups)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80).filter(
    lambda s: s.strip() and not re.match(r"(?i)\s*(a|an|the|a/an)\s", s)
)


@settings(deadline=None)
@given(st.lists(names, min_size=1, max_size=8, unique_by=lambda s: " ".join(s.split()).casefold()))
def test_set_ids_are_unique_stable_and_safe_as_file_names(subjects):
    sets = list(caption_sets(subjects, [GENDER]))
    ids = [s.set_id for s in sets]
    assert len(set(ids)) == len(ids) == len(subjects) * len(PREFIXES)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]*", i) and len(i) < 160 for i in ids)
    backwards = [s.set_id for s in caption_sets(list(reversed(subjects)), [GENDER])]
    assert sorted(backwards) == sorted(ids)


words = st.from_regex(r"[A-Za-z]{1,12}(-[a-z]{1,8})?", fullmatch=True)


@settings(deadline=None)
@given(st.lists(words, min_size=1, max_size=4, unique_by=str.casefold), words)
def test_articles_agree_in_every_caption_and_nothing_else_is_added(groups, subject):
    axis = Axis.of("axis", groups)
    for one in caption_sets([subject], [axis]):
        start = "" if one.prefix == "A/An" else f"{one.prefix} "
        for text, phrase in [(one.neutral, subject)] + [
            (c.text, f"{word} {subject}") for c, word in zip(one.captions, groups, strict=True)
        ]:
            fitting = article(phrase)
            assert text == f"{start}{fitting if start else fitting.capitalize()} {phrase}"
