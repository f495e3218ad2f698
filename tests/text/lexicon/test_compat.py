"""Published tokenisations, bugs included."""

import pytest

from equipoise.errors import InputError
from equipoise.text import Lexicon
from equipoise.text.lexicon.compat import tokens


def test_gensynth_misses_what_touches_punctuation():
    words = Lexicon.load("gensynth_code")
    assert words.label("A man.", compat="gensynth") is None
    assert words.label("A man.") == "male"
    assert words.label("The woman's bag", compat="gensynth") is None
    assert words.label("A MAN waves", compat="gensynth") == "male"
    assert words.label("A man and a woman", compat="gensynth") is None
    assert words.label_image(["A man.", "A woman waves"], compat="gensynth") == "female"
    assert words.label_image(["A man and a woman", "A man"], compat="gensynth") is None


def test_gensynth_rewrites_lower_case_and_collapses_spaces():
    words = Lexicon.load("gensynth_code")
    assert words.neutralise("The WOMAN's  hat , and her dog.", compat="gensynth") == "the person's hat, and their dog."
    assert words.neutralise("She is with him; it is hers", compat="gensynth") == "they is with them; it is theirs"
    assert words.swap("Husbands and wives", to="female", compat="gensynth") == "wifes and wives"
    assert words.swap("Husbands and wives", to="male", compat="gensynth") == "husbands and husbands"
    assert words.swap("He gave him his hat", to="female", compat="gensynth") == "she gave hers her hat"
    assert words.swap("her hat is hers", to="male", compat="gensynth") == "his hat is him"
    assert words.mask("A man", compat="gensynth") == "a [MASK]"


def test_published_rules_have_no_agreement():
    words = Lexicon.load("gensynth_code")
    for work in (words.neutralise, lambda text, **how: words.neutralise_all([text], **how)):
        with pytest.raises(InputError, match="agree was asked for with compat='gensynth'"):
            work("She is here", agree=True, compat="gensynth")


def test_our_own_swap_does_not_repeat_the_typing_error():
    assert Lexicon.load("gensynth_code").swap("Husbands", to="female") == "Wives"


def test_lic_tokens_and_mask():
    words = Lexicon.load("lic")
    assert words.mask("A woman's hat.", compat="lic") == "a genderword 's hat ."
    assert words.mask("He isn't her father, sir!", compat="lic") == "genderword is n't genderword genderword , sir !"
    assert words.label("a man.", compat="lic") == "male"
    assert words.label("a pregnant rider", compat="lic") == "female"
    assert words.label("two fathers", compat="lic") is None  # the released list lacks this plural
    assert words.mask("A man", token="[MASK]", compat="lic") == "a [MASK]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a man. a dog.", "a man . a dog ."),
        ("the u.s. flag", "the u.s. flag"),
        ("mr. smith's t-shirt", "mr. smith 's t-shirt"),
        ("at 10:30, 1,000 people", "at 10:30 , 1,000 people"),
        ("i can't; you cannot", "i ca n't ; you can not"),
        ("wait... what?!", "wait ... what ? !"),
        ("(a dog) [b]", "( a dog ) [ b ]"),
        ("they're we've i'll he'd i'm", "they 're we 've i 'll he 'd i 'm"),
        ("rock 'n' roll", "rock ' n ' roll"),
        ("a 3.5 foot board", "a 3.5 foot board"),
    ],
)
def test_treebank_tokens(text, expected):
    assert " ".join(tokens(text, "lic")) == expected


def test_dba_deletes_punctuation():
    words = Lexicon.load("dba")
    assert words.label("A man's hat", compat="dba") is None
    assert words.label("A man.", compat="dba") == "male"
    assert words.label("A (woman), waving", compat="dba") == "female"
    assert words.mask("A Man, waving!", compat="dba") == "a [MASK] waving"
    assert words.neutralise("A man, waving!", compat="dba") == "a person waving"
