"""Whom captions name: Error, Ratio, neutral rate, and how outcomes differ between groups.

Every one of these has several definitions under one name in the literature; here each has a name of its own, and
the default is what the LIC paper's table follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats as sps

from equipoise.array_types import Flags, Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.arrays import as_count, chosen
from equipoise.measure.captions.counts import image_keys, image_labels, moved_interval
from equipoise.measure.groups import UNDEFINED, Groups
from equipoise.measure.metric import Scope, metric
from equipoise.measure.notes import no_null
from equipoise.measure.stats.bootstrap import bootstrap_statistic
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import permuted_labels
from equipoise.measure.stats.permutation import with_chance
from equipoise.measure.stats.shares import share_estimate
from equipoise.text.lexicon import Lexicon

ErrorDefinition = Literal["burns_all", "burns_decided", "any_opposite", "libra"]
ERROR_DEFINITIONS = ("burns_all", "burns_decided", "any_opposite", "libra")
OUTCOMES = ("correct", "incorrect", "other")


@dataclass(frozen=True)
class Mentions:
    """Which groups each caption names: ``named`` (n, G), yes or no, and the groups' ``names``.

    >>> said = Mentions.of(["A man and a dog", "A woman and her son", "Two dogs"], "lic")
    >>> said.names, said.named.astype(int).tolist(), said.only.tolist()
    (('male', 'female'), [[1, 0], [1, 1], [0, 0]], [0, -1, -1])
    """

    named: Flags
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        table = np.asarray(self.named)
        if table.ndim != 2 or table.shape[1] != len(self.names) or table.shape[1] < 2 or len(table) == 0:
            raise InputError(
                f"named has shape {table.shape} for {len(self.names)} groups; give one row per caption and one "
                "column per group, of at least two"
            )
        if not np.isin(table, (0, 1)).all():
            raise InputError("named must hold yes and no only: whether a caption names a group")
        object.__setattr__(self, "named", table.astype(bool))

    @classmethod
    def of(cls, captions: Iterable[str], lexicon: Lexicon | str, *, compat: str | None = None) -> Mentions:
        """The groups named by the words of ``lexicon`` (a lexicon or its name) in each caption."""
        words = Lexicon.load(lexicon) if isinstance(lexicon, str) else lexicon
        named = words.groups_in_all(captions, compat=compat)
        if not named:
            raise InputError("captions is empty; there is nothing to measure")
        return cls(np.array([[name in row for name in words.groups] for row in named]), words.groups)

    def __len__(self) -> int:
        return len(self.named)

    @property
    def only(self) -> NDArray[np.int32]:
        """(n,) the one group a caption names; -1 when it names none or several."""
        single = self.named.sum(axis=1) == 1
        return np.where(single, self.named.argmax(axis=1), UNDEFINED).astype(np.int32)

    @property
    def groups(self) -> Groups:
        """``only`` as groups: what BA and DBA take as the caption's own group."""
        return Groups(self.only, self.names)

    def take(self, which: ArrayLike) -> Mentions:
        """The mentions of some of the captions: a mask or indices."""
        return Mentions(self.named[np.asarray(which)], self.names)

    def index(self, name: str) -> int:
        """The column of the group called ``name``."""
        if name not in self.names:
            raise UnknownNameError("group", name, self.names)
        return self.names.index(name)


def _aligned(mentions: Mentions, labels: Groups) -> tuple[NDArray[np.int32], Flags]:
    """The true label of each caption as a column of ``mentions``, and which captions have one."""
    labels.check_length(len(mentions))
    place = np.array([mentions.index(name) for name in labels.names], dtype=np.int32)
    kept = labels.defined
    if not kept.any():
        raise InputError("no caption has a label; an error needs to know who is in the picture")
    return np.where(kept, place[labels.labels], UNDEFINED).astype(np.int32), kept


def error_flags(
    mentions: Mentions, labels: Groups, *, definition: ErrorDefinition = "burns_all"
) -> tuple[Flags, Flags]:
    """Which captions are wrong about the group, and which count: see :func:`error`.

    Args:
        mentions: the groups that each of n captions names.
        labels: (n,) the images' groups, under names that ``mentions`` has.
        definition: which captions are wrong, and which count: one of :data:`ERROR_DEFINITIONS`.

    Returns:
        (n,) whether each caption is wrong, and (n,) whether it counts; neither without a label.

    >>> said = Mentions.of(["A man", "A man and a woman", "A dog"], "lic")
    >>> wrong, counted = error_flags(said, Groups.from_values(["female"] * 3), definition="any_opposite")
    >>> wrong.tolist(), counted.tolist()
    ([True, True, False], [True, True, True])
    """
    chosen(definition, "definition of Error", ERROR_DEFINITIONS)
    truth, kept = _aligned(mentions, labels)
    named = mentions.named.sum(axis=1)
    own = mentions.named[np.arange(len(mentions)), truth] & kept
    others = named - own
    if definition in ("any_opposite", "libra"):
        return np.asarray((others > 0) & kept), kept
    wrong = np.asarray((named == 1) & ~own & kept)
    return wrong, (kept if definition == "burns_all" else np.asarray((named == 1) & kept))


