"""Captions in another language are noticed, by every door that reads an English lexicon; English ones never are."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from equipoise.audit.captions.run import audit_captions
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.audit.dataset.source import read_dataset
from equipoise.text import Lexicon
from equipoise.text.english.recognising import other_language

SENTENCES = {
    "Spanish": ("una persona sentada cerca de la mesa", "un adulto sentado en la calle con un perro"),
    "French": ("une personne assise sur un banc dans la rue", "un adulte avec un chien devant la maison"),
    "German": ("eine Person sitzt auf einer Bank im Park", "ein Erwachsener mit dem Hund vor der Tür"),
    "Italian": ("una persona seduta su una panchina nel parco", "un adulto con il cane vicino alla casa"),
    "Portuguese": ("uma pessoa sentada no banco com um cachorro", "um adulto em uma rua perto da casa"),
    "Dutch": ("een persoon zit op een bank in het park", "een volwassene met de hond voor het huis"),
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_language_is_named(language: str) -> None:
    assert other_language(SENTENCES[language] * 10) == language


def test_letters_of_another_script_are_told() -> None:
    assert "not written in Latin letters" in other_language(["一个人坐在桌子旁边"] * 3)
    assert "not written in Latin letters" in other_language(["человек сидит на улице с собакой"] * 3)


@pytest.mark.parametrize(
    "texts",
    [
        ["A man in a de Havilland plane near the El Camino, on a street in Los Angeles."],
        ["woman surf beach wave board", "man kitchen knife food"],
        ["The café in a small street, a dog and a boy with an umbrella"],
        ["una persona"],
        [],
    ],
)
def test_english_keywords_and_too_little_are_left_alone(texts: list[str]) -> None:
    assert other_language(texts * (20 if len(texts) and len(texts[0]) > 20 else 1)) == ""


def spanish(path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image_id", "caption", "gender"])
        for n in range(40):
            sits, who = (("sentada", "female"), ("sentado", "male"))[n % 2]
            writer.writerow([n, f"persona {sits} cerca de {('la mesa', 'un perro', 'la casa')[n % 3]}", who])
    return path


def test_captions_and_dataset_say_that_nothing_was_made_neutral(tmp_path: Path) -> None:
    file = spanish(tmp_path / "es.csv")
    told = "the captions seem to be Spanish, and the lexicon "
    assert any(told in note for note in read_dataset(file).notes)
    few = CaptionSettings(permutations=0, seeds=2, quality=False)
    found = audit_captions([str(file)], None, "gender", None, settings=few)
    assert any(told in note for note in found.notes)
    assert not any("words that name a group masked" in one.sentence for one in found.judgements)


def test_a_lexicon_of_the_language_is_not_warned_of(tmp_path: Path) -> None:
    (tmp_path / "es.toml").write_text(
        'id = "es"\naxis = "gender"\ngroups = ["male", "female"]\nlanguage = "es"\nsource = "ours"\nnotes = "few"\n'
        'agreement = [ { male = "un", female = "una", neutral = "une" } ]\n'
        'rows = [ { male = "hombre", female = "mujer", neutral = "persona" } ]\n'
    )
    words = Lexicon.load(str(tmp_path / "es.toml"))
    assert words.unfit_for(SENTENCES["Spanish"] * 10) == ""
    assert words.warning == ""
