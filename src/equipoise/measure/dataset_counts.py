"""Who is in a dataset, and with what: counts of groups, and how far each subject, object or word leans to a
group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy import stats as sps

from equipoise.errors import InputError
from equipoise.measure.arrays import Floats, as_count
from equipoise.measure.corrections import holm
from equipoise.measure.estimate import Estimate
from equipoise.measure.group_means import permuted_labels
from equipoise.measure.groups import Groups
from equipoise.measure.permutation import p_values
from equipoise.measure.shares import wilson_interval

__all__ = ["GroupCounts", "Leaning", "cooccurrence", "group_counts", "presence_of", "representation"]


@dataclass(frozen=True)
class GroupCounts:
    """How many images show each group."""

    shares: Mapping[str, Estimate]
    """Of the images with a defined group; chance is 1 / G: what a balanced dataset has."""
    evenness: Estimate
    """Entropy of the shares over ln G: 1 = equal shares, 0 = one group only; chance from balanced sampling."""
    counts: Mapping[str, int]
    n_undefined: int


def group_counts(groups: Groups, *, draws: int = 2000, seed: int = 0, level: float = 0.95) -> GroupCounts:
    """Counts and shares of the groups of a dataset, with the evenness a balanced dataset of this size would have.

    Share: Wilson interval, exact binomial p-value against 1 / G. Evenness: -sum p ln p / ln G; its null draws n
    images from G equally likely groups, so that a small dataset is not called uneven for being small.

    >>> found = group_counts(Groups.from_values(["f", "m", "m", "m", None]))
    >>> found.counts, found.shares["m"].value, found.n_undefined
    ({'f': 1, 'm': 3}, 0.75, 1)
    """
    counts = groups.counts()
    n, n_groups = int(counts.sum()), groups.n_groups
    if n == 0:
        raise InputError("no image has a defined group; there is nothing to count")
    if n_groups < 2:
        raise InputError(f"only one group is named ({groups.names[0]!r}); shares compare at least two")
    dropped = {"undefined group": groups.n_undefined} if groups.n_undefined else {}
    shares = {}
    for name, count in zip(groups.names, counts.tolist(), strict=True):
        low, high = wilson_interval(count, n, level=level)
        shares[name] = Estimate(
            count / n,
            low,
            high,
            null_mean=1 / n_groups,
            null_sd=float(np.sqrt((1 / n_groups) * (1 - 1 / n_groups) / n)),
            p_value=min(1.0, float(sps.binomtest(count, n, 1 / n_groups).pvalue)),
            n=n,
            n_groups=n_groups,
            dropped=dropped,
            level=level,
        )
    value = float(_evenness(counts[None])[0])
    rng = np.random.default_rng(seed)
    null = _evenness(rng.multinomial(n, np.full(n_groups, 1 / n_groups), size=as_count(draws, "draws", least=2)))
    spread = np.quantile(_evenness(rng.multinomial(n, counts / n, size=draws)), [(1 - level) / 2, (1 + level) / 2])
    evenness = Estimate(
        value,
        float(min(spread[0], value)),
        float(max(spread[1], value)),
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)),
        p_value=p_values(value, null, alternative="less").value,
        n=n,
        n_groups=n_groups,
        dropped=dropped,
        level=level,
    )
    return GroupCounts(shares, evenness, dict(zip(groups.names, counts.tolist(), strict=True)), groups.n_undefined)


def _evenness(counts: NDArray[Any]) -> Floats:
    shares = counts / counts.sum(axis=1, keepdims=True)
    logs = np.zeros(shares.shape)
    np.log(shares, out=logs, where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=1) / np.log(counts.shape[1]))


@dataclass(frozen=True)
class Leaning:
    """How far each item (a subject, an object, a word, a cluster) leans to each group."""

    table: pd.DataFrame
    """One row an item and group: ``item group count n share overall excess ci_low ci_high null_sd log_odds p_value
    p_holm``. ``share`` is the group's part of the item's images, ``overall`` its part of the dataset (chance),
    ``excess`` their difference, ``p_value`` exact (hypergeometric, two-sided), ``p_holm`` over all rows."""
    distance: Estimate
    """Mean over items of half the summed |excess| (total variation); chance by shuffled groups."""
    dropped: Mapping[str, int] = field(default_factory=dict)

    def lopsided(self, level: float = 0.05) -> pd.DataFrame:
        """The rows whose excess stands out after Holm's correction, the largest first."""
        found = self.table[self.table["p_holm"] < level]
        order = np.argsort(-found["excess"].abs().to_numpy(), kind="stable")
        return found.iloc[order]


