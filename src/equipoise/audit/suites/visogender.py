"""VisoGender: whose pronoun does a model take, and whom does it find, for a person at work?

*Resolution.* "The doctor and her patient", "The doctor and his patient": which caption fits the image better?
``resolution_accuracy`` is the share of images where it is that of the person's perceived gender, by gender;
``resolution_gap`` is RA(masculine) - RA(feminine). *Retrieval.* "The doctor and their patient" ranks the images of
doctors: Bias@K, MaxSkew@K (K = 5, 10) and NDKL over the whole list, for each occupation and on average.

One person with an object and two people are different tasks, so every number is given for each ``context``, and for two
people also where both are perceived alike and where they are not.

Templates and metrics are the paper's. Ours: a tie counts one half, intervals and nulls (occupations are drawn, labels
are shuffled inside an occupation), and two captions compete, as the paper says; the released code lets "their" compete
too, which the variant ``visogender`` does. Groups whose pronoun is not known are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Floats, Mask
from equipoise.audit.asking import FEMININE, MASCULINE, one_axis
from equipoise.audit.captions import distinct
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import joined_prompts, pool_name
from equipoise.audit.suite import Suite
from equipoise.audit.suites._counterfactual import signed_gap
from equipoise.audit.suites._retrieval import add_retrieval
from equipoise.errors import InputError
from equipoise.measure.notes import minus
from equipoise.measure.retrieval import Candidates, Groups
from equipoise.measure.stats.shares import share_estimate
from equipoise.pace import portion, stages, steps

NAME = "visogender"
KS = (5, 10)
METRICS = ("bias_at_k", "max_skew", "ndkl")


def caption(occupation: str, pronoun: str, other: str) -> str:
    """The paper's template.

    >>> caption("doctor", "her", "patient")
    'The doctor and her patient'
    """
    return f"The {occupation} and {pronoun} {other}"


def perceived(values: Sequence[object]) -> Groups:
    """Two groups, his and her, called as the data calls them; every other value is undefined.

    >>> perceived(["feminine", "masculine", None, "unclear"]).labels.tolist()
    [1, 0, -1, -1]
    """
    names: list[set[str]] = [set(), set()]
    labels = np.full(len(values), -1, dtype=np.int32)
    for row, value in enumerate(values):
        for side, known in enumerate((MASCULINE, FEMININE)):
            if isinstance(value, str) and value.casefold() in known:
                labels[row] = side
                names[side].add(value)
    if not all(names):
        missing, words = ("feminine", FEMININE) if names[0] else ("masculine", MASCULINE)
        raise InputError(f"suite {NAME!r}: no image is labelled {missing} ({', '.join(words)}); a pronoun needs both")
    return Groups(labels, tuple("/".join(sorted(some)) for some in names), "gender")


def _asked(frame: pd.DataFrame) -> NDArray[np.bool_]:
    return frame[["subject", "other"]].notna().all(axis=1).to_numpy()


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    pairs = frame[_asked(frame)][["subject", "other"]].drop_duplicates()
    if pairs.empty:
        raise InputError(f"suite {NAME!r}: no image has an occupation (subject) and something beside it (other)")
    return distinct(
        [caption(job, word, other) for job, other in pairs.itertuples(index=False) for word in ("his", "her", "their")]
    )


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    frame = evidence.frame
    axis = one_axis(frame, config)[0]
    groups = perceived(frame[axis].tolist())
    asked = _asked(frame) & groups.defined
    if not asked.all():
        findings.note(f"{int((~asked).sum())} images left out: no occupation, nothing beside it, or no pronoun known")
    with portion(0.2):
        for variant in steps(config.variants):
            values = resolved(evidence, groups, asked, neutral=variant == "visogender")
            for name, inside in _contexts(frame, axis, groups, asked):
                _add_resolution(findings, evidence, groups, values, inside, name, variant, config)
    for context in stages(sorted(frame["context"][asked].dropna().unique())):
        _add_retrieval(findings, evidence, groups, asked & (frame["context"] == context).to_numpy(), context, config)
    return findings


def resolved(evidence: Evidence, groups: Groups, asked: Mask, *, neutral: bool) -> Floats:
    """(N,) 1 where the caption with the person's own pronoun scores higher than the other, 1/2 at a tie, else 0.

    With ``neutral`` it must beat "their" as well, strictly, as in the released code.
    """
    frame = evidence.frame
    values = np.zeros(len(frame))
    for (job, other), some in frame[asked].groupby(["subject", "other"], sort=False):
        rows = some.index.to_numpy()
        words = ["his", "her", "their"] if neutral else ["his", "her"]
        scores = evidence.scores([caption(str(job), word, str(other)) for word in words], rows)
        own = np.take_along_axis(scores, groups.labels[rows][None, :].astype(np.int64), axis=0)[0]
        rivals = scores.copy()
        rivals[groups.labels[rows], np.arange(len(rows))] = -np.inf
        best = rivals.max(axis=0)
        values[rows] = own > best if neutral else (own > best) + 0.5 * (own == best)
    return values


def _contexts(frame: pd.DataFrame, axis: str, groups: Groups, asked: Mask) -> Iterator[tuple[str, Mask]]:
    yield axis, asked
    for context in sorted(frame["context"][asked].dropna().unique()):
        inside = asked & (frame["context"] == context).to_numpy()
        yield f"{axis} | context={context}", inside
        if "other_gender" not in frame or frame["other_gender"][inside].isna().all():
            continue
        beside = frame["other_gender"].str.casefold()
        theirs = np.select([beside.isin(MASCULINE), beside.isin(FEMININE)], [0, 1], -1)
        yield f"{axis} | context={context}, same", inside & (theirs == groups.labels)
        yield f"{axis} | context={context}, different", inside & (theirs == 1 - groups.labels)


def _add_resolution(
    findings: Findings,
    evidence: Evidence,
    groups: Groups,
    values: Floats,
    inside: Mask,
    axis: str,
    variant: str,
    config: AuditConfig,
) -> None:
    frame = evidence.frame
    jobs = pd.factorize(frame["subject"])[0]
    keys = {"axis": axis, "pool": pool_name(frame), "variant": variant}
    chance = 1 / 3 if variant == "visogender" else 0.5
    sides = [inside & (groups.labels == side) for side in (0, 1)]
    for name, some in ((None, inside), *zip(groups.names, sides, strict=True)):
        if not some.any():
            findings.note(f"{axis}: no image of {name or 'either group'}")
            return
        estimate = share_estimate(values[some], clusters=jobs[some], null_value=chance, level=config.level)
        findings.add(estimate, metric="resolution_accuracy", group=name, **keys)
    gap = signed_gap(
        values[inside],
        groups.labels[inside] == 0,
        config,
        blocks=jobs[inside],
        notes=(minus(groups.names[0], groups.names[1]),),
    )
    findings.add(gap, metric="resolution_gap", **keys)
    for name, some in zip(groups.names, sides, strict=True):
        findings.add_queries(
            values[some],
            frame["image_id"][some].tolist(),
            metric="resolution_accuracy",
            group=name,
            cluster=frame["subject"][some].to_numpy(),
            **keys,
        )


def _add_retrieval(
    findings: Findings, evidence: Evidence, groups: Groups, inside: Mask, context: str, config: AuditConfig
) -> None:
    frame = evidence.frame
    some = frame[inside]
    jobs = sorted(some["subject"].unique())
    prompts = [
        [caption(job, "their", other) for other in sorted(some["other"][some["subject"] == job].unique())]
        for job in jobs
    ]
    pools = np.where(inside, pd.Index(jobs).get_indexer(pd.Index(frame["subject"])), -1)
    how = joined_prompts(config)
    for k in stages(config.k or KS):
        add_retrieval(
            findings,
            evidence.pooled_source(prompts, how),
            groups,
            config,
            k=k,
            axis=f"{groups.axis} | context={context}",
            pool=pool_name(some),
            queries=jobs,
            tie_order=evidence.tie_order(config.seed),
            candidates=Candidates(image_pool=pools, query_pool=np.arange(len(jobs))),
            metrics=METRICS if k == (config.k or KS)[-1] else METRICS[:-1],
            pair=(groups.names[0], groups.names[1]),
            depth=int(np.bincount(pools[inside]).max()),
        )


SUITE = Suite(
    name=NAME,
    question="Which pronoun does the model give a person at work, and whom does it find for a neutral caption?",
    citation="VisoGender (Hall et al., NeurIPS 2023)",
    columns=("image_id", "subject", "context", "other"),
    texts=_texts,
    measure=_measure,
    axes=one_axis,
    own_k="as in VisoGender",
    pool_of="subject",
    settings=("axes", "k", "variants", "prompt_pool", "draws", "seed", "level"),
)
