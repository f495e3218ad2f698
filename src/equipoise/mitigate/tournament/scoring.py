"""From judged numbers to the rows of the table: what changed, with its interval; and who looks good only where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from equipoise.measure.stats.bootstrap import mean_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.mitigate.tournament.judging import JudgedRepair
from equipoise.report.verdict.outcomes import TRUE_SIZES

Key = tuple[str, str, str]


@dataclass(frozen=True)
class TournamentCell:
    """One number of a row: the value less :func:`chance_off`, its interval, and how far it is from the model's own."""

    value: float
    low: float | None = None
    high: float | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    null_mean: float | None = None
    p_value: float | None = None
    n: int = 0

    @property
    def is_lower(self) -> bool:
        """Whether it is lower than that of the model as it is, with an interval that excludes no change."""
        return self.change_high is not None and self.change_high < 0


@dataclass(frozen=True)
class TournamentRow:
    """One contender: the strength that was chosen for it, and its cells by metric, pool and axis."""

    name: str
    strength: Mapping[str, Any]
    cells: Mapping[Key, TournamentCell]
    tried: int = 1
    kind: str = "remedy"
    """``model`` (as it is), ``remedy``, ``ranking``, ``data`` or ``checkpoint``."""
    seen: tuple[str, ...] = ()
    """The subjects of the table that it was fitted on: it looks better than it is."""
    unknown: bool = False
    """Whether nobody says what it was fitted on."""
    notes: tuple[str, ...] = ()

    @property
    def is_fair(self) -> bool:
        """Whether it is judged on subjects that it has not seen, for all that is known."""
        return not self.seen and not self.unknown

    def cell(self, metric: str, pool: str, axis: str = "") -> TournamentCell | None:
        """One of its numbers."""
        return self.cells.get((metric, pool, axis))

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        cells = [{"metric": m, "pool": p, "axis": a, **asdict(cell)} for (m, p, a), cell in self.cells.items()]
        own = {"name": self.name, "strength": dict(self.strength), "tried": self.tried, "kind": self.kind}
        return own | {"seen": list(self.seen), "unknown": self.unknown, "notes": list(self.notes), "cells": cells}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> TournamentRow:
        """The reverse."""
        cells = {}
        for plain in data["cells"]:
            cell = dict(plain)
            key = (cell.pop("metric"), cell.pop("pool"), cell.pop("axis"))
            cells[key] = TournamentCell(**cell)
        return cls(**{**data, "cells": cells, "seen": tuple(data["seen"]), "notes": tuple(data["notes"])})


def cells_of(now: JudgedRepair, before: JudgedRepair, level: float) -> dict[Key, TournamentCell]:
    """The cells of a repair, with the change from the model ``before`` paired by subject or image."""
    cells = {}
    for key, estimate in now.estimates.items():
        change = low = high = None
        if now is not before and key in before.values:
            change, low, high = _change(now.values[key], before.values[key], level)
        cells[key] = _cell(key[0], estimate, change, low, high)
    return cells


def chance_off(metric: str, null_mean: float | None) -> float:
    """What is taken off a value and its interval in the table; nothing of a size that is free of chance already.

    >>> chance_off("max_skew", 0.2), chance_off("standard_gap_size", 0.2), chance_off("zero_shot_accuracy", None)
    (0.2, 0.0, 0.0)
    """
    return 0.0 if null_mean is None or metric in TRUE_SIZES else float(null_mean)


def _cell(
    metric: str, estimate: Estimate, change: float | None, low: float | None, high: float | None
) -> TournamentCell:
    off = chance_off(metric, estimate.null_mean)
    ends = [None if end is None else float(end - off) for end in (estimate.ci_low, estimate.ci_high)]
    p = None if estimate.p_value is None else float(estimate.p_value)
    null = None if estimate.null_mean is None else float(estimate.null_mean)
    return TournamentCell(float(estimate.value - off), ends[0], ends[1], change, low, high, null, p, int(estimate.n))


def _change(
    now: Mapping[str, float], before: Mapping[str, float], level: float
) -> tuple[float | None, float | None, float | None]:
    """The mean change of what both have, and its interval. Chance is the same for both, and falls out."""
    shared = sorted(set(now) & set(before))
    if not shared:
        return None, None, None
    changes = np.array([now[name] - before[name] for name in shared])
    low, high = mean_interval(changes, level=level) or (None, None)
    return float(changes.mean()), low, high


def front(rows: Sequence[TournamentRow], axis: str) -> list[str]:
    """The names on the Pareto front: no other is both less skewed on the sets and more accurate.

    Rows that were fitted on subjects they are judged on do not count.
    """
    points = {}
    for row in rows:
        skew, useful = row.cell("max_skew", "sets", axis), row.cell("zero_shot_accuracy", "utility")
        if skew is not None and useful is not None and row.is_fair:
            points[row.name] = (skew.value, -useful.value)
    return [
        name
        for name, own in points.items()
        if not any(other != own and other[0] <= own[0] and other[1] <= own[1] for other in points.values())
    ]


