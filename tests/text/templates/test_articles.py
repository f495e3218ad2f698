"""The indefinite article follows the sound of the word, not its spelling."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.text.templates import agreed, article, with_article

AN = """
    hour; honest clerk; honourable judge; honor guard; heir; heiress; hourly worker; umpire; usher; undertaker;
    upholsterer; urban planner; urgent case; Uzbek chef; unimportant man; unidentified person; uninsured driver;
    uninformed voter; unironic smile; umbrella seller; uncle; MRI technician; mri technician; HR manager;
    hr manager; FBI agent; NBA player; X-ray technician; x-ray technician; F-16 pilot; F1 driver; MP; M.D.;
    HVAC technician; LGBTQ activist; IT technician; EMT; SEO consultant; NHL player; RN; 8-year-old boy; 18-year-old;
    11-year-old; 80-year-old person; 11,000-seat hall; 1800s house; 1100; eight-year-old; élite athlete;
    Ethiopian runner; Asian female doctor; obese person; old man; Indian cook; onerous task; only child; office worker;
    "angry" crowd; ‘old’ man; (elderly) person; Yvonne; yttrium miner; aide; earl; oil worker; owl keeper; Óscar
"""
A = """
    university student; unicyclist; union leader; unique person; uniformed officer; unit leader; United pilot; unimodal
    curve; unisex barber; European; eulogist; euphonium player; ewe; one-armed person; one; one-eyed sailor;
    once-famous singer; user; usual suspect; used-car dealer; utility worker; utopian; urologist; uranium miner;
    Uruguayan; Ukrainian nurse; ukulele player; Ugandan runner; ubiquitous logo; US senator; U.S. soldier; UK citizen;
    UN worker; UX designer; CEO; PR person; DJ; dj; NASA engineer; NATO officer; SWAT officer; FIFA referee; K9 officer;
    T-shirt; U-boat captain; horse rider; human; house painter; hotel clerk; historian; Hindu; Latino; Middle Eastern;
    White male; female doctor; young man; yoga teacher; 1-armed person; 100-year-old; 110-year-old; 7-year-old;
    17-year-old; 1.8-metre pole; Mr. Smith; St. Bernard; MAN; FAT CAT; NEW YORKER; woman; wizard; ouija player; 1234
"""


def phrases(block: str) -> list[str]:
    return [" ".join(p.split()) for p in block.split(";")]


@pytest.mark.parametrize("phrase", phrases(AN))
def test_an_goes_before_a_vowel_sound(phrase):
    assert article(phrase) == "an"


@pytest.mark.parametrize("phrase", phrases(A))
def test_a_goes_before_a_consonant_sound(phrase):
    assert article(phrase) == "a"


def test_a_phrase_without_a_word_gets_a():
    assert article("") == "a"
    assert article("...") == "a"


def test_open_articles_are_resolved_each_by_its_own_word_and_keep_their_case():
    text = "A/An hour with a/an honest a/an university friend; a/an  owl"
    assert agreed(text) == "An hour with an honest a university friend; an owl"


def test_text_without_an_open_article_is_left_alone():
    text = "A man and/or an owl, a/ann, ha/an x, a/an"
    assert agreed(text) == text


# Five letters and more: shorter ones may be abbreviations (SEO, HIV).
regular = st.from_regex(r"[b-df-gj-np-tv-xz][aeiou][a-z]{3,8}", fullmatch=True)


@settings(deadline=None)
@given(regular)
def test_a_regular_consonant_word_gets_a_in_any_case(word):
    assert {article(word), article(word.capitalize()), article(f"“{word}”"), article(f"{word} owl")} == {"a"}


@settings(deadline=None)
@given(st.from_regex(r"[ai][b-df-hj-np-tv-z][a-z]{2,8}", fullmatch=True))
def test_a_or_i_and_a_consonant_gets_an(word):
    assert {article(word), article(word.capitalize()), article(f"{word}-minded cat")} == {"an"}


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_gets_one_of_the_two_and_nothing_else_changes(text):
    assert with_article(text) in (f"a {text}", f"an {text}")
    if text.strip() and "/" not in text:
        match = re.fullmatch(r"x (?:a|an) (.*)", agreed(f"x a/an {text.lstrip()}"), re.DOTALL)
        assert match is not None
        assert match.group(1) == text.lstrip()
