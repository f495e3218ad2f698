"""The four things that a number can show, and the one function that says which.

*Leans*: beyond chance, and beyond the margin. *Too small to matter*: its interval lies inside the margin, however small
its p-value. *Nothing found, and would have been*: within chance, with an n that finds a few margins, which is said.
*Cannot tell*: everything else. A p-value alone never gives the first, and its absence never the third.

How much is too much: the margin of each metric, and its unit in words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pandas as pd

from equipoise.formatting import p_text
from equipoise.measure.notes import facts_of, independent
from equipoise.measure.stats import holm
from equipoise.measure.stats.laws import normal_above, normal_below, t_quantile

SPREADS = 0.2
"""The usual margin of a gap inside sets, in spreads between sets of the same group: a small effect (Cohen 1988)."""
POINTS = 0.05
"""The usual margin of a difference between shares: five points."""
SHARE = 1.1
"""The usual margin of a skew: 1.1 times the share that luck gives."""
OF_EVEN = 0.1
"""The usual margin of a group's share of a dataset: this part of the share that would be even."""

TRUE_SIZES = frozenset({"standard_gap_size"})
"""Sizes whose value and interval are free of noise: they are held against the margin as they stand."""

NOT_MASKED = "words that name a group were not masked, and could hide a difference"
"""Why LIC that is within chance says nothing."""

SIGNED = frozenset(
    {"counterfactual_gap", "standard_gap", "outranks", "bias_at_k", "placebo_excess", "negative_association_gap"}
    | {"closest_kind_gap", "resolution_gap", "neutral_rate_gap", "sentiment_gap", "text_encoder_bias"}
)
"""Metrics whose sign says which group; their distance from chance is what counts."""

UPWARDS = frozenset({"placebo_excess"})
"""Signed metrics of which only more is worse: less than a placebo is nothing to hold against a model."""

WORSE_BELOW = frozenset({"min_skew", "exposure_ratio", "group_evenness"})
"""Metrics of which less than chance is worse."""


def distances(metric: str, excess: pd.Series) -> pd.Series:
    """Excesses over chance as distances from it, towards worse: whichever way a signed metric points.

    >>> excess = pd.Series([0.3, -0.9])
    >>> [distances(metric, excess).tolist() for metric in ("max_skew", "bias_at_k", "min_skew")]
    [[0.3, -0.9], [0.3, 0.9], [-0.3, 0.9]]
    """
    if metric in SIGNED - UPWARDS:
        return excess.abs()
    return -excess if metric in WORSE_BELOW else excess


_FIXED = {
    "max_skew": math.log(SHARE),
    # what one of two groups at 1.1 times its share gives: 0.55 ln 1.1 + 0.45 ln 0.9
    "ndkl": 0.55 * math.log(1.1) + 0.45 * math.log(0.9),
    "bias_at_k": 0.1,
    "abs_bias_at_k": 0.1,
    "exposure_gap": 0.1,
    **dict.fromkeys(("lic", "lic_m"), 1.0),
    **dict.fromkeys(
        (
            "recall_gap",
            "zero_shot_accuracy_gap",
            "person_preference_gap",
            "negative_association_gap",
            "closest_kind_gap",
            "resolution_gap",
            "binding_drop",
            "presence_drop",
            "text_encoder_bias",
            "filter_bias",
            "filter_drop",
            "filter_fail",
            "attribute_auc",
            "group_evenness",
            "object_recall_gap",
        ),
        POINTS,
    ),
    "leakage_amplification": 0.01,  # as LIC: one point
    "ratio": SHARE - 1,
    "artefact_delta": 10.0,
    "self_similarity_gap": 0.02,
}


def margin_of(metric: str, spreads: float = SPREADS, n_groups: int = 2) -> float | None:
    """What counts as too small to matter, as a distance from chance; ``None`` where no one has stated it.

    ``n_groups``: how many groups the axis has, of which an even share depends.

    >>> margin_of("standard_gap"), round(margin_of("max_skew"), 3), round(margin_of("outranks"), 3)
    (0.2, 0.095, 0.056)
    >>> margin_of("group_share"), margin_of("group_share", n_groups=5), margin_of("infeasible_index") is None
    (0.05, 0.02, True)
    """
    if metric in ("standard_gap", "standard_gap_size", "placebo_excess"):
        return spreads
    if metric == "outranks":  # two pictures whose scores lie that many spreads apart
        return float(normal_below(spreads / math.sqrt(2))) - 0.5
    if metric == "group_share":
        return OF_EVEN / n_groups
    if metric.endswith("_distance"):
        return POINTS
    return _FIXED.get(metric)


