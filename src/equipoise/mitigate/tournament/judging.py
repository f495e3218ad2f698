"""What a remedy does, on some subjects: skew on counterfactual sets and on natural images, gaps, and usefulness.

Every number is measured for the model as it is and for the repaired one on the same images, so that the change has an
interval of its own, over subjects (over images, for usefulness).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.captions import known_captions
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import groups_to_rank, set_structure, subject_queries
from equipoise.audit.suites import SUITES
from equipoise.audit.suites._counterfactual import cells_of
from equipoise.errors import InputError
from equipoise.measure.arrays import unit_vectors
from equipoise.measure.counterfactual.sizes import standard_gap_sizes
from equipoise.measure.retrieval import Candidates, chance, evaluate, summary
from equipoise.measure.stats.estimate import Estimate
from equipoise.mitigate.tournament.pools import Encoded, EncodedPool, some_subjects
from equipoise.mitigate.tournament.settings import TournamentSettings
from equipoise.mitigate.wrapping import queries_of
from equipoise.models.protocols import Precomputed

RECALL_K = 5
_RERANKED = "text_to_image_recall"
"""The one measure of usefulness that a new order of images changes."""


@dataclass(frozen=True)
class AppliedRepair:
    """How vectors of images and texts are changed, and rankings; ``None`` where they are not: the model as it is."""

    images: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None
    texts: Callable[[Sequence[str], NDArray[np.float32]], NDArray[np.float32]] | None = None
    reranks: Any = None


def repair_by(remedy: Any, encoded: Encoded) -> AppliedRepair:
    """What a fitted remedy does, to every text what it does behind the model (:mod:`equipoise.mitigate.wrapping`)."""
    if not hasattr(remedy, "transform"):
        return AppliedRepair(reranks=remedy)
    encode = None if isinstance(encoded.stored.model, Precomputed) else encoded.stored.text_vectors

    def texts(words: Sequence[str], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(remedy.transform(vectors, "text", queries_of(remedy, words, encode)))

    return AppliedRepair(
        images=None if remedy.changes == "texts" else lambda vectors: np.asarray(remedy.transform(vectors, "image")),
        texts=None if remedy.changes == "images" else texts,
    )


@dataclass
class JudgedRepair:
    """Estimates by (metric, pool, axis), and the values of single subjects or images behind those that are means."""

    estimates: dict[tuple[str, str, str], Estimate] = field(default_factory=dict)
    values: dict[tuple[str, str, str], dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def judged(
    encoded: Encoded,
    repair: AppliedRepair,
    subjects: Sequence[str],
    settings: TournamentSettings,
    axes: Sequence[str],
    *,
    briefly: bool = False,
) -> JudgedRepair:
    """Judge a repair on ``subjects``; ``briefly`` measures only what the choice of a strength looks at."""
    config = AuditConfig(
        prompts=(settings.prompt,), draws=2 if briefly else settings.draws, seed=settings.seed, level=settings.level
    )
    judge = _Judge(encoded, repair, settings.k, config)
    wanted = axes[:1] if briefly else axes
    judge.judge_sets(subjects, wanted)
    if encoded.natural is not None and not briefly:
        judge.judge_natural(encoded.natural, subjects, wanted)
    judge.judge_utility(subjects, briefly=briefly)
    return judge.result


@dataclass(frozen=True)
class _Judge:
    """A repair, and what is found of it."""

    encoded: Encoded
    repair: AppliedRepair
    k: int
    config: AuditConfig
    result: JudgedRepair = field(default_factory=JudgedRepair)

    def judge_sets(self, subjects: Sequence[str], axes: Sequence[str]) -> None:
        """The skew on counterfactual sets, and the gap inside them."""
        pool = some_subjects(self.encoded.sets, subjects)
        evidence = _evidence(self.encoded, pool, self.repair, self.encoded.prompts(subjects), by_subject=True)
        for axis in axes:
            self._add_skew(evidence, "sets", axis, subjects)
        if self.repair.reranks is not None:
            self.result.notes.append("re-ranking changes no score, so that it has no gap of its own")
            return
        config, findings = self.config, Findings("tournament", "")
        rows = np.flatnonzero(pool.frame["set_id"].notna())
        if not len(rows):
            self.result.notes.append("no gaps inside sets: no image belongs to one")
            return
        place = pd.Index(list(subjects)).get_indexer(pd.Index(pool.frame["subject"].iloc[rows]))
        prompts = [[text] for text in self.encoded.prompts(subjects)]
        scores = evidence.own_scores(prompts, "embed_mean_unit", rows, place)
        by_axis = cells_of(findings, evidence, config.having({"axes": tuple(axes)}), axes, rows, scores)
        for axis, cells in by_axis.items():
            sizes = standard_gap_sizes(cells, seed=config.seed, level=config.level)
            if not sizes:
                continue
            # no values of single subjects: a size is no mean over them, so the mean of their changes is not its change
            largest = max(sizes, key=lambda size: size.estimate.value)
            self.result.estimates["standard_gap_size", "sets", axis] = largest.estimate

    def judge_natural(self, natural: EncodedPool, subjects: Sequence[str], axes: Sequence[str]) -> None:
        """The skew on natural images."""
        pool = some_subjects(natural, subjects)
        present = sorted(map(str, pool.frame["subject"].unique()))
        if not present:
            self.result.notes.append("no natural image of a subject that is shown")
            return
        evidence = _evidence(self.encoded, pool, self.repair, self.encoded.prompts(present), by_subject=True)
        for axis in axes:
            if axis in pool.frame and pool.frame[axis].nunique() > 1:
                self._add_skew(evidence, "natural", axis, present)

    def judge_utility(self, subjects: Sequence[str], *, briefly: bool) -> None:
        """Zero-shot accuracy among the subjects, and recall both ways, by the suite ``utility``."""
        pool = some_subjects(self.encoded.utility, subjects)
        if not len(pool.frame):
            return
        suite, config = SUITES.load("utility"), self.config
        frame = pool.frame.drop(columns=["captions", "caption"], errors="ignore") if briefly else pool.frame
        frame.attrs.update(pool.frame.attrs)
        seen = EncodedPool(frame, pool.vectors)
        suite_config = suite.defaults.having(
            {"prompts": config.prompts, "k": (RECALL_K,), "seed": config.seed, "level": config.level}
        )
        texts = [str(text) for text in suite.texts(frame, suite_config)]

        def add(*, ranked: bool, wanted: Callable[[str], bool]) -> None:
            evidence = _evidence(self.encoded, seen, self.repair, texts, by_subject=False, ranked=ranked)
            findings: Findings = suite.measure(evidence, suite_config)
            if len(findings.rows) != len(findings.queries):
                raise InputError("the suite utility gave rows without the values behind them")
            for row, queries in zip(findings.rows, findings.queries, strict=True):
                if wanted(str(row["metric"])):
                    key = (str(row["metric"]), "utility", "")
                    self.result.estimates[key] = Estimate(
                        row["value"],
                        row["ci_low"],
                        row["ci_high"],
                        n=row["n"],
                        notes=("no null: a quality, not a bias",),
                    )
                    self.result.values[key] = dict(zip(queries["query"], queries["value"], strict=True))

        # Which class an image gets, and which text, no re-ranking of images changes.
        again = self.repair.reranks is not None and not briefly and any(known_captions(frame))
        add(ranked=False, wanted=lambda metric: not again or metric != _RERANKED)
        if again:
            add(ranked=True, wanted=lambda metric: metric == _RERANKED)

    def _add_skew(self, evidence: Evidence, pool: str, axis: str, subjects: Sequence[str]) -> None:
        config = self.config
        frame = evidence.frame
        groups = evidence.groups([axis], "tournament")
        pools = pd.Index(list(subjects)).get_indexer(pd.Index(frame["subject"]))
        inside = pools >= 0
        structure = set_structure(frame, config, [axis], inside)
        groups = groups_to_rank(groups, structure, inside, Findings("tournament", ""))
        queries = subject_queries(evidence, list(subjects), config)
        retrieved = evaluate(
            queries.source,
            groups,
            k=self.k,
            metrics=["max_skew", "ndkl"],
            tie_order=evidence.tie_order(config.seed),
            candidates=Candidates(image_pool=pools, query_pool=queries.pools),
        )
        null = chance(retrieved, draws=config.draws, seed=config.seed, **structure.options())
        names = [queries.names[q] for q in retrieved.queries]
        for row in summary(retrieved, null, level=config.level, seed=config.seed):
            key = (row.metric, pool, axis)
            if key[0] in ("max_skew", "ndkl") and row.group is None:
                self.result.estimates[key] = row.estimate
                self.result.values[key] = dict(zip(names, map(float, retrieved.values[row.metric]), strict=True))


def _evidence(
    encoded: Encoded,
    pool: EncodedPool,
    repair: AppliedRepair,
    texts: Sequence[str],
    *,
    by_subject: bool,
    ranked: bool = True,
) -> Evidence:
    """Vectors as the repair leaves them, or scores where it re-ranks, ``by_subject`` each one's images alone."""
    vectors = encoded.stored.text_vectors(texts)
    if repair.reranks is not None and ranked:
        units = unit_vectors(vectors, encoded.stored.model.name, texts)
        pools = pd.factorize(pool.frame["subject"], sort=True)[0] if by_subject else None
        scores = repair.reranks.rescored(units @ pool.vectors.T, pool.vectors, pools)
        return Evidence(pool.frame, texts, model="", scores=scores.astype(np.float64))
    images = pool.vectors if repair.images is None else repair.images(pool.vectors)
    if repair.texts is not None:
        vectors = repair.texts(texts, vectors)
    return Evidence(pool.frame, texts, model="", image_vectors=images, text_vectors=vectors)
