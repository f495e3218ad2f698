"""What a page calls the things that a model was asked about, and the pool that it was asked over."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from equipoise.data.labels import without_twins
from equipoise.formatting import count, joined
from equipoise.measure.notes import facts_of
from equipoise.report.findings import WITHOUT_SUBJECTS, axis_name, is_of_prompts
from equipoise.report.page.gallery import PictureOrder, Rankings
from equipoise.report.sources import Given, ResultFolder, Series
from equipoise.report.verdict.outcomes import SIGNED, UPWARDS, WORSE_BELOW

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


def title_of(series: Sequence[Series], given: Given) -> str:
    """The title of a page that was given none: its models, else its folders."""
    names = list(dict.fromkeys(each.label for each in series if not each.is_yardstick)) or [
        each.path.name for each in given.sources
    ]
    return "Bias report: " + (joined(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more")


def pictograms_told(series: Sequence[Series]) -> str:
    """What must be said of drawn pictures."""
    pools = [set(each.results["pool"].dropna().unique()) for each in series if each.source.kind != "filter"]
    if not any("rendered" in some for some in pools):
        return ""
    if all(some == {"rendered"} for some in pools):
        return "The pictures are pictograms: signs, not people. These numbers say nothing about anyone."
    return "Some of the pictures are pictograms: signs, not people. Numbers from them say nothing about anyone."


def chosen_k(sources: Sequence[ResultFolder]) -> list[str]:
    """Which K the audits took that were given none, and why; with the folder where that differs between them."""
    told = {source.path.name: source.k_told for source in sources if source.k_told}
    if len(set(told.values())) < 2:
        return list(told.values())[:1]
    return [f"{name}: {sentence}" for name, sentence in told.items()]


def unit_of(series: Sequence[Series]) -> str:
    """What one row of the table below the verdict is about: a prompt where all are one's own, else a subject."""
    return "prompt" if series and all(is_of_prompts(each) for each in series) else "subject"


def said_of(unit: str, text: str) -> str:
    """Words of the page's own about subjects, as they are said where prompts are asked.

    >>> said_of("prompt", "Subject by subject"), said_of("subject", "Subject by subject")
    ('Prompt by prompt', 'Subject by subject')
    """
    return text if unit == "subject" else text.replace("subject", unit).replace("Subject", unit.capitalize())


def side_told(metric: str) -> str:
    """What it means that a subject's dot lies to one side of the line of chance.

    >>> side_told("max_skew"), side_told("min_skew")[:16], side_told("bias_at_k")[:25]
    ('right of the line, its pictures are more lopsided than chance', 'left of the line', 'the farther from the line')
    """
    if metric in SIGNED - UPWARDS:
        return "the farther from the line, the more lopsided are its pictures, to one group or, beyond it, to another"
    return f"{'left' if metric in WORSE_BELOW else 'right'} of the line, its pictures are more lopsided than chance"


def better_told(metric: str) -> str:
    """Where a repair should move a number.

    >>> better_told("max_skew"), better_told("min_skew"), better_told("bias_at_k")
    ('left of where it was', 'right of where it was', 'nearer to the line than it was')
    """
    if metric in SIGNED - UPWARDS:
        return "nearer to the line than it was"
    return f"{'right' if metric in WORSE_BELOW else 'left'} of where it was"


def facts(series: Sequence[Series], rankings: Rankings) -> list[str]:
    """What stands below the title: how many models, subjects or prompts, suites, and which pictures."""
    subjects = {
        s for each in series if each.source.kind != "dataset" for s in each.results["subject"].dropna().unique()
    }
    lines = []
    for kind, name in _KINDS.items():
        n = sum(each.source.kind == kind and not each.is_yardstick for each in series)
        lines += [f"{n} {name}{'s' if n > 1 else ''}"] if n else []
    asked = [each for each in series if each.source.kind != "filter"]
    suites = list(dict.fromkeys(str(s) for each in asked for s in each.results["suite"].dropna().unique()))
    if len(subjects) > 1:
        lines.append(
            f"{count(len(subjects))} {'prompts' if suites and set(suites) <= WITHOUT_SUBJECTS else 'subjects'}"
        )
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


def shares_shown(series: Series, ranking: PictureOrder, axes: Sequence[str], k: int) -> pd.DataFrame:
    """``subject, group, share, expected`` of the first ``k``: as the results say of single prompts, else as ranked."""
    rows = series.results
    rows = rows[(rows["metric"] == "representation") & rows["subject"].notna() & (rows["k"] == k)]
    rows = rows[rows["axis"] == " x ".join(axes)].drop_duplicates(["subject", "group"])
    known = [facts_of(row, "shown") for row in rows.to_dict("records")]
    expected = [float(facts["pool_share"]) for facts in known if facts]
    if rows.empty or len(expected) < len(rows):
        return ranking.shares(axes, k)
    named = {"subject": rows["subject"].astype(str), "group": rows["group"].astype(str)}
    shares = pd.DataFrame(named | {"share": rows["value"].astype(float), "expected": expected})
    return shares.sort_values(["subject", "group"], kind="stable", ignore_index=True)


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
