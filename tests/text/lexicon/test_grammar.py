"""Languages whose articles and endings tell the group: declared, rewritten, and missed where they are not declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.errors import InputError
from equipoise.text import Lexicon

ROWS = 'rows = [ { male = "hombre", female = "mujer", neutral = "persona" }, '
ROWS += '{ male = "chico", female = "chica", neutral = "joven" } ]\n'
HEAD = 'id = "es"\naxis = "gender"\ngroups = ["male", "female"]\n'
LANGUAGE = 'language = "es"\n'
AGREEMENT = 'agreement = [ { male = "un", female = "una", neutral = "une" } ]\n'
ENDINGS = 'endings = [ { male = "o", female = "a", neutral = "e" } ]\n'
CAPTIONS = ["Una mujer alta come", "una chica lee"] * 20 + ["Un hombre alto come", "un chico lee"] * 20


def lexicon(folder: Path, *parts: str) -> Lexicon:
    path = folder / "es.toml"
    path.write_text("".join([HEAD, *parts, ROWS]), encoding="utf-8")
    return Lexicon.load(path)


def test_declared_words_and_endings_become_neutral_and_follow_a_swap(tmp_path: Path) -> None:
    words = lexicon(tmp_path, LANGUAGE, AGREEMENT, ENDINGS)
    assert words.neutralise("Una mujer alta come con un perro") == "Une persona alte come con une perro"
    assert words.neutralise("UNA MUJER") == "UNE PERSONA"
    assert words.neutralise("Una mesa roja") == "Una mesa roja"  # nobody is spoken of
    assert words.swap("Una mujer alta") == "Un hombre alto"
    assert words.swap("Una mujer alta", to="male") == "Un hombre alto"
    assert words.label("una mesa") is None
    assert words.warning == ""
    neutral = words.neutralise_all(CAPTIONS)
    assert words.still_told(neutral, words.label_all(CAPTIONS)) == ""


def test_what_is_not_declared_is_said_to_be_without_rules_and_found(tmp_path: Path) -> None:
    words = lexicon(tmp_path, LANGUAGE)
    assert "of language 'es' and declares no agreement words" in words.warning
    told = words.still_told(words.neutralise_all(CAPTIONS), words.label_all(CAPTIONS))
    assert "'un' (male)" in told
    assert "'una' (female)" in told
    assert "a language that it does not name" in lexicon(tmp_path).warning
    assert Lexicon.load("equipoise").warning == ""


@pytest.mark.parametrize(
    "bad", ['agreement = [ { male = "un", neutral = "une" } ]\n', 'endings = ["o"]\n', 'agreement = "un"\n']
)
def test_a_row_without_every_group_is_refused_with_its_line(bad: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"es\.toml:4: .*`(agreement|endings)`"):
        lexicon(tmp_path, bad)


def test_the_command_warns_that_articles_still_tell(tmp_path: Path, command_line) -> None:  # type: ignore[no-untyped-def]
    lexicon(tmp_path, LANGUAGE)
    (tmp_path / "c.txt").write_text("\n".join(CAPTIONS), encoding="utf-8")
    told = ["text", "neutralise", tmp_path / "c.txt", "-o", tmp_path / "n.txt", "--lexicon", tmp_path / "es.toml"]
    done = command_line(*told)
    assert done.returncode == 0
    assert "neutral captions still tell the group, by 'un' (male), 'una' (female)" in done.stderr
