"""What an audit shows on each axis: every metric and every K looked at, one correction, one of four outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from equipoise.measure.stats import holm
from equipoise.report.findings import bias_rows, is_placebo, main_metric, main_rows, perceived, subject_rows
from equipoise.report.sources import Series
from equipoise.report.truth import Recovered
from equipoise.report.verdict.outcomes import LEVEL, SPREADS, Conclusion, Reading, adjusted_p, read_row

CAPTIONS, FILTERS = "And the captions?", "Were the filters even-handed?"
IS_IT, HOW_SURE, AGAINST = "Is it biased?", "How sure are we?", "Against whom?"
NAIVE, ELSEWHERE = "What would a naive number have said?", "And on other pictures?"
PUT_IN, REPAIRED = "What was put in, and was it found?", "Did the repair work?"
STATED = "Does it follow what was stated?"
PLACEBO = "Is it more than any visible difference?"

SET_METRICS = ("standard_gap", "standard_gap_size", "outranks", "counterfactual_gap", "counterfactual_gap_size")
"""What only counterfactual sets have."""
DIRECTIONS = ("standard_gap", "outranks", "counterfactual_gap", "bias_at_k")
"""What says that all subjects lean one way, the best first."""
SIZES = (
    "standard_gap_size standard_gap max_skew ndkl abs_bias_at_k bias_at_k recall_gap zero_shot_accuracy_gap "
    "person_preference_gap self_similarity_gap binding_drop"
).split()
"""What the size is told by, where several rows could: the first that a folder has."""
EDITED = "edited"
HINT = 0.001
"""A p-value that no verdict passes over in silence, even where the correction leaves nothing of it."""


@dataclass
class BiasVerdict:
    """One paragraph, its first sentence apart, and the same as short answers to the questions that people ask."""

    lead: str
    sentences: list[str] = field(default_factory=list)
    answers: list[tuple[str, str]] = field(default_factory=list)
    outcome: Conclusion = Conclusion.CANNOT_TELL
    """The outcome that the first sentence tells."""
    of: tuple[Series, ...] = ()
    """Whose verdict it is: the models that the first sentence speaks of; none where it speaks of something else."""

    @property
    def text(self) -> str:
        """The whole paragraph."""
        return " ".join([self.lead, *self.sentences])


@dataclass(frozen=True, eq=False)
class AxisJudgement:
    """One axis of one audit."""

    axis: str
    about: str
    pool: str
    outcome: Conclusion
    rests_on: Reading
    """The row that the outcome rests on."""
    readings: tuple[Reading, ...]
    """All rows of the axis."""
    direction: Reading | None = None
    """The signed row, if all subjects lean one way by it."""
    truth: Recovered | None = None
    """What was stated or put in, if what was measured follows it."""
    placebo: Reading | None = None
    """By how much the axis exceeds the placebo axes, where there are some."""
    sets: bool = False
    """Whether the pictures come in counterfactual sets."""
    subjects: int | None = None
    looked_at: int = 1
    """How many numbers share one correction."""
    spreads: float = SPREADS
    level: float = 0.95

    @property
    def joint(self) -> bool:
        """Whether it is about several axes together, or one inside the groups of another."""
        return " x " in self.axis or ":" in self.axis

    @property
    def above_placebo(self) -> bool | None:
        """Whether it is clearly more than to the placebo axes; ``None`` where there are none."""
        if self.placebo is None:
            return None
        low = self.placebo.row["ci_low"]
        return bool(self.placebo.row["p_value"] < LEVEL and pd.notna(low) and low > 0)

    @property
    def biased(self) -> bool:
        """Size beyond the margin and, in counterfactual sets, one direction above placebo, or the truth's."""
        if self.outcome is not Conclusion.LEANS:
            return False
        if not self.sets or self.truth is not None:
            return True
        return self.direction is not None and self.above_placebo is not False

    @property
    def reacts(self) -> bool:
        """A size beyond the margin that is not shown to be a bias."""
        return self.outcome is Conclusion.LEANS and not self.biased

    @property
    def passed_over(self) -> Reading | None:
        """The row of a metric that comes first in line and does not lean, where the outcome rests on one behind it."""
        ahead = [r for r in self.readings if r.margin is not None and _place(r.metric) < _place(self.rests_on.metric)]
        ahead = sorted(ahead, key=lambda r: (_place(r.metric), -_weight(r)))
        return ahead[0] if self.outcome is Conclusion.LEANS and ahead else None

    @property
    def stands_out(self) -> Reading | None:
        """A row that is beyond chance, or would be if it were alone, and that the outcome does not rest on."""
        others = [r for r in self.readings if r is not self.rests_on and r.beyond > 0]
        alone = [r for r in others if r.detected or float(r.row["p_value"]) <= HINT]
        return min(alone, key=lambda r: (r.p, -_weight(r))) if alone else None


