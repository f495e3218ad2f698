"""GenSynth's gender-agnostic baselines: retrieval among captions by TF-IDF, and among images at random.

No gender word is left in the captions, so what TF-IDF shows is the dataset's own skew, which the score of any model
over that dataset contains too. TF-IDF: every caption asks for all others, those of its own image left out; a caption
has the label of its image. Random: every caption ranks the images blindly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.suite import Suite
from equipoise.audit.suites._caption_pool import BIAS_K, SKEW_K, RankedCaptions, add_holm, add_pool, ranked_captions
from equipoise.data.published import published_cell
from equipoise.data.results import RANDOM_RANKING
from equipoise.data.sampling import balance
from equipoise.engine.progress import Progress
from equipoise.errors import InputError
from equipoise.measure.retrieval import Candidates, Groups, ScoreBlocks
from equipoise.text import Lexicon

NAME = "captions-tfidf"
LEXICON = "gensynth_code"
COMPAT = "gensynth"

Published = Mapping[tuple[str, str], tuple[float, ...]]
VAL2017 = (5_000, 25_014)
"""How many images and captions the file has that the published values belong to: COCO's captions_val2017.json."""

PUBLISHED: Published = {
    (model, pool): tuple(
        float(published_cell("gensynth", "T1", name, f"{pool} / {column}")["published"])
        for column in ("Bias@5", "Bias@10", "MaxSkew@25", "MaxSkew@100")
    )
    for model, name in (("tfidf", "TF-IDF"), (RANDOM_RANKING, "Random"))
    for pool in ("natural", "balanced")
}
"""GenSynth, Table 1. Its random rows are one draw of embeddings that served all queries, so they scatter more than the
independent rankings here."""


def without_words(captions: Sequence[str], words: Lexicon) -> list[str]:
    """Captions with the lexicon's words taken out, in lower case."""
    return words.mask_all([c.lower() for c in captions], token=" ")


def rank_tfidf(
    captions: Sequence[str],
    image: NDArray[np.int64],
    labels: NDArray[np.int32],
    *,
    names: Sequence[str] = (),
    images: Sequence[str] = (),
) -> RankedCaptions:
    """Caption-to-caption retrieval by scikit-learn's default TF-IDF; ``image`` (Q,) is each caption's image."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer().fit_transform(captions).astype(np.float64)
    columns = vectors.T.tocsr()
    source = ScoreBlocks(len(captions), len(captions), lambda a, b: (vectors[a:b] @ columns).toarray())
    others = Candidates(image_owner=image, query_owner=image)
    return ranked_captions(source, image, image, labels, others, names=names, images=images)


def rank_random(
    image: NDArray[np.int64],
    labels: NDArray[np.int32],
    seed: int,
    *,
    names: Sequence[str] = (),
    images: Sequence[str] = (),
) -> RankedCaptions:
    """Every caption ranks the images at random, each by a draw of its own."""
    n = len(labels)

    def block(start: int, stop: int) -> NDArray[np.float32]:
        return np.stack([np.random.default_rng([seed, row]).random(n, dtype=np.float32) for row in range(start, stop)])

    source = ScoreBlocks(len(image), n, block)
    return ranked_captions(source, np.arange(n), image, labels, Candidates(), names=names, images=images)


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

    def tfidf(some: pd.DataFrame, labels: NDArray[np.int32], _: int) -> RankedCaptions:
        return rank_tfidf(some["text"].tolist(), some["at"].to_numpy(), labels, **_names(some))

    def random(some: pd.DataFrame, labels: NDArray[np.int32], seed: int) -> RankedCaptions:
        return rank_random(some["at"].to_numpy(), labels, seed, **_names(some))

    pair = (groups.names[0], groups.names[1])
    keys: dict[str, Any] = {"axis": "gender", "variant": "gensynth", "source": "GenSynth, Table 1", "pair": pair}
    with Progress(NAME, total=2 * (1 + len(config.seeds)), unit="rankings", brief=True) as rankings:
        for model, ranker in (("tfidf", tfidf), (RANDOM_RANKING, random)):
            natural = ranker(frame, groups.labels, config.seed)
            beside = {pool: _beside(model, pool, published) for pool in ("natural", "balanced")}
            add_pool(findings, model, "natural", [natural], config, published=beside["natural"], **keys)
            rankings.advance(1)
            pools = []
            for seed in config.seeds:
                pools.append(_balanced(images, frame, groups, seed, ranker))
                rankings.advance(1)
            if pools:
                add_pool(findings, model, "balanced", pools, config, published=beside["balanced"], **keys)
            add_holm([row for row in findings.rows if row["model"] == model])
    return findings


def _names(captions: pd.DataFrame) -> dict[str, list[str]]:
    """A name of each caption that two audits of one file share, and the id of each image, by its number ``at``."""
    numbers = captions.groupby("image_id", sort=False).cumcount()
    ids = captions.drop_duplicates("at").sort_values("at")["image_id"]
    return {
        "names": [f"{image}/{number}" for image, number in zip(captions["image_id"], numbers, strict=True)],
        "images": ids.astype(str).tolist(),
    }


def _balanced(
    images: pd.DataFrame,
    frame: pd.DataFrame,
    groups: Groups,
    seed: int,
    ranker: Callable[[pd.DataFrame, NDArray[np.int32], int], RankedCaptions],
) -> RankedCaptions:
    """The ranker on a pool where both groups are as frequent, and undefined images keep their share."""
    chosen = balance(images, "gender", method="gensynth", seed=seed).positions
    place = np.full(len(images), -1)
    place[chosen] = np.arange(len(chosen))
    some = frame[place[frame["at"]] >= 0]
    return ranker(some.assign(at=place[some["at"]]), groups.labels[chosen], seed)


def _beside(model: str, pool: str, known: Published) -> dict[tuple[str, int], float]:
    """The published values of a row of Table 1, by metric and K."""
    names = [*(("bias_at_k", k) for k in BIAS_K), *(("max_skew", k) for k in SKEW_K)]
    return dict(zip(names, known.get((model, pool), ()), strict=False))


SUITE = Suite(
    name=NAME,
    question="How skewed is a caption set for models that cannot see gender at all?",
    citation="GenSynth (Smith et al., arXiv 2305.15407), Table 1",
    columns=("image_id", "caption"),
    texts=lambda frame, config: (),
    measure=_measure,
    own_k="as in GenSynth",
    settings=("draws", "seeds", "seed", "level"),
    defaults=AuditConfig(draws=200),
    needs_model=False,
)
