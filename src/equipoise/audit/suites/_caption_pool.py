"""Every caption of a pool as a query over the pool: rankings once, then metrics under any labels of the images.

The null deals the labels of the images anew: captions of one image stay together, and undefined images stay undefined.
One pass over the scores gives all rankings; a draw of the null only reads labels along them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.findings import Findings, Key
from equipoise.audit.suites._retrieval import seeded_estimate
from equipoise.measure import METRICS
from equipoise.measure.notes import add_notes, note, of_sources
from equipoise.measure.retrieval import Candidates, Want, bias_at_k, group_counts, max_skew, scan
from equipoise.measure.retrieval.blocks import Source
from equipoise.measure.sides import of_pair
from equipoise.measure.stats import p_values
from equipoise.measure.stats.bootstrap import mean_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import shuffled_labels
from equipoise.measure.stats.permutation import holm
from equipoise.pace import stages, steps

BIAS_K, SKEW_K = (5, 10), (25, 100)
Values = dict[tuple[str, int], NDArray[np.float64]]


@dataclass(frozen=True)
class RankedCaptions:
    """Ranked lists of every query, and the labels they are read with."""

    defined: NDArray[np.int64]
    """(Q, 100) the best labelled candidates, for MaxSkew."""
    all: NDArray[np.int64]
    """(Q, 10) the best candidates, undefined ones in their slots, for Bias@K."""
    owner: NDArray[np.int64]
    """(N,) the image of each candidate; -1 for one outside the pool."""
    cluster: NDArray[np.int64]
    """(Q,) the image of each query."""
    labels: NDArray[np.int32]
    """(I,) the label of each image; -1 undefined."""
    n_groups: int = 2
    pair: tuple[int, int] | None = (0, 1)
    """The groups of Bias@K; none where the axis has more than two and nobody named them."""
    bias_k: tuple[int, ...] = BIAS_K
    skew_k: tuple[int, ...] = SKEW_K
    names: Sequence[str] = ()
    """(Q,) a name of each query, which two audits share; without them the queries' values are not kept."""
    images: Sequence[str] = ()
    """(I,) the id of each image."""
    sets: NDArray[np.int64] | None = None
    """(I,) the set of each image: intervals are over sets. ``None``: all images are independent."""
    cells: NDArray[np.int64] | None = None
    """(I,) inside which labels move under chance; ``None``: sets exchange theirs as wholes."""

    @property
    def source(self) -> NDArray[np.int64]:
        """(Q,) the set of each query's image, or the image."""
        return self.cluster if self.sets is None else self.sets[self.cluster]

    @property
    def together(self) -> str:
        """Which captions intervals keep together, in words."""
        return f"those of one {'image' if self.sets is None else 'set'} together"

    def values(self, labels: NDArray[np.int32]) -> Values:
        """The metrics of every query under ``labels`` (I,) of the images."""
        codes = np.where(self.owner >= 0, labels[self.owner], np.int32(-1)).astype(np.int32)
        padded = np.append(codes, np.int32(-2))
        pool = np.bincount(codes[codes >= 0], minlength=self.n_groups)
        measured: Values = {}
        for k in self.bias_k if self.pair is not None else ():
            counts = group_counts(padded[self.all[:, :k]], self.n_groups)
            measured["bias_at_k", k] = bias_at_k(counts, *(self.pair or (0, 1)))
        for k in self.skew_k:
            counts = group_counts(padded[self.defined[:, :k]], self.n_groups)
            measured["max_skew", k] = max_skew(counts, pool / pool.sum())
        return measured

    def null(self, draws: int, seed: int) -> Iterator[Values]:
        """The same with the labels of the images shuffled: captions of an image stay together, undefined stay so.

        The images of a set exchange labels with each other, or with another set as a whole; see ``cells``.
        """
        rng = np.random.default_rng(seed)
        inside = np.zeros(len(self.labels), dtype=bool)
        inside[self.owner[self.owner >= 0]] = True
        defined = np.flatnonzero((self.labels >= 0) & inside)
        for shuffled in steps(self._shuffled(defined, draws, rng), draws):
            labels = self.labels.copy()
            labels[defined] = shuffled
            yield self.values(labels)

    def _shuffled(self, images: NDArray[np.intp], draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.int32]]:
        """The labels of ``images`` in random order, ``draws`` times."""
        if self.sets is None:
            yield from (rng.permutation(self.labels[images]) for _ in range(draws))
            return
        cells = None if self.cells is None else self.cells[images]
        for block in shuffled_labels(self.labels[images], draws, rng, cells, self.sets[images]):
            yield from block

    def shuffle(self, draws: int, seed: int) -> str:
        """The same for two pools whose :meth:`null` shuffles the same labels of the same images alike."""
        whole = blake2b(f"{draws} {seed}".encode(), digest_size=12)
        whole.update("\n".join(self.images).encode())
        whole.update(np.where(np.isin(np.arange(len(self.labels)), self.owner), self.labels, -2).tobytes())
        for structure in (self.sets, self.cells):
            whole.update(b"" if structure is None else structure.tobytes())
        return whole.hexdigest()