def adjusted(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with ``p_holm``: their p-values, adjusted for looking at all of them.

    >>> adjusted(pd.DataFrame({"p_value": [0.01, 0.04]}))["p_holm"].tolist()
    [0.02, 0.04]
    """
    return rows.assign(p_holm=holm(rows["p_value"].to_numpy(float)) if len(rows) else [])


def level_of(series: Series) -> float:
    """The level of a folder's intervals, as its settings say."""
    level = series.source.asked.get("level")
    return float(level) if isinstance(level, int | float) and 0 < level < 1 else 0.95


def spreads_of(series: Series) -> float:
    """The margin of gaps inside sets, in spreads, as the folder's settings say."""
    margin = series.source.asked.get("margin")
    return float(margin) if isinstance(margin, int | float) and margin > 0 else SPREADS


def judge(series: Series, truths: Sequence[Recovered] = (), *, difference: bool = False) -> list[AxisJudgement]:
    """Every axis of an audit, or with ``difference`` of two audits paired, the most telling first.

    One correction (Holm) for all suite-level rows that could show a bias: every axis, metric and K. A second one, for
    what makes a size a bias: the directions and the correlations with the truth, over all axes.
    """
    rows = bias_rows(series)
    pools = set(rows["pool"].dropna())
    if EDITED in pools and len(pools) > 1:  # the pool where only the person differs; others differ in more than that
        rows = rows[rows["pool"] == EDITED].reset_index(drop=True)
    if rows.empty:
        return []
    spreads, level = spreads_of(series), level_of(series)
    readings = [
        read_row(row, p, counted=counted, spreads=spreads, signed=difference or None)
        for (_, row), (p, counted) in zip(rows.iterrows(), adjusted_p(rows), strict=True)
    ]
    with_sets = {str(r.row["pool"]) for r in readings if r.metric in SET_METRICS} | {EDITED}
    together: dict[tuple[str, str], list[Reading]] = {}
    for reading in readings:
        together.setdefault((str(reading.row["axis"]), str(reading.row["pool"])), []).append(reading)
    clear, follow = _grounds(together, [t for t in truths if t.label == series.label], spreads)
    judgements = []
    for (axis, pool), mine in together.items():
        outcome, rests_on = _combined(mine)
        subjects = _subjects(series, axis, rests_on)
        judgements.append(
            AxisJudgement(
                axis,
                str(rests_on.row["about"]),
                pool if len(pools) > 1 and pool != "nan" else "",
                Conclusion.CANNOT_TELL if subjects == 1 else outcome,
                rests_on,
                tuple(mine),
                clear.get((axis, pool)) if subjects != 1 else None,
                follow.get(axis),
                _placebo(series, axis, rests_on, spreads),
                pool in with_sets,
                subjects,
                len(rows),
                spreads,
                level,
            )
        )
    return sorted(judgements, key=_rank)


def shown_metric(audits: Sequence[Series]) -> str | None:
    """The metric that figures show: the one on which the verdict on the first audit rests if it leans, where all
    audits have it, for a reader looks for what the first sentence says; else the main one.
    """
    main = main_metric(audits)
    telling = judge(audits[0])[:1] if audits else []
    for judgement in telling:
        metric = judgement.rests_on.metric
        if judgement.biased and all(len(main_rows(a, metric)) and len(subject_rows(a, metric)) for a in audits):
            return metric
    return main


def _rank(judgement: AxisJudgement) -> tuple[int, int, int, float]:
    first = -1 if judgement.biased else list(Conclusion).index(judgement.outcome)
    undecided = judgement.outcome is Conclusion.CANNOT_TELL and not any(r.detected for r in judgement.readings)
    return 2 * first + undecided, int(judgement.joint), _place(judgement.rests_on.metric), -_weight(judgement.rests_on)


def _weight(reading: Reading) -> float:
    """What is beyond chance in units of the margin, so that sizes of different metrics can be ordered."""
    return reading.beyond / reading.margin if reading.margin else 0.0


def _combined(mine: Sequence[Reading]) -> tuple[Conclusion, Reading]:
    """The outcome of an axis and the row it rests on: what is clear goes before what is first in line."""
    ordered = sorted(mine, key=lambda r: (_place(r.metric), -_weight(r) if r.detected else 0.0))
    measured = [r for r in ordered if r.margin is not None] or ordered
    first = measured[0]
    same = [r for r in measured if r.metric == first.metric]
    lean = next((r for r in ordered if r.outcome is Conclusion.LEANS), None)
    if lean is not None:
        return Conclusion.LEANS, lean
    detected = [r for r in ordered if r.detected]
    main = next((r for r in same if r.detected), max(same, key=_weight))
    if main.detected:
        return main.outcome, main
    standing = [r for r in mine if float(r.row["p_value"]) <= HINT and r.beyond > 0]
    if detected or standing:
        # one that is beyond chance, and perhaps beyond its own margin, leaves it open
        small = all(r.within_margin for r in same) and all(
            r.outcome is Conclusion.TOO_SMALL for r in detected if r.margin is not None
        )
        return (Conclusion.TOO_SMALL if small and detected else Conclusion.CANNOT_TELL), main
    # every pair of groups and every K of the metric must be within the margin
    open_still = [r for r in same if r.outcome is Conclusion.CANNOT_TELL]
    return (Conclusion.CANNOT_TELL, max(open_still, key=_weight)) if open_still else (Conclusion.NOTHING, main)


def _place(metric: str) -> int:
    return SIZES.index(metric) if metric in SIZES else len(SIZES)


def _grounds(
    together: Mapping[tuple[str, str], Sequence[Reading]], truths: Sequence[Recovered], spreads: float
) -> tuple[dict[tuple[str, str], Reading], dict[str, Recovered]]:
    """What makes a size a bias, under one correction: clear directions by axis and pool, truths followed by axis."""
    rows: list[pd.Series] = []
    for mine in together.values():
        metric = next((m for m in DIRECTIONS if any(r.metric == m for r in mine)), None)
        rows += [r.row for r in mine if r.metric == metric]
    known = [t for t in truths if t.correlation is not None and t.interval is not None]
    truths_p = [
        truth.estimate.p_value for truth in known if truth.estimate is not None and truth.estimate.p_value is not None
    ]
    p = [float(at) for at in holm([*(float(row["p_value"]) for row in rows), *truths_p])]
    clear: dict[tuple[str, str], Reading] = {}
    for row, at in zip(rows, p, strict=False):
        reading = read_row(row, at, spreads=spreads)
        key = str(row["axis"]), str(row["pool"])
        if reading.detected and reading.low is not None and reading.low > 0 and not reading.within_margin:
            clear[key] = max([reading, *([clear[key]] if key in clear else [])], key=_weight)
    follow = {
        t.axis: t
        for t, at in zip(known, p[len(rows) :], strict=True)
        if at < LEVEL and t.interval is not None and t.interval[0] > 0
    }
    return clear, follow


def _subjects(series: Series, axis: str, rests_on: Reading) -> int | None:
    """How many subjects were asked about; ``None`` where the results do not say."""
    rows = series.results[(series.results["axis"].astype(str) == axis) & series.results["subject"].notna()]
    rows = rows[rows["metric"].isin([rests_on.metric, *SET_METRICS])]
    if len(rows):
        return int(rows["subject"].nunique())
    return int(rests_on.row["n"]) if rests_on.metric in SET_METRICS and pd.notna(rests_on.row["n"]) else None


def _placebo(series: Series, axis: str, rests_on: Reading, spreads: float) -> Reading | None:
    rows = series.results[(series.results["metric"] == "placebo_excess") & (series.results["axis"].astype(str) == axis)]
    rows = rows[rows["subject"].isna() & rows["value"].notna() & rows["p_value"].notna()]
    same = rows[rows["group"].isna() | (rows["group"] == rests_on.row["group"])]
    same = same[same["pool"].isna() | (same["pool"].astype(str) == str(rests_on.row["pool"]))]
    if same.empty:
        return None
    row = same.iloc[0].copy()
    row["null_mean"] = 0.0 if pd.isna(row["null_mean"]) else row["null_mean"]
    return read_row(row.astype(object), float(row["p_value"]), spreads=spreads)


def placebos(series: Series) -> str:
    """The placebo axes of an audit in words.

    An audit names them as axes of its rows, in its settings, or not at all.
    """
    named = list(series.source.asked.get("placebos") or [])
    axes = [str(axis) for axis in series.results["axis"].dropna().unique()]
    names = list(dict.fromkeys([*(a for a in axes if is_placebo(a)), *map(str, named)]))
    words = {"bag": "a bag", "mirror": "a mirror image", "brightness": "brightness"}
    parts = [words.get(name := axis.removeprefix("placebo_"), perceived(name)) for axis in names]
    return f"{', '.join(parts[:-1])} or {parts[-1]}" if len(parts) > 1 else parts[0] if parts else "a placebo"
