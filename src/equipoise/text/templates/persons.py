"""Prompts about a person: for preference metrics, zero-shot labels, and whether an attribute can be seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from equipoise.errors import UnknownNameError
from equipoise.text.articles import agreed
from equipoise.text.prompt_places import with_subject
from equipoise.text.templates.files import shipped

__all__ = ["PersonPrompts", "detectability_prompts", "person_axes", "person_prompts", "zero_shot_prompts"]


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

    There is one entry for each template, so that a metric can be reported with its sensitivity to wording; the
    first is "a photo of a person". ``phrases`` maps the groups of an axis of your own to what stands for them
    ("elderly person"); without it, ``axis`` is one of :func:`person_axes`.

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
    """Prompts that label a picture with a group of ``axis``: for each group, one prompt a template.

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
