"""Fréchet distance (FID) between two sets of features, by eigenvalues, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_matrix, same_width
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.shares import jackknife_error, normal_estimate

JACKKNIFE_FOLDS = 10


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter of a set of vectors: all the Fréchet distance needs, and shards merge by ``+``.

    >>> a, b = np.array([[0.0], [1.0]]), np.array([[5.0]])
    >>> merged, whole = Moments.of(a) + Moments.of(b), Moments.of(np.vstack([a, b]))
    >>> merged.n, bool(np.allclose(merged.covariance, whole.covariance))
    (3, True)
    """

    n: int
    mean: Floats
    scatter: Floats
    """(d, d) sum of outer products of the centred rows."""

    @classmethod
    def of(cls, features: Any, name: str = "features") -> Moments:
        """The moments of ``features`` (n, d)."""
        rows = as_matrix(features, name)
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred)

    @property
    def covariance(self) -> Floats:
        """(d, d) covariance with the n - 1 denominator."""
        if self.n < 2:
            raise InputError(f"a covariance needs at least 2 rows, there is {self.n}")
        return self.scatter / (self.n - 1)

    def __add__(self, other: Moments) -> Moments:
        if self.mean.shape != other.mean.shape:
            raise InputError(f"moments of {len(self.mean)} and {len(other.mean)} dimensions cannot be merged")
        n = self.n + other.n
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.n / n)
        scatter = self.scatter + other.scatter + np.outer(gap, gap) * (self.n * other.n / n)
        return Moments(n, mean, scatter)


def frechet_from_moments(first: Moments, second: Moments) -> float:
    """Fréchet distance |m1 - m2|^2 + tr(S1) + tr(S2) - 2 tr((S1 S2)^(1/2)) of two sets by their moments.

    tr((S1 S2)^(1/2)) is the sum of square roots of the eigenvalues of the symmetric L' S2 L with S1 = L L'
    (Cholesky; a symmetric root where S1 is singular). No matrix square root of a general matrix is taken.

    Args:
        first: the moments m1 and S1 of two rows or more.
        second: the moments m2 and S2 of two rows or more.

    Returns:
        The distance, never below 0.

    >>> a = Moments(3, np.zeros(1), np.array([[2.0]]))
    >>> b = Moments(3, np.ones(1), np.array([[8.0]]))
    >>> frechet_from_moments(a, b)
    2.0
    """
    if first.mean.shape != second.mean.shape:
        raise InputError(f"features have {len(first.mean)} and {len(second.mean)} dimensions; they must agree")
    s1, s2 = first.covariance, second.covariance
    root = _root(s1)
    product = root.T @ s2 @ root
    eigenvalues = linalg.eigvalsh(product, overwrite_a=True, check_finite=False)
    cross = float(np.sqrt(np.clip(eigenvalues, 0, None)).sum())
    return _assembled(first.mean, second.mean, float(np.trace(s1)), float(np.trace(s2)), cross)


