"""GenSynth's gender-agnostic baselines: retrieval among captions by TF-IDF, and among images at random.

No gender word is left in the captions, so what TF-IDF shows is the dataset's own skew, which the score of any model
over that dataset contains too. TF-IDF: every caption asks for all others, those of its own image left out; a caption
has the label of its image. Random: every caption ranks the images blindly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings, Key
from equipoise.audit.published import published_cell
from equipoise.audit.suite import Suite
from equipoise.audit.suites._retrieval import seeded_estimate
from equipoise.data.sampling import balance
from equipoise.errors import InputError
from equipoise.measure import METRICS
from equipoise.measure.notes import add_notes, note
from equipoise.measure.retrieval import Candidates, Groups, ScoreBlocks, Want, bias_at_k, group_counts, max_skew, scan
from equipoise.measure.stats import p_values
from equipoise.measure.stats.bootstrap import mean_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import holm
from equipoise.text import Lexicon

__all__ = ["PUBLISHED", "SUITE", "Ranked", "rank_random", "rank_tfidf", "without_words"]

NAME = "captions-tfidf"
LEXICON = "gensynth_code"
COMPAT = "gensynth"
BIAS_K, SKEW_K = (5, 10), (25, 100)

Published = Mapping[tuple[str, str], tuple[float, ...]]
VAL2017 = (5_000, 25_014)
"""How many images and captions the file has that the published values belong to: COCO's captions_val2017.json."""

PUBLISHED: Published = {
    (name.lower().replace("-", ""), pool): tuple(
        float(published_cell("gensynth", "T1", name, f"{pool} / {column}")["published"])
        for column in ("Bias@5", "Bias@10", "MaxSkew@25", "MaxSkew@100")
    )
    for name in ("TF-IDF", "Random")
    for pool in ("natural", "balanced")
}
"""GenSynth, Table 1. Its random rows are one draw of embeddings that served all queries, so they scatter more than the
independent rankings here."""

Values = dict[tuple[str, int], NDArray[np.float64]]


@dataclass(frozen=True)
class Ranked:
    """Ranked lists of every query, and the labels they are read with."""

    defined: NDArray[np.int64]
    """(Q, 100) the best labelled candidates, for MaxSkew."""
    all: NDArray[np.int64]
    """(Q, 10) the best candidates, undefined ones in their slots, for Bias@K."""
    owner: NDArray[np.int64]
    """(N,) the image of each candidate."""
    cluster: NDArray[np.int64]
    """(Q,) the image of each query."""
    labels: NDArray[np.int32]
    """(I,) the label of each image; -1 undefined."""

    def values(self, labels: NDArray[np.int32]) -> Values:
        """The metrics of every query under ``labels`` (I,) of the images."""
        codes = labels[self.owner]
        padded = np.append(codes, np.int32(-2))
        pool = np.bincount(codes[codes >= 0], minlength=2)
        measured: Values = {}
        for k in BIAS_K:
            measured["bias_at_k", k] = bias_at_k(group_counts(padded[self.all[:, :k]], 2), 0, 1)
        for k in SKEW_K:
            counts = group_counts(padded[self.defined[:, :k]], 2)
            measured["max_skew", k] = max_skew(counts, pool / pool.sum())
        return measured

    def null(self, draws: int, seed: int) -> Iterator[Values]:
        """The same with the labels of the images shuffled: captions of an image stay together, undefined stay so."""
        rng = np.random.default_rng(seed)
        defined = np.flatnonzero(self.labels >= 0)
        for _ in range(draws):
            labels = self.labels.copy()
            labels[defined] = rng.permutation(labels[defined])
            yield self.values(labels)


def without_words(captions: Sequence[str], words: Lexicon) -> list[str]:
    """Captions with the lexicon's words taken out, in lower case."""
    return words.mask_all([c.lower() for c in captions], token=" ")


