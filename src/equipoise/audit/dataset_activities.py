"""Activities that captions tie to a group, image by image or source by source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy import stats as sps

from equipoise.audit.dataset_parts import Part
from equipoise.errors import InputError
from equipoise.measure.dataset_exchange import Exchange, item_lean
from equipoise.measure.estimate import Estimate
from equipoise.measure.stats import benjamini_hochberg
from equipoise.text.activity_mining import ActivityBias, ActivityCounts, activity_bias, count_activities

__all__ = ["activities_of"]

LEAST_DRAWS = 4999
"""Draws of the null by source: enough that the smallest p-value survives the correction for a few hundred."""


def activities_of(part: Part) -> ActivityBias | None:
    """Verb-object pairs by group, with log ratios and tails; of the two largest groups where there are more.

    An activity counts once per image and group, since the captions of one image are not independent. The table has
    columns more than the corpus gives: ``p_exact``, binomial against the corpus's own share, ``q_exact``, and
    ``error``, the standard error of the log ratio. Where images come from sources or sets, ``p_exact`` is that of
    labels exchanged between them (:func:`equipoise.measure.dataset_exchange.item_lean`), and the error is larger by
    what the images of a source have in common.
    """
    texts = [". ".join(some) for some in part.dataset.captions]
    lexicon = part.dataset.lexicons.get(part.axis)
    counts = None
    if lexicon is not None and set(lexicon.groups) >= set(part.groups.names):
        counts = count_activities(texts, label=lexicon.label)
    if counts is None or len(counts.groups) < 2:  # "a young woman riding": the word for who acts tells no age
        labels = [None if g < 0 else part.groups.names[g] for g in part.groups.labels]
        counts = count_activities(texts, labels)
        part.findings.note(f"{part.axis}: an activity goes to the group of its image, not of the word for who acts")
    sizes = {name: int(counts.table[name].sum()) for name in counts.groups}
    if len(sizes) < 2:
        part.findings.note(f"{part.axis}: no activities to compare: captions tell them of fewer than two groups")
        return None
    first, second, *others = sorted(sizes, key=lambda name: -sizes[name])
    if others:
        part.findings.note(f"{part.axis}: activities compare the two groups with most, {first} and {second}")
    try:
        found = activity_bias(counts, first, second, min_count=part.settings.min_activities)
    except InputError as error:
        part.findings.note(f"{part.axis}: no activities: {error}")
        return None
    if part.sources() is None:
        found = _with_exact_p(found, sizes[first] / (sizes[first] + sizes[second]))
    else:
        found = _with_clusters(part, counts, found)
    _add_activities(part, found)
    return found


def _with_exact_p(found: ActivityBias, share: float) -> ActivityBias:
    """The normal approximation calls 46 to 0 uncertain; the binomial law does not."""
    pairs = list(zip(found.table[found.first], found.table[found.second], strict=True))
    exact = [min(1.0, float(sps.binomtest(int(a), int(a + b), share).pvalue)) for a, b in pairs]
    error = [float(np.sqrt(1 / (a + 0.5) + 1 / (b + 0.5))) for a, b in pairs]
    return replace(found, table=found.table.assign(p_exact=exact, q_exact=benjamini_hochberg(exact), error=error))


def _with_clusters(part: Part, counts: ActivityCounts, found: ActivityBias) -> ActivityBias:
    """Mentions of one source exchange their group as one, or inside the source where it shows both."""
    sides = {found.first: 0, found.second: 1}
    kept = [(image, activity, sides[group]) for image, activity, group in counts.mentions if group in sides]
    rows, row_of = np.unique(np.array([(image, side) for image, _, side in kept]), axis=0, return_inverse=True)
    row_of = row_of.ravel()
    sources = np.unique(np.asarray(part.sources()), return_inverse=True)[1][rows[:, 0]]
    place = {str(name): column for column, name in enumerate(found.table.index)}
    inside = np.array([activity in place for _, activity, _ in kept])
    columns = np.array([place.get(activity, -1) for _, activity, _ in kept])
    matrix = sparse.csr_matrix(
        (np.ones(int(inside.sum())), (row_of[inside], columns[inside])), shape=(len(rows), len(place))
    )
    weights = np.bincount(row_of, minlength=len(rows)).astype(np.float64)
    lean = item_lean(
        matrix,
        weights,
        Exchange.of(rows[:, 1].astype(np.intp), sources, 2),
        permutations=max(part.settings.permutations, LEAST_DRAWS),
        seed=part.settings.seed,
    )
    p_value = lean.p_value[:, 0]
    first, second = (found.table[name].to_numpy(float) for name in (found.first, found.second))
    error = np.sqrt(1 / (first + 0.5) + 1 / (second + 0.5)) * _inflation(matrix, rows[:, 1], sources)
    return replace(found, table=found.table.assign(p_exact=p_value, q_exact=benjamini_hochberg(p_value), error=error))


def _inflation(matrix: Any, sides: NDArray[Any], sources: NDArray[Any]) -> NDArray[np.float64]:
    """(L,) how much larger the error of each activity's share is by source than by mention, never below 1.

    Where the sources of an activity do not differ, each counts as one mention; with one source, by its size.
    """
    gather = sparse.csr_matrix((np.ones(len(sources)), (sources, np.arange(len(sources)))))
    every = sparse.csr_matrix(gather @ matrix)
    own = sparse.csr_matrix(gather @ sparse.diags((sides == 0).astype(np.float64)) @ matrix)
    n, hits, units = (np.asarray(x.sum(axis=0), dtype=np.float64).ravel() for x in (every, own, every > 0))
    share = hits / n
    squares, products, sizes = (
        np.asarray(x.sum(axis=0), dtype=np.float64).ravel()
        for x in (own.multiply(own), own.multiply(every), every.multiply(every))
    )
    scatter = np.clip(squares - 2 * share * products + share**2 * sizes, 0, None) * units / np.maximum(units - 1, 1)
    plain = n * share * (1 - share)
    ratio = np.divide(scatter, plain, out=sizes / n, where=plain * scatter > 0)
    widened = sps.t.ppf(0.975, np.maximum(units - 1, 1)) / sps.norm.ppf(0.975)
    return np.asarray(np.sqrt(np.maximum(1.0, ratio)) * widened)


def _add_activities(part: Part, found: ActivityBias) -> None:
    reach = float(sps.norm.ppf(0.5 + part.settings.level / 2))
    for row in found.table.reset_index(names="activity").to_dict("records"):
        side = f"{found.first} over {found.second}"
        estimate = Estimate(
            row["log_ratio"],
            row["log_ratio"] - reach * row["error"],
            row["log_ratio"] + reach * row["error"],
            null_mean=found.chance,
            null_sd=row["error"],
            p_value=min(1.0, row["p_exact"]),
            n=int(row[found.first] + row[found.second]),
            n_groups=2,
            notes=(f"{side}; q {row['q_exact']:.2g}; z among activities {row['z_across']:.2f}",),
        )
        part.add(estimate, "activity_log_ratio", subject=row["activity"], group=found.first)