def margin_text(metric: str, spreads: float = SPREADS, n_groups: int = 2) -> str:
    """The margin with its unit.

    >>> margin_text("standard_gap_size"), margin_text("max_skew"), margin_text("lic"), margin_text("binding_drop")
    ('0.2 spreads', '1.1 times the share that luck gives', '1 point', '5 points')
    >>> margin_text("group_share", n_groups=3)
    '3.3 points'
    """
    if metric in ("standard_gap", "standard_gap_size", "placebo_excess"):
        return f"{spreads:g} spreads"
    if metric == "outranks":
        return f"{100 * (0.5 + (margin_of(metric, spreads) or 0)):.0f} of 100 sets"
    if metric == "max_skew":
        return f"{SHARE:g} times the share that luck gives"
    if metric in ("lic", "lic_m", "leakage_amplification"):
        return "1 point"
    if metric == "ratio":
        return f"{SHARE - 1:.1f}"
    if metric == "artefact_delta":
        return "10 percent"
    margin = margin_of(metric, spreads, n_groups)
    if margin is None:
        return ""
    in_points = metric == "group_share" or margin in (POINTS, 0.1)
    return f"{100 * margin:.2g} points" if in_points else f"{margin:.2g}"


LEVEL = 0.05
FINDS = 1.5
"""An n counts as enough if it finds an effect of this many margins and rules out more; what it finds is said."""
_POWER = 0.8
_ZERO = 1e-12
_FAINTEST = 1e-6


class Conclusion(StrEnum):
    """What can be said of one axis, model, dataset, filter or comparison; of several, the first is told."""

    LEANS = "leans"
    CANNOT_TELL = "cannot tell"
    TOO_SMALL = "too small to matter"
    NOTHING = "nothing found, and would have been"


def outcome_of(
    size: float,
    low: float | None,
    high: float | None,
    *,
    margin: float | None,
    detected: bool,
    smallest: float | None = None,
) -> Conclusion:
    """Which of the four a size is, from its interval, its margin, and whether it is beyond chance.

    ``size``, ``low`` and ``high`` are distances from chance, in the unit of ``margin``. ``detected``: the adjusted
    p-value is below 0.05. ``smallest``: what this n finds with 80% power. An interval of no width is none.

    >>> outcome_of(0.8, 0.6, 1.0, margin=0.2, detected=True).value
    'leans'
    >>> outcome_of(0.03, 0.02, 0.04, margin=0.2, detected=True).value
    'too small to matter'
    >>> outcome_of(0.02, -0.1, 0.14, margin=0.2, detected=False, smallest=0.17).value
    'nothing found, and would have been'
    >>> outcome_of(0.8, None, None, margin=0.2, detected=True).value, outcome_of(0.3, -0.1, 0.7, margin=0.2,
    ...     detected=True).value
    ('cannot tell', 'cannot tell')
    """
    if low is None or high is None or high - low < _ZERO or margin is None or not math.isfinite(high):
        return Conclusion.CANNOT_TELL
    if detected:
        if size > margin and low > 0:
            return Conclusion.LEANS
        return Conclusion.TOO_SMALL if high <= margin else Conclusion.CANNOT_TELL
    would = smallest is not None and smallest <= FINDS * margin
    return Conclusion.NOTHING if would and high <= FINDS * margin else Conclusion.CANNOT_TELL


