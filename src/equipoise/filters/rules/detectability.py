"""Can the groups, and the subject, be seen? Zero-shot labels of every image, counted over the set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Flags, Floats
from equipoise.errors import InputError
from equipoise.filters.bias_strata import share_varied
from equipoise.filters.protocol import FilterVerdict, below, whole_sets
from equipoise.filters.remaining import RemainingImages
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import LEAST_VARYING
from equipoise.measure.stats.shares import share_estimate
from equipoise.text.templates.persons import detectability_prompts
from equipoise.text.templates.places import with_subject

SUBJECT = "subject"
SOCIALCF_THRESHOLDS: Mapping[frozenset[str], Mapping[str, int]] = {
    frozenset({"race", "gender"}): {"gender": 12, "race": 9},
    frozenset({"physical", "gender"}): {"gender": 10, "physical": 5},
    frozenset({"physical", "race"}): {"race": 13, "physical": 8},
}
"""Images of a set that must be recognised, for each pair of axes (SocialCounterfactuals, Section 8.3)."""


@dataclass(frozen=True)
class Detectability:
    """A set stays if enough of its images are recognised as what they should show, on every axis.

    An image is recognised if "a/an x person" of its own group fits better than that of every other group. How many
    must be is a number of images for each axis (``thresholds``), or a share of the set (``least``). Preset
    ``socialcf`` has the paper's numbers for its three pairs of axes;
    :func:`equipoise.filters.thresholds.learn_thresholds` finds yours from what people accepted.
    """

    axes: tuple[str, ...] = ()
    """Axes to look at; those that vary within sets unless given."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Images of a set that must be recognised, by axis; ``subject`` too."""
    least: float = 0.75
    """The share of a set for axes without a threshold."""
    subject_least: float | None = None
    """The share of a set in which the subject itself must be recognised; ``None`` only counts confusions."""
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Prompts of your own: axis to group to text."""
    subject_prompt: str = "a photo of a {}"
    look_at_subject: bool = True
    preset: str = ""
    model: str = ""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"socialcf": {"preset": "socialcf"}}

    @property
    def columns(self) -> tuple[str, ...]:
        """The axes that are named."""
        return self.axes

    @property
    def needs(self) -> tuple[str, ...]:
        """Vectors of images and prompts."""
        return ("image vectors", "vectors of one prompt per group and subject")

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Scores ``detect_<axis>``: the cosine with the own prompt minus the best other; above 0 is recognised."""
        axes = self._axes(remaining)
        images = remaining.image_vectors(self.model)
        wanted = self._thresholds(axes)
        verdict = FilterVerdict(np.zeros(len(remaining), dtype=bool), np.zeros(len(remaining), dtype=bool))
        for axis in axes:
            texts = self._prompts(axis, remaining.column(axis))
            seen = zero_shot(
                images, remaining.text_vectors(list(texts.values()), self.model), list(texts), remaining.column(axis)
            )
            self._count(verdict, remaining, axis, seen, wanted.get(axis))
        if self.look_at_subject and "subject" in remaining.frame and remaining.frame["subject"].nunique() > 1:
            subjects = sorted(remaining.frame["subject"].dropna().unique())
            asked = [with_subject(self.subject_prompt, name) for name in subjects]
            seen = zero_shot(images, remaining.text_vectors(asked, self.model), subjects, remaining.frame["subject"])
            self._count(verdict, remaining, SUBJECT, seen, wanted.get(SUBJECT))
        return verdict

    def _count(
        self,
        verdict: FilterVerdict,
        remaining: RemainingImages,
        axis: str,
        seen: ZeroShotLabels,
        threshold: float | None,
    ) -> None:
        share = self.subject_least if axis == SUBJECT else self.least
        if threshold is not None or share is not None:
            counts, sizes = set_counts(seen.hit, seen.asked, remaining.sets)
            # An image without a label on the axis asks for nothing: sizes count those that have one.
            needed = np.full(len(sizes), float(threshold)) if threshold is not None else (share or 0.0) * sizes
            short = (below(counts - needed, 0.0) & (sizes > 0))[remaining.sets]
            verdict.failed = verdict.failed | (seen.asked & ~seen.hit)
            verdict.dropped = verdict.dropped | whole_sets(short, remaining.sets)
        verdict.scores[f"detect_{axis}"] = seen.margin
        verdict.files[f"confusions_{axis}"] = seen.confusions()
        verdict.rows += _rows(seen, axis, remaining)
        if seen.asked.any():
            verdict.notes.append(f"{axis}: {seen.hit[seen.asked].mean():.1%} of images recognised")

    def _axes(self, remaining: RemainingImages) -> tuple[str, ...]:
        if self.axes:
            return self.axes
        # a tenth of the sets or more: sets are made so, and no wrong label does it
        varied = [a for a in remaining.axes if share_varied(remaining.column(a), remaining.sets) >= LEAST_VARYING]
        if not varied:
            raise InputError("no axis varies within a set; name the axes whose groups must be seen")
        return tuple(varied)

    def _thresholds(self, axes: Sequence[str]) -> dict[str, float]:
        known = {name: float(value) for name, value in self.thresholds.items()}
        if self.preset == "socialcf":
            pair = SOCIALCF_THRESHOLDS.get(frozenset(axes))
            if pair is None:
                pairs = "; ".join(" and ".join(sorted(p)) for p in SOCIALCF_THRESHOLDS)
                raise InputError(f"preset socialcf has thresholds for {pairs}, not for {' and '.join(axes)}")
            known = {**pair, **known}
        for name in known:
            if name not in (*axes, SUBJECT):
                raise InputError(f"thresholds names {name!r}, which is not looked at; axes are: {', '.join(axes)}")
        return known

    def _prompts(self, axis: str, groups: pd.Series[Any]) -> dict[str, str]:
        own = dict(self.prompts.get(axis, {}))
        names = sorted(groups.dropna().unique())
        missing = [name for name in names if name not in own]
        if own and missing:
            raise InputError(f"prompts of {axis!r} lack the group {missing[0]!r}")
        if len(own or names) < 2:
            raise InputError(
                f"axis {axis!r} has {len(own or names)} group; a zero-shot choice needs two: give prompts of the others"
            )
        return own or detectability_prompts(names)


