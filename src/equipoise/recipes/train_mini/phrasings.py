"""Captions in other words: tone, age and gender before and after the noun, as prompts for photographs say them.

The world says "an old woman with dark skin who works as a nurse" and nothing else; a generator that read only that
does not know "an elderly darker-skinned nurse who is a woman". Here a caption of the world is said anew, of the same
people: only its noun phrases change. The world's own captions stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from equipoise.recipes.train_mini.tokenizer import LENGTH
from equipoise.text.articles import with_article
from equipoise.world.catalog import BUILDS, GENDERS, OCCUPATIONS, TONE_GROUPS, shipped

__all__ = ["KEPT", "phrasing_words", "rephrased", "tokens_of"]

KEPT = 0.4
"""How many captions stay as the world says them."""
TONE_FIRST = 0.25
"""How often a tone before the noun also stands before the age: "a dark-skinned elderly woman"."""

_TONE_BEFORE = {
    "light": ("light-skinned", "lighter-skinned", "light skinned"),
    "medium": ("medium-skinned", "medium skinned"),
    "dark": ("dark-skinned", "darker-skinned", "dark skinned"),
}
_TONE_AFTER = {
    "light": ("with light skin", "with lighter skin", "with a light skin tone"),
    "medium": ("with medium skin", "with a medium skin tone"),
    "dark": ("with dark skin", "with darker skin", "with a dark skin tone"),
}
_AGE_BEFORE = {
    "child": ("young", "very young", "little"),
    "adult": ("adult", "grown-up"),
    "older": ("old", "older", "elderly", "senior", "aged"),
}
_AGE_AFTER = {"child": (), "adult": (), "older": ("of old age", "who is elderly")}
_NOUNS = {
    "man": ("man", "male person", "gentleman"),
    "woman": ("woman", "female person", "lady"),
    "boy": ("boy", "male child"),
    "girl": ("girl", "female child"),
}
_GENDER_BEFORE = {"male": ("male",), "female": ("female", "woman"), "nonbinary": ("nonbinary",)}
_GENDER_AFTER = {
    "male": ("who is a man", "who is male"),
    "female": ("who is a woman", "who is female"),
    "nonbinary": ("who is nonbinary",),
}


@dataclass(frozen=True)
class _Person:
    """What a noun phrase of the world says of somebody; empty where it says nothing."""

    age: str
    build: str
    gender: str
    noun: str
    tone: str


def rephrased(caption: str, rng: np.random.Generator, *, kept: float = KEPT) -> str:
    """``caption`` of the world, its people said in other words; a share ``kept`` of captions is returned as it is.

    So is one whose other wording would not fit the text encoder.

    >>> rng = np.random.default_rng(0)
    >>> [rephrased("an old woman with dark skin", rng, kept=0.0) for _ in range(2)]
    ['an older dark-skinned female person', 'a senior woman with a dark skin tone']
    """
    stays = rng.random() < kept
    other = _phrase().sub(lambda found: _said(_person(found), rng), caption)
    return caption if stays or tokens_of(other) > LENGTH - 2 else other


def tokens_of(text: str) -> int:
    """How many tokens a text of known words has for a CLIP tokenizer: a hyphen is one of its own.

    >>> tokens_of("a dark-skinned woman")
    5
    """
    return len(re.findall(r"[^\W\d_]+|\d|[^\w\s]+", text))


def phrasing_words() -> tuple[str, ...]:
    """Every word that phrasings add to those of the world, sorted.

    >>> {"darker", "skinned", "elderly", "lady"} <= set(phrasing_words())
    True
    """
    tables: tuple[Mapping[str, tuple[str, ...]], ...] = (
        _TONE_BEFORE,
        _TONE_AFTER,
        _AGE_BEFORE,
        _AGE_AFTER,
        _NOUNS,
        _GENDER_BEFORE,
        _GENDER_AFTER,
    )
    texts = [text for table in tables for choices in table.values() for text in choices]
    return tuple(sorted({word for text in texts for word in re.split(r"[\s-]+", text)}))


@cache
def _phrase() -> re.Pattern[str]:
    """A noun phrase of the world's grammar, without what says the work and the traits."""
    grammar = shipped("grammar")
    ages, builds = "|".join(grammar["age"].values()), "|".join(BUILDS)
    genders = "|".join(grammar["gender"][name]["adjective"] for name in GENDERS)
    simple = {"person", "child", *_NOUNS}
    nouns = "|".join(sorted(simple | set(OCCUPATIONS), key=len, reverse=True))
    tones = "|".join(TONE_GROUPS)
    return re.compile(
        rf"(?<!works as )\ban? (?:(?P<age>{ages}) )?(?:(?P<build>{builds}) )?(?:(?P<gender>{genders}) )?"
        rf"(?P<noun>{nouns})\b(?: with (?P<tone>{tones}) skin\b)?"
    )


def _person(found: re.Match[str]) -> _Person:
    said = {name: value or "" for name, value in found.groupdict().items()}
    ages = {word: age for age, word in shipped("grammar")["age"].items()}
    return _Person(ages.get(said["age"], ""), said["build"], said["gender"], said["noun"], said["tone"])


def _said(person: _Person, rng: np.random.Generator) -> str:
    """The noun phrase in words that are drawn; what is not said of a person stays unsaid."""
    u = rng.random(6)  # always as many, so that one phrase does not move the draws of the next
    before: list[str] = []
    after: list[str] = []
    years = _drawn(_AGE_BEFORE.get(person.age, ()) + _AGE_AFTER.get(person.age, ()), u[0])
    (after if years.startswith(("of ", "who ")) else before).append(years)
    before.append(person.build)
    tone = _drawn(_TONE_BEFORE[person.tone] if u[1] < 0.5 else _TONE_AFTER[person.tone], u[2]) if person.tone else ""
    if tone.startswith("with "):
        after.insert(0, tone)
    else:
        before.insert(0 if u[3] < TONE_FIRST else 2, tone)
    # "a nonbinary person" has no other noun; a gender after the noun is said of workers alone
    behind = person.noun in OCCUPATIONS and u[4] < 0.4
    gender = _drawn((_GENDER_AFTER if behind else _GENDER_BEFORE).get(person.gender, ()), u[5])
    if person.noun not in OCCUPATIONS:
        gender = person.gender
    (after if behind else before).append(gender)
    noun = _drawn(_NOUNS.get(person.noun, (person.noun,)), u[5] ** 2)  # the world's own noun most often
    return " ".join(part for part in (with_article(_joined([*before, noun])), *after) if part)


def _joined(parts: list[str]) -> str:
    return " ".join(part for part in parts if part)


def _drawn(choices: tuple[str, ...], u: float) -> str:
    return choices[int(u * len(choices))] if choices else ""
