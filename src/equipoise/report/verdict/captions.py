"""Verdicts on captioning models: whether their words give a group away, and whether that is amplification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from equipoise.formatting import amount, interval, joined, p_text, percent, plural, share
from equipoise.measure.stats import holm
from equipoise.report.findings import main_rows, perceived
from equipoise.report.sources import Series, words_masked
from equipoise.report.truth import Recovered
from equipoise.report.verdict.judging import CAPTIONS, HOW_SURE, IS_IT, BiasVerdict, level_of
from equipoise.report.verdict.outcomes import NOT_MASKED, Conclusion, Reading, margin_text, noted_p, read_lic
from equipoise.report.verdict.sizes import reach

_NAMED = 3
"""More models than these are told of together."""


def _readings(captions: Sequence[Series]) -> dict[str, Reading]:
    """LIC of each model, or LIC_M where no reference captions were given; p-values corrected over models."""
    rows: dict[str, pd.Series] = {}
    for captioner in captions:
        for metric in ("lic", "lic_m"):
            some = main_rows(captioner, metric)
            some = some[some["pool"].isna()] if len(some) and some["pool"].isna().any() else some
            if len(some):
                rows[captioner.label] = some.iloc[0]
                break
    masked = {captioner.label: words_masked(captioner.source.settings) for captioner in captions}
    return {
        label: read_lic(row, at, masked=masked[label])
        for (label, row), at in zip(rows.items(), _over_models(captions, list(rows.values())), strict=True)
    }


def _over_models(captions: Sequence[Series], rows: Sequence[pd.Series]) -> list[float]:
    """The p-value of each model, corrected over models: as their folder says where all are of one."""
    known = [p for row in rows if (p := noted_p(row)) is not None]
    if len(known) == len(rows) and len({captioner.source.path for captioner in captions}) == 1:
        return known
    return [float(p) for p in holm([float(row["p_value"]) for row in rows])]


def _verb(reading: Reading) -> str:
    axis = perceived(reading.row["axis"])
    does = f"{'amplify bias by' if reading.metric == 'lic' else 'give away'} perceived {axis}"
    return {
        Conclusion.LEANS: does,
        Conclusion.TOO_SMALL: f"{does} too little to matter",
        Conclusion.NOTHING: f"do not {does}, and it would have been found",
        Conclusion.CANNOT_TELL: f"cannot be judged on perceived {axis}",
    }[reading.outcome]


def _sentence(captioner: Series, reading: Reading | None) -> str:
    """One model with its numbers."""
    if reading is None:
        return f"The captions of {captioner.label} have no LIC, so their bias is not judged."
    text = f"The captions of {captioner.label} {_verb(reading)} ({_numbers(captioner, reading)}"
    if reading.outcome in (Conclusion.TOO_SMALL, Conclusion.NOTHING):
        return f"{text}; margin {margin_text(reading.metric)})."
    if reading.outcome is Conclusion.CANNOT_TELL:
        if not reading.detected and not words_masked(captioner.source.settings):
            return f"{text}): {NOT_MASKED}."
        return f"{text}): {'beyond chance, but ' if reading.detected else ''}{reach(reading, 0.2)}."
    return f"{text})."


def _sentences(captions: Sequence[Series], readings: Mapping[str, Reading]) -> list[str]:
    """One sentence for each model, or for all models of one outcome on an axis together where several have it."""
    sentences: list[str] = []
    by: dict[str, list[Series]] = {}
    for captioner in captions:
        reading = readings.get(captioner.label)
        key = "" if reading is None else f"{reading.metric} {reading.outcome} {reading.row['axis']}"
        by.setdefault(key, []).append(captioner)
    for key, models in by.items():
        if len(models) == 1 or not key:
            sentences += [_sentence(captioner, readings.get(captioner.label)) for captioner in models]
            continue
        first = readings[models[0].label]
        margin = f"; the margin is {margin_text(first.metric)}" if first.outcome is not Conclusion.LEANS else ""
        if len(models) > _NAMED:
            told = f"{_range([readings[each.label] for each in models])}{margin}; each has its line below"
        else:
            told = joined([f"{each.label} ({_numbers(each, readings[each.label])})" for each in models]) + margin
        sentences.append(f"The captions of {len(models)} models {_verb(first)}: {told}.")
    return sentences


def _range(readings: Sequence[Reading]) -> str:
    """The numbers of many models from the least to the largest; each stands in the table."""
    first = readings[0]
    values = sorted(float(reading.row["value"]) for reading in readings)
    text = f"{'LIC' if first.metric == 'lic' else 'LIC_M'} {amount(values[0], 1)} to {amount(values[-1], 1)} points"
    if first.metric != "lic":
        chances = sorted(float(reading.row["null_mean"]) for reading in readings)
        text += f" where chance gives {amount(chances[0], 1)} to {amount(chances[-1], 1)}"
    p = [reading.p for reading in readings]
    ends = f"the largest {p_text(max(p))}" if first.outcome is Conclusion.LEANS else f"the smallest {p_text(min(p))}"
    return f"{text}, {ends}"


def _many(names: Sequence[str], of: int) -> str:
    """Models by name while they are few, by their number where a list would hide the sentence.

    >>> _many(["a", "b"], 5), _many(["a", "b", "c", "d"], 5), _many(["a", "b", "c", "d"], 4)
    ('a and b', '4 of 5 models', 'all 4 models')
    """
    if len(names) <= _NAMED:
        return joined(list(names))
    return f"all {of} models" if len(names) == of else f"{len(names)} of {of} models"


def _numbers(captioner: Series, reading: Reading) -> str:
    """A model's number with its interval, chance level, p-value and n."""
    row = reading.row
    name = "LIC" if reading.metric == "lic" else "LIC_M"
    span = ""
    if reading.low is not None:
        span = f", {percent(level_of(captioner))} interval {interval(row['ci_low'], row['ci_high'], 1)}"
    chance = "" if reading.metric == "lic" else f" where chance gives {amount(row['null_mean'], 1)}"
    return f"{name} {amount(row['value'], 1)} points{span}{chance}, {reading.p_told}, {plural(row['n'], 'caption')}"