@metric(
    "error",
    takes="captions",
    column="Error%",
    summary="Share of captions that name the wrong group.",
    citation="Hendricks et al., Women also Snowboard (Burns), ECCV 2018",
    formula="wrong / all (burns_all), wrong / decided (burns_decided), any other group named / all "
    "(any_opposite, libra)",
    bounds=(0.0, 1.0),
    direction="lower is better; the gap between groups is the bias",
    better="lower",
    chance="labels shuffled over images: captions that name groups as often, but blindly",
    when_it_lies="Captions that never name anyone have Error 0: read the neutral rate.",
    unit="share",
)
def error(
    mentions: Mentions,
    labels: Groups,
    *,
    definition: ErrorDefinition = "burns_all",
    images: Sequence[Any] | None = None,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Share of captions that name the wrong group.

    - ``burns_all`` (Burns 2018; the LIC paper): captions that name one group only, and not the image's, over all
      captions of labelled images. Naming nobody, or several groups, is not wrong.
    - ``burns_decided``: the same, over the captions that name exactly one group.
    - ``any_opposite`` ("Would deep generative models amplify bias in future models?", Eq. 8): captions that name
      any other group, also beside the right one, over all captions.
    - ``libra`` (LIBRA, CVPR 2023): captions that name several groups are wrong too. A caption with several groups
      names one that is not the image's, so this is the rule of ``any_opposite``; what differs is the word list.

    Chance: the labels shuffled over the images, that is captions that name groups as often but blindly
    (tables with the same margins; two-sided p-value). Interval: Wilson's. Captions that never name anyone have
    Error 0, with a note that says why that is no merit.

    Args:
        mentions: the groups that each of n captions names.
        labels: (n,) the images' groups, under names that ``mentions`` has; captions of an undefined one are left out.
        definition: one of the four above.
        images: (n,) the image of each caption, where one has several: the interval is then that of a clustered share,
            and whole images are shuffled too.
        draws: how many times the labels are shuffled.
        seed: which shuffles are drawn.
        level: confidence level of the interval.

    Returns:
        The estimate; without a chance level if no caption counts.

    >>> said = Mentions.of(["A man", "A man", "A woman", "A dog"], "lic")
    >>> error(said, Groups.from_values(["male", "female", "female", "male"])).value
    0.25
    """
    wrong, counted = error_flags(mentions, labels, definition=definition)
    truth, kept = _aligned(mentions, labels)
    notes = _silence(mentions.take(kept))
    dropped = {"no label": labels.n_undefined} if labels.n_undefined else {}
    if definition == "burns_decided" and counted.sum() < kept.sum():
        dropped["names no group or several"] = int(kept.sum() - counted.sum())
    if not counted.any():
        return Estimate(
            0.0, n=0, n_groups=len(mentions.names), dropped=dropped, notes=(*notes, "0 of 0 captions"), level=level
        )
    keys = None if images is None else image_keys(images, len(mentions))
    clusters = None if keys is None else keys[counted]
    estimate = share_estimate(
        wrong[counted].astype(float), clusters=clusters, level=level, n_groups=len(mentions.names)
    )
    rng = np.random.default_rng(seed)
    costs = _costs(mentions.named[kept], definition)
    shares = np.bincount(truth[kept], minlength=len(mentions.names)) / kept.sum()
    if images is None:
        null = _shuffled_errors(costs, truth[kept], as_count(draws, "draws"), rng)
    else:
        named = list(compress(images, kept))
        null = _shuffled_images(costs, truth[kept], named, as_count(draws, "draws"), rng)
    mean = float((costs @ shares).sum() / counted.sum()) if keys is None else None
    tested = with_chance(estimate, null / counted.sum(), mean=mean, alternative="two-sided", rng=rng)
    return replace(tested, dropped=dropped, notes=(*estimate.notes, *notes))


def _costs(named: Flags, definition: str) -> Floats:
    """(n, G) whether a caption that names these groups would be wrong of each label."""
    count = named.sum(axis=1, keepdims=True)
    if definition in ("any_opposite", "libra"):
        return np.asarray(count - named > 0, dtype=np.float64)
    return np.asarray((count == 1) & ~named, dtype=np.float64)


def _shuffled_errors(costs: Floats, truth: NDArray[Any], draws: int, rng: np.random.Generator) -> Floats:
    """(R,) wrong captions when labels are dealt anew: tables of costs by label with the margins as they are."""
    patterns, codes = np.unique(costs, axis=0, return_inverse=True)
    law = sps.random_table(np.bincount(codes), np.bincount(truth, minlength=costs.shape[1]))
    tables = law.rvs(size=draws, random_state=rng).reshape(draws, *patterns.shape)
    return np.asarray((tables * patterns).sum(axis=(1, 2)))


def _shuffled_images(
    costs: Floats, truth: NDArray[Any], images: Sequence[Any], draws: int, rng: np.random.Generator
) -> Floats:
    """(R,) the same with the captions of an image kept together."""
    codes = image_keys(images, len(truth))
    by_image = np.stack([np.bincount(codes, column) for column in costs.T], axis=1)
    labels = image_labels(codes, truth, images)
    rows = np.arange(len(labels))
    return np.concatenate([by_image[rows, block].sum(axis=1) for block in permuted_labels(labels, draws, rng)])


def _silence(mentions: Mentions) -> tuple[str, ...]:
    named = mentions.named.any(axis=1)
    if not named.any():
        return (
            "no caption names any group: Error is 0 because nothing was said, which is no merit; "
            "read the neutral rate and the quality of the captions",
        )
    share = 1 - named.mean()
    if share > 0.5:
        return (f"{share:.0%} of the captions name no group and cannot be wrong: read the neutral rate beside it",)
    return ()


@metric(
    "neutral_rate",
    takes="captions",
    column="Neutral%",
    summary="Share of captions that name no group.",
    citation="Equipoise",
    formula="captions without a group word / captions",
    bounds=(0.0, 1.0),
    direction="neither: it says how far Error and Ratio reach",
    chance="none: a rate; its gap between groups has one (score_gap)",
    when_it_lies="Depends on the word list.",
    unit="share",
)
def neutral_rate(mentions: Mentions, *, images: Sequence[Any] | None = None, level: float = 0.95) -> Estimate:
    """Share of captions that name no group at all.

    Not a bias, so it has no null: it says how far Error and Ratio can be trusted. Its gap between groups is a bias:
    ``score_gap(~mentions.named.any(axis=1), labels)``.

    Args:
        mentions: the groups that each of n captions names.
        images: (n,) the image of each caption, where one has several: the interval is then that of a clustered share,
            and not Wilson's.
        level: confidence level of the interval.

    Returns:
        The estimate, with a note where captions name several groups.

    >>> neutral_rate(Mentions.of(["A man", "A dog", "People", "A girl"], "lic")).value
    0.5
    """
    silent = ~mentions.named.any(axis=1)
    several = int((mentions.named.sum(axis=1) > 1).sum())
    notes = [no_null("a rate, not a bias")] + ([f"{several} captions name several groups"] if several else [])
    keys = None if images is None else image_keys(images, len(mentions))
    return share_estimate(
        silent.astype(float), clusters=keys, level=level, n_groups=len(mentions.names), notes=tuple(notes)
    )


def jensen_shannon(distributions: ArrayLike) -> Floats:
    """Jensen-Shannon divergence in bits between the rows of (..., G, K): entropy of their mean minus mean entropy.

    0 log 0 is 0. For two rows it is the usual divergence, at most 1; for G equally weighted rows at most log2 G.

    >>> round(float(jensen_shannon([[0.7, 0.2, 0.1], [0.9, 0.05, 0.05]])), 5)
    0.04993
    """
    rows = np.asarray(distributions, dtype=np.float64)
    if rows.ndim < 2 or (rows < 0).any() or not np.allclose(rows.sum(axis=-1), 1):
        raise InputError("distributions must have two rows or more, each of shares that sum to 1")
    gap = _entropy(rows.mean(axis=-2)) - _entropy(rows).mean(axis=-1)
    return np.asarray(np.maximum(0.0, gap) + 0.0)  # never -0.0


def _entropy(shares: Floats) -> Floats:
    logs = np.zeros(shares.shape)
    np.log2(shares, out=logs, where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=-1))


def outcomes(mentions: Mentions, labels: Groups) -> NDArray[np.int64]:
    """What each caption says of the labelled group (Burns 2018).

    Args:
        mentions: the groups that each of n captions names.
        labels: (n,) the images' groups, under names that ``mentions`` has.

    Returns:
        (n,) 0 correct, where a caption names that group only; 1 incorrect, another one only; 2 other, none or several;
        -1 without a label.
    """
    truth, kept = _aligned(mentions, labels)
    only = mentions.only
    said = np.where(only == truth, 0, np.where(only >= 0, 1, 2))
    return np.where(kept, said, UNDEFINED).astype(np.int64)


def _divergence_bounds(scope: Scope) -> tuple[float, float]:
    return 0.0, math.log2(scope.n_groups)


@metric(
    "outcome_divergence",
    takes="captions",
    summary="How differently captions fare (correct, incorrect, other) for each group.",
    citation="Hendricks et al., Women also Snowboard (Burns), ECCV 2018",
    formula="Jensen-Shannon divergence in bits of the groups' outcome shares",
    range="[0, 1] for two groups, log2 G for more",
    bounds=_divergence_bounds,
    direction="0: the same for all groups",
    alternative="greater",
    chance="above 0 for small groups; groups shuffled over outcomes",
    when_it_lies="Does not say who fares worse: look at the error of each group.",
    unit="bits",
)
def outcome_divergence(
    mentions: Mentions,
    labels: Groups,
    *,
    images: Sequence[Any] | None = None,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Divergence in bits between groups of how captions fare: correct, incorrect, other (Burns 2018).

    Jensen-Shannon divergence, log base 2, of the groups' (correct, incorrect, other) shares; with more than two
    groups, of all of them equally weighted (ours). Chance: groups shuffled over the outcomes (the margins of the
    table stay; the divergence of small groups is above 0 by chance alone), one-sided p-value. Interval: bootstrap
    over images, moved by the bootstrap's own bias and cut at 0.

    Args:
        mentions: the groups that each of n captions names.
        labels: (n,) the images' groups, under names that ``mentions`` has; captions of an undefined one are left out.
        images: (n,) the image of each caption, where one has several: whole images are shuffled and drawn.
        draws: how many shuffles the null takes, and as many resamples the interval.
        seed: which shuffles and resamples are drawn.
        level: confidence level of the interval.

    Returns:
        The estimate, from 0 to log2 of the number of groups.

    >>> said = Mentions.of(["A man"] * 9 + ["A dog"] + ["A woman"] * 5 + ["A man"] * 5, "lic")
    >>> labels = Groups.from_values(["male"] * 10 + ["female"] * 10)
    >>> round(outcome_divergence(said, labels).value, 3)
    0.342
    """
    said = outcomes(mentions, labels)
    kept = said >= 0
    present = np.flatnonzero(labels.counts() > 0)
    if len(present) < 2:
        raise InputError("outcome divergence compares two groups; only one has labelled captions")
    side = np.searchsorted(present, labels.labels[kept])
    shape = (len(present), len(OUTCOMES))
    cells = np.zeros((int(kept.sum()), shape[0] * shape[1]))
    cells[np.arange(len(cells)), side * shape[1] + said[kept]] = 1.0

    def divergence(counts: Floats) -> Floats:
        tables = counts.reshape(-1, *shape)
        sizes = tables.sum(axis=2, keepdims=True)
        # a resample may miss a small group: then nothing tells it from the others
        even = tables.sum(axis=1, keepdims=True) / tables.sum(axis=(1, 2), keepdims=True)
        return jensen_shannon(np.where(sizes > 0, tables / np.maximum(sizes, 1), even))

    table = cells.sum(axis=0).reshape(shape)
    value = float(divergence(table[None])[0])
    rng = np.random.default_rng(seed)
    if images is None:
        law = sps.random_table(table.sum(axis=1).astype(int), table.sum(axis=0).astype(int))
        null = divergence(law.rvs(size=as_count(draws, "draws"), random_state=rng).astype(float))
        resampled = divergence(rng.multinomial(len(cells), table.ravel() / len(cells), size=draws).astype(float))
    else:
        image_keys(images, len(mentions))  # one id per caption
        named = list(compress(images, kept))
        keys = image_keys(named, len(named))
        groups = image_labels(keys, side, named)
        null = divergence(_shuffled_outcomes(said[kept], groups, keys, as_count(draws, "draws"), rng))
        resampled = bootstrap_statistic(cells, divergence, clusters=keys, replicates=draws, seed=seed)
    low, high, why = moved_interval(value, resampled, level, least=0.0, most=float(np.log2(len(present))))
    estimate = Estimate(
        value,
        low,
        high,
        n=len(cells),
        n_groups=len(present),
        dropped={"no label": labels.n_undefined} if labels.n_undefined else {},
        notes=(*_silence(mentions.take(kept)), *why),
        level=level,
    )
    return with_chance(estimate, null, rng=rng)


def _shuffled_outcomes(
    said: NDArray[Any], groups: NDArray[Any], keys: NDArray[Any], draws: int, rng: np.random.Generator
) -> Floats:
    """(R, G, 3) counts of outcomes by group, the ``groups`` (images,) dealt anew over whole images."""
    by_image = np.stack([np.bincount(keys, said == k) for k in range(len(OUTCOMES))], axis=1)
    blocks = permuted_labels(groups, draws, rng)
    return np.concatenate(
        [np.stack([(block == g) @ by_image for g in range(int(groups.max()) + 1)], axis=1) for block in blocks]
    ).astype(np.float64)
