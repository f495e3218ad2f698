"""Numbers, lists and tables as a reader meets them, on pages and in terminals.

Pages have the true minus sign and a dash where there is nothing; terminals have plain characters and an empty cell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

MINUS = "\N{MINUS SIGN}"
NOTHING = "–"


def missing(value: Any) -> bool:
    """Whether there is no value: ``None``, NaN, or a missing value of pandas.

    >>> missing(None), missing(float("nan")), missing(0.0)
    (True, True, False)
    """
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def amount(value: Any, digits: int = 2) -> str:
    """A number with ``digits`` decimals; a dash where there is none.

    >>> amount(-0.126), amount(None), amount(float("inf")), amount(0.0004)
    ('−0.13', '–', '∞', '0.00')
    """
    if missing(value):
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
    return NOTHING if missing(value) else f"{int(value):,}"


def share(value: Any, digits: int = 0) -> str:
    """A share in percent.

    >>> share(0.214), share(None)
    ('21%', '–')
    """
    if missing(value) or math.isinf(value):
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
    return f"{count(n)} {word}" if not missing(n) and n == 1 else f"{count(n)} {word}s"


def p_text(value: Any) -> str:
    """A p-value with its sign of equality.

    >>> p_text(0.00001), p_text(0.0312), p_text(None)
    ('p < 0.001', 'p = 0.031', 'no p-value')
    """
    if missing(value):
        return "no p-value"
    return "p < 0.001" if value < 0.001 else f"p = {_p_digits(value)}"


def _p_digits(value: float) -> str:
    """A p-value with three digits, or as many as keep one below 0.05 below it in print.

    >>> _p_digits(0.0312), _p_digits(0.0496), _p_digits(0.049996), _p_digits(0.05)
    ('0.031', '0.0496', '0.049996', '0.050')
    """
    texts = (f"{value:.{digits}f}" for digits in range(3, 17))
    return next((text for text in texts if (float(text) < 0.05) == (value < 0.05)), f"{value:.3f}")


def p_number(value: Any) -> str:
    """A p-value in a table of a page, where the heading says that it is one.

    >>> p_number(0.00001), p_number(0.0312), p_number(None)
    ('< 0.001', '0.031', '–')
    """
    return NOTHING if missing(value) else "< 0.001" if value < 0.001 else _p_digits(value)


def interval(low: Any, high: Any, digits: int = 2) -> str:
    """An interval in words; empty where there is none.

    >>> interval(0.1, 0.25), interval(None, None)
    ('0.10 to 0.25', '')
    """
    if missing(low) or missing(high):
        return ""
    return f"{amount(low, digits)} to {amount(high, digits)}"


def excess_interval(row: Any, digits: int = 2) -> str:
    """The interval of a row's excess: that of its value, less its chance level.

    >>> excess_interval({"ci_low": 0.5, "ci_high": 0.75, "null_mean": 0.25})
    '+0.25 to +0.50'
    """
    low, high, null = row["ci_low"], row["ci_high"], row["null_mean"]
    if missing(low) or missing(high) or missing(null):
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


def after_perceived(words: str) -> str:
    """An axis in words, to stand behind "perceived": a column that has the word in its own name says it once.

    >>> after_perceived("perceived gender × age"), after_perceived("skin tone")
    ('gender × age', 'skin tone')
    """
    return re.sub(r"\bperceived[ -]", "", words, flags=re.IGNORECASE)


def plain(value: Any, digits: int = 3, *, scale: float = 1, sign: bool = False) -> str:
    """A number in a terminal, ``scale`` times as large; empty where there is none, and never a negative zero.

    >>> plain(-0.1234), plain(0.5, 1, scale=100, sign=True), plain(-0.0001), plain(None)
    ('-0.123', '+50.0', '0.000', '')
    """
    if missing(value):
        return ""
    text = f"{scale * value:{'+' if sign else ''}.{digits}f}"
    return text.lstrip("-") if text.startswith("-") and float(text) == 0 else text


def brackets(low: Any, high: Any, digits: int = 3, *, scale: float = 1, sign: bool = False) -> str:
    """An interval in a terminal; empty where there is none.

    >>> brackets(0.1, 0.25), brackets(0.1, None)
    ('[0.100, 0.250]', '')
    """
    if missing(low) or missing(high):
        return ""
    return f"[{plain(low, digits, scale=scale, sign=sign)}, {plain(high, digits, scale=scale, sign=sign)}]"


def p_plain(value: Any) -> str:
    """A p-value in a terminal; empty where there is none.

    >>> p_plain(0.00001), p_plain(0.0312), p_plain(None)
    ('<0.001', '0.031', '')
    """
    return "" if missing(value) else "<0.001" if value < 0.001 else _p_digits(value)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys instead of showing it: control characters, and those that turn the direction of reading."""


