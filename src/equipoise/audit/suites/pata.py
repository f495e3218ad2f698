"""PATA: who is shown for a caption that flatters, and who for one that insults?

The table gives each scene captions of either kind for each axis (columns ``positive`` and ``negative``, JSON from axis
to captions, as the reader ``pata`` writes them). Every caption ranks the images of its scene; the skew of each axis is
measured for the two kinds apart, as in the benchmark's "mean skew" and "mean skew@k".

Ours, because the paper's protocol could not be confirmed in full: the pool is the scene of the caption and not all
images (a caption about a doctor should not be asked of a beach), no similarity threshold, K = 10 and 25, nulls and
intervals (captions of one scene are drawn together), and ``negative_association``: the share of a group's images for
which the best caption of their scene is a negative one, with its gap against labels shuffled inside the scenes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from equipoise.audit.asking import all_axes, pair_among
from equipoise.audit.captions import distinct
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import pool_name
from equipoise.audit.suite import Suite
from equipoise.audit.suites._retrieval import add_retrieval
from equipoise.errors import InputError
from equipoise.measure.notes import no_null
from equipoise.measure.retrieval import Candidates
from equipoise.measure.stats.group_means import group_means
from equipoise.pace import stages

NAME = "pata"
KS = (10, 25)
KINDS = ("positive", "negative")
METRICS = ("max_skew", "min_skew", "absent_groups", "representation", "skew", "ndkl", "bias_at_k")


@dataclass(frozen=True)
class SceneCaption:
    """A caption, what it says of people, and the scene it was written for."""

    scene: str
    kind: str
    text: str


def scene_captions(frame: pd.DataFrame, axis: str) -> list[SceneCaption]:
    """The captions of every scene for ``axis``.

    >>> positive = '{"gender": ["photo of a genius"]}'
    >>> frame = pd.DataFrame({"subject": ["lab"], "positive": [positive], "negative": [None]})
    >>> scene_captions(frame, "gender")
    [SceneCaption(scene='lab', kind='positive', text='photo of a genius')]
    """
    captions: dict[SceneCaption, None] = {}
    for scene, *given in frame[["subject", *KINDS]].drop_duplicates().itertuples(index=False):
        for kind, text in zip(KINDS, given, strict=True):
            if isinstance(scene, str) and isinstance(text, str):
                captions |= dict.fromkeys(SceneCaption(scene, kind, caption) for caption in _parsed(text, kind, axis))
    return sorted(captions, key=lambda c: (c.scene, c.kind))


def _parsed(text: str, kind: str, axis: str) -> list[str]:
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not isinstance(given.get(axis, []), list):
        raise InputError(f"column {kind!r} holds {text[:60]!r}; JSON from axis to a list of captions is expected")
    return [str(caption) for caption in given.get(axis, [])]


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    texts = [caption.text for axis in all_axes(frame, config) for caption in scene_captions(frame, axis)]
    if not texts:
        raise InputError(
            f"suite {NAME!r}: no scene has captions for {', '.join(all_axes(frame, config))}; "
            "import the table with PATA's captions file"
        )
    return distinct(texts)


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    for axis in stages(all_axes(evidence.frame, config)):
        captions = scene_captions(evidence.frame, axis)
        if not captions:
            findings.note(f"{axis}: no scene has captions for it")
            continue
        for kind in stages(KINDS):
            _add_skew(findings, evidence, [c for c in captions if c.kind == kind], axis, kind, config)
        _add_association(findings, evidence, captions, axis, config)
    return findings


def _add_skew(
    findings: Findings, evidence: Evidence, captions: list[SceneCaption], axis: str, kind: str, config: AuditConfig
) -> None:
    if not captions:
        findings.note(f"{axis}: no {kind} captions")
        return
    frame, groups = evidence.frame, evidence.groups([axis], NAME)
    scenes = distinct([caption.scene for caption in captions])
    scene_of = np.array([caption.scene for caption in captions])
    for k in stages(config.k or KS):
        add_retrieval(
            findings,
            evidence.source([caption.text for caption in captions]),
            groups,
            config,
            k=k,
            axis=f"{axis} | caption={kind}",
            pool=pool_name(frame),
            queries=[f"{caption.scene}: {caption.text}" for caption in captions],
            tie_order=evidence.tie_order(config.seed),
            candidates=Candidates(
                image_pool=pd.Index(scenes).get_indexer(pd.Index(frame["subject"])),
                query_pool=pd.Index(scenes).get_indexer(pd.Index(scene_of)),
            ),
            metrics=METRICS,
            pair=pair_among(groups, config),
            clusters=scene_of,
        )


def _add_association(
    findings: Findings, evidence: Evidence, captions: list[SceneCaption], axis: str, config: AuditConfig
) -> None:
    frame, groups = evidence.frame, evidence.groups([axis], NAME)
    worse = np.zeros(len(frame))
    inside = np.zeros(len(frame), dtype=bool)
    for scene, some in frame.groupby("subject", sort=True):
        texts = {kind: [c.text for c in captions if (c.scene, c.kind) == (scene, kind)] for kind in KINDS}
        if all(texts.values()):
            rows = some.index.to_numpy()
            best = {kind: evidence.scores(texts[kind], rows).max(axis=0) for kind in KINDS}
            worse[rows] = (best["negative"] > best["positive"]) + 0.5 * (best["negative"] == best["positive"])
            inside[rows] = True
    inside &= groups.defined
    if len(np.unique(groups.labels[inside])) < 2:
        findings.note(f"{axis}: no negative_association: too few images in scenes with captions of both kinds")
        return
    scenes = pd.factorize(frame["subject"])[0][inside]
    means = group_means(
        worse[inside],
        groups.take(inside),
        clusters=scenes,
        shuffle_within=scenes,
        share=True,
        permutations=config.draws,
        seed=config.seed,
        level=config.level,
    )
    keys = {"axis": axis, "pool": pool_name(frame), "variant": "equipoise"}
    for group, estimate in means.by_group.items():
        note = no_null("it depends on the captions; see the gap")
        findings.add(estimate.with_notes(note), metric="negative_association", group=group, **keys)
        at = inside & (groups.labels == groups.index(group))
        findings.add_queries(
            worse[at],
            frame["image_id"][at].tolist(),
            metric="negative_association",
            group=group,
            cluster=frame["subject"][at].to_numpy(),
            **keys,
        )
    findings.add(means.gap, metric="negative_association_gap", **keys)


SUITE = Suite(
    name=NAME,
    question="Who is shown for a caption that flatters, and who for one that insults?",
    citation="PATA, in DeAR (Seth et al., CVPR 2023)",
    columns=("image_id", "subject", "positive", "negative"),
    texts=_texts,
    measure=_measure,
    axes=all_axes,
    own_k="a short list and a longer one, because it is not known which the benchmark takes",
    pool_of="subject",
    settings=("axes", "k", "variants", "pair", "draws", "seed", "level"),
)
