"""Neutral prompts: the subject named, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.text.prompt_places import with_subject

__all__ = ["SOCIALCF_PROMPTS", "filled", "neutral_prompts"]

SOCIALCF_PROMPTS = ("{A}", "A photo of {a}", "A picture of {a}", "An image of {a}")
"""The four prefixes of SocialCounterfactuals; the first is the subject with its article alone."""


def filled(template: str, subject: str) -> str:
    """``template`` with the subject in its places: ``{}`` bare, ``{a}`` with its article, ``{A}`` that with a capital.

    Behind a written "a" or "an", the article that fits is chosen; see :mod:`equipoise.text.prompt_places`.

    >>> filled("A photo of {a}", "engineer"), filled("{A}", "umpire"), filled("a photo of a {}", "artist")
    ('A photo of an engineer', 'An umpire', 'a photo of an artist')
    """
    return with_subject(template, subject)


def neutral_prompts(subjects: Sequence[str], templates: Sequence[str]) -> list[list[str]]:
    """The prompts of each subject."""
    return [[filled(t, s) for t in templates] for s in subjects]
