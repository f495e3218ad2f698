"""Another model beside the first: its outcome, its size, and how that compares; short, and true.

Did the repair work, in words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from equipoise.formatting import joined, percent, plural, signed
from equipoise.measure.sides import in_words, sides
from equipoise.report.findings import axis_name, metric_name
from equipoise.report.sources import Series
from equipoise.report.verdict.change import LARGER, SAME, SMALLER, UNCLEAR, Change, changes, repaired_by
from equipoise.report.verdict.judging import REPAIRED, SET_METRICS, AxisJudgement, BiasVerdict, level_of, spreads_of
from equipoise.report.verdict.outcomes import Conclusion, Reading, margin_text
from equipoise.report.verdict.sizes import amount_of, placebo_words, size_words


@dataclass(frozen=True)
class Repair:
    """A remedy's before and after."""

    before: Series
    after: Series
    changes: list[Change]


def repair_of(before: Series, after: Series) -> Repair | None:
    """What changed between the audits before and after a remedy; ``None`` where they share no number to judge it by."""
    metric = repaired_by(before, after)
    if metric is None:
        return None
    return Repair(before, after, changes(before, after, metric, spreads=spreads_of(before)))


def seen_before(after: Series) -> tuple[int, int] | None:
    """Of how many subjects of an audit its remedy had seen how many; ``None`` where the audit does not say.

    The audit of a repaired model keeps the subjects that the remedy was fitted on, as ``fitted_on`` of the remedy.
    """
    of = after.source.settings.get("of")
    about = of.get("fitted_on") if isinstance(of, dict) else None
    known = about.get("subjects") if isinstance(about, dict) else None
    asked = set(after.results["subject"].dropna().astype(str))
    if not isinstance(known, Collection) or isinstance(known, str) or not known or not asked:
        return None
    return len(asked & {str(subject) for subject in known}), len(asked)


def flattered(series: Series) -> str:
    """The sentence on a model that is judged on subjects which it has learnt from, or its remedy; else empty."""
    seen = seen_before(series)
    if seen is None or not seen[0]:
        return ""
    which = "all" if seen[0] == seen[1] else f"{seen[0]}"
    return f"{series.label} has learnt from {which} of the {seen[1]} subjects it is judged on here, which flatters it."


def add_repair(verdict: BiasVerdict, repair: Repair, *, briefly: bool = False) -> None:
    """Add the sentence on a repair, and the answer with its numbers; ``briefly`` where another repair came before."""
    single = [c for c in repair.changes if " x " not in c.axis] or repair.changes
    if not single:
        verdict.answers.append((REPAIRED, "It cannot be said: the two audits share no axis at the same K."))
        return
    word, parts = _judged(single, briefly)
    tested = _tested(repair, single)
    seen = seen_before(repair.after)
    said = "" if briefly and seen is not None and not seen[0] else tested
    who = f"the repair ({repair.after.label})"
    text = f"Whether {who} helped cannot be told" if word == CANNOT else f"{who[:1].upper()}{who[1:]} {word}"
    verdict.sentences.append(f"{text}{said}: {parts}.")
    level = percent(level_of(repair.after))
    full = [f"{c.about} {_from_to(c)}" for c in single]
    known = margin_text(single[0].was.metric, single[0].spreads)
    margin = f" The margin is {known}." if known else ""
    unknown = "" if seen else " Whether the remedy had seen these subjects is not recorded."
    told = f"{text}{tested}. Before and after, with {level} intervals: {'; '.join(full)}.{margin}{unknown}"
    verdict.answers.append((REPAIRED, told))


CANNOT = "cannot be told"


def _judged(single: Sequence[Change], briefly: bool) -> tuple[str, str]:
    """What the repair did, in a word, and on which axes."""
    by = {kind: [c for c in single if c.told == kind] for kind in (SMALLER, LARGER, SAME, UNCLEAR)}
    # what was inside the margin needed no help, and what is still inside it is no harm
    fell, rose = [c for c in by[SMALLER] if not c.was_small], [c for c in by[LARGER] if not c.gone]
    todo = [c for c in single if not c.was_small]
    if fell and rose:
        word = f"helped on {joined([c.about for c in fell])} and did harm on {joined([c.about for c in rose])}"
    elif rose:
        word = "made things worse"
    elif not todo:
        word = "had nothing to repair"
    elif fell and all(c in fell and c.gone for c in todo):
        word = "worked"
    elif fell:
        word = "helped, but not fully"
    elif all(c.told == SAME for c in todo):
        word = "made no difference"
    else:
        word = CANNOT
    telling = [*fell, *rose] or todo or list(single)
    rest = [c for c in todo if c not in telling]
    parts = [_part(c, briefly) for c in telling]
    for axis in dict.fromkeys(c.axis for c in rest):  # an axis of three groups has three pairs: one word for all
        mine = [c for c in rest if c.axis == axis]
        kinds = {c.told for c in mine}
        said = _WORDS[mine[0].told] if len(kinds) == 1 else _WORDS[UNCLEAR]
        parts.append(f"on {mine[0].about if len(mine) == 1 else axis_name(axis)} it {said}")
    return word, "; ".join(parts)


_WORDS = {SAME: "made no difference", UNCLEAR: "made no clear difference", SMALLER: "helped", LARGER: "did harm"}


def _part(change: Change, briefly: bool) -> str:
    margin = "" if briefly else margin_text(change.left.metric, change.spreads)
    where = f", {'' if change.gone else 'not shown to be '}inside the margin of {margin}" if margin else ""
    what = "the gap" if "gap" in change.left.metric else "the lean"
    # without intervals, which the answer below the paragraph gives
    before, after = (amount_of(reading.size, reading.metric) for reading in (change.was, change.left))
    return f"on {change.about} {what} went from {before} to {after}{where}"


