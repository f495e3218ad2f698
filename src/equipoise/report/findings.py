"""The rows of a results table that a report is built on: one main metric, its axes, and what each subject shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from equipoise.formatting import after_perceived
from equipoise.measure import METRICS
from equipoise.measure.notes import ResultRow, corrected_p, facts_of, pair_of
from equipoise.report.sources import Series

OF_RETRIEVAL = frozenset(
    "max_skew min_skew ndkl absent_groups exposure_gap exposure_ratio infeasible_index infeasible_count bias_at_k "
    "abs_bias_at_k counterfactual_gap counterfactual_gap_size counterfactual_effect standard_gap standard_gap_size "
    "outranks".split()
)
"""The metrics of whom a model shows first: an excess over chance may be called bias."""
BETWEEN_GROUPS = (
    "recall_gap zero_shot_accuracy_gap person_preference_gap self_similarity_gap negative_association_gap "
    "closest_kind_gap resolution_gap binding_drop presence_drop text_encoder_bias"
).split()
"""The metrics of how a model treats the groups; of these the page says what differs."""
PAIRED = frozenset("counterfactual_gap counterfactual_gap_size standard_gap standard_gap_size outranks".split())
"""The metrics with a row for each pair of groups."""

LEVEL = 0.05
_SAYS_NOTHING = frozenset({"who", "whom", "group", "groups", "label", "labels"})
PROMPTS = "prompts"
"""The suite of one's own prompts."""
_KIND_OF_PROMPTS = re.compile(rf" \| {PROMPTS}=(.+)$")
"""How an axis names the kind of prompts that its rows are over."""
WITHOUT_SUBJECTS = frozenset({PROMPTS, "faces"})
"""The suites that ask about no subject: what their rows are about is a prompt."""


_Asked = ParamSpec("_Asked")


def _chosen_once(
    choose: Callable[Concatenate[Series, _Asked], pd.DataFrame],
) -> Callable[Concatenate[Series, _Asked], pd.DataFrame]:
    """``choose``, which a page asks for the same rows in a dozen places, looking for them once per series."""
    kept: WeakKeyDictionary[Series, dict[Hashable, pd.DataFrame]] = WeakKeyDictionary()

    @wraps(choose)
    def rows(series: Series, /, *arguments: _Asked.args, **named: _Asked.kwargs) -> pd.DataFrame:
        of_series = kept.setdefault(series, {})
        asked = (arguments, tuple(named.items()))
        if asked not in of_series:
            of_series[asked] = choose(series, *arguments, **named)
        return of_series[asked].copy(deep=False)  # whoever changes it changes nobody else's

    return rows


def is_of_prompts(series: Series) -> bool:
    """Whether the numbers are those of one's own prompts."""
    return set(series.results["suite"].dropna().astype(str)) == {PROMPTS}


def metric_name(metric: str, k: object = None) -> str:
    """A metric as prose calls it.

    >>> metric_name("max_skew", 12), metric_name("exposure_gap")
    ('MaxSkew@12', 'exposure gap')
    """
    name = METRICS.find(metric).title
    return name if k is None or pd.isna(k) else f"{name}@{int(k)}"  # type: ignore[call-overload]


def axis_name(axis: object) -> str:
    """An axis, or several together, as prose calls them.

    >>> axis_name("gender x skin_tone"), axis_name("age | prompts=crime"), axis_name(None)
    ('gender × skin tone', 'age among crime prompts', 'all')
    """
    if axis is None or pd.isna(axis):  # type: ignore[call-overload]
        return "all"
    told = _KIND_OF_PROMPTS.sub(r" among \1 prompts", str(axis))
    return told.replace(" x ", " × ").replace(" | ", " among ").replace("_", " ")


def perceived(axis: object) -> str:
    """What follows "perceived": an axis in prose, or "group" where a number names no axis.

    A column whose name says no more than that it holds groups ("who") is called "group" as well.

    >>> perceived("skin_tone"), perceived("perceived_gender"), perceived(None), perceived("who")
    ('skin tone', 'gender', 'group', 'group')
    """
    if pd.isna(axis) or str(axis).lower() in _SAYS_NOTHING:  # type: ignore[call-overload]
        return "group"
    return after_perceived(axis_name(axis))


