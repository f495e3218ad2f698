"""How much of an attribute can be read off features: linear probes, cross-validated or trained elsewhere.

The same probe asks a model (does its embedding leak the attribute?) and a dataset (do neutral captions or
backgrounds give the attribute away?).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.array_types import Floats, Positions
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_keys, as_matrix, chosen
from equipoise.measure.embedding.probe_error import (
    deleted_blocks,
    held_out_variance,
    jackknife_variance,
    score_estimate,
)
from equipoise.measure.embedding.ridge import ridge_scores
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import shuffled_labels
from equipoise.measure.stats.group_means import kept_groups
from equipoise.measure.stats.permutation import with_chance
from equipoise.measure.stats.shares import placements
from equipoise.pace import steps

METHODS = ("logistic", "ridge")
RETRAINED = 5000
"""Above so many images the probe is not trained anew for its interval: it hardly depends on which they are."""


@dataclass(frozen=True)
class Probe:
    """What a probe found: 0.5 AUC and 1 / G balanced accuracy are chance; 1 is an attribute in plain sight."""

    auc: Estimate
    """Area under the ROC curve; the mean over one-against-the-rest curves for more than two groups."""
    balanced_accuracy: Estimate
    """Mean over groups of the share of the group that is recognised."""
    scores: Floats
    """(n, G) the probe's scores of held-out items, in the order of the items kept."""
    labels: Positions
    """(n,) their groups, indices into ``names``."""
    names: tuple[str, ...]
    kept: NDArray[np.bool_]
    """Which of the items given were used."""


@metric(
    "probe_leakage",
    takes="vectors",
    summary="How well a linear probe reads the group off the vectors.",
    citation="Alain and Bengio 2017; DeLong 1988",
    formula="cross-validated AUC and balanced accuracy of a linear classifier",
    range="[0, 1]",
    direction="higher: the attribute leaks",
    alternative="greater",
    chance="AUC 1/2, accuracy 1 / G; probes trained on shuffled labels",
    when_it_lies="Duplicates across folds; at chance does not prove that nothing leaks.",
    unit="share",
)
def linear_probe(
    features: Any,
    groups: Groups,
    *,
    method: str = "logistic",
    folds: int = 5,
    strength: float = 1.0,
    clusters: Any = None,
    shuffle_within: Any = None,
    permutations: int = 99,
    seed: int = 0,
    level: float = 0.95,
) -> Probe:
    """Cross-validated linear probe of the groups from ``features``.

    Features are standardised inside each fold. AUC pairs images of the same fold only. The interval is for a probe
    trained on as many images as a fold leaves, whichever these are (:mod:`equipoise.measure.embedding.probe_error`).

    Args:
        features: (n, d) one row per image, dense or scipy-sparse.
        groups: of the images; groups of fewer than two images are left out.
        method: "logistic" is multinomial logistic regression with balanced classes; "ridge" least squares on the
            one-hot groups, its scores shifted and scaled so that a rare group is not outvoted (as good for most
            embeddings, and far cheaper to permute).
        folds: of the cross-validation; fewer are made where a group has fewer images, or there are fewer clusters.
        strength: the L2 penalty is 1 / ``strength`` for "logistic", and for "ridge" the number of training images over
            100 times ``strength``.
        clusters: (n,) related images (a set, a source image), kept in one fold; clusters exchange their groups as
            wholes.
        shuffle_within: (n,) shuffle groups inside these; ``None``: over all images.
        permutations: how many times groups are shuffled and the probe trained anew for the null; 0 leaves the null at
            its theoretical mean without a p-value.
        seed: which folds and shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        AUC and balanced accuracy, and the scores of held-out images that they are made from.

    >>> rng = np.random.default_rng(0)
    >>> groups = Groups.from_values(["a", "b"] * 40)
    >>> found = linear_probe(rng.normal(size=(80, 3)) + groups.labels[:, None], groups, permutations=9)
    >>> found.auc.value > 0.8, found.auc.p_value
    (True, 0.1)
    """
    chosen(method, "method", METHODS)
    x, labels, names, kept, dropped = _kept_rows(features, groups)
    sets = _keys(clusters, "clusters", kept)
    within = _keys(shuffle_within, "shuffle_within", kept)
    splits = list(_splits(labels, sets, as_count(folds, "folds", least=2), seed))
    fold_of = np.empty(len(labels), dtype=np.intp)
    for number, (_, held_out) in enumerate(splits):
        fold_of[held_out] = number

    fit = ridge_scores if method == "ridge" else _fitted_logistic
    scores, failed = _held_out_scores(fit, x, labels[None], splits, len(names), strength)
    notes = (f"{failed} of {len(splits)} fits stopped before converging",) if failed else ()

    def asked(labelling: Positions, rows: NDArray[np.bool_]) -> Floats:
        """AUC and balanced accuracy with the items outside ``rows`` left out."""
        held_out = np.full((len(labelling), len(names)), np.nan)
        for train, test in splits:
            train, test = train[rows[train]], test[rows[test]]
            held_out[test] = fit(x[train], labelling[None, train], x[test], len(names), strength)[0][0]
        there, folds_there = labelling[rows], fold_of[rows]
        return np.array([_auc(held_out[rows], there, folds_there)[0], _balanced_accuracy(held_out[rows], there)[0]])

    training, why = _training_variance(asked, labels, sets, seed)
    plain = _result(scores[0], labels, fold_of, sets, names, kept, dropped, (*notes, *why), level, training)
    if not permutations:
        return plain
    rng = np.random.default_rng(seed)
    null, tested = [], []
    for block in shuffled_labels(labels, as_count(permutations, "permutations"), rng, within, sets):
        shuffled, _ = _held_out_scores(fit, x, block, splits, len(names), strength)
        for drawn, y in steps(zip(shuffled, block, strict=True), len(block)):
            both = _auc(drawn, y, fold_of), _balanced_accuracy(drawn, y)
            null.append([value for value, _ in both])
            tested.append([held_out_variance(influence, sets) for _, influence in both])
    if training is None and len(null) > 1:
        # shuffled labels show what training adds where there is nothing to learn: where there is, it adds less
        added = np.maximum(0.0, np.var(null, axis=0, ddof=1) - np.mean(tested, axis=0))
        plain = _result(scores[0], labels, fold_of, sets, names, kept, dropped, notes, level, None, added)
    return _with_null(plain, np.array(null))


