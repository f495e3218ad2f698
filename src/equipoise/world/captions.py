"""Captions by a small grammar: paraphrases, with groups named or not, in words that a few hundred tokens cover.

Which paraphrases a scene gets depends on its seed alone, so the captions of a counterfactual differ from the
original's in the words for the person and nowhere else.

Styles: ``natural`` names a group as often as the world's configuration says (an unexpected one more often where it
sets markedness); ``neutral`` names no group on any axis; ``gendered`` names the gender always and the rest as
``natural`` does; ``full`` names all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from equipoise.errors import InputError
from equipoise.world.catalog import ACTIVITIES, AXES, OBJECTS, OCCUPATIONS, SUBJECTS, TONE_GROUPS, known, shipped
from equipoise.world.config import WorldConfig, plain_world

STYLES = ("natural", "neutral", "gendered", "full")

MAX_WORDS = 18
"""With a begin and an end token, a caption fits a context of 20."""

BUILD_MENTION = 0.15
TRAIT_MENTION = 0.5
_MASK = (1 << 64) - 1

# What is left out, in this order, when a caption would be too long.
_DROPPABLE = ("trait", "skin_tone_2", "age_2", "build", "age", "place", "skin_tone")


class Described(Protocol):
    """What captions read of a :class:`~equipoise.world.scene.Scene`, which can caption itself."""

    @property
    def config(self) -> WorldConfig | None:
        """The world it was drawn from."""

    @property
    def seed(self) -> int:
        """What its paraphrases depend on."""

    @property
    def scene(self) -> str:
        """The place."""

    @property
    def subject(self) -> str:
        """The occupation or activity of the first person."""

    @property
    def exchanged(self) -> bool:
        """Whether captions give what the first person does to the second."""

    @property
    def people(self) -> Sequence[Any]:
        """The :class:`~equipoise.world.scene.Person` s."""

    @property
    def objects(self) -> Sequence[Any]:
        """The things, each with a ``name``."""

    def said(self, axis: str, person: int = 0) -> str:
        """The group that captions name for the one who does it, and for the other."""


def captions(
    scene: Described, n: int = 5, style: str = "natural", *, naming: Sequence[str] = (), person: int = 0
) -> list[str]:
    """Paraphrases of what the picture shows (what the record says, where there is label noise).

    Args:
        scene: what is described; its seed alone decides which paraphrases it gets.
        n: how many; more of them begin with the same ones.
        style: which groups are named, ``natural``, ``neutral``, ``gendered`` or ``full``; see the top of the module.
        naming: axes on which they name the group of ``person`` whatever the style.
        person: 0 for the worker, or the one who they say does the activity; 1 for the other.

    Returns:
        The captions; details are left out of one that would have more than 18 words.

    >>> from equipoise.world import preset, sample
    >>> scene = sample(preset("fair"), 4, seed=3)[3]
    >>> len(set(scene.captions(5)))
    5
    """
    known("caption style", style, STYLES)
    if n < 0:
        raise InputError(f"n={n}: the number of captions must be 0 or more")
    config = scene.config or plain_world()
    draws = _Draws(scene.seed)
    templates = _templates(scene)
    order = draws.order(len(templates))
    always = tuple(known("axis", axis, AXES) + ("" if person == 0 else "_2") for axis in naming)
    return [_caption(scene, config, templates[order[i % len(order)]], style, draws, always) for i in range(n)]


class _Draws:
    """A stream of numbers in [0, 1) from a scene's seed (SplitMix64 in plain Python: a scene needs only a few)."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & _MASK

    def next(self) -> float:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return (z >> 11) * 2.0**-53

    def order(self, n: int) -> list[int]:
        return sorted(range(n), key=[self.next() for _ in range(n)].__getitem__)


@dataclass(frozen=True)
class _Words:
    """The grammar's data, as it is used."""

    gender: dict[str, dict[str, str]]
    unnamed: dict[str, str]
    age: dict[str, str]
    build: dict[str, str]
    trait: dict[str, str]
    place: dict[str, str]
    templates: dict[str, list[str]]


