"""Fidelity and variety of a generated set: precision, recall, density, coverage, Vendi score, Inception Score."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_matrix, chosen, row_blocks, same_width, unit_rows
from equipoise.measure.metric import metric
from equipoise.measure.stats import summarise
from equipoise.measure.stats.bootstrap import mean_interval, no_interval_note
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.shares import jackknife_error, normal_estimate, share_estimate


@dataclass(frozen=True)
class Manifold:
    """Four views of how a generated set lies in the real one, with one value per item behind each."""

    precision: Estimate
    """Share of generated items inside the real set's balls: are they real enough?"""
    recall: Estimate
    """Share of real items inside the generated set's balls: is everything covered?"""
    density: Estimate
    """Mean number of real balls around a generated item, over k; 1 for identical distributions, unbounded."""
    coverage: Estimate
    """Share of real items with a generated item inside their ball."""
    inside_real: Floats
    """(m,) precision's values."""
    inside_generated: Floats
    """(n,) recall's values."""
    balls: Floats
    """(m,) density's values."""
    covered: Floats
    """(n,) coverage's values."""


@metric(
    "precision_recall",
    takes="features",
    summary="Precision, recall, density and coverage.",
    citation="Kynkaanniemi 2019; Naeem 2020",
    formula="shares of items inside the other set's k-nearest-neighbour balls, k = 5",
    range="[0, 1]; density [0, inf)",
    better="higher",
    chance="identical sets: density 1, coverage 1 - prod (n - i) / (n + m - i)",
    when_it_lies="An outlier's ball lifts precision and recall.",
)
def manifold_scores(real: Any, generated: Any, *, k: int = 5, variant: str = "closed", level: float = 0.95) -> Manifold:
    """Precision and recall (Kynkäänniemi 2019), density and coverage (Naeem 2020) of two sets of features.

    A ball around each item reaches to its k-th nearest neighbour in its own set (itself not counted). Intervals hold
    the other set's balls fixed. Computed in blocks: never n x m at once.

    Args:
        real: (n, d) features of real images, more than ``k``.
        generated: (m, d) features of generated images, from the same network, more than ``k``.
        k: which neighbour a ball reaches to.
        variant: "closed" counts a point on the edge as inside (the papers' formula; needed for discrete features),
            "prdc" does not (the released code).
        level: confidence level of the intervals.

    Returns:
        The four scores, with one value per item behind each.

    >>> x = np.arange(8.0)[:, None]
    >>> scores = manifold_scores(x, x + 0.1, k=1)
    >>> scores.precision.value, scores.coverage.value
    (1.0, 1.0)
    """
    chosen(variant, "variant", ("closed", "prdc"))
    as_count(k, "k")
    x = as_matrix(real, "real", min_rows=2)
    y = as_matrix(generated, "generated", min_rows=2)
    same_width(x, "real", y, "generated")
    for name, given in (("real", x), ("generated", y)):
        if len(given) <= k:
            raise InputError(f"{name} has {len(given)} rows; the distance to neighbour k = {k} needs at least {k + 1}")
    # squared distances from inner products carry rounding of this size; a tie must not depend on it
    slack = 1e-12 * max(float((x**2).sum(axis=1).max()), float((y**2).sum(axis=1).max()))
    edge = slack if variant == "closed" else -slack
    reach_x, reach_y = _squared_radii(x, k) + edge, _squared_radii(y, k) + edge
    balls, nearest = np.zeros(len(y)), np.empty(len(x))
    inside_generated = np.empty(len(x))
    for rows in row_blocks(len(x), len(y)):
        squares = _squared_distances(x[rows], y)
        balls += (squares <= reach_x[rows, None]).sum(axis=0)
        inside_generated[rows] = (squares <= reach_y).any(axis=1)
        nearest[rows] = squares.min(axis=1)
    covered = (nearest <= reach_x).astype(np.float64)
    inside_real = (balls > 0).astype(np.float64)
    expected = f"identical distributions give {expected_coverage(len(x), len(y), k):.4g}"
    return Manifold(
        precision=share_estimate(inside_real, level=level),
        recall=share_estimate(inside_generated, level=level),
        density=summarise(balls / k, level=level, notes=("identical distributions give 1",)),
        coverage=share_estimate(covered, level=level, notes=(expected,)),
        inside_real=inside_real,
        inside_generated=inside_generated,
        balls=balls / k,
        covered=covered,
    )