def _named_sentence(captioner: Series, recovery: Recovered) -> str:
    """How often captions name the wrong group, and whether whom they name follows what was put in."""
    errors = captioner.results[(captioner.results["metric"] == "error") & captioner.results["subject"].isna()]
    rate = (
        f"{share(errors['value'].iloc[0], 1)} of the captions of {captioner.label} name the wrong group. "
        if len(errors)
        else ""
    )
    r, span = recovery.correlation, recovery.interval
    if r is None or span is None:
        return rate
    numbers = f"(correlation {amount(r)}, 95% interval {interval(*span)})"
    does = "follows" if span[0] > 0 else "does not clearly follow"
    return f"{rate}Whom they name too often {does} what was {recovery.called} {numbers}."


def add_captions(verdict: BiasVerdict, captions: Sequence[Series], truths: Sequence[Recovered] = ()) -> None:
    """Add one sentence on all captioning models, and the numbers of each as an answer."""
    if not captions:
        return
    readings = _readings(captions)
    every = " ".join(_sentence(captioner, readings.get(captioner.label)) for captioner in captions)
    if len(captions) == 1:
        verdict.sentences.append(every)
        return
    known = {recovery.label: recovery for recovery in truths}
    sentences = [
        _named_sentence(captioner, known[captioner.label]) for captioner in captions if captioner.label in known
    ]
    if not sentences:
        telling = [label for label, reading in readings.items() if reading.outcome is Conclusion.LEANS]
        whom = f"{joined(telling)} {'does' if len(telling) == 1 else 'do'}" if telling else "none clearly does"
        verdict.sentences.append(
            f"Of {len(captions)} captioning models whose words were tested for giving the group away, {whom} so beyond "
            "what they should."
        )
    verdict.answers.append((CAPTIONS, " ".join([*sentences, every])))


def on_captions(captions: Sequence[Series]) -> BiasVerdict:
    """The verdict on captioning models alone."""
    readings = _readings(captions)
    if not readings:
        return BiasVerdict("These captions have no LIC, so their bias is not judged.")
    by: dict[Conclusion, list[str]] = {}
    for label, reading in readings.items():
        by.setdefault(reading.outcome, []).append(label)
    top = min(by, key=list(Conclusion).index)
    axis = _axes([reading for reading in readings.values() if reading.outcome is top])
    amplify = all(reading.metric == "lic" for reading in readings.values())
    does = "amplify bias by" if amplify else "give away"
    models = _many(by.get(top, []), len(readings))
    found_out = "and what matters would have been found"
    lead = {
        Conclusion.LEANS: f"The captions of {models} {does} perceived {axis}.",
        Conclusion.TOO_SMALL: f"What the captions {does} of perceived {axis} is too small to matter.",
        Conclusion.NOTHING: f"No captions were found to {does} perceived {axis}, {found_out}.",
        Conclusion.CANNOT_TELL: f"Whether captions of {models} {does} perceived {axis} cannot be told.",
    }[top]
    if top is Conclusion.TOO_SMALL and amplify:
        lead = f"The captions amplify bias by perceived {axis} too little to matter."
    about = _about(
        _axes(readings.values()),
        masked=all(words_masked(captioner.source.settings) for captioner in captions),
        amplify=amplify,
    )
    of = tuple(captions) if len(captions) == 1 else ()  # what is said of several together is no verdict on each
    verdict = BiasVerdict(lead, [about, *_sentences(captions, readings)], outcome=top, of=of)
    verdict.answers.append(
        (IS_IT, " ".join(f"{_outcome_of(names, len(readings))}: {outcome.value}." for outcome, names in by.items()))
    )
    p = joined([f"{label} {reading.p_told}" for label, reading in readings.items()])
    corrected = f", corrected for {len(readings)} models (Holm)" if len(readings) > 1 else ""
    verdict.answers.append((HOW_SURE, f"Over repeated splits and shuffled labels{corrected}: {p}."))
    return verdict


def _axes(readings: Iterable[Reading]) -> str:
    """The axes that models were judged on, where folders differ in theirs."""
    return joined(list(dict.fromkeys(perceived(reading.row["axis"]) for reading in readings)), "or")


def _outcome_of(names: Sequence[str], of: int) -> str:
    """All names, unless they are all there are."""
    return f"All {of} models" if _NAMED < len(names) == of else joined(list(names))


def _about(axis: str, *, masked: bool, amplify: bool) -> str:
    """How it was measured, in one sentence."""
    if masked:
        text = f"The words that name a group were masked; a classifier guesses perceived {axis} from the rest"
    else:
        text = f"No word was masked, so a classifier guesses perceived {axis} also from words that name a group"
    if amplify:
        return (
            f"{text}, and LIC is how much better it does so than with reference captions of the same images, in points."
        )
    return f"{text}; no reference captions were given, so this is no amplification: the pictures may differ as much."
