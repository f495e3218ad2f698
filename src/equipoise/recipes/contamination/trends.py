"""Does a number rise with the share of generated images? Slopes, a test, a verdict in words, and a check of the test.

D(alpha) is nested and the batches are paired, so two models of one seed at neighbouring shares differ by the images
that were replaced in between, and by nothing else. Where replacing changes nothing, the steps of a metric from share to
share are independent, average 0, and vary as the width of the step (a random walk); noise of the training itself only
makes the test more cautious. The slope is therefore tested by its steps, over all seeds, each seed with its own
pictures: a regression on alpha would take the 18 models for independent, and find trends in placebos.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.stats import holm, minimum_detectable_effect

LEAST_STEPS = 3
"""With fewer steps no test is made."""


@dataclass(frozen=True)
class AlphaTrend:
    """The slope of a number over alpha from 0 to 1."""

    slope: float
    low: float | None
    high: float | None
    p: float | None
    n_steps: int
    n_seeds: int
    smallest: float | None
    """The slope that would have been found four times in five, at the level of the strictest correction."""


def alpha_trend(values: Mapping[int, Mapping[float, float]], *, level: float = 0.95, tests: int = 1) -> AlphaTrend:
    """The trend of ``values`` {seed: {alpha: value}}; ``tests`` is how many trends are tested together.

    Steps d over widths w: slope = sum d / sum w, variance s² = sum (d / √w - slope √w)² / (m - 1), standard error
    s / √(sum w), and Student's t with m - 1 degrees of freedom.

    >>> trend = alpha_trend({0: {0.0: 1.0, 0.5: 1.6, 1.0: 2.0}, 1: {0.0: 1.0, 0.5: 1.4, 1.0: 2.0}})
    >>> round(trend.slope, 6), trend.n_steps, round(trend.p, 4)
    (1.0, 4, 0.0032)
    """
    steps, widths = _steps(values)
    slope = float(steps.sum() / widths.sum())
    m = len(steps)
    if m < LEAST_STEPS:
        return AlphaTrend(slope, None, None, None, m, len(values), None)
    spread = sqrt(float(((steps / np.sqrt(widths) - slope * np.sqrt(widths)) ** 2).sum()) / (m - 1))
    error = spread / sqrt(float(widths.sum()))
    if error == 0.0:  # nothing moved, or all of it exactly alike
        return AlphaTrend(slope, slope, slope, 1.0 if slope == 0 else 0.0, m, len(values), 0.0)
    half = float(stats.t.ppf((1 + level) / 2, m - 1)) * error
    p = float(2 * stats.t.sf(abs(slope) / error, m - 1))
    smallest = minimum_detectable_effect(sd=error * sqrt(m), n=m, alpha=(1 - level) / max(1, tests))
    return AlphaTrend(slope, slope - half, slope + half, p, m, len(values), smallest)


def verdict(trend: AlphaTrend, adjusted: float | None, *, level: float = 0.95, digits: int = 3) -> str:
    """The trend in words; ``adjusted`` is its p-value, corrected over all that were tested.

    >>> verdict(AlphaTrend(0.5, 0.4, 0.6, 1e-6, 15, 3, 0.2), 1e-5)
    'rises'
    >>> verdict(AlphaTrend(0.05, -0.1, 0.2, 0.4, 15, 3, 0.3), 1.0)
    'no trend found (a slope of 0.3 would have been)'
    """
    if adjusted is None:
        return f"not tested: {trend.n_steps} steps"
    if adjusted <= 1 - level:
        return "rises" if trend.slope > 0 else "falls"
    return f"no trend found (a slope of {trend.smallest:.{digits}g} would have been)"


def trends_of(measured: pd.DataFrame, metrics: Sequence[str], *, level: float = 0.95) -> pd.DataFrame:
    """One row per metric that was measured: slope, interval, p, Holm's p over the metrics, and the verdict.

    ``measured`` has the columns ``metric``, ``seed``, ``alpha`` and ``value``. A metric of which no seed has two shares
    has a row without a slope.
    """
    values = {name: _by_seed(measured, name) for name in metrics if (measured["metric"] == name).any()}
    able = {name: some for name, some in values.items() if any(len(of_seed) > 1 for of_seed in some.values())}
    trends = {name: alpha_trend(some, level=level, tests=len(able)) for name, some in able.items()}
    tested = [trend.p for trend in trends.values() if trend.p is not None]
    adjusted = iter(holm(np.array(tested)).tolist() if tested else [])
    rows = []
    for name in values:
        trend = trends.get(name)
        if trend is None:
            empty = dict.fromkeys(("measured", "low", "high", "chance", "p", "p (Holm)"))
            untested = {"n": 0, "smallest slope": None, "verdict": "not tested: no seed has two shares"}
            rows.append({"metric": name, **empty, **untested})
            continue
        corrected = next(adjusted) if trend.p is not None else None
        cells: dict[str, Any] = {"metric": name, "measured": trend.slope, "low": trend.low, "high": trend.high}
        cells |= {"chance": 0.0, "p": trend.p, "p (Holm)": corrected, "n": trend.n_steps}
        rows.append(cells | {"smallest slope": trend.smallest, "verdict": verdict(trend, corrected, level=level)})
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class UniformityCheck:
    """Whether p-values of trends are spread evenly from 0 to 1, as they are where there are none."""

    distance: float
    """Kolmogorov's: the largest difference between their distribution function and the even one."""
    p: float
    n: int
    draws: int
    share: float = 0.0
    """Of the noise of single trainings, that was taken into account."""

    def __str__(self) -> str:
        return (
            f"the p-values of {self.n} trends differ from even ones by {self.distance:.2f} (Kolmogorov), "
            f"p = {self.p:.2f} over {self.draws} redraws"
        )


