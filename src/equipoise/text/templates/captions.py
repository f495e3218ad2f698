"""Counterfactual caption sets: one subject, said of every combination of groups.

A caption is *prefix + article + words*, the words being one for each axis (race, gender, …) and the subject, in
any order. All captions of a set differ only in the groups they name, and each set has a neutral prompt that
names none.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from equipoise.errors import InputError
from equipoise.text.english.articles import agreed
from equipoise.text.templates.places import with_subject

BARE = "A/An"
"""The prefix of a caption that starts with its own article: "An Asian female doctor"."""

PREFIXES = (BARE, "A photo of", "A picture of", "An image of")
"""The four prefixes of SocialCounterfactuals (CVPR 2024)."""

SUBJECT = "subject"
"""The name of the subject in a word order."""

RESERVED = frozenset({SUBJECT, "set_id", "prefix", "caption", "neutral", "segment"})


@dataclass(frozen=True)
class Axis:
    """One way in which the captions of a set differ: a name and, for each group, the word that says it.

    >>> Axis.of("race", ["Asian", "Black"]).words
    {'Asian': 'Asian', 'Black': 'Black'}
    >>> Axis.of("age", {"old": "elderly"}).words
    {'old': 'elderly'}
    """

    name: str
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.name) or self.name in RESERVED:
            raise InputError(
                f"axis name {self.name!r} cannot be used; give one word of letters, digits and '_' "
                f"that is none of {', '.join(sorted(RESERVED))}"
            )
        if not self.words:
            raise InputError(f"axis {self.name!r} has no groups; give at least one")
        for group, word in self.words.items():
            if not group.strip() or not word.strip():
                raise InputError(f"axis {self.name!r}: group {group!r} has no word; give each group a word")
        said = [word.casefold() for word in self.words.values()]
        for word in said:
            if said.count(word) > 1:
                raise InputError(f"axis {self.name!r}: two groups are called {word!r}; each needs its own word")

    @classmethod
    def of(cls, name: str, groups: Iterable[str] | Mapping[str, str]) -> Axis:
        """An axis from group names that are words themselves, or from a mapping of group to word."""
        if isinstance(groups, Mapping):
            return cls(name, dict(groups))
        listed = list(groups)
        if len(set(listed)) != len(listed):
            twice = next(g for g in listed if listed.count(g) > 1)
            raise InputError(f"axis {name!r} lists the group {twice!r} twice; list it once")
        return cls(name, {group: group for group in listed})


@dataclass(frozen=True)
class Caption:
    """One caption and the group it names on each axis."""

    text: str
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class CaptionSet:
    """Captions that differ only in the groups they name, and the prompt that names none."""

    set_id: str
    subject: str
    prefix: str
    axes: tuple[str, ...]
    neutral: str
    captions: tuple[Caption, ...]

    def __len__(self) -> int:
        return len(self.captions)


@dataclass(frozen=True)
class CaptionPlan:
    """What every set of a segment has in common: axes, prefixes, word order; checked once, used for any subject.

    ``order`` is a permutation of the axis names and ``"subject"`` (default: the axes as given, then the
    subject). Axes in ``hold`` do not vary inside a set: each of their groups makes sets of its own, and the
    neutral prompt keeps its word. ``segment`` names the plan in every ``set_id`` (default: the axis names).
    """

    axes: tuple[Axis, ...]
    prefixes: tuple[str, ...] = PREFIXES
    order: tuple[str, ...] = ()
    hold: tuple[str, ...] = ()
    segment: str = ""

    def __post_init__(self) -> None:
        names = [axis.name for axis in self.axes]
        if not names:
            raise InputError("a caption set needs at least one axis; none was given")
        if len(set(names)) != len(names):
            raise InputError(f"axis {max(names, key=names.count)!r} is given twice; give each axis once")
        if not self.prefixes:
            raise InputError(f"a caption set needs at least one prefix, such as {BARE!r}")
        _without_twins(self.prefixes, "prefix")
        object.__setattr__(self, "order", self.order or (*names, SUBJECT))
        if sorted(self.order) != sorted([*names, SUBJECT]):
            raise InputError(
                f"order {', '.join(self.order)!r} must name each of {', '.join([*names, SUBJECT])} exactly once"
            )
        unknown = [name for name in self.hold if name not in names]
        if unknown:
            raise InputError(f"hold names {unknown[0]!r}, which is not an axis; the axes are {', '.join(names)}")
        if not self.varied:
            raise InputError("every axis is held, so nothing differs inside a set; hold fewer axes")
        object.__setattr__(self, "segment", self.segment or "-".join(names))

    @property
    def varied(self) -> tuple[Axis, ...]:
        """The axes that differ inside a set."""
        return tuple(axis for axis in self.axes if axis.name not in self.hold)

    @property
    def held(self) -> tuple[Axis, ...]:
        """The axes that differ between sets only."""
        return tuple(axis for axis in self.axes if axis.name in self.hold)

    def sets(self, subjects: Iterable[str]) -> Iterator[CaptionSet]:
        """The sets of each subject, one for each combination of held groups and prefix, made as they are asked for.

        A subject is a singular noun without its article; two that differ only in case are refused.
        """
        for subject in checked_subjects(subjects):
            for held in _combinations(self.held):
                for prefix in self.prefixes:
                    yield self._set(subject, held, prefix)

    def _set(self, subject: str, held: Mapping[str, str], prefix: str) -> CaptionSet:
        fixed = {SUBJECT: subject} | {a.name: a.words[held[a.name]] for a in self.held}
        captions = tuple(
            Caption(
                _sentence(prefix, self._phrase(fixed | {a.name: a.words[groups[a.name]] for a in self.varied})),
                dict(held) | groups,
            )
            for groups in _combinations(self.varied)
        )
        kept = self._phrase(fixed)
        parts = (self.segment, prefix, *held.values(), subject)
        return CaptionSet(
            set_id="--".join(_slug(part) for part in parts),
            subject=kept,
            prefix=prefix,
            axes=tuple(axis.name for axis in self.axes),
            neutral=_sentence(prefix, kept),
            captions=captions,
        )

    def _phrase(self, words: Mapping[str, str]) -> str:
        return " ".join(words[name] for name in self.order if name in words)


def caption_sets(
    subjects: Iterable[str],
    axes: Sequence[Axis],
    *,
    prefixes: Sequence[str] = PREFIXES,
    order: Sequence[str] = (),
    hold: Sequence[str] = (),
    segment: str = "",
) -> Iterator[CaptionSet]:
    """Counterfactual caption sets of ``subjects``, made as they are asked for; see :class:`CaptionPlan`.

    Args:
        subjects: singular nouns without their articles; two that differ only in case are refused when the second comes.
        axes: those that captions name groups of, at least one that is not held.
        prefixes: what captions begin with, each in sets of its own; ``{}`` or ``{a}`` in one says where the rest goes.
        order: the axis names and ``"subject"``, each once; by default the axes as given, then the subject.
        hold: axes that do not vary inside a set: each of their groups makes sets of its own, and the neutral prompt
            keeps its word.
        segment: how every ``set_id`` begins; by default the axis names.

    Returns:
        The sets of each subject, one for each combination of held groups and prefix.

    >>> race, gender = Axis.of("race", ["Asian", "Black"]), Axis.of("gender", ["male", "female"])
    >>> first = next(caption_sets(["doctor"], [race, gender], prefixes=["A photo of"]))
    >>> first.set_id, first.neutral, len(first)
    ('race-gender--a_photo_of--doctor', 'A photo of a doctor', 4)
    >>> first.captions[1]
    Caption(text='A photo of an Asian female doctor', attributes={'race': 'Asian', 'gender': 'female'})

    A trait that stands first and stays the same inside a set:

    >>> trait = Axis.of("trait", ["honest"])
    >>> only = next(caption_sets(["chef"], [gender, trait], order=["trait", "gender", "subject"], hold=["trait"]))
    >>> only.neutral, [c.text for c in only.captions]
    ('An honest chef', ['An honest male chef', 'An honest female chef'])
    """
    plan = CaptionPlan(tuple(axes), tuple(prefixes), tuple(order), tuple(hold), segment)
    return plan.sets(subjects)


def checked_subjects(subjects: Iterable[str]) -> Iterator[str]:
    """Each subject as it will be used, with single spaces; one that cannot be used is refused when it comes.

    >>> list(checked_subjects(["doctor", "lab  tech"]))
    ['doctor', 'lab tech']
    """
    seen: set[str] = set()
    for given in subjects:
        subject = _subject(given)
        if subject.casefold() in seen:
            raise InputError(f"subject {subject!r} is given twice (case does not count); give it once")
        seen.add(subject.casefold())
        yield subject


def _combinations(axes: Sequence[Axis]) -> Iterator[dict[str, str]]:
    """Every combination of groups, the first axis slowest."""
    names = [axis.name for axis in axes]
    for groups in product(*(axis.words for axis in axes)):
        yield dict(zip(names, groups, strict=True))


def _sentence(prefix: str, phrase: str) -> str:
    """Prefix and phrase with the article between them; with braces the prefix says where: ``{a}`` is both."""
    if prefix == BARE:
        return agreed(f"{BARE} {phrase}")
    if "{" in prefix or "}" in prefix:
        return with_subject(prefix, phrase)
    return f"{prefix} {agreed(f'a/an {phrase}')}"


def _subject(given: str) -> str:
    subject = " ".join(given.split())
    if not subject:
        raise InputError("a subject is empty; give a noun such as 'doctor'")
    first = re.match(r"(?i)(?:a|an|the|a/an)\s", subject)
    if first:
        raise InputError(
            f"subject {subject!r} begins with the article {first.group().strip()!r}; leave the article out"
        )
    return subject


def _without_twins(names: Sequence[str], kind: str) -> None:
    seen: set[str] = set()
    for name in names:
        if not name.strip():
            raise InputError(f"a {kind} is empty; use {BARE!r} for captions that start with their article")
        if name.casefold() in seen:
            raise InputError(f"{kind} {name!r} is given twice (case does not count); give it once")
        seen.add(name.casefold())


def _slug(text: str) -> str:
    """A readable file-name part, different for texts that differ by more than case.

    Spaces become ``_``; whatever else cannot stand in a file name is dropped, and then eight digits of the text's
    hash follow, so that no two texts share a slug.
    """
    if text == BARE:
        return "a-an"
    lower = text.casefold()
    if re.fullmatch(r"[a-z0-9]+(?:[ -][a-z0-9]+)*", lower) and len(lower) <= 60 and lower != "a-an":
        return lower.replace(" ", "_")
    ascii_only = unicodedata.normalize("NFKD", lower).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^a-z0-9]+", "_", ascii_only)[:60].strip("_")
    digest = hashlib.sha256(lower.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{readable}_{digest}" if readable else digest
