"""Persons in captions and prompts: where a caption names one, and how a prompt says the group of one.

Where a caption names a person a word can be put in front: "A person", "two tennis players". Prompts about a person
serve preference metrics, zero-shot labels, and the question whether an attribute can be seen. The groups of a table
have a noun for captions ("woman") and a phrase for prompts ("female person").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from equipoise.errors import UnknownNameError
from equipoise.text.english.articles import agreed, article
from equipoise.text.templates.files import shipped
from equipoise.text.templates.places import with_subject
from equipoise.text.templates.presets import occupations


@dataclass(frozen=True)
class PersonPrompts:
    """The prompts of one template: the neutral one and one for each group of the axis."""

    template: str
    axis: str
    neutral: str
    groups: Mapping[str, str]


def person_axes() -> list[str]:
    """The axes that person prompts are shipped for.

    >>> person_axes()
    ['age', 'gender', 'race']
    """
    return sorted(shipped("persons")["axes"])


def person_prompts(
    axis: str, *, phrases: Mapping[str, str] | None = None, templates: Sequence[str] = ()
) -> tuple[PersonPrompts, ...]:
    """Prompts for person preference (does a model prefer "a person" to the person's own group?), by template.

    Args:
        axis: one of :func:`person_axes`, or with ``phrases`` a name of your own.
        phrases: maps the groups of an axis of your own to what stands for them ("elderly person").
        templates: prompts with ``{}`` where the person goes; by default five, of which the first is "a photo of a
            person".

    Returns:
        One entry for each template, so that a metric can be reported with its sensitivity to wording.

    >>> first = person_prompts("race")[0]
    >>> first.neutral, first.groups["White"], first.groups["Indian"]
    ('a photo of a person', 'a photo of a white person', 'a photo of an Indian person')
    >>> person_prompts("age")[0].groups["20-29"]
    'a photo of a person aged 20-29'
    """
    content = shipped("persons")
    said = dict(phrases) if phrases else dict(_shipped_axis(axis)["person"])
    return tuple(
        PersonPrompts(
            template=template,
            axis=axis,
            neutral=_prompt(template, content["neutral"]),
            groups={group: _prompt(template, phrase) for group, phrase in said.items()},
        )
        for template in tuple(templates) or tuple(content["templates"])
    )


def zero_shot_prompts(
    axis: str, *, phrases: Mapping[str, str] | None = None, templates: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Prompts that label a picture with a group of ``axis``.

    Args:
        axis: one of :func:`person_axes`; not used with ``phrases``.
        phrases: maps the groups of an axis of your own to what stands for them ("elderly person").
        templates: prompts with ``{}`` where the person goes; by default those of :func:`person_prompts`.

    Returns:
        For each group, one prompt per template.

    >>> zero_shot_prompts("gender")["female"][:2]
    ('a photo of a woman', 'a picture of a woman')
    """
    if not phrases:
        shipped_axis = _shipped_axis(axis)
        phrases = shipped_axis.get("zero_shot", shipped_axis["person"])
    chosen = tuple(templates) or tuple(shipped("persons")["templates"])
    return {group: tuple(_prompt(template, phrase) for template in chosen) for group, phrase in phrases.items()}


def detectability_prompts(groups: Iterable[str]) -> dict[str, str]:
    """SocialCounterfactuals' test whether an attribute can be seen: "a/an x person" for each of ``groups``.

    >>> detectability_prompts(["Asian", "tattooed"])
    {'Asian': 'an Asian person', 'tattooed': 'a tattooed person'}
    """
    template = shipped("persons")["detectability"]
    return {group: _prompt(template, group) for group in groups}


def _shipped_axis(axis: str) -> Mapping[str, Mapping[str, str]]:
    axes: Mapping[str, Mapping[str, Mapping[str, str]]] = shipped("persons")["axes"]
    if axis not in axes:
        raise UnknownNameError("axis of person prompts", axis, axes)
    return axes[axis]


def _prompt(template: str, phrase: str) -> str:
    return agreed(with_subject(template, phrase))


Span = tuple[int, int]

_NEGATED = re.compile(r"\b(?:no|zero|without(?:\s+(?:any|an?))?)\s+$", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
_NEXT_WORD = re.compile(r"(?:['’]s?)?\s+([\w-]+)")
_LAST_WORD = re.compile(r"(?<![\w-])([\w-]+)\s+$")


def person_span(text: str, also: Iterable[Span] = ()) -> Span | None:
    """Where the first noun phrase in ``text`` that names a person is.

    A noun that belongs to the phrase is part of it ("tennis player"); adjectives are not. What a picture only
    shows ("a statue of a man"), what is not there ("no people") and nouns that describe a thing or an animal
    ("passenger train", "baby elephant") do not count.

    Args:
        text: an English caption.
        also: further spans that name people, such as words of a lexicon; the same exceptions hold for them.

    Returns:
        Start and end of the phrase; ``None`` when there is none.

    >>> text = "A statue of a man next to a tennis player"
    >>> start, end = person_span(text)
    >>> text[start:end]
    'tennis player'
    >>> person_span("A passenger train with no people") is None
    True
    """
    spans = {match.span() for match in _nouns().finditer(text)} | set(also)
    real = sorted(span for span in spans if _is_a_person(text, span))
    # "A child's bed" need hold no child, so a noun that stands for itself goes first.
    own = [span for span in real if text[span[1] : span[1] + 1] not in ("'", "’")]
    if not real:
        return None
    start, end = (own or real)[0]
    return _start_of_compound(text, start), end


def has_pronoun(text: str) -> bool:
    """Whether ``text`` has a pronoun of the third person, which may stand for a person.

    >>> has_pronoun("He rides a horse"), has_pronoun("A horse")
    (True, False)
    """
    return _pronouns().search(text) is not None


def with_term(text: str, start: int, term: str) -> str:
    """``text`` with ``term`` put in at ``start``, the article before it and the capital behind it made to fit.

    >>> with_term("A person rides", 2, "elderly"), with_term("People ride", 0, "elderly")
    ('An elderly person rides', 'Elderly people ride')
    """
    before, behind = text[:start], text[start:]
    term = term.upper() if text.isupper() else term
    match = _ARTICLE.search(before)
    if match:
        chosen = article(term)
        chosen = chosen.capitalize() if match.group(1)[0] == "A" else chosen
        chosen = chosen.upper() if text.isupper() else chosen
        before = f"{before[: match.start()]}{chosen}{match.group(2)}"
    first_word = re.match(r"\w*", behind)
    word = first_word.group() if first_word else ""
    if not re.search(r"\w", before) and word.istitle():
        term, behind = term[:1].upper() + term[1:], behind[:1].lower() + behind[1:]
    return f"{before}{term} {behind}"


def _is_a_person(text: str, span: Span) -> bool:
    lists = shipped("inpainting")["persons"]
    before, noun = text[: span[0]], text[span[0] : span[1]].lower()
    following, end = _next_word(text, span[1])
    described = _next_word(text, end)[0] if following in lists["between"] else following
    if noun in lists["pronouns"] or described in lists["not_before"] or _NEGATED.search(before):
        return False
    if noun in lists["collectives"] and following and following not in lists["collective_before"]:
        return False
    return _shown().search(before) is None


def _next_word(text: str, position: int) -> tuple[str, int]:
    """The word right behind ``position``, in small letters and without a possessive between, and where it ends."""
    word = _NEXT_WORD.match(text, position)
    return (word.group(1).lower(), word.end()) if word else ("", position)


def _start_of_compound(text: str, start: int) -> int:
    compounds = shipped("inpainting")["persons"]["compounds"]
    while word := _LAST_WORD.search(text, 0, start):
        if word.group(1).lower() not in compounds:
            break
        start = word.start(1)
    return start


@cache
def _nouns() -> re.Pattern[str]:
    lists = shipped("inpainting")["persons"]
    names = {o.subject for o in occupations()} - set(lists["unsure"])
    names |= {_plural(name) for name in names} | set(lists["nouns"])
    return _any_of(names)


@cache
def _pronouns() -> re.Pattern[str]:
    return _any_of(shipped("inpainting")["persons"]["pronouns"])


@cache
def _shown() -> re.Pattern[str]:
    kinds = "|".join(shipped("inpainting")["persons"]["shown_by"])
    return re.compile(rf"\b(?:{kinds})s?\s+of\s+(?:[\w-]+\s+){{0,3}}$", re.IGNORECASE)


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])", re.IGNORECASE)


