"""What a model is good for, so that a remedy's cost can be seen: zero-shot accuracy, and retrieval both ways.

Zero-shot accuracy: the share of images whose class text is the closest; the class is the column ``label``, or else
``subject``, and its prompts are joined into one text. A tie of t classes counts 1/t. Recall@K, text to image: each
caption asks for its image. Image to text: each image asks for any of its captions among the table's distinct texts.

These are qualities, not biases: an interval and n, no chance level. What blind guessing gives is in the notes.
Images of one set are not independent: intervals are over sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.asking import neutral_prompts
from equipoise.audit.captions import Captions, captions_of, distinct, known_captions
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence, places_by_name
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import joined_prompts, names_of_sets, pool_name, sets_or_images
from equipoise.audit.suite import Suite
from equipoise.errors import InputError
from equipoise.measure.notes import no_null
from equipoise.measure.retrieval import recall_at_k, scan
from equipoise.measure.stats.shares import share_estimate

NAME = "utility"
KS = (1, 5, 10)
PROMPTS = ("A photo of {a}", "A picture of {a}", "An image of {a}")
QUALITY = no_null("a quality, not a bias")


def _class_column(frame: pd.DataFrame) -> str | None:
    """The column that holds classes, two at least."""
    return next((c for c in ("label", "subject") if c in frame and frame[c].nunique() > 1), None)


def _classes(frame: pd.DataFrame, config: AuditConfig) -> tuple[list[str], list[list[str]]]:
    column = _class_column(frame)
    classes = [] if column is None else sorted(map(str, frame[column].dropna().unique()))
    return classes, neutral_prompts(classes, config.prompts or PROMPTS)


def _captions(frame: pd.DataFrame) -> Captions | None:
    known = known_captions(frame)
    return captions_of(frame["image_id"].tolist(), known, NAME) if any(known) else None


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    captions = _captions(frame)
    texts = [text for some in _classes(frame, config)[1] for text in some]
    texts += captions.texts if captions is not None else []
    if not texts:
        raise InputError(f"suite {NAME!r} needs captions, or a column 'label' or 'subject' with two classes or more")
    return distinct(texts)


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    captions = _captions(evidence.frame)
    if _class_column(evidence.frame) is not None:
        _add_accuracy(findings, evidence, config)
    else:
        findings.note("no zero-shot accuracy: no column 'label' or 'subject' with two classes or more")
    if captions is not None:
        _add_recall(findings, evidence, captions, config)
    else:
        findings.note("no recall: no image has a caption")
    return findings


def _add_accuracy(findings: Findings, evidence: Evidence, config: AuditConfig) -> None:
    frame = evidence.frame
    column = _class_column(frame)
    classes, prompts = _classes(frame, config)
    own = pd.Index([None if pd.isna(cell) else str(cell) for cell in frame[column]], dtype=object)
    wanted = pd.Index(classes).get_indexer(own)
    how = joined_prompts(config)
    credit = np.zeros(len(frame))
    for rows, scores in evidence.image_blocks(prompts, how):
        credit[rows] = _credit(scores, wanted[rows])
    known = wanted >= 0
    sets = sets_or_images(frame)
    estimate = share_estimate(
        credit[known],
        clusters=None if sets is None else sets[known],
        level=config.level,
        dropped={"image without a class": int((~known).sum())},
        notes=(QUALITY, f"blind guessing gives {1 / len(classes):.4g} of {len(classes)} classes ({column})"),
    )
    keys = {"metric": "zero_shot_accuracy", "variant": "equipoise", "pool": pool_name(frame)}
    findings.add(estimate, **keys)
    clusters = None if sets is None else names_of_sets(frame)[known]
    findings.add_queries(credit[known], frame["image_id"][known].tolist(), cluster=clusters, **keys)


def _credit(scores: NDArray[Any], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) 1 where the wanted class has the best score, 1/t where t classes share it, else 0.

    >>> _credit(np.array([[0.2, 0.9], [0.5, 0.5], [0.9, 0.1]]), np.array([1, 0, 1])).tolist()
    [1.0, 0.5, 0.0]
    """
    best = scores == scores.max(axis=1, keepdims=True)
    own = best[np.arange(len(scores)), np.maximum(wanted, 0)]
    return np.where(own & (wanted >= 0), 1.0 / best.sum(axis=1), 0.0)


def _add_recall(findings: Findings, evidence: Evidence, captions: Captions, config: AuditConfig) -> None:
    frame = evidence.frame
    ids = frame["image_id"].to_numpy()
    order = evidence.tie_order(config.seed)
    ranks = scan(evidence.source(captions.texts), [], targets=captions.image, order=order).ranks
    _add_ranks(findings, "text_to_image_recall", ranks, captions.names, captions.image, frame, config)
    texts = distinct(captions.texts)
    targets = _padded(pd.Index(texts).get_indexer(pd.Index(captions.texts)), captions.image, len(frame))
    there = np.flatnonzero((targets >= 0).any(axis=1))
    source = evidence.reversed_source(texts)
    if len(there) < len(frame):
        findings.note(f"{len(frame) - len(there)} images have no caption and ask for none")
        targets = np.where(targets >= 0, targets, np.where((targets >= 0).any(axis=1, keepdims=True), -1, 0))
    ranks = scan(source, [], targets=targets, order=places_by_name(texts, config.seed)).ranks
    assert ranks is not None
    _add_ranks(findings, "image_to_text_recall", ranks[there], list(ids[there]), there, frame, config)


def _add_ranks(
    findings: Findings,
    metric: str,
    ranks: NDArray[np.float64] | None,
    names: Sequence[str],
    images: NDArray[np.int64],
    frame: pd.DataFrame,
    config: AuditConfig,
) -> None:
    assert ranks is not None
    clusters = names_of_sets(frame)[images]
    codes, sources = pd.factorize(clusters)
    keys = {"metric": metric, "variant": "equipoise", "pool": pool_name(frame)}
    for k in config.k or KS:
        hits = recall_at_k(ranks, k)
        estimate = share_estimate(
            hits,
            clusters=codes if len(sources) < len(codes) else None,
            level=config.level,
            notes=(QUALITY, f"{len(frame)} images"),
        )
        findings.add(estimate, k=k, **keys)
        findings.add_queries(hits, names, k=k, cluster=clusters, **keys)


def _padded(texts: NDArray[np.int64], image: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """(n, P) the texts of each image, -1 beyond its last.

    >>> _padded(np.array([4, 5, 6]), np.array([0, 0, 2]), 3).tolist()
    [[4, 5], [-1, -1], [6, -1]]
    """
    counts = np.bincount(image, minlength=n)
    out = np.full((n, int(counts.max())), -1, dtype=np.int64)
    within = np.arange(len(image)) - np.repeat(np.cumsum(counts) - counts, counts)
    out[image, within] = texts
    return out


SUITE = Suite(
    name=NAME,
    question="How good is the model at naming and finding images: what does a remedy cost?",
    citation="CLIP (Radford et al., ICML 2021) for zero-shot classification and retrieval; Equipoise",
    columns=("image_id",),
    texts=_texts,
    measure=_measure,
    reads=("captions",),
    own_k="as recall is usually told",
    settings=("k", "prompts", "prompt_pool", "seed", "level"),
)
