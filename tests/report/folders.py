"""Result folders made of chosen numbers, through the project's own writers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.audit.config import AuditConfig
from equipoise.audit.findings import Findings
from equipoise.audit.folders import AuditOf, audit_folder
from equipoise.measure.stats.estimate import Estimate

Number = tuple[float, float | None, float | None, float]
"""Value, the two ends of its interval, and p."""


def row(
    metric: str,
    number: Number,
    *,
    chance: float = 0.0,
    sd: float | None = None,
    n: int = 28,
    notes: str = "",
    **keys: Any,
) -> dict[str, Any]:
    """One row of a results table; without ``sd`` the null is as wide as the interval says."""
    value, low, high, p = number
    if sd is None and low is not None and high is not None:
        sd = (high - low) / 4
    estimate = Estimate(value, low, high, null_mean=chance, null_sd=sd, p_value=p, n=n, n_groups=2)
    told = estimate.with_notes(notes) if notes else estimate
    return told.row(metric=metric, **{"axis": "gender", "variant": "equipoise", "pool": "rendered"} | keys)


def of_sets(
    *,
    gap: Number = (0.0, -0.05, 0.05, 0.9),
    size: Number = (0.02, 0.0, 0.1, 0.6),
    ranks: Number | None = None,
    placebo: Number | None = None,
    each: Sequence[float] | None = None,
    axis: str = "gender",
    pair: str = "female - male",
    n: int = 28,
) -> list[dict[str, Any]]:
    """What counterfactual sets give on one axis; ``each`` is the gap of every subject."""
    keys = {"axis": axis, "group": pair, "n": n}
    rows = [row("standard_gap", gap, **keys), row("standard_gap_size", size, chance=0.05, sd=0.05, **keys)]
    rows.append(
        row("counterfactual_gap", tuple(v if v is None or i == 3 else v / 50 for i, v in enumerate(gap)), **keys)
    )
    if ranks is not None:
        rows.append(row("outranks", ranks, chance=0.5, **keys))
    if placebo is not None:
        rows.append(row("placebo_excess", placebo, **{**keys, "group": None}))
        rows.append(
            row("standard_gap_size", (0.4, 0.3, 0.5, 0.001), **{**keys, "axis": "placebo_bag", "group": "a - b"})
        )
    values = np.full(n, gap[0]) if each is None else np.asarray(each)
    for number, value in enumerate(values):
        mine = {**keys, "n": 8, "subject": f"s{number}"}
        sure = 0.01 if abs(value) > 0.5 else 0.6
        rows.append(row("standard_gap", (value, value - 0.3, value + 0.3, sure), **mine))
        rows.append(row("standard_gap_size", (abs(value), None, None, sure), sd=0.1, **mine))
        rows.append(row("counterfactual_gap", (value / 50, None, None, sure), sd=0.01, **mine))
    return rows


def folder(
    home: Path,
    rows: list[dict[str, Any]],
    *,
    suite: str = "intersectional",
    model: str = "m",
    settings: AuditConfig | None = None,
    notes: Sequence[str] = (),
    **of: Any,
) -> Path:
    """The folder of an audit with these rows."""
    findings = Findings(suite, model, notes=list(notes))
    findings.rows = [{**one, "suite": suite, "model": one["model"] or model} for one in rows]
    about = AuditOf(suite, {"table": "t", "model": model, **of}, settings or AuditConfig(), ["gender"], {"table": "t"})
    with audit_folder(home, about) as run:
        findings.save(run.stage)
        run.publish()
    return home
