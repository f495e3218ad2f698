"""Occupations as subjects of captions: those SocialCounterfactuals prints, corrected, and our own; 260 in all."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.text.templates.files import shipped

__all__ = ["Occupation", "occupations"]


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
    found: dict[str, Occupation] = {}
    for name in content["printed"]:
        entry = changed.get(name, {"subject": name, "note": ""})
        found.setdefault(entry["subject"].casefold(), Occupation(entry["subject"], name, entry["note"]))
    for name in content["own"]:
        found.setdefault(name.casefold(), Occupation(name))
    return tuple(found.values())
