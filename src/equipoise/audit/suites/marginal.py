"""SocialCounterfactuals, marginal: whom does a model retrieve on one axis, when another is held fixed?

As in ``intersectional``, but the pool of a query holds the subject's images of one group of the other axis alone: the
skew of perceived gender among the images perceived as Black, and so on, for every ordered pair of axes. The paper does
not say its K; here it is 12. A subject with no more than K such images is left out, because all of them would be
retrieved; where no subject has more, K is half the largest pool. K is in every row.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.asking import pair_among, several_axes
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import (
    groups_to_rank,
    set_structure,
    subject_queries,
    subject_texts,
    subjects_asked,
)
from equipoise.audit.suite import Suite
from equipoise.audit.suites._retrieval import add_subjects
from equipoise.pace import stages

NAME = "marginal"
K = 12


def chosen_k(sizes: NDArray[np.int64]) -> int:
    """12, or half of the largest pool if no pool has more than 12 images.

    >>> chosen_k(np.array([4, 40])), chosen_k(np.array([10, 8]))
    (12, 5)
    """
    largest = int(sizes.max(initial=0))
    return K if largest > K else max(1, largest // 2)


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    axes = several_axes(evidence.frame, config)
    subjects = subjects_asked(evidence.frame, config, findings)
    for axis, given in stages(list(permutations(axes, 2))):
        for held in stages(evidence.groups([given], NAME).names):
            _measure_given(findings, evidence, config, axis, given, held, subjects)
    return findings


def _measure_given(
    findings: Findings,
    evidence: Evidence,
    config: AuditConfig,
    axis: str,
    given: str,
    held: str,
    subjects: list[str],
) -> None:
    groups, others = evidence.groups([axis], NAME), evidence.groups([given], NAME)
    name = f"{axis} | {given}={held}"
    usable = groups.defined & (others.labels == others.index(held))
    subject = pd.Index(subjects).get_indexer(pd.Index(evidence.frame["subject"]))
    sizes = np.bincount(subject[usable & (subject >= 0)], minlength=len(subjects))
    for k in stages(config.k or (chosen_k(sizes),)):
        asked = [s for s, size in zip(subjects, sizes, strict=True) if size > k]
        if not asked:
            findings.note(f"{name}: left out, no subject has more than K = {k} such images")
            continue
        if len(asked) < len(subjects):
            findings.note(f"{name}: {len(subjects) - len(asked)} subjects left out with at most K = {k} such images")
        pools = np.where(usable, pd.Index(asked).get_indexer(pd.Index(evidence.frame["subject"])), -1)
        inside = pools >= 0
        if len(np.unique(groups.labels[inside])) < 2:
            findings.note(f"{name}: left out, all such images are of one group")
            continue
        queries = subject_queries(evidence, asked, config)
        structure = set_structure(evidence.frame, config, [axis], inside)
        add_subjects(
            findings,
            evidence,
            queries,
            groups_to_rank(groups, structure, inside, findings),
            config,
            k=k,
            axis=name,
            pools=pools,
            structure=structure,
            pair=pair_among(groups, config),
        )


SUITE = Suite(
    name=NAME,
    question="Whom does the model retrieve on one axis, among the images of one group of another axis?",
    citation="SocialCounterfactuals (Howard et al., CVPR 2024), Figure 4",
    columns=("image_id", "subject"),
    texts=subject_texts,
    measure=_measure,
    axes=several_axes,
    own_k="12, or half of the largest pool where no pool has more than 12 images",
    pool_of="subject",
    settings=("axes", "k", "variants", "prompts", "prompt_pool", "min_sets", "pair", "link", "draws", "seed", "level"),
)