@dataclass(frozen=True, eq=False)
class Reading:
    """One row of a results table, held against its margin."""

    row: pd.Series
    size: float
    """How far from chance, towards worse, in the metric's unit; of an absolute size what is left without noise. Its
    interval is ``low`` to ``high``."""
    low: float | None
    high: float | None
    """The ends of its interval, on the same scale; ``None`` where there is none, or one of no width."""
    margin: float | None
    smallest: float | None
    """The smallest effect that this n finds with 80% power, on the same scale."""
    p: float
    """Adjusted for everything looked at."""
    p_counted: float | None = None
    """The same by counted draws alone, where ``p`` goes on beyond them by a normal tail (:func:`refined_p`)."""
    below_chance: float | None = None
    """Of an absolute size no larger than its chance level: the difference, which is not above 0."""

    @property
    def beyond(self) -> float:
        """How far beyond chance, towards worse; not above 0 where chance gives as much."""
        return self.size if self.below_chance is None else self.below_chance

    @property
    def p_told(self) -> str:
        """The p-value in words; one that no draws could show says so, with the one that they show.

        >>> row = pd.Series({"metric": "ndkl"})
        >>> Reading(row, 0.2, 0.1, 0.3, 0.1, None, 0.00002, 0.125).p_told
        'p < 0.001 by a normal tail, p = 0.125 by the draws alone'
        >>> Reading(row, 0.2, 0.1, 0.3, 0.1, None, 0.04, 0.04).p_told
        'p = 0.040'
        """
        told = p_text(self.p)
        return f"{told} by a normal tail, {p_text(self.p_counted)} by the draws alone" if self.has_tail else told

    @property
    def has_tail(self) -> bool:
        """Whether the p-value, as it is printed, is smaller than counted draws show."""
        known = self.p_counted is not None and self.p < self.p_counted
        return known and p_text(self.p) != p_text(self.p_counted)

    @property
    def metric(self) -> str:
        """The metric's name in the results."""
        return str(self.row["metric"])

    @property
    def n_groups(self) -> int:
        """How many groups the axis has; two where the row does not say."""
        return int(_number(self.row.get("n_groups")) or 2)

    @property
    def detected(self) -> bool:
        """Whether it is beyond chance, towards worse, after correction."""
        return self.p < LEVEL and self.beyond > 0

    @property
    def within_margin(self) -> bool:
        """Whether its interval lies inside the margin; not where it has none of either."""
        return self.high is not None and self.margin is not None and self.high <= self.margin

    @property
    def outcome(self) -> Conclusion:
        """Which of the four this row alone is."""
        return outcome_of(
            self.size, self.low, self.high, margin=self.margin, detected=self.detected, smallest=self.smallest
        )


def read_row(
    row: pd.Series, p: float, *, counted: float | None = None, spreads: float = 0.2, signed: bool | None = None
) -> Reading:
    """``row`` as a distance from chance; ``p`` is its adjusted p-value, ``spreads`` the audit's margin.

    ``counted``: the adjusted p-value without a normal tail, where ``p`` has one (:func:`adjusted_p`). ``signed``:
    whether either side of chance counts, as in a difference of two models; by the metric unless given.

    >>> row = pd.Series({"metric": "standard_gap_size", "value": 0.5, "null_mean": 0.05, "null_sd": 0.05,
    ...     "ci_low": 0.4, "ci_high": 0.6, "n": 28})
    >>> reading = read_row(row, 0.001)
    >>> reading.size, reading.low, reading.high, reading.outcome.value
    (0.5, 0.4, 0.6, 'leans')
    >>> read_row(pd.Series({**row, "metric": "max_skew"}), 0.001).size
    0.45
    >>> within = read_row(pd.Series({**row, "value": 0.02, "ci_low": 0.0, "ci_high": 0.1}), 0.7)
    >>> within.size, within.low, within.high, round(within.beyond, 2)
    (0.02, 0.0, 0.1, -0.03)
    """
    metric, chance = str(row["metric"]), float(row["null_mean"])
    size, low, high = float(row["value"]), _number(row["ci_low"]), _number(row["ci_high"])
    margin = margin_of(metric, spreads, int(_number(row.get("n_groups")) or 2))
    below_chance = None
    if metric in TRUE_SIZES and not signed:
        # the number and its interval are free of noise; chance is what the cut at 0 leaves
        smallest = _smallest_size(row)
        below_chance = None if size > chance else size - chance
    else:
        smallest = _smallest(row, low, high)
        # of a metric of which less is worse, the other way round
        sign, ends = (-1, (high, low)) if metric in WORSE_BELOW else (1, (low, high))
        size = sign * (size - chance)
        low, high = (None if end is None else sign * (end - chance) for end in ends)
        if metric in SIGNED if signed is None else signed:
            # whichever way it points: the distance from chance, and 0 where the interval holds it
            size = abs(size)
            if low is not None and high is not None:
                low, high = 0.0 if low < 0 < high else min(abs(low), abs(high)), max(abs(low), abs(high))
    if low is None or high is None or high - low < _ZERO:
        low = high = None
    return Reading(row, size, low, high, margin, smallest, p, counted, below_chance)


