"""Two audits of the same suite, query by query: which model is more biased, and is the difference more than luck?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.findings import Findings, read_draws, read_queries
from equipoise.errors import InputError
from equipoise.measure.notes import note
from equipoise.measure.stats import compare as paired

__all__ = ["compare"]

_SAME = ["metric", "variant", "suite", "pool", "axis", "group", "k"]


def compare(a: str | Path, b: str | Path) -> Findings:
    """The mean difference a - b of every metric over the queries that both audits have, paired.

    Rows are named ``<metric>`` with the variant of the audits; ``model`` is "A - B". Where both audits shuffled the
    same labels, as two audits of one table with one seed do, chance shuffles them alike for both: an image that every
    query retrieves moves all differences together, so that queries that share a pool are not independent, and two
    models that do not see the groups may still differ in what luck gives them. Elsewhere the two models are exchanged
    query by query (signs are flipped, chance level 0). Metrics, pools and axes that only one audit has are listed in
    the notes.
    """
    for folder in (a, b):
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: there is no audit here; give the folder of a finished audit")
    first, second = (_means(read_queries(Path(folder))) for folder in (a, b))
    names = [_only_model(frame, folder) for frame, folder in ((first, a), (second, b))]
    # An audit with several models in one folder (tfidf, random) is compared model by model.
    same = [*_SAME, "model"] if max(frame["model"].nunique() for frame in (first, second)) > 1 else _SAME
    joined = first.merge(second, on=[*same, "query"], suffixes=("_a", "_b"))
    if joined.empty:
        raise InputError(f"{a} and {b} have no query in common; compare audits of the same suite and table")
    findings = Findings(str(joined["suite"].iloc[0]), " - ".join(names))
    shuffles = _JointShuffles(Path(a), Path(b), same)
    for _, some in joined.groupby(same, dropna=False, sort=False):
        keys: dict[str, Any] = {"model": findings.model} | {name: _plain(some[name].iloc[0]) for name in same}
        joint = shuffles.of(tuple(_plain(some[name].iloc[0]) for name in same))
        estimate = paired(some["value_a"].to_numpy(), some["value_b"].to_numpy(), clusters=_clusters(some), draws=joint)
        means = {"first_mean": float(some["value_a"].mean()), "second_mean": float(some["value_b"].mean())}
        told = note("compared", first=names[0], second=names[1], **means)
        findings.rows.append(estimate.with_notes(told).row(**keys))
    for frame, other, folder in ((first, second, a), (second, first, b)):
        left = frame.merge(other[[*same, "query"]], on=[*same, "query"], how="left", indicator=True)
        alone = int((left["_merge"] == "left_only").sum())
        if alone:
            findings.notes.append(f"{alone} values of {folder} have no counterpart and were left out")
    return findings


class _JointShuffles:
    """Draws of both audits' nulls, where they shuffled the same labels alike."""

    def __init__(self, a: Path, b: Path, same: list[str]) -> None:
        keys = [*same, "shuffle", "n"]
        first, second = read_draws(a), read_draws(b)
        joined = first.merge(second, on=keys, suffixes=("_a", "_b"))
        self._draws = {
            tuple(_plain(row[name]) for name in same): np.asarray(row["draws_a"]) - np.asarray(row["draws_b"])
            for row in joined.to_dict("records")
        }

    def of(self, key: tuple[Any, ...]) -> NDArray[np.float64] | None:
        """(R,) the difference in each draw; ``None`` where the two audits shuffled other labels."""
        return self._draws.get(key)


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    """One value per query: prompts of the same subject are averaged."""
    by_query = frame.groupby([*_SAME, "query", "model"], dropna=False, sort=False)
    return by_query.agg(value=("value", "mean"), cluster=("cluster", "first")).reset_index()


def _clusters(some: pd.DataFrame) -> NDArray[Any] | None:
    """What belongs together among the queries: captions of one image, images of one occupation."""
    cluster = some["cluster_a"]
    return None if cluster.isna().any() else np.asarray(pd.factorize(cluster)[0])


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value


def _only_model(frame: pd.DataFrame, folder: str | Path) -> str:
    models = sorted(frame["model"].dropna().unique())
    return str(models[0]) if len(models) == 1 else str(folder)
