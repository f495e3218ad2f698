"""The verdict in plain words: is it biased, how sure are we, against whom, was the truth found, did the repair work."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from equipoise.report.findings import LEVEL, MORE_IS_BIAS, Lean, axis_name, leans, main_rows, metric_name, perceived
from equipoise.report.judging import (
    AGAINST,
    ELSEWHERE,
    HOW_SURE,
    IS_IT,
    NAIVE,
    PUT_IN,
    Verdict,
    adjusted,
    beyond_chance,
)
from equipoise.report.naive import Naive
from equipoise.report.numbers import amount, count, excess_interval, factor, interval, joined, p_text, signed
from equipoise.report.sources import Series
from equipoise.report.truth import Recovered
from equipoise.report.verdict_kinds import add_captions, on_captions, on_comparison, on_dataset, on_filters
from equipoise.report.verdict_repair import Repair, add_repair

__all__ = ["Repair", "Verdict", "verdict"]

_FEW = 3
SURE = 0.01
"""Below this adjusted p-value the page says sure; up to 0.05 it says fairly sure."""


def verdict(
    audits: Sequence[Series],
    metric: str | None,
    *,
    repair: Repair | None = None,
    truths: Sequence[Recovered] = (),
    captions: Sequence[Series] = (),
    datasets: Sequence[Series] = (),
    comparisons: Sequence[Series] = (),
    filters: Sequence[Series] = (),
    naive: Sequence[Naive] = (),
) -> Verdict:
    """The verdict on the first audit, with the others, the captions and the datasets beside it.

    The paragraph says the five things that people ask: is it biased, how sure is that, against whom, what was put in,
    did the repair work. What else there is stands in the answers below it.
    """
    asked = [one for one in audits if repair is None or one is not repair.after]
    if asked and metric is not None:
        made = _on_audit(asked[0], metric)
        pools = _pools(asked[0])
        if truths:
            _add_truth(made, truths, asked[0].label)
        if repair is not None:
            add_repair(made, repair)
        for other in asked[1:]:
            if _pools(other) == pools:
                made.sentences.append(_beside(other, metric, asked[0]) + _not_put_in(other, truths))
        elsewhere = [other for other in asked[1:] if _pools(other) != pools]
        if elsewhere:
            made.answers.append((ELSEWHERE, " ".join(_beside(other, metric) for other in elsewhere)))
        _add_naive(made, naive)
        add_captions(made, captions, truths)
        made.answers += [answer for one in filters for answer in on_filters(one).answers]
        return made
    if comparisons:
        return on_comparison(comparisons[0])
    if captions:
        return on_captions(captions)
    if datasets:
        return on_dataset(datasets[0])
    if filters:
        return on_filters(filters[0])
    return Verdict(
        "These results hold no number with a chance level, so nothing can be said about bias.",
        ["The numbers themselves are in the tables below."],
    )


def _pools(one: Series) -> set[str]:
    return {str(pool) for pool in one.results["pool"].dropna().unique()}


def _add_naive(made: Verdict, naive: Sequence[Naive]) -> None:
    """What a number without a chance level would have said, where it would have misled."""
    if not naive:
        return
    mine = [one for one in naive if one.row["about"] == naive[0].row["about"]]
    pool = mine[0].row["null_mean"]
    told = (
        f"On a natural, lopsided pool, against even shares and without a chance level, {mine[0].row['about']} comes "
        f"to {joined([one.told for one in mine])}."
    )
    if pd.notna(pool):
        told += (
            f" But {amount(pool)} is what this pool gives a model that is blind to the groups: the number mixes the "
            "model's bias with the pool's."
        )
    made.answers.append((NAIVE, told))


def _on_audit(one: Series, metric: str) -> Verdict:
    rows = adjusted(main_rows(one, metric))
    beyond = rows[beyond_chance(rows)]
    single = beyond[~beyond["axis"].astype(str).str.contains(" x ")]
    if beyond.empty:
        worst = rows.sort_values("excess", kind="stable").iloc[-1]
        made = Verdict(_nothing_found(one, metric))
        made.sentences.append(_size_sentence(worst, found=False))
        made.answers.append((IS_IT, "Not that this test can tell: nothing is beyond chance."))
        made.answers.append((HOW_SURE, _not_ruled_out(worst)))
        return made
    telling = (single if len(single) else beyond).sort_values("excess", ascending=False)
    axes = list(dict.fromkeys(perceived(axis) for axis in telling["axis"]))
    top = telling.iloc[0]
    if metric in MORE_IS_BIAS:
        made = Verdict(f"{one.label} is biased by perceived {joined(axes)}.")
        made.answers.append((IS_IT, _yes(rows, beyond, axes)))
    else:
        made = Verdict(f"{metric_name(metric).capitalize()} of {one.label} is beyond chance on {joined(axes)}.")
        made.answers.append((IS_IT, f"{metric_name(metric).capitalize()} alone does not say; see what it means below."))
    short, long = _against(one, str(top["axis"]))
    sure = [lean.subject for lean in leans(one) if lean.axis == str(top["axis"]) and lean.sure]
    made.sentences.append(_size_sentence(top, found=True, example=sure[0] if sure else ""))
    made.answers.append((HOW_SURE, _how_sure(telling)))
    if short:
        made.sentences.append(short)
        made.answers.append((AGAINST, long))
    return made


def _nothing_found(one: Series, metric: str) -> str:
    if metric in MORE_IS_BIAS:
        return f"No bias beyond chance was found in {one.label}."
    return f"{metric_name(metric).capitalize()} of {one.label} is within chance."


def _yes(rows: pd.DataFrame, beyond: pd.DataFrame, axes: list[str]) -> str:
    told = f"Yes, by perceived {joined(axes)}: more than chance explains."
    others = [
        row for _, row in rows.iterrows() if " x " not in str(row["axis"]) and row["axis"] not in set(beyond["axis"])
    ]
    quiet = [row["about"] for row in others if row["p_holm"] >= LEVEL or row["excess"] <= 0]
    weak = [row for row in others if row["p_holm"] < LEVEL and row["excess"] > 0]
    told += "".join(
        f" On {row['about']} the evidence is weak: {p_text(row['p_holm'])}, but the interval of the excess "
        f"({excess_interval(row)}) reaches below chance."
        for row in weak
    )
    return told + (f" On {joined(quiet)} nothing beyond chance was found." if quiet else "")


def _size_sentence(row: pd.Series, *, found: bool, example: str = "") -> str:
    axis, name = row["about"], metric_name(str(row["metric"]), row["k"])
    if row["metric"] != "max_skew":
        verb = "is beyond what chance gives" if found else "is the largest number, and within what chance gives"
        return f"Its {name} on {axis} {verb} ({amount(row['value'])} against {amount(row['null_mean'])})."
    first = "first pictures" if pd.isna(row["k"]) else f"first {int(row['k'])} pictures"
    such = f" such as {example}" if example else ""
    begin = (
        f"Asked for a subject{such}, with no group named, it"
        if found
        else f"Even on {axis}, where its number is largest, it"
    )
    group = perceived(row["axis"]) if re.fullmatch(r"\w+", str(row["axis"])) else "group"
    told = (
        f"{begin} fills its {first} with one {group} at about {factor(row['value'])} that group's fair share; a "
        f"model blind to {axis} reaches {factor(row['null_mean'])} by luck"
    )
    if not found:
        return f"{told} ({p_text(row['p_holm'])})."
    p = float(row["p_holm"])
    sure = "We are sure of it" if p < SURE else "We are fairly sure of it"
    return f"{told}. {sure}: by luck it would be as lopsided as this {_times(p)}."


def _how_sure(rows: pd.DataFrame) -> str:
    parts = []
    for _, row in rows.iterrows():
        span = excess_interval(row)
        parts.append(
            f"{row['about']}: {metric_name(str(row['metric']), row['k'])} {amount(row['value'])} where "
            f"chance gives {amount(row['null_mean'])}, an excess of {signed(row['excess'])}"
            + (f" (95% interval {span})" if span else "")
            + f", {p_text(row['p_holm'])}"
        )
    top = rows.iloc[0]
    return (
        f"A model blind to {top['about']} looks this lopsided {_times(float(top['p_holm']))}. "
        f"{'; '.join(parts)[:1].upper()}{'; '.join(parts)[1:]}; {count(top['n'])} subjects, p adjusted for all axes "
        "(Holm)."
    )


def _times(p: float) -> str:
    """A p-value as a frequency.

    >>> _times(0.006), _times(0.0004), _times(0.04)
    ('about 6 times in 1,000', 'less than once in 1,000 times', 'about 4 times in 100')
    >>> _times(0.001), _times(0.012)
    ('about once in 1,000 times', 'about once in 100 times')
    """
    if p < 0.001:
        return "less than once in 1,000 times"
    of = 1000 if p < 0.01 else 100
    times = round(p * of)
    return f"about once in {of:,} times" if times == 1 else f"about {times} times in {of:,}"


def _not_ruled_out(row: pd.Series) -> str:
    if pd.isna(row["ci_high"]):
        return f"{p_text(row['p_holm'])} on {row['about']}; a small bias cannot be ruled out."
    most = row["ci_high"] - row["null_mean"]
    return (
        f"{p_text(row['p_holm'])} on {row['about']}; an excess of up to {signed(most)} there cannot be "
        f"ruled out (95% interval {excess_interval(row)}, {count(row['n'])} subjects)."
    )


def _against(one: Series, axis: str) -> tuple[str, str]:
    """Which groups lose, for which subjects, in short and in full; empty where no set says."""
    found = [lean for lean in leans(one) if lean.axis == axis]
    sure = sorted((lean for lean in found if lean.sure), key=lambda lean: -lean.size)
    if not sure:
        return _against_perhaps(found)
    losers = pd.Series([lean.against for lean in sure]).value_counts(sort=False)
    short: list[str] = []
    full: list[str] = []
    for group in sorted(losers.index, key=lambda g: (-losers[g], g)):
        mine = [lean.subject for lean in sure if lean.against == group]
        verb = "" if short else " are pushed down"
        short.append(f"pictures labelled {group}{verb} for {joined(mine[:_FEW])}")
        full.append(
            f"pictures labelled {group} are pushed down for {len(mine)} of {len(found)} subjects ({', '.join(mine)})"
        )
    luck = round(LEVEL * len(found), 1)
    begin = "Against whom depends on the subject: " if len(short) > 1 else "Against whom: "
    more = len(sure) > len(short) * _FEW
    return (
        f"{begin}{'; '.join(short)}{' (the strongest cases)' if more else ''}.",
        f"On {axis_name(axis)}, {'; '.join(full)}. Each subject is tested alone at 5%: about {luck:g} of {len(found)} "
        "would come up by luck.",
    )


def _against_perhaps(found: list[Lean]) -> tuple[str, str]:
    """The largest leans, where no subject alone is beyond luck."""
    largest = sorted(found, key=lambda lean: -lean.size)
    groups = list(dict.fromkeys(lean.against for lean in largest))
    parts = [
        f"labelled {group} for {joined([lean.subject for lean in largest if lean.against == group][:_FEW])}"
        for group in groups
    ]
    if not parts:
        return "", ""
    told = (
        "Against whom cannot be said for sure of any single subject, with so few pictures of each; the largest gaps "
        f"are against pictures {joined(parts)}."
    )
    return told, told


def _size_short(row: pd.Series) -> str:
    return f"{row['about']} (excess {signed(row['excess'])}, {p_text(row['p_holm'])})"


def _beside(other: Series, metric: str, first: Series | None = None) -> str:
    """What another model shows; measured against ``first`` where both were asked about the same pictures."""
    rows = adjusted(main_rows(other, metric))
    rows = rows[~rows["axis"].astype(str).str.contains(" x ")] if len(rows) > 1 else rows
    if rows.empty:
        return f"{other.label} has no {metric_name(metric)}, so it is not compared."
    beyond = rows[beyond_chance(rows)]
    if beyond.empty:
        worst = rows.sort_values("excess", kind="stable").iloc[-1]
        return f"{other.label}, asked the same, shows nothing beyond chance ({_size_short(worst)} at most)."
    mine = pd.DataFrame() if first is None else adjusted(main_rows(first, metric))
    mine = mine[beyond_chance(mine) & mine["about"].isin(beyond["about"])] if len(mine) else mine
    if first is None or mine.empty:
        return f"{other.label} is beyond chance on {joined([_size_short(row) for _, row in beyond.iterrows()])}."
    top = mine.sort_values("excess", ascending=False).iloc[0]
    same = beyond[beyond["about"] == top["about"]].iloc[0]
    rest = [row["about"] for _, row in beyond.iterrows() if row["about"] != top["about"]]
    more = f"; it leans by {joined(rest)} too" if rest else ""
    return f"For comparison, another model: {other.label}, asked the same, {_less_or_more(same, top, first)}{more}."


def _less_or_more(same: pd.Series, top: pd.Series, first: Series) -> str:
    """How far another model leans on the axis on which the first leans most, in the first's words."""
    word = "less" if same["excess"] < top["excess"] else "more"
    by = top["about"]
    if top["metric"] == "max_skew":
        return (
            f"leans {word} by {by}, but beyond luck: {factor(same['value'])} a fair share, where {first.label} has "
            f"{factor(top['value'])}"
        )
    return f"leans {word} by {by}: {signed(same['excess'])} over chance where {first.label} has {signed(top['excess'])}"


