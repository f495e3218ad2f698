"""What a page calls the things that a model was asked about, and the pool that it was asked over."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from equipoise.data.labels import without_twins
from equipoise.formatting import count
from equipoise.report.findings import axis_name
from equipoise.report.page.gallery import Rankings
from equipoise.report.sources import Series
from equipoise.report.verdict.prompts import is_of_prompts

__all__ = ["facts", "pool_told", "said_of", "unit_of"]

OF_PROMPTS = frozenset({"faces", "prompts"})
_KINDS = {
    "audit": "audited model",
    "results": "result",
    "captions": "captioning model",
    "dataset": "dataset",
    "comparison": "comparison",
    "filter": "filter run",
    "classification": "image classifier",
}
_MOST_AXES = 3


def unit_of(series: Sequence[Series]) -> str:
    """What one row of the table below the verdict is about: a prompt where all are one's own, else a subject."""
    return "prompt" if series and all(is_of_prompts(each) for each in series) else "subject"


def said_of(unit: str, text: str) -> str:
    """Words of the page's own about subjects, as they are said where prompts are asked.

    >>> said_of("prompt", "Subject by subject"), said_of("subject", "Subject by subject")
    ('Prompt by prompt', 'Subject by subject')
    """
    return text if unit == "subject" else text.replace("subject", unit).replace("Subject", unit.capitalize())


def facts(series: Sequence[Series], rankings: Rankings) -> list[str]:
    """What stands below the title: how many models, subjects or prompts, suites, and which pictures."""
    subjects = {
        s for each in series if each.source.kind != "dataset" for s in each.results["subject"].dropna().unique()
    }
    lines = []
    for kind, name in _KINDS.items():
        n = sum(each.source.kind == kind for each in series)
        lines += [f"{n} {name}{'s' if n > 1 else ''}"] if n else []
    asked = [each for each in series if each.source.kind != "filter"]
    suites = list(dict.fromkeys(str(s) for each in asked for s in each.results["suite"].dropna().unique()))
    if len(subjects) > 1:
        lines.append(f"{count(len(subjects))} {'prompts' if suites and set(suites) <= OF_PROMPTS else 'subjects'}")
    lines += [f"suite {s}" for s in suites[:3]]
    if pools := _pools_of_prompts(asked, rankings):
        return [*lines, *pools]
    pools = sorted({str(p) for each in asked for p in each.results["pool"].dropna().unique()})
    return [*lines, *(f"{pool} pictures" for pool in pools[:3])]


def _pools_of_prompts(asked: Sequence[Series], rankings: Rankings) -> list[str]:
    """The pools that prompts were asked over, each once; nothing where some audit does not say what its pool was."""
    if unit_of(asked) != "prompt" or not all(each.label in rankings for each in asked):
        return []
    pools = []
    for each in asked:
        frame = rankings[each.label].frame
        axes = [axis for axis in dict.fromkeys(each.results["axis"].dropna().astype(str)) if axis in frame]
        pools.append(pool_told(frame[without_twins(frame)], axes))
    return list(dict.fromkeys(pools))


def pool_told(frame: pd.DataFrame, axes: Sequence[str]) -> str:
    """The pool in words, with its groups as the data names them.

    >>> pool_told(pd.DataFrame({"gender": ["woman", "man", "woman", None]}), ["gender"])
    'the pool of 4 images: 2 woman, 1 man, 1 without a label'
    """
    parts = []
    for axis in axes[:_MOST_AXES]:
        counts = frame[axis].value_counts()
        groups = [f"{count(n)} {group}" for group, n in counts.items()]
        unknown = int(frame[axis].isna().sum())
        groups += [f"{count(unknown)} without a label"] if unknown else []
        parts.append((f"{axis_name(axis)}: " if len(axes) > 1 else "") + ", ".join(groups))
    return f"the pool of {count(len(frame))} images" + (f": {'; '.join(parts)}" if parts else "")
