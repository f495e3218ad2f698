"""SocialCounterfactuals: whom does a model retrieve for a neutral prompt, on one axis and on their intersection?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.counterfactual import add_counterfactual
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.prompts import SOCIALCF_PROMPTS, neutral_prompts
from equipoise.audit.retrieval import add_retrieval
from equipoise.audit.suite import Suite
from equipoise.errors import InputError
from equipoise.measure.retrieval import Candidates

__all__ = ["SUITE", "axes_of", "subjects_with_sets"]

NAME = "intersectional"
_NOT_AXES = {"image_id", "source_id", "set_id", "caption", "subject", "label_source", "generator", "params", "seed"}


def axes_of(frame: pd.DataFrame, config: AuditConfig) -> tuple[str, ...]:
    """The axes asked for, or all that the table says it has."""
    axes = config.axes or tuple(frame.attrs.get("axes", ()))
    if not axes:
        raise InputError("the table names no axis; say which columns hold groups with --axis")
    return axes


def subjects_with_sets(frame: pd.DataFrame, min_sets: int) -> tuple[list[str], list[str]]:
    """The subjects with at least ``min_sets`` counterfactual sets, and those with fewer."""
    if "set_id" in frame and frame["set_id"].notna().any():
        sizes = frame.groupby("subject")["set_id"].nunique()
    else:
        sizes = frame.groupby("subject").size()
    return sorted(sizes[sizes >= min_sets].index), sorted(sizes[sizes < min_sets].index)


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    subjects = sorted(frame["subject"].dropna().unique())
    prompts = neutral_prompts(subjects, config.prompts or SOCIALCF_PROMPTS)
    return list(dict.fromkeys(text for some in prompts for text in some))


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    frame = evidence.frame
    findings = Findings(NAME, evidence.model)
    subjects, dropped = subjects_with_sets(frame, config.min_sets)
    if dropped:
        findings.notes.append(
            f"{len(dropped)} subjects left out with fewer than {config.min_sets} sets: {', '.join(dropped[:10])}"
            + (" …" if len(dropped) > 10 else "")
        )
    if not subjects:
        raise InputError(f"no subject has {config.min_sets} counterfactual sets; lower min_sets or add sets")
    axes = axes_of(frame, config)
    rows = np.flatnonzero(frame["subject"].isin(subjects))
    for size in range(1, len(axes) + 1):
        for some in combinations(axes, size):
            _measure_axes(findings, evidence, config, some, rows, subjects)
    query = pd.Index(subjects).get_indexer(pd.Index(frame["subject"].iloc[rows]))
    how = "embed_mean_unit" if config.prompt_pool == "metric_mean" else config.prompt_pool
    prompts = neutral_prompts(subjects, config.prompts or SOCIALCF_PROMPTS)
    scores = evidence.own_scores(prompts, how, rows, query)
    add_counterfactual(findings, evidence, config, axes, rows, scores, _pool_name(frame))
    return findings


def _measure_axes(
    findings: Findings,
    evidence: Evidence,
    config: AuditConfig,
    axes: Sequence[str],
    rows: NDArray[np.int64],
    subjects: list[str],
) -> None:
    frame = evidence.frame.iloc[rows]
    groups = evidence.groups(axes, NAME, rows)
    present = int((groups.counts() > 0).sum())
    sets = frame["set_id"].to_numpy() if "set_id" in frame and frame["set_id"].notna().all() else None
    pools = pd.Index(subjects).get_indexer(pd.Index(frame["subject"]))
    templates = config.prompts or SOCIALCF_PROMPTS
    prompts = neutral_prompts(subjects, templates)
    if config.prompt_pool == "metric_mean":
        texts = [text for some in prompts for text in some]
        names = np.repeat(subjects, len(templates))
        source = evidence.source(texts, rows)
    else:
        names = np.array(subjects)
        source = evidence.pooled_source(prompts, config.prompt_pool, rows)
    query_pool = pd.Index(subjects).get_indexer(pd.Index(names))
    for k in config.k or (max(2, present),):
        add_retrieval(
            findings,
            source,
            groups,
            config,
            k=k,
            axis=" x ".join(axes),
            pool=_pool_name(frame),
            queries=[str(n) for n in names],
            candidates=Candidates(image_pool=pools, query_pool=query_pool),
            sets=sets,
            subjects=config.prompt_pool != "metric_mean",
            clusters=names,
        )


def _pool_name(frame: pd.DataFrame) -> str:
    """What the images are: the one source of labels tells rendered and generated pools from natural ones."""
    if "label_source" not in frame:
        return "natural"
    sources = set(frame["label_source"].dropna().unique())
    if sources == {"world"}:
        return "rendered"
    return "generated" if sources == {"prompt"} else "natural"


SUITE = Suite(
    name=NAME,
    question="Whom does the model retrieve for a neutral prompt, by group and by intersection of groups?",
    citation="SocialCounterfactuals (Howard et al., CVPR 2024), section 5",
    columns=("image_id", "subject"),
    texts=_texts,
    measure=_measure,
)