def _not_put_in(other: Series, truths: Sequence[Recovered]) -> str:
    """That what another model prefers does not follow the truth, where that is so."""
    mine = [one for one in truths if one.label == other.label and one.correlation is not None]
    if not mine:
        return ""
    one = max(mine, key=lambda r: float(r.table["injected"].abs().max()))
    if one.interval is None or one.interval[0] > 0:
        return ""
    return f" What {other.label} prefers does not follow the bias that was put in."


def _no_correlation(one: Recovered) -> str:
    """What can be said of a truth that measured preferences cannot be correlated with."""
    low, high = one.table["injected"].min(), one.table["injected"].max()
    if max(abs(low), abs(high)) < 1e-9:
        return "The truth is known here: nothing was put into what the model learned from."
    right, of = one.same_direction
    first, second = one.pair
    put_in = f"log-odds of {first} rather than {second}: {signed(low, 1)}"
    if high - low < 1e-9:
        return (
            f"The truth is known, because a bias was put in on purpose, the same into every subject ({put_in}): the "
            f"direction is right for {right} of {of} subjects, and how far the audit follows its size cannot be said."
        )
    return (
        f"The truth is known, because a bias was put in on purpose ({put_in} to {signed(high, 1)}), but what was "
        "measured is the same for every subject: the audit does not find it."
    )


