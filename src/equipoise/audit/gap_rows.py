"""Rows about the size of gaps inside counterfactual sets, of axes and of placebo axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.placebos import placebo_axes
from equipoise.audit.strata import strata
from equipoise.audit.subjects import links_of
from equipoise.measure.gap_cells import GapCells, gap_cells
from equipoise.measure.gap_sizes import NO_SPREAD, outranks, standard_gap_sizes, standard_gaps
from equipoise.measure.placebo import placebo_excess

__all__ = ["add_sizes", "cells_of"]


def cells_of(
    findings: Findings,
    evidence: Evidence,
    config: AuditConfig,
    axes: Sequence[str],
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> dict[str, GapCells]:
    """The scores laid out by twins, for every axis and every placebo axis, everything else that varies held fixed."""
    frame = evidence.frame.iloc[rows]
    placebos = placebo_axes(frame, config, axes)
    # what the table names as an axis is held fixed even where it is not asked about
    known = [name for name in evidence.frame.attrs.get("axes", ()) if name in frame]
    held = list(dict.fromkeys([*axes, *known, *placebos]))
    # sets may be numbered anew in each subject
    sets = np.asarray(frame.groupby(["subject", "set_id"], sort=False).ngroup())
    subjects, links = frame["subject"].to_numpy(), links_of(frame, config)
    return {
        name: gap_cells(
            scores,
            sets,
            evidence.groups([name], findings.suite, rows),
            subjects,
            strata=strata(frame, held, [name]),
            links=links,
        )
        for name in (*axes, *placebos)
    }


def add_sizes(
    findings: Findings, config: AuditConfig, axes: Sequence[str], cells: Mapping[str, GapCells], pool: str
) -> None:
    """Standard gap, its size, outranking and the excess over placebos, on every axis; see ``docs/audit.md``.

    Placebo axes, those of ``cells`` that are not among ``axes``, get the first two.
    """
    placebos = [name for name in cells if name not in axes]
    for name in cells:
        keys = {"axis": name, "pool": pool, "variant": "equipoise"}
        _add_axis(findings, cells[name], config, keys, placebo=name in placebos)
    if placebos:
        _add_excess(findings, cells, axes, placebos, config, pool)


def _add_axis(findings: Findings, cells: GapCells, config: AuditConfig, keys: dict[str, str], *, placebo: bool) -> None:
    if not cells.spread.measurable:
        findings.note(f"{keys['axis']}: {NO_SPREAD}")
    measures = (standard_gaps, standard_gap_sizes) if placebo else (standard_gaps, standard_gap_sizes, outranks)
    for measure in measures:
        for by_subject in (False, True):
            for gap in measure(cells, by_subject=by_subject, seed=config.seed, level=config.level):
                told = "placebo axis" if placebo else ""
                findings.rows.append(
                    gap.estimate.with_notes(told).row(
                        metric=gap.metric,
                        subject=gap.subject,
                        group=f"{gap.first} - {gap.second}",
                        suite=findings.suite,
                        model=findings.model,
                        **keys,
                    )
                )
    _add_queries(findings, cells, keys, placebo=placebo)


def _add_queries(findings: Findings, cells: GapCells, keys: dict[str, str], *, placebo: bool) -> None:
    """Each subject's values, so that two audits can be compared subject by subject; a size is an absolute gap."""
    for pair in cells.pairs():
        values = {}
        if cells.spread.measurable:
            gaps = cells.subject_means(pair.gaps) / cells.spread.value
            values = {"standard_gap": gaps, "standard_gap_size": np.abs(gaps)}
        if not placebo:
            values["outranks"] = cells.subject_means(pair.wins)
        for metric, found in values.items():
            there = np.flatnonzero(~np.isnan(found))
            names = [cells.subject_names[i] for i in there]
            findings.add_queries(found[there], names, metric=metric, group=pair.name, **keys)


def _add_excess(
    findings: Findings,
    cells: Mapping[str, GapCells],
    axes: Sequence[str],
    placebos: Sequence[str],
    config: AuditConfig,
    pool: str,
) -> None:
    beside = {name: cells[name] for name in placebos}
    for axis in axes:
        excess = placebo_excess(cells[axis], beside, seed=config.seed, level=config.level)
        if excess is None:
            findings.note(f"{axis}: no excess over placebos, because no subject has two sets with both")
            continue
        findings.add(excess, metric="placebo_excess", axis=axis, pool=pool, variant="equipoise")