def read_lic(row: pd.Series, p: float, *, masked: bool) -> Reading:
    """A row of LIC or LIC_M; ``masked``: whether the words that name a group were hidden from the classifier.

    Where they were not, only a lean can be told, and never its absence: a word for the group tells a classifier all
    there is to tell, in anybody's captions.

    >>> row = pd.Series({"metric": "lic", "value": 0.1, "null_mean": 0.0, "null_sd": 0.1, "ci_low": -0.2,
    ...     "ci_high": 0.4, "n": 900})
    >>> read_lic(row, 0.6, masked=True).outcome.value, read_lic(row, 0.6, masked=False).outcome.value
    ('nothing found, and would have been', 'cannot tell')
    """
    reading = read_row(row, p)
    return reading if masked else replace(reading, smallest=None)


def adjusted_p(rows: pd.DataFrame) -> list[tuple[float, float]]:
    """The p-value of each row, adjusted for looking at all of them (Holm): with the normal tail, and counted alone.

    >>> row = {"p_value": 0.005, "value": 0.9, "null_mean": 0.2, "null_sd": 0.1, "n": 28}
    >>> adjusted_p(pd.DataFrame([row, row | {"p_value": 0.4}]))
    [(2e-06, 0.01), (0.4, 0.4)]
    """
    every = [row for _, row in rows.iterrows()]
    with_tail, counted = holm([refined_p(row) for row in every]), holm([float(row["p_value"]) for row in every])
    return [(float(a), float(b)) for a, b in zip(with_tail, counted, strict=True)]


def noted_p(row: pd.Series) -> float | None:
    """The p-value that a row says is corrected over the questions of its run (Holm); ``None`` where it says none."""
    known = facts_of(row, "holm_over")
    return float(known["p"]) if known else None


def refined_p(row: pd.Series) -> float:
    """A row's p-value, by the normal law where the draws of its null end.

    Of 1,000 draws of which none is as far out, the p-value is only known to be below 0.001. Corrected for fifty
    numbers that could never count, so from 0.005 downwards the tail is that of the normal law with the mean and spread
    of the null: never above the p-value itself, nor below one in a million. Whoever prints it says so
    (:attr:`Reading.p_told`).

    >>> row = {"p_value": 0.001, "value": 0.9, "null_mean": 0.2, "null_sd": 0.1, "n": 28}
    >>> refined_p(pd.Series(row)), refined_p(pd.Series(row | {"value": 0.5})).__round__(5)
    (1e-06, 0.001)
    """
    p, sd = float(row["p_value"]), _number(row["null_sd"])
    if p > LEVEL / 10 or sd is None or sd < _ZERO or (independent(row) or 0) < 2:
        return p
    z = abs(float(row["value"]) - float(row["null_mean"])) / sd
    return min(p, max(_FAINTEST, 2 * float(normal_above(z))))


def _smallest(row: pd.Series, low: float | None, high: float | None) -> float | None:
    """The smallest excess that this n finds with 80% power at 5%: 2.8 standard errors, more where n is small."""
    errors = [_number(row["null_sd"])]
    n = independent(row) or 0
    critical = float(t_quantile(1 - LEVEL / 2, n - 1)) if n > 1 else math.inf
    if low is not None and high is not None and math.isfinite(high - low) and n:
        errors.append((high - low) / 2 / critical)
    known = [error for error in errors if error is not None and error > _ZERO]
    if not known or not n:
        return None
    return (critical + float(t_quantile(_POWER, n - 1))) * max(known)


def _smallest_size(row: pd.Series) -> float | None:
    """The same of a root mean square without noise, cut at 0.

    Its square is about normal around 0 by chance, with sd s; cut and rooted, the mean is 0.411 sqrt(s) and the sd
    0.480 sqrt(s). Found four times in five is a square of 2.49 s.

    >>> round(_smallest_size(pd.Series({"null_mean": 0.0411, "null_sd": 0.048})), 3)
    0.158
    """
    mean, sd = _number(row["null_mean"]), _number(row["null_sd"])
    roots = [part / by for part, by in ((mean, 0.411), (sd, 0.480)) if part is not None and part > _ZERO]
    return math.sqrt(2.49) * max(roots) if roots else None


def _number(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)
