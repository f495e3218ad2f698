"""The two groups of Bias@K, which is defined for a pair."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from equipoise.audit.config import AuditConfig
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.groups import Groups

__all__ = ["check_pair", "pair_among", "pair_of"]

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
    """The pair asked for, where this axis has both groups."""
    if config.pair and set(config.pair) <= set(groups.names):
        return config.pair[0], config.pair[1]
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
