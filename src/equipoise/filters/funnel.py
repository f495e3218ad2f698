"""What each step left and dropped, by group and by subject, and whether it was even-handed.

The filter report in lines for a person.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.labels import set_numbers
from equipoise.engine.progress import Heartbeat
from equipoise.filters.bias import BiasTest, bias_test
from equipoise.filters.bias_strata import held_axes, paired_columns, strata_of
from equipoise.formatting import brackets, p_plain, plain, text_table
from equipoise.measure.groups import Groups, intersect
from equipoise.measure.notes import note
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import holm
from equipoise.pace import stages
from equipoise.text.labels import read_labels

_MOST = 3


def report_text(funnel: pd.DataFrame, tests: Sequence[TestedStep], outcomes: Sequence[StepOutcome]) -> str:
    """The funnel, what each step did to the groups, who lost most, and the alarms."""
    lines = [_line("step", "images", "kept", "dropped", "", "sets", "kept", "dropped")]
    for outcome in outcomes:
        images = _total(funnel, outcome.label, "image")
        sets = _total(funnel, outcome.label, "set")
        share = f"{images[1] / max(1, sum(images)):.1%}"
        counts = (f"{sum(sets):,}", f"{sets[0]:,}", f"{sets[1]:,}") if sum(sets) else ("", "", "")
        lines.append(_line(outcome.label, f"{sum(images):,}", f"{images[0]:,}", f"{images[1]:,}", share, *counts))
    lines += _group_lines(tests)
    lines += _subject_lines(funnel, outcomes)
    lines += _figure_lines(outcomes)
    lines += ["", *_alarm_lines(tests, outcomes)]
    for outcome in outcomes:
        lines += [f"note: {outcome.label}: {note}" for note in outcome.notes]
    return "\n".join(lines)


def _figure_lines(outcomes: Sequence[StepOutcome]) -> list[str]:
    """What steps measured besides (``quality``: distances and how varied the images are), one figure per line."""
    rows = [(outcome.label, row) for outcome in outcomes for row in outcome.rows]
    if not rows:
        return []
    cells = [["measured by", "metric", "axis", "group", "value", "chance", "interval", "n"]]
    for label, row in rows:
        texts = [str(row.get(name) or "") for name in ("metric", "axis", "group")]
        numbers = [plain(row.get("value")), plain(row.get("null_mean"))]
        interval = brackets(row.get("ci_low"), row.get("ci_high"))
        cells.append([label, *texts, *numbers, interval, str(row.get("n") or "")])
    return ["", *text_table(cells, range(4), 40)]


def _line(step: str, *cells: str) -> str:
    widths = (12, 12, 12, 8, 10, 10, 10)
    return "".join([f"{step:22}", *(f"{cell:>{n}}" for cell, n in zip(cells, widths, strict=True))]).rstrip()


def _total(funnel: pd.DataFrame, step: str, unit: str) -> tuple[int, int]:
    mine = funnel[(funnel["step"] == step) & (funnel["axis"] == "") & (funnel["unit"] == unit)]
    return int(mine["kept"].sum()), int(mine["dropped"].sum())


def _group_lines(tests: Sequence[TestedStep]) -> list[str]:
    if not tests:
        return []
    lines = ["", "by group: share that failed (fail) or went (drop), what would be even within sets or subjects, p"]
    for tested in tests:
        shown = sorted(
            zip(tested.test.names, tested.test.rates, tested.test.expected, tested.test.p_group, strict=True),
            key=lambda row: row[2] - row[1],
        )
        if len(shown) > 2 * _MOST:
            shown = [*shown[:_MOST], *shown[-_MOST:]]
        rates = "; ".join(f"{name} {rate:.1%} ({even:.1%}, p {p_plain(p)})" for name, rate, even, p in shown)
        mark = "!" if tested.alarm else " "
        lines.append(f"{mark} {tested.step:<16} {tested.test.axis} {tested.what}: {rates}")
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
        losses = ", ".join(f"{part.loc[i, 'subject']} {share[i]:.0%}" for i in worst if share[i] > 0)
        lines.append(f"  {outcome.label:<16} {losses or 'nobody'}")
    return lines


def _alarm_lines(tests: Sequence[TestedStep], outcomes: Sequence[StepOutcome]) -> list[str]:
    alarms = [alarm for alarm in tests if alarm.alarm]
    lines = []
    for alarm in alarms:
        test = alarm.test
        at = test.names.index(test.worst)
        verb = "fails" if alarm.what == "fail" else "drops"
        how = "harder" if alarm.side == "above" else "easier"
        lines.append(
            f"BIASED FILTER: {alarm.step} is {how} on {test.axis} {test.worst}: it {verb} {test.rates[at]:.1%} of "
            f"{int(test.n[at]):,} images, {alarm.side} the {test.expected[at]:.1%} that would be even within "
            f"{test.within} (p {p_plain(alarm.p_corrected)}, corrected for {len(tests)} tests)"
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


FUNNEL_COLUMNS = ("step", "axis", "group", "subject", "kept", "dropped", "unit")
UNDEFINED = "undefined"
JOINED = " × "
LEVEL = 0.05


@dataclass(frozen=True)
class StepOutcome:
    """What one step did to the n images of the table."""

    label: str
    before: NDArray[np.bool_]
    """(n,) which were still there."""
    dropped: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    notes: tuple[str, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class TestedStep:
    """One test: whether a step's failures (or losses) fall evenly on the groups of an axis."""

    step: str
    what: str
    """``fail`` (images that failed themselves) or ``drop`` (images that went)."""
    test: BiasTest
    p_corrected: float = 1.0
    """Holm over all tests of the run."""

    @property
    def side(self) -> str:
        """Whether the group that is farthest from even is ``above`` or ``below`` it."""
        return "above" if self.test.excess > 0 else "below"

    @property
    def alarm(self) -> bool:
        """Whether the step is biased, at 5% over the whole run."""
        return self.p_corrected < LEVEL


