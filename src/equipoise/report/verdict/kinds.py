"""Verdicts on what is no audit of one model: datasets, filters, and two audits compared."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd

from equipoise.formatting import amount, count, interval, joined, percent, plural, share
from equipoise.report.findings import axis_name, metric_name, rate_tested
from equipoise.report.sources import Series, compared_models
from equipoise.report.verdict.judging import FILTERS, HOW_SURE, IS_IT, AxisJudgement, BiasVerdict, judge, level_of
from equipoise.report.verdict.outcomes import SIGNED, Conclusion, Reading, adjusted_p, margin_text, noted_p, read_row
from equipoise.report.verdict.repair import shown
from equipoise.report.verdict.sizes import amount_of, reach, rests_on, size_words

_MOST = 3


def worst(readings: Sequence[Reading]) -> Conclusion:
    """The outcome of several rows together: one that leans is enough, and all must be within the margin for nothing."""
    return min((r.outcome for r in readings), key=list(Conclusion).index, default=Conclusion.CANNOT_TELL)


def on_nothing_dropped(names: Sequence[str]) -> BiasVerdict:
    """The verdict on runs of filters that left no number: nothing was dropped, or nothing could be compared."""
    return BiasVerdict(
        f"Whether the filters of {joined(list(names))} drop one group more than another cannot be told: too little was "
        "dropped to test.",
        ["What each of them kept stands below."],
    )


def on_filters(series: Series) -> BiasVerdict:
    """The verdict on a run of filters: which of them drop one group more than another."""
    readings = _filter_readings(series.results)
    outcome = worst(readings)
    uneven = [r for r in readings if r.outcome is Conclusion.LEANS]
    small = [r for r in readings if r.outcome is Conclusion.TOO_SMALL]
    margin = margin_text("filter_bias")
    if uneven:
        sides = [f"{_side(r)} ({size_words(r)}, {r.p_told})" for r in uneven[: 2 * _MOST]]
        verdict = BiasVerdict(
            "Filters are harder on some groups than on others.", [f"{'; '.join(sides)}; p corrected over the run."]
        )
    elif not readings:
        verdict = BiasVerdict(
            f"Whether the filters of {series.label} drop one group more cannot be told: nothing could be tested."
        )
    elif outcome is Conclusion.CANNOT_TELL:
        open_still = max((r for r in readings if r.outcome is outcome), key=lambda r: (r.detected, r.size))
        why = (
            "is beyond chance, but its size is not known well enough" if open_still.detected else reach(open_still, 0.2)
        )
        verdict = BiasVerdict(
            f"Whether a filter of {series.label} drops one group more than another cannot be told.",
            [f"{_side(open_still)}: {why} ({size_words(open_still)}, {open_still.p_told}, margin {margin})."],
        )
    elif small:
        sides = [f"{_side(r)} ({size_words(r)})" for r in small[:_MOST]]
        verdict = BiasVerdict(
            f"The filters of {series.label} are uneven by too little to matter.",
            [f"{'; '.join(sides)}: margin {margin}."],
        )
    else:
        most = max(readings, key=lambda r: r.high or 0.0)
        verdict = BiasVerdict(
            f"No filter of {series.label} drops one group more than another, and one that does would have been found.",
            [f"{plural(len(readings), 'test')}; {reach(most, 0.2)}."],
        )
    verdict.outcome = outcome
    verdict.answers.append((FILTERS, verdict.text))
    return verdict


def _filter_readings(results: pd.DataFrame) -> list[Reading]:
    """Each test of a filter on an axis: the rate of the group that is farthest from even, with the run's p-value."""
    tests = results[(results["metric"] == "filter_bias") & results["p_value"].notna()]
    rates = results[results["metric"].isin(["filter_drop", "filter_fail"])]
    readings = []
    for _, test in tests.iterrows():
        same = rates[(rates["variant"] == test["variant"]) & (rates["axis"] == test["axis"])]
        same = same[(same["group"] == test["group"]) & (same["metric"] == rate_tested(test))]
        row = (same.iloc[0] if len(same) else test).copy()
        row["side"] = test["side"]
        readings.append(read_row(row, float(test["p_value"]), signed=len(same) > 0))
    return sorted(readings, key=lambda r: r.p)


