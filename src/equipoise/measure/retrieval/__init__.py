"""Retrieval bias: who is found when nobody was asked for.

The public face of the retrieval metrics. ``evaluate`` gives every metric per query in one pass, ``chance`` what a
blind ranking would have given, ``summary`` both as estimates:

>>> import numpy as np
>>> scores = np.random.default_rng(0).random((30, 240))
>>> groups = Groups(np.arange(240) % 12, tuple("abcdefghijkl"))
>>> found = evaluate(Scores(scores), groups, k=12)
>>> top = summary(found, chance(found, draws=300))[0]
>>> top.metric, round(top.estimate.null_mean, 1), top.estimate.p_value > 0.01
('max_skew', 1.0, True)

The single metrics take counts (``max_skew`` and the like) or ranked labels (``ndkl`` and the like) and can be used
on their own.
"""

from __future__ import annotations

from equipoise.measure.groups import UNDEFINED, Groups, intersect
from equipoise.measure.retrieval.blocks import Candidates, group_counts
from equipoise.measure.retrieval.chance import Chance, chance
from equipoise.measure.retrieval.evaluate import Retrieved, evaluate
from equipoise.measure.retrieval.nulls import (
    DiscreteLaw,
    expected_ndkl,
    hypergeometric_counts,
    max_skew_law,
    random_rankings,
)
from equipoise.measure.retrieval.order import (
    attention,
    exposure,
    exposure_gap,
    exposure_ratio,
    infeasible_count,
    infeasible_index,
    kl_curve,
    ndkl,
)
from equipoise.measure.retrieval.recall import (
    GroupGap,
    gap_by_group,
    median_rank_by_group,
    mrr_by_group,
    recall_at_k,
    recall_by_group,
)
from equipoise.measure.retrieval.skew import (
    abs_bias_at_k,
    absent_groups,
    bias_at_k,
    bias_count_at_k,
    desired_shares,
    max_skew,
    min_skew,
    representation,
    skew,
)
from equipoise.measure.retrieval.sources import Embeddings, ScoreBlocks, Scores
from equipoise.measure.retrieval.summary import Measured, per_query, summary
from equipoise.measure.retrieval.topk import Ranking, Scan, Want, rank, scan
from equipoise.measure.retrieval.variants import VARIANTS, Variant, index_bias, intel_ndkl, variant_named
from equipoise.measure.stats.exchange import LabelShuffler, with_partners

__all__ = [
    "UNDEFINED",
    "VARIANTS",
    "Candidates",
    "Chance",
    "DiscreteLaw",
    "Embeddings",
    "GroupGap",
    "Groups",
    "LabelShuffler",
    "Measured",
    "Ranking",
    "Retrieved",
    "Scan",
    "ScoreBlocks",
    "Scores",
    "Variant",
    "Want",
    "abs_bias_at_k",
    "absent_groups",
    "attention",
    "bias_at_k",
    "bias_count_at_k",
    "chance",
    "desired_shares",
    "evaluate",
    "expected_ndkl",
    "exposure",
    "exposure_gap",
    "exposure_ratio",
    "gap_by_group",
    "group_counts",
    "hypergeometric_counts",
    "index_bias",
    "infeasible_count",
    "infeasible_index",
    "intel_ndkl",
    "intersect",
    "kl_curve",
    "max_skew",
    "max_skew_law",
    "median_rank_by_group",
    "min_skew",
    "mrr_by_group",
    "ndkl",
    "per_query",
    "random_rankings",
    "rank",
    "recall_at_k",
    "recall_by_group",
    "representation",
    "scan",
    "skew",
    "summary",
    "variant_named",
    "with_partners",
]
