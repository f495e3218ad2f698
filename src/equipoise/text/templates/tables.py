"""Captions as rows: one caption per row, written as CSV, JSON lines or plain lines, and counted on the way."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from equipoise.errors import InputError, UnknownNameError
from equipoise.formatting import for_spreadsheet
from equipoise.text.templates.binding import activities, binding_captions
from equipoise.text.templates.edits import edit_instructions
from equipoise.text.templates.files import shipped
from equipoise.text.templates.presets import CAPTION_PRESETS, CaptionPreset, caption_preset

FORMATS = ("csv", "jsonl", "lines")
Row = Mapping[str, str | float | None]


@dataclass(frozen=True)
class CaptionTable:
    """Rows that are made as they are asked for; the first column, ``set_id``, tells sets apart."""

    columns: tuple[str, ...]
    rows: Iterator[Row]
    axes: tuple[str, ...]
    """The columns that name groups."""


@dataclass
class Tally:
    """How many sets and captions went by, and how many captions of each group on each axis."""

    sets: int = 0
    captions: int = 0
    groups: dict[str, Counter[str]] = field(default_factory=dict)

    def over(self, table: CaptionTable) -> Iterator[Row]:
        """The rows of ``table``, counted while they pass; rows of a set stand together."""
        self.groups = {axis: Counter() for axis in table.axes}
        last: str | float | None = None
        for row in table.rows:
            self.captions += 1
            self.sets += row["set_id"] != last
            last = row["set_id"]
            for axis, counts in self.groups.items():
                if row[axis] is not None:
                    counts[str(row[axis])] += 1
            yield row

    def __str__(self) -> str:
        lines = [f"{_counted(self.sets, 'set')}, {_counted(self.captions, 'caption')}"]
        for axis, counts in self.groups.items():
            lines.append(f"  {axis}: " + ", ".join(f"{group} {n:,}" for group, n in counts.items()))
        return "\n".join(lines)


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def caption_table(preset: CaptionPreset) -> CaptionTable:
    """The caption sets of ``preset``: one row per caption, one column per axis, ``None`` where a set does not name it.

    >>> from equipoise.text.templates import caption_preset
    >>> table = caption_table(caption_preset("religion").having(subjects=["chef"]))
    >>> table.columns
    ('set_id', 'subject', 'prefix', 'religion', 'gender', 'caption', 'neutral')
    >>> next(table.rows)["caption"]
    'A Christian male chef'
    """
    axes = tuple(dict.fromkeys(axis.name for plan in preset.plans for axis in plan.axes))
    sets = preset.sets()
    rows: Iterator[Row] = (
        {"set_id": caption_set.set_id, "subject": caption_set.subject, "prefix": caption_set.prefix}
        | {axis: caption.attributes.get(axis) for axis in axes}
        | {"caption": caption.text, "neutral": caption_set.neutral}
        for caption_set in sets
        for caption in caption_set.captions
    )
    return CaptionTable(("set_id", "subject", "prefix", *axes, "caption", "neutral"), rows, axes)


def edit_table() -> CaptionTable:
    """GenSynth's edit instructions: a set is one template at one guidance scale, said of each group.

    >>> row = next(edit_table().rows)
    >>> row["set_id"], row["group"], row["caption"]
    ('make_this_person_more_adjective--9.5', 'female', 'Make this person more feminine')
    """
    rows: Iterator[Row] = (
        {
            "set_id": f"{re.sub('[^a-z]+', '_', edit.template.lower()).strip('_')}--{edit.guidance_scale:g}",
            "template": edit.template,
            "guidance_scale": edit.guidance_scale,
            "group": edit.group,
            "caption": edit.text,
        }
        for edit in edit_instructions()
    )
    return CaptionTable(("set_id", "template", "guidance_scale", "group", "caption"), rows, ("group",))


def binding_table() -> CaptionTable:
    """GAB's captions: one row per group of pictures and template, a set being one activity.

    >>> row = next(binding_table().rows)
    >>> row["set_id"], row["group"], row["caption"]
    ('applying_nail_polish', 'E1', 'A woman is applying nail polish')
    """
    rows: Iterator[Row] = (
        {
            "set_id": activity.id,
            "subject": activity.phrase,
            "category": activity.category,
            "expected": activity.expected,
            "group": caption.group,
            "people": caption.people,
            "performer": caption.performer,
            "caption": caption.text,
            "reversed": caption.reversed,
            "neutral": caption.neutral,
        }
        for activity in activities()
        for caption in binding_captions(activity)
    )
    columns = "set_id subject category expected group people performer caption reversed neutral".split()
    return CaptionTable(tuple(columns), rows, ("category", "group", "people", "performer"))


@dataclass(frozen=True)
class PresetNote:
    """A preset's name, what it holds in a line, and where it comes from."""

    name: str
    summary: str
    citation: str


