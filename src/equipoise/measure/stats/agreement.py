"""Do annotators agree beyond chance? Cohen's and Fleiss' kappa, Krippendorff's alpha, with bootstrap intervals.

All resample whole items, and only their counts: a thousand replicates are a few matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, chosen, row_blocks, same_length
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.bootstrap import bootstrap_statistic, resampling_weights
from equipoise.measure.stats.estimate import Estimate

UNDEFINED_CHANCE = "all ratings are the same: agreement cannot be told from chance; report the raw agreement instead"


@metric(
    "cohen_kappa",
    takes="labels",
    summary="Agreement of two annotators beyond chance.",
    citation="Cohen 1960, 1968",
    formula="1 - sum w O / sum w E",
    range="[-1, 1]",
    better="higher",
    chance="0",
    when_it_lies="Low when one answer dominates (prevalence).",
)
def cohen_kappa(
    first: Sequence[Any],
    second: Sequence[Any],
    *,
    weights: str = "nominal",
    categories: Sequence[Any] | None = None,
    clusters: Sequence[Any] | None = None,
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Cohen's kappa of two annotators over the same items (Cohen 1960, 1968).

    kappa = 1 - sum w O / sum w E, O the share of items with each pair of answers, E the product of the two
    annotators' own shares; w is 1 off the diagonal ("nominal"), |i - j| ("linear") or (i - j)^2 ("quadratic")
    over the sorted answers, or over ``categories``: every answer that can be given, in order, so that steps of a
    scale that nobody chose count too. Range [-1, 1], chance 0. An item without both answers (None) is dropped.
    ``clusters`` names items that are not independent (edits of one image): they are resampled together.

    >>> cohen_kappa(["y", "y", "n", "n"], ["y", "n", "n", "n"], replicates=100).value
    0.5
    >>> first, second = [1, 1, 2, 2, 10, 10], [1, 1, 2, 10, 10, 2]
    >>> round(cohen_kappa(first, second, weights="linear", categories=range(1, 11), replicates=100).value, 3)
    0.333
    """
    chosen(weights, "weights", ("nominal", "linear", "quadratic"))
    same_length(first, "first", second, "second")
    codes, scale = _coded(np.array([list(first), list(second)], dtype=object).T, "first and second", categories)
    both = (codes >= 0).all(axis=1)
    if not both.any():
        raise InputError("no item was answered by both annotators")
    pairs = codes[both]
    k = len(scale)
    table = np.zeros((len(pairs), k * k))
    table[np.arange(len(pairs)), pairs[:, 0] * k + pairs[:, 1]] = 1.0
    steps = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(np.float64)
    cost = {"nominal": (steps > 0).astype(np.float64), "linear": steps, "quadratic": steps**2}[weights]

    def kappa(counts: Floats) -> Floats:
        joint = counts.reshape(-1, k, k)
        total = joint.sum(axis=(1, 2))
        observed = (joint * cost).sum(axis=(1, 2)) / total
        expected = np.einsum("bi,ij,bj->b", joint.sum(axis=2), cost, joint.sum(axis=1)) / total**2
        return _one_minus_ratio(observed, expected)

    keys = None
    if clusters is not None:
        same_length(first, "first", clusters, "clusters")
        keys = np.asarray(clusters)[both]
    count = as_count(replicates, "replicates")
    draws = bootstrap_statistic(table, kappa, clusters=keys, replicates=count, seed=seed)
    dropped = {"items without both answers": int((~both).sum())}
    return _estimate(float(kappa(table.sum(axis=0)[None])[0]), draws, len(pairs), dropped, level)


