"""Every retrieval metric of a model over a pool, per query, in one pass over the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats, Ints
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.groups import Groups
from equipoise.measure.metric import METRICS
from equipoise.measure.retrieval.blocks import Candidates, Source, group_counts
from equipoise.measure.retrieval.lists import Recipe, list_metrics, pair_metrics
from equipoise.measure.retrieval.order import kl_curve
from equipoise.measure.retrieval.skew import desired_shares, zero_rule
from equipoise.measure.retrieval.ties import expected_counts, expected_list_metrics, refuse_without_ties
from equipoise.measure.retrieval.topk import Order, Ranking, Scan, Want, scan
from equipoise.measure.retrieval.variants import TIES, Ties, Variant, variant_named
from equipoise.pace import steps

LIST_CELLS = 20_000_000
"""Queries are measured in parts whose ranked lists together hold no more images than this."""
DEEPEST = 1000
"""NDKL looks at no more prefixes than this by default, unless K itself is larger."""


@dataclass(frozen=True)
class Retrieved:
    """The metrics of each query, and what is needed to ask what chance would give."""

    values: Mapping[str, Floats]
    """One number per measured query: (Q',)."""
    by_group: Mapping[str, Floats]
    """One number per measured query and group: (Q', G)."""
    queries: NDArray[np.int64]
    """(Q',) the numbers of the queries that could be measured."""
    groups: Groups
    recipe: Recipe
    pool: NDArray[np.int64]
    """(Q',) which row of ``pool_counts`` each measured query's pool is."""
    pool_counts: NDArray[np.int64]
    """(P, G) labelled images of each group in each pool."""
    indices: NDArray[np.int32]
    """(Q', T) the ranked labelled images; -1 beyond the end of a short list."""
    pair_indices: NDArray[np.int32] | None
    """(Q', K) the top K with undefined images in their slots, for Bias@K."""
    image_pool: NDArray[np.int64] | None
    """(N,) the pool of each image, in the numbers of ``pool``."""
    ranks: Floats | None
    """(Q,) the rank of each query's target, for all queries; see ``recall_at_k``."""
    mean_kl_curve: Floats | None
    """(T,) the mean over queries of KL(p^i || d) for each prefix i."""
    dropped: Mapping[str, int]
    notes: tuple[str, ...]
    all_equal: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """(Q',) whether all images of the query's pool have the same score: it ranks nothing, so it shows nothing."""
    shared_ties: int = 0
    """Queries whose ties are shared out (``ties="expected"``); such values have no null."""

    @property
    def pair(self) -> tuple[str, str] | None:
        """The two groups of Bias@K, the first counting as positive."""
        pair = self.recipe.pair
        return None if pair is None else (self.groups.names[pair[0]], self.groups.names[pair[1]])


def evaluate(
    source: Source,
    groups: Groups,
    *,
    k: int,
    depth: int | None = None,
    metrics: Sequence[str] | None = None,
    pair: tuple[str, str] | None = None,
    variant: str = "equipoise",
    desired: str | ArrayLike | None = None,
    zero: str | None = None,
    zero_min: str | None = None,
    ties: Ties | None = None,
    tie_order: ArrayLike | None = None,
    attention: str = "log",
    candidates: Candidates | None = None,
    targets: ArrayLike | None = None,
) -> Retrieved:
    """Per-query retrieval metrics of a model's scores over labelled images.

    Args:
        source: the scores of Q queries for N images, as a matrix (``Scores``), on demand or from embeddings.
        groups: the group of each image. Images without one are removed before ranking, except for Bias@K, where they
            keep their slots.
        k: how many images are retrieved; it is cut to the pool's size and noted.
        depth: how many prefixes NDKL looks at, never more than the pool has; ``None``: :func:`default_depth`, unless
            the variant says otherwise.
        metrics: the names of those wanted; ``None``: all of the variant, without those that need a ``pair`` if none is
            given.
        pair: the two groups of Bias@K by name; the first counts as positive.
        variant: whose definitions are used, by name. They also decide what is not given of ``depth``, ``metrics``,
            ``desired``, ``zero``, ``zero_min`` and ``ties``.
        desired: the shares to compare with, as in :func:`desired_shares`; shares that are given, (G,), are the same for
            all queries.
        zero: what an absent group gets in skew and MaxSkew, as in ``skew``.
        zero_min: the same in MinSkew.
        ties: ``stable`` by index, ``reverse`` by falling index, ``expected`` shares ranks among equal scores (and has
            no null), ``keep_all`` takes all that tie with rank K.
        tie_order: (N,) stands in for the index there: whole numbers, the lowest first (with ``reverse`` the highest).
            Rows that lie in order of group would otherwise turn ties into a bias.
        attention: how attention falls with rank, for exposure, as in :func:`equipoise.measure.retrieval.attention`.
        candidates: which images each query may retrieve; ``None``: all.
        targets: (Q,) or (Q, P) the images that each query should find, -1 for padding; their ranks come with the
            result.

    Returns:
        The metrics of every query that has a labelled image to retrieve, with what ``chance`` needs.

    >>> from equipoise.measure.retrieval.sources import Scores
    >>> groups = Groups.from_values(list("MMMMFMMFFF"))
    >>> found = evaluate(Scores([[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]]), groups, k=5, pair=("M", "F"))
    >>> [round(float(found.values[name][0]), 5) for name in ("max_skew", "bias_at_k")]
    [0.28768, 0.6]
    """
    groups.check_length(source.n_images)
    chosen = variant_named(variant)
    rule = chosen.ties if ties is None else ties
    recipe = _recipe(chosen, groups, source.n_images, k, depth, metrics, pair, desired, zero, zero_min, attention, rule)
    step = max(1, LIST_CELLS // max(recipe.k, min(recipe.depth, source.n_images)))
    candidates = candidates or Candidates()
    order = _order(rule, tie_order)
    aims = None if targets is None else np.asarray(targets)
    parts = [
        _evaluate_part(
            source.part(start, min(start + step, source.n_queries)) if step < source.n_queries else source,
            groups,
            recipe,
            rule,
            order,
            candidates.part(start, start + step),
            None if aims is None else aims[start : start + step],
            start,
        )
        for start in steps(range(0, max(1, source.n_queries), step))
    ]
    return _joined(parts, groups, recipe, candidates, source)


def default_depth(k: int) -> int:
    """How many prefixes NDKL looks at by default: K squared, but beyond ``DEEPEST`` prefixes no more than K.

    The weight of a prefix falls with its logarithm and its divergence with its length, so that prefixes far beyond K
    add little but cost as much as the first.

    >>> [default_depth(k) for k in (2, 12, 40, 5000)]
    [4, 144, 1000, 5000]
    """
    return min(k * k, max(k, DEEPEST))


def _order(ties: str, tie_order: ArrayLike | None) -> Order | NDArray[np.int64]:
    if tie_order is None:
        return "reverse" if ties == "reverse" else "stable"
    places = np.asarray(tie_order)
    if places.dtype.kind in "iu":
        places = places.astype(np.int64)  # smaller types may have no such negative number
    return np.asarray(-places if ties == "reverse" else places)


@dataclass(frozen=True)
class _Part:
    found: dict[str, Floats]
    queries: NDArray[np.int64]
    indices: NDArray[np.int32]
    pair_indices: NDArray[np.int32] | None
    ranks: Floats | None
    curve: Floats | None
    short: int
    tied: int
    shared: int
    """Queries whose ties are shared out; 0 where they are broken."""
    all_equal: NDArray[np.bool_]


def _recipe(
    variant: Variant,
    groups: Groups,
    n_images: int,
    k: int,
    depth: int | None,
    metrics: Sequence[str] | None,
    pair: tuple[str, str] | None,
    desired: str | ArrayLike | None,
    zero: str | None,
    zero_min: str | None,
    attention: str,
    ties: str,
) -> Recipe:
    if k < 1:
        raise InputError(f"k = {k}: give at least 1")
    if depth is not None and depth < 1:
        raise InputError(f"depth = {depth}: NDKL looks at 1 prefix or more")
    if ties not in TIES:
        raise UnknownNameError("rule for ties", ties, TIES)
    known = variant.metrics
    for name in metrics or ():
        if name not in known:
            raise UnknownNameError(f"metric of the variant {variant.name!r}", name, known)
    wanted = tuple(METRICS.get(name) for name in known if metrics is None or name in metrics)
    if metrics is None and pair is None:
        # what nobody asked for by name is left out rather than refused
        wanted = tuple(metric for metric in wanted if metric.takes != "pair" or metric.name in variant.of_indices)
    looks_deep = any(metric.takes == "divergences" for metric in wanted)
    deep = {"k2": default_depth(k), "k": k, "all": n_images}[variant.depth] if depth is None else depth
    deep = min(deep, n_images) if looks_deep else min(k, n_images)
    if ties == "keep_all" and looks_deep and deep != min(k, n_images):
        raise InputError(f"depth = {deep}: with ties='keep_all' NDKL looks at the top k = {k}; give depth={k}")
    chosen = variant.desired if desired is None else desired
    shares = chosen if isinstance(chosen, str) else np.asarray(chosen, dtype=np.float64)
    if not isinstance(shares, str) and shares.ndim > 1:
        raise InputError(f"desired has shape {shares.shape}; give one share per group, the same for all queries")
    desired_shares(shares, groups.counts())
    for rule in (zero, zero_min):
        zero_rule(rule or "skip")
    recipe = Recipe(
        variant,
        k,
        deep,
        groups.n_groups,
        shares,
        zero or variant.zero_max,
        zero_min or variant.zero_min,
        attention,
        None if pair is None else (groups.index(pair[0]), groups.index(pair[1])),
        wanted,
        extended=ties == "keep_all",
    )
    if ties == "expected":
        refuse_without_ties(recipe)
    return recipe


def _evaluate_part(
    source: Source,
    groups: Groups,
    recipe: Recipe,
    ties: str,
    order: Order | NDArray[np.int64],
    candidates: Candidates,
    targets: ArrayLike | None,
    first: int,
) -> _Part:
    codes = groups.labels + 1
    defined = Want(max(recipe.k, recipe.depth), groups.defined, codes)
    pairs = any(metric.takes == "pair" for metric in recipe.metrics)
    apart = groups.n_undefined > 0 and pairs
    wants = [defined, Want(recipe.k, None, codes)] if apart else [defined]
    seen = scan(source, wants, candidates=candidates, order=order, targets=targets)
    if ties == "keep_all":
        seen = _with_ties(seen, source, wants, candidates, order)
    ranking, for_pair = seen.rankings[0], seen.rankings[-1]
    at_k = ranking.indices[:, : recipe.k] if not recipe.extended else ranking.indices
    pool, _, counts = _pools(groups, candidates, source)
    pool_counts = counts[pool]
    usable = np.flatnonzero(ranking.lengths > 0)
    short = int((ranking.lengths < recipe.k).sum())
    if short and recipe.variant.refuses_small_pools:
        raise InputError(
            f"k = {recipe.k}: {short} queries have fewer images; the variant {recipe.variant.name!r} refuses that"
        )
    by_metric, curve = _measured(ranking, groups, pool_counts, recipe, ties, usable)
    if pairs:
        by_metric |= _pair_values(for_pair, groups, recipe, ties, usable)
    return _Part(
        by_metric,
        usable + first,
        ranking.indices[usable].astype(np.int32),
        (for_pair.indices if apart else at_k)[usable].astype(np.int32) if pairs else None,
        seen.ranks,
        curve,
        short,
        int(_ties_at(ranking, recipe.k).sum()),
        int(_ties_within(ranking).sum()) if ties == "expected" else 0,
        ranking.all_equal(pool_counts.sum(axis=1))[usable],
    )


def _ties_at(ranking: Ranking, k: int) -> NDArray[np.bool_]:
    """(Q,) whether the image at rank k ties with one that is not among the top k."""
    if ranking.indices.shape[1] <= k:
        return np.asarray(ranking.n_tied > 0)
    after = ranking.indices[:, k] >= 0
    return np.asarray(after & (ranking.scores[:, k] == ranking.scores[:, k - 1]))


def _ties_within(ranking: Ranking) -> NDArray[np.bool_]:
    """(Q,) whether any two images tie, of which one at least is ranked."""
    same = (ranking.scores[:, 1:] == ranking.scores[:, :-1]) & (ranking.indices[:, 1:] >= 0)
    return np.asarray(same.any(axis=1) | (ranking.n_tied > 0))


def _with_ties(
    seen: Scan, source: Source, wants: Sequence[Want], candidates: Candidates, order: Order | NDArray[np.int64]
) -> Scan:
    """The lists made longer by what ties with their last image."""
    longer = [
        replace(want, k=want.k + int(ranking.n_tied.max())) for want, ranking in zip(wants, seen.rankings, strict=True)
    ]
    again = scan(source, longer, candidates=candidates, order=order).rankings
    rankings = []
    for before, after in zip(seen.rankings, again, strict=True):
        stays = np.arange(after.indices.shape[1]) < (before.lengths + before.n_tied)[:, None]
        indices = np.where(stays, after.indices, -1)
        rankings.append(Ranking(indices, np.where(stays, after.scores, -np.inf), before.left_out, before.k))
    return Scan(tuple(rankings), seen.ranks, seen.ties)


def _measured(
    ranking: Ranking,
    groups: Groups,
    pool_counts: NDArray[np.int64],
    recipe: Recipe,
    ties: str,
    usable: NDArray[np.int64],
) -> tuple[dict[str, Floats], Floats | None]:
    if usable.size == 0:
        return {}, None
    some, pool = ranking.some(usable), pool_counts[usable]
    if ties == "expected":
        return expected_list_metrics(some, groups.labels, pool, recipe)
    ranked = some.labels(groups.labels)
    curve = None
    if recipe.looks_deep:
        curve = kl_curve(ranked[:, : recipe.depth], desired_shares(recipe.desired, pool))
    return list_metrics(ranked, pool, recipe, curve), None if curve is None else curve.sum(axis=0)


def _pair_values(
    ranking: Ranking, groups: Groups, recipe: Recipe, ties: str, usable: NDArray[np.int64]
) -> dict[str, Floats]:
    top = ranking.indices[usable, : recipe.k]
    wanted = {metric.name for metric in recipe.metrics}
    by_metric = {name: own(top) for name, own in recipe.variant.of_indices.items() if name in wanted}
    if ties == "expected":
        counts = expected_counts(ranking, groups.labels, groups.n_groups, recipe.k)[usable]
        return by_metric | pair_metrics(counts, np.minimum(ranking.lengths, recipe.k)[usable], recipe)
    indices = ranking.indices[usable] if recipe.extended else top
    ranked = np.append(groups.labels, np.int32(-2))[indices]
    return by_metric | pair_metrics(group_counts(ranked, groups.n_groups), (indices >= 0).sum(axis=1), recipe)


def _pools(groups: Groups, candidates: Candidates, source: Source) -> tuple[Ints, Ints | None, NDArray[np.int64]]:
    """The pool of each query and of each image (``None``: all share one), and (P, G) labelled images of each pool.

    A query's own items are not taken out.
    """
    keys = candidates.checked(source.n_queries, source.n_images)
    if keys.query_pool is None or keys.image_pool is None:
        return np.zeros(source.n_queries, dtype=np.int64), None, groups.counts()[None, :]
    n_pools = 1 + int(max(keys.query_pool.max(), keys.image_pool.max()))
    flat = keys.image_pool[groups.defined] * groups.n_groups + groups.labels[groups.defined]
    counts = np.bincount(flat, minlength=n_pools * groups.n_groups).reshape(n_pools, groups.n_groups)
    return keys.query_pool, keys.image_pool, counts


def _joined(
    parts: Sequence[_Part], groups: Groups, recipe: Recipe, candidates: Candidates, source: Source
) -> Retrieved:
    queries = np.concatenate([part.queries for part in parts])
    if queries.size == 0:
        raise InputError("no query has a labelled image to retrieve; check the labels and the pools")
    used = [part for part in parts if part.queries.size]
    by_metric = {name: np.concatenate([part.found[name] for part in used]) for name in used[0].found}
    _refuse_nan(by_metric)
    pool, image_pool, counts = _pools(groups, candidates, source)
    curves = [part.curve for part in used if part.curve is not None]
    ranks = [part.ranks for part in parts if part.ranks is not None]
    shown = [part.pair_indices for part in used if part.pair_indices is not None]
    return Retrieved(
        values={name: value for name, value in by_metric.items() if value.ndim == 1},
        by_group={name: value for name, value in by_metric.items() if value.ndim == 2},
        queries=queries,
        groups=groups,
        recipe=recipe,
        pool=pool[queries],
        pool_counts=counts,
        indices=_stacked([part.indices for part in used]),
        pair_indices=_stacked(shown) if shown else None,
        image_pool=image_pool,
        ranks=np.concatenate(ranks) if ranks else None,
        mean_kl_curve=np.sum(curves, axis=0) / len(queries) if curves else None,
        dropped={"query without a labelled image in its pool": source.n_queries - len(queries)},
        notes=_notes(parts, recipe, source.n_queries, groups),
        all_equal=np.concatenate([part.all_equal for part in parts]),
        shared_ties=sum(part.shared for part in parts),
    )


def _refuse_nan(by_metric: Mapping[str, Floats]) -> None:
    for name, values in by_metric.items():
        if np.isnan(values).any() and not METRICS.get(name).from_mean_of:
            raise InputError(f"the metric {name!r} gave no number (NaN) for {int(np.isnan(values).sum())} queries")


def _stacked(tables: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    width = max(table.shape[1] for table in tables)
    wide = [np.pad(t, ((0, 0), (0, width - t.shape[1])), constant_values=-1) for t in tables]
    return np.concatenate(wide)


def _notes(parts: Sequence[_Part], recipe: Recipe, n_queries: int, groups: Groups) -> tuple[str, ...]:
    notes = []
    short, tied = sum(part.short for part in parts), sum(part.tied for part in parts)
    if short:
        notes.append(f"{short} of {n_queries} queries have fewer than K = {recipe.k} images and use all they have")
    if tied:
        notes.append(f"{tied} of {n_queries} queries have a tie at rank {recipe.k}")
    if recipe.looks_deep and recipe.variant.depth == "k2" and recipe.depth == DEEPEST < recipe.k**2:
        notes.append(f"NDKL looks at the first {DEEPEST:,} prefixes, not at K squared = {recipe.k**2:,}")
    if groups.n_undefined:
        notes.append(f"{groups.n_undefined} of {len(groups)} images have no group")
    empty = [name for name, count in zip(groups.names, groups.counts(), strict=True) if count == 0]
    if empty:
        notes.append("no image of " + ", ".join(empty))
    return tuple(notes)
