"""What was put in on purpose, or stated beforehand, and whether the audit finds it."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.formatting import amount, interval, joined, plural, signed
from equipoise.measure.stats import holm
from equipoise.report.findings import LEVEL, axis_name
from equipoise.report.sources import Series
from equipoise.report.truth import Recovered
from equipoise.report.verdict.judging import PUT_IN, STATED, BiasVerdict


def add_truth(verdict: BiasVerdict, truths: Sequence[Recovered], label: str) -> None:
    """Add what is known of the truth: the axis with most put in as a sentence, every axis as an answer."""
    mine = [recovery for recovery in truths if recovery.label == label and recovery.correlation is not None]
    flat = [recovery for recovery in truths if recovery.label == label and recovery.correlation is None]
    if not mine:
        if flat:
            text = _no_correlation(max(flat, key=_strength))
            verdict.sentences.append(text)
            verdict.answers.append((_asked(flat[0]), text))
        return
    ordered = sorted(mine, key=_strength, reverse=True)
    agreeing = _agreeing(ordered)
    numbers = joined([f"{_r(some)} on {axis_name(some.axis)}" for some in (agreeing or ordered[:1])])
    verdict.sentences.append(_told_of(ordered[0], numbers, agree=bool(agreeing)))
    verdict.answers.append(
        (_asked(ordered[0]), " ".join(_in_full(some, agree=any(some is each for each in agreeing)) for some in ordered))
    )


def _asked(recovery: Recovered) -> str:
    return STATED if recovery.stated else PUT_IN


def _told_of(recovery: Recovered, numbers: str, *, agree: bool) -> str:
    """Whether what was measured follows the truth; of what was only stated, not that somebody put it in."""
    if recovery.stated:
        follows = "follow" if agree else "do not clearly follow"
        return f"Measured preferences {follows} those that were stated (correlation {numbers})."
    if agree:
        return (
            "A bias was put in on purpose, and the audit finds it: measured and true preferences correlate at "
            f"{numbers}."
        )
    return f"A bias was put in on purpose, and the audit does not clearly find it (correlation {numbers})."


def not_put_in(other: Series, truths: Sequence[Recovered]) -> str:
    """That what another model prefers does not follow the truth, where that is so."""
    mine = [recovery for recovery in truths if recovery.label == other.label and recovery.correlation is not None]
    if not mine or _agreeing(mine):
        return ""
    return f"; what it prefers does not follow {'what' if mine[0].stated else 'the bias that'} was {mine[0].called}"


def _strength(recovery: Recovered) -> float:
    return float(recovery.table["injected"].abs().max())


def _agreeing(recoveries: Sequence[Recovered]) -> list[Recovered]:
    """Those that what was measured follows, after one correction (Holm) for all axes."""
    known = [None if some.estimate is None else some.estimate.p_value for some in recoveries]
    p = holm([1.0 if at is None else at for at in known])
    intervals = [some.interval for some in recoveries]
    return [
        some
        for some, at, ends in zip(recoveries, p, intervals, strict=True)
        if at < LEVEL and ends is not None and ends[0] > 0
    ]


def _r(recovery: Recovered) -> str:
    span = "" if recovery.interval is None else f" [{amount(recovery.interval[0])}, {amount(recovery.interval[1])}]"
    return f"{amount(recovery.correlation)}{span}"


def _in_full(recovery: Recovered, *, agree: bool) -> str:
    low, high = recovery.table.iloc[0], recovery.table.iloc[-1]
    right, of = recovery.same_direction
    where = "" if recovery.interval is None else f", 95% interval {interval(*recovery.interval)}"
    verb = "agree" if agree else "do not clearly agree"
    given, true = ("stated", "stated") if recovery.stated else ("set", "true")
    first, second = recovery.pair
    return (
        f"On {axis_name(recovery.axis)}, the log-odds of {first} rather than {second} were {given} between "
        f"{signed(low['injected'], 1)} ({low['subject']}) and {signed(high['injected'], 1)} "
        f"({high['subject']}). Measured and {true} preferences {verb}: correlation {amount(recovery.correlation)}"
        f"{where}, and the direction is right for {right} of {plural(of, 'subject')}."
    )


def _no_correlation(recovery: Recovered) -> str:
    """What can be said of a truth that measured preferences cannot be correlated with."""
    low, high = recovery.table["injected"].min(), recovery.table["injected"].max()
    if max(abs(low), abs(high)) < 1e-9:
        if recovery.stated:
            return "It was stated that no subject leans, so that there is nothing to follow."
        return "The truth is known here: nothing was put into what the model learned from."
    right, of = recovery.same_direction
    first, second = recovery.pair
    put_in = f"log-odds of {first} rather than {second}: {signed(low, 1)}"
    known = "A bias was stated" if recovery.stated else "The truth is known, because a bias was put in on purpose"
    if high - low < 1e-9:
        same = "of" if recovery.stated else "into"
        return (
            f"{known}, the same {same} every subject ({put_in}): the direction is right for {right} of "
            f"{plural(of, 'subject')}, and how far the audit follows its size cannot be said."
        )
    return (
        f"{known} ({put_in} to {signed(high, 1)}), but what was measured is the same for every subject: the audit does "
        "not find it."
    )
