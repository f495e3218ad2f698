"""Words for the groups of a table: the noun of a caption ("woman") and the phrase of a prompt ("female person")."""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.text.templates.persons import person_axes, person_prompts, zero_shot_prompts

__all__ = ["group_nouns", "group_phrases", "worded_by_rule"]

_ALIKE = {"man": "male", "men": "male", "woman": "female", "women": "female"}
_LETTERS = {"m": "male", "f": "female", "w": "female"}
"""Of the axis gender alone."""
_RULES = {"skin_tone": "person with {} skin"}
_AGES = {"child": "child", "adult": "adult person", "older": "old person"}


def group_nouns(axis: str, groups: Iterable[str]) -> dict[str, str]:
    """What a caption calls someone of each group; groups are matched to the shipped wording by name, in any case.

    >>> group_nouns("gender", ["Male", "woman", "neutral"])
    {'Male': 'man', 'woman': 'woman', 'neutral': 'neutral person'}
    >>> group_nouns("gender", ["F", "M"])
    {'F': 'woman', 'M': 'man'}
    """
    known = zero_shot_prompts(axis, templates=("{}",)) if axis in person_axes() else {}
    return {group: _worded(axis, group, {name: texts[0] for name, texts in known.items()}) for group in groups}


def group_phrases(axis: str, groups: Iterable[str]) -> dict[str, str]:
    """What stands for each group in a preference prompt ("a photo of a …").

    >>> group_phrases("race", ["White", "Latino_Hispanic"])
    {'White': 'white person', 'Latino_Hispanic': 'Latino or Hispanic person'}
    >>> group_phrases("skin_tone", ["dark"]), group_phrases("hair", ["red-haired"])
    ({'dark': 'person with dark skin'}, {'red-haired': 'red-haired person'})
    """
    known = dict(person_prompts(axis, templates=("{}",))[0].groups) if axis in person_axes() else {}
    return {group: _worded(axis, group, known) for group in groups}


def worded_by_rule(axis: str, groups: Iterable[str]) -> list[str]:
    """The groups that no shipped wording names; their prompts follow a rule and deserve a look.

    >>> worded_by_rule("gender", ["Female", "neutral"])
    ['neutral']
    """
    known = person_prompts(axis, templates=("{}",))[0].groups if axis in person_axes() else {}
    return [group for group in groups if _key(group, axis) not in {_key(name) for name in known}]


def _worded(axis: str, group: str, known: dict[str, str]) -> str:
    by_key = {_key(name): phrase for name, phrase in known.items()}
    if _key(group, axis) in by_key:
        return by_key[_key(group, axis)]
    if axis == "age" and group in _AGES:
        return _AGES[group]
    return _RULES.get(axis, "{} person").format(group.replace("_", " "))


def _key(group: str, axis: str = "") -> str:
    plain = " ".join(group.casefold().replace("_", " ").split())
    plain = _LETTERS.get(plain, plain) if axis == "gender" else plain
    return _ALIKE.get(plain, plain)
