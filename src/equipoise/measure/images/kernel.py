"""Kernel distances between two sets of features: MMD, KID, CMMD. Unbiased, with exact jackknife intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_matrix, chosen, row_blocks, same_width, unit_rows
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import p_values
from equipoise.measure.stats.shares import jackknife_error, normal_estimate

Kernel = Callable[[Floats, Floats], Floats]
"""From rows (n, d) and (m, d) to their kernel values (n, m)."""

CMMD_SIGMA = 10.0
CMMD_SCALE = 1000.0
PERMUTATION_LIMIT = 8000


def polynomial_kernel(degree: int = 3, gamma: float | None = None, offset: float = 1.0) -> Kernel:
    """(gamma <x, y> + offset)^degree. The defaults are KID's kernel (Binkowski 2018).

    Args:
        degree: the power.
        gamma: the scale of the inner product; ``None`` is 1 / d.
        offset: what is added to it.

    Returns:
        A function of two matrices of rows, for :func:`kernel_distance`.

    >>> polynomial_kernel()(np.ones((1, 2)), np.ones((1, 2))).tolist()
    [[8.0]]
    """

    def kernel(x: Floats, y: Floats) -> Floats:
        scale = 1.0 / x.shape[1] if gamma is None else gamma
        return np.asarray((scale * (x @ y.T) + offset) ** degree)

    return kernel


def gaussian_kernel(sigma: float) -> Kernel:
    """exp(-|x - y|^2 / (2 sigma^2)).

    >>> gaussian_kernel(1.0)(np.zeros((1, 1)), np.zeros((1, 1))).tolist()
    [[1.0]]
    """
    if not sigma > 0:
        raise InputError(f"sigma must be above 0, not {sigma}")

    def kernel(x: Floats, y: Floats) -> Floats:
        squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * (x @ y.T)
        return np.asarray(np.exp(np.clip(squares, 0, None) / (-2 * sigma**2)))

    return kernel


@metric(
    "kernel_distance",
    takes="features",
    summary="Unbiased squared MMD of two sets of features.",
    citation="Gretton 2012",
    formula="mean k(x, x') + mean k(y, y') - 2 mean k(x, y), no self pairs",
    range="about [0, inf)",
    direction="lower is closer",
    better="lower",
    chance="0, by permutation",
    when_it_lies="Sees what the kernel sees; can be negative.",
)
def kernel_distance(
    real: Any,
    generated: Any,
    kernel: Kernel | None = None,
    *,
    permutations: int = 0,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Unbiased squared maximum mean discrepancy of two sets of features (Gretton 2012, Eq. 3).

    MMD^2 = mean_{i != j} k(x_i, x_j) + mean_{i != j} k(y_i, y_j) - 2 mean k(x_i, y_j). Chance level 0 (two
    samples of one distribution), can be negative; lower is closer. Interval: exact leave-one-out jackknife.

    Args:
        real: (n, d) features of real images.
        generated: (m, d) features of generated images, from the same network.
        kernel: k, from rows (., d) on either side to their kernel values; ``None`` is KID's.
        permutations: above 0, so many shuffles add an exact-level p-value that the two sets differ.
        seed: which shuffles are drawn.
        level: confidence level of the interval.

    Returns:
        The squared discrepancy, with a p-value if asked for.

    >>> rng = np.random.default_rng(0)
    >>> e = kernel_distance(rng.normal(size=(60, 2)), rng.normal(2, 1, (60, 2)), permutations=99)
    >>> e.p_value, e.null_mean, bool(e.ci_low > 0)
    (0.01, 0.0, True)
    """
    x = as_matrix(real, "real", min_rows=2)
    y = as_matrix(generated, "generated", min_rows=2)
    same_width(x, "real", y, "generated")
    k = kernel or polynomial_kernel()
    sums = _KernelSums.of(x, y, k)
    estimate = sums.estimate(level)
    if not permutations:
        return estimate
    draws = _permuted_distances(x, y, k, as_count(permutations, "permutations", least=2), seed)
    p_value = p_values(estimate.value, draws, rng=seed).value
    return replace(estimate, null_sd=float(draws.std(ddof=1)), p_value=p_value)