def main_metric(series: Sequence[Series]) -> str | None:
    """The metric that most of the series can be judged by; ``None`` where no row has a chance level."""
    metrics = [set(_whole(each.results)["metric"]) for each in series]
    places = {str(metric): METRICS.find(metric).main for some in metrics for metric in some}
    wanted = {metric: place for metric, place in places.items() if place is not None}
    if wanted:
        metric = max(wanted, key=lambda m: (sum(m in some for some in metrics), -wanted[m]))
        # of several ways to treat groups differently, the one that the verdict tells
        alike = [m for m in BETWEEN_GROUPS if m in places and sum(m in some for some in metrics) == len(metrics)]
        return alike[0] if metric in alike else metric
    rows = [_whole(each.results)["metric"] for each in series]
    counts = pd.concat(rows).value_counts() if rows else pd.Series(dtype=int)
    return None if counts.empty else str(counts.index[0])


@_chosen_once
def main_rows(series: Series, metric: str) -> pd.DataFrame:
    """The suite-level rows of ``metric``: one per axis, pool and pair, of the first definition and the first K.

    The column ``about`` says in prose what each is about: its axis, and its pair of groups where the axis has several.
    """
    rows = _whole(series.results)
    rows = rows[rows["metric"] == metric]
    variants = rows["variant"].dropna().unique()
    if len(variants) > 1:
        first = "equipoise" if "equipoise" in variants else variants[0]
        rows = rows[rows["variant"] == first]
    rows = rows.drop_duplicates(["axis", "pool", "group"]).reset_index(drop=True)
    pairs = rows.groupby("axis", dropna=False)["group"].transform("nunique") if len(rows) else rows["n"]
    return rows.assign(about=[_about(*row) for row in zip(rows["axis"], rows["group"], pairs, strict=True)])


def _about(axis: object, group: object, pairs: int) -> str:
    """What a row is about, as prose calls it.

    >>> _about("skin_tone", "dark - light", 3), _about("gender", "female - male", 1)
    ('skin tone between dark and light', 'gender')
    """
    return perceived(axis) if pairs < 2 else f"{perceived(axis)} between {str(group).replace(' - ', ' and ')}"


def _whole(results: pd.DataFrame) -> pd.DataFrame:
    """The judged rows that are about an axis as a whole, not about one of its groups."""
    rows = _judged(results)
    return rows[rows["group"].isna() | rows["metric"].isin(("counterfactual_gap_size", "standard_gap_size"))]


def is_placebo(axis: object) -> bool:
    """Whether an axis is one that nobody calls a group: a bag, a mirror image.

    >>> is_placebo("placebo_bag"), is_placebo("gender")
    (True, False)
    """
    return str(axis).startswith("placebo_")


def of_placebo(row: ResultRow) -> bool:
    """Whether a row is about an axis that nobody calls a group: by its name, or as its audit says (``--placebo``).

    >>> of_placebo({"axis": "bag", "codes": '{"placebo_axis": {}}'}), of_placebo({"axis": "bag", "codes": None})
    (True, False)
    """
    return is_placebo(row.get("axis")) or facts_of(row, "placebo_axis") is not None


@_chosen_once
def bias_rows(series: Series) -> pd.DataFrame:
    """Every suite-level row that could show a bias: all axes, metrics, K and pools, of the corrected definition.

    The column ``about`` says in prose what each is about, as in :func:`main_rows`. A folder without a known metric
    gives the rows of the one that it has most.
    """
    rows = _judged(series.results)
    named = set(series.source.asked.get("placebos") or ())  # older rows have no code
    usual = [not of_placebo(row) and row["axis"] not in named for row in rows.to_dict("records")]
    rows = rows[np.array(usual, dtype=bool)]
    rows = rows[rows["group"].isna() | rows["metric"].isin(PAIRED)]
    known = rows[rows["metric"].isin([*OF_RETRIEVAL, *BETWEEN_GROUPS])]
    rows = known if len(known) else rows[rows["metric"] == main_metric([series])]
    ours = rows.groupby("metric")["variant"].transform(lambda some: "equipoise" in set(some.dropna()))
    rows = rows[~ours.astype(bool) | (rows["variant"] == "equipoise")] if len(rows) else rows
    rows = rows.drop_duplicates(["metric", "variant", "axis", "pool", "group", "k"]).reset_index(drop=True)
    pairs = rows.groupby(["metric", "axis"], dropna=False)["group"].transform("nunique") if len(rows) else rows["n"]
    return rows.assign(about=[_about(*row) for row in zip(rows["axis"], rows["group"], pairs, strict=True)])


