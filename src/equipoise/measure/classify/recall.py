"""Recall of a multi-label classifier by group: whose objects it misses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_matrix
from equipoise.measure.captions.counts import moved_interval
from equipoise.measure.classify.average_precision import yes_or_no
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_null
from equipoise.measure.stats.bootstrap import no_width_note, resampling_weights
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import permuted_labels
from equipoise.measure.stats.group_range import resampled_range
from equipoise.measure.stats.permutation import p_values


@dataclass(frozen=True)
class GroupRecall:
    """Recall of each group's images, and the widest gap between two groups."""

    gap: Estimate
    by_group: dict[str, Estimate]
    by_label: Floats
    """(G, L) recall of each label in each group's images; NaN where a group has none with it."""
    groups: tuple[str, ...]
    compared: tuple[int, ...]
    """The labels that every group has in at least ``least`` images; only these are compared."""


@metric(
    "object_recall",
    takes="labels",
    title="recall of objects",
    summary="Share of the objects in a group's images that the classifier finds, and its widest gap between groups.",
    citation="equal opportunity: Hardt, Price and Srebro, NeurIPS 2016; here over many labels",
    formula="mean over labels of P(predicted | shown, group); gap: highest group minus lowest",
    bounds=(0.0, 1.0),
    direction="gap 0: no group's objects are missed more than another's",
    better="higher",
    chance="of the gap: groups shuffled over the images; above 0, more for small groups",
    when_it_lies="A label may be harder to see in one group's images for other reasons, such as smaller objects; "
    "predicting everything gives recall 1.",
    unit="share",
    per_group=True,
    rows={"object_recall_gap": {"title": "gap in recall of objects", "unit": "share", "main": 18}},
)
def object_recall(
    predicted: ArrayLike,
    truth: ArrayLike,
    groups: Groups,
    *,
    least: int = 5,
    draws: int = 499,
    replicates: int = 500,
    seed: int = 0,
    level: float = 0.95,
) -> GroupRecall:
    """Recall by group of ``predicted`` against ``truth``.

    A group's recall is the mean over labels of the share of its images with the label in which it is predicted:
    every label weighs the same, whatever a group is shown with. Interval: bootstrap over images, of the gap for the
    range over all groups, whichever are the extremes; null of the gap: groups dealt anew over the images, objects and
    predictions of an image together.

    Args:
        predicted: (n, L) of 0 and 1, whether the classifier finds each label in each image.
        truth: (n, L) of 0 and 1, whether the image shows it.
        groups: of the images. Groups without images, and images without a group, are left out.
        least: a label is compared only if every group has it in at least so many images.
        draws: how many times groups are dealt anew for the null.
        replicates: how many resamples of the images make the intervals.
        seed: which resamples and deals are drawn.
        level: confidence level of the intervals.

    Returns:
        The gap with its chance level, the recall of each group, and that of each label in each group's images.

    >>> groups = Groups.from_values(["f"] * 10 + ["m"] * 10)
    >>> shown = np.ones((20, 1)); said = shown.copy(); said[:5] = 0
    >>> found = object_recall(said, shown, groups)
    >>> found.gap.value, found.by_group["f"].value, found.by_group["m"].value
    (0.5, 0.5, 1.0)
    """
    said, shown = (yes_or_no(as_matrix(table, name)) for table, name in ((predicted, "predicted"), (truth, "truth")))
    if said.shape != shown.shape:
        raise InputError(f"predicted has shape {said.shape} and truth {shown.shape}; they are of the same labels")
    groups.check_length(len(said))
    present = [g for g, count in enumerate(groups.counts()) if count]
    if len(present) < 2:
        raise InputError(f"recall is compared between groups, and only {len(present)} has images")
    kept = groups.defined
    labels = np.searchsorted(present, groups.labels[kept])
    said, shown, names = said[kept], shown[kept], tuple(groups.names[g] for g in present)
    everyone = [np.ones((1, len(shown))) * (labels == g) for g in range(len(names))]
    sizes = np.concatenate([inside @ shown for inside in everyone])
    compared = np.flatnonzero((sizes >= as_count(least, "least")).all(axis=0))
    if not len(compared):
        raise InputError(f"no label is in at least {least} images of each group ({', '.join(names)}); ask for fewer")
    with np.errstate(invalid="ignore"):
        by_label = np.concatenate([inside @ (said * shown) for inside in everyone]) / sizes
    hits, shown = (said * shown)[:, compared], shown[:, compared]
    means = _recalls(everyone, hits, shown)[:, 0]
    rng = np.random.default_rng(seed)
    resampled = np.concatenate(
        [
            _recalls([block * (labels == g) for g in range(len(names))], hits, shown)
            for block in resampling_weights(len(shown), as_count(replicates, "replicates"), rng)
        ],
        axis=1,
    )
    null = np.concatenate(
        [
            np.ptp(_recalls([(block == g).astype(np.float64) for g in range(len(names))], hits, shown), axis=0)
            for block in permuted_labels(labels, as_count(draws, "draws"), rng)
        ]
    )
    if not len(null):
        raise InputError(f"none of {draws} shuffles leaves a label that all groups have; ask for more draws")
    dropped = {
        "images without a group": int((~kept).sum()),
        "labels too rare in a group": said.shape[1] - len(compared),
    }
    gap = float(np.ptp(means))
    interval = resampled_range(means, resampled.T, level)
    estimate = Estimate(
        gap,
        None if interval is None else min(gap, interval[0]),
        None if interval is None else min(1.0, max(gap, interval[1])),
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)) if len(null) > 1 else None,
        p_value=p_values(gap, null, rng=rng).value,
        n=len(shown),
        n_groups=len(names),
        dropped=dropped,
        notes=(f"{len(compared)} labels", *(() if interval else (no_width_note(np.ptp(resampled, axis=0)),))),
        level=level,
    )
    counts = np.bincount(labels)
    by_group = {}
    for g, name in enumerate(names):
        low, high, why = moved_interval(float(means[g]), resampled[g], level, least=0.0, most=1.0)
        by_group[name] = Estimate(
            float(means[g]),
            low,
            high,
            n=int(counts[g]),
            notes=(no_null("recall of one group is no bias; the gap is"), *why),
            level=level,
        )
    return GroupRecall(estimate, by_group, by_label, names, tuple(compared.tolist()))


def _recalls(weights: list[Floats], hits: Floats, shown: Floats) -> Floats:
    """(G, b) mean recall over labels, from how often each image counts, (b, n) for each group.

    In a draw only labels that all groups have are compared, so that it is the same labels for each; draws without any
    are left out.
    """
    sizes = np.stack([each @ shown for each in weights])
    there = (sizes > 0).all(axis=0)
    shares = np.stack([each @ hits for each in weights]) / np.maximum(sizes, 1e-300)
    counts = there.sum(axis=1)
    some = counts > 0
    return np.asarray(np.where(there, shares, 0.0).sum(axis=2)[:, some] / counts[some])
