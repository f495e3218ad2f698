"""Inpainting prompts from captions: the same caption said of another group, so that a person can be drawn anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Protocol, TypeAlias, runtime_checkable

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.templates.files import shipped
from equipoise.text.templates.persons import Span, has_pronoun, person_span, with_term
from equipoise.text.templates.wording import Wording, shipped_wording, stands_behind


@runtime_checkable
class Swapper(Protocol):
    """What replaces group words: :class:`equipoise.text.Lexicon`, or anything with these two methods."""

    def swap(self, text: str, to: str) -> str:
        """``text`` said of the group ``to``."""

    def groups_in(self, text: str) -> frozenset[str]:
        """The groups that ``text`` names."""


Replacer: TypeAlias = Swapper | Callable[[str, str], str | None]
"""A swapper, or a function of caption and group that returns ``None`` when the caption names no group."""


@dataclass(frozen=True)
class InpaintingPrompt:
    """A prompt made from a caption, and how each group came in; or no prompt, and why."""

    source: str
    targets: Mapping[str, str]
    text: str | None
    how: Mapping[str, str] = field(default_factory=dict)
    """For each axis: ``replaced`` (the caption named a group), ``inserted``, or ``kept`` (it says so already)."""
    reason: str = ""
    """Why there is no prompt; empty when there is one."""


def inpainting_prompt(
    caption: str,
    targets: Mapping[str, str],
    *,
    lexicons: Mapping[str, Replacer] | None = None,
    terms: Mapping[str, Mapping[str, str]] | None = None,
    wording: Wording | None = None,
) -> InpaintingPrompt:
    """``caption`` said of the groups in ``targets``, on one axis or several at once.

    On each axis, the words for a group are replaced when the caption has any; every such word is, whoever it speaks
    of. Otherwise a term is put beside the first person noun, in the order English has them. A group that an axis with
    words does not know is refused. When the caption names no person, or a race where the skin tone changes, or when a
    word for another group has no counterpart, there is no prompt, and ``reason`` says so.

    Args:
        caption: one English caption.
        targets: axis -> group, at least one.
        lexicons: axis -> what replaces its words; by default the shipped lexicons of gender, age and race and the
            shipped phrases of skin tone. Where given, a term is put in on every axis that they lack.
        terms: axis -> group -> the term that is put in, before what ``wording`` says; the group's own name otherwise.
        wording: holds all of this, and the names that tables have for the groups; the shipped one unless given.

    Returns:
        The prompt with how each group came in, or the reason why there is none.

    >>> inpainting_prompt("A man rides his horse", {"gender": "female"}).text
    'A woman rides her horse'
    >>> inpainting_prompt("A person rides a horse", {"age": "old"}).text
    'An elderly person rides a horse'
    >>> both = inpainting_prompt("Two men on a bench", {"skin_tone": "darker", "gender": "female"})
    >>> both.text, both.how
    ('Two darker-skinned women on a bench', {'skin_tone': 'inserted', 'gender': 'replaced'})
    >>> inpainting_prompt("A dark skinned man", {"skin_tone": "light"}).text
    'A light skinned man'
    >>> inpainting_prompt("A red bus", {"age": "old"}).reason
    'the caption names no person'
    >>> inpainting_prompt("A white man", {"skin_tone": "dark"}).reason
    "the caption has a word on the axis 'race' that cannot be said of 'dark'"
    """
    if not targets:
        raise InputError("targets is empty; name at least one axis and group, such as {'gender': 'female'}")
    said = (wording or shipped_wording()) if terms is None else Wording(terms=terms).over(wording or shipped_wording())
    replacers, names = _replacers(targets, said, lexicons)
    text, how, spoken = caption, {}, {}
    for axis, group in targets.items():
        replaced = _replaced(text, names[axis], replacers[axis]) if axis in replacers else None
        if replaced is None:
            spoken[axis] = said.term(axis, group)
            how[axis] = "inserted"
        elif _still_names_another(replaced, names[axis], replacers[axis]):
            reason = f"the caption has a word on the axis {axis!r} that cannot be said of {group!r}"
            return InpaintingPrompt(caption, dict(targets), None, {}, reason)
        else:
            how[axis] = "replaced" if replaced != text else "kept"
            text = replaced
    for axis in targets if lexicons is None else ():
        other = _other_axis_that_tells(axis, text, targets, said) if how[axis] != "kept" else ""
        if other:
            reason = f"the caption has a word on the axis {other!r} that cannot be said of {targets[axis]!r}"
            return InpaintingPrompt(caption, dict(targets), None, {}, reason)
    if not spoken:
        return InpaintingPrompt(caption, dict(targets), text, how)
    span = person_span(text, _lexicon_spans(text, replacers))
    if span is None:
        return InpaintingPrompt(caption, dict(targets), None, {}, _why_no_person(text, spoken))
    there = _said_already(text, span, spoken)
    how |= dict.fromkeys(there, "kept")
    new = [spoken[axis] for axis in sorted(spoken, key=_place) if axis not in there]
    behind = " ".join(term for term in new if stands_behind(term))
    before = " ".join(term for term in new if not stands_behind(term))
    text = f"{text[: span[1]]} {behind}{text[span[1] :]}" if behind else text
    text = with_term(text, span[0], before) if before else text
    return InpaintingPrompt(caption, dict(targets), text, how)


def inpainting_prompts(
    caption: str,
    groups: Mapping[str, Sequence[str]],
    *,
    lexicons: Mapping[str, Replacer] | None = None,
    terms: Mapping[str, Mapping[str, str]] | None = None,
    wording: Wording | None = None,
) -> Iterator[InpaintingPrompt]:
    """A prompt for every combination of ``groups``.

    Args:
        caption: one English caption.
        groups: axis -> the groups to say it of.
        lexicons: axis -> what replaces its words, as in :func:`inpainting_prompt`.
        terms: axis -> group -> the term that is put in where no word is replaced.
        wording: the words of groups and the names that tables have for them; the shipped one unless given.

    Returns:
        The prompts one by one, the first axis slowest; one that cannot be made has a ``reason`` in place of its text.

    >>> groups = {"gender": ["female", "male"], "age": ["young", "old"]}
    >>> [p.text for p in inpainting_prompts("An officer waves", groups)][1:3]
    ['An elderly female officer waves', 'A young male officer waves']
    """
    for combination in product(*groups.values()):
        targets = dict(zip(groups, combination, strict=True))
        yield inpainting_prompt(caption, targets, lexicons=lexicons, terms=terms, wording=wording)


def _replaced(text: str, group: str, replacer: Replacer) -> str | None:
    """``text`` with its group words said of ``group``, or ``None`` when it has none."""
    if not isinstance(replacer, Swapper):
        return replacer(text, group)
    known = getattr(replacer, "groups", None)
    if known is not None and group not in known:
        raise UnknownNameError(f"group in lexicon {getattr(replacer, 'id', '')!r}", group, known)
    return replacer.swap(text, to=group) if replacer.groups_in(text) else None


def _still_names_another(text: str, group: str, replacer: Replacer) -> bool:
    """Whether a word of another group is left, because it has no counterpart ("pregnant", "boy" on the age axis)."""
    return isinstance(replacer, Swapper) and bool(replacer.groups_in(text) - {group})


def _other_axis_that_tells(axis: str, text: str, targets: Mapping[str, str], wording: Wording) -> str:
    """The axis, not changed itself, whose words tell a group of ``axis`` too ("a white man", of skin tone); or none."""
    for other in shipped("inpainting")["told_by"].get(axis, ()):
        replacer = wording.replacer(other)
        if other not in targets and replacer is not None and replacer.groups_in(text):
            return str(other)
    return ""


def _place(axis: str) -> int:
    """Where English puts a word on this axis among others: "elderly Asian female"."""
    order = list(shipped("inpainting")["term_order"])
    return order.index(axis) if axis in order else -1


def _said_already(text: str, span: Span, spoken: Mapping[str, str]) -> list[str]:
    """The axes whose term stands before the person noun already, at most two words away."""
    before, behind = text[: span[0]], text[span[1] :].lstrip().lower()
    return [
        axis
        for axis, term in spoken.items()
        if re.search(rf"(?<![\w-]){re.escape(term)}\s+(?:[\w-]+\s+){{0,2}}$", before, re.IGNORECASE)
        or (stands_behind(term) and behind.startswith(term.lower()))
    ]


def _why_no_person(text: str, spoken: Mapping[str, str]) -> str:
    if has_pronoun(text):
        term = next(iter(spoken.values()))
        return f"the caption names no person but by a pronoun, so {term!r} has no noun to stand before"
    return "the caption names no person"


def _lexicon_spans(text: str, replacers: Mapping[str, Replacer]) -> list[Span]:
    """Where the lexicons find nouns, which name people too ("actress")."""
    spans = []
    for replacer in replacers.values():
        for match in getattr(replacer, "find", lambda _: ())(text):
            if getattr(getattr(match, "row", None), "role", "noun") == "noun":
                spans.append((match.start, match.end))
    return spans


def _replacers(
    targets: Mapping[str, str], wording: Wording, lexicons: Mapping[str, Replacer] | None
) -> tuple[Mapping[str, Replacer], dict[str, str]]:
    """What replaces the words of each axis, and what its words call the target; given lexicons take groups as named."""
    if lexicons is not None:
        return lexicons, dict(targets)
    replacers = {axis: wording.replacer(axis) for axis in targets}
    names = {axis: wording.known(axis, group) for axis, group in targets.items()}
    return {axis: replacer for axis, replacer in replacers.items() if replacer is not None}, names