def _judged(results: pd.DataFrame) -> pd.DataFrame:
    rows = results[results["subject"].isna() & results["null_mean"].notna() & results["p_value"].notna()]
    return rows[np.isfinite(rows["value"].astype(float)) & np.isfinite(rows["null_mean"].astype(float))]


@_chosen_once
def subject_rows(series: Series, metric: str) -> pd.DataFrame:
    """The rows of ``metric`` for single subjects, of the same definition and K as :func:`main_rows`.

    ``p_holm`` is the p-value of a single prompt, corrected over the prompts of its metric, and ``p_shown`` the one to
    judge a row by: that, or where nothing was corrected the row's own.
    """
    rows = series.results[(series.results["metric"] == metric) & series.results["subject"].notna()]
    rows = rows[rows["value"].notna() & np.isfinite(rows["value"].astype(float))]
    if "equipoise" in set(rows["variant"].dropna()):
        rows = rows[rows["variant"] == "equipoise"]
    rows = rows.drop_duplicates(["subject", "axis", "group", "pool"]).reset_index(drop=True)
    corrected = pd.Series([corrected_p({"codes": codes}) for codes in rows["codes"]], index=rows.index, dtype=float)
    return rows.assign(p_holm=corrected, p_shown=corrected.fillna(rows["p_value"].astype(float)))


def corrected_column(rows: pd.DataFrame) -> list[str]:
    """The column of corrected p-values, for data in which some are."""
    return ["p_holm"] if rows["p_holm"].notna().any() else []


def told_of_p(rows: pd.DataFrame) -> str:
    """What the p-values of these rows of single subjects are corrected for.

    >>> told_of_p(pd.DataFrame({"p_holm": [0.1, 0.2]})), told_of_p(pd.DataFrame({"p_holm": [None, 0.2]}))
    ('corrected over the prompts (Holm)', 'for this subject alone; of prompts, corrected over the prompts (Holm)')
    """
    known = rows["p_holm"].notna()
    if not known.any():
        return "for this subject alone"
    return ("" if known.all() else "for this subject alone; of prompts, ") + "corrected over the prompts (Holm)"


@dataclass(frozen=True)
class Lean:
    """Whom a model prefers for one subject: the groups at the two ends of its score, and how sure that is."""

    subject: str
    axis: str
    towards: str
    against: str
    size: float
    p_value: float

    @property
    def sure(self) -> bool:
        """Whether it is more than chance explains, for this subject alone, at 5%."""
        return self.p_value < LEVEL


def leans(series: Series) -> list[Lean]:
    """Whom each subject's pictures favour on each axis, from the score gaps inside counterfactual sets.

    A group's score is the mean of its gaps to the other groups; the p-value is the smallest of the pairs in which the
    last group has the lower score, times the number of all pairs: it is about the group that is said to lose.
    """
    rows = subject_rows(series, "counterfactual_gap")
    named = rows.loc[rows["axis"].notna(), ["axis", "subject", "group", "codes", "value", "p_value"]]
    of_subject: dict[tuple[str, str], list[dict[Hashable, Any]]] = {}
    for row in named.to_dict("records"):
        of_subject.setdefault((str(row["axis"]), str(row["subject"])), []).append(row)
    every = []
    for (axis, subject), some in sorted(of_subject.items(), key=lambda item: item[0]):
        scores: dict[str, list[float]] = {}
        p_of_lower: dict[str, list[float]] = {}
        for row in some:
            first, second = pair_of(row) or (str(row["group"]), "")
            if pd.notna(row["p_value"]):
                p_of_lower.setdefault(second if row["value"] > 0 else first, []).append(float(row["p_value"]))
            scores.setdefault(first, []).append(float(row["value"]))
            scores.setdefault(second, []).append(-float(row["value"]))
        means = {group: sum(values) / len(values) for group, values in scores.items()}
        top, bottom = max(means, key=lambda g: means[g]), min(means, key=lambda g: means[g])
        p = min(p_of_lower.get(bottom, [1.0]))
        every.append(Lean(subject, axis, top, bottom, means[top] - means[bottom], min(1.0, p * len(some))))
    return every


def rate_tested(test: ResultRow) -> str:
    """The metric whose rates a row of ``filter_bias`` tests: of images that failed themselves, or of those dropped."""
    facts = facts_of(test, "filter_test")
    return "filter_drop" if facts is None else f"filter_{facts['what']}"
