"""Which columns hold the groups that a suite asks about."""

from __future__ import annotations

import pandas as pd

from equipoise.audit.config import AuditConfig
from equipoise.errors import InputError, closest

__all__ = ["all_axes", "one_axis", "several_axes"]


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


def _listed(axes: tuple[str, ...]) -> str:
    return f"its axes are: {', '.join(axes)}" if axes else "it names none"
