"""How much is too much: the margin of each metric, and its unit in words."""

from __future__ import annotations

import math

from scipy import stats as sps

__all__ = ["SIGNED", "TRUE_SIZES", "WORSE_BELOW", "margin_of", "margin_text"]

SPREADS = 0.2
"""The usual margin of a gap inside sets, in spreads between sets of the same group: a small effect (Cohen 1988)."""
POINTS = 0.05
"""The usual margin of a difference between shares: five points."""
SHARE = 1.1
"""The usual margin of a skew: 1.1 times the share that luck gives."""

TRUE_SIZES = frozenset({"standard_gap_size"})
"""Sizes whose value and interval are free of noise: they are held against the margin as they stand."""

SIGNED = frozenset(
    {"counterfactual_gap", "standard_gap", "outranks", "bias_at_k", "placebo_excess", "negative_association_gap"}
    | {"resolution_gap", "neutral_rate_gap", "sentiment_gap", "text_encoder_bias"}
)
"""Metrics whose sign says which group; their distance from chance is what counts."""

WORSE_BELOW = frozenset({"min_skew", "exposure_ratio", "group_evenness"})
"""Metrics of which less than chance is worse."""

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
            "resolution_gap",
            "binding_drop",
            "presence_drop",
            "text_encoder_bias",
            "group_share",
            "filter_bias",
            "filter_drop",
            "filter_fail",
            "attribute_auc",
            "subject_distance",
            "word_distance",
            "object_distance",
            "cluster_distance",
            "group_evenness",
        ),
        POINTS,
    ),
    "self_similarity_gap": 0.02,
}


def margin_of(metric: str, spreads: float = SPREADS) -> float | None:
    """What counts as too small to matter, as a distance from chance; ``None`` where no one has stated it.

    >>> margin_of("standard_gap"), round(margin_of("max_skew"), 3), round(margin_of("outranks"), 3)
    (0.2, 0.095, 0.056)
    >>> margin_of("infeasible_index") is None
    True
    """
    if metric in ("standard_gap", "standard_gap_size", "placebo_excess"):
        return spreads
    if metric == "outranks":  # two pictures whose scores lie that many spreads apart
        return float(sps.norm.cdf(spreads / math.sqrt(2))) - 0.5
    if metric.endswith("_distance"):
        return POINTS
    return _FIXED.get(metric)


def margin_text(metric: str, spreads: float = SPREADS) -> str:
    """The margin with its unit.

    >>> margin_text("standard_gap_size"), margin_text("max_skew"), margin_text("lic"), margin_text("binding_drop")
    ('0.2 spreads', '1.1 times what luck gives', '1 point', '5 points')
    """
    if metric in ("standard_gap", "standard_gap_size", "placebo_excess"):
        return f"{spreads:g} spreads"
    if metric == "outranks":
        return f"{100 * (0.5 + (margin_of(metric, spreads) or 0)):.0f} of 100 sets"
    if metric == "max_skew":
        return f"{SHARE:g} times what luck gives"
    if metric in ("lic", "lic_m"):
        return "1 point"
    margin = margin_of(metric, spreads)
    if margin is None:
        return ""
    return f"{100 * margin:.0f} points" if margin in (POINTS, 0.1) else f"{margin:.2g}"
