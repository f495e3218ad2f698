"""The verdict in plain words: is it biased, how sure are we, against whom, was the truth found, did the repair work."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from equipoise.formatting import amount, joined, p_text, percent
from equipoise.report.findings import OF_RETRIEVAL, axis_name, leans, metric_name, perceived
from equipoise.report.page.naive import Naive
from equipoise.report.sources import Series
from equipoise.report.truth import Recovered
from equipoise.report.verdict.captions import add_captions, on_captions
from equipoise.report.verdict.judging import (
    AGAINST,
    ELSEWHERE,
    HOW_SURE,
    IS_IT,
    NAIVE,
    PLACEBO,
    AxisJudgement,
    BiasVerdict,
    judge,
)
from equipoise.report.verdict.kinds import on_comparison, on_dataset, on_filters
from equipoise.report.verdict.outcomes import LEVEL, Conclusion, margin_text
from equipoise.report.verdict.repair import Repair, add_repair, beside, shown
from equipoise.report.verdict.sizes import amount_of, placebo_words, reach, rests_on, sides, size_sentence, size_words
from equipoise.report.verdict.truth import add_truth, not_put_in

__all__ = ["BiasVerdict", "Repair", "verdict"]

_FEW = 3


def verdict(
    audits: Sequence[Series],
    *,
    repair: Repair | None = None,
    truths: Sequence[Recovered] = (),
    captions: Sequence[Series] = (),
    datasets: Sequence[Series] = (),
    comparisons: Sequence[Series] = (),
    filters: Sequence[Series] = (),
    naive: Sequence[Naive] = (),
) -> BiasVerdict:
    """The verdict on the first audit, with the others, the captions and the datasets beside it.

    The paragraph says the five things that people ask: is it biased, how large is that, against whom, what was put in,
    did the repair work. What else there is stands in the answers below it.
    """
    asked = [one for one in audits if repair is None or one is not repair.after]
    judged = [(one, found) for one in asked if (found := shown(judge(one, truths)))]
    if judged:
        first, found = judged[0]
        made = _on_audit(first, found)
        if truths:
            add_truth(made, truths, first.label)
        if repair is not None:
            add_repair(made, repair)
        pools = _pools(first)
        for other, its in judged[1:]:
            if _pools(other) == pools:
                made.sentences.append(beside(other, its, first, found, not_put_in(other, truths)))
        elsewhere = [(other, its) for other, its in judged[1:] if _pools(other) != pools]
        if elsewhere:
            made.answers.append((ELSEWHERE, " ".join(beside(other, its) for other, its in elsewhere)))
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
    return BiasVerdict(
        "These results hold no number with a chance level, so nothing can be said about bias.",
        ["The numbers themselves are in the tables below."],
    )


def _pools(one: Series) -> set[str]:
    return {str(pool) for pool in one.results["pool"].dropna().unique()}


def _add_naive(made: BiasVerdict, naive: Sequence[Naive]) -> None:
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


def _on_audit(one: Series, found: list[AxisJudgement]) -> BiasVerdict:
    """The paragraph on one model, from its axes; the first of ``found`` tells most."""
    top = found[0]
    things = "captions" if str(one.results["suite"].iloc[0]).startswith("captions") else "pictures"
    same = [j for j in found if (j.outcome, j.biased) == (top.outcome, top.biased)]
    made = BiasVerdict(_lead(one, same), outcome=top.outcome)
    sure = [lean.subject for lean in leans(one) if lean.axis == top.axis and lean.sure]
    if top.outcome is Conclusion.LEANS:
        made.sentences.append(size_sentence(top, example=sure[0] if sure else "", things=things))
        made.sentences += _why_not_biased(top, one)
    else:
        made.sentences.append(_why(top))
    if top.outcome is Conclusion.LEANS:
        made.sentences += [_as_well(j, one) for j in same[1:] if " x " not in j.axis and ":" not in j.axis]
    others = [j for j in found if j not in same and " x " not in j.axis and ":" not in j.axis]
    if others:
        made.sentences.append(_others(others))
    short, long = _against(one, top) if top.outcome is Conclusion.LEANS else ("", "")
    if short and not top.direction:
        made.sentences.append(short)
    made.answers.append((IS_IT, _is_it(one, found)))
    made.answers.append((HOW_SURE, _sure(found)))
    if long:
        made.answers.append((AGAINST, long))
    with_placebo = [f"On {j.about}: {placebo_words(j, one)}." for j in found if j.placebo is not None]
    if with_placebo:
        made.answers.append((PLACEBO, " ".join(with_placebo)))
    return made


def _as_well(found: AxisJudgement, one: Series) -> str:
    """The size on another axis of the same outcome."""
    more = placebo_words(found, one, short=True)
    return f"On {found.about} it is {size_words(found.rests_on)}{f', {more}' if more else ''}."


def _axes(found: Sequence[AxisJudgement]) -> str:
    """The axes of some judgements in prose, an intersection only where it stands alone."""
    single = [j for j in found if " x " not in j.axis and ":" not in j.axis] or list(found)
    return joined(list(dict.fromkeys(perceived(None if j.axis == "nan" else j.axis) for j in single)))


def _where(found: AxisJudgement) -> str:
    """The pool, where a folder has several."""
    if not found.pool:
        return ""
    return (
        " where only the person differs (edited pictures)" if found.pool == "edited" else f" on {found.pool} pictures"
    )


def _lead(one: Series, same: Sequence[AxisJudgement]) -> str:
    """The first sentence: one of four outcomes, of the axes that share it."""
    top, axes = same[0], _axes(same)
    name = metric_name(top.rests_on.metric)
    where = _where(top)
    if top.outcome is Conclusion.LEANS:
        if top.rests_on.metric not in OF_RETRIEVAL:
            return f"{name[:1].upper()}{name[1:]} of {one.label} is beyond chance on {axes}{where}."
        if top.biased:
            return f"{one.label} is biased by perceived {axes}{where}."
        return f"{one.label} reacts to the visible difference in {axes}{where}; these numbers do not show a bias."
    if top.outcome is Conclusion.TOO_SMALL:
        return f"What {one.label} shows by perceived {axes}{where} is too small to matter."
    if top.outcome is Conclusion.NOTHING:
        return f"No bias by perceived {axes} was found in {one.label}{where}, and one that matters would have been."
    return f"These numbers cannot tell whether {one.label} leans by perceived {axes}{where}."


def _why(found: AxisJudgement) -> str:
    """Why it is one of the three other outcomes, with the margin."""
    reading, margin = found.rests_on, margin_text(found.rests_on.metric, found.spreads)
    name = metric_name(reading.metric, reading.row["k"])
    level = f"{percent(found.level)} interval in brackets"
    if found.outcome is Conclusion.TOO_SMALL:
        more = "is beyond chance" if reading.detected else "is within chance, and another number beyond it"
        return f"Its {name} {more}, at {size_words(reading)}: inside the margin of {margin} ({level})." + _also(found)
    if found.outcome is Conclusion.NOTHING:
        less = " It is less lopsided than luck makes it." if reading.size < 0 and found.rests_on.p > 1 - LEVEL else ""
        return f"Its {name} is within chance ({p_text(reading.p)}): {reach(reading, found.spreads)}.{less}"
    if found.subjects == 1:
        return "Only one subject was asked about, and one says nothing about others."
    if reading.low is None:
        return f"Its {name} has no interval, so that its size is unknown ({p_text(reading.p)})." + _also(found)
    if reading.detected:
        return (
            f"Its {name} is beyond chance ({p_text(reading.p)}), at {size_words(reading)}, but the interval reaches "
            f"from {_floor(found)} to more than the margin of {margin} ({level})."
        )
    less = " It is less lopsided than luck makes it." if reading.size < 0 and _below(found) else ""
    return (
        f"Its {name} is within chance ({p_text(reading.p)}), but {reach(reading, found.spreads)}.{less}{_also(found)}"
    )


def _below(found: AxisJudgement) -> bool:
    return found.rests_on.high is not None and found.rests_on.high <= 0


def _floor(found: AxisJudgement) -> str:
    low = found.rests_on.low
    return "nothing" if low is None or low <= 0 else amount_of(low, found.rests_on.metric)


def _also(found: AxisJudgement) -> str:
    """A row that stands out beside the one that the outcome rests on; no verdict passes over it."""
    other = found.stands_out
    if other is None:
        return ""
    name, k = metric_name(other.metric, other.row["k"]), p_text(other.p)
    if other.detected:
        return f" Its {name} is beyond chance too ({k} after correction), without a margin to hold it against."
    alone = p_text(other.row["p_value"])
    return f" Its {name} stands out alone ({alone}), but not after correction for {found.looked_at:,} numbers ({k})."


def _why_not_biased(found: AxisJudgement, one: Series) -> list[str]:
    """What is missing for a bias, in plain words; nothing where one was found."""
    if found.biased:
        more = placebo_words(found, one, short=True)
        return [f"It reacts to {found.about} {more}."] if more else []
    told = placebo_words(found, one)
    than = f"It reacts to {found.about} {told}. " if told else ""
    if found.direction is not None:
        pair = sides(found.direction.row)
        whom = f"pictures labelled {pair[0]}" if pair else "one group"
        return [f"{than}It prefers {whom}, but anything that is visible moves it as far."]
    return [
        f"{than}Subjects lean to different sides, with no common direction: the numbers fit stereotypes and chance "
        "quirks alike. State what you expect (--truth) to tell them apart."
    ]


def _others(others: Sequence[AxisJudgement]) -> str:
    """The other axes in one sentence."""
    words = {
        Conclusion.TOO_SMALL: "what it shows is too small to matter",
        Conclusion.NOTHING: "nothing was found, and what matters would have been",
        Conclusion.CANNOT_TELL: "it cannot be told",
    }
    parts: dict[str, list[str]] = {}
    for j in others:
        said = words.get(j.outcome) or ("it is biased too" if j.biased else "it reacts to the visible difference")
        parts.setdefault(said, []).append(j.about)
    told = "; ".join(f"on {joined(axes)} {said}" for said, axes in parts.items())
    return f"{told[:1].upper()}{told[1:]}."


def _is_it(one: Series, found: Sequence[AxisJudgement]) -> str:
    """The outcome of every axis, and what it takes to be called a bias."""
    parts = []
    for j in found:
        if " x " in j.axis and any(o.outcome is Conclusion.LEANS and o is not j for o in found):
            continue
        begin = f"On {j.about}{_where(j)}: "
        if j.biased and j.rests_on.metric in OF_RETRIEVAL:
            ground = _ground(j)
            parts.append(f"{begin}yes, {size_words(j.rests_on)} beyond chance{ground}.")
        elif j.reacts:
            parts.append(f"{begin}it reacts to the visible difference ({size_words(j.rests_on)}); no bias is shown.")
        elif j.outcome is Conclusion.LEANS:
            parts.append(f"{begin}{metric_name(j.rests_on.metric)} alone does not say; see what it means below.")
        else:
            parts.append(f"{begin}{j.outcome.value}.")
    return " ".join(parts)


def _ground(j: AxisJudgement) -> str:
    grounds = []
    if j.direction is not None:
        grounds.append("in one direction over subjects")
    if j.truth is not None:
        grounds.append("in line with what was put in")
    return f", {joined(grounds)}" if grounds else ""


def _sure(found: Sequence[AxisJudgement]) -> str:
    told = "; ".join(rests_on(j) for j in found)
    return f"{told[:1].upper()}{told[1:]}."


def _against(one: Series, top: AxisJudgement) -> tuple[str, str]:
    """Which groups lose, for which subjects, in short and in full; empty where no set says."""
    found = [lean for lean in leans(one) if lean.axis == top.axis]
    sure = sorted((lean for lean in found if lean.sure), key=lambda lean: -lean.size)
    if not found:
        return "", ""
    if not sure:
        return "", "No single subject has pictures enough to say it of that subject alone."
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
        f"On {axis_name(top.axis)}, {'; '.join(full)}. Each subject is tested alone at 5%: about {luck:g} of "
        f"{len(found)} would come up by luck.",
    )