def shown(text: str) -> str:
    """``text`` with everything that a terminal would obey shown as it is written in Python.

    >>> print(shown("a \x1b[2Jcat"), shown("caf\u00e9"))
    a \\x1b[2Jcat café
    """
    return _COMMANDS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def shortened(text: str, most: int = 60) -> str:
    """Text of at most ``most`` characters.

    >>> shortened("a long sentence", 8)
    'a long …'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def cut_in_middle(text: str, most: int = 60, mark: str = "…") -> str:
    """Text of at most ``most`` characters, cut in the middle: names and paths differ at their end.

    >>> cut_in_middle("/data/models/clip-v2", 12), cut_in_middle("clip-v2", 12)
    ('/data…lip-v2', 'clip-v2')
    """
    if len(text) <= most:
        return text
    room = max(most - len(mark), 2)
    return text[: room // 2] + mark + text[-(room - room // 2) :]


def told_apart(texts: Iterable[str], most: int, mark: str = "…") -> dict[str, str]:
    """Each text cut in the middle, to ``most`` characters, or to as many more as keep different texts apart.

    >>> list(told_apart(["a/run1/weights", "a/run2/weights", "c"], 7).values())
    ['a/run1…eights', 'a/run2…eights', 'c']
    """
    every = list(dict.fromkeys(texts))
    for width in range(most, max(map(len, every), default=0) + 1):
        cut = {text: cut_in_middle(text, width, mark) for text in every}
        if len(set(cut.values())) == len(every):
            return cut
    return {text: text for text in every}


def one_line(error: BaseException, most: int = 400) -> str:
    """What an error says, in one line; its kind where it says nothing.

    >>> one_line(ValueError("a\\n  b")), one_line(KeyError())
    ('a b', 'KeyError')
    """
    return shortened(" ".join(str(error).split()), most) or type(error).__name__


def for_spreadsheet(value: Any) -> Any:
    """``value`` for a cell of a CSV file: text that a spreadsheet would run as a formula gets an apostrophe before it.

    Numbers stay numbers, also those that are written as text. Text that begins with such apostrophes already gets one
    more, so that :func:`from_spreadsheet` gives back what was written.

    >>> for_spreadsheet("=1+1"), for_spreadsheet("-0.5"), for_spreadsheet("a-b"), for_spreadsheet(-3)
    ("'=1+1", '-0.5', 'a-b', -3)
    >>> for_spreadsheet("'=1+1")
    "''=1+1"
    """
    if not isinstance(value, str) or not value.lstrip("'").startswith(_FORMULA):
        return value
    try:
        float(value.lstrip("'"))
    except ValueError:
        return "'" + value
    return value


def from_spreadsheet(text: str) -> str:
    """The text of a cell that :func:`for_spreadsheet` wrote; any other cell as it is.

    >>> from_spreadsheet("'=1+1"), from_spreadsheet("'-0.5"), from_spreadsheet("'tis a cat")
    ('=1+1', "'-0.5", "'tis a cat")
    """
    return text[1:] if text.startswith("'") and for_spreadsheet(text[1:]) == text else text


def delimiter_in(header: str) -> str:
    """What parts the fields of a CSV file with this first line: a comma, or a semicolon as some spreadsheets write it.

    >>> delimiter_in("path,sex"), delimiter_in("path;sex;age"), delimiter_in("caption")
    (',', ';', ',')
    """
    return ";" if header.count(";") > header.count(",") else ","


def csv_text(frame: Any, *, float_format: str | None = None) -> str:
    """A DataFrame as CSV, with no cell that a spreadsheet would run (:func:`for_spreadsheet`), a line per row."""

    def safe(value: Any) -> Any:
        # pandas does not quote a carriage return, which would begin a new row
        return for_spreadsheet(value).replace("\r", " ") if isinstance(value, str) else value

    named = frame.rename(columns=safe)
    texts = [name for name in named if getattr(named[name].dtype, "kind", "O") not in "biufc"]
    cells = {name: named[name].map(safe, na_action="ignore") for name in texts}
    return str(named.assign(**cells).to_csv(index=False, lineterminator="\n", float_format=float_format))


def text_table(lines: Sequence[Sequence[str]], left: Collection[int] = (0,), most: int | None = None) -> list[str]:
    """Lines of cells under each other, those of the columns in ``left`` to the left and the others to the right.

    ``most``: the largest width of a column to the left; what is longer is cut in the middle, and the column is wider
    where two cells that differ would look alike.

    >>> print("\\n".join(text_table([["metric", "n"], ["ndkl", "1,200"]])))
    metric      n
    ndkl    1,200
    """
    if not lines:
        return []
    lines = [[shown(cell) for cell in line] for line in lines]
    columns = list(zip(*lines, strict=True))
    if most:
        cut = [told_apart(column, most, "...") if i in left else {} for i, column in enumerate(columns)]
        lines = [[cut[i].get(cell, cell) for i, cell in enumerate(line)] for line in lines]
        columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(
            f"{cell:{width}}" if i in left else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """A table in Markdown; the columns in ``left`` hold text, the others numbers.

    >>> print(markdown_table(["group", "n"], [["a", "1"]]))
    | group | n |
    | --- | ---: |
    | a | 1 |
    """
    rules = ["---" if i in left else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rules, *lines))
