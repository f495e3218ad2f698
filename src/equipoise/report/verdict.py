"""The verdict in plain words: is it biased, how sure are we, against whom, was the truth found, did the repair work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from equipoise.report.change import Change
from equipoise.report.findings import LEVEL, MORE_IS_BIAS, axis_name, leans, main_rows, metric_name
from equipoise.report.judging import AGAINST, HOW_SURE, IS_IT, PUT_IN, REPAIRED, Verdict, adjusted, beyond_chance
from equipoise.report.numbers import amount, count, excess_interval, factor, interval, joined, p_text, signed
from equipoise.report.sources import Series
from equipoise.report.truth import Recovered
from equipoise.report.verdict_kinds import add_captions, on_captions, on_comparison, on_dataset, on_filters

__all__ = ["Repair", "Verdict", "verdict"]

_FEW = 3


@dataclass(frozen=True)
class Repair:
    """A remedy's before and after."""

    before: Series
    after: Series
    changes: list[Change]


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
) -> Verdict:
    """The verdict on the first audit, with the others, the captions and the datasets beside it."""
    asked = [one for one in audits if repair is None or one is not repair.after]
    if asked and metric is not None:
        made = _on_audit(asked[0], metric)
        for other in asked[1:]:
            made.sentences.append(_beside(other, metric))
        if truths:
            _add_truth(made, truths, asked[0].label)
        if repair is not None:
            _add_repair(made, repair)
        add_captions(made, captions)
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
    axes = [axis_name(axis) for axis in dict.fromkeys(telling["axis"])]
    top = telling.iloc[0]
    if metric in MORE_IS_BIAS:
        made = Verdict(f"{one.label} is biased by perceived {joined(axes)}.")
        made.answers.append((IS_IT, _yes(rows, beyond, axes)))
    else:
        made = Verdict(f"{metric_name(metric).capitalize()} of {one.label} is beyond chance on {joined(axes)}.")
        made.answers.append((IS_IT, f"{metric_name(metric).capitalize()} alone does not say; see what it means below."))
    made.sentences.append(_size_sentence(top, found=True))
    made.answers.append((HOW_SURE, _how_sure(telling)))
    short, long = _against(one, str(top["axis"]))
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
    quiet = [axis_name(row["axis"]) for row in others if row["p_holm"] >= LEVEL or row["excess"] <= 0]
    weak = [row for row in others if row["p_holm"] < LEVEL and row["excess"] > 0]
    told += "".join(
        f" On {axis_name(row['axis'])} the evidence is weak: {p_text(row['p_holm'])}, but the interval of the excess "
        f"({excess_interval(row)}) reaches below chance."
        for row in weak
    )
    return told + (f" On {joined(quiet)} nothing beyond chance was found." if quiet else "")


def _size_sentence(row: pd.Series, *, found: bool) -> str:
    axis, name = axis_name(row["axis"]), metric_name(str(row["metric"]), row["k"])
    if row["metric"] != "max_skew":
        verb = "is beyond what chance gives" if found else "is the largest number, and within what chance gives"
        return f"Its {name} on {axis} {verb} ({amount(row['value'])} against {amount(row['null_mean'])})."
    first = "first pictures" if pd.isna(row["k"]) else f"first {int(row['k'])} pictures"
    begin = (
        "Asked for a subject with no group named, it" if found else f"Even on {axis}, where its number is largest, it"
    )
    group = "group" if "|" in str(row["axis"]) else f"{axis} group"
    told = (
        f"{begin} fills its {first} with one {group} at about {factor(row['value'])} that group's fair share; a "
        f"ranking blind to {axis} reaches {factor(row['null_mean'])} by luck"
    )
    if not found:
        return f"{told} ({p_text(row['p_holm'])})."
    return f"{told}, and gets as lopsided as this {_times(float(row['p_holm']))}."


def _how_sure(rows: pd.DataFrame) -> str:
    parts = []
    for _, row in rows.iterrows():
        span = excess_interval(row)
        parts.append(
            f"{axis_name(row['axis'])}: {metric_name(str(row['metric']), row['k'])} {amount(row['value'])} where "
            f"chance gives {amount(row['null_mean'])}, an excess of {signed(row['excess'])}"
            + (f" (95% interval {span})" if span else "")
            + f", {p_text(row['p_holm'])}"
        )
    top = rows.iloc[0]
    return (
        f"A ranking blind to {axis_name(top['axis'])} looks this lopsided {_times(float(top['p_holm']))}. "
        f"{'; '.join(parts)[:1].upper()}{'; '.join(parts)[1:]}; {count(top['n'])} subjects, p adjusted for all axes "
        "(Holm)."
    )


def _times(p: float) -> str:
    """A p-value as a frequency.

    >>> _times(0.006), _times(0.0004), _times(0.04)
    ('about 6 times in 1,000', 'less than once in 1,000 times', 'about 4 times in 100')
    """
    if p < 0.001:
        return "less than once in 1,000 times"
    return f"about {p * 1000:.0f} times in 1,000" if p < 0.01 else f"about {p * 100:.0f} times in 100"