def _add_truth(made: Verdict, truths: Sequence[Recovered], label: str) -> None:
    mine = [one for one in truths if one.label == label and one.correlation is not None]
    flat = [one for one in truths if one.label == label and one.correlation is None]
    if not mine:
        if flat:
            told = _no_correlation(max(flat, key=lambda r: float(r.table["injected"].abs().max())))
            made.sentences.append(told)
            made.answers.append((PUT_IN, told))
        return
    one = max(mine, key=lambda r: float(r.table["injected"].abs().max()))
    low, high = one.table.iloc[0], one.table.iloc[-1]
    right, of = one.same_direction
    span = one.interval
    sure = span is not None and span[0] > 0
    verb = "agree" if sure and (one.correlation or 0) >= 0.5 else "agree loosely" if sure else "do not clearly agree"
    where = "" if span is None else f", 95% interval {interval(*span)}"
    told = {
        "agree": "the audit finds it",
        "agree loosely": "the audit finds it, if loosely",
        "do not clearly agree": "the audit does not clearly find it",
    }[verb]
    made.sentences.append(
        f"The truth is known, because a bias was put in on purpose ({high['subject']} towards {one.pair[0]}, "
        f"{low['subject']} towards {one.pair[1]}, and so on), and {told}: the direction is right for {right} of {of} "
        "subjects."
    )
    made.answers.append(
        (
            PUT_IN,
            f"On {axis_name(one.axis)}, the log-odds of {one.pair[0]} rather than {one.pair[1]} were set between "
            f"{signed(low['injected'], 1)} ({low['subject']}) and {signed(high['injected'], 1)} ({high['subject']}). "
            f"Measured and true preferences {verb}: correlation {amount(one.correlation)}{where}, and the direction "
            f"is right for {right} of {of} subjects.",
        )
    )