def _root(covariance: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(vectors * np.sqrt(np.clip(values, 0, None)))


def _assembled(m1: Floats, m2: Floats, trace1: float, trace2: float, cross: float) -> float:
    # rounding may leave a tiny negative number for identical sets
    return max(0.0, float((m1 - m2) @ (m1 - m2)) + trace1 + trace2 - 2 * cross)


@metric(
    "frechet_distance",
    takes="features",
    summary="Distance of two sets of features by mean and covariance (FID).",
    citation="Heusel 2017",
    formula="|m1 - m2|^2 + tr S1 + tr S2 - 2 tr (S1 S2)^(1/2)",
    range="[0, inf)",
    direction="lower is closer",
    better="lower",
    chance="above 0, about c / n",
    when_it_lies="Biased upwards at small n: compare equal n only.",
)
def frechet_distance(real: Any, generated: Any, *, level: float = 0.95) -> Estimate:
    """Fréchet distance between two sets of features (FID, Heusel 2017).

    Range [0, inf), lower is closer. It is biased upwards by about c / n, c growing with d: compare only values of
    equal n, or use :func:`kernel_distance`, which is unbiased. The interval is sampling error around the biased
    value: delta method where both sets have more rows than dimensions, else a 10-fold jackknife
    (of fewer folds with fewer rows).

    Args:
        real: (n, d) features of real images.
        generated: (m, d) features of generated images, from the same network.
        level: confidence level of the interval.

    Returns:
        The distance with its interval; it has no chance level.

    >>> rng = np.random.default_rng(0)
    >>> e = frechet_distance(rng.normal(size=(500, 2)), rng.normal(1, 1, size=(500, 2)))
    >>> bool(e.ci_low < 2.0 < e.ci_high), e.n
    (True, 1000)
    """
    x = as_matrix(real, "real", min_rows=2)
    y = as_matrix(generated, "generated", min_rows=2)
    same_width(x, "real", y, "generated")
    n = len(x) + len(y)
    delta = _delta_frechet(x, y) if min(len(x), len(y)) > x.shape[1] else None
    notes: tuple[str, ...] = (f"biased upwards by a multiple of 1/n at {x.shape[1]} dimensions",)
    if delta is not None:
        return normal_estimate(*delta, n, least=0.0, level=level, notes=notes)
    value = _frechet_of_rows(x, y)
    folds = min(JACKKNIFE_FOLDS, len(x), len(y))
    if folds < 2 or min(len(x), len(y)) < 3:
        return Estimate(value, n=n, level=level, notes=(*notes, no_interval("fewer than 3 rows")))
    by_x = [_frechet_of_rows(np.delete(x, np.s_[f::folds], axis=0), y) for f in range(folds)]
    by_y = [_frechet_of_rows(x, np.delete(y, np.s_[f::folds], axis=0)) for f in range(folds)]
    error = jackknife_error(np.array(by_x), np.array(by_y))
    notes = (*notes, f"a singular covariance (few rows): the interval is a {folds}-fold jackknife")
    return normal_estimate(value, error, n, least=0.0, level=level, notes=notes)


def _frechet_of_rows(x: Floats, y: Floats) -> float:
    if min(len(x), len(y)) > x.shape[1]:
        return frechet_from_moments(Moments.of(x), Moments.of(y))
    # with few rows tr((S1 S2)^(1/2)) is the nuclear norm of the small matrix of centred inner products
    xc, yc = x - x.mean(axis=0), y - y.mean(axis=0)
    scale = np.sqrt((len(x) - 1.0) * (len(y) - 1.0))
    cross = float(linalg.svdvals(xc @ yc.T).sum() / scale)
    trace_x, trace_y = float((xc**2).sum()) / (len(x) - 1), float((yc**2).sum()) / (len(y) - 1)
    return _assembled(x.mean(axis=0), y.mean(axis=0), trace_x, trace_y, cross)


def _delta_frechet(x: Floats, y: Floats) -> tuple[float, float] | None:
    """Value and standard error; None where a covariance is singular.

    The derivative of the distance in S1 is I - T with T the optimal transport map between the two Gaussians, so an
    item's influence is 2 (m1 - m2)'(x - m1) + (x - m1)'(I - T)(x - m1), and likewise for y with the inverse map.
    """
    mx, my = x.mean(axis=0), y.mean(axis=0)
    xc, yc = x - mx, y - my
    s1, s2 = xc.T @ xc / (len(x) - 1), yc.T @ yc / (len(y) - 1)
    try:
        lower = np.linalg.cholesky(s1)
    except np.linalg.LinAlgError:
        return None
    values, vectors = linalg.eigh(lower.T @ s2 @ lower, check_finite=False)
    if values[0] <= 1e-10 * values[-1]:
        return None
    roots = np.sqrt(values)
    whitened = linalg.solve_triangular(lower, xc.T, lower=True, check_finite=False)
    through_x = roots @ (vectors.T @ whitened) ** 2
    through_y = (1 / roots) @ (vectors.T @ (lower.T @ yc.T)) ** 2
    gap = mx - my
    influence_x = 2 * xc @ gap + (xc**2).sum(axis=1) - through_x
    influence_y = -2 * yc @ gap + (yc**2).sum(axis=1) - through_y
    value = _assembled(mx, my, float(np.trace(s1)), float(np.trace(s2)), float(roots.sum()))
    variance = influence_x.var(ddof=1) / len(x) + influence_y.var(ddof=1) / len(y)
    return value, float(np.sqrt(variance))