def _not_ruled_out(row: pd.Series) -> str:
    if pd.isna(row["ci_high"]):
        return f"{p_text(row['p_holm'])} on {axis_name(row['axis'])}; a small bias cannot be ruled out."
    most = row["ci_high"] - row["null_mean"]
    return (
        f"{p_text(row['p_holm'])} on {axis_name(row['axis'])}; an excess of up to {signed(most)} there cannot be "
        f"ruled out (95% interval {excess_interval(row)}, {count(row['n'])} subjects)."
    )


def _against(one: Series, axis: str) -> tuple[str, str]:
    """Which groups lose, for which subjects, in short and in full; empty where no set says."""
    found = [lean for lean in leans(one) if lean.axis == axis]
    sure = sorted((lean for lean in found if lean.sure), key=lambda lean: -lean.size)
    if not sure:
        return "", ""
    losers = pd.Series([lean.against for lean in sure]).value_counts(sort=False)
    short, full = [], []
    for group in sorted(losers.index, key=lambda g: (-losers[g], g)):
        mine = [lean.subject for lean in sure if lean.against == group]
        short.append(f"pictures labelled {group} for {joined(mine[:_FEW])}")
        full.append(
            f"pictures labelled {group} are pushed down for {len(mine)} of {len(found)} subjects ({', '.join(mine)})"
        )
    luck = round(LEVEL * len(found), 1)
    begin = "Who is pushed down depends on the subject: " if len(short) > 1 else "Pushed down are "
    return (
        f"{begin}{joined(short)}{', most of all' if len(sure) > len(short) * _FEW else ''}.",
        f"On {axis_name(axis)}, {'; '.join(full)}. Each subject is tested alone at 5%: about {luck:g} of {len(found)} "
        "would come up by luck.",
    )


def _size_short(row: pd.Series) -> str:
    return f"{axis_name(row['axis'])} (excess {signed(row['excess'])}, {p_text(row['p_holm'])})"


def _beside(other: Series, metric: str) -> str:
    rows = adjusted(main_rows(other, metric))
    rows = rows[~rows["axis"].astype(str).str.contains(" x ")] if len(rows) > 1 else rows
    if rows.empty:
        return f"{other.label} has no {metric_name(metric)}, so it is not compared."
    beyond = rows[beyond_chance(rows)]
    if beyond.empty:
        worst = rows.sort_values("excess", kind="stable").iloc[-1]
        return f"{other.label} shows nothing beyond chance ({_size_short(worst)} at most)."
    return f"{other.label} is beyond chance on {joined([_size_short(row) for _, row in beyond.iterrows()])}."


def _add_truth(made: Verdict, truths: Sequence[Recovered], label: str) -> None:
    mine = [one for one in truths if one.label == label and one.correlation is not None]
    flat = [one for one in truths if one.label == label and one.correlation is None]
    if not mine:
        if flat:
            told = "The truth is known here: nothing was put into what the model learned from."
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
    made.sentences.append(
        f"The true bias is known, because it was put in on purpose ({high['subject']} towards {one.pair[0]}, "
        f"{low['subject']} towards {one.pair[1]}, and so on): measured and true preferences {verb} (correlation "
        f"{amount(one.correlation)}{where})."
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


def _add_repair(made: Verdict, repair: Repair) -> None:
    single = [c for c in repair.changes if " x " not in c.axis] or repair.changes
    if not single:
        made.answers.append((REPAIRED, "It cannot be said: the two audits share no axis."))
        return
    fell = [c for c in single if c.told == "fell"]
    rose = [c for c in single if c.told == "rose"]
    same = [c for c in single if c.told == "unclear"]
    if fell and not rose:
        word = "worked" if all(c.gone for c in fell) else "helped, but not fully"
    elif fell:
        word = f"helped on {joined([axis_name(c.axis) for c in fell])} and did harm on "
        word += joined([axis_name(c.axis) for c in rose])
    else:
        word = "made things worse" if rose else "made no clear difference"
    short, full = [], []
    for some, verb in ((fell, "fell"), (rose, "rose"), (same, "did not clearly change,")):
        for c in some:
            rest = "now within chance" if c.gone else "beyond chance" if some is rose else "still beyond chance"
            moved = f"from {signed(c.before['excess'])} to {signed(c.after['excess'])}"
            short.append(f"{axis_name(c.axis)} {verb} {moved} ({rest})")
            full.append(f"{axis_name(c.axis)} {_from_to(c)}, {rest} ({p_text(c.after['p_value'])})")
    made.sentences.append(
        f"The repair ({repair.after.label}) {word}: in excess over chance, where 0 is none, {joined(short)}."
    )
    made.answers.append((REPAIRED, f"It {word}. Excess over chance, before and after: {'; '.join(full)}."))


def _from_to(change: Change) -> str:
    told = f"{signed(change.before['excess'])} to {signed(change.after['excess'])}"
    d = change.difference
    if d is None:
        return f"{told} (not paired, so not tested)"
    span = (
        "" if d.ci_low is None or d.ci_high is None else f", 95% interval {signed(-d.ci_high)} to {signed(-d.ci_low)}"
    )
    return f"{told} (paired change {signed(-d.value)}{span}, {p_text(d.p_value)}, {d.n} subjects)"
