"""What a reader must know beside a number: a stable code with its facts, and one sentence per code.

A note is text, so that it can stand wherever a sentence does; its code and facts travel with it into the column
``codes`` of a results table. Programs read the codes, people the sentences: nothing learns a fact from a sentence.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import UnknownNameError
from equipoise.formatting import count, missing, plural

SENTENCES: dict[str, str] = {
    # who is compared
    "pair": "{first} - {second}",
    "minus": "{first} minus {second}",
    "named_pair": "{first}/{second}",
    "compared": "{first_mean:.4g} - {second_mean:.4g}",
    "beside_placebos": "{size:.3g} beside {beside:.3g} of placebos: {placebos}",
    "placebo_axis": "placebo axis",
    "sources": "n counts {queries:,} queries from {sources:,} independent sources: those of one source count together",
    "filter_test": "how far the {what} rate of {group} is {side} what is even: no group is farther, in its own spread",
    # what a number stands beside
    "published": "published {value:.2f} ({source})",
    "chance_range": "chance gives {low:.4g} to {high:.4g} in 95% of draws",
    "wins": "{group} wins {share:.0%} of sets",
    "effect_size": "d_z {d_z:.2f}",
    "favours": "favours {group}: {first:,} of the first {k:,}, {pool_share:.0%} of the pool",
    "shown": "{first:,} of the first {k:,}, {pool_share:.0%} of the pool",
    "variance_share": "{share:.0%} of the variance between combinations",
    "seeds": "mean of {n} seeds",
    "seeds_spread": "mean of {n} seeds, sd {sd:.3f}",
    "finds": "finds {what} of {least:.3g}",
    # corrections
    "holm": "Holm p {p:.3g}",
    "holm_over": "Holm p {p:.3g} over {tests} {unit}",
    "holm_run": "p corrected over all steps and axes (Holm)",
    "margin": "{side} the margin of {margin:.3g}",
    # what is missing, and why
    "no_interval": "no interval: {why}",
    "no_null": "no null: {why}",
    "no_queries": "no query of {groups}: left out of the gap",
    "shuffled_within": "shuffled within {within}",
    "unchecked_edits": "{edits:,} edits, and nothing in the table says that they show what they should",
}
"""The sentence of each code; the names in braces are its facts."""


N_OF_SOURCES = (
    "n counts queries (captions, prompts), and in brackets the independent sources that they come from (photographs, "
    "subjects): intervals are over sources"
)
"""What a table says below itself where some of its rows have a note ``sources``."""


class Note(str):
    """A sentence that knows its code and its facts.

    >>> told = note("published", value=0.5, source="GenSynth, Table 1")
    >>> told, told.code, told.facts["value"]
    ('published 0.50 (GenSynth, Table 1)', 'published', 0.5)
    """

    __slots__ = ("code", "facts")

    code: str
    facts: Mapping[str, Any]

    def __new__(cls, sentence: str, code: str = "", facts: Mapping[str, Any] | None = None) -> Note:
        """The sentence as text, with its code and facts beside it."""
        self = super().__new__(cls, sentence)
        self.code, self.facts = code, dict(facts or {})
        return self


def note(code: str, **facts: Any) -> Note:
    """The note of ``code`` with its facts: text, numbers, or lists of them.

    >>> note("no_interval", why="one seed")
    'no interval: one seed'
    >>> note("publised", value=1.0)
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no code of a note named 'publised'; did you mean 'published'?
    """
    if code not in SENTENCES:
        raise UnknownNameError("code of a note", code, SENTENCES)
    return Note(SENTENCES[code].format(**facts), code, facts)


def minus(first: str, second: str) -> Note:
    """Whose numbers a gap is of: those of the first group less those of the second."""
    return note("minus", first=first, second=second)


def no_interval(why: str) -> Note:
    """Why a number has no interval."""
    return note("no_interval", why=why)


def no_null(why: str) -> Note:
    """Why a number has no chance level."""
    return note("no_null", why=why)


def of_sources(clusters: ArrayLike | None) -> tuple[Note, ...]:
    """How many sources the queries come from, where several queries share one: 16 edits of one photograph, say.

    ``clusters`` (Q,) names the source of each query. Without clusters, or with one query per source, there is no note.

    >>> of_sources(["p1", "p1", "p2"])[0].facts, of_sources(["p1", "p2"]), of_sources(None)
    ({'queries': 3, 'sources': 2}, (), ())
    """
    keys = np.asarray([] if clusters is None else clusters)
    sources = len(np.unique(keys))
    return (note("sources", queries=len(keys), sources=sources),) if sources < len(keys) else ()


def codes_of(notes: Iterable[str], further: Mapping[str, Mapping[str, Any]] | None = None) -> str | None:
    """The codes of ``notes`` as JSON, ``{code: facts}``; of two notes with one code the first. ``None`` without any.

    ``further`` codes have no sentence in the notes, because another column says the same to people.

    >>> codes_of([note("no_interval", why="one seed"), "plain words"])
    '{"no_interval": {"why": "one seed"}}'
    """
    codes = {code: dict(facts) for code, facts in (further or {}).items()}
    for each in notes:
        if isinstance(each, Note) and each.code:
            codes.setdefault(each.code, dict(each.facts))
    return json.dumps(codes, default=_plain, ensure_ascii=False) if _finite(codes) else None


def _finite(codes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same with numbers that JSON does not have as text, in place."""
    for facts in codes.values():
        for name, value in facts.items():
            if isinstance(value, float) and not math.isfinite(value):
                facts[name] = str(value)
    return codes


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else list(value)


