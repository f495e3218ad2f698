"""What a made image keeps of the photograph it was made from: every label that the making did not change.

Things, subject, split and the labels on other axes stay; captions are said of the new group; what was derived from the
pixels or belongs to a filter's verdict does not come along.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from equipoise.data.people import people_of
from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.text.templates import Wording, inpainting_prompt, shipped_wording
from equipoise.world.catalog import AXES as WORLD_AXES

_VERDICT = ("keep", "dropped_by", "copies")
_SCORE = "score_"
"""How the columns begin in which filters keep what they measured."""
_WHERE = ("people", "object_boxes", "drawn_mask", "mixed")
"""Columns that say where something is in the picture, or who is there together."""
_PIXELS = ("vector", "image", "binary")
_SAME = ("subject", "split")
_WORLD_NAMES = {"skin_tone": "tone"}


class Kept:
    """The columns that rows made from a table keep.

    ``changed``: the axes that the making changes; ``made``: further columns that it writes itself; ``anew``: nothing of
    the picture is left, so what says where things are is not kept.
    """

    def __init__(
        self, source: Table, changed: Sequence[str] = (), made: Mapping[str, str] | None = None, *, anew: bool = False
    ) -> None:
        standard = schema_for("images").types
        self.axes = tuple(dict.fromkeys((*changed, *source.axes)))
        self.columns = dict(made or {})
        for name, kind in source.types.items():
            there = name in standard or name in self.axes or name in self.columns or name in _VERDICT
            there = there or name.startswith(_SCORE)
            if not there and not kind.startswith(_PIXELS) and not (anew and name in _WHERE):
                self.columns[name] = kind
        others = [axis for axis in source.axes if axis not in changed]
        same = [name for name in self.columns if name not in (made or {}) and name in source.columns]
        self.names = [name for name in (*_SAME, *others, *same) if name in source.columns]
        """The columns whose values are the source's."""


def names_in(source: Table, axis: str, groups: Iterable[str], wording: Wording | None = None) -> dict[str, str]:
    """What ``source`` calls each of ``groups`` ("older" for "old", "woman" for "female"); its own name if nothing else.

    A made image must not be of another group than its photograph because the two are spelt differently.
    """
    labels = [str(group) for group in source.group_counts(axis) if group is not None] if axis in source.axes else []
    words = wording or shipped_wording()
    names = {}
    for group in groups:
        alike = [label for label in labels if words.meant(axis, label) == words.meant(axis, group)]
        names[group] = group if group in labels or len(alike) != 1 else alike[0]
    return names


def kept(source: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The values of a source row that a made row keeps."""
    return {name: source.get(name) for name in names}


def relabelled(people: Sequence[Mapping[str, Any]], which: Sequence[int], changes: Mapping[str, str]) -> str:
    """The column ``people`` after the people at ``which`` places have become the groups in ``changes``.

    >>> relabelled([{"attributes": {"gender": "male", "age": "old"}}], [0], {"gender": "female"})
    '[{"attributes": {"gender": "female", "age": "old"}}]'
    """
    return json.dumps(
        [
            {**person, "attributes": {**(person.get("attributes") or {}), **changes}} if i in which else dict(person)
            for i, person in enumerate(people)
        ]
    )


def mixed_after(people: str, source: Mapping[str, Any], changes: Mapping[str, str]) -> dict[str, list[str]]:
    """The column ``mixed`` after a change, where the source has it: the axes on which the people differ."""
    before = source.get("mixed")
    if before is None:
        return {}
    groups = {axis: {(p.get("attributes") or {}).get(axis) for p in people_of(people)} for axis in changes}
    differ = {axis: len(values - {None}) > 1 for axis, values in groups.items()}
    return {"mixed": [axis for axis in before if axis not in changes] + [axis for axis in changes if differ[axis]]}


def scene_in(row: Mapping[str, Any]) -> Any:
    """The scene of a row that the pictogram world wrote; ``None`` for a photograph."""
    params = row.get("params")
    if not params or row.get("generator") != "world":
        return None
    from equipoise.world.tables import scene_of

    try:
        return scene_of(params)
    except InputError:
        return None


def world_changes(changes: Mapping[str, str]) -> dict[str, str]:
    """Groups by axis as :meth:`equipoise.world.Scene.counterfactual` takes them."""
    return {_WORLD_NAMES.get(axis, axis): group for axis, group in changes.items()}


def said_of(
    row: Mapping[str, Any], changes: Mapping[str, str], wording: Wording | None = None, *, person: int = 0
) -> dict[str, Any]:
    """Every column of captions of a source row, said of the groups in ``changes``: words are replaced, none put in.

    A caption of the world is said anew by its grammar, of ``person`` alone. One that cannot be said of the groups is
    left out.
    """
    columns = [name for name in row if name == "captions" or name.endswith("_captions")]
    scene = scene_in(row)
    if scene is not None and set(changes) <= set(WORLD_AXES):
        other = scene.counterfactual(person=person, **world_changes(changes))
        styles = {"captions": "natural", "neutral_captions": "neutral", "gendered_captions": "gendered"}
        return {
            name: other.captions(len(row[name] or ()), styles[name]) if row[name] else row[name]
            for name in columns
            if name in styles
        }
    return {name: None if row[name] is None else _replaced(row[name], changes, wording) for name in columns}


def _replaced(texts: Sequence[str], changes: Mapping[str, str], wording: Wording | None) -> list[str]:
    words = wording or shipped_wording()
    said = []
    for text in texts:
        new: str | None = text
        for axis, group in changes.items():
            new = None if new is None else _said(new, axis, group, words)
        if new is not None:
            said.append(new)
    return said


def _said(text: str, axis: str, group: str, words: Wording) -> str | None:
    """``text`` of a group, or ``None`` where it names a group and cannot be said of this one."""
    try:
        words.known(axis, group)
    except UnknownNameError:  # a name of one's own: there is no word for it, so only what names no group stays true
        return None if words.replacer(axis).groups_in(text) else text
    prompt = inpainting_prompt(text, {axis: group}, wording=words)
    if prompt.text is None:
        return None if "cannot be said" in prompt.reason else text
    return prompt.text if prompt.how[axis] == "replaced" else text