@metric(
    "fleiss_kappa",
    takes="labels",
    summary="Agreement of several annotators beyond chance.",
    citation="Fleiss 1971",
    formula="(P - Pe) / (1 - Pe)",
    range="[-1 / (r - 1), 1]",
    better="higher",
    chance="0",
    when_it_lies="Low when one answer dominates; no missing answers.",
)
def fleiss_kappa(ratings: Any, *, replicates: int = 1000, seed: int = 0, level: float = 0.95) -> Estimate:
    """Fleiss' kappa of ``ratings`` (items, annotators), the same number of answers for every item (Fleiss 1971).

    kappa = (P - Pe) / (1 - Pe), P the mean share of agreeing pairs of answers on an item, Pe the sum of squared
    overall shares. Range [-1 / (r - 1), 1], chance 0. The annotators need not be the same people for every item.

    >>> round(fleiss_kappa([["a", "a"], ["b", "b"], ["a", "b"]], replicates=100).value, 6)
    0.333333
    """
    codes, categories = _coded(np.array([list(row) for row in ratings], dtype=object), "ratings")
    if (codes < 0).any() or codes.shape[1] < 2:
        raise InputError(
            "Fleiss' kappa needs at least two answers and the same number for every item; "
            "use krippendorff_alpha where answers are missing"
        )
    counts = _per_item_counts(codes, len(categories))
    raters = codes.shape[1]
    agreeing = ((counts**2).sum(axis=1) - raters) / (raters * (raters - 1))
    table = np.column_stack([agreeing, np.ones(len(counts)), counts])

    def kappa(sums: Floats) -> Floats:
        shares = sums[:, 2:] / (sums[:, 1:2] * raters)
        return _one_minus_ratio(1 - sums[:, 0] / sums[:, 1], 1 - (shares**2).sum(axis=1))

    draws = bootstrap_statistic(table, kappa, replicates=as_count(replicates, "replicates"), seed=seed)
    return _estimate(float(kappa(table.sum(axis=0)[None])[0]), draws, len(counts), {}, level)