def _side(reading: Reading) -> str:
    """What a filter does to the group that is farthest from even; without a side (older files) the rate says which."""
    row = reading.row
    of_rates = row["metric"] != "filter_bias"
    below = row["side"] == "below" or (pd.isna(row["side"]) and of_rates and row["value"] < row["null_mean"])
    more = "less" if below else "more"
    return f"Filter {row['variant']} takes {row['group']} {more} than is even on {axis_name(row['axis'])}"


def on_comparison(series: Series) -> BiasVerdict:
    """Two audits, paired: which has more, as A - B."""
    first, second = compared_models(series.results) or (series.label, "the other")
    judgements = shown(judge(series, difference=True))
    if not judgements:
        return BiasVerdict(
            f"Whether {first} and {second} differ cannot be told: no paired difference has a chance level."
        )
    top = judgements[0]
    leads = {
        Conclusion.LEANS: f"{first} and {second} differ.",
        Conclusion.TOO_SMALL: f"{first} and {second} differ by too little to matter.",
        Conclusion.NOTHING: f"{first} and {second} do not differ, and a difference that matters would have been found.",
        Conclusion.CANNOT_TELL: f"Whether {first} and {second} differ by as much as matters cannot be told.",
    }
    verdict = BiasVerdict(leads[top.outcome], outcome=top.outcome)
    verdict.sentences += [_difference(j, first, second) for j in judgements[:_MOST]]
    verdict.sentences += _seen(series, (first, second))
    verdict.answers.append((IS_IT, "A comparison does not say: each model's own audit does."))
    verdict.answers.append((HOW_SURE, f"A - B. {'; '.join(rests_on(j) for j in judgements)}."))
    return verdict


def _seen(series: Series, names: Sequence[str]) -> list[str]:
    """A sentence for each of the two models that has learnt from subjects on which they are compared."""
    seen = series.source.settings.get("seen")
    if not isinstance(seen, list) or len(seen) != len(names):
        return []
    return [
        f"{name} has learnt from {counts[0]} of {counts[1]} subjects, which flatters it."
        for name, counts in zip(names, seen, strict=True)
        if isinstance(counts, list) and len(counts) == 2
    ]


def _difference(judgement: AxisJudgement, first: str, second: str) -> str:
    """One difference with all its numbers, its margin among them, in the unit of the metric itself."""
    row, reading = judgement.rests_on.row, judgement.rests_on
    name, chance = metric_name(reading.metric, row["k"]), float(row["null_mean"])
    digits = 3 if reading.margin is not None and reading.margin < 0.05 else 2
    more, less = (first, second) if row["value"] > chance else (second, first)
    span = ""
    if reading.low is not None:
        span = f" ({percent(judgement.level)} interval {interval(row['ci_low'], row['ci_high'], digits)})"
    by_luck = f" where chance gives {amount(chance, digits)}" if float(f"{chance:.{digits}f}") else ""
    numbers = f"{first} - {second} is {amount(row['value'], digits)}{span}{by_luck}, {reading.p_told}"
    if judgement.outcome is Conclusion.LEANS and reading.metric in SIGNED:  # below 0 may be as far from chance as above
        return f"On {judgement.about}, {first} and {second} differ in {name}: {numbers}."
    if judgement.outcome is Conclusion.LEANS:
        beyond = " beyond chance" if by_luck else ""
        return f"On {judgement.about}, {more} has more {name} than {less}{beyond}: {numbers}."
    margin = "none is stated" if reading.margin is None else f"{reading.margin:.2g}"
    ending = {
        Conclusion.TOO_SMALL: f"inside the margin ({margin})",
        Conclusion.NOTHING: f"inside the margin ({margin})",
        Conclusion.CANNOT_TELL: f"which leaves open whether it is more than the margin ({margin})",
    }[judgement.outcome]
    return f"On {judgement.about}, {name}: {numbers}, {ending}."


def dataset_readings(results: pd.DataFrame) -> list[Reading]:
    """Every number about a dataset as a whole, held against its margin under one correction.

    A row that says its corrected p-value is judged by that, so that all who read it say the same.
    """
    every = results[results["subject"].isna() & results["p_value"].notna()]
    every = every[every["null_mean"].notna() & every["value"].notna()]
    of_groups = every["metric"] == "group_share"
    content = every["metric"].astype(str).str.endswith("_distance") & every["group"].isna()
    other = every["metric"].isin(["group_evenness", "attribute_auc"]) & every["group"].isna()
    rows = every[of_groups | content | other].reset_index(drop=True)
    readings = []
    for (_, row), ps in zip(rows.iterrows(), adjusted_p(rows), strict=True):
        known = noted_p(row)
        p, counted = ps if known is None else (known, known)
        readings.append(read_row(row, p, counted=counted, signed=row["metric"] == "group_share"))
    return readings


