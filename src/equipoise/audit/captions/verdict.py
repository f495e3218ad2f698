"""What may be said of each captioner: p-values adjusted over models and metrics of one question, and four outcomes.

*Leans*: beyond chance after the adjustment, with direction and size. *Too small to matter*: the interval lies within a
stated margin of chance. *Nothing found, and would have been*: with the smallest excess that so many captions show.
*Cannot tell*: that excess is so large that finding nothing says nothing. LIC and LIC_M are judged as in the verdict of
the report (:mod:`equipoise.report.verdict.outcomes`), which is printed below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from equipoise.formatting import plain
from equipoise.measure.notes import add_notes, facts_of, note
from equipoise.measure.stats.estimate import RESULT_COLUMNS
from equipoise.measure.stats.permutation import holm
from equipoise.measure.stats.power import minimum_detectable_effect
from equipoise.report.verdict.outcomes import LEVEL, NOT_MASKED, Conclusion, Reading, margin_of, read_lic
from equipoise.report.verdict.sizes import reach

QUESTIONS = {
    "lic_m": "is the group given away?",
    "lic": "is it given away more than in the references?",
    "lic_d": "do the references give it away?",
    **dict.fromkeys(("caption_accuracy", "caption_auc"), "can a classifier tell the groups?"),
    "lic_m_change": "does masking images change it?",
    **dict.fromkeys(("ratio", "error", "outcome_divergence"), "who is named?"),
    **dict.fromkeys(("ba", "dba_g", "dba_o"), "is a lean amplified?"),
    "word_log_odds": "do words differ?",
}
_GAPS = "are groups described alike?"
MARGINS = {
    **{lic: margin_of(lic) or 0.0 for lic in ("lic", "lic_m")},
    **dict.fromkeys(("ba", "dba_g", "dba_o"), 0.01),
    "ratio": math.log(1.1),
}
"""Within so much of chance a lean is too small to matter: 1 point, or a tenth of the ratio."""
TOO_COARSE = 5.0
"""Of BA, DBA and Ratio: where only an excess of so many margins would be found, finding nothing says nothing."""
_NAMES = {"lic": "LIC", "lic_m": "LIC_M", "ba": "BA", "dba_g": "DBA_G", "dba_o": "DBA_O", "ratio": "Ratio"}


def question_of(metric: str) -> str | None:
    """The question whose tests are adjusted together; ``None`` for a metric that is no bias.

    >>> question_of("error") == question_of("ratio"), question_of("bleu_4_gap"), question_of("bleu_4")
    (True, 'are groups described alike?', None)
    """
    return _GAPS if metric.endswith("_gap") else QUESTIONS.get(metric)


@dataclass(frozen=True)
class Adjusted:
    """A p-value after Holm's adjustment, and how many tests it is adjusted for."""

    p: float
    tests: int


def adjust_over_models(rows: Sequence[dict[str, Any]]) -> list[Adjusted | None]:
    """Holm's p-value of each row over the models and metrics of its question; the rows' notes are given it too.

    Definitions of one metric beside the first (of Error, of Ratio) say the same in other words: each is adjusted with
    its like of the other models, not with the first. Captions of masked images are a question of their own.

    >>> rows = [{"metric": "lic", "model": m, "p_value": p, "notes": ""} for m, p in (("a", 0.01), ("b", 0.03))]
    >>> adjust_over_models(rows)[0], rows[1]["notes"]
    (Adjusted(p=0.02, tests=2), 'Holm p 0.03 over 2 tests')
    """
    families: dict[tuple[Any, ...], list[int]] = {}
    first: dict[tuple[Any, ...], Any] = {}
    for number, row in enumerate(rows):
        question = question_of(str(row["metric"]))
        if question is None or row.get("p_value") is None or pd.isna(row["p_value"]):
            continue
        main = first.setdefault((row["metric"], row["model"]), row.get("variant")) == row.get("variant")
        key = (question, row.get("pool"), None if main else (row["metric"], row.get("variant")))
        families.setdefault(key, []).append(number)
    adjustments: list[Adjusted | None] = [None] * len(rows)
    for numbers in families.values():
        adjusted = holm([float(rows[i]["p_value"]) for i in numbers])
        for i, p in zip(numbers, adjusted, strict=True):
            adjustments[i] = Adjusted(float(p), len(numbers))
            unit = "test" if len(numbers) == 1 else "tests"
            further = [note("holm_over", p=float(p), tests=len(numbers), unit=unit)]
            least = smallest_found(rows[i], len(numbers))
            if least is not None:
                what = "a log ratio" if rows[i]["metric"] == "ratio" else "an excess"
                further.append(note("finds", what=what, least=least))
            add_notes(rows[i], *further)
    return adjustments