@dataclass(frozen=True)
class _KernelSums:
    """Row sums of the three kernel blocks without self pairs: enough for the value and its jackknife."""

    xx: Floats
    yy: Floats
    xy: Floats
    yx: Floats

    @classmethod
    def of(cls, x: Floats, y: Floats, kernel: Kernel) -> _KernelSums:
        xx, own_y, xy, yx = np.empty(len(x)), np.empty(len(y)), np.empty(len(x)), np.zeros(len(y))
        for rows in row_blocks(len(x), len(x) + len(y)):
            own = kernel(x[rows], x)
            own[np.arange(len(own)), np.arange(rows.start, rows.stop)] = 0.0
            across = kernel(x[rows], y)
            xx[rows], xy[rows] = own.sum(axis=1), across.sum(axis=1)
            yx += across.sum(axis=0)
        for rows in row_blocks(len(y), len(y)):
            own = kernel(y[rows], y)
            own[np.arange(len(own)), np.arange(rows.start, rows.stop)] = 0.0
            own_y[rows] = own.sum(axis=1)
        return cls(xx, own_y, xy, yx)

    def distance(self) -> float:
        n, m = len(self.xx), len(self.yy)
        return float(self.xx.sum() / (n * (n - 1)) + self.yy.sum() / (m * (m - 1)) - 2 * self.xy.sum() / (n * m))

    def estimate(self, level: float) -> Estimate:
        n, m = len(self.xx), len(self.yy)
        if min(n, m) < 3:
            note = no_interval("fewer than 3 rows")
            return Estimate(self.distance(), null_mean=0.0, n=n + m, notes=(note,), level=level)
        error = jackknife_error(*self.left_out())
        return normal_estimate(self.distance(), error, n + m, null_mean=0.0, level=level)

    def left_out(self) -> tuple[Floats, Floats]:
        """The distance without each x, and without each y."""
        n, m = len(self.xx), len(self.yy)
        xx, yy, xy = self.xx.sum(), self.yy.sum(), self.xy.sum()
        without_x = (xx - 2 * self.xx) / ((n - 1) * (n - 2)) + yy / (m * (m - 1))
        without_x = without_x - 2 * (xy - self.xy) / ((n - 1) * m)
        without_y = (yy - 2 * self.yy) / ((m - 1) * (m - 2)) + xx / (n * (n - 1))
        without_y = without_y - 2 * (xy - self.yx) / (n * (m - 1))
        return without_x, without_y


def _permuted_distances(x: Floats, y: Floats, kernel: Kernel, permutations: int, seed: int) -> Floats:
    n, m = len(x), len(y)
    total = n + m
    if total > PERMUTATION_LIMIT:
        raise InputError(
            f"a permutation test of {total} rows needs a kernel matrix of {total} x {total}; "
            f"take a random part of at most {PERMUTATION_LIMIT} rows, or permutations=0"
        )
    both = np.vstack([x, y])
    matrix = kernel(both, both)
    np.fill_diagonal(matrix, 0.0)
    everything = float(matrix.sum())
    rng = np.random.default_rng(seed)
    draws = np.empty(permutations)
    for block in row_blocks(permutations, total):
        count = block.stop - block.start
        ranks = rng.random((count, total)).argpartition(n - 1, axis=1)[:, :n]
        inside = np.zeros((count, total))
        np.put_along_axis(inside, ranks, 1.0, axis=1)
        reach = inside @ matrix
        xx = (reach * inside).sum(axis=1)
        xy = reach.sum(axis=1) - xx
        yy = everything - xx - 2 * xy
        draws[block] = xx / (n * (n - 1)) + yy / (m * (m - 1)) - 2 * xy / (n * m)
    return draws


