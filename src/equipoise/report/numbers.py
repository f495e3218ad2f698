"""Numbers as a reader meets them: the same width, the true minus sign, never more digits than they are worth."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

__all__ = [
    "amount",
    "count",
    "excess_interval",
    "factor",
    "interval",
    "joined",
    "p_text",
    "percent",
    "plural",
    "share",
    "signed",
]

MINUS = "\N{MINUS SIGN}"
NOTHING = "–"


def amount(value: Any, digits: int = 2) -> str:
    """A number with ``digits`` decimals; a dash where there is none.

    >>> amount(-0.126), amount(None), amount(float("inf")), amount(0.0004)
    ('−0.13', '–', '∞', '0.00')
    """
    if value is None or pd.isna(value):
        return NOTHING
    number = float(value)
    if math.isinf(number):
        return "∞" if number > 0 else MINUS + "∞"
    text = f"{abs(number):.{digits}f}"
    return MINUS + text if number < 0 and float(text) else text


def signed(value: Any, digits: int = 2) -> str:
    """A number with its sign: a difference.

    >>> signed(0.3), signed(-0.3), signed(0.001)
    ('+0.30', '−0.30', '0.00')
    """
    text = amount(value, digits)
    return f"+{text}" if text[0] not in MINUS + NOTHING and any(c in "123456789∞" for c in text) else text


def count(value: Any) -> str:
    """A whole number with its thousands apart.

    >>> count(1344), count(None)
    ('1,344', '–')
    """
    return NOTHING if value is None or pd.isna(value) else f"{int(value):,}"


def share(value: Any, digits: int = 0) -> str:
    """A share in percent.

    >>> share(0.214), share(None)
    ('21%', '–')
    """
    if value is None or pd.isna(value) or math.isinf(value):
        return amount(value)
    return f"{100 * float(value):.{digits}f}%"


def percent(level: float) -> str:
    """The level of an interval.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * level:.4g}%"


def plural(n: Any, word: str) -> str:
    """A number of things.

    >>> plural(1, "subject"), plural(1200, "subject")
    ('1 subject', '1,200 subjects')
    """
    return f"{count(n)} {word}" if not pd.isna(n) and n == 1 else f"{count(n)} {word}s"


def p_text(value: Any) -> str:
    """A p-value with its sign of equality.

    >>> p_text(0.00001), p_text(0.0312), p_text(None)
    ('p < 0.001', 'p = 0.031', 'no p-value')
    """
    if value is None or pd.isna(value):
        return "no p-value"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def interval(low: Any, high: Any, digits: int = 2) -> str:
    """An interval in words; empty where there is none.

    >>> interval(0.1, 0.25), interval(None, None)
    ('0.10 to 0.25', '')
    """
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return ""
    return f"{amount(low, digits)} to {amount(high, digits)}"


def excess_interval(row: Any, digits: int = 2) -> str:
    """The interval of a row's excess: that of its value, less its chance level.

    >>> excess_interval({"ci_low": 0.5, "ci_high": 0.75, "null_mean": 0.25})
    '+0.25 to +0.50'
    """
    low, high, null = row["ci_low"], row["ci_high"], row["null_mean"]
    if pd.isna(low) or pd.isna(high) or pd.isna(null):
        return ""
    return f"{signed(low - null, digits)} to {signed(high - null, digits)}"


def factor(skew: float) -> str:
    """How many times its fair share a group with this skew has: exp(skew).

    >>> factor(0.6931)
    '2.0 times'
    """
    return f"{math.exp(skew):.1f} times" if skew < 700 else "∞ times"


def joined(words: list[str], last: str = "and") -> str:
    """Words as a list in a sentence.

    >>> joined(["a", "b", "c"]), joined(["a"])
    ('a, b and c', 'a')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""
