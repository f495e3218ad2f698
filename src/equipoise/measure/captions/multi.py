"""Multi-attribute bias amplification: sets of objects together, where single ones may hide a leaning.

Zhao, Andrews and Xiang, "Men Also Do Laundry", ICML 2023 (arXiv 2210.11924).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from scipy import sparse

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, chosen
from equipoise.measure.captions.amplification import bias_table, bias_terms
from equipoise.measure.captions.counts import Amplification, TwoSides, two_sided_estimate
from equipoise.measure.captions.directional import (
    DirectionalCounts,
    Pairs,
    crossed,
    directional,
    left_out,
    present_mean,
    same_groups,
    task_matrix,
)
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric

Direction = Literal["undirected", "sets_to_group", "group_to_sets"]
DIRECTIONS = ("undirected", "sets_to_group", "group_to_sets")
Sets = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class MultiAmplification(Amplification):
    """An amplification over sets, with the variance of the differences that it is the mean size of."""

    variance: float
    """Over all pairs of set and group: is it spread evenly (small) or the work of a few sets (large)?"""
    sets: tuple[tuple[str, ...], ...]


def attribute_sets(
    tasks: Any, *, kind: Literal["annotated", "all"] = "annotated", largest: int = 3, least: int = 1
) -> Sets:
    """The sets of columns of ``tasks`` that occur together in at least ``least`` images.

    Args:
        tasks: (n, L) 0 and 1, dense or sparse: which attributes each image has.
        kind: ``annotated`` (released code), the complete sets that images are annotated with, so that their number
            stays below that of the images; ``all`` (the paper's definition), every set of up to ``largest`` columns.
        largest: the most columns of a set of ``all``; the limit is ours, because the number of sets grows with 2^L.
        least: in how many images a set must occur.

    Returns:
        The column numbers of each set, smaller sets first.

    >>> attribute_sets([[1, 1, 0], [1, 1, 0], [1, 0, 0]])
    ((0,), (0, 1))
    >>> attribute_sets([[1, 1, 0], [1, 1, 0], [1, 0, 0]], kind="all", largest=2)
    ((0,), (1,), (0, 1))
    """
    chosen(kind, "kind of attribute sets", ("annotated", "all"))
    as_count(largest, "largest")
    as_count(least, "least")
    table = sparse.csr_matrix(tasks)
    table.eliminate_zeros()
    table.sort_indices()
    rows = [tuple(row.tolist()) for row in np.split(table.indices, table.indptr[1:-1])]
    counts: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        if kind == "annotated":
            counts[row] += 1
        else:
            counts.update(sub for size in range(1, min(largest, len(row)) + 1) for sub in combinations(row, size))
    return tuple(sorted((s for s, n in counts.items() if s and n >= least), key=lambda s: (len(s), s)))


@metric(
    "multi_attribute_amplification",
    takes="captions",
    summary="Mean size of the change of leaning over sets of objects.",
    citation="Zhao, Andrews and Xiang, Men Also Do Laundry, ICML 2023",
    formula="1 / |M| sum |1[b(m, g) > 1 / G] (b hat - b)|; directional: mean |p hat - p|",
    range="[0, 1] for two groups",
    direction="0: nothing changed; neither sign is good",
    chance="well above 0: sizes do not cancel; reference and prediction exchanged by image",
    when_it_lies="Without its null; most sets have few images.",
)
def multi_attribute_amplification(
    groups: Groups,
    tasks: Any,
    predicted: Groups,
    predicted_tasks: Any,
    *,
    direction: Direction = "undirected",
    sets: Sets | None = None,
    kind: Literal["annotated", "all"] = "annotated",
    largest: int = 3,
    least: int = 1,
    items: Sequence[str] | None = None,
    draws: int = 499,
    replicates: int = 500,
    seed: int = 0,
    level: float = 0.95,
) -> MultiAmplification:
    """Mean size and variance of how leanings change over sets m of attributes (an image has m if it has all of it).

    M: the sets of :func:`attribute_sets` that occur with a group in the reference, or ``sets``; of these, too, only
    those that occur there, because the others have no b and no p(g | m). ``group_to_sets`` needs neither and takes all.

    - ``undirected``: 1 / |M| sum over g, m of |1[b(m, g) > 1 / G] (b hat(m, g) - b(m, g))|, b the group's share of
      the images with m; b hat from predicted sets and groups.
    - ``sets_to_group``: mean over g, m of |p(g hat | m) - p(g | m)|.
    - ``group_to_sets``: mean over g, m of |p(m hat | g) - p(m | g)|. The sign y of the printed formula cancels
      inside the absolute value.

    Absolute values do not cancel, so 0 is never reached by chance: read the excess over the null (reference and
    prediction exchanged image by image, one-sided). From the paper: the sets, b, the three directions, mean and
    variance. Ours: the reference is the same images (the paper takes b from training data); images without a
    group, and captions that name none or several, are left out; the limits ``largest`` and ``least``; interval
    (bootstrap over images, sets fixed) and null. A set that is never predicted adds 0, as in BA.

    Args:
        groups: (n,) the images' groups.
        tasks: (n, L) 0 and 1, dense or sparse: which attributes the images show.
        predicted: (n,) the groups the captions name; the same names as in ``groups``, in the same order.
        predicted_tasks: (n, L) 0 and 1: which of the attributes the captions mention.
        direction: one of the three above.
        sets: the column numbers of each set; those of :func:`attribute_sets` if None. Sets that do not occur in the
            reference are left out and counted, except for ``group_to_sets``.
        kind: ``annotated`` or ``all``, for :func:`attribute_sets`, like the next two; not read where ``sets`` are
            given.
        largest: the most columns of a set of ``all``.
        least: in how many images, of those not left out, a set must occur.
        items: (L,) names of the attributes; numbers if None.
        draws: how many exchanges the null takes.
        replicates: how many times the bootstrap draws the images.
        seed: which exchanges and resamples are drawn.
        level: confidence level of the interval.

    Returns:
        The mean size, the variance of the changes over all pairs of set and group, a table of these, and the names of
        the sets.

    >>> groups = Groups.from_values(["m", "m", "f", "f"] * 5)
    >>> shown = np.array([[1, 1], [1, 0], [1, 1], [0, 1]] * 5)
    >>> found = multi_attribute_amplification(groups, shown, groups, shown)
    >>> found.estimate.value, found.sets
    (0.0, (('0',), ('1',), ('0', '1')))
    """
    chosen(direction, "direction of multi-attribute amplification", DIRECTIONS)
    same_groups(groups, predicted, "predicted")
    shown = task_matrix(tasks, "tasks", len(groups))
    said = task_matrix(predicted_tasks, "predicted_tasks", len(groups))
    if shown.shape != said.shape:
        raise InputError(
            f"tasks has {shown.shape[1]} columns and predicted_tasks {said.shape[1]}; they are the same attributes"
        )
    words = [str(i) for i in range(shown.shape[1])] if items is None else [str(item) for item in items]
    if len(words) != shown.shape[1]:
        raise InputError(f"items has {len(words)} names for {shown.shape[1]} attributes")
    kept = groups.defined & predicted.defined
    if not kept.any():
        raise InputError("no image has a group and a prediction; there is nothing to compare")
    dropped = left_out(groups, "captions that name no group or several", int((groups.defined & ~kept).sum()))
    shown, said = shown[kept], said[kept]
    members = attribute_sets(shown, kind=kind, largest=largest, least=least) if sets is None else sets
    if not members:
        raise InputError(f"no set of attributes occurs in {least} images; there is nothing to measure")
    if direction != "group_to_sets" and sets is not None:
        seen = np.asarray(having(shown, members).sum(axis=0)).ravel() > 0
        members = tuple(member for member, there in zip(members, seen, strict=True) if there)
        if not members:
            raise InputError("none of the sets occurs in the reference; give sets that some image has all of")
        if not seen.all():
            dropped = {**dropped, "sets without an image in the reference": int((~seen).sum())}
    names = tuple(tuple(words[i] for i in member) for member in members)
    counts = DirectionalCounts(
        groups.labels[kept],
        having(shown, members),
        predicted.labels[kept] if direction != "group_to_sets" else groups.labels[kept],
        having(said if direction != "sets_to_group" else shown, members),
        groups.names,
        "group" if direction == "group_to_sets" else "task",
        "sign",
        "union",
    )
    titles = [" + ".join(name) for name in names]
    settings: dict[str, Any] = {"draws": draws, "replicates": replicates, "seed": seed, "level": level}
    if direction == "undirected":
        amplification, variance = _undirected(counts, titles, settings, dropped)
    else:
        amplification = directional(
            counts,
            titles,
            combine=_mean_size,
            train=None,
            dropped=dropped,
            alternative="greater",
            smallest=0.0,
            unit="sets of attributes",
            **settings,
        )
        variance = float(amplification.table["delta"].var(ddof=0))
    return MultiAmplification(amplification.estimate, amplification.table, variance, names)


def having(tasks: Any, sets: Sets) -> Any:
    """Sparse (n, |M|): 1 where an image has every attribute of a set."""
    members = [i for member in sets for i in member]
    pointers = np.concatenate([[0], np.cumsum([len(member) for member in sets])])
    needs = sparse.csr_matrix((np.ones(len(members)), members, pointers), (len(sets), tasks.shape[1]))
    overlaps = (tasks @ needs.T).tocoo()
    sizes = np.diff(pointers)
    complete = overlaps.data >= sizes[overlaps.col] - 0.5
    return sparse.csr_matrix(
        (np.ones(int(complete.sum())), (overlaps.row[complete], overlaps.col[complete])), (tasks.shape[0], len(sets))
    )


def _mean_size(pairs: Pairs) -> Floats:
    return present_mean(np.abs(pairs.delta))


def _undirected(
    counts: DirectionalCounts, titles: list[str], settings: dict[str, Any], dropped: dict[str, int]
) -> tuple[Amplification, float]:
    shape = (counts.n_groups, counts.n_tasks)
    sides = TwoSides.paired(
        crossed(counts.labels, counts.tasks, shape[0]),
        crossed(counts.predicted_labels, counts.predicted_tasks, shape[0]),
    )

    def by_set(cells: Floats) -> Floats:
        return np.swapaxes(cells.reshape(-1, *shape), 1, 2)

    def statistic(truth: Floats, said: Floats, _: Floats) -> Floats:
        terms = bias_terms(by_set(truth), by_set(said))[2]
        return np.asarray(np.abs(terms).sum(axis=(1, 2)) / shape[1])

    truth, said, _ = sides.totals()
    estimate = two_sided_estimate(
        sides,
        statistic,
        n=len(counts.labels),
        n_groups=shape[0],
        alternative="greater",
        least=0.0,
        dropped=dropped,
        notes=(f"{shape[1]} sets of attributes",),
        **settings,
    )
    table = bias_table(by_set(truth)[0], by_set(said)[0], titles, counts.names)
    return Amplification(estimate, table), float(table["term"].var(ddof=0))
