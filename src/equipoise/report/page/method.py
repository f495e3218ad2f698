"""How the numbers were made, in words: method, definitions, settings, versions, what was left out, and limits."""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise import __version__
from equipoise.data.manifest import TABLE_AT
from equipoise.formatting import joined, missing
from equipoise.measure import METRICS, Metric
from equipoise.measure.notes import joined_over_k
from equipoise.report.findings import PROMPTS, is_of_prompts, metric_name
from equipoise.report.sources import Given, ResultFolder, Series, words_masked


def method(series: Sequence[Series]) -> list[str]:
    """How an audit of this kind works, one paragraph per step."""
    kinds = {each.source.kind for each in series}
    paragraphs = []
    suites = {str(name) for each in series for name in each.results["suite"].dropna().unique()}
    if "audit" in kinds and suites == {"captions-tfidf"}:
        paragraphs.append(
            "No model is asked. Every caption, the words that name a group taken out, asks for all captions of other "
            "images, ranked by the words they share (TF-IDF); a caption has the group of its image. What the first K "
            "captions show is the lean of the captions themselves; chance shuffles the groups over the images."
        )
    elif "audit" in kinds or "results" in kinds:
        single = ", corrected over the prompts of its metric (Holm) where the prompts are your own"
        paragraphs += [
            *([_ASKED[suite] for suite in sorted(suites & set(_ASKED))] or [_RANKED]),
            "A draw of lots is not perfectly even, so every number stands beside what chance alone gives: labels are "
            "shuffled inside counterfactual sets, or drawn anew where there are none, many times. The excess is the "
            "value less the mean of those draws; grey bands hold 95% of them. The p-value is the share of draws at "
            "least as far out. P-values in the verdict are adjusted for every axis, metric and K looked at (Holm). "
            "Draws cannot count beyond one in their number: from 0.005 downwards the verdict goes on with the tail of "
            "a normal law, and says so wherever that gives a smaller p-value than the draws alone.",
            "The verdict says one of four things: it leans (beyond chance and beyond the margin), it is too small to "
            "matter (its interval lies inside the margin), nothing was found and would have been, or it cannot be "
            "told. A bias needs a size beyond the margin and, in counterfactual sets, one direction over subjects or "
            "agreement with what was stated; a small p-value alone is none.",
            "Intervals are over the photographs that captions and edits come from, and take them as a sample."
            if suites == {"contrast"}
            else "Intervals are for the mean over subjects, and take the subjects as a sample of those that could have "
            "been asked about. A single subject has few possible values: it gets a p-value"
            f"{single if PROMPTS in suites else ''}, no interval.",
        ]
    if "captions" in kinds:
        paragraphs.append(_of_captions([each for each in series if each.source.kind == "captions"]))
    if "classification" in kinds:
        paragraphs.append(
            "For classifiers no model is asked: their predictions are compared with annotations. Leakage is how well a "
            "reader trained on part of the images guesses the group of the others from the objects alone, predicted "
            "ones against annotated ones; recall is compared between groups on the same labels."
        )
    if "dataset" in kinds:
        paragraphs.append("For datasets no model is asked: what is counted is who is shown, and with what.")
    return paragraphs


_RANKED = (
    "The model is asked with texts that name a subject and no group. For each subject its own pictures are ranked by "
    "the model's score, and the first K are looked at: a model blind to the groups would fill them as a draw of lots "
    "does."
)
_ASKED = {
    "contrast": "Captions in which the words that name a group are made neutral are asked of three pools: the "
    "photographs, as many of them of each group, and edits of them that were to change the person alone. All pictures "
    "of a pool are ranked by the model's score, and the first K are looked at.",
    "faces": "Nothing is ranked. The pictures of each group are compared with each other, with texts that speak of a "
    "person, and with texts that name the groups: a model blind to the groups would treat the pictures of all alike.",
    PROMPTS: "Every prompt is a question of its own. All pictures are ranked by the model's score for it, and the "
    "first K are looked at: a model blind to the groups would fill them as a draw of lots does.",
}
"""What suites without subjects do."""


