"""Sizes in words that a person can use: spreads, sets of a hundred, fair shares, points; always with their interval."""

from __future__ import annotations

import math

import pandas as pd

from equipoise.formatting import amount, count, factor, p_text, percent, plural
from equipoise.measure.notes import facts_of, pair_of
from equipoise.measure.sides import in_words, sides
from equipoise.report.findings import OF_RETRIEVAL, metric_name, perceived
from equipoise.report.sources import Series
from equipoise.report.verdict.judging import AxisJudgement, placebos
from equipoise.report.verdict.outcomes import Conclusion, Reading, margin_text

SPREAD = "a spread: how far the scores of one group's pictures lie apart from set to set"
_SPREADS = ("standard_gap", "standard_gap_size", "placebo_excess")


def amount_of(value: float, metric: str) -> str:
    """A distance from chance with its unit; of ranks inside sets where it lies, as their margin is told: luck gives 50.

    >>> amount_of(0.31, "standard_gap_size"), amount_of(0.2, "max_skew"), amount_of(0.123, "recall_gap")
    ('0.31 spreads', '1.22 times the share that luck gives', '12.3 points')
    >>> amount_of(0.14, "outranks"), margin_text("outranks")
    ('64 of 100 sets', '56 of 100 sets')
    """
    if metric in _SPREADS:
        return f"{amount(value)} spreads"
    if metric == "max_skew":
        return f"{math.exp(min(value, 700)):.2f} times the share that luck gives"
    if metric in ("lic", "lic_m", "lic_d"):
        return f"{amount(value, 1)} points"
    if metric == "outranks":
        return f"{amount(100 * min(0.5 + value, 1.0), 0)} of 100 sets"
    if metric == "leakage_amplification":
        return f"{amount(100 * value, 1)} points"
    if metric == "artefact_delta":
        return f"{amount(value, 1)} percent"
    return f"{amount(100 * value, 1)} points" if margin_text(metric).endswith("points") else amount(value, 3)


def bracket(reading: Reading) -> str:
    """The interval of a size in brackets, in its unit, without the unit's name; empty where there is none.

    >>> row = pd.Series({"metric": "standard_gap", "value": 0.5})
    >>> bracket(Reading(row, 0.5, 0.4, 0.6, 0.2, None, 0.01))
    ' [0.40, 0.60]'
    """
    if reading.low is None or reading.high is None:
        return ""
    low, high = (amount_of(end, reading.metric).split(" ")[0] for end in (reading.low, reading.high))
    return f" [{low}, {high}]"


def size_words(reading: Reading) -> str:
    """A size with its interval.

    >>> row = pd.Series({"metric": "standard_gap", "value": 0.5})
    >>> size_words(Reading(row, 0.5, 0.4, 0.6, 0.2, None, 0.01))
    '0.50 spreads [0.40, 0.60]'
    """
    return amount_of(reading.size, reading.metric) + bracket(reading)


def size_sentence(judgement: AxisJudgement, *, example: str = "", things: str = "pictures") -> str:
    """How large it is, in sets of a hundred and in spreads, or as a share; the level of the intervals comes with it."""
    reading = judgement.rests_on
    level = f"{percent(judgement.level)} intervals in brackets"
    if reading.metric in _SPREADS:
        # the same as a share of the first pictures, where that too is beyond chance
        skew = next((r for r in judgement.readings if r.metric == "max_skew" and r.detected), None)
        second = "" if skew is None else f" {_share_sentence(skew, '', things, short=True)}."
        return f"{_gap_sentence(judgement)} ({SPREAD}; {level}).{second}"
    if reading.metric == "max_skew":
        return f"{_share_sentence(reading, example, things)} ({level})."
    margin = margin_text(reading.metric, judgement.spreads)
    if reading.metric == "outranks" and (pair := sides(reading.row)):
        often = _of_100(reading, pair[0])[1]
        return (
            f"A picture labelled {pair[0]} outranks its twin labelled {pair[1]} in {often}, where chance gives 50 "
            f"({level}); the margin is {margin}."
        )
    name, way_told = metric_name(reading.metric, reading.row["k"]), in_words(reading.row)
    return (
        f"Its {name} on {reading.row['about']} is {size_words(reading)} from what chance gives"
        f"{f', {way_told}' if way_told else ''} ({level}); the margin is {margin}."
    )


