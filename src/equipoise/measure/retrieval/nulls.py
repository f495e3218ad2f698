"""What chance gives: random rankings of a pool, labels shuffled inside sets, and the exact law of MaxSkew.

- A query with a pool of its own: its top K under chance is a draw without replacement, so the counts follow the
  multivariate hypergeometric law (:func:`hypergeometric_counts`, :func:`random_rankings`, :func:`max_skew_law`).
- Queries that share images, or counterfactual sets of near-identical images: the ranking stays and the labels are
  shuffled, over the pool or inside each set (``stats.exchange.LabelShuffler``), so that what the queries share is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats as sps
from scipy.special import gammaln

from equipoise.array_types import Codes, Floats
from equipoise.errors import InputError
from equipoise.measure.retrieval.skew import desired_shares


def _pool(pool_counts: ArrayLike) -> NDArray[np.int64]:
    pool = np.asarray(pool_counts)
    if pool.ndim != 1 or not np.issubdtype(pool.dtype, np.integer) or (pool < 0).any() or pool.sum() == 0:
        raise InputError(f"pool_counts = {pool.tolist()}: give the number of images of each group, at least one image")
    return pool.astype(np.int64)


def hypergeometric_counts(pool_counts: ArrayLike, k: int, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Counts of each group among the top ``k`` of random rankings of a pool.

    Args:
        pool_counts: (G,) how many images of each group the pool holds.
        k: how many ranks are counted; of a smaller pool, all.
        draws: how many random rankings.
        rng: the generator that draws them.

    Returns:
        (draws, G) counts.

    >>> hypergeometric_counts([6, 4], 10, 2, np.random.default_rng(0)).tolist()
    [[6, 4], [6, 4]]
    """
    pool = _pool(pool_counts)
    size = min(k, int(pool.sum()))
    return rng.multivariate_hypergeometric(pool, size, size=draws, method="marginals").astype(np.int64)


