"""SocialCounterfactuals: whom does a model retrieve for a neutral prompt, on one axis and on their intersection?

For each subject the neutral prompts rank the images of that subject. Groups are those of one axis or of several axes
together; K is the number of groups. Labels are shuffled inside counterfactual sets to see what chance gives. The sets
also give what no ranking does: the score gap between two groups inside a set, and what each axis adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.asking import SOCIALCF_PROMPTS, all_axes, neutral_prompts, pair_among
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import (
    SubjectQueries,
    groups_to_rank,
    joined_prompts,
    placebo_axes,
    pool_name,
    set_structure,
    subject_queries,
    subject_texts,
    subjects_asked,
)
from equipoise.audit.suite import Suite
from equipoise.audit.suites._counterfactual import add_counterfactual
from equipoise.audit.suites._retrieval import add_subjects
from equipoise.data.labels import without_twins
from equipoise.measure.retrieval import Candidates, rank
from equipoise.pace import stages

NAME = "intersectional"
DEPTH = 1000
"""How many ranks of a subject are written down; more if K is larger."""


def _axes(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    axes = all_axes(frame, config)
    placebo_axes(frame, config, axes)  # a wrong one is refused before the model is asked
    return axes


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    subjects = subjects_asked(evidence.frame, config, findings)
    axes = all_axes(evidence.frame, config)
    queries = subject_queries(evidence, subjects, config)
    together = [some for size in range(1, len(axes) + 1) for some in combinations(axes, size)]
    for some in stages([*together, None]):
        if some is not None:
            _measure_axes(findings, evidence, config, some, subjects, queries)
        else:
            _add_gaps(findings, evidence, config, axes, subjects)
            _add_ranking(findings, evidence, config, subjects)
    return findings


def _pools(evidence: Evidence, config: AuditConfig, subjects: list[str]) -> NDArray[np.int64]:
    """(N,) the number of each image's subject; -1 for other subjects, and for twins of another image."""
    pools = pd.Index(subjects).get_indexer(pd.Index(evidence.frame["subject"]))
    return np.where(without_twins(evidence.frame, config.placebos), pools, -1)


def _add_ranking(findings: Findings, evidence: Evidence, config: AuditConfig, subjects: list[str]) -> None:
    """The ranking that the numbers count, ties in the same order; several prompts are joined as for the gaps.

    A subject whose images all have one score is ranked by nobody, and has no rows here as it has none in the results.
    """
    queries = subject_queries(evidence, subjects, config.having({"prompt_pool": joined_prompts(config)}))
    pools = _pools(evidence, config, subjects)
    sizes = np.bincount(pools[pools >= 0], minlength=len(subjects))
    ranking = rank(
        queries.source,
        min(int(sizes.max()), max(DEPTH, *config.k, 0)),
        mask=pools >= 0,
        candidates=Candidates(image_pool=pools, query_pool=queries.pools),
        order=evidence.tie_order(config.seed),
    )
    equal = ranking.all_equal(sizes[queries.pools])
    if equal.any():
        some = "subject has" if equal.sum() == 1 else "subjects have"
        findings.note(f"{equal.sum()} {some} no ranking: the model gives all their images the same score")
    ids = evidence.frame["image_id"].astype(str).tolist()
    findings.add_ranking(ranking.some(~equal), np.array(queries.names)[~equal].tolist(), ids)


def _add_gaps(
    findings: Findings, evidence: Evidence, config: AuditConfig, axes: Sequence[str], subjects: list[str]
) -> None:
    pools = pd.Index(subjects).get_indexer(pd.Index(evidence.frame["subject"]))
    rows = np.flatnonzero(pools >= 0)
    how = joined_prompts(config)
    prompts = neutral_prompts(subjects, config.prompts or SOCIALCF_PROMPTS)
    scores = evidence.own_scores(prompts, how, rows, pools[rows])
    add_counterfactual(findings, evidence, config, axes, rows, scores, pool_name(evidence.frame.iloc[rows]))


def _measure_axes(
    findings: Findings,
    evidence: Evidence,
    config: AuditConfig,
    axes: Sequence[str],
    subjects: list[str],
    queries: SubjectQueries,
) -> None:
    groups = evidence.groups(axes, NAME)
    pools = _pools(evidence, config, subjects)
    inside = pools >= 0
    structure = set_structure(evidence.frame, config, axes, inside)
    groups = groups_to_rank(groups, structure, inside, findings)
    present = int((groups.take(inside).counts() > 0).sum())
    for k in stages(config.k or (max(2, present),)):
        add_subjects(
            findings,
            evidence,
            queries,
            groups,
            config,
            k=k,
            axis=" x ".join(axes),
            pools=pools,
            structure=structure,
            pair=pair_among(groups, config),
        )


SUITE = Suite(
    name=NAME,
    question="Whom does the model retrieve for a neutral prompt, by group and by intersection of groups?",
    citation="SocialCounterfactuals (Howard et al., CVPR 2024), section 5",
    columns=("image_id", "subject"),
    texts=subject_texts,
    measure=_measure,
    axes=_axes,
    own_k="the number of groups on each axis, as in SocialCounterfactuals",
    pool_of="subject",
    settings=(
        "axes",
        "k",
        "variants",
        "prompts",
        "prompt_pool",
        "min_sets",
        "pair",
        "link",
        "draws",
        "seed",
        "level",
        "placebos",
        "margin",
    ),
)