def _gap_sentence(judgement: AxisJudgement) -> str:
    way = judgement.direction
    pair = None if way is None else sides(way.row)
    if way is None or pair is None:
        return (
            f"Twins that differ in {judgement.about} alone score {size_words(judgement.rests_on)} apart, whichever of "
            "them comes first"
        )
    first, second = pair
    ranks = next((r for r in judgement.readings if r.metric == "outranks" and r.row["group"] == way.row["group"]), None)
    apart = f"lie {size_words(way)} apart" if way.metric in _SPREADS else "differ"
    if ranks is None:
        return f"Pictures labelled {first} come before their twins labelled {second}: their scores {apart}"
    share, often = _of_100(ranks, first)
    if share < 0.5:  # a few large gaps one way, many small ones the other
        return (
            f"Pictures labelled {first} score higher than their twins labelled {second} on average, but come before "
            f"them in only {often}; their scores {apart}"
        )
    return f"A picture labelled {first} outranks its twin labelled {second} in {often}; their scores {apart}"


def _of_100(ranks: Reading, group: str) -> tuple[float, str]:
    """The share of sets in which ``group``, one of the two, comes first, and the same in words.

    >>> row = pd.Series({"metric": "outranks", "value": 0.29, "null_mean": 0.5, "ci_low": 0.22, "ci_high": 0.36,
    ...     "group": "a - b"})
    >>> _of_100(Reading(row, 0.21, 0.14, 0.28, 0.056, None, 0.001), "b")[1]
    '71 of 100 sets [64, 78]'
    """
    row, pair = ranks.row, pair_of(ranks.row)
    turn = pair is not None and pair[0] != group
    share = 1 - row["value"] if turn else row["value"]
    if ranks.low is None:
        return share, f"{100 * share:.0f} of 100 sets"
    low, high = (1 - row["ci_high"], 1 - row["ci_low"]) if turn else (row["ci_low"], row["ci_high"])
    return share, f"{100 * share:.0f} of 100 sets [{100 * max(low, 0):.0f}, {100 * min(high, 1):.0f}]"


def _share_sentence(reading: Reading, example: str, things: str, *, short: bool = False) -> str:
    row = reading.row
    first = f"first {things}" if pd.isna(row["k"]) else f"first {int(row['k'])} {things}"
    group = "group" if " x " in str(row["axis"]) else perceived(row["axis"])
    span = ""
    if not short and reading.low is not None and reading.high is not None:
        span = f" [{math.exp(row['ci_low']):.1f}, {math.exp(min(row['ci_high'], 700)):.1f}]"
    share = f"one {group} has {factor(row['value'])} its fair share{span}, where luck gives {factor(row['null_mean'])}"
    if short:
        return f"Among its {first} {share}"
    such = f" such as {example}" if example else ""
    return f"Asked for a subject{such} with no group named, among its {first} {share}"


def reach(reading: Reading, spreads: float) -> str:
    """What an interval leaves open, and what this n would have found."""
    margin = margin_text(reading.metric, spreads, reading.n_groups)
    if reading.high is None:
        return "the number has no interval, so it could be anything"
    most = amount_of(reading.high, reading.metric)
    text = f"up to {most} cannot be ruled out{f', where {margin} is the margin' if margin else ''}"
    wanted = reading.outcome is Conclusion.NOTHING or (reading.smallest or 0) > (reading.margin or 0)
    if wanted and reading.smallest is not None and math.isfinite(reading.smallest):
        text += f"; an audit of this size finds {amount_of(reading.smallest, reading.metric)} four times in five"
    return text


