"""The verdict in plain words: is it biased, how sure are we, against whom, was the truth found, did the repair work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from equipoise.data.manifest import TABLE_AT
from equipoise.formatting import amount, joined, p_text, percent, plural
from equipoise.measure.notes import facts_of
from equipoise.measure.sides import sides
from equipoise.report.findings import OF_RETRIEVAL, axis_name, is_of_prompts, leans, metric_name, perceived
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
from equipoise.report.verdict.kinds import on_classifiers, on_comparison, on_dataset, on_filters
from equipoise.report.verdict.known import add_truth, not_put_in
from equipoise.report.verdict.outcomes import LEVEL, Conclusion, margin_text
from equipoise.report.verdict.prompts import WHICH_PROMPTS, prompt_sentences, prompts_by_axis
from equipoise.report.verdict.repair import Repair, add_repair, beside, flattered, shown
from equipoise.report.verdict.sizes import (
    amount_of,
    passed_over_words,
    placebo_words,
    reach,
    rests_on,
    size_sentence,
    size_words,
)

_FEW = 3
SERIES_NAMES = {"captions": "captions", "dataset": "datasets", "classification": "classifiers"}
SERIES_NAMES |= {"comparison": "comparisons", "filter": "filters"}
"""What :func:`verdict` calls the series of a kind of folder; those of any other kind are audits."""


def verdict(
    audits: Sequence[Series],
    *,
    repairs: Sequence[Repair] = (),
    truths: Sequence[Recovered] = (),
    captions: Sequence[Series] = (),
    datasets: Sequence[Series] = (),
    classifiers: Sequence[Series] = (),
    comparisons: Sequence[Series] = (),
    filters: Sequence[Series] = (),
    naive: Sequence[Naive] = (),
) -> BiasVerdict:
    """The verdict on the first audit, with the others, the captions and the datasets beside it.

    The paragraph says the five things that people ask: is it biased, how large is that, against whom, what was put in,
    did the repairs work. What else there is stands in the answers below it.
    """
    asked = [each for each in audits if all(each is not repair.after for repair in repairs)]
    judged = [(each, judgements) for each in asked if (judgements := shown(judge(each, truths)))]
    if judged:
        first, judgements = judged[0]
        whole = _on_audit(first, judgements)
        if truths:
            add_truth(whole, truths, first.label)
        for number, repair in enumerate(repairs):
            add_repair(whole, repair, briefly=number > 0)
        pools = _pools(first)
        for other, its in judged[1:]:
            if _pools(other) == pools:
                whole.sentences.append(beside(other, its, first, judgements, not_put_in(other, truths)))
                whole.sentences += prompt_sentences(prompts_by_axis(other), of=other.label)
        whole.sentences += [sentence for each, _ in judged if (sentence := flattered(each))]
        whole.sentences += list(dict.fromkeys(sentence for each, _ in judged if (sentence := _unchecked_edits(each))))
        elsewhere = [(other, its) for other, its in judged[1:] if _pools(other) != pools]
        if elsewhere:
            whole.answers.append((ELSEWHERE, " ".join(beside(other, its) for other, its in elsewhere)))
        _add_naive(whole, naive)
        add_captions(whole, captions, truths)
        whole.answers += [answer for each in filters for answer in on_filters(each).answers]
        return whole
    if comparisons:
        return on_comparison(comparisons[0])
    if captions:
        return on_captions(captions)
    if classifiers:
        return on_classifiers(classifiers)
    if datasets:
        return on_dataset(datasets[0])
    if filters:
        return on_filters(filters[0])
    return BiasVerdict(
        "These results hold no number with a chance level, so nothing can be said about bias.",
        ["The numbers themselves are in the tables below."],
    )


def _pools(series: Series) -> set[str]:
    return {str(pool) for pool in series.results["pool"].dropna().unique()}


def _unchecked_edits(series: Series) -> str:
    """That nobody has checked whether edited pictures show what they should, and what does; empty where it is not so.

    The rows of an audit say so themselves (the note ``unchecked_edits``).
    """
    rows = series.results.to_dict("records")
    facts = next((facts for row in rows if (facts := facts_of(row, "unchecked_edits"))), None)
    if facts is None:
        return ""
    at = series.source.settings.get(TABLE_AT)
    table = Path(at).name if isinstance(at, str) and Path(at).name else "TABLE"
    return (
        f"Nobody has checked whether the {plural(facts['edits'], 'edited picture')} show what they should, and what "
        f"does not is counted all the same; this checks it: equipoise filter {table} --steps detectability -m ENCODER "
        f"-o {table}-checked."
    )


def _add_naive(whole: BiasVerdict, naive: Sequence[Naive]) -> None:
    """What a number without a chance level would have said, where it would have misled."""
    if not naive:
        return
    mine = [number for number in naive if number.row["about"] == naive[0].row["about"]]
    pool = mine[0].row["null_mean"]
    even = mine[0].is_even
    where = "On a natural, lopsided pool, against even shares and" if even else "On a natural pool,"
    text = f"{where} without a chance level, {mine[0].row['about']} comes to {joined([n.told for n in mine])}."
    if pd.notna(pool):
        text += f" But {amount(pool)} is what this pool gives a model that is blind to the groups"
        text += ": the number mixes the model's bias with the pool's." if even else "."
    whole.answers.append((NAIVE, text))


def _on_audit(series: Series, judgements: list[AxisJudgement]) -> BiasVerdict:
    """The paragraph on one model, from its axes; the first of ``judgements`` tells most."""
    top = judgements[0]
    things = "captions" if str(series.results["suite"].iloc[0]).startswith("captions") else "pictures"
    same = [j for j in judgements if (j.outcome, j.biased) == (top.outcome, top.biased)]
    single = prompts_by_axis(series)
    asked = next((each.asked for each in single if each.axis == top.axis), 0)  # none of a kind of prompts
    whole = BiasVerdict(_lead(series, same, asked), outcome=top.outcome, of=(series,))
    sure = [lean.subject for lean in leans(series) if lean.axis == top.axis and lean.sure]
    if top.outcome is Conclusion.LEANS:
        whole.sentences.append(size_sentence(top, example=sure[0] if sure else "", things=things))
        whole.sentences += [told] if (told := passed_over_words(top)) else []
        whole.sentences += _why_not_biased(top, series)
    else:
        whole.sentences.append(_why(top))
    if top.outcome is Conclusion.LEANS:
        whole.sentences += [_as_well(j, series) for j in same[1:] if not j.joint]
    whole.sentences += prompt_sentences(single)
    others = [j for j in judgements if j not in same and not j.joint]
    if others:
        whole.sentences.append(_others(others))
    short, long = _against(series, top) if top.outcome is Conclusion.LEANS else ("", "")
    if short and not top.direction:
        whole.sentences.append(short)
    whole.answers.append((IS_IT, _is_it(judgements)))
    whole.answers.append((HOW_SURE, _sure(judgements, "prompt" if is_of_prompts(series) else "subject")))
    if single:
        whole.answers.append((WHICH_PROMPTS, " ".join(prompt_sentences(single, p_values=True))))
    if long:
        whole.answers.append((AGAINST, long))
    with_placebo = [f"On {j.about}: {placebo_words(j, series)}." for j in judgements if j.placebo is not None]
    if with_placebo:
        whole.answers.append((PLACEBO, " ".join(with_placebo)))
    return whole


def _as_well(judgement: AxisJudgement, series: Series) -> str:
    """The size on another axis of the same outcome."""
    more = placebo_words(judgement, series, short=True)
    return f"On {judgement.about} it is {size_words(judgement.rests_on)}{f', {more}' if more else ''}."


def _axes(judgements: Sequence[AxisJudgement]) -> str:
    """The axes of some judgements in prose, an intersection only where it stands alone."""
    single = [j for j in judgements if not j.joint] or list(judgements)
    return joined(list(dict.fromkeys(perceived(None if j.axis == "nan" else j.axis) for j in single)))


def _where(judgement: AxisJudgement) -> str:
    """The pool, where a folder has several."""
    if not judgement.pool:
        return ""
    return (
        " where only the person differs (edited pictures)"
        if judgement.pool == "edited"
        else f" on {judgement.pool} pictures"
    )


def _lead(series: Series, same: Sequence[AxisJudgement], prompts: int = 0) -> str:
    """The first sentence: one of four outcomes, of the axes that share it; of ``prompts``, what holds for their mean.

    One of many prompts may lean where their mean does not, so the sentence must not speak for each of them.
    """
    text = _outcome_sentence(series, same)
    if prompts < 2 or same[0].outcome is Conclusion.LEANS:
        return text
    return f"Over {prompts:,} prompts together, {text[:1].lower()}{text[1:]}"


def _outcome_sentence(series: Series, same: Sequence[AxisJudgement]) -> str:
    top, axes = same[0], _axes(same)
    name = metric_name(top.rests_on.metric)
    where = _where(top)
    if top.outcome is Conclusion.LEANS:
        if top.rests_on.metric not in OF_RETRIEVAL:
            return f"{name[:1].upper()}{name[1:]} of {series.label} is beyond chance on {axes}{where}."
        if top.biased:
            return f"{series.label} is biased by perceived {axes}{where}."
        return f"{series.label} reacts to the visible difference in {axes}{where}; these numbers do not show a bias."
    if top.outcome is Conclusion.TOO_SMALL:
        return f"What {series.label} shows by perceived {axes}{where} is too small to matter."
    if top.outcome is Conclusion.NOTHING:
        return f"No bias by perceived {axes} was found in {series.label}{where}, and one that matters would have been."
    return f"These numbers cannot tell whether {series.label} leans by perceived {axes}{where}."


def _why(judgement: AxisJudgement) -> str:
    """Why it is one of the three other outcomes, with the margin."""
    reading, margin = judgement.rests_on, margin_text(judgement.rests_on.metric, judgement.spreads)
    name = metric_name(reading.metric, reading.row["k"])
    level = f"{percent(judgement.level)} interval in brackets"
    below = reading.size < 0 and reading.high is not None and reading.high <= 0
    less = " It is less lopsided than luck makes it." if below else ""
    if judgement.outcome is Conclusion.TOO_SMALL:
        more = "is beyond chance" if reading.detected else "is within chance, and another number beyond it"
        return f"Its {name} {more}, at {size_words(reading)}: inside the margin of {margin} ({level})." + _also(
            judgement
        )
    if judgement.outcome is Conclusion.NOTHING:
        return f"Its {name} is within chance (adjusted {reading.p_told}): {reach(reading, judgement.spreads)}.{less}"
    if judgement.subjects == 1:
        return "Only one subject was asked about, and one says nothing about others."
    if reading.low is None:
        return f"Its {name} has no interval, so that its size is unknown ({reading.p_told})." + _also(judgement)
    if reading.detected and not margin:
        return (
            f"Its {name} is beyond chance ({reading.p_told}), at {size_words(reading)} from it, but no margin is "
            f"stated for it, so that whether it matters cannot be said ({level})."
        )
    if reading.detected:
        floor = "nothing" if reading.low <= 0 else amount_of(reading.low, reading.metric)
        return (
            f"Its {name} is beyond chance ({reading.p_told}), at {size_words(reading)}, but the interval reaches "
            f"from {floor} to more than the margin of {margin} ({level})."
        )
    open_still = reach(reading, judgement.spreads)
    return f"Its {name} is within chance (adjusted {reading.p_told}), but {open_still}.{less}{_also(judgement)}"


def _also(judgement: AxisJudgement) -> str:
    """A row that stands out beside the one that the outcome rests on; no verdict passes over it."""
    other = judgement.stands_out
    if other is None:
        return ""
    name, k = metric_name(other.metric, other.row["k"]), other.p_told
    if other.detected:
        margin = margin_text(other.metric, judgement.spreads)
        where = f"at {size_words(other)} with a margin of {margin}" if margin else "without a margin to hold it against"
        too = " too" if judgement.rests_on.detected else ""
        return f" Its {name} is beyond chance{too} ({k} after correction), {where}."
    alone = p_text(other.row["p_value"])
    return (
        f" Its {name} stands out alone ({alone}), but not after correction for {judgement.looked_at:,} numbers ({k})."
    )


def _why_not_biased(judgement: AxisJudgement, series: Series) -> list[str]:
    """What is missing for a bias, in plain words; nothing where one was found."""
    if judgement.biased:
        more = placebo_words(judgement, series, short=True)
        return [f"It reacts to {judgement.about} {more}."] if more else []
    beside = placebo_words(judgement, series)
    than = f"It reacts to {judgement.about} {beside}. " if beside else ""
    if judgement.direction is not None:
        pair = sides(judgement.direction.row)
        whom = f"pictures labelled {pair[0]}" if pair else "one group"
        return [f"{than}It prefers {whom}, but anything that is visible moves it as far."]
    if pair := sides(judgement.rests_on.row):
        return [
            f"{than}By this number it prefers pictures labelled {pair[0]}, but the mean gap over subjects is not shown "
            "to lean that way."
        ]
    return [
        f"{than}Subjects lean to different sides, with no common direction: the numbers fit stereotypes and chance "
        "quirks alike. State what you expect (equipoise report --truth) to tell them apart."
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
    text = "; ".join(f"on {joined(axes)} {said}" for said, axes in parts.items())
    return f"{text[:1].upper()}{text[1:]}."


def _is_it(judgements: Sequence[AxisJudgement]) -> str:
    """The outcome of every axis, and what it takes to be called a bias."""
    parts = []
    for j in judgements:
        if " x " in j.axis and any(o.outcome is Conclusion.LEANS and o is not j for o in judgements):
            continue
        begin = f"On {j.about}{_where(j)}: "
        if j.biased and j.rests_on.metric in OF_RETRIEVAL:
            parts.append(f"{begin}yes, {size_words(j.rests_on)} beyond chance{_ground(j)}.")
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
        pair = sides(j.direction.row)
        grounds.append("in one direction over subjects" + (f", {pair[0]} before {pair[1]}" if pair else ""))
    if j.truth is not None:
        grounds.append(f"in line with what was {j.truth.called}")
    return f", {joined(grounds)}" if grounds else ""


def _sure(judgements: Sequence[AxisJudgement], unit: str) -> str:
    text = "; ".join(rests_on(j, unit) for j in judgements)
    return f"{text[:1].upper()}{text[1:]}."


def _against(series: Series, top: AxisJudgement) -> tuple[str, str]:
    """Which groups lose, for which subjects, in short and in full; empty where no set says."""
    subject_leans = [lean for lean in leans(series) if lean.axis == top.axis]
    sure = sorted((lean for lean in subject_leans if lean.sure), key=lambda lean: -lean.size)
    if not subject_leans:
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
            f"pictures labelled {group} are pushed down for {len(mine)} of {len(subject_leans)} subjects "
            f"({', '.join(mine)})"
        )
    luck = round(LEVEL * len(subject_leans), 1)
    begin = "Against whom depends on the subject: " if len(short) > 1 else "Against whom: "
    more = len(sure) > len(short) * _FEW
    return (
        f"{begin}{'; '.join(short)}{' (the strongest cases)' if more else ''}.",
        f"On {axis_name(top.axis)}, {'; '.join(full)}. Each subject is tested alone at 5%: about {luck:g} of "
        f"{len(subject_leans)} would come up by luck.",
    )
