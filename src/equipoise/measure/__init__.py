"""Numbers: pure functions from arrays to small result objects, each with its chance level.

Arrays in, estimates out: scores or embeddings, integer group labels (-1 undefined), K. No torch, no images, no
tables. Every metric is registered in ``METRICS`` with its formula, range, direction, chance level and when it
lies.

- ``retrieval``: who is found when nobody was asked for
- ``counterfactual``: how a score changes inside sets that differ only in the group
- ``embedding``, ``binding``: what vectors and pairs of captions say about groups
- ``dataset``, ``quality``: where data are lopsided; whether generated images are any good
- ``stats``: intervals, nulls, p-values, corrections, power

>>> from equipoise import measure
>>> measure.METRICS.get("max_skew").info["direction"]
'0 is parity; higher: some group is over-represented'
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from equipoise.registry import Registry

__all__ = ["METRICS", "binding", "counterfactual", "dataset", "embedding", "quality", "retrieval", "stats"]

METRICS = Registry("metric")

_FACES = ("binding", "counterfactual", "dataset", "embedding", "quality", "retrieval", "stats")
_GEYIK = "Geyik, Ambler and Kenthapadi, Fairness-Aware Ranking, KDD 2019"
_SINGH = "Singh and Joachims, Fairness of Exposure in Rankings, KDD 2018"
_OWN = "Equipoise"


def __getattr__(name: str) -> ModuleType:
    if name in _FACES:
        return import_module(f"equipoise.measure.{name}")
    raise AttributeError(f"module 'equipoise.measure' has no attribute {name!r}")


def _add(
    name: str,
    target: str,
    summary: str,
    citation: str,
    *,
    formula: str,
    value_range: str,
    direction: str,
    chance: str,
    when_it_lies: str,
) -> None:
    METRICS.add(
        name,
        f"equipoise.measure.{target}",
        summary=summary,
        citation=citation,
        licence="Apache-2.0",
        formula=formula,
        range=value_range,
        direction=direction,
        chance=chance,
        when_it_lies=when_it_lies,
    )


_add(
    "skew",
    "retrieval:skew",
    "Log ratio of a group's share of the top K to its desired share.",
    _GEYIK,
    formula="ln(p_g / d_g), p_g = count of g in the top K / K",
    value_range="(-inf, ln(1/d_g)]",
    direction="0 is parity; above: over-represented; below: under-represented",
    chance="below 0 on average, because the log punishes a lack more than it rewards a surplus",
    when_it_lies="one absent group makes it minus infinity; at K near the number of groups one image moves it by ln 2",
)
_add(
    "max_skew",
    "retrieval:max_skew",
    "The largest Skew@K over the groups.",
    _GEYIK,
    formula="max_g ln(p_g / d_g)",
    value_range="[0, ln(1/min d)] for d = pool or any d that sums to 1",
    direction="0 is parity; higher: some group is over-represented",
    chance="large: about 1.0 for 12 equal groups and K = 12; exact law in max_skew_law",
    when_it_lies="without its null; it saturates at ln(1/d); a pool of one complete set gives 0 by construction",
)
_add(
    "min_skew",
    "retrieval:min_skew",
    "The smallest Skew@K over the groups, smoothed by half a count.",
    _GEYIK,
    formula="min_g ln(((count_g + 0.5) / (K + 0.5 G)) / d_g)",
    value_range="(-inf, 0]",
    direction="0 is parity; lower: some group is missing",
    chance="nearly constant at K near the number of groups, since chance alone leaves a group out",
    when_it_lies="read absent_groups beside it; without smoothing it is minus infinity as soon as a group is absent",
)
_add(
    "absent_groups",
    "retrieval:absent_groups",
    "How many groups of the pool have nobody among the top K.",
    _OWN,
    formula="#{g: d_g > 0, count_g = 0}",
    value_range="0 to G - 1",
    direction="lower is better",
    chance="G (1 - 1/G)^K or so: 4.2 of 12 at K = 12 in a large pool",
    when_it_lies="when K is below the number of groups some must be absent",
)
_add(
    "representation",
    "retrieval:representation",
    "The share of each group among the top K.",
    _OWN,
    formula="count_g / K",
    value_range="[0, 1], sums to 1",
    direction="compare with the share of the pool",
    chance="the group's share of the pool, exactly",
    when_it_lies="a mean over subjects hides opposite stereotypes",
)
_add(
    "ndkl",
    "retrieval:ndkl",
    "Divergence from the desired shares, averaged over the prefixes of the ranking, top first.",
    _GEYIK,
    formula="sum_i KL(p^i || d) / log2(i + 1) over sum_i 1 / log2(i + 1), i = 1..T",
    value_range="[0, ln(1/min d)]",
    direction="0 is parity in every prefix; higher: further from it",
    chance="well above 0: prefixes of one or two images cannot be balanced; about 0.34 for 12 groups, T = 144",
    when_it_lies="without its null; depends on T; the released SocialCounterfactuals code computes another quantity",
)
_add(
    "bias_at_k",
    "retrieval:bias_at_k",
    "Signed difference of two groups among the top K; undefined images keep their slots.",
    "Wang, Liu and Wang, Are Gender-Neutral Queries Really Gender-Neutral?, EMNLP 2021",
    formula="(n_a - n_b) / (n_a + n_b), 0 when both are 0",
    value_range="[-1, 1]",
    direction="0 is parity; above: the first group is found more",
    chance="the pool's own imbalance, times the chance that the top K holds either group",
    when_it_lies="opposite signs cancel over queries; an unbalanced pool alone gives a value far from 0",
)
_add(
    "abs_bias_at_k",
    "retrieval:abs_bias_at_k",
    "Mean size of Bias@K, whichever way it points.",
    _OWN,
    formula="|n_a - n_b| / (n_a + n_b)",
    value_range="[0, 1]",
    direction="0 is parity in every query",
    chance="well above 0 for small K",
    when_it_lies="without its null",
)
_add(
    "bias_count_at_k",
    "retrieval:bias_count_at_k",
    "Mean of +1, 0 and -1 over the top K.",
    "Hall et al., VisoGender, NeurIPS 2023",
    formula="(n_a - n_b) / K",
    value_range="[-1, 1]",
    direction="0 is parity",
    chance="the difference of the two groups' shares of the pool",
    when_it_lies="undefined images pull it to 0; signs cancel over queries",
)
_add(
    "exposure",
    "retrieval:exposure",
    "The share of a reader's attention that goes to each group.",
    _SINGH,
    formula="sum of v_i over the ranks of g / sum of all v_i, v_i = 1 / log2(1 + i)",
    value_range="[0, 1], sums to 1",
    direction="compare with the share of the pool",
    chance="the group's share of the pool, exactly",
    when_it_lies="attention is assumed, not measured: try geometric:p too",
)
_add(
    "exposure_gap",
    "retrieval:exposure_gap",
    "The share of attention that would have to move to reach the desired shares.",
    "Sapiezynski et al., Quantifying the Impact of User Attention, WWW 2019",
    formula="1/2 sum_g |exposure_g - d_g|",
    value_range="[0, 1 - min d]",
    direction="0 is parity",
    chance="above 0, more for small K and many groups",
    when_it_lies="without its null; assumes an attention curve",
)
_add(
    "exposure_ratio",
    "retrieval:exposure_ratio",
    "A member's mean exposure in the worst placed group over the best placed one.",
    _SINGH,
    formula="min_g (exposure_g / d_g) / max_g (exposure_g / d_g)",
    value_range="[0, 1]",
    direction="1 is parity; lower is worse",
    chance="0 as soon as a group is absent, so 0 for K below a few times G",
    when_it_lies="it is 0 in nearly every short list; use it with K well above the number of groups",
)
_add(
    "infeasible_index",
    "retrieval:infeasible_index",
    "How many prefixes deny some group its due number.",
    _GEYIK,
    formula="#{i <= K: some g has count_i(g) < floor(d_g i)}",
    value_range="0 to K",
    direction="lower is better",
    chance="depends on the shares; 0 for groups with d_g K < 1",
    when_it_lies="small groups are never due anything in a short list",
)
_add(
    "infeasible_count",
    "retrieval:infeasible_count",
    "How many pairs of prefix and group fall short of their due number.",
    _GEYIK,
    formula="#{(i, g): count_i(g) < floor(d_g i), i <= K}",
    value_range="0 to K (G - 1)",
    direction="lower is better",
    chance="as the infeasible index",
    when_it_lies="small groups are never due anything in a short list",
)
_add(
    "recall_at_k",
    "retrieval:recall_by_group",
    "Recall@K of the queries about each group, and the gap.",
    "Garcia et al., Uncurated Image-Text Datasets (PHASE), CVPR 2023",
    formula="share of a group's queries whose target is among the top K; gap = highest - lowest",
    value_range="[0, 1]",
    direction="higher is better; the gap should be 0",
    chance="gap: above 0, from labels shuffled over images; recall: no null, K / N for a blind model",
    when_it_lies="one hit of 16 images moves it by six points; harder captions of one group look like bias",
)
_add(
    "mrr",
    "retrieval:mrr_by_group",
    "Mean reciprocal rank of the queries about each group, and the gap.",
    _OWN,
    formula="mean of 1 / rank of the target; gap = highest - lowest",
    value_range="(0, 1]",
    direction="higher is better; the gap should be 0",
    chance="gap: above 0, from labels shuffled over images",
    when_it_lies="decided by the very first ranks",
)
_add(
    "median_rank",
    "retrieval:median_rank_by_group",
    "Median rank of the targets of each group, and the gap.",
    _OWN,
    formula="median of the rank of the target; gap = highest - lowest",
    value_range="1 to N",
    direction="lower is better; the gap should be 0",
    chance="gap: above 0, from labels shuffled over images; about N / 2 for a blind model",
    when_it_lies="depends on N: never compare pools of different size",
)
_add(
    "counterfactual_gap",
    "counterfactual:pair_gaps",
    "Score gap between two groups inside counterfactual sets.",
    _OWN,
    formula="mean over sets of s(a) - s(b); d_z = mean / sd; share of sets won, ties half",
    value_range="that of the score",
    direction="0 is parity; above: the first group fits the neutral text better",
    chance="0; sign flips of whole sets",
    when_it_lies="the images of a set differ in more than the group when generation slips: filter first",
)
_add(
    "counterfactual_size",
    "counterfactual:size_of_gaps",
    "Mean over subjects of the absolute gap: how large, whichever way.",
    _OWN,
    formula="mean over subjects of |mean over its sets of s(a) - s(b)|",
    value_range="[0, inf)",
    direction="lower is better",
    chance="above 0 from noise alone; signs of sets flipped",
    when_it_lies="without its null: few sets per subject make it large",
)
_add(
    "counterfactual_effects",
    "counterfactual:decompose",
    "Main effects and interactions of intersecting axes on the score inside sets.",
    _OWN,
    formula="balanced-table effects by inclusion and exclusion; size = root mean square over levels",
    value_range="[0, inf); shares of variance sum to 1",
    direction="0 is parity",
    chance="above 0 from noise alone; signs of units flipped",
    when_it_lies="only complete sets take part; if filters drop sets by group, what is left is not a fair sample",
)
