"""Results as text that a person can read."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from equipoise.measure import METRICS

__all__ = ["table_of"]

_PUBLISHED = re.compile(r"published (-?\d+(?:\.\d+)?)")
_TEXTS = ("metric", "variant", "pool", "model", "axis", "subject", "group")
_WIDEST = 40


def table_of(frame: pd.DataFrame, *, everything: bool = False, limit: int = 60, level: float = 0.95) -> str:
    """One line a number: value, chance, excess, interval, p and n, and the published value where a note gives one.

    Single subjects, the shares of single groups and secondary metrics are left to the results file, unless
    ``everything`` is asked for. Columns that say nothing (one model, no groups) are left out. ``level`` is that of the
    intervals.
    """
    details = {name for name in frame["metric"] if METRICS.find(name).detail}
    shown = frame if everything else frame[frame["subject"].isna() & ~frame["metric"].isin(details)]
    if shown.empty:
        shown = frame
    limit = len(shown) if everything else limit
    lines = [_cells(row, f"{100 * level:.4g}% interval") for row in shown.head(limit).to_dict("records")]
    names = [name for name in lines[0] if name != "model" or frame["model"].nunique() > 1] if lines else []
    names = [name for name in names if name in ("metric", "value", "n") or any(line[name] for line in lines)]
    widths = {name: min(_WIDEST, max(len(name), *(len(line[name]) for line in lines))) for name in names}
    text = [_line({name: name for name in names}, widths), *(_line(line, widths) for line in lines)]
    if len(shown) > limit:
        text.append(f"... and {len(shown) - limit} more rows in results.parquet")
    return "\n".join(text)


def _cells(row: dict[Any, Any], heading: str) -> dict[str, str]:
    interval = ""
    if pd.notna(row["ci_low"]) and pd.notna(row["ci_high"]):
        interval = f"[{row['ci_low']:.3f}, {row['ci_high']:.3f}]"
    published = _PUBLISHED.search(_text(row["notes"]))
    return {
        "metric": row["metric"],
        "variant": _text(row["variant"]),
        "pool": _text(row["pool"]),
        "model": _text(row["model"]),
        "axis": _text(row["axis"]),
        "subject": _text(row["subject"]),
        "group": _text(row["group"]),
        "k": _text(row["k"]),
        "value": _number(row["value"]),
        "chance": _number(row["null_mean"]),
        "excess": _number(row["excess"], sign=True),
        heading: interval,
        "p": _p(row["p_value"]),
        "n": _text(row["n"]),
        "published": "" if published is None else published[1],
    }


def _line(cells: dict[str, str], widths: dict[str, int]) -> str:
    parts = [
        f"{cells[name][:width]:{width}}" if name in _TEXTS else f"{cells[name]:>{width}}"
        for name, width in widths.items()
    ]
    return "  ".join(parts).rstrip()


def _text(value: Any) -> str:
    if value is None or (not isinstance(value, str) and pd.isna(value)):
        return ""
    return str(int(value)) if isinstance(value, float) else str(value)


def _number(value: Any, *, sign: bool = False) -> str:
    return "" if value is None or pd.isna(value) else (f"{value:+.3f}" if sign else f"{value:.3f}")


def _p(value: Any) -> str:
    if value is None or pd.isna(value):
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"
