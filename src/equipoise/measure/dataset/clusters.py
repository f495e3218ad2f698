"""Clusters of what captions talk about, and which groups they over-represent (GenSynth, App. D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_keys, as_matrix
from equipoise.measure.dataset.counts import Leaning, representation
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric

CLUSTERS = 20
"""GenSynth's M."""
WORDS = 10


@dataclass(frozen=True)
class Clusters:
    """What the captions of a dataset talk about, and who is in each part."""

    leaning: Leaning
    """``leaning.table``: one row per cluster ("item", as text) and group; ``excess`` is the over-representation
    Delta."""
    labels: NDArray[np.intp]
    """(n,) the cluster of each image given; -1 for images of undefined group, which take no part."""
    sizes: NDArray[np.intp]
    top_words: tuple[tuple[str, ...], ...]
    """The words of each cluster's topic, most probable first; empty without captions."""
    distinctive_words: tuple[tuple[str, ...], ...]
    """Words that set a cluster apart from the others (log odds); empty without captions."""


@metric(
    "caption_clusters",
    takes="labels",
    summary="Over-representation of groups in clusters of neutral captions.",
    citation="GenSynth (arXiv 2305.15407), App. D",
    formula="share in the cluster - share overall, k-means with M = 20",
    range="(-1, 1)",
    direction="0: as in the dataset",
    chance="hypergeometric, given the clusters",
    when_it_lies="Captions that are not neutral cluster by the group word; clusters move with the seed.",
    unit="share",
)
def caption_clusters(
    groups: Groups,
    captions: Sequence[str | Sequence[str]] | None = None,
    features: Any = None,
    *,
    clusters: Any = None,
    n_clusters: int = CLUSTERS,
    n_words: int = WORDS,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> Clusters:
    """K-means clusters of neutral captions, their words, and the over-representation of each group in each.

    K-means with 10 starts, seeded. Delta = share of the group in the cluster - share overall. The clusters do not know
    the groups, so the exact p-values of the shares hold given the clusters. Names of the clusters found are left to
    people.

    Args:
        groups: of the images; only images of a defined group take part.
        captions: one neutral caption, or several, an image; ``None``: clusters have no words, and ``features`` are
            needed.
        features: (n, d) embeddings of the captions (the mean over an image's captions), dense or sparse; ``None``:
            TF-IDF of the captions.
        clusters: (n,) something else: images of one source or set, which are not independent
            (:func:`equipoise.measure.dataset.cooccurrence`).
        n_clusters: how many clusters are made, at least 2.
        n_words: how many words each cluster gets at most.
        permutations: how many times groups are shuffled for the chance level of the mean distance, and with
            ``clusters`` for the p-values.
        seed: which starts and shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        How far each cluster leans to each group, which images are in it, and its words.

    >>> captions = ["a cat on a mat", "a cat asleep", "a red bus", "a bus stop"] * 5
    >>> found = caption_clusters(Groups.from_values(["f", "f", "m", "m"] * 5), captions, n_clusters=2)
    >>> sorted(found.sizes.tolist()), sorted(found.leaning.table["excess"].abs().unique().tolist())
    ([10, 10], [0.5])
    """
    from sklearn.cluster import KMeans  # slow to import, seldom needed

    if captions is None and features is None:
        raise InputError("give captions, features, or both: there is nothing to cluster")
    texts = None if captions is None else [_joined(caption, i) for i, caption in enumerate(captions)]
    n = len(groups)
    if texts is not None and len(texts) != n:
        raise InputError(f"captions has {len(texts)} entries for {n} images; give one (or a list) an image")
    defined = groups.defined
    inside = np.flatnonzero(defined)
    as_count(n_clusters, "n_clusters", least=2)
    if len(inside) < n_clusters:
        raise InputError(f"{len(inside)} images have a defined group; {n_clusters} clusters need at least as many")
    rows = _clustered_rows(features, texts, inside, n)
    model = KMeans(n_clusters, n_init=10, random_state=seed).fit(rows)
    assigned = np.asarray(model.labels_, dtype=np.intp)
    labels = np.full(n, -1, dtype=np.intp)
    labels[inside] = assigned
    width = len(str(n_clusters - 1))
    leaning = representation(
        groups.take(inside),
        [f"{label:0{width}d}" for label in assigned],
        clusters=None if clusters is None else as_keys(clusters, "clusters", n)[inside],
        permutations=permutations,
        seed=seed,
        level=level,
    )
    top: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    if texts is not None:
        top, apart = cluster_words([texts[i] for i in inside], assigned, n_words=n_words, seed=seed)
    return Clusters(leaning, labels, np.bincount(assigned, minlength=n_clusters), top, apart)


def cluster_words(
    captions: Sequence[str], labels: Any, *, n_words: int = WORDS, seed: int = 0
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """For each cluster its most probable words by LDA with one topic, and the words that set it apart.

    English stop words are left out. Words that set a cluster apart have the highest log odds against the rest
    (1/2 added to each count), among words in at least two of its captions, or in all of them if it has one only.

    Args:
        captions: one text each.
        labels: (n,) the cluster of each caption, from 0; captions with -1 count only in the rest.
        n_words: how many words each cluster gets at most, of either kind.
        seed: where the topic model starts.

    Returns:
        The probable words of each cluster, and those that set each apart, the best first.

    >>> top, apart = cluster_words(["a red bus", "a blue bus", "a person asleep", "a person"], [0, 0, 1, 1], n_words=1)
    >>> top, apart
    ((('bus',), ('person',)), (('bus',), ('person',)))
    """
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import CountVectorizer

    clusters = np.asarray(labels, dtype=np.intp)
    if len(clusters) != len(captions) or len(captions) == 0:
        raise InputError(f"labels has {len(clusters)} entries for {len(captions)} captions")
    vectorizer = CountVectorizer(stop_words="english")
    try:
        counts = vectorizer.fit_transform(captions)
    except ValueError as error:
        raise InputError("captions hold no words besides stop words") from error
    vocabulary = vectorizer.get_feature_names_out()
    everything = np.asarray(counts.sum(axis=0)).ravel().astype(np.float64)
    top: list[tuple[str, ...]] = []
    apart: list[tuple[str, ...]] = []
    for cluster in range(int(clusters.max()) + 1):
        rows = counts[clusters == cluster]
        inside = np.asarray(rows.sum(axis=0)).ravel().astype(np.float64)
        if inside.sum() == 0:
            top.append(())
            apart.append(())
            continue
        topic = LatentDirichletAllocation(1, random_state=seed).fit(rows).components_[0]
        top.append(_best(topic, inside > 0, vocabulary, n_words))
        outside = everything - inside
        odds = np.log((inside + 0.5) / (inside.sum() - inside + 0.5))
        odds -= np.log((outside + 0.5) / (outside.sum() - outside + 0.5))
        often = np.asarray((rows > 0).sum(axis=0)).ravel() >= min(2, rows.shape[0])
        apart.append(_best(odds, often & (inside > 0), vocabulary, n_words))
    return tuple(top), tuple(apart)


def tsne_coordinates(
    features: Any, *, perplexity: float = 30.0, max_items: int = 5000, seed: int = 0
) -> tuple[Floats, NDArray[np.intp]]:
    """Coordinates of a t-SNE map of ``features``, and the rows they belong to.

    A picture to look at, not a measure: distances between clusters in it mean nothing.

    Args:
        features: (n, d) one row per item, dense or scipy-sparse.
        perplexity: about how many neighbours each item is kept near; below the number of items mapped.
        max_items: above so many, a seeded random part is mapped.
        seed: which items are mapped, and the randomness of the map.

    Returns:
        The coordinates (m, 2), and the numbers (m,) of the rows.

    >>> points, rows = tsne_coordinates(np.random.default_rng(0).normal(size=(20, 3)), perplexity=5)
    >>> points.shape, len(rows)
    ((20, 2), 20)
    """
    from sklearn.manifold import TSNE

    x = features.tocsr() if sparse.issparse(features) else as_matrix(features, "features", min_rows=3)
    n = x.shape[0]
    rows = np.arange(n)
    if n > as_count(max_items, "max_items", least=3):
        rows = np.sort(np.random.default_rng(seed).choice(n, max_items, replace=False))
    if not 0 < perplexity < len(rows):
        raise InputError(f"perplexity must be above 0 and below the {len(rows)} items, not {perplexity}")
    init = "random" if sparse.issparse(x) else "pca"
    model = TSNE(2, perplexity=perplexity, init=init, random_state=seed)
    return np.asarray(model.fit_transform(x[rows]), dtype=np.float64), rows


def _clustered_rows(features: Any, texts: list[str] | None, inside: NDArray[np.intp], n: int) -> Any:
    if features is not None:
        x = features.tocsr() if sparse.issparse(features) else as_matrix(features, "features")
        if x.shape[0] != n:
            raise InputError(f"features has {x.shape[0]} rows for {n} images")
        return x[inside]
    from sklearn.feature_extraction.text import TfidfVectorizer

    assert texts is not None
    try:
        return TfidfVectorizer().fit_transform([texts[i] for i in inside])
    except ValueError as error:
        raise InputError("captions hold no words to cluster by") from error


def _joined(caption: str | Sequence[str], index: int) -> str:
    if isinstance(caption, str):
        return caption
    if not isinstance(caption, Sequence) or not all(isinstance(c, str) for c in caption):
        raise InputError(f"captions[{index}] is {caption!r}; it must be a string or a list of strings")
    return " ".join(caption)


def _best(scores: Floats, allowed: NDArray[np.bool_], vocabulary: NDArray[Any], n_words: int) -> tuple[str, ...]:
    order = np.argsort(-np.where(allowed, scores, -np.inf), kind="stable")[: as_count(n_words, "n_words")]
    return tuple(str(vocabulary[i]) for i in order if allowed[i])