def expected_coverage(n_real: int, n_generated: int, k: int) -> float:
    """Coverage when both sets come from one distribution (Naeem 2020, Lemma 2).

    1 - prod_{i=1..k} (n - i) / (n + m - i): not 1, so a perfect generator does not reach 1 either.

    Args:
        n_real: n, how many real items there are.
        n_generated: m, how many generated ones.
        k: which neighbour a ball reaches to, as in :func:`manifold_scores`.

    Returns:
        The share of real items that have a generated one in their ball.

    >>> round(expected_coverage(1000, 1000, 5), 3)
    0.969
    """
    i = np.arange(1, as_count(k, "k") + 1)
    return float(1 - np.prod((n_real - i) / (n_real + n_generated - i)))


def _squared_distances(a: Floats, b: Floats) -> Floats:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * (a @ b.T)
    return np.asarray(np.clip(squares, 0, None))


def _squared_radii(rows: Floats, k: int) -> Floats:
    radii = np.empty(len(rows))
    for block in row_blocks(len(rows), len(rows)):
        squares = _squared_distances(rows[block], rows)
        squares[np.arange(len(squares)), np.arange(block.start, block.stop)] = np.inf
        radii[block] = np.partition(squares, k - 1, axis=1)[:, k - 1]
    return radii


@metric(
    "vendi_score",
    takes="features",
    summary="Effective number of distinct items.",
    citation="Friedman 2023; Pasarkar 2024",
    formula="exp entropy of the eigenvalues of the cosine similarities over n",
    range="[1, min(n, d)]",
    direction="higher is more varied",
    better="higher",
    chance="none: no reference set",
    when_it_lies="Noise is varied; grows with n.",
)
def vendi_score(features: Any, *, order: float = 1.0, level: float = 0.95) -> Estimate:
    """Effective number of distinct items: exp of the entropy of the similarity matrix's eigenvalues (Friedman 2023).

    The eigenvalues l are those of K / n with K the cosine similarities. Range [1, min(n, d)]; higher is more varied.
    Interval by the delta method on the logarithm. Compare sets of equal n only.

    Args:
        features: (n, d) one row per item.
        order: q, above 0: (sum l^q)^(1 / (1 - q)); 1 is exp(-sum l ln l), infinity is 1 / max l (Pasarkar 2024).
        level: confidence level of the interval.

    Returns:
        The effective number with its interval; it has no chance level.

    >>> round(vendi_score(np.eye(4)).value, 6), vendi_score(np.ones((3, 2))).value
    (4.0, 1.0)
    """
    unit = unit_rows(features, "features", min_rows=2)
    n, width = unit.shape
    if not order > 0:
        raise InputError(f"order must be above 0 (or infinity), not {order}")
    if width <= n:
        values, vectors = np.linalg.eigh(unit.T @ unit / n)
        loads = (unit @ vectors) ** 2
    else:
        values, vectors = np.linalg.eigh(unit @ unit.T / n)
        loads = vectors**2 * n * np.clip(values, 0, None)
    real = values > 1e-12
    log_value, influence = _log_vendi(values[real] / values[real].sum(), loads[:, real], order)
    error = float(np.sqrt(influence.var(ddof=1) / n))
    log_estimate = normal_estimate(log_value, error, n, least=0.0, most=float(np.log(min(n, width))), level=level)
    assert log_estimate.ci_low is not None
    assert log_estimate.ci_high is not None
    low, high = float(np.exp(log_estimate.ci_low)), float(np.exp(log_estimate.ci_high))
    value = float(np.exp(log_value))
    return Estimate(value, min(low, value), max(high, value), n=n, level=level)


