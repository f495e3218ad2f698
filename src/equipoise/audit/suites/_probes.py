"""How well an attribute can be guessed from what should not tell it: neutral captions, images with the person masked.

A dataset whose backgrounds give the group away teaches a model to guess (GenSynth, App. D). The unmasked image is the
control: what there is to be read at all. Features of images are computed elsewhere and come as arrays or as a table of
embeddings.

Shares that depend on the text of an image's own group: what the images say, and what the texts alone say.

A model may take "a photo of a person" before "a photo of an Indian person" for any image whatever. Chance is therefore
what the same texts give over everybody's images, not one half; and a share must be asked in several wordings.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats, Positions
from equipoise.errors import InputError
from equipoise.measure.embedding import Probe, linear_probe
from equipoise.measure.embedding.probe import even_weights
from equipoise.measure.embedding.probe_error import (
    deleted_blocks,
    held_out_variance,
    jackknife_variance,
    score_estimate,
)
from equipoise.measure.groups import Groups
from equipoise.measure.notes import no_interval
from equipoise.measure.stats import compare, p_values
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import shuffled_labels
from equipoise.measure.stats.group_means import GroupMeans, group_means, kept_groups
from equipoise.measure.stats.group_range import range_interval, size_of, t_bounds
from equipoise.measure.stats.laws import normal_quantile
from equipoise.measure.stats.shares import placements
from equipoise.pace import steps
from equipoise.text import Lexicon

MOST_TEMPLATES = 10


def own_text_means(
    worth: Any,
    groups: Groups,
    *,
    clusters: Any = None,
    shuffle_within: Any = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> GroupMeans:
    """Mean of each group's own column of ``worth`` (n, G) over its own images, against everybody's images.

    ``worth[i, g]`` in [0, 1] is what image i would count if it were of group g. Null: labels shuffled (inside
    ``shuffle_within`` where given, and as whole clusters) and every image asked with the text of its new group. A
    model that is blind to the groups has no excess, however unlike its texts are; nor has the gap. ``clusters`` (n,)
    are not independent.

    >>> groups = Groups.from_values(["a"] * 30 + ["b"] * 30)
    >>> blind = np.tile([[0.0, 1.0]], (60, 1))  # text "a" always loses, text "b" always wins, whoever is shown
    >>> means = own_text_means(blind, groups)
    >>> means.gap.value, means.gap.excess, means.by_group["b"].excess
    (1.0, 0.0, 0.0)
    """
    table = np.asarray(worth, dtype=np.float64)
    if table.shape != (len(groups), groups.n_groups):
        raise InputError(f"worth has shape {table.shape} for {len(groups)} images of {groups.n_groups} groups")
    own = table[np.arange(len(table)), np.maximum(groups.labels, 0)]
    base = group_means(own, groups, clusters=clusters, share=True, permutations=2, seed=seed, level=level)
    kept, _ = kept_groups(groups, 1)
    inside = groups.defined
    labels = groups.labels[inside]
    sets = None if shuffle_within is None else np.asarray(shuffle_within)[inside]
    keys = None if clusters is None else np.asarray(clusters)[inside]
    rng = np.random.default_rng(seed)
    draws = np.concatenate(
        [
            np.stack([(block == g) @ table[inside, g] / np.maximum((block == g).sum(axis=1), 1) for g in kept], axis=1)
            for block in shuffled_labels(labels, permutations, rng, sets, keys)
        ]
    )
    by_group = {
        groups.names[g]: _against(base.by_group[groups.names[g]], draws[:, at], "two-sided")
        for at, g in enumerate(kept)
    }
    gap = _against(base.gap, draws.max(axis=1) - draws.min(axis=1), "greater")
    return replace(base, by_group=by_group, gap=gap)


def _against(estimate: Estimate, null: Any, alternative: Any) -> Estimate:
    tests = p_values(estimate.value, null, alternative=alternative)
    return replace(
        estimate,
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)),
        p_value=tests.value,
        p_randomised=tests.randomised,
    )


def prompt_sensitivity(
    outcomes: Any, names: Sequence[str], *, replicates: int = 2000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """How far wording alone moves a share: highest minus lowest mean over templates of ``outcomes`` (n, T), 0 or 1.

    Chance: each image's answers dealt to the templates at random, as if the wording did not matter (exact: images
    with the same number of 1s are exchangeable). The interval is that of the range over all templates,
    whichever two are the extremes.

    >>> sensitivity = prompt_sensitivity([[1, 0], [1, 0], [1, 1], [0, 0]] * 10, ["a photo", "a picture"])
    >>> sensitivity.value, sensitivity.notes
    (0.5, ('highest with "a photo", lowest with "a picture"',))
    """
    given = np.asarray(outcomes, dtype=np.int64)
    if given.ndim != 2 or not 2 <= given.shape[1] <= MOST_TEMPLATES or not len(given):
        raise InputError(
            f"outcomes has shape {given.shape}; give one row per image and 2 to {MOST_TEMPLATES} templates"
        )
    n, width = given.shape
    means = given.mean(axis=0)
    top, bottom = int(means.argmax()), int(means.argmin())
    rng = np.random.default_rng(seed)
    null = np.zeros((replicates, width))
    for ones, images in zip(*np.unique(given.sum(axis=1), return_counts=True), strict=True):
        deals = np.zeros((comb(width, int(ones)), width))
        for row, chosen in enumerate(combinations(range(width), int(ones))):
            deals[row, list(chosen)] = 1
        null += rng.multinomial(images, np.full(len(deals), 1 / len(deals)), size=replicates) @ deals
    low, high, why = _wording_interval(given, level)
    note = f'highest with "{names[top]}", lowest with "{names[bottom]}"'
    sensitivity = Estimate(float(means[top] - means[bottom]), low, high, n=n, level=level, notes=(note, *why))
    return _against(sensitivity, (null.max(axis=1) - null.min(axis=1)) / n, "greater")


def _wording_interval(outcomes: Any, level: float) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Interval of the range over templates, which share their images; whichever two are the extremes."""
    distinct = np.unique(outcomes, axis=1)  # templates that always agree are one
    n, width = distinct.shape
    covariance = np.atleast_2d(np.cov(distinct.T)) / n if n > 1 else np.zeros((width, width))
    own = np.diag(covariance)
    error = np.sqrt(np.maximum(own[:, None] + own - 2 * covariance, 0.0))
    if width < 2 or not (error > 1e-12)[~np.eye(width, dtype=bool)].all():
        return None, None, (no_interval("the wording makes the same difference for every image, or none"),)
    means = distinct.mean(axis=0)
    bounds = t_bounds(means, error, n - 1)
    if width == 2:
        z = float(normal_quantile(0.5 + level / 2))
        low, high = size_of(float(bounds(-z)[0, 1]), float(bounds(z)[0, 1]))
    else:
        low, high = range_interval(means, covariance, bounds, level=level)
    return low, min(1.0, high), ()


