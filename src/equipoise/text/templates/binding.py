"""Captions that ask who does what: the Gender-Activity Binding benchmark (GABInsight, arXiv 2407.21001).

Pictures come in four groups for each activity. E: the person who does it has the gender that is expected of it;
U: the other one. 1: that person is alone; 2: someone of the other gender is in the scene.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.templates.edits import filled
from equipoise.text.templates.files import shipped

People = Literal["one", "two"]
BINDING_GROUPS = ("E1", "E2", "U1", "U2")


@dataclass(frozen=True)
class Activity:
    """One activity: its published name, our wording, what is expected, and activities that look alike."""

    id: str
    printed: str
    phrase: str
    category: str
    """``stereotypical``, ``everyday`` or ``laion``."""
    expected: str
    """The gender that language models expect, a stereotype."""
    images: Mapping[str, int]
    """Published pictures in each of E1, E2, U1, U2."""
    near: tuple[str, ...]


@dataclass(frozen=True)
class BindingCaption:
    """A caption for the pictures of one group, its gender-reversed twin and the neutral one."""

    activity: str
    group: str
    people: People
    """The template: one person or two."""
    performer: str
    other: str
    text: str
    reversed: str
    neutral: str


@cache
def activities() -> tuple[Activity, ...]:
    """The 37 activities, in the order of the paper's categories.

    >>> len(activities()), activities()[0].phrase, activities()[0].expected
    (37, 'applying nail polish', 'female')
    """
    return tuple(
        Activity(**{**entry, "images": dict(entry["images"]), "near": tuple(entry["near"])})
        for entry in shipped("gab")["activity"]
    )


def activity(id: str) -> Activity:
    """The activity with this id; an unknown one is answered with the closest.

    >>> activity("drinking_beer").phrase
    'drinking beer'
    """
    by_id = {a.id: a for a in activities()}
    if id not in by_id:
        raise UnknownNameError("activity", id, by_id)
    return by_id[id]


def binding_captions(
    of: Activity, *, words: Mapping[str, str] | None = None, unexpected: str = ""
) -> Iterator[BindingCaption]:
    """The captions for each of the four groups of pictures of one activity, in each template that is asked of it.

    One person: "A {g} is {X}". Two: "A {g} is {X} and a {other} is in the scene". The reversed caption has the
    other gender in the performer's place. E1 is asked with the one-person template, the other groups with both.

    Args:
        of: the activity; :func:`activity` finds one by its id.
        words: maps each gender to its noun (default female: woman, male: man).
        unexpected: the gender that stands against the expected one; needed where ``words`` has more than two.

    Returns:
        The captions one by one, group after group in the order E1, E2, U1, U2.

    >>> first, second = list(binding_captions(activity("drinking_beer")))[1:3]
    >>> first.group, first.people, first.text
    ('E2', 'one', 'A man is drinking beer')
    >>> second.text
    'A man is drinking beer and a woman is in the scene'
    >>> second.reversed
    'A woman is drinking beer and a man is in the scene'
    """
    content = shipped("gab")
    nouns = dict(words or content["words"])
    expected, other = _pair(of, nouns, unexpected)
    for group in BINDING_GROUPS:
        performer, second = (expected, other) if group.startswith("E") else (other, expected)
        for people in content["templates"][group]:
            yield BindingCaption(
                activity=of.id,
                group=group,
                people=people,
                performer=performer,
                other=second,
                text=_caption(content, people, of.phrase, nouns[performer], nouns[second]),
                reversed=_caption(content, people, of.phrase, nouns[second], nouns[performer]),
                neutral=content["neutral"].format(activity=of.phrase),
            )


def activity_choices(of: Activity, *, performer: str = "person", other: str = "") -> tuple[str, ...]:
    """Captions for activity recognition, which differ in the activity alone.

    Args:
        of: the true activity, with its near ones.
        performer: the noun for who does it.
        other: the noun for somebody else in the scene; with one, the two-person template is used.

    Returns:
        The caption of the true activity first, then that of each near one.

    >>> activity_choices(activity("drinking_beer"), performer="woman", other="man")[1]
    'A woman is pouring beer and a man is in the scene'
    """
    content = shipped("gab")
    people: People = "two" if other else "one"
    return tuple(_caption(content, people, phrase, performer, other) for phrase in (of.phrase, *of.near))


def _caption(content: Mapping[str, Any], people: People, phrase: str, performer: str, other: str) -> str:
    template = content["one_person" if people == "one" else "two_people"]
    return filled(template, {"performer": performer, "other": other, "activity": phrase}, "this caption")


def _pair(of: Activity, nouns: Mapping[str, str], unexpected: str) -> tuple[str, str]:
    if of.expected not in nouns:
        raise InputError(f"words has no noun for {of.expected!r}, which {of.id} expects; it has {', '.join(nouns)}")
    others = [gender for gender in nouns if gender != of.expected]
    if unexpected and unexpected not in others:
        raise InputError(f"unexpected={unexpected!r} must be one of {', '.join(others)}")
    if not unexpected and len(others) != 1:
        raise InputError(f"words names {len(others)} genders beside {of.expected!r}; say which with unexpected=")
    return of.expected, unexpected or others[0]
