"""Verdicts on what is no audit of one model: captions, datasets, and two audits compared."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from equipoise.report.findings import LEVEL, axis_name, main_metric, main_rows, metric_name, perceived
from equipoise.report.judging import CAPTIONS, FILTERS, HOW_SURE, IS_IT, Verdict, adjusted, beyond_chance
from equipoise.report.numbers import amount, count, excess_interval, interval, joined, p_text, share, signed
from equipoise.report.sources import Series
from equipoise.report.truth import Recovered

__all__ = ["add_captions", "on_captions", "on_comparison", "on_dataset", "on_filters"]


def on_filters(one: Series) -> Verdict:
    """The verdict on a run of filters: which of them drop one group more than another."""
    rows = one.results[(one.results["metric"] == "filter_bias") & one.results["p_value"].notna()]
    uneven = rows[rows["p_value"] < LEVEL].drop_duplicates(["variant", "axis"])
    if uneven.empty:
        tested = f"{len(rows)} tests, all with p of 0.05 or more" if len(rows) else "nothing could be tested"
        made = Verdict(f"No filter of {one.label} clearly drops one group more than another ({tested}).")
    else:
        parts = [
            f"{row['variant']} takes {row['group']} {_side(row)} than is even on {axis_name(row['axis'])} "
            f"({p_text(row['p_value'])})"
            for _, row in uneven.iterrows()
        ]
        made = Verdict(
            "Filters are harder on some groups than on others.", [f"{'; '.join(parts)}; p corrected over the run."]
        )
    made.answers.append((FILTERS, made.text))
    return made


def _side(row: pd.Series) -> str:
    """Whether the group that a filter's test names goes more or less than is even; the row's note says it."""
    return "less" if "is below what is even" in str(row["notes"]) else "more"


def on_comparison(one: Series) -> Verdict:
    """Two audits, paired: which has more."""
    metric = main_metric([one])
    rows = adjusted(main_rows(one, metric)) if metric is not None else pd.DataFrame()
    first, _, second = one.label.partition(" - ")
    clear = rows[rows["p_holm"] < LEVEL] if len(rows) else rows
    if clear.empty:
        return Verdict(f"{first} and {second} do not clearly differ.", ["The paired differences are below."])
    made = Verdict(f"{first} and {second} differ.")
    for _, row in clear.iterrows():
        more, less = (first, second) if row["value"] > 0 else (second, first)
        span = excess_interval(row)
        made.sentences.append(
            f"On {row['about']}, {more} has more {metric_name(str(row['metric']), row['k'])} than {less}: "
            f"paired difference {signed(abs(row['value']))}, {p_text(row['p_holm'])}, {count(row['n'])} subjects"
            + (f" (A - B: 95% interval {span})." if span else ".")
        )
    made.answers.append((IS_IT, "A comparison does not say: each model's own audit does."))
    return made


def _lic_row(one: Series) -> pd.Series | None:
    for metric in ("lic", "lic_m"):
        rows = main_rows(one, metric)
        if len(rows):
            return rows.iloc[0]
    return None


def _gives_away(one: Series) -> bool:
    row = _lic_row(one)
    return row is not None and bool(beyond_chance(pd.DataFrame([row]).assign(p_holm=row["p_value"])).iloc[0])


def _caption_sentence(one: Series) -> str:
    row = _lic_row(one)
    if row is None:
        return f"The captions of {one.label} have no LIC, so their bias is not judged."
    group = perceived(row["axis"])
    span = "" if pd.isna(row["ci_low"]) else f", 95% interval {interval(row['ci_low'], row['ci_high'], 1)}"
    numbers = f"(LIC {amount(row['value'], 1)}{span}, {p_text(row['p_value'])}, {count(row['n'])} captions)"
    sure = _gives_away(one)
    if row["metric"] == "lic":
        than = "more than the captions they are held against do"
    else:
        than = "beyond chance"
    verb = "give" if sure else "do not clearly give"
    return f"The captions of {one.label} {verb} away perceived {group} {than} {numbers}."


def _named_sentence(one: Series, found: Recovered) -> str:
    """How often captions name the wrong group, and whether whom they name follows what was put in."""
    errors = one.results[(one.results["metric"] == "error") & one.results["subject"].isna()]
    rate = (
        f"{share(errors['value'].iloc[0], 1)} of the captions of {one.label} name the wrong group. "
        if len(errors)
        else ""
    )
    r, span = found.correlation, found.interval
    if r is None or span is None:
        return rate
    numbers = f"(correlation {amount(r)}, 95% interval {interval(*span)})"
    if span[0] > 0:
        return f"{rate}Whom they name too often follows what was put in {numbers}."
    return f"{rate}Whom they name too often does not clearly follow what was put in {numbers}."


def add_captions(made: Verdict, captions: Sequence[Series], truths: Sequence[Recovered] = ()) -> None:
    """Add one sentence on all captioning models, and the numbers of each as an answer."""
    if not captions:
        return
    if len(captions) == 1:
        made.sentences.append(_caption_sentence(captions[0]))
        return
    known = {one.label: one for one in truths}
    if any(one.label in known for one in captions):
        told = [_named_sentence(one, known[one.label]) for one in captions if one.label in known]
        made.answers.append((CAPTIONS, " ".join([*told, *(_caption_sentence(one) for one in captions)])))
        return
    telling = [one.label for one in captions if _gives_away(one)]
    whom = f"{joined(telling)} do" if telling else "none clearly does"
    made.sentences.append(
        f"Of {len(captions)} captioning models whose words were tested for giving the group away, {whom} so beyond "
        "what they should."
    )
    made.answers.append((CAPTIONS, " ".join(_caption_sentence(one) for one in captions)))


def on_captions(captions: Sequence[Series]) -> Verdict:
    """The verdict on captioning models alone."""
    rows = [(one, row) for one in captions if (row := _lic_row(one)) is not None]
    if not rows:
        return Verdict("These captions have no LIC, so their bias is not judged.")
    sure = [one.label for one in captions if _gives_away(one)]
    axis = perceived(rows[0][1]["axis"])
    if sure:
        lead = f"The captions of {joined(sure)} amplify bias by perceived {axis}."
        answer = f"Yes, for {len(sure)} of {len(rows)} models: {joined(sure)}."
    else:
        lead = f"No model's captions clearly give away perceived {axis} more than they should."
        answer = f"Not that this test can tell, for {len(rows)} models."
    about = (
        f"With the words that name a group masked, a classifier still guesses perceived {axis} from what else the "
        "captions say; LIC is how much better it does so than with reference captions of the same images, in points."
    )
    made = Verdict(lead, [about, *(_caption_sentence(one) for one in captions)], [(IS_IT, answer)])
    told = [f"{one.label} {p_text(row['p_value'])}" for one, row in rows]
    made.answers.append((HOW_SURE, f"Each model alone, over repeated splits and shuffled labels: {joined(told)}."))
    return made


def on_dataset(one: Series) -> Verdict:
    """The verdict on a dataset: where it is lopsided."""
    every = one.results[one.results["subject"].isna()]
    shares = every[(every["metric"] == "group_share") & every["p_value"].notna()]
    distances = every[every["metric"].astype(str).str.endswith("_distance") & every["p_value"].notna()]
    uneven = shares[(shares["p_value"] < LEVEL) & (shares["excess"] > 0)]
    leaning = adjusted(distances)
    leaning = leaning[(leaning["p_holm"] < LEVEL) & (leaning["excess"] > 0)]
    if uneven.empty and leaning.empty:
        made = Verdict(f"Nothing in {one.label} is lopsided beyond chance, in what was looked at.")
        made.answers.append((IS_IT, "Not that these counts can tell."))
        return made
    made = Verdict(f"{one.label} is lopsided.")
    for _, row in uneven.iterrows():
        made.sentences.append(
            f"On {axis_name(row['axis'])}, {row['group']} has {share(row['value'])} of the images where "
            f"{share(row['null_mean'])} would be even ({p_text(row['p_value'])}, {count(row['n'])} images)."
        )
    for _, row in leaning.iterrows():
        made.sentences.append(
            f"The {str(row['metric']).removesuffix('_distance')}s lean to groups of {axis_name(row['axis'])} "
            f"(excess {signed(row['excess'])}, {p_text(row['p_holm'])}, {count(row['n'])} items)."
        )
    made.answers.append((IS_IT, f"Yes, {len(uneven)} group shares and {len(leaning)} kinds of content are off."))
    return made
