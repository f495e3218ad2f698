"""Which activities a masked language model ties to a group: candidates, their log ratio, and the two tails.

GABInsight (Abdollahi et al., arXiv 2407.21001, section 4.1) takes candidates from lists and from verb-object pairs of
captions, asks a masked language model for the word in "a <mask> is doing X", and keeps the tails of ln P(words of one
group) / P(words of the other). The probabilities are read from the whole vocabulary, not from its best words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.errors import InputError
from equipoise.text import Lexicon
from equipoise.text.activities import activity_bias, count_activities, mask_log_ratios
from equipoise.text.english.verb_forms import verb_forms

GROUP_WORDS: Mapping[str, tuple[str, ...]] = {
    "male": ("man", "boy", "male"),
    "female": ("woman", "girl", "female"),
}
"""The paper does not say which words it sums; these are the three of each that every vocabulary has."""
TEMPLATE = "a {mask} is {activity}"
_MASS = ("water", "food", "hair", "music", "wine", "beer", "coffee", "tea", "snow", "grass", "bread", "fruit", "milk")


def read_candidates(path: str | Path) -> list[str]:
    """The activities in a text file, one per line ("riding a horse"); empty lines and comments (#) are left out."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    activities = dict.fromkeys(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if not activities:
        raise InputError(f"{path}: holds no activity; write one per line, such as: riding a horse")
    return list(activities)


def mined_activities(
    captions: Sequence[str], lexicon: str | Lexicon = "equipoise", *, z: float = 1.96, min_count: int = 5
) -> list[str]:
    """Activities of captions that are lopsided by a Z-test over their log ratios, as phrases in -ing.

    A pair of verb and object belongs to the group that its subject word names; see
    :func:`equipoise.text.activities.activity_bias`.

    >>> captions = ["a man rides a horse"] * 9 + ["a woman bakes a cake"] * 9 + ["a man eats a cake"] * 5
    >>> mined_activities(captions + ["a woman eats a cake"] * 5, z=0.5)
    ['riding a horse', 'baking a cake']
    """
    words = Lexicon.load(lexicon) if isinstance(lexicon, str) else lexicon
    if len(words.groups) != 2:
        raise InputError(f"the lexicon {words.id!r} has {len(words.groups)} groups; a log ratio compares two")
    counts = count_activities(captions, label=words.label)
    bias = activity_bias(counts, words.groups[0], words.groups[1], min_count=min_count)
    first, second = bias.tails(z)
    return [_phrase(*counts.table.loc[name, ["verb", "object"]]) for name in [*first, *second]]


def _phrase(verb: str, noun: str) -> str:
    ing = next(form for form, kinds in verb_forms(verb).items() if "ing" in kinds)
    article = "" if noun in _MASS else "an " if noun[0] in "aeiou" else "a "
    return f"{ing} {article}{noun}"


def selected_activities(
    candidates: Sequence[str],
    filler: Any,
    *,
    words: Mapping[str, Sequence[str]] = GROUP_WORDS,
    template: str = TEMPLATE,
    tail: int = 0,
) -> pd.DataFrame:
    """Log ratio of two groups for every candidate, sorted; with ``tail``, that many of either end.

    ``filler`` has ``mask`` and ``shares(texts, words)``, a masked language model. Columns: ``activity``, ``log_ratio``,
    ``z_across`` (among the candidates), ``expected`` (the group that the model finds likelier).
    """
    if "{mask}" not in template or "{activity}" not in template:
        raise InputError(f"template {template!r}: it needs the places {{mask}} and {{activity}}")
    groups = list(words)
    if len(groups) != 2:
        raise InputError(f"{len(groups)} groups of words; a log ratio compares two")
    texts = [template.format(mask=filler.mask, activity=name) for name in candidates]
    every = [word for group in groups for word in words[group]]
    shares = pd.DataFrame(filler.shares(texts, every), columns=every, index=list(candidates))
    bias = mask_log_ratios(shares, words, groups[0], groups[1])
    table = bias.table[["log_ratio", "z_across"]].rename_axis("activity").reset_index()
    table["expected"] = [groups[0] if value > 0 else groups[1] for value in table["log_ratio"]]
    if tail and 2 * tail < len(table):
        table = pd.concat([table.head(tail), table.tail(tail)], ignore_index=True)
    return table
