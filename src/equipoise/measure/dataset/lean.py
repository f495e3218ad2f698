"""How far each item (an object, a word) is from even between groups, when images come in clusters.

Images made from one source (crops, edits, captions of the same picture) are not independent. Where all images of a
cluster show one group, whole clusters exchange their label; inside a cluster that shows several groups, its images do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.array_types import Floats, Positions
from equipoise.measure.arrays import as_keys
from equipoise.measure.stats.exchange import Exchange

EDGE = 0.025
"""The quantile of its own null that a deviation is measured in, so that rare and common items weigh the same."""
_TIE = 1e-5
BLOCKS = 40
"""Into how many parts the clusters go to see how much the mean distance moves without one of them."""


def cluster_codes(clusters: Any, n: int) -> Positions | None:
    """Numbers (n,) of the ``clusters`` (n,); ``None`` where there are none, or where each has one image.

    >>> cluster_codes(["b", "a", "b"], 3).tolist(), cluster_codes([1, 2, 3], 3)
    ([1, 0, 1], None)
    """
    if clusters is None:
        return None
    codes = np.unique(as_keys(clusters, "clusters", n), return_inverse=True)[1].astype(np.intp)
    return codes if n and codes.max() + 1 < n else None


@dataclass(frozen=True)
class ItemLean:
    """How far each of L items is from even in each of G groups, and what exchanged labels give."""

    beyond: Floats
    """(L, G) the group's count of the item less what is even."""
    null_sd: Floats
    """(L, G) standard deviation of ``beyond`` under exchanged labels."""
    p_value: Floats
    """(L, G) two-sided, each item and group by itself."""
    p_together: Floats
    """(L, G) p-values that hold for all items and groups together (largest deviation, Westfall and Young 1993)."""
    distance: Floats
    """(L,) half the summed |beyond| over the item's count."""
    null_distance: Floats
    """(R,) the mean of the distances under exchanged labels."""
    p_distance: float | None
    """P-value of the mean distance, where tested."""
    error: float | None
    """Standard error of the mean distance, without one part of the clusters at a time; ``None`` with one cluster."""
    parts: int


