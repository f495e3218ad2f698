"""A policy: what a model is for, who could be harmed, which bounds must hold; written before the run, and hashed."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from equipoise.data.settings import Settings, fitting_all, toml_of
from equipoise.errors import InputError, UnknownNameError
from equipoise.report.svg import asset

EXAMPLE = "policy.toml"


@dataclass(frozen=True)
class Hazard(Settings):
    """What could go wrong, and for whom."""

    what: ClassVar[str] = "entry of a hazard"

    name: str
    harm: str
    affects: str = ""
    severity: str = ""


@dataclass(frozen=True)
class Bound(Settings):
    """One number that must stay within a limit, with its interval.

    >>> Bound(name="retrieval", metric="max_skew", axis="gender", most=0.1).limit_text
    'at most 0.1'
    >>> Bound(name="retrieval", metric="max_skew", axis="gender")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: bound 'retrieval' names no limit; give most, least or both
    """

    what: ClassVar[str] = "entry of a bound"

    name: str
    metric: str
    axis: str = ""
    """An axis, or several as results write them (``gender x skin_tone``); left out: every axis that the run has."""
    suite: str = ""
    group: str = ""
    """A group, or a pair as ``female - male``; left out: the axis as a whole, or every pair of it."""
    k: Annotated[int, Field(ge=1)] | None = None
    variant: str = ""
    pool: str = ""
    of: Literal["size", "value"] = "size"
    """``size``: the distance from chance towards worse; ``value``: the number as it is."""
    most: float | None = None
    least: float | None = None
    end: Literal["far", "near"] = "far"
    """Which end of the interval must be within the limit: the ``far`` one (shown to hold), or the ``near`` one."""
    hazard: str = ""
    """The hazard that it watches, by its name."""

    def check(self) -> None:
        """Refuse what no single field can tell."""
        if self.most is None and self.least is None:
            raise InputError(f"bound {self.name!r} names no limit; give most, least or both")
        if self.most is not None and self.least is not None and self.most < self.least:
            raise InputError(f"bound {self.name!r}: most = {self.most:g} lies below least = {self.least:g}; swap them")
        if self.of == "size" and (self.least is not None or cast("float", self.most) < 0):
            raise InputError(
                f"bound {self.name!r} is on a size, the distance from chance, which can only be too large: give most, "
                'at least 0, or of = "value" for the number as it is'
            )

    @property
    def limit_text(self) -> str:
        """The limit in words."""
        ends = [
            f"{word} {limit:g}"
            for word, limit in (("at least", self.least), ("at most", self.most))
            if limit is not None
        ]
        return " and ".join(ends)


@dataclass(frozen=True)
class Policy(Settings):
    """What was decided before the run."""

    what: ClassVar[str] = "entry of a policy"

    intended_use: str
    decided_by: str
    decided_on: str
    groups: Mapping[str, tuple[str, ...]]
    """The groups that matter, by axis, as the data names them."""
    bounds: tuple[Bound, ...]
    title: str = ""
    not_for: tuple[str, ...] = ()
    intersections: tuple[str, ...] = ()
    """Axes looked at together, as ``gender x skin_tone``."""
    hazards: tuple[Hazard, ...] = ()
    sha256: str = ""
    """The hash of the file, as it was read."""

    def check(self) -> None:
        """Refuse what no single field can tell."""
        for name in ("intended_use", "decided_by", "decided_on"):
            if not getattr(self, name).strip():
                raise InputError(f"the policy leaves {name} empty; a bound without it answers nobody's question")
        if not self.bounds:
            raise InputError("the policy sets no bound; add a [[bound]] with name, metric, axis and most")
        if not self.groups:
            raise InputError("the policy names no groups; add them by axis under [groups]")
        names = [bound.name for bound in self.bounds]
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise InputError(f"two bounds are called {twice!r}; give each a name of its own")
        known = [hazard.name for hazard in self.hazards]
        for bound in self.bounds:
            if bound.hazard and bound.hazard not in known:
                raise UnknownNameError(f"hazard (in bound {bound.name!r})", bound.hazard, known)


_PARTS: dict[str, type[Hazard] | type[Bound]] = {"hazard": Hazard, "bound": Bound}
"""The tables of the file; the field that holds one is called the same, in the plural."""


def read_policy(path: str | Path) -> Policy:
    """The policy in a TOML file, with the SHA-256 of the file; what does not fit is refused in one sentence."""
    if not Path(path).exists():
        raise InputError(f"there is no policy at {path}; type: equipoise check --example --policy {path}")
    data = toml_of(path)
    parts: dict[str, Any] = {}
    try:
        for name, kind in _PARTS.items():
            entries = data.pop(name, [])
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise InputError(f"{name} is not a list of tables; write each as [[{name}]]")
            parts[f"{name}s"] = tuple(_made(kind, entry, f"{name} {i}") for i, entry in enumerate(entries, 1))
        known = [f.name for f in fields(Policy) if f.name not in ("sha256", *parts)]
        unknown = [name for name in data if name not in known]
        if unknown:
            raise UnknownNameError(Policy.what, unknown[0], [*known, *_PARTS])
        if isinstance(data.get("decided_on"), datetime.date):
            data["decided_on"] = data["decided_on"].isoformat()
        data["groups"] = _lists(data.get("groups", {}))
        sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return cast("Policy", _made(Policy, {**data, **parts, "sha256": sha256}, ""))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def example_policy() -> str:
    """The policy that comes with the package, as text with comments.

    >>> "[[bound]]" in example_policy()
    True
    """
    return asset(EXAMPLE)


def _made(kind: Any, entry: dict[str, Any], label: str) -> Any:
    """A part of the policy from what its table says."""
    known = fitting_all(kind, entry, what=kind.what, label=label)
    lacking = [
        f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING and f.name not in known
    ]
    if lacking:
        raise InputError(f"{label or 'the policy'} does not say its {lacking[0]}; add a line {lacking[0]} = ...")
    return kind(**known)


def _lists(groups: Any) -> Any:
    """Groups by axis, a single one as a list of one."""
    if not isinstance(groups, dict):
        return groups
    return {axis: [some] if isinstance(some, str) else some for axis, some in groups.items()}
