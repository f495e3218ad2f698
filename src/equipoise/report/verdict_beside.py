"""Another model beside the first: its outcome, its size, and how that compares; short, and true."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.report.findings import metric_name
from equipoise.report.judging import Judgement
from equipoise.report.margins import margin_text
from equipoise.report.outcomes import Outcome
from equipoise.report.sizes import amount_of, placebo_words, sides, size_words
from equipoise.report.sources import Series

__all__ = ["beside", "shown"]


def shown(found: Sequence[Judgement]) -> list[Judgement]:
    """The judgements that a paragraph tells: single axes, and intersections that lean where no single axis does."""
    single = [j for j in found if " x " not in j.axis and ":" not in j.axis]
    leaning = any(j.outcome is Outcome.LEANS for j in single)
    joint = [j for j in found if j not in single and j.outcome is Outcome.LEANS and not leaning]
    return sorted([*single, *joint], key=list(found).index) or list(found)


def beside(
    other: Series,
    its: Sequence[Judgement],
    first: Series | None = None,
    found: Sequence[Judgement] = (),
    ending: str = "",
) -> str:
    """One sentence on another model, on the axis that the first leans on most, if it has that."""
    about = found[0].about if found else its[0].about
    mine = next((j for j in its if j.about == about), its[0])
    than = next((j for j in found if j.about == mine.about), None)
    begin = f"For comparison, {other.label}" if first is not None else other.label
    told = f"{begin}, asked the same, {_outcome(mine, _against(mine, than, first))}"
    placebo = placebo_words(mine, other) if mine.outcome is Outcome.LEANS else ""
    told += f"; that is {placebo}" if placebo else ""
    return f"{told}{ending}."


def _outcome(found: Judgement, against: str) -> str:
    """The outcome with its size; ``against`` is what the first model has."""
    size, margin = f"{size_words(found.rests_on)}{against}", margin_text(found.rests_on.metric, found.spreads)
    if found.outcome is Outcome.LEANS:
        pair = None if found.direction is None else sides(found.direction.row)
        if found.biased and pair and found.truth is None:
            return f"prefers pictures labelled {pair[0]} to their twins by {size} on {found.about}"
        if found.biased:
            return f"is biased by {found.about} ({size} beyond chance)"
        whom = f", in favour of pictures labelled {pair[0]}" if pair else ", with no common direction over subjects"
        return f"is not shown to be biased: it reacts to the visible difference in {found.about} by {size}{whom}"
    if found.outcome is Outcome.TOO_SMALL:
        return f"shows by {found.about} what is too small to matter ({size}, inside the margin of {margin})"
    if found.outcome is Outcome.NOTHING:
        least = found.rests_on.smallest
        would = f"; {amount_of(least, found.rests_on.metric)} would have been found" if least else ""
        return f"shows nothing by {found.about} ({size}{would})"
    name = metric_name(found.rests_on.metric, found.rests_on.row["k"])
    than = f", where the margin is {margin}" if margin else ""
    return f"cannot be judged by {found.about} ({name}: {size}{than})"


def _against(mine: Judgement, than: Judgement | None, first: Series | None) -> str:
    """What the first model has, in the same unit."""
    if than is None or first is None:
        return ""
    theirs = next(
        (r for r in than.readings if r.metric == mine.rests_on.metric and r.row["group"] == mine.rests_on.row["group"]),
        next((r for r in than.readings if r.metric == mine.rests_on.metric), None),
    )
    return "" if theirs is None else f" ({first.label}: {amount_of(theirs.size, theirs.metric)})"