def _log_vendi(shares: Floats, loads: Floats, order: float) -> tuple[float, Floats]:
    """Logarithm of the score, and each item's influence on it (``loads``: squared projections on eigenvectors)."""
    if isinf(order):
        top = int(np.argmax(shares))
        return -float(np.log(shares[top])), np.asarray(1 - loads[:, top] / shares[top])
    if order == 1:
        entropy = -float(shares @ np.log(shares))
        return entropy, np.asarray(-loads @ np.log(shares) - entropy)
    power = shares**order
    influence = order / (1 - order) * (loads @ (shares ** (order - 1)) / power.sum() - 1)
    return float(np.log(power.sum()) / (1 - order)), np.asarray(influence)


@metric(
    "inception_score",
    takes="features",
    summary="Confident and varied predictions.",
    citation="Salimans 2016",
    formula="exp mean KL(p(y|x) || p(y))",
    range="[1, C]",
    better="higher",
    chance="1: one prediction for all",
    when_it_lies="Never looks at real images.",
)
def inception_score(probabilities: Any, *, splits: int = 1, level: float = 0.95) -> Estimate:
    """exp of the mean KL(p(y|x) || p(y)) over a classifier's predictions (Salimans 2016).

    Range [1, C]; 1 = every image gets the same prediction.

    Args:
        probabilities: (n, C) of the classes for each image; rows sum to 1.
        splits: 1 uses all images and an exact jackknife interval; 10 is the published protocol (mean over ten parts, t
            interval; biased down by small parts).
        level: confidence level of the interval.

    Returns:
        The score with its interval; it has no chance level.

    >>> inception_score(np.eye(4)).value
    4.0
    """
    p = as_matrix(probabilities, "probabilities", min_rows=2)
    bad = np.flatnonzero((p < 0).any(axis=1) | (np.abs(p.sum(axis=1) - 1) > 1e-4))
    if len(bad):
        raise InputError(f"probabilities row {bad[0]} sums to {p[bad[0]].sum():.6g}; pass softmax outputs, not logits")
    p = p / p.sum(axis=1, keepdims=True)
    as_count(splits, "splits")
    if splits > 1:
        return _split_inception(p, splits, level)
    n = len(p)
    own = _entropy(p)
    value = float(np.exp(_entropy(p.mean(axis=0, keepdims=True))[0] - own.mean()))
    left_out = np.empty(n)
    total = p.sum(axis=0)
    for rows in row_blocks(n, p.shape[1]):
        others = np.clip(total - p[rows], 0, None) / (n - 1)
        left_out[rows] = np.exp(_entropy(others) - (own.sum() - own[rows]) / (n - 1))
    error = jackknife_error(left_out)
    return normal_estimate(value, error, n, least=1.0, most=float(p.shape[1]), level=level)


def _split_inception(p: Floats, splits: int, level: float) -> Estimate:
    if len(p) < 2 * splits:
        raise InputError(f"splits = {splits} needs at least {2 * splits} images, there are {len(p)}")
    parts = np.array(
        [
            np.exp(_entropy(part.mean(axis=0, keepdims=True))[0] - _entropy(part).mean())
            for part in np.array_split(p, splits)
        ]
    )
    low, high = mean_interval(parts, level=level) or (None, None)
    notes = [f"mean of {splits} splits in the order given, sd {parts.std():.4g}"]
    if low is None:
        notes.append(no_interval_note(parts))
    return Estimate(float(parts.mean()), low, high, n=len(p), notes=tuple(notes), level=level)


def _entropy(p: Floats) -> Floats:
    logs = np.zeros_like(p)
    np.log(p, out=logs, where=p > 0)
    return np.asarray(-(p * logs).sum(axis=1))