@cache
def _words() -> _Words:
    return _Words(**shipped("grammar"))


def _templates(scene: Described) -> list[str]:
    templates = _words().templates
    if len(scene.people) > 1:
        return templates["two_people" if scene.people[0].activity else "two_at_work"]
    kind = "activity" if scene.people[0].activity else "work"
    return templates[kind] + templates[f"{kind}_with_thing"] if scene.objects else templates[kind]


def _caption(
    scene: Described, config: WorldConfig, template: str, style: str, draws: _Draws, always: Sequence[str] = ()
) -> str:
    # Every number is drawn whether it is needed or not: a counterfactual must stay in step with its original.
    u = [draws.next() for _ in range(12)]
    named: dict[str, str] = {}
    for i in range(len(scene.people)):
        suffix = "" if i == 0 else "_2"
        for place, axis in enumerate(AXES):
            group = scene.said(axis, i)
            by_chance = _is_named(config, scene.subject if i == 0 else "", axis, group, style, u[place + 3 * i])
            if by_chance or axis + suffix in always:
                named[axis + suffix] = group
    performer = scene.people[1 if scene.exchanged else 0]  # whose groups are named, whoever is shown doing it
    if style != "neutral" and u[6] < BUILD_MENTION and performer.build in _words().build:
        named["build"] = performer.build
    if trait := _trait(performer, u[7]):
        named["trait"] = trait
    named["place"] = scene.scene
    filled = _filled(scene, config, template, named, u)
    for part in _DROPPABLE:
        if len(filled.split()) <= MAX_WORDS:
            break
        if part in named and part not in always:
            del named[part]
            filled = _filled(scene, config, template, named, u)
    return filled


def _is_named(config: WorldConfig, subject: str, axis: str, group: str, style: str, u: float) -> bool:
    if style == "full" or (style == "gendered" and axis == "gender"):
        return True
    return style != "neutral" and u < config.chance_of_mention(subject, axis, group)


def _trait(person: Any, u: float) -> str:
    traits = [name for name in _words().trait if getattr(person, name)]
    if not traits or u >= TRAIT_MENTION:
        return ""
    return traits[int(u / TRAIT_MENTION * len(traits))]


def _filled(scene: Described, config: WorldConfig, template: str, named: dict[str, str], u: list[float]) -> str:
    person = scene.people[0]
    slots: dict[str, str] = {
        "place": _words().place[named["place"]] if "place" in named else "",
        "is": "",
        "doing": ACTIVITIES[person.activity].phrase if person.activity else "",
        "thing": with_article(scene.objects[int(u[8] * len(scene.objects))].name) if scene.objects else "",
        "other": "",
    }
    by_pronoun = "{is}" in template
    if by_pronoun and person.occupation:
        # "she is a nurse": the pronoun names the gender, the phrase does not name it again.
        slots["is"] = _gender_words(config, named["gender"])["pronoun"] if "gender" in named else "this is"
        named = {name: value for name, value in named.items() if name != "gender"}
    slots["who"] = _who(config, named, "", person.occupation, u[9])
    if by_pronoun and person.activity:
        slots["is"] = _gender_words(config, named["gender"])["pronoun"] if "gender" in named else f"{slots['who']} is"
    if len(scene.people) > 1:
        slots["other"] = _who(config, named, "_2", "", u[9])
        if "gender" not in named and slots["other"] == "a person" and slots["who"] == "a person":
            slots["other"] = "another person"
    return " ".join(template.format_map(slots).split())


