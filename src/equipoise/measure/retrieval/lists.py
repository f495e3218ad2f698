"""Ranked lists and what metrics take of them: the one place where rankings and their nulls are measured alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Codes, Flags, Floats
from equipoise.errors import InputError
from equipoise.measure.metric import Metric
from equipoise.measure.retrieval.blocks import group_counts
from equipoise.measure.retrieval.order import exposure, kl_curve, shortfalls
from equipoise.measure.retrieval.skew import desired_shares
from equipoise.measure.retrieval.variants import Variant


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the numbers, with the variant's defaults filled in."""

    variant: Variant
    k: int
    depth: int
    n_groups: int
    desired: str | Floats
    zero_max: str
    zero_min: str
    attention: str
    pair: tuple[int, int] | None
    metrics: tuple[Metric, ...]
    extended: bool = False
    """Lists hold more than K images where images tie at rank K; all of them count as the top K."""

    @property
    def looks_deep(self) -> bool:
        """Whether a metric looks at prefixes beyond the top K."""
        return any(metric.takes == "divergences" for metric in self.metrics)

    def of(self, *, pair: bool) -> list[Metric]:
        """The metrics of a pair of groups, or all others; those that the variant takes of indices are neither."""
        some = [metric for metric in self.metrics if (metric.takes == "pair") is pair]
        return [metric for metric in some if metric.name not in self.variant.of_indices]


class Lists:
    """Lists of group labels (M, T), best first, drawn from pools of ``pool_counts`` (M, G) or (G,) labelled images.

    What metrics take of them (counts, exposures, divergences, ...) is worked out once, and only if asked for.
    """

    def __init__(
        self, ranked: Codes, pool_counts: NDArray[np.int64], recipe: Recipe, curve: Floats | None = None
    ) -> None:
        """``curve`` (M, depth): the divergence of every prefix, if it is known already."""
        self.recipe, self.labels, self._curve = recipe, ranked, curve
        self.desired = desired_shares(recipe.desired, np.broadcast_to(pool_counts, (len(ranked), recipe.n_groups)))

    @property
    def top(self) -> Codes:
        """(M, K) the labels of the top K."""
        return self.labels if self.recipe.extended else self.labels[:, : self.recipe.k]

    @cached_property
    def counts(self) -> NDArray[np.int64] | Floats:
        """(M, G) how many of each group are among the top K."""
        return group_counts(self.top, self.recipe.n_groups)

    @cached_property
    def taken(self) -> NDArray[np.int64]:
        """(M,) how many images the top K has."""
        return np.asarray((self.top >= 0).sum(axis=1))

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """(M,) what counts are divided by."""
        return np.full(len(self.desired), self.recipe.k) if self.recipe.variant.divides_by_asked_k else self.taken

    @cached_property
    def exposures(self) -> Floats:
        """(M, G) the share of attention that each group gets."""
        return exposure(self.top, self.recipe.n_groups, kind=self.recipe.attention)

    @cached_property
    def divergences(self) -> tuple[Floats, Flags]:
        """(M, T) of every prefix from the desired shares, and whether there is such a prefix."""
        if self.recipe.extended:
            return kl_curve(self.labels, self.desired), self.labels >= 0
        deep = self.labels[:, : self.recipe.depth]
        return (kl_curve(deep, self.desired) if self._curve is None else self._curve), deep >= 0

    @cached_property
    def shortfalls(self) -> tuple[Floats, Floats]:
        """(M,) how many prefixes, and how many pairs of prefix and group, fall short of what is due."""
        return shortfalls(self.top, self.desired)

    def arguments(self, takes: str) -> tuple[Any, ...]:
        """What a metric that ``takes`` this is called with."""
        if takes == "ranked":
            return self.top, self.desired
        value = getattr(self, takes)
        return value if isinstance(value, tuple) else (value, self.desired)

    def named(self, name: str) -> Any:
        """What else a metric may be given by name: of the lists, or of the recipe."""
        return getattr(self, name) if hasattr(self, name) else getattr(self.recipe, name)


def values_of(lists: Lists, metrics: Sequence[Metric]) -> dict[str, Floats]:
    """Per-list values (M,), or (M, G) for the ones by group."""
    own = lists.recipe.variant.own
    values = {}
    for metric in metrics:
        if metric.name in own:
            values[metric.name] = own[metric.name](lists)
            continue
        more = {keyword: lists.named(name) for keyword, name in metric.given.items()}
        values[metric.name] = _called(metric, *lists.arguments(metric.takes), shape=lists.desired.shape, **more)
    return values


def _called(metric: Metric, *arguments: Any, shape: tuple[int, ...], **more: Any) -> Floats:
    values = np.asarray((metric.compute or metric.load())(*arguments, **more), dtype=np.float64)
    expected = shape if metric.per_group else shape[:1]
    if values.shape != expected:
        raise InputError(f"the metric {metric.name!r} returned the shape {values.shape} where {expected} is expected")
    return values


def list_metrics(
    ranked: Codes, pool_counts: NDArray[np.int64], recipe: Recipe, curve: Floats | None = None
) -> dict[str, Floats]:
    """The recipe's metrics of the lists ``ranked`` (M, T), all but those of a pair of groups."""
    return values_of(Lists(ranked, pool_counts, recipe, curve), recipe.of(pair=False))


def pair_metrics(counts: NDArray[np.int64] | Floats, taken: NDArray[np.int64], recipe: Recipe) -> dict[str, Floats]:
    """Bias@K of the recipe's pair from counts (M, G) over all images, undefined ones included in ``taken``."""
    metrics = recipe.of(pair=True)
    if not metrics:
        return {}
    if recipe.pair is None:
        raise InputError("Bias@K needs a pair of groups, such as pair=('male', 'female')")
    first, second = recipe.pair
    there = {"taken": np.maximum(taken, 1)}
    return {
        metric.name: _called(
            metric,
            counts,
            shape=counts.shape,
            first=first,
            second=second,
            **{keyword: there[name] for keyword, name in metric.given.items()},
        )
        for metric in metrics
    }