FOLDS = 5
TELLING_WORDS = 10


@dataclass(frozen=True)
class CaptionProbe:
    """How well neutral captions tell the group, and by which words."""

    auc: Estimate
    """Area under the ROC curve over pairs of the same fold; the mean over groups for more than two."""
    telling: Mapping[str, tuple[str, ...]]
    """The words that speak for each group most, by the weights of the probe on all captions."""
    n_words: int


def neutral_texts(captions: Sequence[str | Sequence[str]], lexicon: Lexicon) -> list[str]:
    """One text per image: its captions together, the lexicon's words made neutral, in lower case.

    >>> neutral_texts([["A man rides.", "He is happy"], "A girl"], Lexicon.load("equipoise"))
    ['a person rides. they is happy', 'a child']
    """
    together = [(caption,) if isinstance(caption, str) else tuple(caption) for caption in captions]
    plain = iter(lexicon.neutralise_all([text for texts in together for text in texts]))
    return [" ".join(next(plain) for _ in texts).lower() for texts in together]


def caption_probe(
    texts: Sequence[str],
    groups: Groups,
    *,
    clusters: Any = None,
    folds: int = FOLDS,
    strength: float = 1.0,
    permutations: int = 99,
    seed: int = 0,
    level: float = 0.95,
) -> CaptionProbe:
    """Cross-validated logistic regression of the group on TF-IDF of ``texts``, one neutral text per image.

    TF-IDF of single words in two texts or more, fitted on all texts without their labels; classes balanced. The
    weights stay as TF-IDF gives them: standardised, every rare word would count as much as a common one. AUC
    compares images of the same fold; interval by DeLong's components; null: labels shuffled and the probe trained
    anew, ``permutations`` times. ``clusters`` (n,) stay in one fold: of copies of an image in training and test the
    probe would remember the group and not read it. Labels of whole clusters are shuffled, or those inside a cluster
    that shows several groups.

    >>> texts = ["a person on a skateboard", "a person with a horse"] * 20
    >>> probe = caption_probe(texts, Groups.from_values(["m", "f"] * 20), permutations=9)
    >>> probe.auc.value, probe.telling["m"]
    (1.0, ('on', 'skateboard'))
    """
    if len(texts) != len(groups):
        raise InputError(f"there are {len(texts)} texts for {len(groups)} labels; give one per image")
    kept, dropped = kept_groups(groups, 2)
    if len(kept) < 2:
        raise InputError(f"a probe needs two groups with two images or more each; there are {groups.counts().tolist()}")
    inside = np.flatnonzero(np.isin(groups.labels, kept))
    labels = np.searchsorted(kept, groups.labels[inside]).astype(np.intp)
    names = [groups.names[g] for g in kept]
    features, words = _tfidf([texts[i] for i in inside.tolist()])
    units = np.unique(_keys(clusters, groups)[inside], return_inverse=True)[1].ravel()
    splits = _splits(labels, units, folds, seed)
    value, influence = _auc_of(features, labels, splits, strength)
    alone = int(units.max()) + 1 == len(labels)
    tested = held_out_variance(influence, None if alone else units)
    training, notes = _training_variance(features, labels, units, splits, strength, seed)
    more = max(0.0, training - tested) / 2  # the jackknife holds what comes from training twice
    auc = score_estimate(value, tested, more, int(units.max()) + 1, level=level, null_mean=0.5, notes=notes)
    auc = replace(auc, n=len(labels), n_groups=len(names), dropped=dropped)
    if permutations:
        rng = np.random.default_rng(seed)
        null = np.array(
            [
                _auc_of(features, shuffled, splits, strength)[0]
                for block in shuffled_labels(labels, permutations, rng, clusters=None if alone else units)
                for shuffled in steps(block)
            ]
        )
        auc = replace(auc, null_mean=float(null.mean()), null_sd=float(null.std(ddof=1)) if len(null) > 1 else None)
        tests = p_values(value, null)
        auc = replace(auc, p_value=tests.value, p_randomised=tests.randomised)
    return CaptionProbe(auc, _telling(features, labels, names, words, strength), len(words))


