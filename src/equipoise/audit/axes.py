"""Which columns hold the groups that a suite asks about."""

from __future__ import annotations

import pandas as pd

from equipoise.audit.config import AuditConfig
from equipoise.errors import InputError, closest

__all__ = ["MOST_GROUPS", "NOT_AXES", "all_axes", "check_groups", "one_axis", "several_axes"]

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
    if not axes:
        raise InputError("the table names no axis; say which columns hold groups with --axis")
    for axis in axes:
        if axis not in frame:
            near = closest(axis, map(str, frame.columns), n=2)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _listed(known)
            raise InputError(f"the table has no axis {axis!r}; {hint}")
        check_groups(frame, axis, known)
    single = [axis for axis in axes if frame[axis].nunique() < 2]
    if single and (config.axes or len(single) == len(axes)):
        groups = frame[single[0]].dropna().unique()
        shown = f"one group, {str(groups[0])!r}" if len(groups) else "no group at all"
        raise InputError(f"the axis {single[0]!r} shows {shown}; an audit compares groups, so it needs two")
    return tuple(dict.fromkeys(axes))


def one_axis(frame: pd.DataFrame, config: AuditConfig) -> tuple[str, ...]:
    """The one axis that the suite asks about: the first asked for, or the only one of the table."""
    axes = all_axes(frame, config)
    if len(axes) > 1 and not config.axes:
        raise InputError(f"this suite asks about one axis and {_listed(axes)}; say which with --axis")
    return axes[:1]


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
        raise InputError(f"the column {axis!r} is a placebo and no axis: its differences are no groups; {hint}")
    if axis in NOT_AXES:
        raise InputError(f"the column {axis!r} holds no groups, so it is no axis; {hint}")
    try:
        n = frame[axis].nunique()
    except TypeError:
        raise InputError(f"the column {axis!r} holds lists and no groups, so it is no axis; {hint}") from None
    if n > MOST_GROUPS:
        raise InputError(f"the column {axis!r} has {n:,} groups, and an axis at most {MOST_GROUPS}; {hint}")


def _listed(axes: tuple[str, ...]) -> str:
    return f"its axes are: {', '.join(axes)}" if axes else "it names none"