def uniformity(
    measured: pd.DataFrame, metrics: Sequence[str], *, share: float = 0.0, draws: int = 999, seed: int = 0
) -> UniformityCheck | None:
    """Are the p-values of the trends of ``metrics`` spread evenly? ``None`` where nothing can be tested.

    ``share`` is that of the noise of single trainings in a step (:func:`noise_share`): where there is some, the
    p-values of :func:`alpha_trend` are too large on purpose, and those that are checked take it into account (the same
    slope by generalised least squares). Metrics of one model move together, so the chance level is redrawn: the
    independent parts of the steps turn their sign by a coin, those of all metrics together.
    """
    table, layout = _table(measured, metrics)
    if layout is None or layout.n < LEAST_STEPS or not len(table):
        return None
    root = np.linalg.cholesky(layout.covariance(share))
    own = _distance(_p_values(table[None], layout.widths, layout.covariance(share)))[0]
    parts = np.linalg.solve(root, table.T).T
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, 1, layout.n))
    redrawn = _distance(_p_values((parts[None] * signs) @ root.T, layout.widths, layout.covariance(share)))
    p = (1 + int((redrawn >= own - 1e-12).sum())) / (1 + draws)
    return UniformityCheck(float(own), p, len(table), draws, share)


def noise_share(arms: Sequence[pd.DataFrame], metrics: Sequence[str]) -> float:
    """How much of a step is noise of single trainings, and not of the pictures that were exchanged: from 0 to 1.

    Noise of a model stands in two steps with opposite signs, so that neighbouring steps are correlated by -1/2 where
    there is nothing else, and not at all where there is none. The share, in tenths, is the likeliest over all metrics
    of all ``arms`` together, each with a slope and a spread of its own (restricted maximum likelihood).
    """
    shares = np.linspace(0.0, 1.0, 11)
    total = np.zeros(len(shares))
    for measured in arms:
        table, layout = _table(measured, metrics)
        if layout is None or layout.n < LEAST_STEPS:
            continue
        for place, share in enumerate(shares):
            spread, precision = _fitted(table, layout.widths, layout.covariance(float(share)))[1:]
            moving = spread > 0
            volume = float(np.linalg.slogdet(layout.covariance(float(share)))[1])
            likelihood = -0.5 * ((layout.n - 1) * np.log(spread[moving]) + volume + np.log(precision))
            total[place] += float(likelihood.sum())
    return float(shares[int(np.argmax(total))])