_FIXED: dict[str, tuple[Callable[[], CaptionTable], str, str]] = {
    "gensynth-edits": (edit_table, "gensynth_edits", "edit instructions: 4 templates x 2 guidance scales x 2 genders"),
    "gab": (binding_table, "gab", "37 activities; captions for the groups E1, E2, U1, U2"),
}


def preset_notes() -> list[PresetNote]:
    """Every preset that :func:`preset_table` knows.

    >>> [note.name for note in preset_notes()][-3:]
    ['religion', 'gensynth-edits', 'gab']
    """
    sets = [PresetNote(name, line, shipped(file)["citation"]) for name, (file, _, line) in CAPTION_PRESETS.items()]
    fixed = [PresetNote(name, line, shipped(file)["citation"]) for name, (_, file, line) in _FIXED.items()]
    return sets + fixed


def preset_table(
    name: str, *, subjects: Sequence[str] = (), prefixes: Sequence[str] = (), order: Sequence[str] = ()
) -> CaptionTable:
    """The table of the preset ``name``, with other subjects, prefixes or word order where it is made of these.

    >>> preset_table("gab", subjects=["doctor"])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the preset 'gab' has a wording of its own; leave out subjects, prefixes and order
    """
    if name in _FIXED:
        if subjects or prefixes or order:
            raise InputError(f"the preset {name!r} has a wording of its own; leave out subjects, prefixes and order")
        return _FIXED[name][0]()
    if name not in CAPTION_PRESETS:
        raise UnknownNameError("caption preset", name, [*CAPTION_PRESETS, *_FIXED])
    return caption_table(caption_preset(name).having(subjects=subjects, prefixes=prefixes, order=order))


def write(table: CaptionTable, format: str, file: TextIO) -> Tally:
    """Write ``table`` to ``file`` in one of :data:`FORMATS` and give back what was written, counted.

    >>> import io
    >>> print(write(edit_table(), "lines", io.StringIO()))
    8 sets, 16 captions
      group: female 8, male 8
    """
    if format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS)
    tally = Tally()
    rows = tally.over(table)
    if format == "csv":
        writer = csv.DictWriter(file, table.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: for_spreadsheet(value) for name, value in row.items()} for row in rows)
    elif format == "jsonl":
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        file.writelines(f"{row['caption']}\n" for row in rows)
    return tally


def format_of(path: str | Path | None) -> str:
    """The format that a file's name asks for; CSV when there is no file.

    >>> format_of("captions.jsonl"), format_of("captions.txt"), format_of(None)
    ('jsonl', 'lines', 'csv')
    """
    by_suffix = {".csv": "csv", ".jsonl": "jsonl", ".txt": "lines", "": "csv"}
    suffix = Path(path).suffix.lower() if path is not None else ""
    if suffix not in by_suffix:
        raise InputError(f"{path}: the ending {suffix!r} names no format; use .csv, .jsonl or .txt, or give --format")
    return by_suffix[suffix]