def ranked_captions(
    source: Source,
    owner: NDArray[np.int64],
    cluster: NDArray[np.int64],
    labels: NDArray[np.int32],
    candidates: Candidates,
    *,
    n_groups: int = 2,
    pair: tuple[int, int] | None = (0, 1),
    bias_k: tuple[int, ...] = BIAS_K,
    skew_k: tuple[int, ...] = SKEW_K,
    order: Any = "stable",
    deepest: int = 0,
    names: Sequence[str] = (),
    images: Sequence[str] = (),
    sets: NDArray[np.int64] | None = None,
    cells: NDArray[np.int64] | None = None,
) -> RankedCaptions:
    """Rank the candidates of every query in one pass; ``deepest`` keeps more of the whole ranking than Bias@K needs."""
    codes = np.where(owner >= 0, labels[owner], -1)
    wants = [Want(max(skew_k), codes >= 0), Want(max([*bias_k, deepest]))]
    defined, every = scan(source, wants, candidates=candidates, order=order).rankings
    rankings = (defined.indices, every.indices)
    return RankedCaptions(*rankings, owner, cluster, labels, n_groups, pair, bias_k, skew_k, names, images, sets, cells)


def add_pool(
    findings: Findings,
    model: str,
    pool: str,
    ranked: Sequence[RankedCaptions],
    config: AuditConfig,
    *,
    axis: str,
    variant: str,
    pair: tuple[str, str] | None = None,
    published: dict[tuple[str, int], float] | None = None,
    source: str = "",
) -> None:
    """One row per metric: the mean over seeds; the interval is over images, or over seeds when there are several.

    ``pair``: the names of the groups of Bias@K. What is the same whichever way labels fall has no row, and a note.
    """
    actual = [r.values(r.labels) for r in ranked]
    each = max(2, -(-config.draws // len(ranked)))
    nulls = [list(r.null(each, config.seed + i)) for i, r in enumerate(stages(ranked))]
    for metric, k in actual[0]:
        values = np.array([float(a[metric, k].mean()) for a in actual])
        drawn = np.array([[float(d[metric, k].mean()) for d in some] for some in nulls])
        if np.ptp(drawn, axis=1).max() <= 0:
            findings.note(f"{pool}, K = {k}: {metric} left out, no query can show anything: {_why_silent(ranked, k)}")
            continue
        estimate = _estimate(metric, values, drawn, actual[0][metric, k], ranked[0], config)
        paper = (published or {}).get((metric, k))
        beside = "" if paper is None else note("published", value=paper, source=source)
        keys: dict[str, Key] = {"variant": variant, "pool": pool, "model": model, "axis": axis, "k": k}
        told: dict[str, Any] = {**keys, **of_pair(metric, pair), "suite": findings.suite, "published": paper}
        row = estimate.with_notes(beside).row(metric=metric, **told)
        findings.rows.append(row)
        if len(ranked) == 1 and ranked[0].names:
            one, of = ranked[0], {"metric": metric, **keys}
            images = [one.images[i] for i in one.cluster]
            clusters = images if one.sets is None else one.source
            findings.add_queries(actual[0][metric, k], one.names, cluster=clusters, **of)
            findings.add_draws(drawn[0], n=len(one.names), shuffle=one.shuffle(each, config.seed), **of)


def _why_silent(ranked: Sequence[RankedCaptions], k: int) -> str:
    largest = max(one.defined.shape[1] for one in ranked)
    few = f"no pool has more than K images with a group (the largest has {largest:,})"
    return few if largest <= k else "whichever way labels fall, the value is the same"


def add_holm(rows: Sequence[dict[str, Any]]) -> None:
    """Holm over the metrics, depths and pools of one ranking."""
    tested = [row for row in rows if not pd.isna(row["p_value"])]
    for row, p in zip(tested, holm([float(row["p_value"]) for row in tested]), strict=True):
        add_notes(row, note("holm_over", p=float(p), tests=len(tested), unit="tests"))


def _estimate(
    metric: str,
    values: NDArray[np.float64],
    drawn: NDArray[np.float64],
    queries: NDArray[np.float64],
    ranked: RankedCaptions,
    config: AuditConfig,
) -> Estimate:
    alternative, bounds = METRICS.get(metric).alternative, METRICS.get(metric).bounds
    possible = (0.0, np.inf) if callable(bounds) else bounds  # the one with bounds by pool is MaxSkew
    sizes: dict[str, Any] = {"n": len(queries), "n_groups": ranked.n_groups}
    if len(values) > 1:
        seeded = seeded_estimate(values, drawn, config, possible=possible, alternative=alternative, **sizes)
        return seeded.with_notes(*of_sources(ranked.source))
    value, null = float(values[0]), drawn[0]
    p = p_values(value, null, alternative=alternative, rng=np.random.default_rng(config.seed))
    spread = float(null.std(ddof=1))  # all queries see the same images: captions alone would say too little of them
    interval = mean_interval(queries, clusters=ranked.source, level=config.level, least_error=spread)
    low, high = interval or (None, None)
    if low is not None and high is not None:
        low, high = max(low, possible[0]), min(high, possible[1])
    return Estimate(
        value,
        low,
        high,
        null_mean=float(null.mean()),
        null_sd=spread,
        p_value=p.value,
        p_randomised=p.randomised,
        notes=(
            f"interval over captions, {ranked.together}, and at least as wide as chance spreads",
            *of_sources(ranked.source),
        ),
        level=config.level,
        **sizes,
    )