@dataclass(frozen=True)
class _Layout:
    """The steps of all seeds under each other: how wide each is, and of which seed."""

    widths: Floats
    seeds: tuple[int, ...]

    @property
    def n(self) -> int:
        return len(self.widths)

    def covariance(self, share: float) -> Floats:
        """(m, m) of the steps: of the pictures as their widths, of single trainings -1/2 between neighbours."""
        seeds = np.array(self.seeds)
        together = (seeds[:, None] == seeds) & (np.abs(np.subtract.outer(np.arange(self.n), np.arange(self.n))) == 1)
        noise = np.eye(self.n) - 0.5 * together
        return np.asarray((1 - share) * np.diag(self.widths / self.widths.mean()) + share * noise)


def _table(measured: pd.DataFrame, metrics: Sequence[str]) -> tuple[Floats, _Layout | None]:
    """(metrics, m) the steps of every metric that was measured of all models and moves, and their layout."""
    rows: list[Floats] = []
    layout: _Layout | None = None
    for name in metrics:
        if not (measured["metric"] == name).any():
            continue
        by_seed = _by_seed(measured, name)
        if all(len(values) < 2 for values in by_seed.values()):
            continue
        steps, widths = _steps(by_seed)
        seeds = tuple(seed for seed, values in by_seed.items() for _ in range(len(values) - 1))
        layout = layout or _Layout(widths, seeds)
        if seeds == layout.seeds and np.abs(steps).max() > 0:
            rows.append(steps)
    return (np.stack(rows) if rows else np.zeros((0, 0))), layout


def _fitted(steps: Floats, widths: Floats, covariance: Floats) -> tuple[Floats, Floats, float]:
    """Slopes of steps (..., m) by generalised least squares, their variances but for the precision, and that."""
    inverse = np.linalg.inv(covariance)
    precision = float(widths @ inverse @ widths)
    slope = steps @ (inverse @ widths) / precision
    rest = steps - slope[..., None] * widths
    spread = np.einsum("...i,ij,...j->...", rest, inverse, rest) / (len(widths) - 1)
    return np.asarray(slope), np.asarray(spread), precision


def _p_values(steps: Floats, widths: Floats, covariance: Floats) -> Floats:
    """(b, metrics) p-values of steps (b, metrics, m)."""
    slope, spread, precision = _fitted(steps, widths, covariance)
    error = np.sqrt(spread / precision)
    t = np.where(error > 0, np.abs(slope) / np.where(error > 0, error, 1.0), np.inf)
    return np.asarray(2 * stats.t.sf(t, len(widths) - 1))


def _distance(p: Floats) -> Floats:
    """(b,) Kolmogorov's distance of p-values (b, n) from even ones.

    >>> _distance(np.array([[0.5]])).tolist()
    [0.5]
    """
    ordered, n = np.sort(p, axis=1), p.shape[1]
    above = np.arange(1, n + 1) / n - ordered
    below = ordered - np.arange(n) / n
    return np.asarray(np.maximum(above, below).max(axis=1))


def _by_seed(measured: pd.DataFrame, metric: str) -> dict[int, dict[float, float]]:
    rows = measured[measured["metric"] == metric]
    return {
        int(str(seed)): dict(zip(some["alpha"].astype(float), some["value"].astype(float), strict=True))
        for seed, some in rows.groupby("seed")
    }


def _steps(values: Mapping[int, Mapping[float, float]]) -> tuple[Floats, Floats]:
    steps, widths = [], []
    for of_seed in values.values():
        alphas = sorted(of_seed)
        for here, there in pairwise(alphas):
            steps.append(of_seed[there] - of_seed[here])
            widths.append(there - here)
    if not steps:
        raise InputError("a trend needs at least two shares of one seed")
    return np.array(steps, dtype=np.float64), np.array(widths, dtype=np.float64)
