"""Two audits of the same suite, query by query: which model is more biased, and is the difference more than luck?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.audit.findings import Findings, read_queries
from equipoise.errors import InputError
from equipoise.measure.stats import compare as paired

__all__ = ["compare"]

_SAME = ["metric", "variant", "suite", "pool", "axis", "group", "k"]


def compare(a: str | Path, b: str | Path) -> Findings:
    """The mean difference a - b of every metric over the queries that both audits have, paired.

    Rows are named ``<metric>`` with the variant of the audits; ``model`` is "A - B". Chance level is 0: the two
    models could be exchanged. Metrics, pools and axes that only one audit has are listed in the notes.
    """
    first, second = (_means(read_queries(Path(folder))) for folder in (a, b))
    names = [_only_model(frame, folder) for frame, folder in ((first, a), (second, b))]
    joined = first.merge(second, on=[*_SAME, "query"], suffixes=("_a", "_b"))
    if joined.empty:
        raise InputError(f"{a} and {b} have no query in common; compare audits of the same suite and table")
    findings = Findings(str(joined["suite"].iloc[0]), " - ".join(names))
    for _, some in joined.groupby(_SAME, dropna=False, sort=False):
        keys: dict[str, Any] = {name: _plain(some[name].iloc[0]) for name in _SAME}
        estimate = paired(some["value_a"].to_numpy(), some["value_b"].to_numpy())
        values = f"{some['value_a'].mean():.4g} - {some['value_b'].mean():.4g}"
        findings.rows.append(estimate.with_notes(values).row(**(keys | {"model": findings.model})))
    for frame, other, folder in ((first, second, a), (second, first, b)):
        left = frame.merge(other[[*_SAME, "query"]], on=[*_SAME, "query"], how="left", indicator=True)
        alone = int((left["_merge"] == "left_only").sum())
        if alone:
            findings.notes.append(f"{alone} values of {folder} have no counterpart and were left out")
    return findings


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    """One value a query: prompts of the same subject are averaged."""
    means = frame.groupby([*_SAME, "query", "model"], dropna=False, sort=False)["value"].mean()
    return means.reset_index()


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value


def _only_model(frame: pd.DataFrame, folder: str | Path) -> str:
    models = sorted(frame["model"].dropna().unique())
    return str(models[0]) if len(models) == 1 else str(folder)