def random_rankings(pool_counts: ArrayLike, length: int, draws: int, rng: np.random.Generator) -> Codes:
    """Group labels of the first images of random rankings of a pool.

    Args:
        pool_counts: (G,) how many images of each group the pool holds.
        length: how many ranks are kept; of a smaller pool, all.
        draws: how many random rankings.
        rng: the generator that draws them.

    Returns:
        (draws, T) labels, T = min(length, pool).

    >>> sorted(random_rankings([2, 1], 5, 1, np.random.default_rng(0))[0].tolist())
    [0, 0, 1]
    """
    pool = _pool(pool_counts)
    total = int(pool.sum())
    size = min(length, total)
    if size**2 < 2 * total:
        return _distinct(total, size, draws, rng, np.cumsum(pool))
    labels = np.repeat(np.arange(len(pool), dtype=np.int32), pool)
    step = max(1, 8_000_000 // total)
    parts = []
    for start in range(0, draws, step):
        rows = min(step, draws - start)
        parts.append(rng.permuted(np.broadcast_to(labels, (rows, total)), axis=1)[:, :size].copy())
    return np.concatenate(parts)


def _distinct(total: int, size: int, draws: int, rng: np.random.Generator, ends: NDArray[np.int64]) -> Codes:
    """Few of many: draw with replacement and throw away the rows that hold an image twice, which is exact."""
    picked = rng.integers(0, total, size=(draws, size))
    again = np.arange(draws)
    while again.size:
        ordered = np.sort(picked[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        picked[again] = rng.integers(0, total, size=(len(again), size))
    return np.searchsorted(ends, picked, side="right").astype(np.int32)


@dataclass(frozen=True)
class DiscreteLaw:
    """A distribution on few values, exactly."""

    values: Floats
    probabilities: Floats

    @property
    def mean(self) -> float:
        """The expected value."""
        return float(self.values @ self.probabilities)

    @property
    def sd(self) -> float:
        """The standard deviation."""
        return float(np.sqrt((self.values - self.mean) ** 2 @ self.probabilities))

    def quantile(self, q: float) -> float:
        """The smallest value whose cumulative probability reaches ``q``."""
        at = int(np.searchsorted(np.cumsum(self.probabilities), q - 1e-12))
        return float(self.values[min(at, len(self.values) - 1)])

    def sample(self, size: int | Sequence[int], rng: np.random.Generator) -> Floats:
        """Independent draws."""
        edges = np.cumsum(self.probabilities)
        at = np.searchsorted(edges, rng.random(size) * edges[-1], side="right")
        return np.asarray(self.values[np.minimum(at, len(self.values) - 1)])


def max_skew_law(pool_counts: ArrayLike, k: int, *, desired: str | ArrayLike = "pool") -> DiscreteLaw:
    """The exact law of MaxSkew@K (absent groups skipped) when the top K is drawn at random from the pool.

    P(MaxSkew <= t) = P(count_g <= c_g(t) for all g). Counts drawn without replacement are independent
    binomials given their sum, so that is one coefficient of a product of truncated polynomials for each value
    t can take. Exact, no draws.

    Args:
        pool_counts: (G,) how many images of each group the pool holds.
        k: how many images are retrieved; of a smaller pool, all.
        desired: the shares to compare with, as in :func:`desired_shares`; above 0 for every group in the pool.

    Returns:
        The values that MaxSkew can take, rising, with their probabilities.

    >>> round(max_skew_law([50] * 12, 12).mean, 2)
    1.01
    """
    pool = _pool(pool_counts)
    share = desired_shares(desired, pool)
    size = min(k, int(pool.sum()))
    if size < 1:
        raise InputError(f"k = {k}: give at least 1")
    lost = (share <= 0) & (pool > 0)
    if lost.any():
        raise InputError(
            f"desired gives group {int(np.argmax(lost))} the share 0 but it is in the pool; its skew would be infinite"
        )
    counts = np.arange(1, size + 1)
    with np.errstate(divide="ignore"):
        levels = np.where(counts <= pool[:, None], np.log(counts / size) - np.log(share)[:, None], np.inf)
    possible = np.unique(np.round(levels[np.isfinite(levels)], 12))
    below = np.array([_all_at_most(pool, (levels <= level + 1e-9).sum(axis=1), size) for level in possible])
    below = np.minimum(np.maximum.accumulate(below) / below[-1], 1.0)
    chance = np.diff(below, prepend=0.0)
    return DiscreteLaw(possible[chance > 0], chance[chance > 0])


def expected_ndkl(pool_counts: ArrayLike, length: int) -> float:
    """What NDKL is on average when the ranking is blind; exact, no draws.

    In a prefix of i ranks a group has a hypergeometric count c, and KL(p || d) is the sum over groups of
    (c / i) ln(c / (i d)), whose expectation needs the law of each count alone.

    Args:
        pool_counts: (G,) how many images of each group the pool holds; its own shares are the desired ones.
        length: how many ranks NDKL looks at; of a smaller pool, all.

    Returns:
        The mean over all rankings of the pool.

    >>> round(expected_ndkl([1, 1], 2), 4)
    0.425
    """
    pool = _pool(pool_counts)
    total = int(pool.sum())
    size = min(length, total)
    if size < 1:
        raise InputError(f"length = {length}: give at least 1")
    sizes, times = np.unique(pool[pool > 0], return_counts=True)
    prefixes = np.arange(1, size + 1)
    divergence = np.zeros(size)
    ln_factorial = gammaln(np.arange(total + 2) + 1.0)

    def ln_choose(n: Any, k: Any) -> Any:
        return ln_factorial[n] - ln_factorial[k] - ln_factorial[n - k]

    for count, n_groups in zip(sizes, times, strict=True):
        counts = np.arange(1, min(int(count), size) + 1)
        others = prefixes[:, None] - counts[None, :]
        there = (others >= 0) & (others <= total - count)
        rest = ln_choose(total - int(count), np.where(there, others, 0))
        ln_law = ln_choose(int(count), counts)[None, :] + rest - ln_choose(total, prefixes)[:, None]
        law = np.where(there, np.exp(ln_law), 0.0)
        shares = counts[None, :] / prefixes[:, None]
        divergence += n_groups * (law * shares * np.log(shares * total / count)).sum(axis=1)
    weights = 1 / np.log2(prefixes + 1)
    return float((weights * divergence).sum() / weights.sum())


def _all_at_most(pool: NDArray[np.int64], limits: NDArray[np.int64], size: int) -> float:
    """The chance that no group has more than its limit among ``size`` drawn, up to a constant factor."""
    if limits.sum() < size:
        return 0.0
    rate = size / pool.sum()
    product = np.ones(1)
    pairs, repeats = np.unique(np.stack([pool, limits], axis=1), axis=0, return_counts=True)
    for (members, limit), times in zip(pairs.tolist(), repeats.tolist(), strict=True):
        terms = sps.binom.pmf(np.arange(limit + 1), members, rate)
        for _ in range(times):
            product = np.convolve(product, terms)[: size + 1]
    return float(product[size]) if len(product) > size else 0.0
