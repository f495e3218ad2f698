"""What counterfactual sets show of a model: score gaps inside sets, their size, and what each axis contributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.gap_rows import add_sizes, cells_of
from equipoise.audit.strata import strata
from equipoise.audit.subjects import links_of
from equipoise.errors import InputError
from equipoise.measure.counterfactual import GapCells, PairGap, decompose, pair_gaps, size_of_gaps

__all__ = ["add_counterfactual"]

DRAWS = 9999


def add_counterfactual(
    findings: Findings,
    evidence: Evidence,
    config: AuditConfig,
    axes: Sequence[str],
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    pool: str,
) -> None:
    """Add gaps on every axis and the decomposition over all axes; a table without sets is noted and left alone.

    ``scores`` (len(rows),) is each image's score for its own subject's query.
    """
    frame = evidence.frame.iloc[rows]
    if "set_id" not in frame or not frame["set_id"].notna().all():
        findings.notes.append("no counterfactual gaps: not every image belongs to a counterfactual set")
        return
    cells = cells_of(findings, evidence, config, axes, rows, scores)
    for axis in axes:
        table = cells[axis]
        keys = {"axis": axis, "pool": pool, "variant": "equipoise"}
        if not table.pairs():
            findings.note(f"{axis}: no gaps, because no two images of a set differ in it alone")
            continue
        together = pair_gaps(table, draws=DRAWS, seed=config.seed, level=config.level)
        for gap in [*together, *pair_gaps(table, by_subject=True, draws=DRAWS, level=config.level)]:
            findings.add(_Noted(gap), metric="counterfactual_gap", **keys)
        for gap in size_of_gaps(table, seed=config.seed):
            findings.add(gap, metric="counterfactual_gap_size", **keys)
        _add_query_values(findings, table, keys)
    add_sizes(findings, config, axes, cells, pool)
    if len(axes) > 1:
        _add_terms(findings, evidence, config, axes, rows, scores, pool)


class _Noted:
    """A gap whose notes also say effect size, sets won, and the p-value adjusted for all rows reported together."""

    def __init__(self, gap: PairGap) -> None:
        self.gap = gap

    def row(self, **keys: object) -> dict[str, object]:
        """One row of a results table."""
        gap = self.gap
        row = gap.row(**keys)
        told = [f"{gap.first} wins {gap.won_first:.0%} of sets"]
        if gap.effect_size is not None:
            told.append(f"d_z {gap.effect_size:.2f}")
        if gap.p_holm is not None:
            told.append(f"Holm p {gap.p_holm:.3g}")
        row["notes"] = "; ".join([*told, *([row["notes"]] if row["notes"] else [])])
        return row


def _add_query_values(findings: Findings, cells: GapCells, keys: dict[str, str]) -> None:
    """Each subject's gap of each pair and its size, so that two audits can be compared subject by subject."""
    for pair in cells.pairs():
        gaps = cells.subject_means(pair.gaps)
        there = np.flatnonzero(~np.isnan(gaps))
        names = [cells.subject_names[subject] for subject in there]
        own = {"group": pair.name, **keys}
        findings.add_queries(gaps[there], names, metric="counterfactual_gap", **own)
        findings.add_queries(np.abs(gaps[there]), names, metric="counterfactual_gap_size", **own)


def _add_terms(
    findings: Findings,
    evidence: Evidence,
    config: AuditConfig,
    axes: Sequence[str],
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    pool: str,
) -> None:
    frame = evidence.frame.iloc[rows]
    sets = np.asarray(frame.groupby(["subject", "set_id"], sort=False).ngroup())
    groups = [evidence.groups([axis], findings.suite, rows) for axis in axes]
    try:
        found = decompose(
            scores,
            sets,
            groups,
            subjects=frame["subject"].to_numpy(),
            seed=config.seed,
            level=config.level,
            strata=strata(frame, [*evidence.frame.attrs.get("axes", ()), *config.placebos], axes),
            links=links_of(frame, config),
        )
    except InputError as error:  # no set with every combination leaves the gaps standing
        findings.notes.append(f"no decomposition: {error}")
        return
    for name, term in found.terms.items():
        size = term.size.with_notes(f"{term.share:.0%} of the variance between combinations")
        findings.rows.append(
            size.row(
                metric="counterfactual_effect",
                variant="equipoise",
                suite=findings.suite,
                model=findings.model,
                axis=name,
                pool=pool,
            )
        )