@metric(
    "krippendorff_alpha",
    takes="labels",
    summary="Agreement with missing answers, nominal, ordinal or interval.",
    citation="Krippendorff 2011",
    formula="1 - Do / De",
    range="(-1, 1]",
    better="higher",
    chance="0",
    when_it_lies="Agreement is not truth: annotators can share a stereotype.",
)
def krippendorff_alpha(
    ratings: Any,
    *,
    metric: str = "nominal",
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Krippendorff's alpha of ``ratings`` (items, annotators); None or NaN is a missing answer (Krippendorff
    2011).

    alpha = 1 - Do / De: the disagreement within items over that of all answers paired at random. ``metric`` is the
    squared difference of two answers: "nominal" 0/1, "interval" (a - b)^2, "ordinal" the squared difference of
    their mid-ranks among all answers used. Range (-1, 1], chance 0. Items with fewer than two answers are dropped.

    >>> krippendorff_alpha([[1, 1], [2, 2], [1, None]], metric="ordinal", replicates=100).value
    1.0
    """
    chosen(metric, "metric", ("nominal", "ordinal", "interval"))
    codes, categories = _coded(np.array([list(row) for row in ratings], dtype=object), "ratings")
    usable = (codes >= 0).sum(axis=1) >= 2
    if not usable.any():
        raise InputError("no item has two answers or more; agreement needs at least two on the same item")
    counts = _per_item_counts(codes[usable], len(categories))
    scale = _scale_of(categories, metric)
    value = float(_alphas(np.ones((1, len(counts))), counts, scale)[0])
    rng = np.random.default_rng(seed)
    blocks = resampling_weights(len(counts), as_count(replicates, "replicates"), rng)
    draws = np.concatenate([_alphas(block, counts, scale) for block in blocks])
    dropped = {"items with fewer than two answers": int((~usable).sum())}
    return _estimate(value, draws, len(counts), dropped, level)


Scale = Callable[[Floats], Floats]
"""From how often each answer occurs (B, k) to a position of each answer (B, k) whose squared differences count."""


def _scale_of(categories: Sequence[Hashable], metric: str) -> Scale | None:
    if metric == "nominal":
        return None
    if metric == "ordinal":
        return lambda totals: np.asarray(np.cumsum(totals, axis=1) - totals / 2)
    try:
        numbers = np.array([float(c) for c in categories])  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InputError(f"metric 'interval' needs numbers as answers: {error}") from error
    return lambda totals: np.broadcast_to(numbers, totals.shape)


def _alphas(weights: Floats, counts: Floats, scale: Scale | None) -> Floats:
    """Alpha for each row of ``weights`` (B, n): how often each item is taken."""
    answers = counts.sum(axis=1)
    totals = weights @ counts
    n = totals.sum(axis=1)
    if scale is None:
        within = answers - (counts**2).sum(axis=1) / answers
        observed = weights @ (within * answers / (answers - 1))
        expected = (n**2 - (totals**2).sum(axis=1)) / (n - 1)
        return _one_minus_ratio(observed, expected)
    place = scale(totals)
    mean = (totals * place).sum(axis=1) / n
    expected = 2 * n * (totals * (place - mean[:, None]) ** 2).sum(axis=1) / (n - 1)
    observed = np.empty(len(weights))
    for rows in row_blocks(len(weights), counts.size):
        # sum over ordered pairs of squared differences = 2 (m sum x^2 - (sum x)^2)
        first = counts @ place[rows].T
        second = counts @ (place[rows] ** 2).T
        within = 2 * (answers[:, None] * second - first**2) / (answers - 1)[:, None]
        observed[rows] = (weights[rows] * within.T).sum(axis=1)
    return _one_minus_ratio(observed, expected)


def _one_minus_ratio(observed: Floats, expected: Floats) -> Floats:
    """1 - observed / expected; infinite where nothing but one answer occurs, for the caller to leave out."""
    out = np.full(len(expected), np.inf)
    usable = expected > 1e-12
    out[usable] = 1 - observed[usable] / expected[usable]
    return out


def _estimate(value: float, draws: Floats, n: int, dropped: dict[str, int], level: float) -> Estimate:
    if not np.isfinite(value):
        raise InputError(UNDEFINED_CHANCE)
    usable = draws[np.isfinite(draws)]
    notes: tuple[str, ...] = ()
    if len(usable) < len(draws):
        notes = (f"{len(draws) - len(usable)} of {len(draws)} resamples held one answer only and were left out",)
    plain = Estimate(value, null_mean=0.0, n=n, dropped=dropped, notes=notes, level=level)
    if n < 2 or len(usable) < 2:
        why = "one item" if n < 2 else "fewer than two resamples held more than one answer"
        return plain.with_notes(no_interval(why))
    low, high = np.quantile(usable, [(1 - level) / 2, (1 + level) / 2])
    if low == high:
        return plain.with_notes(no_interval("the resamples do not differ"))
    return replace(plain, ci_low=float(low), ci_high=float(high))


def _per_item_counts(codes: NDArray[np.intp], k: int) -> Floats:
    counts = np.zeros((len(codes), k))
    items, _ = np.nonzero(codes >= 0)
    np.add.at(counts, (items, codes[codes >= 0]), 1.0)
    return counts


def _coded(
    ratings: NDArray[Any], name: str, categories: Sequence[Any] | None = None
) -> tuple[NDArray[np.intp], list[Any]]:
    """(items, annotators) indices into the ``categories``, or the sorted distinct answers; -1 is missing."""
    if ratings.ndim != 2 or ratings.size == 0:
        raise InputError(f"{name} must be one row per item and one column per annotator, the same number in each row")
    missing = np.array([[answer is None or answer != answer for answer in row] for row in ratings], dtype=bool)
    answers = set(ratings[~missing].tolist())
    scale = _sorted(answers, name) if categories is None else list(categories)
    place = {answer: index for index, answer in enumerate(scale)}
    if strange := [answer for answer in answers if answer not in place]:
        raise InputError(f"{name}: {strange[0]!r} is not among the categories")
    codes = np.full(ratings.shape, -1, dtype=np.intp)
    codes[~missing] = [place[answer] for answer in ratings[~missing]]
    return codes, scale


def _sorted(answers: set[Any], name: str) -> list[Any]:
    try:
        return sorted(answers)
    except TypeError as error:
        raise InputError(f"{name} mixes answers that cannot be sorted together ({error})") from error