def smallest_found(row: Mapping[str, Any], tests: int = 1) -> float | None:
    """The smallest excess that is found with 80% power, adjusted for so many tests; of Ratio, of its logarithm.

    From the width of the interval: 2.8 standard errors for a single test.

    >>> round(smallest_found({"metric": "lic", "value": 0.1, "ci_low": -1.2, "ci_high": 1.4, "n": 1500}), 2)
    1.86
    """
    low, value, high = (row.get(name) for name in ("ci_low", "value", "ci_high"))
    if low is None or high is None or value is None or pd.isna(low) or pd.isna(high) or not row.get("n"):
        return None
    low, value, high = (_scaled(float(x), row) for x in (low, value, high))
    # an end that was cut off at the metric's bound says nothing of the precision
    error, n = max(high - value, value - low) / 1.96, int(row["n"])
    if not 0 < error < math.inf or n < 2:
        return None
    return minimum_detectable_effect(sd=error * math.sqrt(n), n=n, alpha=0.05 / tests)


def _scaled(number: float, row: Mapping[str, Any]) -> float:
    return (math.log(number) if number > 0 else -math.inf) if row["metric"] == "ratio" else number


@dataclass(frozen=True)
class CaptionJudgement:
    """One of the four outcomes for one captioner and metric, with its sentence."""

    model: str
    metric: str
    outcome: Conclusion
    sentence: str


def judge(row: Mapping[str, Any], adjusted: Adjusted | None, *, masked: bool) -> CaptionJudgement:
    """The outcome of one row of a results table, with its adjusted p-value.

    ``masked``: whether the words that name a group were hidden from the classifier of LIC.

    >>> row = {"metric": "lic", "model": "nic", "axis": "gender", "value": 1.5, "null_mean": 0.0, "ci_low": 0.4}
    >>> judge({**row, "ci_high": 2.7, "n": 7509}, Adjusted(0.02, 5), masked=False).outcome.value
    'leans'
    >>> judge({**row, "ci_high": 2.7, "n": 7509}, Adjusted(0.02, 5), masked=False).sentence[:77]
    'nic leans: its captions give gender away more than the references do (LIC 1.5'
    """
    metric, model = str(row["metric"]), str(row["model"])
    least = smallest_found(row, 1 if adjusted is None else adjusted.tests)
    if adjusted is None or least is None or row.get("null_mean") is None or pd.isna(row["null_mean"]):
        outcome, claim = Conclusion.CANNOT_TELL, _cannot(metric, "no interval, or chance was not measured")
    elif metric in ("lic", "lic_m"):
        outcome, claim = _of_lic(row, adjusted, least, masked=masked)
    else:
        outcome, claim = _of_counts(row, adjusted, least)
    return CaptionJudgement(model, metric, outcome, f"{model} {claim} ({_numbers(row, adjusted)})")


def _of_lic(row: Mapping[str, Any], adjusted: Adjusted, least: float, *, masked: bool) -> tuple[Conclusion, str]:
    """The outcome of LIC or LIC_M, that of the report, and what is claimed."""
    metric = str(row["metric"])
    reading = read_lic(pd.Series({**dict.fromkeys(RESULT_COLUMNS), **row}), adjusted.p, masked=masked)
    outcome = reading.outcome
    if outcome is Conclusion.LEANS:
        return outcome, f"leans: {_what(row, True, masked)}"
    if outcome is Conclusion.TOO_SMALL:
        return outcome, _too_small(metric, beyond_chance=True)
    if outcome is Conclusion.CANNOT_TELL:
        return outcome, _cannot(metric, _why_not(reading, masked))
    if reading.high is not None and reading.high <= 0:
        return outcome, f"shows nothing on {_NAMES[metric]}: {_what(row, False, masked)}"
    return outcome, _shows_nothing(metric, least)


def _why_not(reading: Reading, masked: bool) -> str:
    """Why LIC or LIC_M cannot be judged."""
    if not reading.detected:
        return reach(reading, 0.0) if masked else NOT_MASKED
    if reading.low is not None and reading.low <= 0:
        return "it is beyond chance, but its interval reaches chance"
    return f"it is beyond chance, but {reach(reading, 0.0)}"