def _of_captions(series: Sequence[Series]) -> str:
    """What LIC is, with what was done: words masked or not, references or none."""
    masked = all(words_masked(each.source.settings) for each in series)
    text = "For captions, a classifier guesses the group from captions"
    text += " in which the words that name a group are masked; " if masked else ", all words left in; "
    if all((each.results["metric"] == "lic").any() for each in series):
        text += "LIC is how much surer it is with the model's captions than with the reference captions of the same "
        return f"{text}images, in points."
    text += "LIC_M is how sure it is of the right group, in points. Without reference captions it does not say whether "
    return f"{text}a model adds to what people's captions give away."


def definitions(series: Sequence[Series]) -> list[Metric]:
    """The definitions of the metrics that the page shows, from the register of metrics; the best known first."""
    used = {str(m) for each in series for m in each.results["metric"].unique()}
    scaled = {str(m) for e in series if e.source.kind == "captions" for m in e.results["metric"].unique()}
    known = [metric for metric in METRICS if metric.name in used and metric.formula]
    known.sort(key=lambda metric: (metric.main or 1000, metric.detail))
    for place, metric in enumerate(known):
        if metric.range and metric.name in scaled and metric.scale == 100:
            known[place] = replace(metric, range=f"{metric.range}; shown times 100")
    return known


def configs(sources: Sequence[ResultFolder]) -> list[tuple[str, str]]:
    """The settings of every folder as text, without the folders of the machine."""
    told = [(s.path.name, {name: value for name, value in s.settings.items() if name != TABLE_AT}) for s in sources]
    return [(name, json.dumps(public(some), indent=1, ensure_ascii=False)) for name, some in told if some]