def passed_over_words(judgement: AxisJudgement) -> str:
    """Why the outcome rests on this number and not on the one that is usually looked at first; empty where it does."""
    other, reading = judgement.passed_over, judgement.rests_on
    if other is None:
        return ""
    usual, name = (metric_name(r.metric, r.row["k"]) for r in (other, reading))
    how = "is beyond chance too" if other.detected else "is within chance"
    return (
        f"The verdict rests on {name} and not on {usual}, which comes first elsewhere: {usual} {how}, at "
        f"{size_words(other)} with a margin of {margin_text(other.metric, judgement.spreads)}, and one number that is "
        "clearly beyond its margin is enough."
    )


def placebo_words(judgement: AxisJudgement, series: Series, *, short: bool = False) -> str:
    """How the reaction compares with that to what nobody calls a group; empty where nothing was compared.

    ``short`` leaves out by how many spreads, where it says how many times.
    """
    if judgement.placebo is None:
        return ""
    names, excess = placebos(series), judgement.placebo
    if not judgement.above_placebo and float(excess.row["value"]) <= 0:
        return f"no more than to {names}"
    if not judgement.above_placebo:  # larger here, and it may be luck: say by how much
        row, span = excess.row, ""
        if pd.notna(row["ci_low"]) and row["ci_low"] <= 0:  # the test is the more cautious of the two: never gainsay it
            span = f" [{amount(row['ci_low'])}, {amount(row['ci_high'])}]"
        by = f"{amount_of(excess.size, excess.metric)}{span} more, {p_text(row['p_value'])}"
        return f"not clearly more than to {names} ({by})"
    more = f"{size_words(excess)} more than to {names}"
    own, beside = _beside_placebo(judgement)
    if beside > judgement.spreads / 4:
        more = f"{own / beside:.1f} times as much as to {names}"
        more += "" if short else f" ({size_words(excess)} more)"
    return more


def _beside_placebo(judgement: AxisJudgement) -> tuple[float, float]:
    """The size of the axis and that of its placebos, as the row gives them, or from the sizes themselves."""
    excess = judgement.placebo
    assert excess is not None
    facts = facts_of(excess.row, "beside_placebos")
    if facts is not None:
        return float(facts["size"]), float(facts["beside"])
    gaps = [r.size for r in judgement.readings if r.metric == "standard_gap_size"]
    return (gaps[0], gaps[0] - float(excess.row["value"])) if gaps else (0.0, 0.0)


def rests_on(judgement: AxisJudgement, unit: str = "subject") -> str:
    """The row that a judgement rests on, with its numbers; ``unit``: what was asked about."""
    row = judgement.rests_on.row
    name = metric_name(judgement.rests_on.metric, row["k"])
    where = f" on {judgement.pool} pictures" if judgement.pool else ""
    span = ""
    if judgement.rests_on.low is not None:
        span = f" ({percent(judgement.level)} interval {amount(row['ci_low'])} to {amount(row['ci_high'])})"
    both = ", both" if judgement.rests_on.has_tail else ""
    towards = f", {told}" if (told := in_words(row)) else ""
    sources = facts_of(row, "sources")
    of_unit = judgement.subjects or (unit == "prompt" and judgement.rests_on.metric in OF_RETRIEVAL)
    units = plural(row["n"], unit if of_unit else "unit")
    units = f"{count(row['n'])} queries from {plural(sources['sources'], 'source')}" if sources else units
    return (
        f"{judgement.about}{where}: {name} {amount(row['value'])}{span} where chance gives {amount(row['null_mean'])}"
        f"{towards}, {judgement.rests_on.p_told}{both} corrected for {_numbers(judgement.looked_at)}, {units}"
    )


def _numbers(n: int) -> str:
    return "this number alone" if n == 1 else f"the {count(n)} numbers looked at (Holm)"