@metric(
    "attribute_predictability",
    takes="vectors",
    summary="AUC of the group from features that should not tell it.",
    citation="GenSynth (arXiv 2305.15407), App. D",
    formula="AUC on a test set of a linear classifier trained on another",
    range="[0, 1]",
    direction="higher: more spurious cues",
    alternative="greater",
    chance="1/2, by shuffled test labels",
    when_it_lies="Needs the unmasked image as control; masks have shapes.",
    unit="share",
    rows={"attribute_auc": {"title": "AUC of guessing the group", "main": 16}},
)
def train_test_probe(
    train_features: Any,
    train_groups: Groups,
    test_features: Any,
    test_groups: Groups,
    *,
    method: str = "logistic",
    strength: float = 1.0,
    clusters: Any = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> Probe:
    """A probe trained on one set and tested on another (GenSynth, App. D: AUC of perceived gender from captions).

    Null: the test groups shuffled, the probe kept: the test labels took no part in training, so this is exact.
    Otherwise like :func:`linear_probe`.

    Args:
        train_features: (m, d) one row per training item, dense or scipy-sparse.
        train_groups: the groups of the training items.
        test_features: (n, d) one row per test item.
        test_groups: the groups of the test items, with the same names as in training.
        method: "logistic" or "ridge", as in :func:`linear_probe`.
        strength: of the penalty, as in :func:`linear_probe`: the larger, the weaker.
        clusters: (n,) test items that are not independent; they exchange their groups as wholes.
        permutations: how many times test groups are shuffled; 0 leaves the null at its theoretical mean without a
            p-value.
        seed: which shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        AUC and balanced accuracy, and the scores of the test items that they are made from.

    >>> rng = np.random.default_rng(0)
    >>> groups = Groups.from_values(["a", "b"] * 30)
    >>> x = rng.normal(size=(60, 2)) + 2 * groups.labels[:, None]
    >>> train_test_probe(x, groups, x, groups).auc.value > 0.9
    True
    """
    chosen(method, "method", METHODS)
    if train_groups.names != test_groups.names:
        raise InputError(f"train groups {train_groups.names} and test groups {test_groups.names} must be the same")
    x, labels, names, _, _ = _kept_rows(train_features, train_groups, "train_features")
    z, test, test_names, kept, dropped = _kept_rows(test_features, test_groups, "test_features")
    if names != test_names:
        raise InputError(f"the training set has images of {names} and the test set of {test_names}")
    if x.shape[1] != z.shape[1]:
        raise InputError(f"train_features has {x.shape[1]} columns and test_features {z.shape[1]}")
    fit = ridge_scores if method == "ridge" else _fitted_logistic
    many, failed = fit(x, labels[None], z, len(names), strength)
    scores = many[0]
    notes = ("the fit stopped before converging",) if failed else ()
    fold_of = np.zeros(len(test), dtype=np.intp)
    sets = _keys(clusters, "clusters", kept)
    result = _result(scores, test, fold_of, sets, names, kept, dropped, notes, level)
    if not permutations:
        return result
    rng = np.random.default_rng(seed)
    shuffled = shuffled_labels(test, as_count(permutations, "permutations"), rng, clusters=sets)
    null = [(_auc(scores, y, fold_of)[0], _balanced_accuracy(scores, y)[0]) for block in shuffled for y in steps(block)]
    return _with_null(result, np.array(null))


def _kept_rows(
    features: Any, groups: Groups, name: str = "features"
) -> tuple[Any, Positions, tuple[str, ...], NDArray[np.bool_], dict[str, int]]:
    if sparse.issparse(features):
        x = sparse.csr_matrix(features, dtype=np.float64)
        if not np.isfinite(x.data).all():
            raise InputError(f"{name} holds values that are not finite; drop or recompute those rows")
    else:
        x = as_matrix(features, name)
    groups.check_length(x.shape[0])
    labels, dropped = kept_groups(groups, 2)
    if len(labels) < 2:
        raise InputError(f"a probe needs two groups with two images or more each; there are {groups.counts().tolist()}")
    kept = np.isin(groups.labels, labels)
    place = np.full(groups.n_groups, -1)
    place[labels] = np.arange(len(labels))
    return x[kept], place[groups.labels[kept]], tuple(groups.names[g] for g in labels), kept, dropped


def _keys(keys: Any, name: str, kept: NDArray[np.bool_]) -> NDArray[Any] | None:
    return None if keys is None else as_keys(keys, name, len(kept), "item")[kept]


def _splits(
    labels: Positions, sets: NDArray[Any] | None, folds: int, seed: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold  # slow to import, seldom needed

    smallest = int(np.bincount(labels).min())
    if sets is None:
        parts = min(folds, smallest)
        return iter(StratifiedKFold(parts, shuffle=True, random_state=seed).split(labels[:, None], labels))
    parts = min(folds, smallest, len(np.unique(sets)))
    if parts < 2:
        raise InputError("clusters: all items are in one cluster; cross-validation needs at least two")
    splitter = StratifiedGroupKFold(parts, shuffle=True, random_state=seed)
    splits = list(splitter.split(labels[:, None], labels, sets))
    for train, _ in splits:
        if len(np.unique(labels[train])) < len(np.unique(labels)):
            raise InputError("clusters: a group lies in too few clusters to be in every training fold")
    return iter(splits)


def _training_variance(
    asked: Callable[[Positions, NDArray[np.bool_]], Floats], labels: Positions, sets: NDArray[Any] | None, seed: int
) -> tuple[Floats | None, tuple[str, ...]]:
    """Jackknife variances of AUC and balanced accuracy, the probe trained anew without each block of items."""
    if len(labels) > RETRAINED:
        return None, (f"the interval takes the probe as given: more than {RETRAINED:,} images",)
    blocks = deleted_blocks(labels, sets, seed)
    try:
        left_out = [asked(labels, blocks != block) for block in range(int(blocks.max()) + 1)]
    except (InputError, ValueError):  # without some block a fold has nothing to learn from or to test on
        return None, ("the interval takes the probe as given: too few images to train it without some of them",)
    return jackknife_variance(np.array(left_out)), ()


Fit = Callable[[Any, Positions, Any, int, float], tuple[Floats, int]]
"""From training rows, labellings (P, n) of them, held-out rows, number of groups and strength to the scores
(P, m, G) of the held-out rows and the number of fits that stopped before converging."""


def _held_out_scores(
    fit: Fit, x: Any, labellings: Positions, splits: list[Any], n_groups: int, strength: float
) -> tuple[Floats, int]:
    out, failed = np.empty((*labellings.shape, n_groups)), 0
    for train, test in splits:
        out[:, test], short = fit(x[train], labellings[:, train], x[test], n_groups, strength)
        failed += short
    return out, failed


def _fitted_logistic(
    x: Any, labellings: Positions, held_out: Any, n_groups: int, strength: float
) -> tuple[Floats, int]:
    from sklearn import config_context
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=not sparse.issparse(x))
    scaled, asked = scaler.fit_transform(x), scaler.transform(held_out)
    out, failed = np.zeros((len(labellings), held_out.shape[0], n_groups)), 0
    for index, y in enumerate(labellings):
        if len(np.unique(y)) < 2:  # a shuffle may leave a fold with one group: it then has nothing to learn
            continue
        model = LogisticRegression(C=strength, max_iter=1000)
        # hundreds of small fits, all with the settings above
        with config_context(skip_parameter_validation=True), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(scaled, y, sample_weight=even_weights(y))
        failed += any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
        out[index][:, model.classes_] = model.predict_proba(asked)
    return out, failed


def even_weights(labels: Positions) -> Floats:
    """(n,) what each item counts, so that every group counts as much as any other.

    What scikit-learn calls balanced class weights, which take it a fifth of a small fit to find.

    >>> even_weights(np.array([0, 1, 1, 1])).round(3).tolist()
    [2.0, 0.667, 0.667, 0.667]
    """
    _, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray((len(labels) / (len(counts) * counts))[place])


def _auc(scores: Floats, labels: Positions, fold_of: Positions) -> tuple[float, Floats]:
    """AUC within folds (macro over groups), and each item's influence on it (DeLong's components)."""
    n_groups = scores.shape[1]
    classes = [1] if n_groups == 2 else list(range(n_groups))
    total, influence = 0.0, np.zeros(len(labels))
    for group in classes:
        value, parts, pairs = 0.0, [], 0
        margin = scores[:, 1] - scores[:, 0] if n_groups == 2 else scores[:, group]
        for fold in range(int(fold_of.max()) + 1):
            inside = np.flatnonzero(fold_of == fold)
            positive = labels[inside] == group
            n_pos, n_neg = int(positive.sum()), int((~positive).sum())
            if n_pos == 0 or n_neg == 0:
                continue
            above, below = placements(margin[inside][positive], margin[inside][~positive])
            value += above.sum() * n_neg
            pairs += n_pos * n_neg
            parts.append((inside, positive, above, below, n_pos, n_neg))
        if not pairs:
            raise InputError("no fold holds both a member and a non-member of a group; use fewer folds")
        total += value / pairs
        for inside, positive, above, below, n_pos, n_neg in parts:
            weight, mean = n_pos * n_neg / pairs, above.mean()
            influence[inside[positive]] += weight * (above - mean) / n_pos
            influence[inside[~positive]] += weight * (below - mean) / n_neg
    return float(total) / len(classes), influence / len(classes)


def _balanced_accuracy(scores: Floats, labels: Positions) -> tuple[float, Floats]:
    right = (scores.argmax(axis=1) == labels).astype(np.float64)
    counts = np.bincount(labels, minlength=scores.shape[1])
    recall = np.bincount(labels, right, minlength=scores.shape[1]) / np.maximum(counts, 1)
    return float(recall.mean()), (right - recall[labels]) / counts[labels] / len(counts)


def _result(
    scores: Floats,
    labels: Positions,
    fold_of: Positions,
    sets: NDArray[Any] | None,
    names: tuple[str, ...],
    kept: NDArray[np.bool_],
    dropped: dict[str, int],
    notes: tuple[str, ...],
    level: float,
    training: Floats | None = None,
    added: Floats | None = None,
) -> Probe:
    units = len(labels) if sets is None else len(np.unique(sets))

    def estimate(scored: tuple[float, Floats], chance: float, at: int) -> Estimate:
        value, influence = scored
        tested = held_out_variance(influence, sets)
        # the jackknife holds what comes from testing once and what comes from training twice
        more = 0.0 if training is None else max(0.0, float(training[at]) - tested) / 2
        more += 0.0 if added is None else float(added[at])
        shown = score_estimate(value, tested, more, units, level=level, null_mean=chance, notes=notes)
        return replace(shown, n=len(labels), n_groups=len(names), dropped=dropped)

    return Probe(
        auc=estimate(_auc(scores, labels, fold_of), 0.5, 0),
        balanced_accuracy=estimate(_balanced_accuracy(scores, labels), 1 / len(names), 1),
        scores=scores,
        labels=labels,
        names=names,
        kept=kept,
    )


def _with_null(result: Probe, null: Floats) -> Probe:
    auc, accuracy = with_chance(result.auc, null[:, 0]), with_chance(result.balanced_accuracy, null[:, 1])
    return replace(result, auc=auc, balanced_accuracy=accuracy)
