"""What the groups of a dataset are shown with: how far each subject, object or word leans to a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy import stats as sps

from equipoise.array_types import Floats, Positions
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count
from equipoise.measure.dataset.lean import ItemLean, cluster_codes, item_lean
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import in_clusters
from equipoise.measure.stats.laws import beta_quantile, normal_quantile, t_quantile
from equipoise.measure.stats.permutation import holm, p_values
from equipoise.measure.stats.shares import wilson_interval
from equipoise.text.labels import is_missing


@dataclass(frozen=True)
class Leaning:
    """How far each item (a subject, an object, a word, a cluster) leans to each group."""

    table: pd.DataFrame
    """One row per item and group: ``item group count n sources share overall even excess ci_low ci_high null_sd
    log_odds p_value p_adjusted``. ``share`` is the group's part of the item's images, ``overall`` its part of the
    dataset; ``even`` is chance, the same unless clusters show several groups (then what their own shares make even),
    ``excess`` is ``share - even``. ``p_value`` is exact (hypergeometric, two-sided) and ``p_adjusted`` Holm's over all
    rows, where the two rows of an item are one test if there are two groups, and rows that cannot differ from chance
    (of a group without images, or an item of all images) are none; with clusters ``p_value`` is of exchanged labels and
    ``p_adjusted`` of the largest deviation of all rows (Westfall and Young). ``sources`` counts the independent
    clusters that have the item."""
    distance: Estimate
    """Mean over items of half the summed |excess| (total variation); chance by shuffled groups."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    correction: str = "Holm"
    """How ``p_adjusted`` was corrected."""
    least_p: float = 0.0
    """The smallest ``p_adjusted`` that so many draws can give; 0 where the law is exact."""

    def lopsided(self, level: float = 0.05) -> pd.DataFrame:
        """The rows whose excess stands out after the correction for all rows, the largest first."""
        rows = self.table[self.table["p_adjusted"] < level]
        order = np.argsort(-rows["excess"].abs().to_numpy(), kind="stable")
        return rows.iloc[order]