def funnel_of(frame: pd.DataFrame, axes: Sequence[str], outcomes: Sequence[StepOutcome]) -> pd.DataFrame:
    """One row for each step, axis, group and subject (images), and for each step and subject (images, sets).

    Rows of one axis add up to all images; rows with an empty axis count every image, or every set, once. A set is
    dropped with its last image.

    >>> frame = pd.DataFrame({"set_id": ["s", "s"], "subject": ["cook", "cook"], "gender": ["f", "m"]})
    >>> yes, no = np.array([True, True]), np.array([True, False])
    >>> funnel_of(frame, ["gender"], [StepOutcome("x", yes, no, no, yes)]).values.tolist()[0]
    ['x', 'gender', 'f', 'cook', 0, 1, 'image']
    """
    subject, numbers = _filled(frame, "subject"), set_numbers(frame)
    parts = []
    for outcome in outcomes:
        there = outcome.before
        base = pd.DataFrame({"subject": subject[there], "gone": outcome.dropped[there]})
        for axis in axes:
            parts.append(_counted(base.assign(group=_filled(frame, axis)[there]), outcome.label, axis, "image"))
        parts.append(_counted(base.assign(group=""), outcome.label, "", "image"))
        if (numbers >= 0).any():
            sets = base.assign(set=numbers[there])
            whole = sets[sets["set"] >= 0].groupby("set", sort=False)
            lost = whole.agg(subject=("subject", "first"), gone=("gone", "all"))
            parts.append(_counted(lost.assign(group=""), outcome.label, "", "set"))
    if not parts:
        return pd.DataFrame(columns=list(FUNNEL_COLUMNS))
    return pd.concat(parts, ignore_index=True)[list(FUNNEL_COLUMNS)]


def bias_tests(
    frame: pd.DataFrame,
    axes: Sequence[str],
    outcomes: Sequence[StepOutcome],
    *,
    held: Sequence[str] = (),
    draws: int = 999,
    seed: int = 0,
) -> list[TestedStep]:
    """Every step on every axis (and on their intersection), p-values corrected over all of them.

    The test of one axis holds the others fixed: those of ``axes``, further ones in ``held``, and placebo columns.
    With so many tests that no p-value of ``draws`` shuffles could stay under 5% after Holm's correction, there are
    more shuffles.
    """
    fixed = held_axes(frame, [*axes, *held])
    with Heartbeat("testing whether a step is biased"):
        tests = _tested(frame, axes, outcomes, fixed, draws, seed)
        if tests and len(tests) / (draws + 1) >= LEVEL:
            tests = _tested(frame, axes, outcomes, fixed, math.ceil(2 * len(tests) / LEVEL), seed)
    if not tests:
        return []
    corrected = holm([tested.test.p_value for tested in tests])
    return [replace(tested, p_corrected=float(p)) for tested, p in zip(tests, corrected, strict=True)]


