"""One's own prompts over one pool: who is shown for "a criminal", "a genius", "a nurse"?

Each prompt is a query of its own over all images of the table, asked as it stands; nothing is averaged or filled in.
Per prompt and over all of them: who is retrieved, against what shuffled labels give. All prompts share the pool, so
that one image which every prompt retrieves moves them together: the null keeps the rankings and shuffles the labels,
and no interval is narrower than the spread of chance. Of many prompts some look striking by luck: the p-values of
single prompts are corrected over the prompts of each metric (Holm). Where prompts have kinds (traits, crimes, jobs),
the same for each kind, and whose images lie closest to which kind.

Berg et al. (AACL 2022) ask trait prompts over FairFace, with MaxSkew@1000 and NDKL; Radford et al. (ICML 2021, section
7.1) ask whose faces are closest to a crime. The words are yours here, and K is a tenth of the pool, at most 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from equipoise.audit.asking import all_axes, pair_among
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import groups_to_rank, pool_name, set_structure, sets_or_images, shuffled_cells
from equipoise.audit.suite import Suite
from equipoise.audit.suites._retrieval import SHARE, add_retrieval
from equipoise.errors import InputError
from equipoise.formatting import missing
from equipoise.measure.notes import add_notes, no_null, note
from equipoise.measure.retrieval import rank
from equipoise.measure.retrieval.single import advice
from equipoise.measure.stats.group_means import group_means
from equipoise.measure.stats.permutation import holm
from equipoise.pace import portion, stages

NAME = "prompts"
MOST_K = 100
METRICS = ("max_skew", "min_skew", "ndkl", "representation", "skew", "bias_at_k")
SHUFFLES = 999
RANKED = 100
"""How many images of each prompt are written down, for whoever looks at them; more if K is larger."""


def _prompts(config: AuditConfig) -> tuple[str, ...]:
    if not config.prompts:
        raise InputError(
            f"suite {NAME!r} asks your own prompts; give a file with one per line with --prompts FILE, or --prompt TEXT"
        )
    if config.prompt_kinds and len(config.prompt_kinds) != len(config.prompts):
        raise InputError(f"there are {len(config.prompts)} prompts and {len(config.prompt_kinds)} kinds; give one each")
    prompts = tuple(prompt.strip() for prompt in config.prompts)
    for prompt in prompts:
        if not prompt:
            raise InputError(f"suite {NAME!r}: a prompt is empty; leave it out")
        if "{" in prompt or "}" in prompt:
            raise InputError(
                f"the prompt {prompt!r} has a place to fill, and the suite {NAME!r} asks prompts as they stand; write "
                "it out, or take a suite with subjects (intersectional)"
            )
    twice = next((p for p in prompts if prompts.count(p) > 1), None) if len(set(prompts)) < len(prompts) else None
    if twice:
        raise InputError(f"the prompt {twice!r} is given twice; each is a query of its own, so give it once")
    return prompts


def _axes(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    _prompts(config)  # refused before the model is asked
    return all_axes(frame, config)


def chosen_k(n_images: int, n_groups: int) -> int:
    """A tenth of the pool, at most 100 and at least one image for each group.

    >>> chosen_k(50_000, 2), chosen_k(400, 7), chosen_k(30, 7)
    (100, 40, 7)
    """
    return max(2, n_groups, min(MOST_K, n_images // 10))


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    prompts = _prompts(config)
    kinds = tuple(kind.strip() or "other" for kind in config.prompt_kinds)
    parts = {kind: [p for p, of in zip(prompts, kinds, strict=True) if of == kind] for kind in dict.fromkeys(kinds)}
    kinds_apart = list(parts.items()) if len(parts) > 1 else []
    for axis in stages(all_axes(evidence.frame, config)):
        with portion(0.5 if kinds_apart else 1.0):
            _add_skew(findings, evidence, config, axis, axis, prompts, each=True)
        _correct(findings, config, axis)
        with portion(0.4):
            for kind, some in stages(kinds_apart):
                _add_skew(findings, evidence, config, axis, f"{axis} | prompts={kind}", some, each=False)
        if kinds_apart:
            _add_closest(findings, evidence, config, axis, parts)
    _add_ranking(findings, evidence, config, prompts)
    return findings


def _add_skew(
    findings: Findings,
    evidence: Evidence,
    config: AuditConfig,
    axis: str,
    name: str,
    prompts: Sequence[str],
    *,
    each: bool,
) -> None:
    frame = evidence.frame
    groups = evidence.groups([axis], NAME)
    inside = groups.defined
    structure = set_structure(frame, config, [axis], inside)
    groups = groups_to_rank(groups, structure, inside, findings)
    present = int((groups.counts() > 0).sum())
    n_images = int(inside.sum())
    for k in stages(config.k or (chosen_k(n_images, present),)):
        if k >= n_images:
            raise InputError(
                f"K = {k:,}, but only {n_images:,} images have a group on {axis!r}, and all would be retrieved; give a "
                "smaller --k"
            )
        add_retrieval(
            findings,
            evidence.source(prompts),
            groups,
            config,
            k=k,
            axis=name,
            pool=pool_name(frame),
            queries=list(prompts),
            tie_order=evidence.tie_order(config.seed),
            structure=structure,
            metrics=METRICS,
            pair=pair_among(groups, config),
            subjects=each,
            depth=k,
            tell_favoured=each,
        )


def _correct(findings: Findings, config: AuditConfig, axis: str) -> None:
    """Note beside the p-value of each prompt the one corrected over all prompts of its metric, definition and K."""
    families: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in findings.rows:
        # no group of a prompt is tested alone
        if row["axis"] == axis and row["subject"] is not None and row["metric"] != SHARE:
            families.setdefault((row["metric"], row["variant"], row["k"]), []).append(row)
    most = max(map(len, families.values()), default=0)
    if most < 2:
        return
    tested = [rows for rows in families.values() if not any(missing(row["p_value"]) for row in rows)]
    for rows in tested:
        for row, p in zip(rows, holm([float(row["p_value"]) for row in rows]), strict=True):
            facts = {"p": float(p), "tests": len(rows), "draws": config.draws}
            add_notes(row, note("holm_over", unit="prompts", **facts))
    if tested:
        findings.note(f"{axis}: p-values of single prompts are corrected over the prompts of each metric (Holm)")
    if warning := advice(most, config.draws):
        findings.note(f"{axis}: {warning}")


def _add_closest(
    findings: Findings, evidence: Evidence, config: AuditConfig, axis: str, parts: dict[str, list[str]]
) -> None:
    """Whose images lie closest to a prompt of each kind; a tie is shared out."""
    texts = [text for some in parts.values() for text in some]
    kind_of = np.repeat(np.arange(len(parts)), [len(some) for some in parts.values()])
    groups, frame = evidence.groups([axis], NAME), evidence.frame
    worth = np.empty((len(frame), len(parts)))
    for rows, scores in evidence.image_blocks([[text] for text in texts], "embed_mean_unit"):
        best = np.stack([scores[:, kind_of == kind].max(axis=1) for kind in range(len(parts))], axis=1)
        first = best == best.max(axis=1, keepdims=True)
        worth[rows] = first / first.sum(axis=1, keepdims=True)
    inside = np.flatnonzero(groups.defined)
    sets = sets_or_images(frame)
    cells = None if sets is None else shuffled_cells(frame, sets, axis)
    for number, kind in enumerate(parts):
        means = group_means(
            worth[inside, number],
            groups.take(inside),
            clusters=None if sets is None else sets[inside],
            shuffle_within=None if cells is None else cells[inside],
            share=True,
            permutations=min(config.draws, SHUFFLES),
            seed=config.seed,
            level=config.level,
        )
        keys = {"axis": f"{axis} | prompts={kind}", "pool": pool_name(frame), "variant": "equipoise"}
        for group, estimate in means.by_group.items():
            noted = estimate.with_notes(no_null("it depends on the prompts; see the gap"))
            findings.add(noted, metric="closest_kind", group=group, **keys)
        findings.add(means.gap, metric="closest_kind_gap", **keys)


def _add_ranking(findings: Findings, evidence: Evidence, config: AuditConfig, prompts: Sequence[str]) -> None:
    deepest = max([RANKED, *(row["k"] or 0 for row in findings.rows)])
    ranking = rank(evidence.source(prompts), min(deepest, len(evidence.frame)), order=evidence.tie_order(config.seed))
    findings.add_ranking(ranking, list(prompts), evidence.frame["image_id"].astype(str).tolist())


SUITE = Suite(
    name=NAME,
    question="Who is shown for each of your own prompts, over all images of the table?",
    citation="Berg et al. (AACL 2022); CLIP (Radford et al., ICML 2021), section 7.1",
    columns=("image_id",),
    texts=lambda frame, config: _prompts(config),
    measure=_measure,
    axes=_axes,
    own_k="a tenth of the pool, at most 100 and at least one image for each group",
    settings=("axes", "k", "variants", "prompts", "prompt_kinds", "pair", "link", "draws", "seed", "level"),
    fills_prompts=False,
    advice=lambda config: advice(len(config.prompts), config.draws),
)