def _training_variance(
    features: Any,
    labels: Positions,
    units: Positions,
    splits: list[tuple[Positions, Positions]],
    strength: float,
    seed: int,
) -> tuple[float, tuple[str, ...]]:
    """Jackknife variance of the AUC, the probe trained anew without each block of images."""
    blocks = deleted_blocks(labels, units, seed)
    left_out = []
    try:
        for block in range(int(blocks.max()) + 1):
            rows = np.flatnonzero(blocks != block)
            place = np.full(len(labels), -1)
            place[rows] = np.arange(len(rows))
            parts = [(_kept(place[train]), _kept(place[test])) for train, test in splits]
            left_out.append(_auc_of(features[rows], labels[rows], parts, strength)[0])
    except InputError:  # without some block no fold holds two groups
        return 0.0, ("the interval takes the probe as given: too few images to train it without some of them",)
    return float(jackknife_variance(np.array(left_out))), ()


def _kept(rows: Positions) -> Positions:
    return rows[rows >= 0]


def _tfidf(texts: list[str]) -> tuple[Any, NDArray[Any]]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True)
    try:
        features = vectorizer.fit_transform(texts)
    except ValueError:
        raise InputError("no word is in two captions or more; there is nothing to learn from") from None
    return features, vectorizer.get_feature_names_out()


def _keys(clusters: Any, groups: Groups) -> NDArray[Any]:
    keys = np.arange(len(groups)) if clusters is None else np.asarray(clusters)
    if keys.shape != (len(groups),):
        raise InputError(f"clusters has shape {keys.shape} for {len(groups)} images; give one key per image")
    return keys


def _splits(labels: Positions, units: Positions, folds: int, seed: int) -> list[tuple[Positions, Positions]]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    n_units = int(units.max()) + 1
    parts = min(folds, int(np.bincount(labels).min()), n_units)
    if parts < 2:
        raise InputError("clusters: all images are of one; cross-validation needs at least two")
    if n_units == len(labels):
        return list(StratifiedKFold(parts, shuffle=True, random_state=seed).split(labels[:, None], labels))
    return list(StratifiedGroupKFold(parts, shuffle=True, random_state=seed).split(labels[:, None], labels, units))