def _tested(repair: Repair, single: Sequence[Change]) -> str:
    """Whether it was judged on subjects it had not seen: only as its ``fitted_on`` says."""
    seen = seen_before(repair.after)
    n = max((c.difference.n for c in single if c.difference is not None), default=0)
    if seen is None:
        return ""
    if seen[0] == 0:
        return f", tested on {plural(n or seen[1], 'subject')} that it had not seen"
    if seen[0] == seen[1]:
        return ", tested on the very subjects it was fitted on, which flatters it"
    return f", tested on {plural(seen[1], 'subject')} of which it was fitted on {seen[0]}, which flatters it"


def _from_to(change: Change) -> str:
    text = f"{size_words(change.was)} to {size_words(change.left)}"
    d = change.difference
    if d is None:
        return f"{text} (not paired, so not tested)"
    span = "" if d.ci_low is None or d.ci_high is None else f" [{signed(-d.ci_high)}, {signed(-d.ci_low)}]"
    return f"{text} (after - before, paired: {signed(-d.value)}{span}, {change.p_told}, {plural(d.n, 'subject')})"


def shown(judgements: Sequence[AxisJudgement]) -> list[AxisJudgement]:
    """The judgements that a paragraph tells: single axes, and intersections that lean where no single axis does."""
    single = [j for j in judgements if not j.joint]
    leaning = any(j.outcome is Conclusion.LEANS for j in single)
    joint = [j for j in judgements if j not in single and j.outcome is Conclusion.LEANS and not leaning]
    return sorted([*single, *joint], key=list(judgements).index) or list(judgements)


def beside(
    other: Series,
    its: Sequence[AxisJudgement],
    first: Series | None = None,
    judgements: Sequence[AxisJudgement] = (),
    ending: str = "",
) -> str:
    """One sentence on another model, on the axis that the first leans on most, if it has that."""
    about = judgements[0].about if judgements else its[0].about
    mine = next((j for j in its if j.about == about), its[0])
    than = next((j for j in judgements if j.about == mine.about), None)
    begin = f"For comparison, {other.label}" if first is not None else other.label
    asked = (
        "asked the same" if first is None or _same_questions(first, other) else "asked about other pictures or subjects"
    )
    text = f"{begin}, {asked}, {_outcome(mine, _against(mine, than, first))}"
    placebo = placebo_words(mine, other) if mine.outcome is Conclusion.LEANS else ""
    text += f"; that is {placebo}" if placebo else ""
    return f"{text}{ending}."


def _outcome(judgement: AxisJudgement, against: str) -> str:
    """The outcome with its size; ``against`` is what the first model has."""
    size = f"{size_words(judgement.rests_on)}{against}"
    margin = margin_text(judgement.rests_on.metric, judgement.spreads)
    if judgement.outcome is Conclusion.LEANS:
        way = judgement.direction
        pair = None if way is None else sides(way.row)
        twins = way is not None and way.metric in SET_METRICS
        if judgement.biased and pair and way is not None and twins and judgement.truth is None:
            # among three groups the pair with the largest gap may have no direction, and another one have it
            pairs = {r.row["group"] for r in (way, judgement.rests_on) if isinstance(r.row["group"], str)}
            by, about = (size, judgement.about) if len(pairs) < 2 else (size_words(way), way.row["about"])
            return f"prefers pictures labelled {pair[0]} to their twins by {by} on {about}"
        if judgement.biased:
            towards = "" if way is None or twins else in_words(way.row)
            return f"is biased by {judgement.about} ({size} beyond chance{f', {towards}' if towards else ''})"
        whom = f", in favour of pictures labelled {pair[0]}" if pair else ", with no common direction over subjects"
        return f"is not shown to be biased: it reacts to the visible difference in {judgement.about} by {size}{whom}"
    if judgement.outcome is Conclusion.TOO_SMALL:
        return f"shows by {judgement.about} what is too small to matter ({size}, inside the margin of {margin})"
    if judgement.outcome is Conclusion.NOTHING:
        least = judgement.rests_on.smallest
        would = f"; {amount_of(least, judgement.rests_on.metric)} would have been found" if least else ""
        return f"shows nothing by {judgement.about} ({size}{would})"
    name = metric_name(judgement.rests_on.metric, judgement.rests_on.row["k"])
    than = f", where the margin is {margin}" if margin else ""
    return f"cannot be judged by {judgement.about} ({name}: {size}{than})"


def _same_questions(first: Series, other: Series) -> bool:
    """Whether two audits asked about the same subjects under the same suite, and as far as is known of one table."""
    tables = {series.source.fingerprint for series in (first, other)} - {None}
    alike = all(
        set(first.results[name].dropna().astype(str)) == set(other.results[name].dropna().astype(str))
        for name in ("suite", "subject")
    )
    return alike and len(tables) < 2


def _which(reading: Reading) -> tuple[object, ...]:
    """What a number is of: two with the same can be set side by side."""
    return tuple(None if pd.isna(reading.row[name]) else reading.row[name] for name in ("metric", "group", "k"))


def _against(mine: AxisJudgement, than: AxisJudgement | None, first: Series | None) -> str:
    """What the first model has, in the same unit."""
    if than is None or first is None:
        return ""
    wanted = _which(mine.rests_on)
    theirs = next((r for r in than.readings if _which(r) == wanted), None)
    return "" if theirs is None else f" ({first.label}: {amount_of(theirs.size, theirs.metric)})"
