"""What was put in, and whether the audit found it, in words."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.formatting import amount, interval, joined, plural, signed
from equipoise.report.findings import axis_name
from equipoise.report.sources import Series
from equipoise.report.truth import Recovered
from equipoise.report.verdict.judging import PUT_IN, BiasVerdict

__all__ = ["add_truth", "not_put_in"]


def add_truth(made: BiasVerdict, truths: Sequence[Recovered], label: str) -> None:
    """Add what is known of the truth: the axis with most put in as a sentence, every axis as an answer."""
    mine = [one for one in truths if one.label == label and one.correlation is not None]
    flat = [one for one in truths if one.label == label and one.correlation is None]
    if not mine:
        if flat:
            told = _no_correlation(max(flat, key=_strength))
            made.sentences.append(told)
            made.answers.append((PUT_IN, told))
        return
    ordered = sorted(mine, key=_strength, reverse=True)
    found = [one for one in ordered if _agrees(one)]
    one = ordered[0]
    low, high = one.table.iloc[0], one.table.iloc[-1]
    numbers = joined([f"{_r(some)} on {axis_name(some.axis)}" for some in (found or ordered[:1])])
    told = f"the audit finds it: measured and true preferences correlate at {numbers}" if found else ""
    told = told or f"the audit does not clearly find it (correlation {numbers})"
    made.sentences.append(
        f"The truth is known, because a bias was put in on purpose ({high['subject']} towards {one.pair[0]}, "
        f"{low['subject']} towards {one.pair[1]}, and so on), and {told}."
    )
    made.answers.append((PUT_IN, " ".join(_in_full(some) for some in ordered)))


def not_put_in(other: Series, truths: Sequence[Recovered]) -> str:
    """That what another model prefers does not follow the truth, where that is so."""
    mine = [one for one in truths if one.label == other.label and one.correlation is not None]
    if not mine or any(_agrees(one) for one in mine):
        return ""
    return "; what it prefers does not follow the bias that was put in"


def _strength(one: Recovered) -> float:
    return float(one.table["injected"].abs().max())


def _agrees(one: Recovered) -> bool:
    return one.interval is not None and one.interval[0] > 0


def _r(one: Recovered) -> str:
    span = "" if one.interval is None else f" [{amount(one.interval[0])}, {amount(one.interval[1])}]"
    return f"{amount(one.correlation)}{span}"


def _in_full(one: Recovered) -> str:
    low, high = one.table.iloc[0], one.table.iloc[-1]
    right, of = one.same_direction
    where = "" if one.interval is None else f", 95% interval {interval(*one.interval)}"
    verb = "agree" if _agrees(one) else "do not clearly agree"
    return (
        f"On {axis_name(one.axis)}, the log-odds of {one.pair[0]} rather than {one.pair[1]} were set between "
        f"{signed(low['injected'], 1)} ({low['subject']}) and {signed(high['injected'], 1)} ({high['subject']}). "
        f"Measured and true preferences {verb}: correlation {amount(one.correlation)}{where}, and the direction "
        f"is right for {right} of {plural(of, 'subject')}."
    )


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
            f"direction is right for {right} of {plural(of, 'subject')}, and how far the audit follows its size cannot "
            "be said."
        )
    return (
        f"The truth is known, because a bias was put in on purpose ({put_in} to {signed(high, 1)}), but what was "
        "measured is the same for every subject: the audit does not find it."
    )
