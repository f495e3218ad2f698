"""A user's own lexicon: read, checked, and refused with file, line and reason."""

import pytest

from equipoise.errors import InputError
from equipoise.text import Lexicon

GOOD = """
id = "mine"
axis = "status"
groups = ["junior", "senior", "retired"]

[[rows]]
junior = "intern"
senior = ["boss", "manager"]
retired = "emeritus"
neutral = "worker"

[[rows]]
senior = "director-general"
neutral = "worker"
"""


def test_own_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    words = Lexicon.load(path)
    assert Lexicon.load(str(path)).id == "mine"
    assert words.label("The manager waves") == "senior"
    assert words.swap("An intern waves", to="senior") == "A boss waves"
    assert words.swap("A boss waves", to="retired") == "An emeritus waves"
    assert words.neutralise("Our director-general") == "Our worker"
    assert words.mask("An intern") == "An <status>"


@pytest.mark.parametrize(
    ("change", "line", "reason"),
    [
        (('senior = ["boss"', 'senor = ["boss"'), 6, "'senor' is not a group"),
        (('retired = "emeritus"', 'retired = ""'), 6, "none empty"),
        (('retired = "emeritus"', "retired = 3"), 6, "none empty"),
        (('senior = "director-general"\nneutral = "worker"', 'neutral = "worker"'), 12, "no word for any group"),
        (('senior = "director-general"', 'senior = "boss"'), 12, "'boss' stands already in row 1"),
        (('neutral = "worker"\n\n', 'neutral = "boss"\n\n'), 6, "holds 'boss', a word of 'senior'"),
        (('neutral = "worker"\n\n', "\n\n"), 6, "`neutral` must be a text"),
        (('neutral = "worker"\n\n', 'neutral = "worker"\nrole = "verb"\n\n'), 6, "role 'verb' is not one of"),
        (('neutral = "worker"\n\n', 'neutral = "worker"\nbefore = "x"\n\n'), 6, "which is not under [lists]"),
        (('groups = ["junior", "senior", "retired"]', "groups = []"), 4, "`groups` must be a list"),
        (('groups = ["junior"', 'groups = ["neutral"'), 4, "must differ"),
        (('axis = "status"', "axis = 3"), 3, "`axis` is missing or not a text"),
        (('axis = "status"', 'axi = "status"'), 3, "did you mean 'axis'"),
        (('axis = "status"', 'axis = "status'), 3, "not valid TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, change, line, reason):
    path = tmp_path / "mine.toml"
    text = GOOD.replace(*change, 1)
    assert text != GOOD
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        Lexicon.load(path)
    assert f"mine.toml:{line}:" in str(caught.value)
    assert reason in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        Lexicon.load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"id = '\xe9'")
    with pytest.raises(InputError, match="not UTF-8"):
        Lexicon.load(tmp_path / "latin.toml")