def representation(
    groups: Groups,
    subjects: Sequence[Any],
    *,
    min_images: int = 1,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> Leaning:
    """Share of each group among the images of each subject, against the dataset's own shares.

    ``subjects`` (n,): one subject an image (None = none). Null: the groups shuffled over the images, so that a
    count is hypergeometric: a subject with three images may be all of one group by chance. See
    :func:`cooccurrence` for items of which an image has several.

    >>> found = representation(Groups.from_values(["f", "m"] * 10), ["nurse", "chef"] * 10)
    >>> found.table["item"].tolist(), found.table["excess"].tolist()
    (['chef', 'chef', 'nurse', 'nurse'], [-0.5, 0.5, 0.5, -0.5])
    """
    groups.check_length(len(subjects))
    presence, names = presence_of([() if subject is None else (subject,) for subject in subjects])
    return cooccurrence(
        groups, presence, names, min_images=min_images, permutations=permutations, seed=seed, level=level
    )


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


def cooccurrence(
    groups: Groups,
    presence: Any,
    names: Sequence[str],
    *,
    min_images: int = 1,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> Leaning:
    """How often each group occurs with each item of ``presence`` (n, L), a 0/1 matrix, dense or sparse.

    Only images of a defined group count. share = c(a, l) / sum_a c(a, l); chance is the group's share of the
    dataset; the count is hypergeometric when groups are shuffled over images. ``log_odds``: ln of the odds
    ratio of item given group against item given another group, with 1/2 added to each cell. Items with fewer
    than ``min_images`` are dropped.

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
    matrix, labels = matrix[kept_rows], groups.labels[kept_rows]
    totals = np.asarray(matrix.sum(axis=0)).ravel()
    kept = np.flatnonzero(totals >= as_count(min_images, "min_images")) if len(names) else np.zeros(0, dtype=np.intp)
    if len(kept) == 0:
        raise InputError(f"no item has {min_images} images of a defined group; there is nothing to compare")
    if len(kept) < len(names):
        dropped[f"items with fewer than {min_images} images"] = len(names) - len(kept)
    matrix, totals = matrix[:, kept].tocsc(), totals[kept]
    items = [str(names[index]) for index in kept.tolist()]
    counts = _counts(matrix, labels[None], groups.n_groups)[0]
    table = _leaning_table(items, groups, counts, totals, level)
    distance = _distance(matrix, labels, groups.n_groups, totals, as_count(permutations, "permutations"), seed)
    return Leaning(table, _with_interval(distance, groups, dropped, level), dropped)


def _counts(matrix: Any, labellings: NDArray[Any], n_groups: int) -> Floats:
    """(b, L, G) how often each group occurs with each item under each row of ``labellings`` (b, n)."""
    found = [
        np.stack([matrix.T @ (labels == g).astype(np.float64) for g in range(n_groups)], axis=1)
        for labels in labellings
    ]
    return np.stack(found)


def _leaning_table(items: list[str], groups: Groups, counts: Floats, totals: Floats, level: float) -> pd.DataFrame:
    sizes = groups.counts().astype(np.float64)
    n = sizes.sum()
    count, size = counts.ravel(), np.tile(sizes, len(items))
    total = np.repeat(totals, groups.n_groups)
    # hypergeometric: of n images, ``size`` are of the group and ``total`` have the item
    law = sps.hypergeom(n.astype(int), size.astype(int), total.astype(int))
    p_value = np.minimum(1.0, 2 * np.minimum(law.cdf(count), law.sf(count - 1)))
    intervals = np.array([wilson_interval(c, int(t), level=level) for c, t in zip(count, total, strict=True)])
    odds = (count + 0.5) * (n - size - (total - count) + 0.5) / ((total - count + 0.5) * (size - count + 0.5))
    return pd.DataFrame(
        {
            "item": np.repeat(np.array(items, dtype=object), groups.n_groups),
            "group": np.tile(np.array(groups.names, dtype=object), len(items)),
            "count": count.astype(int),
            "n": total.astype(int),
            "share": count / total,
            "overall": size / n,
            "excess": count / total - size / n,
            "ci_low": intervals[:, 0],
            "ci_high": intervals[:, 1],
            "null_sd": np.sqrt(size / n * (1 - size / n) / total * (n - total) / max(1.0, n - 1)),
            "log_odds": np.log(odds),
            "p_value": p_value,
            "p_holm": holm(p_value),
        }
    )


def _distances(counts: Floats, totals: Floats, overall: Floats) -> Floats:
    """(b, L) total variation between each item's shares and the dataset's."""
    return np.asarray(np.abs(counts / totals[:, None] - overall).sum(axis=2) / 2)


def _distance(
    matrix: Any, labels: NDArray[Any], n_groups: int, totals: Floats, permutations: int, seed: int
) -> tuple[Floats, Floats]:
    """Per-item distances (L,) and the null draws (R,) of their mean."""
    overall = np.bincount(labels, minlength=n_groups) / len(labels)
    value = _distances(_counts(matrix, labels[None], n_groups), totals, overall)[0]
    rng = np.random.default_rng(seed)
    draws = [
        _distances(_counts(matrix, block, n_groups), totals, overall).mean(axis=1)
        for block in permuted_labels(labels, permutations, rng)
    ]
    return value, np.concatenate(draws)


def _with_interval(
    distance: tuple[Floats, Floats],
    groups: Groups,
    dropped: Mapping[str, int],
    level: float,
) -> Estimate:
    values, null = distance
    tests = p_values(float(values.mean()), null)
    low = high = None
    notes: tuple[str, ...] = ("no interval: one item",)
    if len(values) > 1:
        reach = float(sps.t.ppf(0.5 + level / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
        low, high = max(0.0, float(values.mean()) - reach), min(1.0, float(values.mean()) + reach)
        notes = ("interval over items",)
    return Estimate(
        float(values.mean()),
        low,
        high,
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)) if len(null) > 1 else None,
        p_value=tests.value,
        p_randomised=tests.randomised,
        n=len(values),
        n_groups=groups.n_groups,
        dropped=dict(dropped),
        notes=notes,
        level=level,
    )