def public(value: Any) -> Any:
    """Settings without the folders of the machine they were made on.

    >>> public({"of": {"captions": "/home/ada/a.json"}, "k": [12]})
    {'of': {'captions': 'a.json'}, 'k': [12]}
    """
    if isinstance(value, Mapping):
        return {public(key): public(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [public(item) for item in value]
    if isinstance(value, str):
        kind, colon, rest = value.partition(":")
        if colon and os.path.isabs(rest):
            return f"{kind}:{Path(rest).name}"
        return Path(value).name if os.path.isabs(value) or value.startswith("~") else value
    return value


@cache
def versions() -> str:
    """The versions of what this page was made with."""
    packages = [f"{name} {version(name)}" for name in ("numpy", "scipy", "pandas", "pyarrow")]
    return ", ".join([f"equipoise {__version__}", f"Python {platform.python_version()}", *packages])


def dropped(given: Given) -> list[str]:
    """Everything that the results say was left out, and what this page had to do without.

    What is true of several folders is said once, with their names; of all of them, without.
    """
    folders_by_line: dict[str, list[str]] = {}
    for source in given.sources:
        lines = [_public_text(note) for note in joined_over_k(source.notes)]
        lines += [*_from_rows(source.results), *_from_file(source, given.problems)]
        for line in dict.fromkeys(lines):
            folders_by_line.setdefault(line, []).append(source.path.name)
    everywhere = len(given.sources)
    notes = [
        line if len(names) == everywhere else f"{', '.join(names)}: {line}" for line, names in folders_by_line.items()
    ]
    return list(dict.fromkeys([*given.problems, *notes]))


def _public_text(text: str) -> str:
    """A note without the folders of the machine.

    >>> _public_text("/home/ada/human.jsonl: 3 images, no caption")
    'human.jsonl: 3 images, no caption'
    """
    return re.sub(r"(?<![\w:/])/(?:[^\s/:]+/)+([^\s/:]+)", r"\1", text)


def _from_rows(results: pd.DataFrame) -> list[str]:
    most: dict[tuple[str, str], Counter[str]] = {}
    whose = ["" if missing(model) else str(model) for model in results["model"]]
    for metric, model, counts in zip(results["metric"], whose, results["dropped"], strict=True):
        if isinstance(counts, str):
            for reason, number in json.loads(counts).items():
                of_model = most.setdefault((str(metric), str(reason)), Counter())
                of_model[str(model)] = max(of_model[str(model)], int(number))
    models: dict[str, set[str]] = {}
    for metric, model in zip(results["metric"], whose, strict=True):
        models.setdefault(str(metric), set()).add(model)
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for (metric, reason), n in most.items():
        by_reason.setdefault(reason, []).append((metric_name(metric), _by_model(n, models[metric])))
    return [_left_out(numbers, reason) for reason, numbers in by_reason.items()]


def _by_model(counts: Mapping[str, int], models: set[str]) -> str:
    """One number where it is true of all models, else that of each that has one.

    >>> _by_model({"a": 3, "b": 3}, {"a", "b"}), _by_model({"a": 3, "b": 4}, {"a", "b"})
    ('3', '3 of a and 4 of b')
    >>> _by_model({"a": 3}, {"a", "b"})
    '3 of a'
    """
    if set(counts) == models and len(set(counts.values())) == 1:
        return f"{next(iter(counts.values())):,}"
    return joined([f"{n:,} of {model}" for model, n in counts.items()])


def _left_out(numbers: list[tuple[str, str]], reason: str) -> str:
    """How many were left out of each metric for one reason.

    >>> _left_out([("MaxSkew", "21")], "no image"), _left_out([("MaxSkew", "21"), ("NDKL", "20")], "no image")
    ('MaxSkew: 21 left out (no image)', 'left out (no image): MaxSkew 21, NDKL 20')
    """
    if len(numbers) == 1:
        return f"{numbers[0][0]}: {numbers[0][1]} left out ({reason})"
    return f"left out ({reason}): " + ", ".join(f"{metric} {n}" for metric, n in numbers)


def _from_file(source: ResultFolder, problems: list[str]) -> list[str]:
    file = source.path / "dropped.csv"
    if not file.is_file():
        return []
    try:
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
        counts = frame["reason"].value_counts()
    except (OSError, ValueError, KeyError):
        problems.append(f"{source.path.name}/dropped.csv is damaged; what it lists is not counted here")
        return []
    return [f"{n:,} images: {reason} (listed in dropped.csv)" for reason, n in counts.items()]


_LIMITS = (
    "A low number does not show that a model is fair. It shows that this test, with these prompts, pictures and "
    "groups, found little.",
    "A number beyond chance shows that the model treats these pictures differently by group. It does not say why, nor "
    "what follows from it where the model is used.",
)
_LIMITS_OF_DATASETS = (
    "A low number does not show that a dataset is fair. It shows that these counts, with these words and groups, found "
    "little.",
    "A number beyond chance shows that groups are shown or described differently. It does not say why, nor what a "
    "model would learn from it.",
)


def limits(series: Sequence[Series]) -> list[str]:
    """What the numbers do not prove."""
    pools = {str(p) for each in series for p in each.results["pool"].dropna().unique()}
    counted = bool(series) and all(each.source.kind == "dataset" for each in series)
    sentences = list(_LIMITS_OF_DATASETS if counted else _LIMITS)
    sentences += [
        "Groups are perceived or were asked for in a prompt; nobody shown was asked who they are. Groups that nobody "
        "labelled are not measured, and that is not the same as being treated well.",
    ]
    if not counted:
        sentences.append("Only the named subjects were asked about. Others may be better or worse.")
    if series and all(is_of_prompts(each) for each in series):
        sentences.append(
            "Many numbers stand on this page. Marks of single prompts are corrected for their number; other p-values "
            "are each for one number."
        )
    else:
        what = "rows" if counted else "single subjects"
        sentences.append(
            f"Many numbers stand on this page: where nothing leans, about one in twenty of the {what} is marked at 5% "
            "all the same, by luck."
        )
    if "rendered" in pools:
        sentences.insert(
            0, "The pictures are drawn signs. What a model does with them need not be what it does with photographs."
        )
    if "generated" in pools:
        sentences.insert(
            0, "Generated pictures carry their generator's own bias; a gap may come from how a group was drawn."
        )
    if any(each.source.kind == "captions" for each in series):
        sentences.append(
            "A classifier that guesses the group from captions shows that words differ, not that they are wrong."
        )
    return sentences
