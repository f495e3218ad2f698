"""Whom a model takes for "a person", and whom it classifies well: preference and zero-shot accuracy per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import COSINE_TIE, as_count, as_keys, chosen, row_blocks, same_width, unit_rows
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import mostly_mixed
from equipoise.measure.stats.group_means import GroupMeans, group_means
from equipoise.measure.stats.shares import share_estimate


@metric(
    "person_preference",
    takes="vectors",
    summary='Share of a group closer to "a person" than to its own label.',
    citation='"Would deep generative models amplify bias in future models?", Eq. 5; Wolfe and Caliskan 2022',
    formula="share of images with cos(x, neutral) > cos(x, own label), ties 0",
    bounds=(0.0, 1.0),
    direction="low for one group: the group is marked",
    chance="1/2 (own label), 1 / (G + 1) (all labels); gap: shuffled labels",
    when_it_lies="Moves with the wording of two sentences.",
    unit="share",
    rows={"person_preference_gap": {"main": 11}},
)
def person_preference(
    images: Any,
    neutral: Any,
    group_texts: Any,
    groups: Groups,
    *,
    variant: str = "own_label",
    clusters: Any = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> GroupMeans:
    """Share of a group's images closer to "a photo of a person" than to their group's own text.

    ("Would deep generative models amplify bias", Eq. 5.) PP_a = share of x in group a with cos(x, neutral) >
    cos(x, text_a), strictly: a tie counts 0. Chance is 1/2, or 1 / (G + 1) for all labels.

    Args:
        images: (n, d) embeddings.
        neutral: (d,) embedding of the neutral text.
        group_texts: (G, d) embeddings of the groups' texts, in the order of ``groups.names``.
        groups: of the images; an image of undefined group is not counted.
        variant: "own_label", or "all_labels", which asks that the neutral text beats the text of every group (Wolfe and
            Caliskan 2022).
        clusters: (n,) images that are not independent. Labels are shuffled inside clusters where most hold several
            groups; else clusters exchange them as wholes.
        permutations: how many times labels are shuffled for the chance level of the gap.
        seed: which shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        The share of each group, and the gap between the highest and the lowest.

    >>> texts = [[1.0, 0.0], [0.0, 1.0]]
    >>> groups = Groups.from_values(["a", "a", "b", "b"])
    >>> found = person_preference([[1.0, 0.2], [0.5, 1.0], [0.2, 1.0], [0.1, 1.0]], [1.0, 1.0], texts, groups)
    >>> {name: e.value for name, e in found.by_group.items()}
    {'a': 0.5, 'b': 0.0}
    """
    chosen(variant, "variant", ("own_label", "all_labels"))
    unit = unit_rows(images, "images")
    person = unit_rows(np.reshape(neutral, (1, -1)), "neutral")
    texts = unit_rows(group_texts, "group_texts")
    same_width(unit, "images", person, "neutral")
    same_width(unit, "images", texts, "group_texts")
    groups.check_length(len(unit))
    if len(texts) != groups.n_groups:
        raise InputError(f"group_texts has {len(texts)} rows for {groups.n_groups} groups: {', '.join(groups.names)}")
    to_person, to_groups = unit @ person[0], unit @ texts.T
    if variant == "own_label":
        rival = to_groups[np.arange(len(unit)), np.maximum(groups.labels, 0)]
        chance = 0.5
    else:
        rival = to_groups.max(axis=1)
        chance = 1 / (groups.n_groups + 1)
    inside = clusters is not None and _several_groups_each(groups, as_keys(clusters, "clusters", len(groups)))
    return group_means(
        (to_person > rival + COSINE_TIE).astype(np.float64),
        groups,
        clusters=clusters,
        shuffle_within=clusters if inside else None,
        share=True,
        null_value=chance,
        permutations=permutations,
        seed=seed,
        level=level,
    )


def _several_groups_each(groups: Groups, clusters: NDArray[Any]) -> bool:
    """Whether most clusters hold images of two groups; an image of undefined group belongs to none."""
    return mostly_mixed(groups.labels[groups.defined], clusters[groups.defined])


@dataclass(frozen=True)
class ZeroShot:
    """Zero-shot accuracy over all images, per group, and the gap between groups."""

    overall: Estimate
    groups: GroupMeans
    predicted: NDArray[np.intp]
    """(n,) the class of the best text, the first of those tied."""


@metric(
    "zero_shot_accuracy",
    takes="vectors",
    summary="Zero-shot accuracy by group and the gap.",
    citation="Radford 2021; GenSynth (arXiv 2305.15407), App. F",
    formula="share of images whose class text is closest, ties 1 / t",
    bounds=(0.0, 1.0),
    direction="higher is better; the gap is the bias",
    better="higher",
    chance="1 / C; gap: shuffled labels",
    when_it_lies="A group with harder classes is blamed for them unless labels are shuffled inside classes.",
    unit="share",
    rows={"zero_shot_accuracy_gap": {"main": 13}},
)
def zero_shot_accuracy(
    images: Any,
    class_texts: Any,
    targets: Any,
    groups: Groups,
    *,
    clusters: Any = None,
    shuffle_within: Any = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> ZeroShot:
    """Share of ``images`` whose class text is the closest, per group, with the gap.

    A tie of t texts for the best place counts 1 / t. Chance is 1 / C.

    Args:
        images: (n, d) embeddings.
        class_texts: (C, d) embeddings of one text per class, two classes or more.
        targets: (n,) each image's class, from 0 to C - 1.
        groups: of the images; an image of undefined group counts in the overall accuracy alone.
        clusters: (n,) images that are not independent, such as those of one person: they exchange their labels as
            wholes.
        shuffle_within: (n,) the gap's null shuffles group labels inside these, else over all images; pass ``targets``
            to shuffle inside a class, so that a group with harder classes is not blamed for them (not possible where
            the class is the group).
        permutations: how many times labels are shuffled for the chance level of the gap.
        seed: which shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        The accuracy over all images, that of each group with the gap, and the class predicted for each image.

    >>> groups = Groups.from_values(["a", "b", "b"])
    >>> found = zero_shot_accuracy([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], np.eye(2), [0, 1, 1], groups)
    >>> round(found.overall.value, 4), found.groups.gap.value
    (0.6667, 0.5)
    """
    unit, texts = unit_rows(images, "images"), unit_rows(class_texts, "class_texts", min_rows=2)
    same_width(unit, "images", texts, "class_texts")
    wanted = np.asarray(targets)
    if wanted.shape != (len(unit),) or not np.issubdtype(wanted.dtype, np.integer):
        raise InputError(f"targets must be one integer class an image ({len(unit)}), not shape {wanted.shape}")
    bad = np.flatnonzero((wanted < 0) | (wanted >= len(texts)))
    if len(bad):
        raise InputError(f"targets[{bad[0]}] = {wanted[bad[0]]} is not a class from 0 to {len(texts) - 1}")
    credit, predicted = np.empty(len(unit)), np.empty(len(unit), dtype=np.intp)
    for rows in row_blocks(len(unit), len(texts)):
        scores = unit[rows] @ texts.T
        best = scores.max(axis=1, keepdims=True)
        at_best = scores >= best - COSINE_TIE
        own = at_best[np.arange(len(scores)), wanted[rows]]
        credit[rows] = np.where(own, 1.0 / at_best.sum(axis=1), 0.0)
        predicted[rows] = scores.argmax(axis=1)
    chance = 1 / len(texts)
    by_group = group_means(
        credit,
        groups,
        clusters=clusters,
        shuffle_within=shuffle_within,
        share=True,
        null_value=chance,
        permutations=permutations,
        seed=seed,
        level=level,
    )
    overall = share_estimate(credit, clusters=clusters, null_value=chance, alternative="greater", level=level)
    return ZeroShot(overall, by_group, predicted)


@metric(
    "edit_recall",
    takes="vectors",
    summary="Recall at k of edited images by their captions.",
    citation="GenSynth (arXiv 2305.15407), App. F",
    formula="share of captions with the edit among the first k of pool + edit",
    bounds=(0.0, 1.0),
    better="higher",
    chance="k / (pool + 1)",
    when_it_lies="Says nothing about realism.",
    unit="share",
)
def edit_recall(
    pool: Any, edits: Any, captions: Any, edit_of: Any, *, ks: Sequence[int] = (1, 5, 10), level: float = 0.95
) -> Mapping[int, Estimate]:
    """Recall at k of each edited image by its own captions, among ``pool`` plus that one edit (GenSynth, App. F).

    Other edits never compete, so the pool is p + 1 each time. A tie with t pool images gives the expected share of a
    random order. Chance is k / (p + 1). Captions of one edit are one cluster.

    Args:
        pool: (p, d) embeddings of images that compete with every edit.
        edits: (e, d) embeddings of the edited images.
        captions: (c, d) embeddings of texts.
        edit_of: (c,) the edit that each caption describes, from 0 to e - 1.
        ks: every k asked for.
        level: confidence level of the intervals.

    Returns:
        The recall by k, with its interval and chance level.

    >>> found = edit_recall([[0.0, 1.0], [-1.0, 0.0]], [[1.0, 0.0]], [[1.0, 0.1]], [0], ks=[1])
    >>> found[1].value
    1.0
    """
    images, own, texts = unit_rows(pool, "pool"), unit_rows(edits, "edits"), unit_rows(captions, "captions")
    same_width(images, "pool", own, "edits")
    same_width(images, "pool", texts, "captions")
    owner = np.asarray(edit_of)
    if owner.shape != (len(texts),) or not np.issubdtype(owner.dtype, np.integer):
        raise InputError(f"edit_of must be one integer per caption ({len(texts)}), not shape {owner.shape}")
    bad = np.flatnonzero((owner < 0) | (owner >= len(own)))
    if len(bad):
        raise InputError(f"edit_of[{bad[0]}] = {owner[bad[0]]} is not an edit from 0 to {len(own) - 1}")
    above, tied = np.empty(len(texts)), np.empty(len(texts))
    target = (texts * own[owner]).sum(axis=1)
    for rows in row_blocks(len(texts), len(images)):
        scores = texts[rows] @ images.T
        # the edit's own score is summed in another order; closer than this is a tie
        close = np.abs(scores - target[rows, None]) <= COSINE_TIE
        above[rows] = ((scores > target[rows, None]) & ~close).sum(axis=1)
        tied[rows] = close.sum(axis=1)
    recalls = {}
    for k in ks:
        hits = expected_hits(above, tied, as_count(k, "ks"))
        chance = min(1.0, k / (len(images) + 1))
        several = len(np.unique(owner)) < len(owner)
        recalls[k] = share_estimate(
            hits, clusters=owner if several else None, null_value=chance, alternative="greater", level=level
        )
    return recalls


def expected_hits(above: Floats, tied: Floats, k: int) -> Floats:
    """Chance that an item with ``above`` better and ``tied`` equal rivals is among the first k in a random order.

    >>> expected_hits(np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1).tolist()
    [0.5, 0.0]
    """
    return np.asarray(np.clip(k - above, 0, tied + 1) / (tied + 1))
