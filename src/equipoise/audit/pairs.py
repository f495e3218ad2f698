"""The two groups of Bias@K, which is defined for a pair."""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.errors import UnknownNameError
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


def check_pair(evidence: Evidence, axes: Iterable[str], config: AuditConfig) -> None:
    """Refuse a pair that no axis has."""
    names = [evidence.groups([axis], "").names for axis in axes]
    if config.pair and not any(set(config.pair) <= set(some) for some in names):
        known = [name for some in names for name in some]
        unknown = next((name for name in config.pair if name not in known), config.pair[0])
        raise UnknownNameError("group of this pair on one axis", unknown, known)
