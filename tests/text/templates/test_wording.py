"""Words for groups: phrases that are replaced, terms that are put in, and names that tables have for groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.templates import inpainting_prompt, read_wording, shipped_wording
from equipoise.text.templates.wording import Forms

TONES = ("light", "medium", "dark")


@pytest.mark.parametrize(
    ("caption", "targets", "text"),
    [
        ("a dark skinned man", {"skin_tone": "light"}, "a light skinned man"),
        ("A dark-skinned woman waves", {"skin_tone": "lighter"}, "A light-skinned woman waves"),
        ("an old man with dark skin on the farm", {"skin_tone": "medium"}, "an old man with medium skin on the farm"),
        ("a boy with light skin", {"skin_tone": "dark", "gender": "female"}, "a girl with dark skin"),
        ("a man rides", {"skin_tone": "medium"}, "a medium-skinned man rides"),
        ("a young man rides", {"age": "older"}, "an elderly man rides"),
        ("a person rides", {"age": "older"}, "an elderly person rides"),
    ],
)
def test_captions_are_said_of_another_group(caption, targets, text):
    assert inpainting_prompt(caption, targets).text == text


def test_a_group_without_words_is_refused_and_an_axis_without_words_is_not():
    with pytest.raises(UnknownNameError, match="purple"):
        inpainting_prompt("a man", {"skin_tone": "purple"})
    with pytest.raises(UnknownNameError, match="age"):
        inpainting_prompt("a man", {"age": "ancient"})
    assert inpainting_prompt("a man", {"mood": "happy"}).text == "a happy man"


rows = [dict(row) for row in shipped_wording().forms["skin_tone"] if set(row) == set(TONES)]


@given(st.sampled_from(rows), st.sampled_from(TONES), st.sampled_from(TONES))
def test_a_phrase_goes_there_and_back(row, first, second):
    forms = Forms(tuple(shipped_wording().forms["skin_tone"]))
    text = f"a man {row[first]}" if row[first].startswith("with") else f"a {row[first]} man"
    there = forms.swap(text, to=second)
    assert forms.groups_in(there) == {second}
    assert forms.groups_in(forms.swap(there, to=first)) == {first}


def test_words_from_a_file(tmp_path):
    file = tmp_path / "words.toml"
    file.write_text(
        '[terms.skin_tone]\ndark = "with dark skin"\n[aliases.mood]\nglad = "happy"\n[terms.mood]\nhappy = "smiling"\n'
    )
    words = read_wording(file)
    assert inpainting_prompt("a man rides", {"skin_tone": "dark"}, wording=words).text == "a man with dark skin rides"
    both = {"skin_tone": "dark", "mood": "glad"}
    assert inpainting_prompt("a man rides", both, wording=words).text == "a smiling man with dark skin rides"
    again = inpainting_prompt("a man with dark skin rides", {"skin_tone": "dark"}, wording=words)
    assert again.text == "a man with dark skin rides"
    assert inpainting_prompt("a man", {"age": "old"}, wording=words).text == "an elderly man", "the rest is as shipped"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[colours]\na = 'b'\n", "key in .*colours"),
        ("terms = 3\n", "terms must be a table"),
        ("[terms.age]\nold = 3\n", "terms.age must hold words by group"),
        ("[terms\n", "cannot be read as TOML"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path, text, reason):
    file = tmp_path / "words.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=reason):
        read_wording(file)
    with pytest.raises(InputError, match="there is no such file"):
        read_wording(tmp_path / "none.toml")
