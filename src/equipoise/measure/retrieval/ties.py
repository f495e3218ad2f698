"""Ties shared out: what each rank holds on average when equal scores are put in random order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from equipoise.measure.retrieval.blocks import discounts
from equipoise.measure.retrieval.lists import Recipe, count_metrics
from equipoise.measure.retrieval.order import attention
from equipoise.measure.retrieval.skew import desired_shares
from equipoise.measure.retrieval.topk import Ranking

__all__ = ["expected_counts", "expected_list_metrics", "expected_places"]

FloatArray = NDArray[np.float64]
Labels = NDArray[np.int32]


def expected_places(ranking: Ranking, labels: Labels, n_groups: int) -> FloatArray:
    """(Q, T, G + 1) the share of each group at each rank; column 0 is undefined images, 0 beyond a short list.

    Images with equal scores share their ranks evenly, including those that tie with the last rank but did not fit:
    the ranking must count these by label + 1 (``Want.codes``).

    >>> from equipoise.measure.retrieval.sources import Scores
    >>> from equipoise.measure.retrieval.topk import Want, scan
    >>> labels = np.array([0, 1, 1], dtype=np.int32)
    >>> found = scan(Scores([[0.5, 0.5, 0.5]]), [Want(2, codes=labels + 1)]).rankings[0]
    >>> expected_places(found, labels, 2)[0, :, 1].round(3).tolist()
    [0.333, 0.333]
    """
    n_queries, length = ranking.indices.shape
    there = ranking.indices >= 0
    starts = np.ones((n_queries, length), dtype=bool)
    starts[:, 1:] = ranking.scores[:, 1:] != ranking.scores[:, :-1]
    run = np.cumsum(starts, axis=1) - 1 + np.arange(n_queries)[:, None] * length
    codes = np.where(there, ranking.labels(labels) + 1, 0)
    holds = np.zeros((n_queries * length, n_groups + 1))
    np.add.at(holds, (run[there], codes[there]), 1.0)
    full = ranking.lengths == length
    last = run[full, -1]
    holds[last, : ranking.left_out.shape[1]] += ranking.left_out[full]
    shares = holds / np.maximum(holds.sum(axis=1, keepdims=True), 1.0)
    return np.asarray(np.where(there[..., None], shares[run], 0.0))


def expected_counts(ranking: Ranking, labels: Labels, n_groups: int, k: int) -> FloatArray:
    """(Q, G) expected counts of each group among the top ``k``, ties shared out."""
    parts = [places[:, :k, 1:].sum(axis=1) for places in _in_parts(ranking, labels, n_groups)]
    return np.concatenate(parts)


def expected_list_metrics(
    ranking: Ranking, labels: Labels, pool_counts: NDArray[np.int64], recipe: Recipe
) -> dict[str, FloatArray]:
    """The metrics of ``list_metrics`` from expected counts and expected exposure."""
    found: list[dict[str, FloatArray]] = []
    start = 0
    for places in _in_parts(ranking, labels, recipe.n_groups):
        rows = slice(start, start + len(places))
        start = rows.stop
        pool = np.broadcast_to(pool_counts, (ranking.indices.shape[0], recipe.n_groups))[rows]
        found.append(_metrics(places[..., 1:], ranking.lengths[rows], pool, recipe))
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _metrics(
    places: FloatArray, lengths: NDArray[np.int64], pool: NDArray[np.int64], recipe: Recipe
) -> dict[str, FloatArray]:
    desired = desired_shares(recipe.desired, pool)
    prefix = np.cumsum(places, axis=1)
    there = np.arange(places.shape[1]) < lengths[:, None]
    top = slice(0, recipe.k)
    wants = set(recipe.metrics)
    found = count_metrics(places[:, top].sum(axis=1), np.minimum(lengths, recipe.k), desired, recipe)
    if "ndkl" in wants:
        deep = slice(0, recipe.depth)
        weights = np.where(there[:, deep], discounts(places[:, deep].shape[1]), 0.0)
        share = prefix[:, deep] / np.maximum(prefix[:, deep].sum(axis=2, keepdims=True), 1e-12)
        ratio = np.where(desired > 0, desired, 1.0)[:, None, :]
        curve = xlogy(share, share / ratio).sum(axis=2)
        found["ndkl"] = (curve * weights).sum(axis=1) / weights.sum(axis=1)
    if wants & {"exposure", "exposure_gap", "exposure_ratio"}:
        weights = np.where(there[:, top], attention(places[:, top].shape[1], recipe.attention), 0.0)
        seen = np.einsum("qt,qtg->qg", weights, places[:, top]) / weights.sum(axis=1, keepdims=True)
        each = seen / np.where(desired > 0, desired, 1.0)
        least = np.where(desired > 0, each, np.inf).min(axis=1)
        exposed = {
            "exposure": seen,
            "exposure_gap": np.abs(seen - desired).sum(axis=1) / 2,
            "exposure_ratio": least / np.where(desired > 0, each, -np.inf).max(axis=1),
        }
        found |= {name: value for name, value in exposed.items() if name in wants}
    if wants & {"infeasible_index", "infeasible_count"}:
        size = np.arange(1, places[:, top].shape[1] + 1)
        due = np.floor(desired[:, None, :] * size[:, None] + 1e-9)
        short = (prefix[:, top] < due - 1e-9) & there[:, top, None]
        if "infeasible_index" in wants:
            found["infeasible_index"] = short.any(axis=2).sum(axis=1).astype(np.float64)
        if "infeasible_count" in wants:
            found["infeasible_count"] = short.sum(axis=(1, 2)).astype(np.float64)
    return found


def _in_parts(ranking: Ranking, labels: Labels, n_groups: int) -> Iterator[FloatArray]:
    """The expected places of a few queries at a time: they are T times G numbers each."""
    step = max(1, 4_000_000 // max(1, ranking.indices.shape[1] * (n_groups + 1)))
    for start in range(0, len(ranking.indices), step):
        part = slice(start, start + step)
        some = Ranking(ranking.indices[part], ranking.scores[part], ranking.left_out[part], ranking.k)
        yield expected_places(some, labels, n_groups)
