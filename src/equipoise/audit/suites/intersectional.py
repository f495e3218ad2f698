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

from equipoise.audit.asking import SOCIALCF_PROMPTS, all_axes, neutral_prompts, pair_among
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import (
    SubjectQueries,
    groups_to_rank,
    placebo_axes,
    pool_name,
    set_structure,
    subject_queries,
    subject_texts,
    subjects_asked,
)
from equipoise.audit.suite import Suite
from equipoise.audit.suites._counterfactual import add_counterfactual
from equipoise.audit.suites._retrieval import add_retrieval
from equipoise.data.labels import without_twins
from equipoise.measure.retrieval import Candidates

__all__ = ["SUITE"]

NAME = "intersectional"


def _axes(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    axes = all_axes(frame, config)
    placebo_axes(frame, config, axes)  # a wrong one is refused before the model is asked
    return axes


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    subjects = subjects_asked(evidence.frame, config, findings)
    axes = all_axes(evidence.frame, config)
    queries = subject_queries(evidence, subjects, config)
    for size in range(1, len(axes) + 1):
        for some in combinations(axes, size):
            _measure_axes(findings, evidence, config, some, subjects, queries)
    _add_gaps(findings, evidence, config, axes, subjects)
    return findings


def _add_gaps(
    findings: Findings, evidence: Evidence, config: AuditConfig, axes: Sequence[str], subjects: list[str]
) -> None:
    pools = pd.Index(subjects).get_indexer(pd.Index(evidence.frame["subject"]))
    rows = np.flatnonzero(pools >= 0)
    how = "embed_mean_unit" if config.prompt_pool == "metric_mean" else config.prompt_pool
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
    pools = pd.Index(subjects).get_indexer(pd.Index(evidence.frame["subject"]))
    pools = np.where(without_twins(evidence.frame), pools, -1)
    inside = pools >= 0
    structure = set_structure(evidence.frame, config, axes, inside)
    groups = groups_to_rank(groups, structure, inside, findings)
    present = int((groups.take(inside).counts() > 0).sum())
    for k in config.k or (max(2, present),):
        add_retrieval(
            findings,
            queries.source,
            groups,
            config,
            k=k,
            axis=" x ".join(axes),
            pool=pool_name(evidence.frame[inside]),
            queries=queries.names,
            tie_order=evidence.tie_order(config.seed),
            candidates=Candidates(image_pool=pools, query_pool=queries.pools),
            structure=structure,
            pair=pair_among(groups, config),
            subjects=queries.one_each,
            clusters=np.array(queries.names),
        )


SUITE = Suite(
    name=NAME,
    question="Whom does the model retrieve for a neutral prompt, by group and by intersection of groups?",
    citation="SocialCounterfactuals (Howard et al., CVPR 2024), section 5",
    columns=("image_id", "subject"),
    texts=subject_texts,
    measure=_measure,
    axes=_axes,
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