def _tested(
    frame: pd.DataFrame,
    axes: Sequence[str],
    outcomes: Sequence[StepOutcome],
    fixed: Sequence[str],
    draws: int,
    seed: int,
) -> list[TestedStep]:
    tests: list[TestedStep] = []
    paired = {groups.axis: paired_columns(frame, groups) for groups in _groupings(frame, axes)}
    for number, outcome in enumerate(stages(outcomes)):
        asked = outcome.before & outcome.judged
        if not asked.any():
            continue
        part = frame[asked].reset_index(drop=True)
        for groups in _groupings(part, axes):
            others = [axis for axis in fixed if axis not in groups.axis.split(JOINED)]
            within = strata_of(part, groups, others, paired=paired.get(groups.axis))
            for what, y in _outcomes(outcome, asked):
                test = bias_test(y, groups, within, draws=draws, seed=seed + number)
                if test is not None:
                    tests.append(TestedStep(outcome.label, what, test))
    return tests


def result_rows(tests: Sequence[TestedStep], outcomes: Sequence[StepOutcome]) -> list[dict[str, Any]]:
    """The tests as rows of a results table: ``filter_fail`` and ``filter_drop`` by group, ``filter_bias`` by axis."""
    rows = []
    for tested in tests:
        keys = {"variant": tested.step, "suite": "filter", "axis": tested.test.axis}
        for group, estimate in tested.test.estimates().items():
            rows.append(estimate.row(metric=f"filter_{tested.what}", group=group, **keys))
        null = tested.test.null_largest
        overall = Estimate(
            abs(tested.test.excess),
            null_mean=float(null.mean()),
            null_sd=float(null.std(ddof=1)),
            p_value=tested.p_corrected,
            n=int(tested.test.n.sum()),
            n_groups=len(tested.test.names),
            notes=(
                note("filter_test", what=tested.what, group=tested.test.worst, side=tested.side),
                note("shuffled_within", within=tested.test.within),
                note("holm_run"),
                note("no_interval", why="a maximum over groups"),
            ),
        )
        rows.append(overall.row(metric="filter_bias", group=tested.test.worst, side=tested.side, **keys))
    for outcome in outcomes:
        rows += [{**row, "suite": "filter", "pool": outcome.label} for row in outcome.rows]
    return rows


def _outcomes(outcome: StepOutcome, asked: NDArray[np.bool_]) -> list[tuple[str, NDArray[np.bool_]]]:
    """What is tested: whose images failed, and, where it is not the same, whose images went."""
    failed, dropped = outcome.failed[asked], outcome.dropped[asked]
    if (failed == dropped).all():
        return [("drop", dropped)]
    return [("fail", failed), ("drop", dropped)]


def _groupings(frame: pd.DataFrame, axes: Sequence[str]) -> list[Groups]:
    groupings = []
    for axis in axes:
        read = read_labels(frame[axis])
        if len(read.names) > 1:
            groupings.append(Groups(read.codes.astype(np.int32), read.names, axis=axis))
    if len(groupings) == 2:
        joint = intersect(*groupings)
        groupings.append(Groups(joint.labels, joint.names, JOINED.join(grouping.axis for grouping in groupings)))
    return groupings


def _counted(frame: pd.DataFrame, step: str, axis: str, unit: str) -> pd.DataFrame:
    counts = frame.groupby(["group", "subject"], sort=True)["gone"].agg(["sum", "size"]).reset_index()
    return pd.DataFrame(
        {
            "step": step,
            "axis": axis,
            "group": counts["group"].astype(object),
            "subject": counts["subject"].astype(object),
            "kept": (counts["size"] - counts["sum"]).astype(int),
            "dropped": counts["sum"].astype(int),
            "unit": unit,
        }
    )


def _filled(frame: pd.DataFrame, column: str) -> NDArray[Any]:
    if column not in frame:
        return np.full(len(frame), "", dtype=object)
    values = np.asarray(frame[column].astype(object))
    missing = frame[column].isna().to_numpy()
    return np.where(missing, "" if column == "subject" else UNDEFINED, values)
