"""Queries that name a subject and nobody else, and the images of each subject as their pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.prompts import SOCIALCF_PROMPTS, neutral_prompts
from equipoise.errors import InputError

__all__ = [
    "SubjectQueries",
    "pool_name",
    "set_codes",
    "subject_queries",
    "subject_texts",
    "subjects_asked",
    "subjects_with_sets",
]


@dataclass(frozen=True)
class SubjectQueries:
    """Neutral queries: their scores, the subject of each, and the number of that subject (its pool)."""

    source: Any
    names: list[str]
    pools: NDArray[np.int64]
    one_each: bool
    """Whether each subject has one query; with ``metric_mean`` it has one for each prompt."""


def subject_texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    """All neutral prompts of all subjects."""
    subjects = sorted(frame["subject"].dropna().unique())
    prompts = neutral_prompts(subjects, config.prompts or SOCIALCF_PROMPTS)
    return list(dict.fromkeys(text for some in prompts for text in some))


def subjects_with_sets(frame: pd.DataFrame, min_sets: int) -> tuple[list[str], list[str]]:
    """The subjects with at least ``min_sets`` counterfactual sets, and those with fewer.

    >>> frame = pd.DataFrame({"subject": ["cook", "cook", "nurse"], "set_id": ["1", "2", "3"]})
    >>> subjects_with_sets(frame, 2)
    (['cook'], ['nurse'])
    """
    if "set_id" in frame and frame["set_id"].notna().any():
        sizes = frame.groupby("subject")["set_id"].nunique()
    else:
        sizes = frame.groupby("subject").size()
    return sorted(sizes[sizes >= min_sets].index), sorted(sizes[sizes < min_sets].index)


def subjects_asked(frame: pd.DataFrame, config: AuditConfig, findings: Findings) -> list[str]:
    """The subjects with enough sets; the others are noted."""
    subjects, dropped = subjects_with_sets(frame, config.min_sets)
    if dropped:
        findings.notes.append(
            f"{len(dropped)} subjects left out with fewer than {config.min_sets} sets: {', '.join(dropped[:10])}"
            + (" …" if len(dropped) > 10 else "")
        )
    if not subjects:
        raise InputError(f"no subject has {config.min_sets} counterfactual sets; lower min_sets or add sets")
    return subjects


def subject_queries(evidence: Evidence, subjects: Sequence[str], config: AuditConfig) -> SubjectQueries:
    """The neutral queries of ``subjects``, their prompts joined as the settings say."""
    templates = config.prompts or SOCIALCF_PROMPTS
    prompts = neutral_prompts(subjects, templates)
    if config.prompt_pool == "metric_mean":
        source = evidence.source([text for some in prompts for text in some])
        names = [subject for subject in subjects for _ in templates]
    else:
        source = evidence.pooled_source(prompts, config.prompt_pool)
        names = list(subjects)
    pools = pd.Index(list(subjects)).get_indexer(pd.Index(names))
    return SubjectQueries(source, names, pools, config.prompt_pool != "metric_mean")


def set_codes(frame: pd.DataFrame, inside: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """(N,) the counterfactual set of each image as a number; ``None`` if an image ``inside`` the pool has none."""
    if "set_id" not in frame or frame["set_id"][inside].isna().any():
        return None
    return np.asarray(pd.factorize(frame["set_id"])[0], dtype=np.int64)


def pool_name(frame: pd.DataFrame) -> str:
    """What the images are: the one source of labels tells rendered and generated pools from natural ones."""
    if "label_source" not in frame:
        return "natural"
    sources = set(frame["label_source"].dropna().unique())
    if sources == {"world"}:
        return "rendered"
    return "generated" if sources == {"prompt"} else "natural"
