"""Neutral prompts: the subject named, and nobody else.

Which columns hold the groups that a suite asks about.

The two groups of Bias@K, which is defined for a pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from equipoise.audit.config import AuditConfig
from equipoise.data.readers.files import csv_records, plain_lines
from equipoise.data.schema import Rejected
from equipoise.errors import InputError, UnknownNameError, closest
from equipoise.measure.groups import Groups
from equipoise.text.templates.places import with_subject

NOT_AXES = frozenset(
    {"image", "image_id", "source_id", "set_id", "caption", "captions", "subject", "people", "objects", "mixed"}
    | {"label_source", "generator", "params", "seed", "split", "keep", "dropped_by", "link"}
)
"""Columns of an image table that say something else than which group a person belongs to."""
MOST_GROUPS = 200


def all_axes(frame: pd.DataFrame, config: AuditConfig) -> tuple[str, ...]:
    """The axes asked for, or all that the table says it has.

    >>> frame = pd.DataFrame({"image_id": ["a"], "gender": ["female"]})
    >>> all_axes(frame, AuditConfig(axes=("gneder",)))
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the table has no axis 'gneder'; did you mean 'gender'?
    """
    known = tuple(frame.attrs.get("axes", ()))
    axes = config.axes or known
    layers: Mapping[str, str] = frame.attrs.get("axes_of_layers", {})
    if not axes:
        how = "; ".join(layers.values()) or "say which columns hold groups with --axis"
        raise InputError(f"the table names no axis; {how}")
    for axis in axes:
        if axis not in frame:
            near = closest(axis, [*known, *layers, *(name for name in map(str, frame) if _may_be(frame, name))], n=2)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _listed(known)
            in_layers = [layers[name] for name in near if name in layers and name not in frame]
            raise InputError(f"the table has no axis {axis!r}; {in_layers[0] if in_layers else hint}")
        check_groups(frame, axis, known)
    single = [axis for axis in axes if frame[axis].nunique() < 2]
    if single and (config.axes or len(single) == len(axes)):
        groups = frame[single[0]].dropna().unique()
        shown = f"one group, {str(groups[0])!r}" if len(groups) else "no group at all"
        others = [name for name in known if name not in single and name in frame and frame[name].nunique() > 1]
        hint = f"give --axis {others[0]}" if others else "add images of another group to the table"
        raise InputError(f"the axis {single[0]!r} shows {shown}; an audit compares groups, so it needs two: {hint}")
    return tuple(dict.fromkeys(axes))


def one_axis(frame: pd.DataFrame, config: AuditConfig) -> tuple[str, ...]:
    """The one axis that the suite asks about: the one asked for, or the only one of the table."""
    axes = all_axes(frame, config)
    if len(axes) > 1:
        why = "this suite asks about one axis"
        if config.axes:
            raise InputError(f"{why}; give --axis once, not {' and '.join(axes)}")
        raise InputError(f"{why} and {_listed(axes)}; say which with --axis")
    return axes


def several_axes(frame: pd.DataFrame, config: AuditConfig) -> tuple[str, ...]:
    """The axes, two or more: one is asked about while another is held fixed."""
    axes = all_axes(frame, config)
    if len(axes) < 2:
        raise InputError(f"this suite asks about one axis given another, but there is only {axes[0]!r}; name two")
    return axes


def check_groups(frame: pd.DataFrame, axis: str, known: tuple[str, ...]) -> None:
    """Refuse a column that holds no groups of people: ids, captions, subjects, or nearly as many values as images."""
    hint = _listed(tuple(a for a in known if a not in NOT_AXES))
    if axis.startswith("placebo_"):
        raise InputError(f"the column {axis!r} is a placebo, not an axis: its differences are not groups; {hint}")
    if axis in NOT_AXES:
        raise InputError(f"the column {axis!r} holds no groups, so it is not an axis; {hint}")
    try:
        n = frame[axis].nunique()
    except TypeError:
        raise InputError(f"the column {axis!r} holds lists, not groups, so it is not an axis; {hint}") from None
    if n > MOST_GROUPS:
        raise InputError(f"the column {axis!r} has {n:,} groups, and an axis at most {MOST_GROUPS}; {hint}")


def _may_be(frame: pd.DataFrame, name: str) -> bool:
    """Whether a column of text could be asked about as an axis."""
    try:
        check_groups(frame, name, ())
    except InputError:
        return False
    return not pd.api.types.is_numeric_dtype(frame[name])


def _listed(axes: tuple[str, ...]) -> str:
    return f"its axes are: {', '.join(axes)}" if axes else "it names none"


MASCULINE = ("male", "masculine", "man")
FEMININE = ("female", "feminine", "woman")


def pair_of(groups: Groups, config: AuditConfig) -> tuple[str, str] | None:
    """The pair asked for; else the two groups, if there are just two; ``None`` where nobody said which.

    Among two perceived genders the masculine one counts as positive, as in the papers; otherwise the first by name.

    >>> pair_of(Groups.from_values(["female", "male"]), AuditConfig())
    ('male', 'female')
    >>> pair_of(Groups.from_values(["a", "b", "c"]), AuditConfig()) is None
    True
    """
    if config.pair:
        for name in config.pair:
            groups.index(name)
        return config.pair[0], config.pair[1]
    present = [name for name, count in zip(groups.names, groups.counts(), strict=True) if count]
    if len(present) != 2:
        return None
    first, second = present
    if first.casefold() in FEMININE and second.casefold() in MASCULINE:
        first, second = second, first
    return first, second


def pair_among(groups: Groups, config: AuditConfig) -> tuple[str, str] | None:
    """The pair asked for, where this axis has both groups; unless one was asked for, an axis of two groups has it.

    >>> pair_among(Groups.from_values(["female", "male"]), AuditConfig(pair=("a", "b"))) is None
    True
    """
    if not config.pair or set(config.pair) <= set(groups.names):
        return pair_of(groups, config)
    return None


def check_pair(frame: pd.DataFrame, axes: Iterable[str], config: AuditConfig) -> None:
    """Refuse a pair of groups that are not both on one of the ``axes``.

    >>> frame = pd.DataFrame({"gender": ["female", "male"], "race": ["A", "B"]})
    >>> check_pair(frame, ["gender", "race"], AuditConfig(pair=("male", "A")))
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: pair = male, A: the two groups are on different axes; name two of one axis
    """
    if not config.pair:
        return
    names = [set(map(str, frame[axis].dropna().unique())) for axis in axes]
    known = set().union(*names)
    for name in config.pair:
        if name not in known:
            raise UnknownNameError("group", name, known)
    if not any(set(config.pair) <= some for some in names):
        raise InputError(f"pair = {', '.join(config.pair)}: the two groups are on different axes; name two of one axis")


def prompts_of(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The settings ``prompts`` and ``prompt_kinds`` from a file of prompts.

    One prompt per line, or CSV with the columns ``prompt`` and, if there are kinds, ``kind``. In a file of lines, one
    that begins with # is a remark.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{path}: there is no such file; give a file with one prompt per line")
    _refuse_no_text(file)
    if file.suffix.lower() not in (".csv", ".tsv"):
        lines = [line.strip() for _, line in plain_lines(file) if isinstance(line, str)]
        prompts = tuple(line for line in lines if line and not line.startswith("#"))
        if not prompts:
            raise InputError(f"{path} holds no prompt; write one per line")
        return {"prompts": prompts}
    rows: list[dict[str, str]] = []
    for record in csv_records(file, delimiter="\t" if file.suffix.lower() == ".tsv" else ","):
        if isinstance(record, Rejected):
            raise InputError(f"{path}: {record.where}: {record.reason}")
        if not rows and "prompt" not in record[1]:
            raise InputError(f"{path} has no column 'prompt'; {_which_prompts(list(record[1]))}")
        rows.append(record[1])
    if not rows:
        raise InputError(f"{path} holds no prompt below the column names")
    kinds = tuple(row["kind"].strip() for row in rows) if "kind" in rows[0] else ()
    return {"prompts": tuple(row["prompt"] for row in rows)} | ({"prompt_kinds": kinds} if any(kinds) else {})


def _refuse_no_text(file: Path) -> None:
    """Refuse a picture, a spreadsheet or the like where a text file is expected."""
    data = file.read_bytes()
    try:
        if "\0" not in data.decode("utf-8"):
            return
    except UnicodeDecodeError:
        pass
    raise InputError(f"{file} is not UTF-8 text; give a text file with one prompt per line")


def _which_prompts(names: list[str]) -> str:
    """What to do about a file of prompts whose columns have these names."""
    if len(names) == 1:
        return "write prompt as its first line, above the prompts"
    known = [name for name in names if name.lower() in ("prompts", "text", "trait", "query", "sentence", "caption")]
    other = [name for name in names if name.lower() not in ("id", "kind", "type", "number")]
    guess = [*closest("prompt", names, n=1), *known, *other, *names][0]
    return (
        f"rename the column {guess} to prompt, if that holds them (read are prompt and, if you like, kind; its columns "
        f"are: {', '.join(names)[:200]})"
    )


SOCIALCF_PROMPTS = ("{A}", "A photo of {a}", "A picture of {a}", "An image of {a}")
"""The four prefixes of SocialCounterfactuals; the first is the subject with its article alone."""


def filled(template: str, subject: str) -> str:
    """``template`` with the subject in its places: ``{}`` bare, ``{a}`` with its article, ``{A}`` that with a capital.

    Behind a written "a" or "an", the article that fits is chosen; see :mod:`equipoise.text.templates.places`.

    >>> filled("A photo of {a}", "engineer"), filled("{A}", "umpire"), filled("a photo of a {}", "artist")
    ('A photo of an engineer', 'An umpire', 'a photo of an artist')
    """
    return with_subject(template, subject)


def neutral_prompts(subjects: Sequence[str], templates: Sequence[str]) -> list[list[str]]:
    """The prompts of each subject."""
    return [[filled(t, s) for t in templates] for s in subjects]
