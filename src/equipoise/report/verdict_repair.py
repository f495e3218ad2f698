"""Did the repair work, in words."""

from __future__ import annotations

from dataclasses import dataclass, field

from equipoise.report.change import Change
from equipoise.report.findings import LEVEL
from equipoise.report.judging import REPAIRED, Verdict
from equipoise.report.numbers import amount, joined, p_text, signed
from equipoise.report.sources import Series

__all__ = ["GAP_SIZE", "Repair", "add_repair"]

GAP_SIZE = "counterfactual_gap_size"


@dataclass(frozen=True)
class Repair:
    """A remedy's before and after."""

    before: Series
    after: Series
    changes: list[Change]
    gaps: list[Change] = field(default_factory=list)
    """The same of the score gaps inside sets, which see changes that leave the order of the pictures as it was."""
    apart: bool = False
    """Whether the subjects it is judged on are some of the audit's, kept apart for this."""


def add_repair(made: Verdict, repair: Repair) -> None:
    """Add the sentence on a repair, and the answer with its numbers."""
    single = [c for c in repair.changes if " x " not in c.axis] or repair.changes
    if not single:
        made.answers.append((REPAIRED, "It cannot be said: the two audits share no axis."))
        return
    word, short = _judged(single)
    shrunk = [c for c in repair.gaps if " x " not in c.axis and c.told == "fell"]
    grown = [c for c in repair.gaps if " x " not in c.axis and c.told == "rose"]
    if word == "made no clear difference" and shrunk and not grown:
        word = "helped in part"
        short = _in_part(shrunk, single)
    n = max((c.difference.n for c in single if c.difference is not None), default=0)
    judged = f", tested on {n} subjects that it had not seen" if repair.apart and n else ""
    name = "" if repair.apart else f" ({repair.after.label})"
    made.sentences.append(f"The repair{name} {word}{judged}: {short}.")
    full = [f"{c.about} {_from_to(c)}, {_rest(c)} ({p_text(c.after['p_value'])})" for c in single]
    answer = f"It {word}{judged}. Excess over chance, before and after: {'; '.join(full)}."
    if shrunk or grown:
        parts = [f"{c.about} {_sizes(c)} (paired, {_p(c)})" for c in [*shrunk, *grown]]
        answer += f" Gaps between the scores of groups inside sets: {'; '.join(parts)}."
    made.answers.append((REPAIRED, answer))


def _judged(single: list[Change]) -> tuple[str, str]:
    """What the repair did, in a word, and on which axes."""
    fell = [c for c in single if c.told == "fell"]
    rose = [c for c in single if c.told == "rose"]
    same = [c for c in single if c.told == "unclear"]
    if fell and not rose:
        word = "worked" if all(c.gone for c in fell) else "helped, but not fully"
    elif fell:
        word = f"helped on {joined([c.about for c in fell])} and did harm on "
        word += joined([c.about for c in rose])
    else:
        word = "made things worse" if rose else "made no clear difference"
    short = []
    open_still = [c for c in same if not (c.gone and _was_within(c))] or ([] if fell or rose else same)
    for some, verb in ((fell, "fell"), (rose, "rose"), (open_still, "did not clearly change,")):
        for c in some:
            rest = "beyond chance" if some is rose and not c.gone else _rest(c)
            moved = f"from {signed(c.before['excess'])} to {signed(c.after['excess'])}"
            short.append(f"{c.about} {verb} {moved} ({rest})")
    return word, f"in excess over chance, where 0 is none, {joined(short)}"


def _in_part(shrunk: list[Change], single: list[Change]) -> str:
    """Scores moved together, but not so far that other pictures come first."""
    gaps = joined([f"{c.about} (gap {_sizes(c)})" for c in shrunk])
    left = [c for c in single if not _was_within(c)] or single
    lopsided = [c for c in left if not c.gone]
    stay = f"stay lopsided by {joined([c.about for c in lopsided])}" if lopsided else "are within chance"
    return (
        f"the model's scores for the groups moved closer on {gaps}, but its first pictures {stay}; if they are a "
        "little more even than before, that may be luck"
    )


def _sizes(change: Change) -> str:
    before, after = change.before["value"], change.after["value"]
    return f"{amount(before, 3)} to {amount(after, 3)}; luck gives {amount(change.after['null_mean'], 3)}"


def _p(change: Change) -> str:
    return "not tested" if change.difference is None else p_text(change.difference.p_value)


def _rest(change: Change) -> str:
    if change.gone:
        return "within chance, as before" if _was_within(change) else "now within chance"
    return "still beyond chance"


def _was_within(change: Change) -> bool:
    return bool(change.before["p_value"] >= LEVEL)


def _from_to(change: Change) -> str:
    told = f"{signed(change.before['excess'])} to {signed(change.after['excess'])}"
    d = change.difference
    if d is None:
        return f"{told} (not paired, so not tested)"
    span = (
        "" if d.ci_low is None or d.ci_high is None else f", 95% interval {signed(-d.ci_high)} to {signed(-d.ci_low)}"
    )
    return f"{told} (paired change {signed(-d.value)}{span}, {p_text(d.p_value)}, {d.n} subjects)"
