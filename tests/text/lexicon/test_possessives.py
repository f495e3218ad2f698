"""Possessives behind a word that is rewritten follow its new ending; marks that close a quotation stay."""

import pytest

from equipoise.text import Lexicon

WORDS = Lexicon.load("equipoise")
PUBLISHED = ("gensynth_paper", "gensynth_code", "lic", "libra", "dba")


# text, neutral, exchanged
@pytest.mark.parametrize(
    ("text", "neutral", "exchanged"),
    [
        ("the boys' bikes", "the children's bikes", "the girls' bikes"),
        ("girls' team", "children's team", "boys' team"),
        ("The Boys’ team", "The Children’s team", "The Girls’ team"),
        ("ladies' hats", "people's hats", "gentlemen's hats"),
        ("LADIES' HATS", "PEOPLE'S HATS", "GENTLEMEN'S HATS"),
        ("gentlemen's hats", "people's hats", "ladies' hats"),
        ("firemen's truck", "firefighters' truck", "firewomen's truck"),
        ("police-men's hats", "police officers' hats", "police women's hats"),
        ("The truck is the firemen's.", "The truck is the firefighters'.", "The truck is the firewomen's."),
        ("bridesmaids' dresses", "attendants' dresses", "groomsmen's dresses"),
        ("an actress' hat", "a performer's hat", "an actor's hat"),
        ("the waiter's tray", "the server's tray", "the waitress's tray"),
        ("the boys' and girls' bikes", "the children's and children's bikes", "the girls' and boys' bikes"),
        ("mens' hats", "people's hats", "womens' hats"),
        ("“the girls' bikes”", "“the children's bikes”", "“the boys' bikes”"),
        ("a 'stop' sign near the boys' bikes", "a 'stop' sign near the children's bikes", None),
        # what may close a quotation stays
        ("the boys'", "the children'", "the girls'"),
        ("the boys', waving", "the children', waving", "the girls', waving"),
        ("'the boys' are here", "'the children' are here", "'the girls' are here"),
        ("‘two boys’ by Ann", "‘two children’ by Ann", "‘two girls’ by Ann"),
        ("'Ladies' it says", "'People' it says", "'Gentlemen' it says"),
        ("a sign 'ladies' only", "a sign 'people' only", "a sign 'gentlemen' only"),
        ("a sign ('ladies' only)", "a sign ('people' only)", "a sign ('gentlemen' only)"),
    ],
)
def test_possessive(text, neutral, exchanged):
    assert WORDS.neutralise(text) == neutral
    assert exchanged is None or WORDS.swap(text) == exchanged
    around = ["'a quote", text, "a dog' x"]  # what stands in other texts says nothing about this one
    assert WORDS.neutralise_all(around)[1] == neutral


def test_an_apostrophe_behind_what_is_no_noun_stays():
    assert WORDS.neutralise("He's here and his' bike") == "They's here and theirs' bike"
    assert WORDS.mask("the boys' bikes") == "the <gender>' bikes"


def test_possessives_of_other_axes():
    assert Lexicon.load("race").neutralise("Asians' homes") == "People's homes"
    assert Lexicon.load("age").neutralise("kids' toys") == "people's toys"
    assert Lexicon.load("age").swap("children's toys", to="young") == "young adults' toys"


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_lexicons_write_what_they_wrote(name):
    words = Lexicon.load(name)
    if "boys" in words.words():
        assert words.neutralise("the boys' bikes") == "the children' bikes"
    if "ladies" in words.words():
        assert words.swap("ladies' hats") == "gentlemen' hats"
    assert words.neutralise("a man's hat") == "a person's hat"


def test_a_lexicon_of_ones_own_follows_where_it_says_that_it_is_english(tmp_path):
    rows = (
        'id = "mine"\naxis = "g"\ngroups = ["a", "b"]\nrows = [ { a = "boys", b = "girls", neutral = "children" } ]\n'
    )
    for language, neutral in (('language = "en"\n', "the children's hats"), ("", "the children' hats")):
        path = tmp_path / "mine.toml"
        path.write_text(language + rows, encoding="utf-8")
        assert Lexicon.load(path).neutralise("the boys' hats") == neutral