def best_training_free(rows: Sequence[TournamentRow], axis: str, most_loss: float) -> str | None:
    """The fitted map of vectors with the least skew on the sets among those that cost no more than ``most_loss``.

    It must repair: its skew is lower than the model's, with an interval that excludes no change.
    """
    able = []
    for row in rows:
        skew, useful = row.cell("max_skew", "sets", axis), row.cell("zero_shot_accuracy", "utility")
        cheap = useful is None or useful.change is None or useful.change >= -most_loss
        if row.kind == "remedy" and row.is_fair and skew is not None and skew.is_lower and cheap:
            able.append((skew.value, row.name))
    return min(able)[1] if able else None


@dataclass(frozen=True)
class TournamentFinding:
    """What the table says, in sentences."""

    sentences: tuple[str, ...]
    only_natural: tuple[str, ...] = field(default=())
    """Remedies that look good on the natural pool alone."""


def finding(rows: Sequence[TournamentRow], axis: str, k: int, most_loss: float) -> TournamentFinding:
    """The sentences of a tournament; see :mod:`equipoise.mitigate.tournament`."""
    others = [row for row in rows if row.kind != "model"]
    fair = [row for row in others if row.is_fair]
    base = next(row for row in rows if row.kind == "model")
    skew = base.cell("max_skew", "sets", axis)
    said = []
    if skew is not None:
        unless = "" if len(fair) == len(others) else ", unless marked"
        said.append(
            f"As it is, the model's MaxSkew@{k} on {axis} lies {skew.value:+.2f} above chance on counterfactual sets "
            f"of {skew.n} subjects that no remedy has seen{unless}."
        )
    lower = [row for row in fair if _lower(row, "sets", axis)]
    said.append(_who("lower it there, with an interval that excludes no change", lower, fair))
    natural = [row for row in fair if row.cell("max_skew", "natural", axis) is not None]
    only: list[TournamentRow] = []
    if natural:
        only = [row for row in natural if _lower(row, "natural", axis) and not _lower(row, "sets", axis)]
        if only:
            said.append(
                f"Look good on the natural pool alone, where who is in the pictures goes with what they do: "
                f"{_names(only)}. On the sets their change may be none."
            )
        else:
            said.append("None of them looks good on the natural pool alone.")
        worse = [row for row in natural if _lower(row, "sets", axis) and _higher(row, "natural", axis)]
        if worse:
            said.append(
                f"Look worse on the natural pool, though they repair on the sets: {_names(worse)}. A skew is measured "
                "against the pool's own shares, and a model that leans as its pool does shows none there."
            )
        better = [row for row in natural if _lower(row, "sets", axis) and not _lower(row, "natural", axis)]
        neither = [row for row in better if row not in worse]
        if neither:
            said.append(f"The natural pool does not show what the sets do of {_names(neither)}.")
    said += _cost(fair, most_loss)
    said += _spill(fair, axis)
    marked = [row for row in others if row.seen]
    if marked:
        said.append(f"Fitted on subjects that are shown here, and better than they are on others: {_names(marked)}.")
    unknown = [row for row in others if row.unknown]
    if unknown:
        said.append(f"What they were fitted on is not known: {_names(unknown)}.")
    best = best_training_free(rows, axis, most_loss)
    if best:
        said.append(
            f"Of those that need no training of the model and cost at most {100 * most_loss:g} points of accuracy, "
            f"{best} leaves the least skew."
        )
    else:
        said.append("No remedy without training lowers the skew within that cost.")
    return TournamentFinding(tuple(said), tuple(row.name for row in only))


def _lower(row: TournamentRow, pool: str, axis: str) -> bool:
    cell = row.cell("max_skew", pool, axis)
    return cell is not None and cell.is_lower


def _higher(row: TournamentRow, pool: str, axis: str) -> bool:
    cell = row.cell("max_skew", pool, axis)
    return cell is not None and cell.change_low is not None and cell.change_low > 0


def _cost(fair: Sequence[TournamentRow], most_loss: float) -> list[str]:
    costly = []
    for row in fair:
        cell = row.cell("zero_shot_accuracy", "utility")
        if cell is not None and cell.change is not None and cell.change < -most_loss:
            costly.append(row)
    return [f"Cost more than {100 * most_loss:g} points of zero-shot accuracy: {_names(costly)}."] if costly else []


def _spill(fair: Sequence[TournamentRow], axis: str) -> list[str]:
    """Who moves an axis that nobody meant to repair."""
    said = []
    axes = sorted({a for row in fair for (metric, pool, a) in row.cells if metric == "max_skew" and pool == "sets"})
    for other in (name for name in axes if name != axis):
        for how, is_it in (("rises with", _higher), ("falls along with", _lower)):
            some = [row for row in fair if is_it(row, "sets", other)]
            if some:
                said.append(f"The skew on {other} {how} {_names(some)}.")
    return said


def _who(what: str, some: Sequence[TournamentRow], of: Sequence[TournamentRow]) -> str:
    return f"{len(some)} of {len(of)} {what}: {_names(some)}." if some else f"None of {len(of)} {what}."


def _names(rows: Sequence[TournamentRow]) -> str:
    return ", ".join(row.name for row in rows)