@metric(
    "kid",
    takes="features",
    summary="Kernel inception distance over subsets.",
    citation="Binkowski 2018",
    formula="mean MMD^2 over subsets, kernel (<x, y> / d + 1)^3",
    range="about [0, inf)",
    direction="lower is closer",
    better="lower",
    chance="0",
    when_it_lies="The sd over subsets is not the error of the mean.",
)
def kid(
    real: Any, generated: Any, *, subsets: int = 100, subset_size: int = 1000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """Kernel inception distance as published: mean unbiased MMD^2 over random subsets (Binkowski 2018).

    Polynomial kernel (<x, y> / d + 1)^3. The interval is for the whole sample: the subsets' variance scaled to
    all rows, plus the Monte-Carlo error of the mean. Up to some 10,000 rows :func:`kernel_distance` is
    sharper and cheaper.

    Args:
        real: (n, d) features of real images.
        generated: (m, d) features of generated images, from the same network.
        subsets: how many pairs of subsets, at least 2.
        subset_size: how many rows each has (all rows if fewer), drawn without replacement.
        seed: which subsets are drawn.
        level: confidence level of the interval.

    Returns:
        The mean over subsets, with their standard deviation in the notes.

    >>> rng = np.random.default_rng(0)
    >>> e = kid(rng.normal(size=(200, 4)), rng.normal(size=(200, 4)), subsets=20, subset_size=50)
    >>> bool(e.ci_low < 0 < e.ci_high)
    True
    """
    x = as_matrix(real, "real", min_rows=2)
    y = as_matrix(generated, "generated", min_rows=2)
    same_width(x, "real", y, "generated")
    as_count(subsets, "subsets", least=2)
    size = min(as_count(subset_size, "subset_size", least=2), len(x), len(y))
    if size == len(x) == len(y):
        note = "subset_size covers all rows, so every subset would be the whole: measured once, without subsets"
        return kernel_distance(x, y, level=level).with_notes(note)
    rng = np.random.default_rng(seed)
    kernel = polynomial_kernel()
    values = np.empty(subsets)
    for index in range(subsets):
        rows_x, rows_y = rng.choice(len(x), size, replace=False), rng.choice(len(y), size, replace=False)
        values[index] = _KernelSums.of(x[rows_x], y[rows_y], kernel).distance()
    variance = float(values.var(ddof=1))
    note = f"sd over {subsets} subsets of {size}: {np.sqrt(variance):.4g}"
    if min(len(x), len(y)) < 3:
        notes = (note, no_interval("fewer than 3 rows"))
        return Estimate(float(values.mean()), null_mean=0.0, n=len(x) + len(y), notes=notes, level=level)
    if 2 * size > min(len(x), len(y)):
        # such subsets are nearly the same rows: their spread says little about other samples
        sampling = jackknife_error(*_KernelSums.of(x, y, kernel).left_out()) ** 2
    else:
        part = size / min(len(x), len(y))
        sampling = variance * part / (1 - part)
    error = float(np.sqrt(sampling + variance / subsets))
    return normal_estimate(float(values.mean()), error, len(x) + len(y), null_mean=0.0, level=level, notes=(note,))


@metric(
    "cmmd",
    takes="features",
    summary="Gaussian MMD of unit embeddings (CMMD).",
    citation="Jayasumana 2024",
    formula="1000 MMD^2 with sigma 10",
    range="about [0, inf)",
    direction="lower is closer",
    better="lower",
    chance="0",
    when_it_lies="Published values hold for one CLIP only.",
)
def cmmd(
    real: Any,
    generated: Any,
    *,
    sigma: float = CMMD_SIGMA,
    scale: float = CMMD_SCALE,
    variant: str = "unbiased",
    level: float = 0.95,
) -> Estimate:
    """CLIP-MMD: the squared Gaussian MMD of unit embeddings (Jayasumana 2024).

    Works on any embedding; published values hold for CLIP ViT-L/14@336.

    Args:
        real: (n, d) embeddings of real images.
        generated: (m, d) embeddings of generated images, from the same model.
        sigma: width of the Gaussian kernel, 10 in the paper.
        scale: what the squared MMD is multiplied by, 1,000 as published.
        variant: "unbiased" leaves self pairs out (the estimator the paper defines); "released_code" keeps them, which
            is biased upwards by a multiple of 1 / n.
        level: confidence level of the interval.

    Returns:
        The scaled distance; only "unbiased" has a chance level, 0.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 8))
    >>> round(cmmd(x, x, variant="released_code").value, 9) + 0.0
    0.0
    """
    chosen(variant, "variant", ("unbiased", "released_code"))
    x = unit_rows(real, "real", min_rows=2)
    y = unit_rows(generated, "generated", min_rows=2)
    same_width(x, "real", y, "generated")
    sums = _KernelSums.of(x, y, gaussian_kernel(sigma))
    estimate = sums.estimate(level)
    n, m = len(x), len(y)
    value, null_mean = estimate.value, estimate.null_mean
    if variant == "released_code":
        # every self pair of a Gaussian kernel is 1
        value = (sums.xx.sum() + n) / n**2 + (sums.yy.sum() + m) / m**2 - 2 * sums.xy.sum() / (n * m)
        null_mean = None
    shift = value - estimate.value
    return replace(
        estimate,
        value=float(scale * value),
        ci_low=None if estimate.ci_low is None else scale * (estimate.ci_low + shift),
        ci_high=None if estimate.ci_high is None else scale * (estimate.ci_high + shift),
        null_mean=null_mean,
    )