_K = re.compile(r"\bK = (\d[\d,]*\d|\d)")


def joined_over_k(notes: Iterable[str]) -> list[str]:
    """Notes for people to read: those that differ in K alone are one sentence, where the first of them stood.

    >>> joined_over_k(["gender, K = 10: ndkl left out", "no captions", "gender, K = 100: ndkl left out"])
    ['gender, K = 10, 100: ndkl left out', 'no captions']
    """
    by_text: dict[tuple[str, ...], list[str]] = {}
    for sentence in notes:
        texts, ks = _K.split(sentence)[::2], _K.findall(sentence)
        # a note that speaks of two different K is kept as it is
        key = tuple(texts) if len(set(ks)) == 1 else (sentence,)
        known = by_text.setdefault(key, [])
        known += [k for k in ks[:1] if len(key) > 1 and k not in known]
    return [_over(ks, texts) for texts, ks in by_text.items()]


def _over(ks: list[str], texts: tuple[str, ...]) -> str:
    """A note whose ``texts`` stand around K; where several K share it, they are listed once and "K" is said later.

    >>> _over(["5", "10"], ("", ": none has ", " images"))
    'K = 5, 10: none has K images'
    """
    if not ks:
        return texts[0]
    later = f"K = {ks[0]}" if len(ks) == 1 else "K"
    return texts[0] + f"K = {', '.join(ks)}" + later.join(texts[1:])


def dropped_of(counts: Mapping[str, int]) -> str | None:
    """How many things were left out, by reason, as JSON; ``None`` where nothing was.

    >>> dropped_of({"empty pool": 2, "no group": 0}), dropped_of({})
    ('{"empty pool": 2}', None)
    """
    some = {reason: int(count) for reason, count in counts.items() if count}
    return json.dumps(some, ensure_ascii=False) if some else None


class ResultRow(Protocol):
    """A row of a results table, as a mapping or a pandas Series."""

    def get(self, key: Any, /) -> Any:
        """The value of a column; ``None`` where there is none."""


def facts_of(row: ResultRow, code: str) -> dict[str, Any] | None:
    """The facts of ``code`` in a row of a results table; ``None`` where the row, or an older file, has no such code.

    >>> facts_of({"codes": codes_of([note("seeds", n=5)])}, "seeds"), facts_of({"codes": None}, "seeds")
    ({'n': 5}, None)
    """
    codes = row.get("codes")
    return json.loads(codes).get(code) if isinstance(codes, str) else None


def corrected_p(row: ResultRow) -> float | None:
    """The p-value of a single prompt, corrected over the prompts of its metric (Holm); ``None`` of any other row.

    >>> corrected_p({"codes": codes_of([note("holm_over", p=0.04, tests=2, unit="prompts")])})
    0.04
    """
    known = facts_of(row, "holm_over")
    return float(known["p"]) if known and known["unit"] == "prompts" else None


def independent(row: ResultRow) -> int | None:
    """How many independent things a row rests on: the sources of its queries, or n; ``None`` without either.

    >>> independent({"n": 520, "codes": codes_of(of_sources(["a", "a", "b"]))}), independent({"n": 28, "codes": None})
    (2, 28)
    """
    known = facts_of(row, "sources")
    n = known["sources"] if known else row.get("n")
    return None if missing(n) else int(n)


def counted(row: ResultRow) -> str:
    """The n of a row as a table shows it, with the sources that its queries come from where these are fewer.

    >>> counted({"n": 3, "codes": codes_of(of_sources(["a", "a", "b"]))}), counted({"n": 1344, "codes": None})
    ('3 (2 sources)', '1,344')
    """
    known = facts_of(row, "sources")
    return count(row.get("n")) + (f" ({plural(known['sources'], 'source')})" if known else "")


def pair_keys(first: str, second: str) -> dict[str, Any]:
    """The columns of a results row that is about two groups: the first less the second.

    >>> pair_keys("female", "male")["group"]
    'female - male'
    """
    facts = {"first": first, "second": second}
    return {"group": SENTENCES["pair"].format(**facts), "codes": {"pair": facts}}


def pair_of(row: ResultRow) -> tuple[str, str] | None:
    """The two groups of a row, the first and the second; ``None`` where it is about no pair.

    Rows of older files have no codes: their group is taken apart where it is joined.

    >>> pair_of({"group": "a - b", "codes": '{"pair": {"first": "a", "second": "b"}}'}), pair_of({"group": "a"})
    (('a', 'b'), None)
    """
    facts = facts_of(row, "pair")
    if facts is not None:
        return str(facts["first"]), str(facts["second"])
    group = row.get("group")
    if isinstance(row.get("codes"), str) or not isinstance(group, str):
        return None
    first, joined, second = group.partition(" - ")
    return (first, second) if joined else None


def add_notes(row: MutableMapping[str, Any], *notes: str, first: bool = False) -> None:
    """Give a row of a results table further notes, after its own or ``first``; empty ones are passed over.

    >>> row = {"notes": "no interval: one seed"}
    >>> add_notes(row, note("holm", p=0.01))
    >>> row["notes"], row["codes"]
    ('no interval: one seed; Holm p 0.01', '{"holm": {"p": 0.01}}')
    """
    further = [each for each in notes if each]
    own = [row["notes"]] if row.get("notes") else []
    row["notes"] = "; ".join([*further, *own] if first else [*own, *further])
    row["codes"] = codes_of(further, json.loads(row["codes"]) if row.get("codes") else None)