class _Sums:
    """What is needed to compare one labelling of the units with what is even: all sums by item, of sparse matrices."""

    def __init__(self, matrix: Any, weights: Floats, exchange: Exchange, n_groups: int) -> None:
        n, n_units = len(weights), len(exchange.labels)
        gather = sparse.csr_matrix((np.ones(n), (exchange.unit, np.arange(n))), shape=(n_units, n))
        self.x = sparse.csr_matrix(gather @ matrix)
        self.w = np.asarray(gather @ weights)
        self.exchange, self.n_groups = exchange, n_groups
        self.whole = exchange.block == 0
        n_strata = int(exchange.block.max()) + 1
        member = sparse.csr_matrix((np.ones(n_units), (exchange.block, np.arange(n_units))), shape=(n_strata, n_units))
        self.weigh = sparse.csr_matrix(member @ sparse.diags(self.w))
        total = np.asarray(self.weigh.sum(axis=1)).ravel()
        self.rates = sparse.csr_matrix(sparse.diags(1 / np.where(total > 0, total, 1.0)) @ (member @ self.x))
        self.totals = np.asarray(self.x.sum(axis=0)).ravel()
        self.inside = self._inside_variance(member)
        self._weigh_whole_clusters()

    def _weigh_whole_clusters(self) -> None:
        """Weights of whole clusters by item: their size over what its images have in common.

        n / (1 + (n - 1) r), with the item's correlation r between images of a cluster (from analysis of variance): a
        cluster of ten equal images says as much as one image. It depends on the item and the size alone, not on the
        labels, so that exchanging labels stays fair.
        """
        whole = self.whole
        sizes, self.size_of = np.unique(np.where(whole, self.w, 0.0), return_inverse=True)
        part = sparse.csr_matrix(sparse.diags(whole.astype(np.float64)) @ self.x)
        weights = sizes / (1 + np.maximum(sizes - 1, 0) * _correlation(part, self.w, whole)[:, None])  # (L, sizes)
        place = part.tocoo()
        size = self.w[place.row]
        own = np.divide(weights[place.col, self.size_of[place.row]], size, out=np.ones(len(size)), where=size > 0)
        shape = (place.row, place.col)
        scaled = place.data * own
        self.score = sparse.csr_matrix((scaled, shape), shape=part.shape)
        self.squares = sparse.csr_matrix((scaled**2, shape), shape=part.shape)
        self.products = sparse.csr_matrix((scaled * own * size, shape), shape=part.shape)
        self.weights = weights
        count = np.bincount(self.size_of[whole], minlength=len(sizes)).astype(np.float64)
        self.weight_sum, self.weight_squares = weights @ count, weights**2 @ count
        given = np.asarray(self.score.sum(axis=0)).ravel()
        self.rate = np.divide(given, self.weight_sum, out=np.zeros(len(given)), where=self.weight_sum > 0)
        of_all = np.asarray(self.squares.sum(axis=0)).ravel()
        of_all -= 2 * self.rate * np.asarray(self.products.sum(axis=0)).ravel()
        self.scatter = of_all + self.rate**2 * self.weight_squares
        self.by_size = sparse.csr_matrix(
            (whole.astype(np.float64), (self.size_of, np.arange(len(whole)))), shape=(len(sizes), len(whole))
        )

    def _inside_variance(self, member: Any) -> Floats:
        """(L, G) variance of the counts from exchanges inside mixed clusters, the same for every labelling."""
        exchange = self.exchange
        mixed = sparse.diags((~self.whole).astype(np.float64))
        part = sparse.csr_matrix(mixed @ self.x)
        size = np.asarray(member.sum(axis=1)).ravel()
        scale = sparse.diags(size / np.maximum(size - 1, 1))
        rates = self.rates
        w_squares = sparse.diags(np.asarray(member @ np.where(self.whole, 0.0, self.w**2)))
        scatter = member @ part.multiply(part)
        scatter = scatter - 2 * rates.multiply(member @ (sparse.diags(self.w) @ part))
        scatter = scale @ (scatter + w_squares @ rates.multiply(rates))
        shares = np.stack(
            [np.asarray(member @ (exchange.labels == g)) / np.maximum(size, 1) for g in range(self.n_groups)],
            axis=1,
        )
        return np.asarray((sparse.csr_matrix(scatter).T) @ (shares * (1 - shares)))

    def beyond(self, members: Floats) -> Floats:
        """(L, b) the counts of a group less what is even; ``members`` (U, b) is 1 where a unit is of the group."""
        return np.asarray(self.x.T @ members - self.rates.T @ (self.weigh @ members))

    def scaled(self, members: Floats, beyond: Floats, inside: Floats) -> Floats:
        """(L, b) how far a group is from even in units of its error: whole clusters by weight, and inside the others.

        ``beyond`` (L, b) is that of all units, ``inside`` (L,) its variance inside mixed clusters.
        """
        sizes = self.by_size @ members
        rate, weight = self.rate[:, None], self.weights @ sizes
        score = self.score.T @ members - rate * weight
        if inside.any():
            mixed = members * ~self.whole[:, None]
            score = score + self.x.T @ mixed - self.rates[1:].T @ (self.weigh[1:] @ mixed)
        own = self.squares.T @ members - 2 * rate * (self.products.T @ members) + rate**2 * (self.weights**2 @ sizes)
        share = weight / np.where(self.weight_sum > 0, self.weight_sum, 1.0)[:, None]
        variance = np.clip((1 - 2 * share) * own + share**2 * self.scatter[:, None], 0, None) + inside[:, None]
        error = np.sqrt(variance)
        return np.asarray(np.divide(score, error, out=np.zeros_like(beyond), where=error > 1e-9))


