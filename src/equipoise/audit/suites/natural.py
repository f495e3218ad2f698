"""GenSynth, Table 1: every caption of a pool of images, made neutral, asks for the images of that pool.

Bias@K leaves images without a group in their slots; MaxSkew@K ranks only those that have one, against their shares in
the pool; recall says whether a caption finds its own image. The pool as it is (``natural``), and with all groups as
frequent as the rarest (``balanced``, over seeds), undefined images keeping their share. Labels come from a column, or
from captions (``equipoise table label``). For chance the labels are dealt anew among the images that have one: inside
sets that show several groups, or as those of whole sets.

The scores are read once, in blocks: 25,000 captions over 5,000 images cost little more than the matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.asking import one_axis, pair_of
from equipoise.audit.captions import Captions, captions_of, distinct, known_captions
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings, Key
from equipoise.audit.subjects import sets_or_images, shuffled_cells
from equipoise.audit.suite import Suite
from equipoise.audit.suites._caption_pool import BIAS_K, SKEW_K, RankedCaptions, add_holm, add_pool, ranked_captions
from equipoise.audit.suites._retrieval import CHANCE, RANKING
from equipoise.data.sampling import balance
from equipoise.errors import InputError
from equipoise.measure.notes import of_sources
from equipoise.measure.retrieval import Candidates, Groups
from equipoise.measure.stats.shares import share_estimate
from equipoise.pace import portion, steps
from equipoise.text import Lexicon

NAME = "natural"
RECALL_K = (1, 5, 10)
VARIANT = "equipoise"


def _queries(frame: pd.DataFrame, config: AuditConfig) -> Captions:
    """Every caption of every image, made neutral."""
    known = known_captions(frame)
    if config.lexicon != "none":
        words = Lexicon.load(config.lexicon)
        known = [distinct(words.neutralise_all(some)) for some in known]
    return captions_of(frame["image_id"].tolist(), known, NAME)


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    return distinct(_queries(frame, config).texts)


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    frame = evidence.frame
    axis = one_axis(frame, config)[0]
    groups = evidence.groups([axis], NAME)
    pair = pair_of(groups, config)
    if pair is None:
        findings.note(f"no Bias@K: {axis} has {groups.n_groups} groups; name two with pair")
    if config.lexicon != "none" and Lexicon.load(config.lexicon).axis != axis:
        findings.note(f"the captions were made neutral on {Lexicon.load(config.lexicon).axis}, not on {axis}")
    captions = _queries(frame, config)
    counts = ", ".join(f"{n:,} {name}" for name, n in zip(groups.names, groups.counts(), strict=True))
    findings.note(f"{len(captions):,} captions over {len(frame):,} images: {counts}, {groups.n_undefined:,} undefined")
    with portion(RANKING):
        natural = _ranked(evidence, captions, groups, config, pair, np.arange(len(frame)))
    with portion(0.5 - RANKING if config.seeds else CHANCE):
        add_pool(findings, evidence.model, "natural", [natural], config, axis=axis, variant=VARIANT, pair=pair)
    if config.seeds:
        chosen = [balance(frame, axis, method="gensynth", seed=seed).positions for seed in config.seeds]
        with portion(RANKING):
            pools = [_ranked(evidence, captions, groups, config, pair, np.sort(some)) for some in steps(chosen)]
        add_pool(findings, evidence.model, "balanced", pools, config, axis=axis, variant=VARIANT, pair=pair)
    add_holm(findings.rows)
    _add_recall(findings, natural, len(frame), axis, config)
    return findings


def _ranked(
    evidence: Evidence,
    captions: Captions,
    groups: Groups,
    config: AuditConfig,
    pair: tuple[str, str] | None,
    images: NDArray[Any],
) -> RankedCaptions:
    """The captions of these images, each over these images."""
    n = len(evidence.frame)
    inside = np.zeros(n, dtype=bool)
    inside[images] = True
    at = captions.of_images(inside)
    if not len(at):
        raise InputError(f"suite {NAME!r}: the images of a pool have no caption")
    whole, sets = len(images) == n, sets_or_images(evidence.frame)
    pools = Candidates() if whole else Candidates(np.where(inside, 0, -1), np.zeros(len(at), dtype=np.int64))
    return ranked_captions(
        evidence.source([captions.texts[i] for i in at]),
        np.where(inside, np.arange(n), -1),
        captions.image[at],
        groups.labels,
        pools,
        n_groups=groups.n_groups,
        pair=None if pair is None else (groups.index(pair[0]), groups.index(pair[1])),
        bias_k=config.k or BIAS_K,
        skew_k=config.k or SKEW_K,
        order=evidence.tie_order(config.seed),
        deepest=max(RECALL_K),
        names=[captions.names[i] for i in at],
        images=evidence.frame["image_id"].astype(str).tolist(),
        sets=sets,
        cells=None if sets is None else shuffled_cells(evidence.frame, sets, str(groups.axis)),
    )


def _add_recall(findings: Findings, ranked: RankedCaptions, n: int, axis: str, config: AuditConfig) -> None:
    """Whether a caption finds its own image among the first K; blind, K in n do."""
    for k in RECALL_K:
        hits = (ranked.all[:, :k] == ranked.cluster[:, None]).any(axis=1).astype(np.float64)
        note = f"a quality, not a bias; interval over captions, {ranked.together}"
        notes = (note, *of_sources(ranked.source))
        estimate = share_estimate(hits, clusters=ranked.source, level=config.level, notes=notes)
        keys: dict[str, Key] = {"variant": VARIANT, "pool": "natural", "axis": axis, "k": k}
        findings.add(replace(estimate, null_mean=min(1.0, k / n)), metric="recall_at_k", **keys)


SUITE = Suite(
    name=NAME,
    question="Whom do the captions of a pool retrieve from it, as it is and with all groups as frequent?",
    citation="GenSynth (Smith et al., arXiv 2305.15407), Table 1",
    columns=("image_id",),
    texts=_texts,
    measure=_measure,
    axes=one_axis,
    reads=("captions",),
    own_k="as in GenSynth",
    defaults=AuditConfig(draws=200),
    settings=("axes", "k", "pair", "lexicon", "seeds", "draws", "seed", "level"),
)