def _plural(noun: str) -> str:
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if re.search(r"(?:s|x|z|ch|sh)$", noun) else f"{noun}s"


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
    return _worded(axis, groups, {name: texts[0] for name, texts in known.items()})


def group_phrases(axis: str, groups: Iterable[str]) -> dict[str, str]:
    """What stands for each group in a preference prompt ("a photo of a …").

    >>> group_phrases("race", ["White", "Latino_Hispanic"])
    {'White': 'white person', 'Latino_Hispanic': 'Latino or Hispanic person'}
    >>> group_phrases("skin_tone", ["dark"]), group_phrases("hair", ["red-haired"])
    ({'dark': 'person with dark skin'}, {'red-haired': 'red-haired person'})
    """
    return _worded(axis, groups, _phrases(axis))


def worded_by_rule(axis: str, groups: Iterable[str]) -> list[str]:
    """The groups that no shipped wording names; their prompts follow a rule and deserve a look.

    >>> worded_by_rule("gender", ["Female", "neutral"])
    ['neutral']
    """
    known = {_key(name) for name in _phrases(axis)}
    return [group for group in groups if _key(group, axis) not in known]


def _phrases(axis: str) -> Mapping[str, str]:
    return person_prompts(axis, templates=("{}",))[0].groups if axis in person_axes() else {}


def _worded(axis: str, groups: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    by_key = {_key(name): phrase for name, phrase in known.items()}
    ages, rule = _AGES if axis == "age" else {}, _RULES.get(axis, "{} person")
    return {
        group: by_key.get(_key(group, axis)) or ages.get(_key(group)) or rule.format(group.replace("_", " "))
        for group in groups
    }


def _key(group: str, axis: str = "") -> str:
    plain = " ".join(group.casefold().replace("_", " ").split())
    plain = _LETTERS.get(plain, plain) if axis == "gender" else plain
    return _ALIKE.get(plain, plain)
