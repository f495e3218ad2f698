"""What counterfactual sets show of a model: score gaps inside sets, their size, and what each axis contributes.

The signed difference of two groups' shares, with its chance level.

Rows about the size of gaps inside counterfactual sets, of axes and of placebo axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import links_of, placebo_axes, strata
from equipoise.errors import InputError
from equipoise.formatting import plural
from equipoise.measure.counterfactual import PairGap, decompose, pair_gaps, size_of_gaps
from equipoise.measure.counterfactual.cells import GapCells, gap_cells
from equipoise.measure.counterfactual.placebo import placebo_excess
from equipoise.measure.counterfactual.sizes import NO_SPREAD, outranks, standard_gap_sizes, standard_gaps
from equipoise.measure.notes import add_notes, note
from equipoise.measure.retrieval import LabelShuffler
from equipoise.measure.stats import Estimate, p_values
from equipoise.measure.stats.group_means import share_difference_interval
from equipoise.pace import stages


def signed_gap(
    values: ArrayLike, first: ArrayLike, config: AuditConfig, *, blocks: ArrayLike, notes: tuple[str, ...] = ()
) -> Estimate:
    """Mean of ``values`` (n,), in [0, 1], where ``first`` (n,) is true, minus the mean where it is not.

    Chance: which values are of the first group is shuffled inside each of ``blocks`` (n,) (an occupation, a scene), so
    that a group with harder blocks is not blamed for them. The interval is a t interval over blocks
    (:func:`equipoise.measure.stats.group_means.share_difference_interval`).

    >>> values, first = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0], [True, True, False, True, True, False]
    >>> signed_gap(values, first, AuditConfig(draws=99), blocks=[0, 0, 0, 1, 1, 1]).value
    1.0
    """
    numbers, side = np.asarray(values, dtype=np.float64), np.asarray(first, dtype=bool)
    if not side.any() or side.all():
        raise InputError("a gap needs values of both groups")
    if numbers.min() < 0 or numbers.max() > 1:
        raise InputError("values: a share is between 0 and 1")
    rng = np.random.default_rng(config.seed)
    shuffled = LabelShuffler(side.astype(np.int32), blocks)(config.draws, rng)
    null = _differences(numbers, shuffled)
    observed = float(_differences(numbers, side[None, :])[0])
    p = p_values(observed, null, alternative="two-sided", rng=rng)
    low, high, why = share_difference_interval(numbers, side, blocks, level=config.level)
    return Estimate(
        observed,
        low,
        high,
        null_mean=float(null.mean()),
        null_sd=float(null.std()),
        p_value=p.value,
        p_randomised=p.randomised,
        n=len(numbers),
        n_groups=2,
        notes=(*notes, *why),
        level=config.level,
    )


def _differences(values: Floats, sides: NDArray[np.integer] | NDArray[np.bool_]) -> Floats:
    """(r,) mean of the first group's ``values`` minus that of the others', for each row of ``sides`` (r, n)."""
    there = np.asarray(sides, dtype=np.float64)
    sums, counts = there @ values, there.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / counts - (values.sum() - sums) / (there.shape[1] - counts))


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
            evidence.levels(name, findings.suite, rows)
            if name in placebos
            else evidence.groups([name], findings.suite, rows),
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
    beside = {name: cells[name] for name in placebos}
    for axis in axes if placebos else ():
        excess = placebo_excess(cells[axis], beside, seed=config.seed, level=config.level)
        if excess is None:
            findings.note(f"{axis}: no excess over placebos, because no subject has two sets with both")
        else:
            findings.add(excess, metric="placebo_excess", axis=axis, pool=pool, variant="equipoise")


def _add_axis(findings: Findings, cells: GapCells, config: AuditConfig, keys: dict[str, str], *, placebo: bool) -> None:
    if not cells.spread.measurable:
        findings.note(f"{keys['axis']}: {NO_SPREAD}")
    measures = (standard_gaps, standard_gap_sizes) if placebo else (standard_gaps, standard_gap_sizes, outranks)
    for measure in measures:
        for by_subject in (False, True):
            for gap in measure(cells, by_subject=by_subject, seed=config.seed, level=config.level):
                shown = replace(gap, estimate=gap.estimate.with_notes(note("placebo_axis"))) if placebo else gap
                findings.add(shown, **keys)
    for pair in cells.pairs():
        values = {}
        if cells.spread.measurable:
            values = _with_sizes("standard_gap", cells.subject_means(pair.gaps) / cells.spread.value)
        if not placebo:
            values["outranks"] = cells.subject_means(pair.wins)
        _add_values(findings, cells, values, group=pair.name, **keys)


def _with_sizes(metric: str, gaps: Floats) -> dict[str, Floats]:
    """Gaps and their sizes, which are the absolute gaps, by metric."""
    return {metric: gaps, f"{metric}_size": np.abs(gaps)}


def _add_values(findings: Findings, cells: GapCells, values: Mapping[str, Floats], **keys: str) -> None:
    """Each subject's values by metric, so that two audits can be compared subject by subject."""
    for metric, numbers in values.items():
        there = np.flatnonzero(~np.isnan(numbers))
        names = [cells.subject_names[subject] for subject in there]
        findings.add_queries(numbers[there], names, metric=metric, **keys)


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
    known = frame["set_id"].notna().to_numpy() if "set_id" in frame else np.zeros(len(rows), dtype=bool)
    if not known.any():
        findings.notes.append("no counterfactual gaps: no image belongs to a counterfactual set")
        return
    if not known.all():
        alone = int((~known).sum())
        findings.note(f"{plural(alone, 'image')} of no counterfactual set left out of gaps inside sets")
        rows, scores = rows[known], scores[known]
    cells = cells_of(findings, evidence, config, axes, rows, scores)
    for axis in stages(axes):
        table = cells[axis]
        keys = {"axis": axis, "pool": pool, "variant": "equipoise"}
        if not table.pairs():
            findings.note(f"{axis}: no gaps, because no two images of a set differ in it alone")
            continue
        together = pair_gaps(table, draws=DRAWS, seed=config.seed, level=config.level)
        apart = pair_gaps(table, by_subject=True, draws=DRAWS, seed=config.seed, level=config.level)
        for gap in [*together, *apart]:
            findings.add(gap, metric="counterfactual_gap", **keys)
            _note_beside(findings.rows[-1], gap)
        for gap in size_of_gaps(table, seed=config.seed):
            findings.add(gap, metric="counterfactual_gap_size", **keys)
        for pair in table.pairs():
            values = _with_sizes("counterfactual_gap", table.subject_means(pair.gaps))
            _add_values(findings, table, values, group=pair.name, **keys)
    add_sizes(findings, config, axes, cells, pool)
    if len(axes) > 1:
        _add_terms(findings, evidence, config, axes, rows, scores, pool)


def _note_beside(row: dict[str, Any], gap: PairGap) -> None:
    """Note in the row of a gap effect size, sets won, and the p-value adjusted for all rows reported together."""
    beside = [note("wins", group=gap.first, share=gap.won_first)]
    if gap.effect_size is not None:
        beside.append(note("effect_size", d_z=gap.effect_size))
    if gap.p_holm is not None:
        beside.append(note("holm", p=gap.p_holm))
    add_notes(row, *beside, first=True)


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
        parts = decompose(
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
    for name, term in parts.terms.items():
        size = term.size.with_notes(note("variance_share", share=term.share))
        findings.add(size, metric="counterfactual_effect", variant="equipoise", axis=name, pool=pool)
