"""What was put in, and whether the audit found it, in words."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.formatting import amount, interval, joined, plural, signed
from equipoise.report.findings import axis_name
from equipoise.report.sources import Series
from equipoise.report.truth import Recovered
from equipoise.report.verdict.judging import PUT_IN, BiasVerdict

__all__ = ["add_truth", "not_put_in"]


def add_truth(verdict: BiasVerdict, truths: Sequence[Recovered], label: str) -> None:
    """Add what is known of the truth: the axis with most put in as a sentence, every axis as an answer."""
    mine = [recovery for recovery in truths if recovery.label == label and recovery.correlation is not None]
    flat = [recovery for recovery in truths if recovery.label == label and recovery.correlation is None]
    if not mine:
        if flat:
            text = _no_correlation(max(flat, key=_strength))
            verdict.sentences.append(text)
            verdict.answers.append((PUT_IN, text))
        return
    ordered = sorted(mine, key=_strength, reverse=True)
    agreeing = [recovery for recovery in ordered if _agrees(recovery)]
    numbers = joined([f"{_r(some)} on {axis_name(some.axis)}" for some in (agreeing or ordered[:1])])
    text = f"the audit finds it: measured and true preferences correlate at {numbers}" if agreeing else ""
    text = text or f"the audit does not clearly find it (correlation {numbers})"
    verdict.sentences.append(f"A bias was put in on purpose, and {text}.")
    verdict.answers.append((PUT_IN, " ".join(_in_full(some) for some in ordered)))


def not_put_in(other: Series, truths: Sequence[Recovered]) -> str:
    """That what another model prefers does not follow the truth, where that is so."""
    mine = [recovery for recovery in truths if recovery.label == other.label and recovery.correlation is not None]
    if not mine or any(_agrees(recovery) for recovery in mine):
        return ""
    return "; what it prefers does not follow the bias that was put in"


def _strength(recovery: Recovered) -> float:
    return float(recovery.table["injected"].abs().max())


def _agrees(recovery: Recovered) -> bool:
    return recovery.interval is not None and recovery.interval[0] > 0


def _r(recovery: Recovered) -> str:
    span = "" if recovery.interval is None else f" [{amount(recovery.interval[0])}, {amount(recovery.interval[1])}]"
    return f"{amount(recovery.correlation)}{span}"


def _in_full(recovery: Recovered) -> str:
    low, high = recovery.table.iloc[0], recovery.table.iloc[-1]
    right, of = recovery.same_direction
    where = "" if recovery.interval is None else f", 95% interval {interval(*recovery.interval)}"
    verb = "agree" if _agrees(recovery) else "do not clearly agree"
    return (
        f"On {axis_name(recovery.axis)}, the log-odds of {recovery.pair[0]} rather than {recovery.pair[1]} were set "
        f"between {signed(low['injected'], 1)} ({low['subject']}) and {signed(high['injected'], 1)} "
        f"({high['subject']}). Measured and true preferences {verb}: correlation {amount(recovery.correlation)}"
        f"{where}, and the direction is right for {right} of {plural(of, 'subject')}."
    )


def _no_correlation(recovery: Recovered) -> str:
    """What can be said of a truth that measured preferences cannot be correlated with."""
    low, high = recovery.table["injected"].min(), recovery.table["injected"].max()
    if max(abs(low), abs(high)) < 1e-9:
        return "The truth is known here: nothing was put into what the model learned from."
    right, of = recovery.same_direction
    first, second = recovery.pair
    put_in = f"log-odds of {first} rather than {second}: {signed(low, 1)}"
    if high - low < 1e-9:
        return (
            f"The truth is known, because a bias was put in on purpose, the same into every subject ({put_in}): the "
            f"direction is right for {right} of {plural(of, 'subject')}, and how far the audit follows its size cannot "
            "be said."
        )
    return (
        f"The truth is known, because a bias was put in on purpose ({put_in} to {signed(high, 1)}), but what was "
        "measured is the same for every subject: the audit does not find it."
    )