@metric(
    "subject_representation",
    takes="labels",
    summary="Share of each group per subject against the dataset.",
    citation="GenSynth (arXiv 2305.15407)",
    formula="c(a, l) / sum_a c(a, l) - n_a / n; distance = half the summed absolute excess",
    range="(-1, 1); distance [0, 1]",
    direction="0: as in the dataset",
    chance="hypergeometric",
    when_it_lies="Few images are lopsided by chance; images of one shoot are not independent.",
    unit="share",
    rows={"subject_distance": {"main": 8}},
)
def representation(
    groups: Groups,
    subjects: Sequence[Any],
    *,
    clusters: Any = None,
    min_images: int = 1,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> Leaning:
    """Share of each group among the images of each subject, against the dataset's own shares.

    Null: the groups shuffled over the images, so that a count is hypergeometric: a subject with three images may be all
    of one group by chance. See :func:`cooccurrence` for items of which an image has several.

    Args:
        groups: of the images; only images of a defined group count.
        subjects: (n,) one subject per image (None or NaN = none).
        clusters: (n,) images of one source or set, as in :func:`cooccurrence`.
        min_images: subjects with fewer images are dropped.
        permutations: how many times groups are shuffled for the chance level of the mean distance, and with
            ``clusters`` for the p-values.
        seed: which shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        A table of one row per subject and group, and the mean distance of the subjects from chance.

    >>> found = representation(Groups.from_values(["f", "m"] * 10), ["nurse", "chef"] * 10)
    >>> found.table["item"].tolist(), found.table["excess"].tolist()
    (['chef', 'chef', 'nurse', 'nurse'], [-0.5, 0.5, 0.5, -0.5])
    """
    groups.check_length(len(subjects))
    presence, names = presence_of([() if is_missing(subject) else (subject,) for subject in subjects])
    options: dict[str, Any] = {"min_images": min_images, "permutations": permutations, "seed": seed, "level": level}
    return cooccurrence(groups, presence, names, clusters=clusters, **options)


def presence_of(items: Iterable[Iterable[Any]]) -> tuple[Any, tuple[str, ...]]:
    """A sparse (n, L) matrix of which image has which item, and the items' names, sorted.

    >>> matrix, names = presence_of([["cat", "dog"], ["dog", "dog"]])
    >>> names, matrix.toarray().tolist()
    (('cat', 'dog'), [[1.0, 1.0], [0.0, 1.0]])
    """
    rows = [sorted({str(item) for item in row}) for row in items]
    names = tuple(sorted({item for row in rows for item in row}))
    place = {name: index for index, name in enumerate(names)}
    indices = [place[item] for row in rows for item in row]
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    shape = (len(rows), max(1, len(names)))
    return sparse.csr_matrix((np.ones(len(indices)), indices, pointers), shape=shape), names


@metric(
    "cooccurrence",
    takes="labels",
    summary="Leaning of objects or words to groups.",
    citation="Zhao 2017",
    formula="as representation, for items of which an image has several; log odds",
    range="(-1, 1)",
    direction="0: as in the dataset",
    chance="hypergeometric",
    when_it_lies="An item that is the group is no finding.",
    unit="share",
    rows={"word_distance": {"main": 9}},
)
def cooccurrence(
    groups: Groups,
    presence: Any,
    names: Sequence[str],
    *,
    clusters: Any = None,
    min_images: int = 1,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> Leaning:
    """How often each group occurs with each item of ``presence``.

    share = c(a, l) / sum_a c(a, l); chance is the group's share of the dataset; the count is hypergeometric when groups
    are shuffled over images. ``log_odds``: ln of the odds ratio of item given group against item given another group,
    with 1/2 added to each cell.

    Where all images of a cluster show one group, whole clusters exchange their group; inside a cluster of several
    groups, its images do (:func:`equipoise.measure.stats.exchange.in_clusters`). Intervals are then cluster-robust, and
    empty where an item is in one cluster only. The interval of ``distance`` leaves out one part of the clusters (or
    images) at a time.

    Args:
        groups: of the images; only images of a defined group count.
        presence: (n, L) a 0/1 matrix, dense or sparse: which image has which item (:func:`presence_of`).
        names: (L,) what the items are called.
        clusters: (n,) images of one source or set, which are not independent.
        min_images: items with fewer images are dropped.
        permutations: how many times groups are shuffled for the chance level of ``distance``, and with ``clusters`` for
            the p-values.
        seed: which shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        A table of one row per item and group, and the mean distance of the items from chance.

    >>> matrix, names = presence_of([["tie"], ["tie"], ["dress"], ["dress"]])
    >>> found = cooccurrence(Groups.from_values(["m", "m", "f", "f"]), matrix, names)
    >>> found.table.loc[found.table["item"] == "tie", "excess"].tolist()
    [-0.5, 0.5]
    """
    matrix = sparse.csr_matrix(presence, dtype=np.float64)
    groups.check_length(matrix.shape[0])
    if len(names) and matrix.shape[1] != len(names):
        raise InputError(f"presence has {matrix.shape[1]} columns for {len(names)} names")
    if matrix.nnz and not np.isin(matrix.data, (0.0, 1.0)).all():
        raise InputError("presence must hold 0 and 1 only: whether an image has an item")
    kept_rows = groups.defined
    dropped = {"undefined group": groups.n_undefined} if groups.n_undefined else {}
    matrix, labels = matrix[kept_rows], groups.labels[kept_rows].astype(np.intp)
    totals = np.asarray(matrix.sum(axis=0)).ravel()
    kept = np.flatnonzero(totals >= as_count(min_images, "min_images")) if len(names) else np.zeros(0, dtype=np.intp)
    if len(kept) == 0:
        raise InputError(f"no item has {min_images} images of a defined group; there is nothing to compare")
    seen = int((totals[: len(names)] > 0).sum())  # what no image of a defined group has is not there to be left out
    if len(kept) < seen:
        dropped[f"items with fewer than {min_images} images"] = seen - len(kept)
    matrix = sparse.csr_matrix(matrix[:, kept])
    items = [str(names[index]) for index in kept.tolist()]
    given = cluster_codes(clusters, len(groups))
    codes = None if given is None else cluster_codes(given[kept_rows], len(labels))
    lean = item_lean(
        matrix,
        np.ones(len(labels)),
        in_clusters(labels, codes),
        n_groups=groups.n_groups,
        permutations=as_count(permutations, "permutations"),
        seed=seed,
        tested=codes is not None,
    )
    counts = np.stack([matrix.T @ (labels == g).astype(np.float64) for g in range(groups.n_groups)], axis=1)
    if codes is None:
        table = _leaning_table(items, groups, counts, totals[kept], level)
    else:
        table = _clustered_table(items, groups, counts, lean, _item_clusters(matrix, labels, codes, groups), level)
    distance = _with_interval(lean, groups, dropped, level)
    if codes is None:
        return Leaning(table, distance, dropped)
    return Leaning(table, distance, dropped, "Westfall-Young", min(1.0, 2 / (permutations + 1)))


def _leaning_table(items: list[str], groups: Groups, counts: Floats, totals: Floats, level: float) -> pd.DataFrame:
    sizes = groups.counts().astype(np.float64)
    n = sizes.sum()
    count, size = counts.ravel(), np.tile(sizes, len(items))
    total = np.repeat(totals, groups.n_groups)
    # hypergeometric: of n images, ``size`` are of the group and ``total`` have the item
    law = sps.hypergeom(n.astype(int), size.astype(int), total.astype(int))
    p_value = np.minimum(1.0, 2 * np.minimum(law.cdf(count), law.sf(count - 1)))
    there = np.flatnonzero(sizes)
    # of two groups one has what the other lacks: a row and its mirror are one test
    tested = np.ix_(totals < n, there[:1] if len(there) == 2 else there)
    table, adjusted = p_value.reshape(counts.shape), np.ones(counts.shape)
    adjusted[tested] = holm(table[tested].ravel()).reshape(table[tested].shape)
    if len(there) == 2:
        adjusted[:, there[1]] = adjusted[:, there[0]]
    return _table(
        items,
        groups,
        counts,
        sources=total,
        even=size / n,
        intervals=np.array([wilson_interval(c, int(t), level=level) for c, t in zip(count, total, strict=True)]),
        null_sd=np.sqrt(size / n * (1 - size / n) / total * (n - total) / max(1.0, n - 1)),
        p_value=p_value,
        p_adjusted=adjusted.ravel(),
    )


def _table(
    items: list[str],
    groups: Groups,
    counts: Floats,
    *,
    sources: Floats,
    even: Floats,
    intervals: Floats,
    null_sd: Floats,
    p_value: Floats,
    p_adjusted: Floats,
) -> pd.DataFrame:
    sizes = groups.counts().astype(np.float64)
    n = sizes.sum()
    count, size = counts.ravel(), np.tile(sizes, len(items))
    total = np.repeat(counts.sum(axis=1), groups.n_groups)
    odds = (count + 0.5) * (n - size - (total - count) + 0.5) / ((total - count + 0.5) * (size - count + 0.5))
    return pd.DataFrame(
        {
            "item": np.repeat(np.array(items, dtype=object), groups.n_groups),
            "group": np.tile(np.array(groups.names, dtype=object), len(items)),
            "count": count.astype(int),
            "n": total.astype(int),
            "sources": sources.astype(int),
            "share": count / total,
            "overall": size / n,
            "even": even,
            "excess": count / total - even,
            "ci_low": intervals[:, 0],
            "ci_high": intervals[:, 1],
            "null_sd": null_sd,
            "log_odds": np.log(odds),
            "p_value": p_value,
            "p_adjusted": p_adjusted,
        }
    )


@dataclass(frozen=True)
class _ItemClusters:
    """Sums over the clusters that have an item: all that the intervals of shares need."""

    clusters: Floats
    """(L,) how many have it."""
    squared_sizes: Floats
    """(L,) their images with the item, squared and summed."""
    squared_counts: Floats
    """(L, G) those of the group, squared and summed."""
    products: Floats
    """(L, G) those of the group times all, summed."""


def _item_clusters(matrix: Any, labels: Positions, codes: Positions, groups: Groups) -> _ItemClusters:
    gather = sparse.csr_matrix((np.ones(len(codes)), (codes, np.arange(len(codes)))))
    sizes = sparse.csr_matrix(gather @ matrix)
    parts = [gather @ sparse.diags((labels == g).astype(np.float64)) @ matrix for g in range(groups.n_groups)]

    def summed(counts: Any) -> Floats:
        return np.asarray(counts.sum(axis=0), dtype=np.float64).ravel()

    return _ItemClusters(
        summed(sizes > 0),
        summed(sizes.multiply(sizes)),
        np.stack([summed(part.multiply(part)) for part in parts], axis=1),
        np.stack([summed(part.multiply(sizes)) for part in parts], axis=1),
    )


def _clustered_table(
    items: list[str], groups: Groups, counts: Floats, lean: ItemLean, of: _ItemClusters, level: float
) -> pd.DataFrame:
    totals = counts.sum(axis=1)
    return _table(
        items,
        groups,
        counts,
        sources=np.repeat(of.clusters, groups.n_groups),
        even=((counts - lean.beyond) / totals[:, None]).ravel(),
        intervals=_clustered_intervals(counts / totals[:, None], totals, of, level).reshape(-1, 2),
        null_sd=(lean.null_sd / totals[:, None]).ravel(),
        p_value=lean.p_value.ravel(),
        p_adjusted=lean.p_together.ravel(),
    )


def _clustered_intervals(shares: Floats, totals: Floats, of: _ItemClusters, level: float) -> Floats:
    """(L, G, 2) the interval of ``share_interval`` for every item and group at once."""
    clusters = of.clusters[:, None]
    scatter = np.clip(of.squared_counts - 2 * shares * of.products + shares**2 * of.squared_sizes[:, None], 0, None)
    several = np.maximum(clusters - 1, 1)
    factor = t_quantile(0.5 + level / 2, several) / normal_quantile(0.5 + level / 2)
    squared_error = scatter * clusters / several / totals[:, None] ** 2 * factor**2
    alike = np.broadcast_to((totals**2 / of.squared_sizes)[:, None], shares.shape)
    n = np.divide(shares * (1 - shares), squared_error, out=alike.copy(), where=scatter > 1e-12)
    hits, tail = shares * n, (1 - level) / 2
    with np.errstate(invalid="ignore"):  # ends at 0 and 1 are set below
        low = np.where(hits > 0, beta_quantile(tail, np.maximum(hits, 1e-300), n - hits + 1), 0.0)
        high = np.where(hits < n, beta_quantile(1 - tail, hits + 1, np.maximum(n - hits, 1e-300)), 1.0)
    intervals = np.stack([np.minimum(low, shares), np.maximum(high, shares)], axis=2)
    return np.where((clusters > 1)[:, :, None], intervals, np.nan)


def _with_interval(lean: ItemLean, groups: Groups, dropped: Mapping[str, int], level: float) -> Estimate:
    value, null = float(lean.distance.mean()), lean.null_distance
    tests = p_values(value, null)
    null_sd = float(null.std(ddof=1)) if len(null) > 1 else None
    low = high = None
    notes: tuple[str, ...] = (no_interval("one independent unit"),)
    if lean.error is not None:
        reach = float(t_quantile(0.5 + level / 2, lean.parts - 1)) * max(lean.error, null_sd or 0.0)
        if reach > 0:
            low, high = max(0.0, value - reach), min(1.0, value + reach)
            notes = (f"interval over {lean.parts} parts of the images",)
        else:
            notes = (no_interval("nothing varies between independent units"),)
    return Estimate(
        value,
        low,
        high,
        null_mean=float(null.mean()),
        null_sd=null_sd,
        p_value=tests.value if lean.p_distance is None else lean.p_distance,
        p_randomised=tests.randomised if lean.p_distance is None else None,
        n=len(lean.distance),
        n_groups=groups.n_groups,
        dropped=dict(dropped),
        notes=notes,
        level=level,
    )
