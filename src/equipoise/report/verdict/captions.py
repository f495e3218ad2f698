"""Verdicts on captioning models: whether their words give a group away, and whether that is amplification."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from equipoise.formatting import amount, interval, joined, p_text, percent, plural, share
from equipoise.measure.stats import holm
from equipoise.report.findings import main_rows, perceived
from equipoise.report.sources import Series, words_masked
from equipoise.report.truth import Recovered
from equipoise.report.verdict.judging import CAPTIONS, HOW_SURE, IS_IT, BiasVerdict, level_of
from equipoise.report.verdict.outcomes import Conclusion, Reading, margin_text, read_row
from equipoise.report.verdict.sizes import reach

__all__ = ["add_captions", "on_captions"]


def _readings(captions: Sequence[Series]) -> dict[str, Reading]:
    """LIC of each model, or LIC_M where no reference captions were given; p-values corrected over models."""
    rows: dict[str, pd.Series] = {}
    for one in captions:
        for metric in ("lic", "lic_m"):
            some = main_rows(one, metric)
            some = some[some["pool"].isna()] if len(some) and some["pool"].isna().any() else some
            if len(some):
                rows[one.label] = some.iloc[0]
                break
    p = holm([float(row["p_value"]) for row in rows.values()])
    return {label: read_row(row, float(at)) for (label, row), at in zip(rows.items(), p, strict=True)}


def _verb(reading: Reading) -> str:
    amplify = reading.metric == "lic"
    return {
        Conclusion.LEANS: "amplify bias by perceived {}" if amplify else "give away perceived {}",
        Conclusion.TOO_SMALL: ("amplify bias by perceived {}" if amplify else "give away perceived {}")
        + " too little to matter",
        Conclusion.NOTHING: ("do not amplify bias by perceived {}" if amplify else "do not give away perceived {}")
        + ", and it would have been found",
        Conclusion.CANNOT_TELL: "cannot be judged on perceived {}",
    }[reading.outcome]


def _sentence(one: Series, reading: Reading | None) -> str:
    """One model with its numbers."""
    if reading is None:
        return f"The captions of {one.label} have no LIC, so their bias is not judged."
    row = reading.row
    name = "LIC" if reading.metric == "lic" else "LIC_M"
    span = ""
    if reading.low is not None:
        span = f", {percent(level_of(one))} interval {interval(row['ci_low'], row['ci_high'], 1)}"
    chance = "" if reading.metric == "lic" else f" where chance gives {amount(row['null_mean'], 1)}"
    numbers = (
        f"{name} {amount(row['value'], 1)} points{span}{chance}, {p_text(reading.p)}, {plural(row['n'], 'caption')}"
    )
    told = f"The captions of {one.label} {_verb(reading).format(perceived(row['axis']))} ({numbers}"
    if reading.outcome in (Conclusion.TOO_SMALL, Conclusion.NOTHING):
        return f"{told}; margin {margin_text(reading.metric)})."
    if reading.outcome is Conclusion.CANNOT_TELL:
        return f"{told}): {'beyond chance, but ' if reading.detected else ''}{reach(reading, 0.2)}."
    return f"{told})."


def _named_sentence(one: Series, found: Recovered) -> str:
    """How often captions name the wrong group, and whether whom they name follows what was put in."""
    errors = one.results[(one.results["metric"] == "error") & one.results["subject"].isna()]
    rate = (
        f"{share(errors['value'].iloc[0], 1)} of the captions of {one.label} name the wrong group. "
        if len(errors)
        else ""
    )
    r, span = found.correlation, found.interval
    if r is None or span is None:
        return rate
    numbers = f"(correlation {amount(r)}, 95% interval {interval(*span)})"
    if span[0] > 0:
        return f"{rate}Whom they name too often follows what was put in {numbers}."
    return f"{rate}Whom they name too often does not clearly follow what was put in {numbers}."


def add_captions(made: BiasVerdict, captions: Sequence[Series], truths: Sequence[Recovered] = ()) -> None:
    """Add one sentence on all captioning models, and the numbers of each as an answer."""
    if not captions:
        return
    found = _readings(captions)
    every = " ".join(_sentence(one, found.get(one.label)) for one in captions)
    if len(captions) == 1:
        made.sentences.append(every)
        return
    known = {one.label: one for one in truths}
    told = [_named_sentence(one, known[one.label]) for one in captions if one.label in known]
    if not told:
        telling = [label for label, reading in found.items() if reading.outcome is Conclusion.LEANS]
        whom = f"{joined(telling)} {'does' if len(telling) == 1 else 'do'}" if telling else "none clearly does"
        made.sentences.append(
            f"Of {len(captions)} captioning models whose words were tested for giving the group away, {whom} so beyond "
            "what they should."
        )
    made.answers.append((CAPTIONS, " ".join([*told, every])))


def on_captions(captions: Sequence[Series]) -> BiasVerdict:
    """The verdict on captioning models alone."""
    found = _readings(captions)
    if not found:
        return BiasVerdict("These captions have no LIC, so their bias is not judged.")
    axis = perceived(next(iter(found.values())).row["axis"])
    by: dict[Conclusion, list[str]] = {}
    for label, reading in found.items():
        by.setdefault(reading.outcome, []).append(label)
    order = (Conclusion.LEANS, Conclusion.CANNOT_TELL, Conclusion.TOO_SMALL, Conclusion.NOTHING)
    top = next(outcome for outcome in order if outcome in by)
    amplify = all(reading.metric == "lic" for reading in found.values())
    does = "amplify bias by" if amplify else "give away"
    models = joined(by.get(top, []))
    found_out = "and what matters would have been found"
    lead = {
        Conclusion.LEANS: f"The captions of {models} {does} perceived {axis}.",
        Conclusion.TOO_SMALL: f"What the captions {does} of perceived {axis} is too small to matter.",
        Conclusion.NOTHING: f"No captions were found to {does} perceived {axis}, {found_out}.",
        Conclusion.CANNOT_TELL: f"Whether captions of {models} {does} perceived {axis} cannot be told.",
    }[top]
    if top is Conclusion.TOO_SMALL and amplify:
        lead = f"The captions amplify bias by perceived {axis} too little to matter."
    about = _about(axis, masked=all(words_masked(one.source.settings) for one in captions), amplify=amplify)
    made = BiasVerdict(lead, [about, *(_sentence(one, found.get(one.label)) for one in captions)], outcome=top)
    made.answers.append((IS_IT, " ".join(f"{joined(names)}: {outcome.value}." for outcome, names in by.items())))
    p = joined([f"{label} {p_text(reading.p)}" for label, reading in found.items()])
    corrected = f", corrected for {len(found)} models (Holm)" if len(found) > 1 else ""
    made.answers.append((HOW_SURE, f"Over repeated splits and shuffled labels{corrected}: {p}."))
    return made


def _about(axis: str, *, masked: bool, amplify: bool) -> str:
    """How it was measured, in one sentence."""
    if masked:
        told = f"The words that name a group were masked; a classifier guesses perceived {axis} from the rest"
    else:
        told = f"No word was masked, so a classifier guesses perceived {axis} also from words that name a group"
    if amplify:
        return (
            f"{told}, and LIC is how much better it does so than with reference captions of the same images, in points."
        )
    return f"{told}; no reference captions were given, so this is no amplification: the pictures may differ as much."
