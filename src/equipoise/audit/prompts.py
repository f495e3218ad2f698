"""Neutral prompts: the subject named, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import InputError
from equipoise.text.articles import with_article

__all__ = ["SOCIALCF_PROMPTS", "filled", "neutral_prompts"]

SOCIALCF_PROMPTS = ("{}", "A photo of {}", "A picture of {}", "An image of {}")
"""The four prefixes of SocialCounterfactuals; the first is the subject with its article alone."""


def filled(template: str, subject: str) -> str:
    """``template`` with ``{}`` replaced by the subject and its article, the first letter a capital.

    >>> filled("A photo of {}", "engineer"), filled("{}", "umpire")
    ('A photo of an engineer', 'An umpire')
    """
    if "{}" not in template:
        raise InputError(f"the prompt {template!r} has no {{}} where the subject goes")
    text = template.replace("{}", with_article(subject))
    return text[:1].upper() + text[1:]


def neutral_prompts(subjects: Sequence[str], templates: Sequence[str]) -> list[list[str]]:
    """The prompts of each subject."""
    return [[filled(t, s) for t in templates] for s in subjects]
