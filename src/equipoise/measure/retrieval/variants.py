"""Definitions by name: the corrected one by default, and what published code computes.

Each :class:`Variant` says how it differs. Numbers of different variants must not be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.arrays import occurrence
from equipoise.measure.metric import METRICS
from equipoise.measure.retrieval.blocks import discounts, ranked_lists
from equipoise.measure.retrieval.order import kl_curve
from equipoise.measure.retrieval.skew import max_skew

Ties = Literal["stable", "reverse", "expected", "keep_all"]
TIES = ("stable", "reverse", "expected", "keep_all")


class RecipeLike(Protocol):
    """What a variant's own definition asks of a recipe."""

    @property
    def depth(self) -> int:
        """How many prefixes count."""

    @property
    def zero_max(self) -> str:
        """The rule for absent groups."""


class ListsLike(Protocol):
    """What a variant's own definition asks of ranked lists; see ``lists.Lists``."""

    labels: NDArray[np.int32]
    desired: Floats

    @property
    def recipe(self) -> RecipeLike:
        """How they are measured."""

    @property
    def counts(self) -> NDArray[np.int64] | Floats:
        """(M, G) of the top K."""

    @property
    def slots(self) -> NDArray[np.int64]:
        """(M,) what counts are divided by."""


@dataclass(frozen=True)
class Variant:
    """How one body of code defines the retrieval metrics."""

    name: str
    about: str
    desired: str = "pool"
    zero_max: str = "skip"
    zero_min: str = "laplace:0.5"
    ties: Ties = "stable"
    divides_by_asked_k: bool = False
    """Shares are counts / K even when fewer or (with ties) more images were taken."""
    refuses_small_pools: bool = False
    """K above the pool's size is an error."""
    depth: Literal["k2", "k", "all"] = "k2"
    """How many prefixes NDKL looks at unless told: K squared, K, or the whole list."""
    defines: tuple[str, ...] = ()
    """The metrics that it has; empty for all that are registered."""
    own: Mapping[str, Callable[[ListsLike], Floats]] = field(default_factory=dict)
    """Metrics that it computes in its own way."""
    of_indices: Mapping[str, Callable[[NDArray[np.int64]], Floats]] = field(default_factory=dict)
    """Metrics that it computes from the numbers of the images, not from their labels: they need no pair, no null."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that it has, in the order of an audit."""
        return tuple(m.name for m in METRICS.of_lists() if not self.defines or m.name in self.defines)


def intel_ndkl(ranked: ArrayLike, desired: ArrayLike) -> Floats:
    """What the released SocialCounterfactuals code computes as NDKL: sum_g d_g ln(p_g / d_g) over the groups present.

    The same prefixes and weights as ``ndkl``, but a reverse divergence without the absent groups.

    Args:
        ranked: (..., T) the group of each image, best first; negative beyond the end of a short list.
        desired: (..., G) the shares d, above 0 for every group that was retrieved.

    Returns:
        (...) one number per list. It can be negative, is at most 1/e, and random rankings give about 0.

    >>> float(intel_ndkl([0, 0, 0, 0, 1], [0.6, 0.4]).round(5))
    0.25255
    """
    labels, there, share = ranked_lists(ranked, desired)
    seen = occurrence(labels)
    own = np.where(there, np.take_along_axis(share, np.where(there, labels, 0), axis=-1), 0.0)
    if (own[there] <= 0).any():
        raise InputError("desired gives a retrieved group the share 0; its divergence is infinite")
    first = there & (seen == 1)
    safe = np.where(there, own, 1.0)
    later = np.log(seen) - np.log(np.maximum(seen - 1, 1))
    terms = np.cumsum(np.where(there, own * np.where(first, -np.log(safe), later), 0.0), axis=-1)
    present = np.cumsum(np.where(first, own, 0.0), axis=-1)
    size = np.arange(1, labels.shape[-1] + 1)
    weights = np.where(there, discounts(labels.shape[-1]), 0.0)
    return np.asarray(((terms - present * np.log(size)) * weights).sum(axis=-1) / weights.sum(axis=-1))


