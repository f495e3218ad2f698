"""Does retrieval work equally well for everyone? Recall of an image by its own captions, by group.

Every caption asks for its image among all images of the table, those without a label included; recall@K is the share
of captions that find it among the first K, averaged over the captions whose image is of the group. The gap is highest
minus lowest, set beside the gap that shuffled labels give: with small groups some gap is always there. Captions of one
image are not independent, nor are images of one set (a person, a scene): intervals are over sets, and labels move
inside sets that show several groups, or as those of whole sets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from equipoise.audit.asking import one_axis
from equipoise.audit.captions import captions_of, distinct, known_captions
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import names_of_sets, pool_name, sets_or_images, shuffled_cells
from equipoise.audit.suite import Suite
from equipoise.measure.retrieval import recall_at_k, recall_by_group, scan
from equipoise.pace import stages

NAME = "recall-gap"
KS = (1, 5, 10)


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    return distinct(captions_of(frame["image_id"].tolist(), known_captions(frame), NAME).texts)


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    frame = evidence.frame
    axis = one_axis(frame, config)[0]
    captions = captions_of(frame["image_id"].tolist(), known_captions(frame), NAME)
    groups = evidence.groups([axis], NAME).take(captions.image)
    sets = sets_or_images(frame)
    cells = None if sets is None else shuffled_cells(frame, sets, axis)
    order = evidence.tie_order(config.seed)
    ranks = scan(evidence.source(captions.texts), [], targets=captions.image, order=order).ranks
    assert ranks is not None
    keys = {"axis": axis, "pool": pool_name(frame), "variant": "equipoise"}
    names = np.array([*groups.names, ""], dtype=object)[groups.labels]
    for k in stages(config.k or KS):
        recalls = recall_by_group(
            ranks,
            groups,
            k,
            clusters=captions.image,
            sources=None if sets is None else sets[captions.image],
            shuffle_within=None if cells is None else cells[captions.image],
            draws=config.draws,
            seed=config.seed,
            level=config.level,
        )
        for group, estimate in recalls.by_group.items():
            findings.add(estimate, metric="recall_at_k", group=group, k=k, **keys)
        findings.add(recalls.gap, metric="recall_gap", k=k, **keys)
        at = np.flatnonzero(groups.defined)
        findings.add_queries(
            recall_at_k(ranks, k)[at],
            [captions.names[i] for i in at],
            metric="recall_at_k",
            k=k,
            group=names[at],
            cluster=names_of_sets(frame)[captions.image[at]],
            **keys,
        )
    empty = [name for name, count in zip(groups.names, groups.counts(), strict=True) if count == 0]
    if empty:
        findings.note(f"no caption of an image of {', '.join(empty)}")
    return findings


SUITE = Suite(
    name=NAME,
    question="Are the images of every group found equally well by their own captions?",
    citation="PHASE (Garcia et al., CVPR 2023); Would deep generative models amplify bias in future models?",
    columns=("image_id",),
    texts=_texts,
    measure=_measure,
    axes=one_axis,
    reads=("captions",),
    own_k="as recall is usually told",
    settings=("axes", "k", "draws", "seed", "level"),
)
