"""The named caption presets: SocialCounterfactuals and its segments, traits, religion; and a user's own file.

Occupations as subjects of captions: those SocialCounterfactuals prints, corrected, and our own; 260 in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.templates.captions import CaptionPlan, CaptionSet, checked_subjects
from equipoise.text.templates.files import CaptionFile, caption_file, read_caption_file, shipped


@dataclass(frozen=True)
class Occupation:
    """A subject, the form the paper prints (empty when the name is ours) and why the two differ, if they do."""

    subject: str
    printed: str = ""
    note: str = ""


def occupations() -> tuple[Occupation, ...]:
    """All 260 occupations, each subject once: the printed ones first, in the paper's order, then ours.

    A printed name that comes to the same subject as another after correction is left out ("policeman" is
    "police officer"); ``shipped("occupations")["changed"]`` lists every correction.

    >>> len(occupations()), occupations()[15]
    (260, Occupation(subject='barber', printed='barker', note="Taken for a misprint: it stands between 'baker' and \
'bartender', where 'barber' is missing."))
    """
    content = shipped("occupations")
    changed = {entry["printed"]: entry for entry in content["changed"]}
    by_name: dict[str, Occupation] = {}
    for name in content["printed"]:
        entry = changed.get(name, {"subject": name, "note": ""})
        by_name.setdefault(entry["subject"].casefold(), Occupation(entry["subject"], name, entry["note"]))
    for name in content["own"]:
        by_name.setdefault(name.casefold(), Occupation(name))
    return tuple(by_name.values())


# Name -> shipped file, its segments (none: all), and what it is in a line.
CAPTION_PRESETS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "race-gender": ("socialcounterfactuals", ("race-gender",), "6 races x 2 genders; 12 captions per set"),
    "physical-gender": ("socialcounterfactuals", ("physical-gender",), "5 physical x 2 genders; 10 captions per set"),
    "physical-race": ("socialcounterfactuals", ("physical-race",), "5 physical x 6 races; 30 captions per set"),
    "physical-race-gender": ("socialcounterfactuals", ("physical-race-gender",), "three axes; 60 captions per set"),
    "socialcounterfactuals": (
        "socialcounterfactuals",
        ("race-gender", "physical-gender", "physical-race"),
        "the three segments of the paper together",
    ),
    "traits": ("traits", (), "20 traits, each said of 6 races x 2 genders; 12 captions per set"),
    "religion": ("religion", (), "7 religions x 2 genders; 14 captions per set"),
}


@dataclass(frozen=True)
class CaptionPreset:
    """Plans and the subjects they are used with; :meth:`sets` makes the caption sets."""

    name: str
    plans: tuple[CaptionPlan, ...]
    subjects: tuple[str, ...]
    citation: str = ""
    harms: str = ""

    def having(
        self, *, subjects: Sequence[str] = (), prefixes: Sequence[str] = (), order: Sequence[str] = ()
    ) -> CaptionPreset:
        """The same preset with other subjects, prefixes or word order; what is left empty stays as it is.

        >>> short = caption_preset("race-gender").having(subjects=["umpire"], prefixes=["A/An"])
        >>> next(short.sets()).neutral
        'An umpire'
        """
        plans = tuple(
            replace(plan, prefixes=tuple(prefixes) or plan.prefixes, order=tuple(order) or plan.order)
            for plan in self.plans
        )
        return replace(self, plans=plans, subjects=tuple(subjects) or self.subjects)

    def sets(self) -> Iterator[CaptionSet]:
        """Every caption set of every plan and subject, made as it is asked for."""
        if not self.subjects:
            raise InputError(f"{self.name} has no subjects; give some, such as 'doctor'")
        # All subjects are checked before the first caption is made, so that nothing is written and then refused.
        subjects = tuple(checked_subjects(self.subjects))
        return chain.from_iterable(plan.sets(subjects) for plan in self.plans)


def caption_preset(name: str) -> CaptionPreset:
    """The caption preset ``name``; an unknown name is answered with the closest ones.

    >>> preset = caption_preset("race-gender")
    >>> sets = list(preset.sets())
    >>> len(sets), sum(len(s) for s in sets)
    (1040, 12480)
    >>> caption_preset("religions")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no caption preset named 'religions'; did you mean 'religion'?
    """
    if name not in CAPTION_PRESETS:
        raise UnknownNameError("caption preset", name, CAPTION_PRESETS)
    file_name, segments, _ = CAPTION_PRESETS[name]
    file = caption_file(file_name)
    plans = tuple(plan for plan in file.plans if not segments or plan.segment in segments)
    return _preset(name, file, plans)


def captions_from_file(path: str | Path) -> CaptionPreset:
    """A preset from a user's TOML file; :class:`~equipoise.text.templates.files.CaptionFile` says what it holds."""
    file = read_caption_file(path)
    return _preset(str(path), file, file.plans)


def _preset(name: str, file: CaptionFile, plans: tuple[CaptionPlan, ...]) -> CaptionPreset:
    subjects = file.subjects
    if isinstance(subjects, str):
        if subjects != "occupations":
            raise UnknownNameError(f"list of subjects ({file.where})", subjects, ["occupations"])
        subjects = tuple(occupation.subject for occupation in occupations())
    about = file.content
    return CaptionPreset(name, plans, subjects, about.get("citation", ""), about.get("harms", "").strip())