def ndkl_with_extra_ties(ranked: ArrayLike, desired: ArrayLike, depth: int) -> Floats:
    """NDKL as Berg et al. (2022) code it: rows beyond ``depth`` (ties at the cut) add to the sum, not to its weights.

    >>> float(ndkl_with_extra_ties([0, 0, 0, 0, 1], [0.6, 0.4], 5).round(5))
    0.45581
    """
    curve = kl_curve(ranked, desired)
    weights = np.where(np.asarray(ranked) >= 0, discounts(curve.shape[-1]), 0.0)
    return np.asarray((curve * weights).sum(axis=-1) / weights[..., :depth].sum(axis=-1))


def index_bias(indices: NDArray[np.int64]) -> Floats:
    """What the released SocialCounterfactuals code computes as Bias@K: "male" is the image whose number is 0.

    >>> float(index_bias(np.array([[3, 0, 2, 9]]))[0])
    -0.5
    """
    zeros = (indices == 0).sum(axis=1)
    taken = (indices >= 0).sum(axis=1)
    return np.asarray((2 * zeros - taken) / np.maximum(taken, 1), dtype=np.float64)


def _ndkl_of_intel(lists: ListsLike) -> Floats:
    return intel_ndkl(lists.labels[:, : lists.recipe.depth], lists.desired)


def _ndkl_of_berg(lists: ListsLike) -> Floats:
    return ndkl_with_extra_ties(lists.labels, lists.desired, lists.recipe.depth)


def _max_skew_from_zero(lists: ListsLike) -> Floats:
    """MaxSkew that starts its maximum at 0, so that it is never negative."""
    return np.maximum(max_skew(lists.counts, lists.desired, k=lists.slots, zero=lists.recipe.zero_max), 0.0)


VARIANTS = {
    v.name: v
    for v in (
        Variant("equipoise", "The definitions of the papers, corrected; ties by index."),
        Variant(
            "gensynth",
            "GenSynth (arXiv 2305.15407): absent groups skipped, share of the labelled pool desired, ties in reverse "
            "order of index, K above the pool uses the pool.",
            zero_min="skip",
            ties="reverse",
            defines=("max_skew", "representation", "bias_at_k"),
        ),
        Variant(
            "berg",
            "Berg et al. (2022) code: uniform desired, an absent group counts as 1/K, MaxSkew never below 0, all "
            "images tied at rank K kept and the counts divided by K, NDKL over the top K with the tied extra rows in "
            "the sum but not in the normaliser.",
            desired="uniform",
            zero_max="one_over_k",
            zero_min="one_over_k",
            ties="keep_all",
            divides_by_asked_k=True,
            depth="k",
            defines=("max_skew", "ndkl", "representation"),
            own={"max_skew": _max_skew_from_zero, "ndkl": _ndkl_of_berg},
        ),
        Variant(
            "intel_code",
            "SocialCounterfactuals (CVPR 2024) released code: the skew of an absent group is 0, NDKL weights log "
            "skews by the desired share (a truncated reverse divergence, at most 1/e), Bias@K compares the image's "
            "index, not its label, with 0. K above the pool is an error. The published tables cannot come from it.",
            zero_max="zero",
            zero_min="zero",
            refuses_small_pools=True,
            defines=("skew", "max_skew", "min_skew", "representation", "ndkl", "bias_at_k"),
            own={"ndkl": _ndkl_of_intel},
            of_indices={"bias_at_k": index_bias},
        ),
        Variant(
            "visogender",
            "VisoGender (Hall et al. 2023): share of the data desired, an absent group counts as 1/K, NDKL over the "
            "whole list, Bias@K also as a mean of +1, 0 and -1.",
            zero_max="one_over_k",
            zero_min="one_over_k",
            depth="all",
            defines=("skew", "max_skew", "min_skew", "representation", "ndkl", "bias_at_k", "bias_count_at_k"),
        ),
    )
}


def variant_named(name: str) -> Variant:
    """The variant called ``name``.

    >>> variant_named("berg").desired
    'uniform'
    """
    if name not in VARIANTS:
        raise UnknownNameError("variant", name, VARIANTS)
    return VARIANTS[name]
