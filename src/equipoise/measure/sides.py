"""Whom a signed number favours: the group's own name in place of a plus or a minus."""

from __future__ import annotations

from typing import Any

from equipoise.formatting import missing
from equipoise.measure.metric import METRICS
from equipoise.measure.notes import ResultRow, facts_of, pair_of

_NEXT_TO_NOTHING = 1e-9


def of_pair(metric: str, pair: tuple[str, str] | None) -> dict[str, Any]:
    """The codes of a row whose sign is between two groups that no other column names, as Bias@K has them.

    >>> of_pair("bias_at_k", ("male", "female")), of_pair("abs_bias_at_k", ("male", "female"))
    ({'codes': {'pair': {'first': 'male', 'second': 'female'}}}, {})
    """
    known = METRICS.find(metric)
    if pair is None or known.takes != "pair" or known.alternative != "two-sided":
        return {}
    return {"codes": {"pair": {"first": pair[0], "second": pair[1]}}}


def sides(row: ResultRow) -> tuple[str, str] | None:
    """The group that a signed row favours and the one it is against; ``None`` where it names no pair or is even.

    A gap between two groups is held against its chance level; that of the highest over the lowest says itself which
    group has more. The size of a gap has no sign.

    >>> row = {"metric": "standard_gap", "group": "female - male", "value": -0.2, "null_mean": 0.0}
    >>> sides(row), sides(row | {"metric": "standard_gap_size"})
    (('male', 'female'), None)
    >>> gap = {"metric": "closest_kind_gap", "value": 0.02, "null_mean": 0.07}
    >>> sides(gap | {"codes": '{"minus": {"first": "old", "second": "young"}}'})
    ('old', 'young')
    """
    value, chance = row.get("value"), row.get("null_mean")
    if missing(value):
        return None
    above = facts_of(row, "minus")
    if above is not None:
        pair, distance = (str(above["first"]), str(above["second"])), float(value)
    else:
        known = pair_of(row) if METRICS.find(str(row.get("metric"))).alternative == "two-sided" else None
        if known is None:
            return None
        pair, distance = known, float(value) - (0.0 if missing(chance) else float(chance))
    if abs(distance) < _NEXT_TO_NOTHING:
        return None
    return pair if distance > 0 else (pair[1], pair[0])


def favoured(row: ResultRow) -> str:
    """The group that a row favours, by its sign or as its note says; empty where it favours none.

    >>> pair = '{"pair": {"first": "m", "second": "f"}}'
    >>> row = {"metric": "bias_at_k", "value": 0.1, "null_mean": 0.3, "codes": pair}
    >>> favoured(row), favoured({"metric": "max_skew", "value": 0.1, "null_mean": 0.0})
    ('f', '')
    """
    known = sides(row)
    if known is not None:
        return known[0]
    return str((facts_of(row, "favours") or {}).get("group", ""))


def in_words(row: ResultRow) -> str:
    """What the sign of a row says, for a sentence; empty where it has none.

    >>> pair = '{"pair": {"first": "male", "second": "female"}}'
    >>> in_words({"metric": "bias_at_k", "value": -0.2, "null_mean": 0.1, "codes": pair})
    'more female than the pool'
    >>> in_words({"metric": "outranks", "group": "old - young", "value": 0.6, "null_mean": 0.5})
    'old above young'
    """
    known = sides(row)
    if known is None:
        return ""
    if METRICS.find(str(row.get("metric"))).takes == "pair":
        return f"more {known[0]} than the pool"
    return f"{known[0]} above {known[1]}"


def sign_told(row: ResultRow, name: str = "") -> str:
    """What both signs of a row's metric mean, for a line below a table; empty where another column names the groups.

    ``name``: what the reader knows the metric by, if not by its name in the results.

    >>> sign_told({"metric": "bias_at_k", "codes": '{"pair": {"first": "male", "second": "female"}}'})
    'bias_at_k: above chance is more male than the pool, below it more female'
    """
    metric, pair = str(row.get("metric")), facts_of(row, "pair")
    if pair is None or METRICS.find(metric).takes != "pair":
        return ""
    return f"{name or metric}: above chance is more {pair['first']} than the pool, below it more {pair['second']}"