def _fitted(features: Any, labels: Positions, strength: float) -> Any:
    from sklearn import config_context
    from sklearn.linear_model import LogisticRegression

    # hundreds of small fits: looking at settings and at our own TF-IDF would take a third of the time
    with config_context(assume_finite=True, skip_parameter_validation=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit cut short ranks well enough, and the null is cut short alike
        return LogisticRegression(C=strength, max_iter=200).fit(features, labels, even_weights(labels))


def _auc_of(features: Any, labels: Positions, splits: list[Any], strength: float) -> tuple[float, Floats]:
    """Mean over groups of the AUC within folds, and how much each item moves it (DeLong's components)."""
    n_groups = int(labels.max()) + 1
    positives = [1] if n_groups == 2 else list(range(n_groups))
    value, influence = 0.0, np.zeros(len(labels))
    scores = np.zeros((len(labels), n_groups))
    for train, test in splits:
        if len(np.unique(labels[train])) > 1:  # a shuffle may leave a fold with one group: it has nothing to learn
            model = _fitted(features[train], labels[train], strength)
            scores[np.ix_(test, model.classes_)] = model.predict_proba(features[test])
    for group in positives:
        pairs, aucs = 0, []
        for _, test in splits:
            positive = labels[test] == group
            if positive.any() and not positive.all():
                above, below = placements(scores[test[positive], group], scores[test[~positive], group])
                aucs.append((test, positive, above, below))
                pairs += len(above) * len(below)
        if not pairs:
            raise InputError("no fold holds both a member and a non-member of a group; use fewer folds")
        for test, positive, above, below in aucs:
            weight, mean = len(above) * len(below) / pairs, above.mean()
            value += weight * mean / len(positives)
            influence[test[positive]] += weight * (above - mean) / len(above) / len(positives)
            influence[test[~positive]] += weight * (below - mean) / len(below) / len(positives)
    return float(value), influence


def _telling(
    features: Any, labels: Positions, names: list[str], words: NDArray[Any], strength: float
) -> dict[str, tuple[str, ...]]:
    weights = _fitted(features, labels, strength).coef_
    rows = [-weights[0], weights[0]] if len(names) == 2 else list(weights)
    return {
        name: tuple(str(words[i]) for i in np.argsort(-row, kind="stable")[:TELLING_WORDS] if row[i] > 0)
        for name, row in zip(names, rows, strict=True)
    }


@dataclass(frozen=True)
class ImageProbes:
    """How well the group is read off images: with the person masked, and unmasked as the control."""

    masked: Probe | None
    unmasked: Probe | None
    person_adds: Estimate | None
    """Balanced accuracy of the control minus that of the masked images, image by image; chance 0."""


def image_probes(
    groups: Groups,
    *,
    masked: Any = None,
    unmasked: Any = None,
    clusters: Any = None,
    permutations: int = 99,
    seed: int = 0,
    level: float = 0.95,
) -> ImageProbes:
    """Linear probes of the groups from features (n, d) of person-masked images and of the same images unmasked.

    ``clusters`` (n,) keep images of one source or set in one fold. Either may be missing.

    >>> rng = np.random.default_rng(0)
    >>> groups = Groups.from_values(["a", "b"] * 50)
    >>> seen = rng.normal(size=(100, 4)) + 3 * groups.labels[:, None]
    >>> probes = image_probes(groups, masked=rng.normal(size=(100, 4)), unmasked=seen, permutations=9)
    >>> probes.unmasked.auc.value > 0.95 > 0.65 > probes.masked.auc.value, probes.person_adds.value > 0.2
    (True, True)
    """
    if masked is None and unmasked is None:
        raise InputError("give features of masked images, of unmasked images, or both")

    def probe(features: Any) -> Probe | None:
        if features is None:
            return None
        options: dict[str, Any] = {"clusters": clusters, "permutations": permutations, "seed": seed, "level": level}
        return linear_probe(features, groups, method="ridge", **options)

    hidden, control = probe(masked), probe(unmasked)
    adds = None
    if hidden is not None and control is not None:
        # each image weighs as in balanced accuracy: every group counts the same
        weight = len(control.labels) / (len(control.names) * np.bincount(control.labels)[control.labels])
        right = [weight * (p.scores.argmax(axis=1) == p.labels) for p in (control, hidden)]
        keys = None if clusters is None else np.asarray(clusters)[control.kept]
        adds = compare(right[0], right[1], clusters=keys, level=level, seed=seed)
    return ImageProbes(hidden, control, adds)


def stored_features(folder: str | Path, image_ids: Sequence[str]) -> Floats:
    """Features (n, d) of these images from a table of embeddings; a missing image is named."""
    from equipoise.models.precomputed import EmbeddingTable

    return np.asarray(EmbeddingTable(folder).image_vectors(list(image_ids)), dtype=np.float64)