def _who(config: WorldConfig, named: dict[str, str], suffix: str, occupation: str, u: float) -> str:
    """A noun phrase: "an old woman with dark skin who works as a nurse", "a young female nurse", "a nurse"."""
    words = _words()
    gender, age = named.get("gender" + suffix), named.get("age" + suffix)
    tone = f"with {named['skin_tone' + suffix]} skin" if "skin_tone" + suffix in named else ""
    trait = words.trait[named["trait"]] if suffix == "" and "trait" in named else ""
    build = words.build[named["build"]] if suffix == "" and "build" in named else ""
    nouns = _gender_words(config, gender) if gender else words.unnamed
    if occupation and (u < 0.5 or not gender):
        adjective = nouns["adjective"] if gender else ""
        years = words.age[age] if age else ""
        return _joined(years, build, adjective, occupation, tone, trait)
    noun = nouns["child" if age == "child" else "noun"]
    years = words.age[age] if age and age != "child" else ""
    work = f"who works as {with_article(occupation)}" if occupation else ""
    return _joined(years, build, noun, tone, trait, work)


def _gender_words(config: WorldConfig, group: str) -> dict[str, str]:
    return {**_words().gender[group], **config.words.get(group, {})}


def _joined(*parts: str) -> str:
    return with_article(" ".join(part for part in parts if part))


def with_article(phrase: str) -> str:
    """``phrase`` after "a" or "an".

    >>> with_article("umbrella"), with_article("nurse")
    ('an umbrella', 'a nurse')
    """
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def neutral_prompt(subject: str) -> str:
    """The prompt for a subject that names no group.

    >>> neutral_prompt("nurse"), neutral_prompt("playing_guitar")
    ('a photo of a nurse', 'a photo of a person playing a guitar')
    """
    known("subject", subject, SUBJECTS)
    if subject in ACTIVITIES:
        return f"a photo of a person {ACTIVITIES[subject].phrase}"
    return f"a photo of {with_article(subject)}"


def prompts(axis: str, config: WorldConfig | None = None) -> dict[str, str]:
    """Prompts that name a group of an axis, or an occupation, an activity, a place or a thing.

    Args:
        axis: ``gender``, ``skin_tone`` or ``age``, or ``occupation``, ``activity``, ``scene`` or ``object``.
        config: the world whose groups are named, in its words for a gender; the fair one unless given.

    Returns:
        A prompt for each group that occurs, or for each name of that kind.

    >>> prompts("gender")["female"], prompts("skin_tone")["dark"], prompts("scene")["beach"]
    ('a photo of a woman', 'a photo of a person with dark skin', 'a photo of a person at the beach')
    """
    words, world = _words(), config or plain_world()
    table: dict[str, dict[str, str]] = {
        "gender": {g: with_article(_gender_words(world, g)["noun"]) for g in world.groups("gender")},
        "skin_tone": {g: f"a person with {g} skin" for g in world.groups("skin_tone")},
        "age": {
            g: with_article(words.unnamed["child"] if g == "child" else f"{words.age[g]} person")
            for g in world.groups("age")
        },
        "occupation": {name: with_article(name) for name in OCCUPATIONS},
        "activity": {name: f"a person {a.phrase}" for name, a in ACTIVITIES.items()},
        "scene": {name: f"a person {place}" for name, place in words.place.items()},
        "object": {name: f"a person next to {with_article(name)}" for name in OBJECTS},
    }
    known("kind of prompt", axis, table)
    return {name: f"a photo of {what}" for name, what in table[axis].items()}


def vocabulary(config: WorldConfig | None = None) -> tuple[str, ...]:
    """Every word that a caption or prompt can contain, sorted.

    >>> {"woman", "nurse", "guitar", "beach"} <= set(vocabulary())
    True
    """
    world = config or plain_world()
    texts: list[str] = [
        *OCCUPATIONS,
        *OBJECTS,
        *(a.phrase for a in ACTIVITIES.values()),
        *TONE_GROUPS,
        *world.tone_groups,
    ]
    texts += ["a an another person with skin who works as this is photo of"]
    texts += list(_texts(shipped("grammar"))) + [word for table in world.words.values() for word in table.values()]
    return tuple(sorted({word for text in texts for word in text.split() if "{" not in word}))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [text for inner in values for text in _texts(inner)]
