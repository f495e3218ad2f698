"""Texts that name groups: which do, how one is made to, and pairs of prompts from a file.

A file of prompts is CSV with the columns ``set`` and ``text`` and one column for each axis: the texts of a set say the
same of people of different groups. A text without a group is the neutral one of its set; one without a set is for the
span of ``projection --variant calibrated`` or ``prompts``::

    set,gender,text
    1,female,a photo of a woman
    1,male,a photo of a man
    1,,a photo of a person
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.errors import InputError
from equipoise.text import neutralise
from equipoise.text.english.articles import with_article

_LAST_NOUN = re.compile(r"\b(an?|the)\s+(?=\S+(?:\s+\S+){0,3}$)", re.IGNORECASE)
_PERSON = {"female": "a woman", "male": "a man"}
_WORDS = {"gender": "{group} {noun}", "skin_tone": "{noun} with {group} skin"}
"""How a group is said of a noun; on another axis it stands before the noun, as gender does."""


@dataclass(frozen=True)
class PromptSets:
    """Texts, the group of each on every axis (``None`` where it names none), and the set of each."""

    texts: tuple[str, ...]
    groups: Mapping[str, tuple[str | None, ...]]
    sets: tuple[str, ...]


def read_prompts(path: str | Path, axes: Sequence[str]) -> PromptSets:
    """The prompts in a CSV file, with their groups on ``axes``; see the module."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    for column in ("set", "text", *axes):
        if not rows or column not in rows[0]:
            raise InputError(f"{path}: has no column {column!r}; give set, text, and one column for each axis")
    for number, row in enumerate(rows, start=2):
        if not (row["text"] or "").strip():
            raise InputError(f"{path}, line {number}: has no text")
    groups = {axis: tuple((row[axis] or "").strip() or None for row in rows) for axis in axes}
    return PromptSets(tuple(row["text"].strip() for row in rows), groups, tuple(row["set"] or "" for row in rows))


def default_prompts(
    groups: Mapping[str, Sequence[str]], subjects: Sequence[str] = (), *, people_apart: bool = False
) -> PromptSets:
    """For every axis "a photo of a person", "of a woman", "of a man", and the same of each of ``subjects``.

    ``people_apart``: those of a person, a woman, a man belong to no set; see the variant ``calibrated`` of projection.

    >>> found = default_prompts({"gender": ["female", "male"]}, ["nurse"])
    >>> found.texts[:3]
    ('a photo of a person', 'a photo of a woman', 'a photo of a man')
    >>> found.texts[3:]
    ('a photo of a nurse', 'a photo of a female nurse', 'a photo of a male nurse')
    """
    texts: list[str] = []
    labels: dict[str, list[str | None]] = {axis: [] for axis in groups}
    sets: list[str] = []

    def add(text: str, group: str | None, axis: str, name: str) -> None:
        texts.append(text)
        sets.append(name)
        for other in labels:
            labels[other].append(group if other == axis else None)

    for axis, names in groups.items():
        for noun in ("person", *subjects):
            name = "" if people_apart and noun == "person" else f"{axis}: {noun}"
            add(f"a photo of {with_article(noun)}", None, axis, name)
            for group in names:
                own = _PERSON.get(group) if noun == "person" and axis == "gender" else None
                said = own or with_article(_WORDS.get(axis, "{group} {noun}").format(group=group, noun=noun))
                add(f"a photo of {said}", group, axis, name)
    return PromptSets(tuple(texts), {axis: tuple(some) for axis, some in labels.items()}, tuple(sets))


def names_group(text: str, groups: Mapping[str, Sequence[str]]) -> bool:
    """Whether a text says itself who is in the picture, on one of the axes of ``groups``.

    >>> about = {"gender": ("female", "male"), "skin_tone": ("dark", "light")}
    >>> [names_group(t, about) for t in ("a photo of a nurse", "a photo of a waitress", "a cook with dark skin")]
    [False, True, True]
    """
    if "gender" in groups and neutralise(text) != text:
        return True
    names = [re.escape(str(group)) for some in groups.values() for group in some]
    return bool(re.search(rf"\b(?:{'|'.join(names)})\b", text, re.IGNORECASE)) if names else False


def named(text: str, group: str) -> str:
    """``text`` with the ``group`` named before its last noun; the same text where no article shows the place.

    >>> named("A photo of a nurse", "female"), named("a photo of an engineer", "male"), named("nurses", "male")
    ('A photo of a female nurse', 'a photo of a male engineer', 'nurses')
    """
    matches = list(_LAST_NOUN.finditer(text))
    if not matches:
        return text
    start, end = matches[-1].span()
    noun = f"{group} {text[end:]}"
    return text[:start] + (f"the {noun}" if matches[-1].group(1).lower() == "the" else with_article(noun))