@dataclass(frozen=True)
class ZeroShotLabels:
    """What zero-shot labels say of n images."""

    names: tuple[str, ...]
    own: NDArray[np.int64]
    """(n,) the label each should have; -1 for none."""
    best: NDArray[np.int64]
    """(n,) the label that fits best; -1 where the image could not be encoded."""
    margin: Floats
    """(n,) cosine with the own label minus the best other."""

    @property
    def asked(self) -> Flags:
        """Which images have a label to be recognised."""
        return self.own >= 0

    @property
    def hit(self) -> Flags:
        """Which are recognised; a tie is none."""
        return np.asarray(self.margin > 0)

    def confusions(self) -> pd.DataFrame:
        """How often each label was taken for each other, the commonest first."""
        there = self.asked & (self.best >= 0)
        frame = pd.DataFrame(
            {
                "shown": [self.names[i] for i in self.own[there]],
                "taken_for": [self.names[i] for i in self.best[there]],
            }
        )
        counts = frame.value_counts().rename("images").reset_index()
        totals = counts.groupby("shown")["images"].transform("sum")
        counts["share"] = counts["images"] / totals
        wrong = counts["shown"] != counts["taken_for"]
        return (
            counts.assign(_w=wrong)
            .sort_values(["_w", "images", "shown", "taken_for"], ascending=[False, False, True, True])
            .drop(columns="_w")
            .reset_index(drop=True)
        )


def zero_shot(images: Any, texts: Any, names: Sequence[str], labels: Any) -> ZeroShotLabels:
    """The best fitting of ``texts`` (k, d), called ``names``, for ``images`` (n, d), which show ``labels`` (n,).

    >>> seen = zero_shot(np.eye(2), np.eye(2), ["a", "b"], ["a", "a"])
    >>> seen.hit.tolist(), seen.confusions().values.tolist()[0]
    ([True, False], ['a', 'b', 1, 0.5])
    """
    cosine = np.asarray(images) @ np.asarray(texts).T
    place = {name: i for i, name in enumerate(names)}
    own = np.array([place.get(label, -1) for label in labels], dtype=np.int64)
    blind = ~np.isfinite(cosine).all(axis=1)
    cosine = np.where(np.isfinite(cosine), cosine, -np.inf)
    rows = np.arange(len(cosine))
    mine = cosine[rows, np.clip(own, 0, None)].astype(np.float64)
    others = cosine.astype(np.float64)
    others[rows, np.clip(own, 0, None)] = -np.inf
    with np.errstate(invalid="ignore"):
        margin = np.where(blind | (own < 0), np.nan, mine - others.max(axis=1))
    best = np.where(blind, -1, cosine.argmax(axis=1))
    return ZeroShotLabels(tuple(names), own, best, margin)


def set_counts(hit: Flags, asked: Flags, sets: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """(S,) images of each set that are recognised, and that have something to be recognised.

    >>> [values.tolist() for values in set_counts(np.array([True, False]), np.array([True, True]), np.array([0, 0]))]
    [[1.0], [2.0]]
    """
    n_sets = int(sets.max()) + 1 if len(sets) else 0
    weight = np.asarray(asked, dtype=np.float64)
    hits = np.bincount(sets, weight * hit, n_sets).astype(np.float64)
    return hits, np.bincount(sets, weight, n_sets).astype(np.float64)


def recognised_share(hit: Flags, sets: NDArray[np.int64], chance: float) -> Estimate:
    """The share of ``hit`` (n,) against ``chance``; images of one of the ``sets`` (n,) are not independent.

    >>> recognised_share(np.array([True] * 12), np.repeat(np.arange(4), 3), 0.5)
    1 [0.5101, 1] chance 0.5 ± 0.25, excess +0.5, p = 0.062, n = 12; images of a set count as one: none differs
    """
    values = np.asarray(hit, dtype=np.float64)
    first = np.unique(sets, return_index=True)[1]
    if len(first) == len(values):
        return share_estimate(values, null_value=chance, alternative="greater")
    if values.min() == values.max():  # no spread to take an interval from: as many answers as there are sets
        note = ("images of a set count as one: none differs",)
        share = share_estimate(values[first], null_value=chance, alternative="greater", notes=note)
        return replace(share, n=len(values))
    return share_estimate(values, clusters=sets, null_value=chance, alternative="greater")


def _rows(seen: ZeroShotLabels, axis: str, remaining: RemainingImages) -> list[dict[str, Any]]:
    """Accuracy on each group: what the filter's own model can see."""
    rows = []
    for g, name in enumerate(seen.names):
        mine = seen.own == g
        if mine.any() and axis != SUBJECT:
            share = recognised_share(seen.hit[mine], remaining.sets[mine], 1 / len(seen.names))
            rows.append(share.row(metric="zero_shot_recognised", variant="equipoise", axis=axis, group=name))
    return rows