def _first_told(readings: Sequence[Reading]) -> list[Reading]:
    """What the verdict on a dataset tells: whatever leans, the largest first, or what its outcome rests on."""
    leaning = sorted((r for r in readings if r.outcome is Conclusion.LEANS), key=lambda r: -r.size)
    if leaning:
        return [r for r in leaning if not _counterpart(r, leaning)]
    same = [r for r in readings if r.outcome is worst(readings)]
    return [max(same, key=lambda r: (r.detected, r.size / (r.margin or 1.0)))] if same else []


def dataset_rows(series: Series) -> pd.DataFrame:
    """The rows of the number that the verdict on a dataset rests on: of shares those of all groups of its axis."""
    told = _first_told(readings := dataset_readings(series.results))
    if not told:
        return pd.DataFrame()
    same = [r.row for r in readings if r.metric == told[0].metric]
    return pd.DataFrame([row for row in same if row["axis"] == told[0].row["axis"] or pd.isna(row["group"])])


def on_dataset(series: Series) -> BiasVerdict:
    """The verdict on a dataset: where it is lopsided."""
    readings = dataset_readings(series.results)
    if not readings:
        return BiasVerdict(f"Whether {series.label} is lopsided cannot be told: no count of it has a chance level.")
    outcome = worst(readings)
    leaning = [r for r in readings if r.outcome is Conclusion.LEANS]
    told, label = _first_told(readings), series.label
    leads = {
        Conclusion.LEANS: f"{label} is lopsided.",
        Conclusion.TOO_SMALL: f"{label} is lopsided by too little to matter.",
        Conclusion.NOTHING: f"Nothing in {label} is lopsided, of what was looked at, and what matters would have been.",
        Conclusion.CANNOT_TELL: f"Whether {label} is lopsided cannot be told from these counts.",
    }
    verdict = BiasVerdict(leads[outcome], outcome=outcome)
    if leaning:
        verdict.sentences += [_dataset_sentence(r, level_of(series)) for r in told][: _MOST + 1]
    else:
        verdict.sentences.append(_dataset_why(told[0], outcome))
    ordered = sorted(leaning, key=lambda r: -r.size)
    kinds = joined(list(dict.fromkeys(metric_name(r.metric) for r in ordered)))
    verdict.answers.append(
        (IS_IT, f"Lopsided in {kinds}." if leaning else f"{outcome.value[:1].upper()}{outcome.value[1:]}.")
    )
    verdict.answers.append(_how_sure(readings))
    return verdict


def _how_sure(readings: Sequence[Reading]) -> tuple[str, str]:
    looked = f"{plural(len(readings), 'number')} looked at, with one correction (Holm)"
    return HOW_SURE, f"{looked}; smallest p after it: {min(readings, key=lambda r: r.p).p_told}."


_ARTEFACT = "artefact_delta"
"""Whether predictions move when pictures are drawn on: no lean, but a doubt about numbers on such pictures."""
_OF_CLASSIFIERS = ("leakage_amplification", "object_recall_gap", _ARTEFACT)
"""Not amplification over sets: it also grows when an object is predicted too often for all groups alike."""


def on_classifiers(every: Sequence[Series]) -> BiasVerdict:
    """The verdict on predictions of classifiers: what is beyond chance, and how large; one correction for each."""
    whole, *others = [_on_classifier(series) for series in every]
    whole.sentences += [verdict.text for verdict in others]
    return whole


