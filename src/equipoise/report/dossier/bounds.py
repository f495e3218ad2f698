"""Whether the bounds of a policy hold in result folders: each with its interval, or not at all.

A bound on a number without its interval would pass whoever measured least. So a bound *holds* when the interval lies
within the limit, *fails* when it lies beyond it, and otherwise n is *too small to tell*. What no run has is *missing*.
Every row that a bound speaks of must hold: all of them together are one claim, and need no further correction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd

from equipoise.errors import closest
from equipoise.formatting import missing
from equipoise.measure.notes import independent, pair_of
from equipoise.report.dossier.policy import Bound, Policy
from equipoise.report.findings import PAIRED, of_placebo
from equipoise.report.sources import Series
from equipoise.report.verdict.judging import level_of, spreads_of
from equipoise.report.verdict.outcomes import UPWARDS, Reading, read_row
from equipoise.report.verdict.repair import flattered


class BoundOutcome(StrEnum):
    """What came of one bound."""

    FAILS = "fails"
    MISSING = "missing"
    OPEN = "too small to tell"
    HOLDS = "holds"


_ORDER = tuple(BoundOutcome)


@dataclass(frozen=True)
class BoundCheck:
    """One bound in one run, or in no run: the row that decides."""

    bound: Bound
    outcome: BoundOutcome
    why: str
    """In words, for a reader of the dossier."""
    model: str = ""
    run: str = ""
    axis: str = ""
    group: str = ""
    k: int | None = None
    pool: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    smallest: float | None = None
    """The smallest effect that this n finds with 80% power; ``None`` where it cannot be said."""
    n: int | None = None
    p_value: float | None = None
    level: float = 0.95

    def plain(self) -> dict[str, Any]:
        """The same as plain data."""
        bound = {name: value for name, value in self.bound.plain().items() if value not in ("", None)}
        numbers = {
            name: getattr(self, name)
            for name in "model run axis group k pool value low high level smallest n p_value".split()
        }
        return {"name": self.bound.name, "outcome": self.outcome.value, "why": self.why, **numbers, "bound": bound}


@dataclass(frozen=True)
class CheckedPolicy:
    """All bounds of a policy."""

    policy: Policy
    checks: tuple[BoundCheck, ...]
    """Every row that was looked at, bound by bound."""

    @property
    def deciding(self) -> list[BoundCheck]:
        """For each model and bound the row that decides: the worst."""
        chosen: dict[tuple[str, str], BoundCheck] = {}
        for check in self.checks:
            key = check.bound.name, check.model
            if key not in chosen or _rank(check) < _rank(chosen[key]):
                chosen[key] = check
        models = list(dict.fromkeys(check.model for check in chosen.values()))
        return sorted(chosen.values(), key=lambda check: models.index(check.model))

    def beside(self, check: BoundCheck) -> int:
        """How many rows the same bound looked at for the same model."""
        return sum((c.bound.name, c.model) == (check.bound.name, check.model) for c in self.checks)

    @property
    def outcome(self) -> BoundOutcome:
        """Of all bounds together: one that fails is enough, and all must hold."""
        return min((check.outcome for check in self.checks), key=_ORDER.index)

    @property
    def exit_code(self) -> int:
        """0: all hold; 1: one fails; 3: n is too small to tell, or something is missing."""
        return {BoundOutcome.HOLDS: 0, BoundOutcome.FAILS: 1}.get(self.outcome, 3)

    def notes(self, series: Sequence[Series]) -> list[str]:
        """What the policy names and no bound or no run looks at."""
        axes = {str(axis) for each in series for axis in each.results["axis"].dropna().unique()}
        bounded = {check.axis for check in self.checks}
        notes = []
        for axis in [*self.policy.groups, *self.policy.intersections]:
            if axis not in axes:
                notes.append(f"the policy names {axis}, and no run has numbers on it")
            elif axis not in bounded:
                notes.append(f"the policy names {axis}, and sets no bound on it")
        watched = {bound.hazard for bound in self.policy.bounds}
        notes += [f"no bound watches the hazard {h.name!r}" for h in self.policy.hazards if h.name not in watched]
        return [*notes, *(said.removesuffix(".") for each in series if (said := flattered(each)))]

    def plain(self, series: Sequence[Series] = ()) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "outcome": self.outcome.value,
            "exit_code": self.exit_code,
            "policy_sha256": self.policy.sha256,
            "bounds": [check.plain() for check in self.checks],
            "notes": self.notes(series),
        }


def check_policy(policy: Policy, series: Sequence[Series]) -> CheckedPolicy:
    """Every bound of ``policy``, in every run of its suite; a blind ranking of a pool is no model to hold to it."""
    series = [each for each in series if not each.is_yardstick]
    checks = []
    for bound in policy.bounds:
        of_suite = [each for each in series if not bound.suite or (each.results["suite"] == bound.suite).any()]
        if bound.suite and not of_suite:
            checks.append(_absent(bound, "suite", bound.suite, [each.results for each in series]))
            continue
        having = [each for each in of_suite if (each.results["metric"] == bound.metric).any()]
        if not having:
            checks.append(_absent(bound, "metric", bound.metric, [each.results for each in of_suite]))
        for each in of_suite if bound.suite else having:
            checks += _checked(bound, each)
    return CheckedPolicy(policy, tuple(checks))


def outcome_of_bound(
    low: float, high: float, *, most: float | None, least: float | None, end: str = "far", smallest: float | None = None
) -> BoundOutcome:
    """What an interval says of a limit.

    ``smallest``: the smallest effect that could have been found; where only the near end must hold, one larger than the
    limit leaves the bound open, since then nothing could have failed it.

    >>> [outcome_of_bound(*ends, most=0.2, least=None).value for ends in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.4))]
    ['holds', 'too small to tell', 'fails']
    >>> [outcome_of_bound(0.1, 0.3, most=0.2, least=None, end="near", smallest=s).value for s in (0.1, 0.5)]
    ['holds', 'too small to tell']
    >>> outcome_of_bound(0.85, 0.9, most=None, least=0.8).value
    'holds'
    """
    if (most is not None and low > most) or (least is not None and high < least):
        return BoundOutcome.FAILS
    if (most is None or high <= most) and (least is None or low >= least):
        return BoundOutcome.HOLDS
    if end == "near" and (smallest is None or most is None or smallest <= most):
        return BoundOutcome.HOLDS
    return BoundOutcome.OPEN


def size_of(row: pd.Series, spreads: float) -> Reading:
    """A row with a chance level as a distance from it, towards worse."""
    p = 1.0 if missing(row["p_value"]) else float(row["p_value"])
    return read_row(row, p, spreads=spreads, signed=False if row["metric"] in UPWARDS else None)


def _checked(bound: Bound, series: Series) -> list[BoundCheck]:
    """The bound on every row of one run that it speaks of; one that says what is missing where there is none."""
    rows = series.results[series.results["subject"].isna()]
    if bound.suite:
        rows = rows[rows["suite"] == bound.suite]
    for name in ("metric", "axis", "pool", "variant", "k", "group"):
        known = rows
        rows = _narrowed(rows, bound, name)
        if rows.empty:
            return [_absent(bound, name, getattr(bound, name), [known], series)]
    return [_of_row(bound, series, row) for _, row in rows.iterrows()]


def _narrowed(rows: pd.DataFrame, bound: Bound, name: str) -> pd.DataFrame:
    wanted = getattr(bound, name)
    if name == "group":
        return _of_group(rows, wanted)
    if wanted not in ("", None):
        same: pd.DataFrame = rows[(rows[name] == wanted).fillna(False).astype(bool)]
        return same
    if name == "axis":
        return rows[[not of_placebo(row) for row in rows.to_dict("records")]]
    if name == "variant" and "equipoise" in set(rows["variant"].dropna()):
        return rows[rows["variant"] == "equipoise"]
    return rows


def _of_group(rows: pd.DataFrame, wanted: str) -> pd.DataFrame:
    """The rows of a group or pair, whichever comes first in it; of none: those of the axis as a whole, or all."""
    if wanted:
        pair = frozenset(wanted.split(" - ")) if " - " in wanted else None
        same = [
            row["group"] == wanted or (pair is not None and frozenset(pair_of(row) or ()) == pair)
            for row in rows.to_dict("records")
        ]
        return rows[same]
    whole = rows[rows["group"].isna() | rows["metric"].isin(PAIRED)]
    return whole if len(whole) else rows


def _of_row(bound: Bound, series: Series, row: pd.Series) -> BoundCheck:
    value, low, high, smallest, problem = _held(bound, series, row)
    n = independent(row)
    if not problem and n is not None and n < 2:
        problem = "it rests on one unit"
    if problem or low is None or high is None:
        outcome, why = BoundOutcome.OPEN, problem or "it has no interval"
    else:
        outcome = outcome_of_bound(low, high, most=bound.most, least=bound.least, end=bound.end, smallest=smallest)
        why = _reason(outcome, bound)
    return BoundCheck(
        bound,
        outcome,
        why,
        series.label,
        series.source.path.name,
        _text(row["axis"]),
        _text(row["group"]),
        None if missing(row["k"]) else int(row["k"]),
        _text(row["pool"]),
        value,
        low,
        high,
        smallest,
        n,
        None if missing(row["p_value"]) else float(row["p_value"]),
        level_of(series),
    )


def _held(
    bound: Bound, series: Series, row: pd.Series
) -> tuple[float | None, float | None, float | None, float | None, str]:
    """The number that is held against the limit, its interval, the smallest effect, and what is wrong with it."""
    if missing(row["value"]):
        return None, None, None, None, "the run could not measure it"
    reading = None if missing(row["null_mean"]) else size_of(row, spreads_of(series))
    smallest = reading.smallest if reading is not None else None
    if bound.of == "value":
        ends = [None if missing(row[name]) else float(row[name]) for name in ("ci_low", "ci_high")]
        lost = ends[0] is None or ends[1] is None
        return float(row["value"]), ends[0], ends[1], smallest, "it has no interval" if lost else ""
    if reading is None:
        return float(row["value"]), None, None, None, "it has no chance level to measure a size from"
    problem = "" if reading.low is not None else "it has no interval"
    return reading.size, reading.low, reading.high, smallest, problem


def _reason(outcome: BoundOutcome, bound: Bound) -> str:
    if outcome is BoundOutcome.HOLDS:
        return "its interval lies within the limit" if bound.end == "far" else "its interval is not beyond the limit"
    if outcome is BoundOutcome.FAILS:
        return "its interval lies beyond the limit"
    return (
        "its interval reaches across the limit" if bound.end == "far" else "what would fail could not have been found"
    )


def _absent(
    bound: Bound, kind: str, wanted: object, rows: Sequence[pd.DataFrame], series: Series | None = None
) -> BoundCheck:
    """A bound that nothing can be said of, with the names that the column ``kind`` of ``rows`` has."""
    known = sorted({str(value) for some in rows for value in some[kind].dropna().unique()})
    where = f"{series.source.path.name} has" if series is not None else "no run has"
    what = f"{kind} {wanted!r}" if wanted not in ("", None) else f"row for {bound.metric}"
    near = closest(str(wanted), known, n=2) if wanted not in ("", None) else []
    shown = near or known[:8]
    hint = f"; there is {', '.join(shown)}" if shown else ""
    why = f"{where} {'no ' if series is not None else 'the '}{what}{hint}"
    if series is None:
        return BoundCheck(bound, BoundOutcome.MISSING, why, axis=bound.axis, group=bound.group)
    return BoundCheck(bound, BoundOutcome.MISSING, why, series.label, series.source.path.name, bound.axis, bound.group)


def _text(value: object) -> str:
    return "" if missing(value) else str(value)


def _rank(check: BoundCheck) -> tuple[int, float]:
    """The worst first: by outcome, then by how far its interval reaches towards the limit."""
    bound = check.bound
    over = []
    if bound.most is not None and check.high is not None:
        over.append(check.high - bound.most)
    if bound.least is not None and check.low is not None:
        over.append(bound.least - check.low)
    return _ORDER.index(check.outcome), -max(over, default=float("inf"))