def rank_tfidf(captions: Sequence[str], image: NDArray[np.int64], labels: NDArray[np.int32]) -> Ranked:
    """Caption-to-caption retrieval by scikit-learn's default TF-IDF; ``image`` (Q,) is each caption's image."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer().fit_transform(captions).astype(np.float64)
    columns = vectors.T.tocsr()
    source = ScoreBlocks(len(captions), len(captions), lambda a, b: (vectors[a:b] @ columns).toarray())
    return _ranked(source, image, image, labels, Candidates(image_owner=image, query_owner=image))


def rank_random(image: NDArray[np.int64], labels: NDArray[np.int32], seed: int) -> Ranked:
    """Every caption ranks the images at random, each by a draw of its own."""
    n = len(labels)

    def block(start: int, stop: int) -> NDArray[np.float32]:
        return np.stack([np.random.default_rng([seed, row]).random(n, dtype=np.float32) for row in range(start, stop)])

    return _ranked(ScoreBlocks(len(image), n, block), np.arange(n), image, labels, Candidates())


def _ranked(
    source: ScoreBlocks,
    owner: NDArray[np.int64],
    cluster: NDArray[np.int64],
    labels: NDArray[np.int32],
    candidates: Candidates,
) -> Ranked:
    wants = [Want(max(SKEW_K), labels[owner] >= 0), Want(max(BIAS_K))]
    defined, every = scan(source, wants, candidates=candidates).rankings
    return Ranked(defined.indices, every.indices, owner, cluster, labels)


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, "")
    words = Lexicon.load(LEXICON)
    frame = evidence.frame.assign(text=without_words(evidence.frame["caption"].tolist(), words))
    by_image = frame.groupby("image_id", sort=False)["caption"].apply(list)
    names = words.label_images(by_image.tolist(), compat=COMPAT)
    images = pd.DataFrame({"image_id": by_image.index.astype(str), "gender": names})
    groups = Groups.from_values(images["gender"].to_numpy(dtype=object), words.groups, axis=words.axis)
    if not groups.counts().all():
        raise InputError(f"{NAME}: no image is labelled {words.groups[int(np.argmin(groups.counts()))]!r}")
    frame["at"] = pd.Index(by_image.index).get_indexer(pd.Index(frame["image_id"]))
    counts = ", ".join(f"{n:,} {name}" for name, n in zip(groups.names, groups.counts(), strict=True))
    findings.notes.append(
        f"captions of {counts} and {groups.n_undefined:,} undefined images (lexicon {LEXICON}, compat {COMPAT})"
    )

    # Beside other captions the published values would mislead.
    published: Published = PUBLISHED if (len(images), len(frame)) == VAL2017 else {}

    def tfidf(some: pd.DataFrame, labels: NDArray[np.int32], _: int) -> Ranked:
        return rank_tfidf(some["text"].tolist(), some["at"].to_numpy(), labels)

    def random(some: pd.DataFrame, labels: NDArray[np.int32], seed: int) -> Ranked:
        return rank_random(some["at"].to_numpy(), labels, seed)

    for model, ranker in (("tfidf", tfidf), ("random", random)):
        natural = ranker(frame, groups.labels, config.seed)
        _add(findings, model, "natural", [natural], config, published)
        if config.seeds:
            pools = [_balanced(images, frame, groups, seed, ranker) for seed in config.seeds]
            _add(findings, model, "balanced", pools, config, published)
        _adjust([row for row in findings.rows if row["model"] == model])
    return findings


def _adjust(rows: Sequence[dict[str, Any]]) -> None:
    """Holm over the metrics, depths and pools of one ranking."""
    for row, p in zip(rows, holm([float(row["p_value"]) for row in rows]), strict=True):
        add_notes(row, note("holm_over", p=float(p), tests=len(rows), unit="tests"))


def _balanced(
    images: pd.DataFrame,
    frame: pd.DataFrame,
    groups: Groups,
    seed: int,
    ranker: Callable[[pd.DataFrame, NDArray[np.int32], int], Ranked],
) -> Ranked:
    """The ranker on a pool where both groups are as frequent, and undefined images keep their share."""
    chosen = balance(images, "gender", method="gensynth", seed=seed).positions
    place = np.full(len(images), -1)
    place[chosen] = np.arange(len(chosen))
    some = frame[place[frame["at"]] >= 0]
    return ranker(some.assign(at=place[some["at"]]), groups.labels[chosen], seed)


def _add(
    findings: Findings, model: str, pool: str, ranked: Sequence[Ranked], config: AuditConfig, published: Published
) -> None:
    """One row per metric: the mean over seeds; the interval is over images, or over seeds when there are several."""
    actual = [r.values(r.labels) for r in ranked]
    # The null is costly here (every draw relabels every list); the draws are shared out among the seeds.
    each = max(2, min(config.draws, 200) // len(ranked))
    nulls = [list(r.null(each, config.seed + i)) for i, r in enumerate(ranked)]
    for metric, k in actual[0]:
        values = np.array([float(a[metric, k].mean()) for a in actual])
        drawn = np.array([[float(d[metric, k].mean()) for d in some] for some in nulls])
        estimate = _estimate(metric, values, drawn, actual[0][metric, k], ranked[0].cluster, config)
        known = published.get((model, pool))
        paper = known[(*BIAS_K, *SKEW_K).index(k)] if known else None
        beside = "" if paper is None else note("published", value=paper, source="GenSynth, Table 1")
        row = estimate.with_notes(beside).row(
            metric=metric, variant="gensynth", suite=NAME, pool=pool, model=model, axis="gender", k=k, published=paper
        )
        findings.rows.append(row)
        if pool == "natural":
            ids = [str(i) for i in range(len(actual[0][metric, k]))]
            keys: dict[str, Key] = {"variant": "gensynth", "pool": pool, "model": model, "axis": "gender", "k": k}
            findings.add_queries(actual[0][metric, k], ids, metric=metric, **keys)


def _estimate(
    metric: str,
    values: NDArray[np.float64],
    drawn: NDArray[np.float64],
    queries: NDArray[np.float64],
    cluster: NDArray[Any],
    config: AuditConfig,
) -> Estimate:
    alternative = METRICS.get(metric).alternative
    if len(values) > 1:
        return seeded_estimate(values, drawn, config, alternative=alternative, n=len(queries), n_groups=2)
    value, null = float(values[0]), drawn[0]
    p = p_values(value, null, alternative=alternative, rng=np.random.default_rng(config.seed))
    low, high = mean_interval(queries, clusters=cluster, level=config.level) or (None, None)
    return Estimate(
        value,
        low,
        high,
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)),
        p_value=p.value,
        p_randomised=p.randomised,
        n=len(queries),
        n_groups=2,
        notes=("interval over captions, those of one image together",),
        level=config.level,
    )


def _no_texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    return ()


SUITE = Suite(
    name=NAME,
    question="How skewed is a caption set for models that cannot see gender at all?",
    citation="GenSynth (Smith et al., arXiv 2305.15407), Table 1",
    columns=("image_id", "caption"),
    texts=_no_texts,
    measure=_measure,
    settings=("draws", "seeds", "seed", "level"),
    defaults=AuditConfig(draws=200),
    needs_model=False,
)
