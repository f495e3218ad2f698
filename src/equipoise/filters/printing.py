"""The filter report in lines for a person."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from equipoise.filters.funnel import StepOutcome, TestedStep

__all__ = ["report_text"]

_MOST = 3


def report_text(funnel: pd.DataFrame, tests: Sequence[TestedStep], outcomes: Sequence[StepOutcome]) -> str:
    """The funnel, what each step did to the groups, who lost most, and the alarms."""
    lines = [_line("step", "images", "kept", "dropped", "", "sets", "kept", "dropped")]
    for outcome in outcomes:
        images = _total(funnel, outcome.label, "image")
        sets = _total(funnel, outcome.label, "set")
        share = f"{images[1] / max(1, sum(images)):.1%}"
        told = ("", "", "") if sets is None or not sum(sets) else (f"{sum(sets):,}", f"{sets[0]:,}", f"{sets[1]:,}")
        lines.append(_line(outcome.label, f"{sum(images):,}", f"{images[0]:,}", f"{images[1]:,}", share, *told))
    lines += _group_lines(tests)
    lines += _subject_lines(funnel, outcomes)
    lines += ["", *_alarm_lines(tests, outcomes)]
    for outcome in outcomes:
        lines += [f"note: {outcome.label}: {note}" for note in outcome.notes]
    return "\n".join(lines)


def _line(*cells: str) -> str:
    widths = (22, 12, 12, 12, 8, 10, 10, 10)
    parts = [
        f"{cells[0]:{widths[0]}}",
        *(f"{cell:>{width}}" for cell, width in zip(cells[1:], widths[1:], strict=True)),
    ]
    return "".join(parts).rstrip()


def _total(funnel: pd.DataFrame, step: str, unit: str) -> tuple[int, int]:
    mine = funnel[(funnel["step"] == step) & (funnel["axis"] == "") & (funnel["unit"] == unit)]
    return int(mine["kept"].sum()), int(mine["dropped"].sum())


def _group_lines(tests: Sequence[TestedStep]) -> list[str]:
    if not tests:
        return []
    lines = ["", "by group: share that failed (fail) or went (drop), what would be even within sets or subjects, p"]
    for one in tests:
        shown = sorted(
            zip(one.test.names, one.test.rates, one.test.expected, one.test.p_group, strict=True),
            key=lambda row: row[2] - row[1],
        )
        if len(shown) > 2 * _MOST:
            shown = [*shown[:_MOST], *shown[-_MOST:]]
        told = "; ".join(f"{name} {rate:.1%} ({even:.1%}, p {_p(p)})" for name, rate, even, p in shown)
        mark = "!" if one.alarm else " "
        lines.append(f"{mark} {one.step:<16} {one.test.axis} {one.what}: {told}")
    return lines


def _subject_lines(funnel: pd.DataFrame, outcomes: Sequence[StepOutcome]) -> list[str]:
    mine = funnel[(funnel["axis"] == "") & (funnel["unit"] == "image") & (funnel["subject"] != "")]
    if mine["subject"].nunique() < 2:
        return []
    lines = ["", "by subject: who loses most"]
    for outcome in outcomes:
        part = mine[mine["step"] == outcome.label]
        share = part["dropped"] / (part["dropped"] + part["kept"]).clip(lower=1)
        worst = share.sort_values(ascending=False, kind="stable").index[:_MOST]
        told = ", ".join(f"{part.loc[i, 'subject']} {share[i]:.0%}" for i in worst if share[i] > 0)
        lines.append(f"  {outcome.label:<16} {told or 'nobody'}")
    return lines


def _alarm_lines(tests: Sequence[TestedStep], outcomes: Sequence[StepOutcome]) -> list[str]:
    alarms = [one for one in tests if one.alarm]
    lines = []
    for one in alarms:
        test = one.test
        at = test.names.index(test.worst)
        verb = "fails" if one.what == "fail" else "drops"
        lines.append(
            f"BIASED: {one.step} {verb} {test.axis} {test.worst} in {test.rates[at]:.1%} of {int(test.n[at]):,} "
            f"images, {one.side} the {test.expected[at]:.1%} that would be even within {test.within} "
            f"(p {_p(one.p_corrected)}, corrected for {len(tests)} tests)"
        )
    if not alarms and tests:
        lines.append(f"no step is found to treat groups differently ({len(tests)} tests, 5% for all together)")
    if not tests:
        lines.append(f"no step could be tested for bias: {_why_untested(outcomes)}")
    return lines


def _why_untested(outcomes: Sequence[StepOutcome]) -> str:
    if not any(outcome.failed.any() or outcome.dropped.any() for outcome in outcomes):
        return "nothing failed"
    return (
        "no set, source or subject has images of two groups, alike on the other axes, of which some failed and some "
        "did not"
    )


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"