def _of_counts(row: Mapping[str, Any], adjusted: Adjusted, least: float) -> tuple[Conclusion, str]:
    """The outcome of BA, DBA or Ratio, and what is claimed: either side of chance counts."""
    metric, margin = str(row["metric"]), MARGINS[str(row["metric"])]
    value, chance, low, high = (_scaled(float(row[name]), row) for name in ("value", "null_mean", "ci_low", "ci_high"))
    beyond_chance = adjusted.p < LEVEL and value != chance
    if -margin < low - chance and high - chance < margin:
        return Conclusion.TOO_SMALL, _too_small(metric, beyond_chance=beyond_chance)
    if beyond_chance and low <= chance <= high:
        return Conclusion.CANNOT_TELL, _cannot(metric, "it is beyond chance, but its interval reaches chance")
    if beyond_chance:
        return Conclusion.LEANS, f"leans: {_what(row, value > chance, masked=False)}"
    if least > TOO_COARSE * margin:
        return Conclusion.CANNOT_TELL, _cannot(metric, f"only {_size(metric, least)} would be found")
    return Conclusion.NOTHING, _shows_nothing(metric, least)


def _cannot(metric: str, why: str) -> str:
    return f"cannot be judged on {_NAMES[metric]}: {why}"


def _too_small(metric: str, *, beyond_chance: bool) -> str:
    beyond = "beyond chance, but " if beyond_chance else ""
    return f"is {beyond}within {_margin(metric)} of chance: too small to matter"


def _shows_nothing(metric: str, least: float) -> str:
    return f"shows nothing on {_NAMES[metric]}; {_size(metric, least)} would have been found (80% power)"


def judgements(results: pd.DataFrame, adjusted: Sequence[Adjusted | None], *, masked: bool) -> list[CaptionJudgement]:
    """For each model: LIC (LIC_M where there are no references), then BA, DBA and Ratio, on the original images."""
    judged: list[CaptionJudgement] = []
    seen: set[tuple[str, str]] = set()
    with_lic = set(results.loc[results["metric"] == "lic", "model"])
    for row, p in zip(results.to_dict("records"), adjusted, strict=True):
        metric, model = str(row["metric"]), str(row["model"])
        if metric not in MARGINS or (metric == "lic_m" and model in with_lic) or (model, metric) in seen:
            continue
        if any(isinstance(row[name], str) for name in ("pool", "subject", "group")):
            continue
        seen.add((model, metric))
        judged.append(judge({str(name): value for name, value in row.items()}, p, masked=masked))
    return judged


def _what(row: Mapping[str, Any], above: bool, masked: bool) -> str:
    metric, axis = str(row["metric"]), row["axis"]
    hidden = ", words that name a group masked," if masked else ""
    if metric == "lic_m":
        if not above:
            return f"its captions{hidden} give {axis} away less than chance"
        return f"its captions{hidden} give {axis} away; whether more than people's captions do, references would say"
    if metric == "lic":
        return f"its captions{hidden} give {axis} away {'more' if above else 'less'} than the references do"
    if metric == "ratio":
        pair = facts_of(row, "named_pair") or {"first": "first", "second": "second"}
        group = pair["first" if above else "second"]
        return f"its captions name {group} more often, beside the other group, than the labels do"
    more = "further" if above else "less"
    if metric == "ba":
        return f"its words lean {more} than those of the references, beyond what exchange gives"
    what = "groups are named for the objects beside them" if metric == "dba_g" else "objects are named for the group"
    return f"{what} {'more' if above else 'less'} than the images warrant"


def _numbers(row: Mapping[str, Any], adjusted: Adjusted | None) -> str:
    metric = str(row["metric"])
    ends = [row.get(name) for name in ("ci_low", "ci_high")]
    known = [end for end in ends if end is not None and not pd.isna(end)]
    chance = row.get("null_mean")
    chance = None if chance is None or pd.isna(chance) else float(chance)
    # an end that lies beside chance must not be rounded onto it
    close = chance is not None and any(e != chance and _shown(e, metric) == _shown(chance, metric) for e in known)
    parts = [f"{_NAMES[metric]} {_shown(row['value'], metric, close)}"]
    if len(known) == len(ends):
        parts[0] += f" [{_shown(known[0], metric, close)}, {_shown(known[1], metric, close)}]"
    if chance is not None:
        parts.append(f"chance {_shown(chance, metric, close)}")
    if adjusted is not None:
        parts.append("Holm p < 0.001" if adjusted.p < 0.001 else f"Holm p {adjusted.p:.2g}")
    return ", ".join([*parts, f"n = {int(row['n']):,}"])


def _shown(value: float, metric: str, close: bool = False) -> str:
    digits = (2 if metric == "ratio" else 1) + close
    return plain(value, digits, scale=1 if metric == "ratio" or metric.startswith("lic") else 100)


def _size(metric: str, effect: float) -> str:
    if metric == "ratio":
        return f"a ratio {100 * (math.exp(effect) - 1):.0f}% off the labels'"
    return f"an excess of {effect if metric.startswith('lic') else 100 * effect:.1f} points"


def _margin(metric: str) -> str:
    return "10%" if metric == "ratio" else "1 point"