def _on_classifier(series: Series) -> BiasVerdict:
    rows = series.results
    on_masked = (rows["metric"] == "ratio") & (rows["variant"] == "folded")
    rows = rows[rows["metric"].isin(_OF_CLASSIFIERS) | on_masked]
    rows = rows[rows["p_value"].notna() & rows["null_mean"].notna()].reset_index(drop=True)
    if rows.empty:
        return BiasVerdict(f"Whether {series.label} leans cannot be told: none of its numbers has a chance level.")
    readings = [
        read_row(row, p, counted=counted)
        for (_, row), (p, counted) in zip(rows.iterrows(), adjusted_p(rows), strict=True)
    ]
    of_lean = [r for r in readings if r.metric != _ARTEFACT]
    outcome = worst(of_lean)
    leaning = [r for r in of_lean if r.outcome is Conclusion.LEANS]
    leads = {
        Conclusion.LEANS: f"The predictions of {series.label} lean.",
        Conclusion.TOO_SMALL: f"The predictions of {series.label} lean by too little to matter.",
        Conclusion.NOTHING: f"The predictions of {series.label} do not lean; what matters would have been found.",
        Conclusion.CANNOT_TELL: f"Whether the predictions of {series.label} lean cannot be told.",
    }
    verdict = BiasVerdict(leads[outcome], outcome=outcome)
    for r in leaning[: 2 * _MOST]:
        name, axis = metric_name(r.metric), axis_name(r.row["axis"])
        verdict.sentences.append(f"Its {name} on {axis} is {size_words(r)} more than chance ({r.p_told}).")
    if of_lean and not leaning:
        same = [r for r in of_lean if r.outcome is outcome]
        verdict.sentences.append(_dataset_why(max(same, key=lambda r: (r.detected, -r.p)), outcome))
    for r in readings:
        if r.metric == _ARTEFACT and r.outcome is Conclusion.LEANS:
            verdict.sentences.append(
                f"Its predictions move when pictures are drawn on: {metric_name(r.metric)} on "
                f"{axis_name(r.row['axis'])} is {size_words(r)} more than chance ({r.p_told})."
            )
    verdict.answers.append(_how_sure(readings))
    return verdict


def _counterpart(reading: Reading, every: Sequence[Reading]) -> bool:
    """Whether a share below even only mirrors another above it: of the groups of an axis the large ones are told."""
    row = reading.row
    if reading.metric == "group_evenness":
        return any(r.metric == "group_share" and r.row["axis"] == row["axis"] for r in every)
    if reading.metric != "group_share" or row["value"] > row["null_mean"]:
        return False
    return any(r.metric == "group_share" and r.row["axis"] == row["axis"] and r.row["excess"] > 0 for r in every)


def _without_label(row: pd.Series) -> int:
    """How many images have no group on the axis of a row."""
    dropped = json.loads(row["dropped"]) if isinstance(row.get("dropped"), str) else {}
    return int(dropped.get("undefined group", 0))


def _dataset_sentence(reading: Reading, level: float) -> str:
    row = reading.row
    if reading.metric == "group_share":
        span = ""
        if reading.low is not None:
            span = f", {percent(level)} interval {share(row['ci_low'])} to {share(row['ci_high'])}"
        n, without = int(row["n"]), _without_label(row)
        of = "images with a label" if without else "images"
        none = f"; {count(without)} of {count(n + without)} images have no label" if without else ""
        return (
            f"On {axis_name(row['axis'])}, {row['group']} has {share(row['value'])} of the {of} where "
            f"{share(row['null_mean'])} would be even ({count(round(n * row['value']))} of {count(n)}{span}, "
            f"{reading.p_told}{none})."
        )
    if reading.metric.endswith("_distance"):
        what = reading.metric.removesuffix("_distance").replace("_", " ")
        return (
            f"The {what}s lean to groups of {axis_name(row['axis'])}, by {size_words(reading)} more than chance "
            f"({reading.p_told}, {plural(row['n'], 'item')})."
        )
    return (
        f"{metric_name(reading.metric)[:1].upper()}{metric_name(reading.metric)[1:]} on {axis_name(row['axis'])} is "
        f"{size_words(reading)} from chance ({reading.p_told})."
    )


def _dataset_why(reading: Reading, outcome: Conclusion) -> str:
    row = reading.row
    what = f"share of {row['group']}" if reading.metric == "group_share" else metric_name(reading.metric)
    on = f"The {what} on {axis_name(row['axis'])}"
    if outcome is Conclusion.TOO_SMALL:
        margin = margin_text(reading.metric, n_groups=reading.n_groups)
        return f"{on} is beyond chance, by {size_words(reading)}: inside the margin of {margin}."
    if reading.detected:
        size = amount_of(reading.size, reading.metric)
        return f"{on} is beyond chance ({reading.p_told}), but its size, {size}, is not known well enough."
    return f"{on} is within chance (adjusted {reading.p_told}): {reach(reading, 0.2)}."
