"""All metrics of ranked lists at once: the one function that measures rankings and their nulls alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.measure.retrieval import order as exposures
from equipoise.measure.retrieval import order as ndkls
from equipoise.measure.retrieval import skew as skews
from equipoise.measure.retrieval.blocks import group_counts
from equipoise.measure.retrieval.variants import Variant, intel_ndkl, ndkl_with_extra_ties

__all__ = ["Recipe", "index_bias", "list_metrics", "pair_metrics"]

FloatArray = NDArray[np.float64]
Labels = NDArray[np.int32]


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the numbers, with the variant's defaults filled in."""

    variant: Variant
    k: int
    depth: int
    n_groups: int
    desired: str | FloatArray
    zero_max: str
    zero_min: str
    attention: str
    pair: tuple[int, int] | None
    metrics: tuple[str, ...]
    extended: bool = False
    """Lists hold more than K images where images tie at rank K; all of them count as the top K."""


def list_metrics(
    ranked: Labels, pool_counts: NDArray[np.int64], recipe: Recipe, curve: FloatArray | None = None
) -> dict[str, FloatArray]:
    """Per-list values (M,), or (M, G) for the ones by group, of the lists ``ranked`` (M, T).

    ``pool_counts`` (M, G) or (G,): the labelled images each list was drawn from. ``curve`` (M, depth): the
    divergence of every prefix, if it is known already.
    """
    pool = np.broadcast_to(pool_counts, (len(ranked), recipe.n_groups))
    desired = skews.desired_shares(recipe.desired, pool)
    top = ranked if recipe.extended else ranked[:, : recipe.k]
    found = count_metrics(group_counts(top, recipe.n_groups), (top >= 0).sum(axis=1), desired, recipe)
    wants = set(recipe.metrics)
    if "ndkl" in wants:
        found["ndkl"] = _ndkl(ranked, desired, recipe, curve)
    if wants & {"exposure", "exposure_gap", "exposure_ratio"}:
        seen = exposures.exposure(top, recipe.n_groups, kind=recipe.attention)
        if "exposure" in wants:
            found["exposure"] = seen
        if "exposure_gap" in wants:
            found["exposure_gap"] = exposures.gap_of(seen, desired)
        if "exposure_ratio" in wants:
            found["exposure_ratio"] = exposures.ratio_of(seen, desired)
    if wants & {"infeasible_index", "infeasible_count"}:
        prefixes, pairs = ndkls.shortfalls(top, desired)
        both = {"infeasible_index": prefixes, "infeasible_count": pairs}
        found |= {name: value for name, value in both.items() if name in wants}
    return found


def _ndkl(ranked: Labels, desired: FloatArray, recipe: Recipe, curve: FloatArray | None) -> FloatArray:
    if recipe.variant.name == "intel_code":
        return intel_ndkl(ranked[:, : recipe.depth], desired)
    if recipe.variant.name == "berg":
        return ndkl_with_extra_ties(ranked, desired, recipe.depth)
    if recipe.extended:
        return ndkls.ndkl(ranked, desired)
    deep = ranked[:, : recipe.depth]
    return ndkls.ndkl(deep, desired) if curve is None else ndkls.mean_of_curve(curve, deep >= 0)


def count_metrics(
    counts: NDArray[np.int64] | FloatArray, taken: NDArray[np.int64], desired: FloatArray, recipe: Recipe
) -> dict[str, FloatArray]:
    """The metrics that need only the counts (M, G) of the top K and how many images ``taken`` (M,) there are."""
    slots = np.full(len(counts), recipe.k) if recipe.variant.divides_by_asked_k else taken
    wants, found = set(recipe.metrics), {}
    if "skew" in wants:
        found["skew"] = skews.skew(counts, desired, k=slots, zero=recipe.zero_max)
    if "max_skew" in wants:
        found["max_skew"] = skews.max_skew(counts, desired, k=slots, zero=recipe.zero_max)
        if recipe.variant.clips_at_zero:
            found["max_skew"] = np.maximum(found["max_skew"], 0.0)
    if "min_skew" in wants:
        found["min_skew"] = skews.min_skew(counts, desired, k=slots, zero=recipe.zero_min)
    if "absent_groups" in wants:
        found["absent_groups"] = skews.absent_groups(counts, desired)
    if "representation" in wants:
        found["representation"] = skews.representation(counts, k=slots)
    return found


def pair_metrics(
    counts: NDArray[np.int64] | FloatArray, taken: NDArray[np.int64], recipe: Recipe
) -> dict[str, FloatArray]:
    """Bias@K of the recipe's pair from counts (M, G) over all images, undefined ones included in ``taken``."""
    wants = set(recipe.metrics)
    found: dict[str, FloatArray] = {}
    if not wants & {"bias_at_k", "abs_bias_at_k", "bias_count_at_k"}:
        return found
    if recipe.pair is None:
        raise InputError("Bias@K needs a pair of groups, such as pair=('male', 'female')")
    first, second = recipe.pair
    signed = skews.bias_at_k(counts, first, second)
    if "bias_at_k" in wants:
        found["bias_at_k"] = signed
    if "abs_bias_at_k" in wants:
        found["abs_bias_at_k"] = skews.abs_bias_at_k(counts, first, second)
    if "bias_count_at_k" in wants:
        found["bias_count_at_k"] = skews.bias_count_at_k(counts, np.maximum(taken, 1), first, second)
    return found


def index_bias(indices: NDArray[np.int64]) -> FloatArray:
    """What the released SocialCounterfactuals code computes as Bias@K: "male" is the image whose number is 0.

    >>> float(index_bias(np.array([[3, 0, 2, 9]]))[0])
    -0.5
    """
    zeros = (indices == 0).sum(axis=1)
    taken = (indices >= 0).sum(axis=1)
    return np.asarray((2 * zeros - taken) / np.maximum(taken, 1), dtype=np.float64)
