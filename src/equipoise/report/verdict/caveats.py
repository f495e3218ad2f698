"""What a reader must know before the verdict is believed: what was measured on pictures that nobody has looked at."""

from __future__ import annotations

from pathlib import Path

from equipoise.data.manifest import TABLE_AT
from equipoise.formatting import plural
from equipoise.measure.notes import facts_of
from equipoise.report.sources import Series

__all__ = ["unchecked_edits"]


def unchecked_edits(series: Series) -> str:
    """That nobody has checked whether edited pictures show what they should, and what does; empty where it is not so.

    The rows of an audit say so themselves (the note ``unchecked_edits``).
    """
    rows = series.results.to_dict("records")
    facts = next((facts for row in rows if (facts := facts_of(row, "unchecked_edits"))), None)
    if facts is None:
        return ""
    at = series.source.settings.get(TABLE_AT)
    table = Path(at).name if isinstance(at, str) and Path(at).name else "TABLE"
    return (
        f"Nobody has checked whether the {plural(facts['edits'], 'edited picture')} show what they should, and what "
        f"does not is counted all the same; this checks it: equipoise filter {table} --steps detectability -m ENCODER "
        f"-o {table}-checked."
    )