def _correlation(counts: Any, sizes: Floats, whole: NDArray[np.bool_]) -> Floats:
    """(L,) how alike the images of a cluster are in each item, in [0, 1]; ``counts`` (U, L), ``sizes`` (U,)."""
    n, n_clusters = float(sizes[whole].sum()), int(whole.sum())
    if n_clusters < 2 or n <= n_clusters:
        return np.ones(counts.shape[1])
    total = np.asarray(counts.sum(axis=0)).ravel()
    shares = sparse.diags(np.where(whole, 1 / np.maximum(sizes, 1), 0.0)) @ counts
    squares = np.asarray(counts.multiply(shares).sum(axis=0)).ravel()
    between = np.clip(squares - total**2 / n, 0, None) / (n_clusters - 1)
    inside = np.clip(total - squares, 0, None) / (n - n_clusters)  # images have an item or not
    typical = (n - float((sizes[whole] ** 2).sum()) / n) / (n_clusters - 1)
    scale = between + (typical - 1) * inside
    correlation = np.divide(between - inside, scale, out=np.ones(len(total)), where=scale > 0)
    return np.asarray(np.clip(correlation, 0, 1))


def item_lean(
    matrix: Any,
    weights: Floats,
    exchange: Exchange,
    *,
    n_groups: int,
    permutations: int,
    seed: int,
    tested: bool = True,
) -> ItemLean:
    """Each item's count in each group against exchanged labels.

    ``exchange`` is that of :func:`~equipoise.measure.stats.exchange.in_clusters`.
    ``matrix`` (n, L): how often each image has each item, sparse; ``weights`` (n,): what an image counts for in the
    group's own share (1; for mentions, how many it has). Even is, for whole clusters, the item's rate among them all;
    inside a cluster of several groups, its rate there. P-values weigh clusters by what their images have in common and
    take deviations in units of a cluster-robust error, anew for every labelling, so that a group whose clusters are
    larger is compared fairly (Janssen 1997); that of the mean distance is of the mean deviation so scaled.
    ``tested=False`` leaves ``p_value`` and ``p_together`` empty, where an exact law gives them.

    >>> from equipoise.measure.stats.exchange import in_clusters
    >>> labels, clusters = np.repeat([0, 1], 20), np.repeat(np.arange(8), 5)
    >>> has_item = np.repeat([1.0, 0.0], 20)[:, None]
    >>> found = item_lean(has_item, np.ones(40), in_clusters(labels, clusters), n_groups=2, permutations=199, seed=0)
    >>> found.beyond.tolist(), 0.01 < float(found.p_value[0, 0]) < 0.06  # 4 of 4 clusters: 2 of 70 ways
    ([[10.0, -10.0]], True)
    """
    sums = _Sums(sparse.csr_matrix(matrix), weights, exchange, n_groups)
    asked = range(1 if n_groups == 2 else n_groups)  # of two groups the second mirrors the first
    rng = np.random.default_rng(seed)
    observed, observed_z = _compared(sums, exchange.labels[None], asked, tested)
    null_z, distances = [], []
    mean, square = np.zeros(observed.shape[1:]), np.zeros(observed.shape[1:])
    for block in exchange.draws(permutations, rng):
        for part in np.array_split(block, max(1, len(block) * len(sums.totals) // 4_000_000)):
            beyond, z = _compared(sums, part, asked, tested)
            mean += beyond.sum(axis=0)
            square += (beyond**2).sum(axis=0)
            distances.append(_distance(beyond, sums.totals, n_groups).mean(axis=1))
            null_z.append(z.astype(np.float32))
    spread = np.sqrt(np.clip(square / permutations - (mean / permutations) ** 2, 0, None))
    alone = together = np.zeros((0, 0))
    p_distance = None
    if tested:
        scaled = np.concatenate(null_z)
        alone, together = _p_values(observed_z[0].astype(np.float32), scaled)
        far = np.abs(scaled).mean(axis=(1, 2))
        p_distance = float((1 + (far >= np.abs(observed_z).mean() - _TIE).sum()) / (permutations + 1))
    error, parts = _error(sums, rng)
    return ItemLean(
        _both(observed[0], n_groups, -1.0),
        _both(spread, n_groups, 1.0),
        _both(alone, n_groups, 1.0) if tested else alone,
        _both(together, n_groups, 1.0) if tested else together,
        _distance(observed, sums.totals, n_groups)[0],
        np.concatenate(distances),
        p_distance,
        error,
        parts,
    )


def _compared(sums: _Sums, labellings: NDArray[Any], asked: range, tested: bool) -> tuple[Floats, Floats]:
    """(b, L, A) what groups have beyond even under each of ``labellings`` (b, U), and in units of their error."""
    beyond, scaled = [], []
    for g in asked:
        members = (labellings == g).T.astype(np.float64)
        excess = sums.beyond(members)
        beyond.append(excess.T)
        if tested:
            scaled.append(sums.scaled(members, excess, sums.inside[:, g]).T)
    return np.stack(beyond, axis=2), np.stack(scaled, axis=2) if tested else np.zeros((len(labellings), 0, 0))


def _both(values: Floats, n_groups: int, sign: float) -> Floats:
    """(L, G) from the groups that were asked for."""
    return np.concatenate([values, sign * values], axis=1) if n_groups == 2 else values


def _distance(beyond: Floats, totals: Floats, n_groups: int) -> Floats:
    """(b, L) half the summed |beyond| over the item's count."""
    return np.asarray(np.abs(beyond).sum(axis=2) / (1 if n_groups == 2 else 2) / totals)


def _p_values(observed: NDArray[Any], null: NDArray[Any]) -> tuple[Floats, Floats]:
    """Two-sided p-values of ``observed`` (L, A) by itself and together with all others, from ``null`` (R, L, A)."""
    draws = len(null)
    above = (null >= observed - _TIE).sum(axis=0)
    below = (null <= observed + _TIE).sum(axis=0)
    alone = np.minimum(1.0, 2 * (1 + np.minimum(above, below)) / (draws + 1))
    pool = np.concatenate([observed[None], null])
    high, low = np.quantile(pool, 1 - EDGE, axis=0), -np.quantile(pool, EDGE, axis=0)
    high = np.where(high > _TIE, high, np.maximum(pool.max(axis=0), _TIE))
    low = np.where(low > _TIE, low, np.maximum(-pool.min(axis=0), _TIE))
    own = np.maximum(observed / high, -observed / low)
    largest = np.maximum((null / high).max(axis=(1, 2)), (-null / low).max(axis=(1, 2)))
    order = np.sort(largest)
    reached = draws - np.searchsorted(order, own.ravel() - _TIE, side="left").reshape(own.shape)
    return np.asarray(alone), np.asarray(np.maximum(alone, (1 + reached) / (draws + 1)))


def _error(sums: _Sums, rng: np.random.Generator) -> tuple[float | None, int]:
    """Standard error of the mean distance without one part of the clusters at a time, and the number of parts."""
    exchange = sums.exchange
    keys = np.where(sums.whole, np.arange(len(exchange.labels)), len(exchange.labels) + exchange.block)
    codes = np.unique(keys, return_inverse=True)[1]
    n_clusters = int(codes.max()) + 1
    parts = min(BLOCKS, n_clusters)
    if parts < 2:
        return None, parts
    part_of = rng.permutation(np.arange(n_clusters) % parts)[codes]
    whole, counts = sums.whole, sums.x
    mixed = np.flatnonzero(~whole)  # what their images have beyond even does not depend on other clusters
    fixed = counts[mixed] - sparse.diags(sums.w[mixed]) @ sums.rates[exchange.block[mixed]]
    one_hot = np.eye(sums.n_groups)[exchange.labels]
    values = []
    for part in range(parts):
        stays = part_of != part
        members = one_hot * (stays & whole)[:, None]
        mine = counts.T @ members
        sizes = sums.w @ members
        rate = mine.sum(axis=1) / max(1e-300, float(sizes.sum()))
        beyond = mine - rate[:, None] * sizes + fixed.T @ (one_hot * stays[:, None])[mixed]
        total = np.asarray(counts.T @ stays.astype(np.float64))
        there = total > 0
        if there.any():
            values.append(float((np.abs(beyond[there]).sum(axis=1) / 2 / total[there]).mean()))
    spread = np.array(values)
    return float(np.sqrt((len(spread) - 1) / len(spread) * ((spread - spread.mean()) ** 2).sum())), parts
