"""Who is in a dataset: the share of each group, against even shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats as sps

from equipoise.array_types import Floats, Positions
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count
from equipoise.measure.dataset.lean import cluster_codes
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import p_values
from equipoise.measure.stats.shares import share_interval, wilson_interval
from equipoise.pace import steps

EXACT_LIMIT = 40_000_000
"""Clusters times groups times draws up to which names are exchanged in every cluster of several groups; beyond it,
their sum is drawn from the normal law with the same covariance."""
_TIE = 1e-9


@dataclass(frozen=True)
class GroupCounts:
    """How many images show each group."""

    shares: Mapping[str, Estimate]
    """Of the images with a defined group; chance is 1 / G: what a balanced dataset has."""
    evenness: Estimate
    """Entropy of the shares over ln G: 1 = equal shares, 0 = one group only; chance from balanced sampling."""
    counts: Mapping[str, int]
    n_undefined: int
    p_together: Mapping[str, float] = field(default_factory=dict)
    """P-values of the shares that hold for all groups together (largest deviation, Westfall and Young 1993); the
    smallest is that of the question whether the groups are even at all."""
    n_clusters: int = 0
    """Independent units: sources or sets, images where nothing says what they come from."""
    effective_n: float = 0.0
    """How many independent images would be as certain; never more than there are."""


@metric(
    "group_counts",
    takes="labels",
    summary="Counts, shares and evenness of groups.",
    citation="Shannon 1948",
    formula="n_a / n; evenness -sum p ln p / ln G",
    range="[0, 1]",
    direction="1: equal shares",
    chance="1 / G; evenness: draws from equal groups",
    when_it_lies="Undefined images are left out; who is named is not who is there.",
    unit="share",
    rows={"group_share": {}, "group_evenness": {"main": 15}},
)
def group_counts(
    groups: Groups, *, clusters: Any = None, draws: int = 2000, seed: int = 0, level: float = 0.95
) -> GroupCounts:
    """Counts and shares of the groups of a dataset, with the evenness a balanced dataset of this size would have.

    Share: Wilson interval, exact binomial p-value against 1 / G. Evenness: -sum p ln p / ln G; its null draws n
    images from G equally likely groups, so that a small dataset is not called uneven for being small.

    With ``clusters`` the null gives the groups of every cluster new names at random: a cluster of five images of one
    group may as well be of any other, and a set that has all groups stays even. Intervals of shares are cluster-robust
    (``share_interval``).

    Args:
        groups: of the images, of two names or more; images of undefined group are counted apart.
        clusters: (n,) images of one source or set, which are not independent.
        draws: how many datasets are drawn under the null.
        seed: which datasets are drawn.
        level: confidence level of the intervals.

    Returns:
        The count and the share of each group, and the evenness, against equal shares.

    >>> found = group_counts(Groups.from_values(["f", "m", "m", "m", None]))
    >>> found.counts, found.shares["m"].value, found.n_undefined
    ({'f': 1, 'm': 3}, 0.75, 1)
    >>> found = group_counts(Groups.from_values(["f"] * 5 + ["m"] * 15), clusters=np.repeat(np.arange(4), 5))
    >>> 0.5 < found.shares["m"].p_value < 0.75, found.n_clusters  # three of four sources: 10 of 16 ways
    (True, 4)
    """
    counts = groups.counts()
    n, n_groups = int(counts.sum()), groups.n_groups
    if n == 0:
        raise InputError("no image has a defined group; there is nothing to count")
    if n_groups < 2:
        raise InputError(f"only one group is named ({groups.names[0]!r}); shares compare at least two")
    as_count(draws, "draws", least=2)
    rng = np.random.default_rng(seed)
    all_codes = cluster_codes(clusters, len(groups))
    labels = groups.labels[groups.defined].astype(np.intp)
    codes = None if all_codes is None else cluster_codes(all_codes[groups.defined], n)
    sampled = _sampled(counts, draws, rng) if codes is None else _renamed(labels, codes, n_groups, draws, rng)
    size = float(n) if codes is None else effective_n(labels, codes, n_groups)
    notes = () if codes is None else (_independent(n, int(codes.max()) + 1, size),)
    alone = (*notes, no_interval("one independent unit"))
    dropped = {"undefined group": groups.n_undefined} if groups.n_undefined else {}
    shares = {}
    for g, name in enumerate(groups.names):
        low, high = _interval(labels == g, codes, level)
        p_value = float(sampled.p_alone[g])
        if codes is None:
            p_value = min(1.0, float(sps.binomtest(int(counts[g]), n, 1 / n_groups).pvalue))
        shares[name] = Estimate(
            int(counts[g]) / n,
            low,
            high,
            null_mean=1 / n_groups,
            null_sd=float(sampled.counts[:, g].std(ddof=1)) / n if codes is not None else _binomial_sd(n, n_groups),
            p_value=p_value,
            n=n,
            n_groups=n_groups,
            dropped=dropped,
            notes=alone if low is None else notes,
            level=level,
        )
    together = np.maximum(sampled.p_together, [share.p_value or 0.0 for share in shares.values()])
    if n_groups == 2 and codes is None:
        together = np.array([share.p_value for share in shares.values()])
    evenness = _evenness_estimate(counts, sampled.counts, together.min(), shares, size, rng, level)
    return GroupCounts(
        shares,
        Estimate(
            **evenness,
            n=n,
            n_groups=n_groups,
            dropped=dropped,
            notes=alone if evenness["ci_low"] is None else notes,
            level=level,
        ),
        dict(zip(groups.names, counts.tolist(), strict=True)),
        groups.n_undefined,
        dict(zip(groups.names, together.tolist(), strict=True)),
        n if codes is None else int(codes.max()) + 1,
        size,
    )


@dataclass(frozen=True)
class _Sampled:
    counts: Floats
    """(R, G) counts of the groups in draws of the null."""
    p_alone: Floats
    p_together: Floats


def _sampled(counts: NDArray[Any], draws: int, rng: np.random.Generator) -> _Sampled:
    """Images drawn from equally likely groups."""
    n, n_groups = int(counts.sum()), len(counts)
    null = rng.multinomial(n, np.full(n_groups, 1 / n_groups), size=draws).astype(np.float64)
    return _tested(np.abs(counts - n / n_groups), np.abs(null - n / n_groups), null)


def _renamed(labels: Positions, codes: Positions, n_groups: int, draws: int, rng: np.random.Generator) -> _Sampled:
    """The groups of each cluster under other names, and how far the sums then are from even, in their own spread."""
    n_clusters = int(codes.max()) + 1
    table = np.bincount(codes * n_groups + labels, minlength=n_clusters * n_groups).reshape(n_clusters, n_groups)
    size = table.sum(axis=1)
    away = table - size[:, None] / n_groups
    mixed = (table > 0).sum(axis=1) > 1
    moved, squares = np.zeros((draws, n_groups)), np.zeros((draws, n_groups))
    for images in np.unique(size[~mixed]):
        same = int((size[~mixed] == images).sum())
        chosen = rng.multinomial(same, np.full(n_groups, 1 / n_groups), size=draws)
        moved += images * (chosen - same / n_groups)
        squares += images**2 * (chosen * (1 - 2 / n_groups) + same / n_groups**2)
    part = away[mixed & (np.abs(away) > _TIE).any(axis=1)]
    if part.size * draws > EXACT_LIMIT:
        total = float((part**2).sum()) / n_groups
        root = np.sqrt(total * n_groups / (n_groups - 1)) * (np.eye(n_groups) - 1 / n_groups)
        moved += rng.standard_normal((draws, n_groups)) @ root
        squares += total
    elif len(part):
        for rows in steps(np.array_split(np.arange(draws), max(1, part.size * draws // 4_000_000))):
            shuffled = rng.permuted(np.tile(part, (len(rows), 1, 1)), axis=2)
            moved[rows] += shuffled.sum(axis=1)
            squares[rows] += (shuffled**2).sum(axis=1)
    own = _scaled(away.sum(axis=0), (away**2).sum(axis=0))
    return _tested(own, _scaled(moved, squares), np.clip(moved + size.sum() / n_groups, 0, size.sum()))


def _scaled(sums: Floats, squares: Floats) -> Floats:
    return np.asarray(np.divide(np.abs(sums), np.sqrt(squares), out=np.zeros(np.shape(sums)), where=squares > _TIE))


def _tested(own: Floats, null: Floats, counts: Floats) -> _Sampled:
    total = len(null) + 1
    alone = (1 + (null >= own - _TIE).sum(axis=0)) / total
    together = (1 + (null.max(axis=1)[:, None] >= own - _TIE).sum(axis=0)) / total
    return _Sampled(counts, np.asarray(alone), np.asarray(together))


def effective_n(labels: Positions, clusters: Positions, n_groups: int) -> float:
    """How many independent images would give the shares of ``labels`` (n,) with the error that ``clusters`` (n,) leave.

    Sum of p (1 - p) over the summed squared errors (Rao and Scott 1981); where all clusters are alike, each counts as
    one image (unequal ones as (sum of sizes)² / sum of squared sizes). Never more than n.

    >>> round(effective_n(np.repeat([0, 1, 0, 1], 5), np.repeat(np.arange(4), 5), 2), 1)
    3.0
    """
    n, n_clusters = len(labels), int(clusters.max()) + 1
    table = np.bincount(clusters * n_groups + labels, minlength=n_clusters * n_groups).reshape(n_clusters, n_groups)
    size, shares = table.sum(axis=1), table.sum(axis=0) / n
    squares = float(((table - size[:, None] * shares) ** 2).sum()) * n_clusters / max(1, n_clusters - 1) / n**2
    if squares <= _TIE:
        return float(n**2 / (size.astype(np.float64) ** 2).sum())
    return float(min(n, (shares * (1 - shares)).sum() / squares))


def _independent(n: int, clusters: int, size: float) -> str:
    return f"{n:,} images from {clusters:,} sources or sets, as certain as {size:,.0f} independent images"


def _binomial_sd(n: int, n_groups: int) -> float:
    return float(np.sqrt((1 / n_groups) * (1 - 1 / n_groups) / n))


def _interval(mine: NDArray[np.bool_], codes: Positions | None, level: float) -> tuple[float | None, float | None]:
    if codes is None:
        return wilson_interval(int(mine.sum()), len(mine), level=level)
    return share_interval(mine.astype(np.float64), clusters=codes, level=level) or (None, None)


def _evenness_estimate(
    counts: NDArray[Any],
    null_counts: Floats,
    p_even: float,
    shares: Mapping[str, Estimate],
    size: float,
    rng: np.random.Generator,
    level: float,
) -> dict[str, Any]:
    """Value, interval, chance and p-value of the evenness.

    Of two groups the interval is that of a share, put through the entropy; of more, shares are drawn around the
    observed ones as certain as ``size`` images make them, and the interval reaches 1 where even shares are not ruled
    out: no draw is as even as that.
    """
    value = float(_evenness(counts[None])[0])
    null = _evenness(null_counts)
    low = high = None
    first = next(iter(shares.values()))
    if len(counts) == 2 and first.ci_low is not None and first.ci_high is not None:
        ends = np.array([[first.ci_low, 1 - first.ci_low], [first.ci_high, 1 - first.ci_high]])
        low, high = (float(end) for end in np.sort(_evenness(ends)))
        high = 1.0 if first.ci_low <= 0.5 <= first.ci_high else high
    elif len(counts) > 2 and first.ci_low is not None:
        drawn = rng.dirichlet(size * counts / counts.sum() + 0.5, size=len(null_counts))
        low, high = (float(end) for end in np.quantile(_evenness(drawn), [(1 - level) / 2, (1 + level) / 2]))
        low, high = min(low, value), 1.0 if p_even >= 1 - level else max(high, value)
    return {
        "value": value,
        "ci_low": low,
        "ci_high": high,
        "null_mean": float(null.mean()),
        "null_sd": float(null.std(ddof=1)),
        "p_value": p_values(value, null, alternative="less").value,
    }


def _evenness(counts: NDArray[Any]) -> Floats:
    shares = counts / counts.sum(axis=1, keepdims=True)
    logs = np.zeros(shares.shape)
    np.log(shares, out=logs, where=shares > 0)
    return np.asarray(np.clip(-(shares * logs).sum(axis=1) / np.log(counts.shape[1]), 0.0, 1.0))
