"""How alike a model finds the images of one group: self-similarity, its normalised form and the gap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, chosen, row_blocks, unit_rows
from equipoise.measure.groups import Groups
from equipoise.measure.metric import Alternative, metric
from equipoise.measure.notes import minus, no_interval
from equipoise.measure.stats.bootstrap import ClusterSums, cluster_sums, resampling_weights
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import mostly_mixed, shuffled_labels
from equipoise.measure.stats.group_means import kept_groups
from equipoise.measure.stats.group_range import resampled_range
from equipoise.measure.stats.permutation import with_chance

VARIANTS = ("group_mean", "literal_eq4")
NOT_ABOVE_ZERO = 1e-9
"""A mean self-similarity below this is rounding; nothing can be divided by it."""


@dataclass(frozen=True)
class SelfSimilarity:
    """Self-similarity by group: higher means that the model tells the group's members apart less well."""

    by_group: Mapping[str, Estimate]
    """Mean cosine of two different images of the group; chance is that of two images of the pool."""
    normalised: Mapping[str, Estimate]
    """Relative to the groups' mean, minus 1; sums to 0 over groups. Empty where that mean is not above 0."""
    gap: Estimate | None
    """Highest minus lowest normalised value, against shuffled labels; None where there is no normalised form."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def mean_cosine(embeddings: Any) -> float:
    """Mean cosine of two different rows of ``embeddings`` (n, d): (|sum u|^2 - n) / (n^2 - n), u the unit rows.

    O(n d) instead of n^2 pairs; a row is never paired with itself (that would add about 1 / n).

    >>> round(mean_cosine([[1.0, 0.0], [0.6, 0.8]]), 6)
    0.6
    """
    unit = unit_rows(embeddings, "embeddings", min_rows=2)
    return float(_from_sums((unit.sum(axis=0) ** 2).sum()[None], np.array([len(unit)]), np.array([len(unit)]))[0])


def _from_sums(squared_length: Floats, weight: Floats, self_weight: Floats) -> Floats:
    """Mean cosine over pairs of different items from |sum w u|^2, sum w and sum w^2."""
    return np.asarray((squared_length - self_weight) / (weight**2 - self_weight))


@metric(
    "self_similarity",
    takes="vectors",
    summary="How alike a model finds the images of a group.",
    citation='Wolfe and Caliskan 2022; "Would deep generative models amplify bias in future models?", Eq. 3-4',
    formula="mean cosine over pairs of different images of the group; normalised: over the mean of groups, minus 1",
    range="[-1 / (n - 1), 1]",
    bounds=(-1.0, 1.0),
    direction="higher: members are told apart less well; the gap is the bias",
    chance="self-similarity of the pool (shuffled labels)",
    when_it_lies="One studio or duplicates make a group alike; the normalised form is unstable when the mean "
    "is near 0.",
    unit="cosine",
    rows={"self_similarity_gap": {"main": 10}},
)
def self_similarity(
    embeddings: Any,
    groups: Groups,
    *,
    variant: str = "group_mean",
    clusters: Any = None,
    shuffle_within: Any = None,
    replicates: int = 1000,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> SelfSimilarity:
    """Self-similarity of each group (Wolfe and Caliskan 2022; "Would deep generative models amplify bias", Eq. 3-4).

    SS_a = mean cosine over ordered pairs of different images of group a. Normalised: SS_a / mean_b SS_b - 1 with the
    unweighted mean over groups. Chance: labels shuffled. A group with fewer than two images is listed in ``dropped``.

    Args:
        embeddings: (n, d) one row per image.
        groups: of the images.
        variant: "group_mean" is the normalised form above; "literal_eq4" divides by the number of images of group a, as
            Eq. 4 is printed: it gives numbers of that order and is kept for comparison only.
        clusters: (n,) images that are not independent. Without ``shuffle_within`` labels are shuffled inside clusters
            where most hold several groups; else clusters of one group exchange it as wholes. The bootstrap resamples
            clusters, and does not pair one with its own copy.
        shuffle_within: (n,) labels are shuffled inside these; ``None``: over all images.
        replicates: how many resamples make the intervals.
        permutations: how many times labels are shuffled for chance.
        seed: which shuffles and resamples are drawn.
        level: confidence level of the intervals.

    Returns:
        The self-similarity of each group, its normalised form, and the gap between the extremes of that form.

    >>> a, b = [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]]
    >>> found = self_similarity(a + b, Groups.from_values(["A"] * 2 + ["B"] * 3), permutations=9, replicates=9)
    >>> [round(e.value, 5) for e in found.by_group.values()], [round(e.value, 3) for e in found.normalised.values()]
    ([0.6, 0.46667], [0.125, -0.125])
    """
    chosen(variant, "variant", VARIANTS)
    as_count(replicates, "replicates", least=2)
    as_count(permutations, "permutations", least=2)
    unit = unit_rows(embeddings, "embeddings")
    groups.check_length(len(unit))
    kept, dropped = kept_groups(groups, 2)
    if not kept:
        raise InputError("no group has two images; self-similarity needs pairs of different images")
    inside = np.isin(groups.labels, kept)
    place = np.full(groups.n_groups, -1)
    place[kept] = np.arange(len(kept))
    labels, rows = place[groups.labels[inside]], unit[inside]
    sets = _sets_of(clusters, len(unit), inside)
    within = _sets_of(shuffle_within, len(unit), inside, "shuffle_within")
    if within is None and sets is not None and mostly_mixed(labels, sets):
        within = sets
    names = tuple(groups.names[g] for g in kept)
    drawn = _drawn(rows, labels, sets, within, names, replicates, permutations, seed)
    by_group = drawn.estimates(level)
    if not drawn.value.mean() > NOT_ABOVE_ZERO:
        why = f"no normalised form: the groups' mean self-similarity is {drawn.value.mean():.4g}, not above 0"
        return SelfSimilarity(by_group, {}, None, dropped, (why,))
    relative = drawn.normalised(variant)
    if len(kept) < 2:
        why = f"no gap: only group {names[0]!r} has two images or more"
        return SelfSimilarity(by_group, relative.estimates(level), None, dropped, (why,))
    return SelfSimilarity(by_group, relative.estimates(level), relative.gap(level), dropped)


@dataclass(frozen=True)
class _Drawn:
    """Values (G,) with their null (R, G) and bootstrap (B, G) draws."""

    names: tuple[str, ...]
    sizes: Floats
    value: Floats
    null: Floats
    draws: Floats
    notes: tuple[str, ...]

    def normalised(self, variant: str) -> _Drawn:
        scale, notes = np.ones(len(self.names)), self.notes
        if variant == "literal_eq4":
            scale = self.sizes / len(self.names)
            notes = (*notes, "Eq. 4 as printed: of the order of the group's size; not what the paper's table shows")
        null, draws = _normalised(self.null, scale), _normalised(self.draws, scale)
        lost = len(self.null) + len(self.draws) - len(null) - len(draws)
        if lost:
            notes = (*notes, f"{lost} draws had a mean self-similarity not above 0 and were dropped")
        return _Drawn(self.names, self.sizes, _normalised(self.value[None], scale)[0], null, draws, notes)

    def estimates(self, level: float) -> dict[str, Estimate]:
        estimates = {}
        for i, name in enumerate(self.names):
            estimates[name] = self._tested(self.value[i], self.null[:, i], int(self.sizes[i]), level, "two-sided")
            if len(self.draws) > 1:
                low, high = np.quantile(self.draws[:, i], [(1 - level) / 2, (1 + level) / 2])
                estimates[name] = _with_interval(estimates[name], (float(low), float(high)))
        return estimates

    def gap(self, level: float) -> Estimate:
        top, bottom = int(self.value.argmax()), int(self.value.argmin())
        value, null = self.value[top] - self.value[bottom], np.ptp(self.null, axis=1)
        whose = minus(self.names[top], self.names[bottom])
        shown = self._tested(value, null, int(self.sizes.sum()), level, "greater", whose)
        return _with_interval(shown, resampled_range(self.value, self.draws, level))

    def _tested(
        self, value: float, null: Floats, n: int, level: float, alternative: Alternative, *notes: str
    ) -> Estimate:
        """An estimate with its chance level, without an interval."""
        plain = Estimate(float(value), n=n, n_groups=len(self.names), notes=(*notes, *self.notes), level=level)
        return with_chance(plain, null, alternative=alternative) if len(null) > 1 else plain


def _drawn(
    rows: Floats,
    labels: NDArray[Any],
    sets: NDArray[Any] | None,
    within: NDArray[Any] | None,
    names: tuple[str, ...],
    replicates: int,
    permutations: int,
    seed: int,
) -> _Drawn:
    n_groups = len(names)
    rng = np.random.default_rng(seed)
    null = [
        block
        for shuffled in shuffled_labels(labels, permutations, rng, within, sets)
        for block in _similarities(rows, shuffled, n_groups)
    ]
    draws = np.concatenate(list(_resampled(rows, labels, sets, n_groups, replicates, rng)))
    usable = np.isfinite(draws).all(axis=1)
    lost = int((~usable).sum())
    return _Drawn(
        names,
        np.bincount(labels, minlength=n_groups).astype(np.float64),
        next(_similarities(rows, labels[None], n_groups))[0],
        np.concatenate(null),
        draws[usable],
        (f"{lost} resamples left a group with one image and were dropped",) if lost else (),
    )


def _normalised(values: Floats, scale: Floats) -> Floats:
    """SS_a / mean_b SS_b - 1, rows whose mean is not above 0 left out; ``scale`` turns 1/|A| into 1/|E_a|."""
    mean = values.mean(axis=1)
    usable = mean > NOT_ABOVE_ZERO
    return np.asarray(values[usable] / mean[usable, None] * scale - 1)


def _similarities(rows: Floats, labels: NDArray[Any], n_groups: int) -> Iterator[Floats]:
    """Blocks (b, G) of self-similarities for each row of ``labels`` (b, n)."""
    for block in row_blocks(len(labels), len(rows) * n_groups):
        member = labels[block][:, None, :] == np.arange(n_groups)[:, None]
        # clusters that exchange their group as wholes may leave a group with one image: it has no pairs then
        count = np.maximum(member.sum(axis=2), 2).astype(np.float64)
        sums = member.reshape(-1, len(rows)).astype(np.float64) @ rows
        squares = (sums**2).sum(axis=1).reshape(count.shape)
        yield _from_sums(squares, count, count)


def _resampled(
    rows: Floats,
    labels: NDArray[Any],
    sets: NDArray[Any] | None,
    n_groups: int,
    replicates: int,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    """Blocks (b, G) of bootstrap self-similarities; an image or a cluster drawn twice is not paired with its copy."""
    if sets is not None:
        names, codes = np.unique(sets, return_inverse=True)
        parts = [cluster_sums(rows[labels == g], codes[labels == g]) for g in range(n_groups)]
        places = [np.unique(codes[labels == g]) for g in range(n_groups)]
        for weights in resampling_weights(len(names), replicates, rng):
            yield np.stack([_weighted(weights[:, at], part) for at, part in zip(places, parts, strict=True)], axis=1)
        return
    columns = []
    for g in range(n_groups):
        members = cluster_sums(rows[labels == g])
        blocks = resampling_weights(len(members.sizes), replicates, rng)
        columns.append(np.concatenate([_weighted(block, members) for block in blocks]))
    yield np.stack(columns, axis=1)


def _weighted(weights: Floats, clusters: ClusterSums) -> Floats:
    """(b,) self-similarity under each row of weights of clusters; infinite where no pair of images was drawn.

    Two copies of a person's cluster would pair near-duplicates, which different people are not.
    """
    copies, images = weights**2 - weights, weights @ clusters.sizes
    squares = ((weights @ clusters.sums) ** 2).sum(axis=1) - copies @ (clusters.sums**2).sum(axis=1)
    pairs = images**2 - copies @ clusters.sizes**2 - images
    out = np.full(len(weights), np.inf)
    usable = pairs > 0
    out[usable] = (squares - images)[usable] / pairs[usable]
    return out


def _with_interval(estimate: Estimate, ends: tuple[float, float] | None) -> Estimate:
    if ends is None or ends[1] <= ends[0]:
        return estimate.with_notes(no_interval("the resamples do not differ"))
    return replace(estimate, ci_low=ends[0], ci_high=ends[1])


def _sets_of(clusters: Any, n: int, inside: NDArray[np.bool_], name: str = "clusters") -> NDArray[Any] | None:
    if clusters is None:
        return None
    sets = np.asarray(clusters)
    if sets.shape != (n,):
        raise InputError(f"{name} has shape {sets.shape} for {n} embeddings; give one key per image")
    return sets[inside]
