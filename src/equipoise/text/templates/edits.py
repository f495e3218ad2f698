"""Instructions for an image editor: "Make this person look like a woman", for each group and guidance scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import Formatter

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.english.articles import agreed
from equipoise.text.templates.files import shipped


@dataclass(frozen=True)
class EditInstruction:
    """One instruction, the group it aims at, the template it comes from and how hard the editor follows it."""

    text: str
    group: str
    template: str
    guidance_scale: float


def edit_groups() -> dict[str, dict[str, str]]:
    """The shipped groups and their words; two are GenSynth's, further ones are ours.

    >>> edit_groups()["female"]
    {'adjective': 'feminine', 'noun': 'woman'}
    """
    return {group: dict(words) for group, words in shipped("gensynth_edits")["groups"].items()}


def edit_templates() -> tuple[str, ...]:
    """The shipped templates of instructions, GenSynth's four.

    >>> edit_templates()[0]
    'Make this person more {adjective}'
    """
    return tuple(shipped("gensynth_edits")["templates"])


def edit_instructions(
    groups: Sequence[str] | Mapping[str, Mapping[str, str]] = (),
    *,
    templates: Sequence[str] = (),
    guidance_scales: Sequence[float] = (),
) -> Iterator[EditInstruction]:
    """Edit instructions: every template x guidance scale x group.

    Without arguments, the 16 edits of an image in GenSynth (arXiv 2305.15407, Table 6): 4 templates x 2 genders
    x text guidance 9.5 and 15.

    Args:
        groups: names of shipped groups, or a mapping of any group to the words that its templates ask for
            (``{adjective}``, ``{noun}``, or fields of your own).
        templates: texts with at least one such field, by default GenSynth's four; ``a/an`` in one is resolved.
        guidance_scales: how hard the editor follows the text; numbers above 0, by default 9.5 and 15.

    Returns:
        The instructions one by one, the template changing slowest and the group fastest.

    >>> edits = list(edit_instructions())
    >>> len(edits), edits[4].text
    (16, 'Make this person look like a woman')
    >>> older = {"old": {"adjective": "elderly", "noun": "elderly person"}}
    >>> [e.text for e in edit_instructions(older, guidance_scales=[9.5])][2]
    'Turn this person into an elderly person'
    """
    content = shipped("gensynth_edits")
    words = _words(groups or content["default_groups"])
    chosen = tuple(templates) or edit_templates()
    scales = tuple(guidance_scales) or tuple(content["guidance_scales"])
    for scale in scales:
        if not scale > 0:
            raise InputError(f"guidance_scales holds {scale!r}; a guidance scale is a number above 0")
    texts = {(group, t): filled(t, words[group], f"group {group!r}") for group, t in product(words, chosen)}
    return (
        EditInstruction(texts[group, template], group, template, float(scale))
        for template, scale, group in product(chosen, scales, words)
    )


def filled(template: str, words: Mapping[str, str], owner: str) -> str:
    """``template`` with its ``{fields}`` replaced by ``words`` and its open articles resolved.

    >>> filled("a/an {noun}", {"noun": "elderly person"}, "group 'old'")
    'an elderly person'
    """
    try:
        fields = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise InputError(f"template {template!r} cannot be read ({error})") from error
    if not fields:
        raise InputError(f"template {template!r} has no field such as {{noun}}, so every group would read the same")
    missing = sorted(fields - set(words))
    if missing:
        raise InputError(f"template {template!r} asks for {{{missing[0]}}}, which {owner} does not give")
    return agreed(template.format(**words))


def _words(groups: Sequence[str] | Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    if isinstance(groups, Mapping):
        return groups
    known = edit_groups()
    for group in groups:
        if group not in known:
            raise UnknownNameError("edit group", group, known)
    return {group: known[group] for group in groups}
