"""Which activities a caption corpus ties to which group: verb-object pairs and their log ratios.

A caption gives triples (subject, verb, object) by rules, or by a parser that the caller has loaded. Pairs of
verb and object are counted per group; the log ratio of two groups' counts, its z-score and its tails say which
activities are lopsided (GABInsight, section 4.1). The same log ratio can be taken from the probabilities a
masked language model gives to group words in "a <mask> is ...".

>>> captions = ["A man riding a horse.", "A woman rides a horse", "The man is fixing an old car."]
>>> [str(t) for caption in captions for t in find_triples(caption)]
['man ride horse', 'woman ride horse', 'man fix car']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from equipoise.errors import InputError, UnknownNameError
from equipoise.text.activities.triples import Triple, find_triples, parsed_triples
from equipoise.text.activities.words import PERSON_WORDS
from equipoise.text.labels import is_missing

__all__ = [
    "ActivityBias",
    "ActivityCounts",
    "Triple",
    "activity_bias",
    "count_activities",
    "find_triples",
    "mask_log_ratios",
    "parsed_triples",
]


@dataclass(frozen=True)
class ActivityCounts:
    """How often each group does each activity, one count per caption."""

    table: pd.DataFrame
    """Index: activity ("ride horse"); columns ``verb``, ``object``, then one count per group, most frequent
    first."""
    groups: tuple[str, ...]
    n_captions: int
    n_triples: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    mentions: tuple[tuple[int, str, str], ...] = ()
    """What was counted: the number of the caption, the activity and the group, once each."""


def count_activities(
    captions: Sequence[str],
    labels: Sequence[str | None] | None = None,
    *,
    label: Callable[[str], str | None] | None = None,
    parser: Any = None,
    subjects: Collection[str] = PERSON_WORDS,
) -> ActivityCounts:
    """Count verb-object pairs per group over ``captions``; give exactly one of ``labels`` and ``label``.

    Args:
        captions: English captions; a pair counts once per caption and group.
        labels: the group of each caption, which all of its triples get; None or NaN = undefined, not counted.
        label: a function from a triple's subject word to its group or None, for example the ``label`` method of a
            lexicon.
        parser: a loaded spaCy pipeline (or any callable from text to tokens); None uses the rules of
            :func:`find_triples`.
        subjects: the words, in lower case, that can be a subject; by default common words for people.

    Returns:
        The counts of each activity by group, with what was left out.

    >>> counts = count_activities(["a man rides a horse", "a woman is riding a horse"], ["male", "female"])
    >>> counts.table[["male", "female"]].to_dict("index")
    {'ride horse': {'male': 1, 'female': 1}}
    """
    if (labels is None) == (label is None):
        raise InputError("give either labels (one per caption) or label (a function of the subject word), not both")
    if isinstance(captions, str):
        raise InputError(f"captions must be in a list, not the text {captions!r}; write [{captions!r}]")
    if labels is not None and len(labels) != len(captions):
        raise InputError(f"captions has {len(captions)} items and labels has {len(labels)}; they must match")
    counter: Counter[tuple[str, str, str]] = Counter()
    without_triple = undefined = n_triples = 0
    group_of: dict[str, str | None] = {}
    mentions: list[tuple[int, str, str]] = []
    for index, triples in enumerate(_all_triples(captions, parser, subjects)):
        without_triple += not triples
        n_triples += len(triples)
        seen = set()
        for triple in triples:
            if labels is not None:
                group = labels[index]
            else:
                if triple.subject not in group_of:
                    assert label is not None
                    group_of[triple.subject] = label(triple.subject)
                group = group_of[triple.subject]
            if is_missing(group):
                undefined += 1
            else:
                seen.add((triple.verb, triple.object, str(group)))
        counter.update(seen)
        mentions += [(index, f"{verb} {noun}", group) for verb, noun, group in sorted(seen)]
    table, groups = _count_table(counter)
    dropped = {"captions without a triple": without_triple, "triples of an undefined group": undefined}
    return ActivityCounts(table, groups, len(captions), n_triples, dropped, tuple(mentions))


def _all_triples(captions: Sequence[str], parser: Any, subjects: Collection[str]) -> Iterator[tuple[Triple, ...]]:
    if parser is None:
        for index, caption in enumerate(captions):
            if not isinstance(caption, str):
                raise InputError(f"captions[{index}] is {caption!r}, not a string")
            yield find_triples(caption, subjects)
        return
    documents = parser.pipe(captions) if hasattr(parser, "pipe") else map(parser, captions)
    for document in documents:
        yield parsed_triples(document, subjects)


def _count_table(counter: Mapping[tuple[str, str, str], int]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    groups = tuple(sorted({group for _, _, group in counter}))
    pairs = sorted({(verb, noun) for verb, noun, _ in counter})
    rows = {
        f"{verb} {noun}": {"verb": verb, "object": noun, **{g: counter.get((verb, noun, g), 0) for g in groups}}
        for verb, noun in pairs
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["verb", "object", *groups])
    table.index.name = "activity"
    totals = table[list(groups)].sum(axis=1).to_numpy(float)
    return table.iloc[np.argsort(-totals, kind="stable")], groups


@dataclass(frozen=True)
class ActivityBias:
    """Log ratios of two groups per activity, with the tests that say which are lopsided."""

    table: pd.DataFrame
    """Index: activity. ``log_ratio``; ``excess`` over the corpus's own ratio; ``z`` and ``p_value`` of the excess
    from the counts; ``q_value`` (Benjamini-Hochberg); ``z_across`` of the log ratio among all activities."""
    first: str
    second: str
    chance: float
    """The log ratio of the whole corpus: what an activity unrelated to the group would show."""
    normality_p: float | None
    """Shapiro-Wilk p-value that the log ratios are normal (``z_across`` presumes it); None below 3 activities."""
    dropped: Mapping[str, int] = field(default_factory=dict)

    def tails(self, z: float = 1.96, *, column: str = "z_across") -> tuple[list[str], list[str]]:
        """Activities beyond ``z`` towards the first group, and those beyond ``-z`` (towards the second)."""
        if column not in self.table:
            raise UnknownNameError("column", column, self.table.columns)
        scores = self.table[column]
        first = scores[scores > z].sort_values(ascending=False)
        second = scores[scores < -z].sort_values()
        return [str(name) for name in first.index], [str(name) for name in second.index]


def activity_bias(
    counts: ActivityCounts,
    first: str,
    second: str,
    *,
    smoothing: float = 0.5,
    min_count: int = 5,
) -> ActivityBias:
    """Log ratio ln((c_first + s) / (c_second + s)) of each activity with at least ``min_count`` in the two groups.

    Chance is ln(N_first / N_second) over all counted activities, so that a corpus with more men than women is not
    lopsided in everything. The count z-score is (log ratio - chance) / sqrt(1/(c_first + s) + 1/(c_second +
    s)); ``z_across`` standardises the log ratios among themselves (GABInsight's Z-test; check ``normality_p``).

    Args:
        counts: what :func:`count_activities` gives, of which the two groups' counts are used.
        first: the group that a log ratio above chance leans towards.
        second: the group that a log ratio below chance leans towards.
        smoothing: s, above 0 because a zero count has no logarithm.
        min_count: the fewest counts, of the two groups together, with which an activity is kept.

    Returns:
        The log ratios of the activities kept, highest first, with their tests and the chance level.

    >>> table = pd.DataFrame({"verb": ["ride"], "object": ["horse"], "m": [9], "f": [9]}, index=["ride horse"])
    >>> bias = activity_bias(ActivityCounts(table, ("m", "f"), 18, 18), "m", "f")
    >>> float(bias.table.loc["ride horse", "log_ratio"]), bias.chance
    (0.0, 0.0)
    """
    for group in (first, second):
        if group not in counts.groups:
            raise UnknownNameError("group", group, counts.groups)
    if first == second:
        raise InputError(f"first and second are both {first!r}; a log ratio compares two groups")
    if not smoothing > 0:
        raise InputError(f"smoothing must be above 0 (a zero count has no logarithm), not {smoothing}")
    totals = counts.table[[first, second]].sum()
    if (totals == 0).any():
        raise InputError(f"no activity was counted for group {totals.idxmin()!r}; there is nothing to compare")
    chance = float(np.log(totals[first] / totals[second]))
    kept = counts.table[counts.table[first] + counts.table[second] >= min_count]
    if kept.empty:
        raise InputError(f"no activity reaches min_count = {min_count}; the most frequent has fewer")
    a = kept[first].to_numpy(float) + smoothing
    b = kept[second].to_numpy(float) + smoothing
    log_ratio = np.log(a / b)
    excess = log_ratio - chance
    z = excess / np.sqrt(1 / a + 1 / b)
    table = kept[["verb", "object", first, second]].assign(log_ratio=log_ratio, excess=excess, z=z)
    table["p_value"] = 2 * stats.norm.sf(np.abs(z))
    table["q_value"] = stats.false_discovery_control(table["p_value"].to_numpy())
    return _with_spread(table, first, second, chance, {f"activities below {min_count}": len(counts.table) - len(kept)})


def mask_log_ratios(
    probabilities: pd.DataFrame, words: Mapping[str, Sequence[str]], first: str, second: str
) -> ActivityBias:
    """The same log ratio from a masked language model: ln of summed probabilities of two groups' words.

    Chance is 0: both groups equally likely.

    Args:
        probabilities: one row per activity, one column per word, the model's probability of that word at the mask of
            "a <mask> is doing X"; those of a group's words must sum to more than 0 and at most 1.
        words: the words of each group, at least one; each must have its column.
        first: the group that a log ratio above 0 leans towards.
        second: the group that a log ratio below 0 leans towards.

    Returns:
        The log ratios, highest first, with ``z_across`` but without the tests that need counts.

    >>> table = pd.DataFrame({"man": [0.4, 0.1], "woman": [0.1, 0.4]}, index=["fix car", "bake cake"])
    >>> bias = mask_log_ratios(table, {"male": ["man"], "female": ["woman"]}, "male", "female")
    >>> bias.table["log_ratio"].round(4).to_dict()
    {'fix car': 1.3863, 'bake cake': -1.3863}
    """
    sums = {}
    for group in (first, second):
        if group not in words:
            raise UnknownNameError("group", group, words)
        missing = [word for word in words[group] if word not in probabilities.columns]
        if missing or not words[group]:
            raise InputError(f"probabilities has no column for {missing or 'any word'} of group {group!r}")
        sums[group] = probabilities[list(words[group])].to_numpy(float).sum(axis=1)
        bad = np.flatnonzero(~((sums[group] > 0) & (sums[group] <= 1 + 1e-9)))
        if len(bad):
            name = probabilities.index[bad[0]]
            total = sums[group][bad[0]]
            raise InputError(f"probabilities of group {group!r} for {name!r} sum to {total}, outside (0, 1]")
    if first == second:
        raise InputError(f"first and second are both {first!r}; a log ratio compares two groups")
    if probabilities.empty:
        raise InputError("probabilities has no rows; give one row per activity")
    log_ratio = np.log(sums[first] / sums[second])
    table = pd.DataFrame({"log_ratio": log_ratio, "excess": log_ratio}, index=probabilities.index)
    return _with_spread(table, first, second, 0.0, {})


def _with_spread(
    table: pd.DataFrame, first: str, second: str, chance: float, dropped: Mapping[str, int]
) -> ActivityBias:
    values = table["log_ratio"].to_numpy(float)
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    flat = spread <= 1e-12 * max(1.0, float(np.abs(values).max()))
    across = np.zeros(len(values)) if flat else (values - values.mean()) / spread
    normality = None if flat or len(values) < 3 else float(stats.shapiro(values[:5000]).pvalue)
    table = table.assign(z_across=across).sort_values("log_ratio", ascending=False, kind="stable")
    return ActivityBias(table, first, second, chance, normality, dropped)
