"""Where a prompt names its subject."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.audit.asking import SOCIALCF_PROMPTS, neutral_prompts
from equipoise.errors import InputError
from equipoise.text.templates.places import check_places, with_subject

SUBJECTS = st.sampled_from(["artist", "nurse", "MRI technician", "university student", "hour clerk"])


@pytest.mark.parametrize(
    ("template", "subject", "text"),
    [
        ("{}", "artist", "artist"),
        ("{a}", "artist", "an artist"),
        ("{A}", "nurse", "A nurse"),
        ("a photo of {}", "artist", "a photo of artist"),
        ("a photo of {a}", "artist", "a photo of an artist"),
        ("a photo of a {}", "artist", "a photo of an artist"),
        ("a photo of an {}", "nurse", "a photo of a nurse"),
        ("a photo of a/an {}", "artist", "a photo of an artist"),
        ("A {} at work", "artist", "An artist at work"),
        ("AN {}", "nurse", "A nurse"),
        ("the {}", "artist", "the artist"),
        ("pizza {}", "artist", "pizza artist"),
        ("vitamin-a {}", "artist", "vitamin-a artist"),
        ("{A}, {a} and a {}", "artist", "An artist, an artist and an artist"),
    ],
)
def test_a_place_is_filled_as_it_is_written(template, subject, text):
    assert with_subject(template, subject) == text


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("a photo", "has no {} where the subject goes"),
        ("a photo of {b}", "has {b}"),
        ("a photo of {subject}", "has {subject}"),
        ("a photo of {0}", "has {0}"),
        ("a photo of { a }", "has { a }"),
        ("a photo of {} {", "has a stray {"),
        ("a photo of } {}", "has a stray }"),
        ("a photo of {{}}", "has a stray {"),
        ("a photo of a {a}", "has two articles, 'a' and that of {a}"),
        ("", "has no {}"),
    ],
)
def test_braces_that_mean_nothing_are_refused_in_a_sentence(template, sentence):
    with pytest.raises(InputError) as caught:
        check_places(template)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_published_prompts_ask_what_they_asked():
    texts = neutral_prompts(["engineer", "nurse"], SOCIALCF_PROMPTS)
    assert texts == [
        ["An engineer", "A photo of an engineer", "A picture of an engineer", "An image of an engineer"],
        ["A nurse", "A photo of a nurse", "A picture of a nurse", "An image of a nurse"],
    ]


@given(st.text(alphabet="xyz ,.", max_size=10), st.text(alphabet="xyz ,.", max_size=10), SUBJECTS)
def test_everything_around_the_places_stays(before, after, subject):
    assert with_subject(f"{before}{{}}{after}", subject) == f"{before}{subject}{after}"
    article = "an" if subject[0] in "aMh" else "a"
    assert with_subject(f"{before}{{a}}{after}", subject) == f"{before}{article} {subject}{after}"
