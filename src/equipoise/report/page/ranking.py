"""Whom a model ranked first, as the audit wrote it down (``ranking.parquet``): the top pictures of every subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.labels import without_twins
from equipoise.formatting import one_line
from equipoise.report.sources import Series

__all__ = ["PictureOrder", "read_ranking"]

FILE = "ranking.parquet"
_RANKED = "intersectional"
"""The suite whose audits have a ranking; those of earlier versions have none."""


@dataclass(frozen=True)
class PictureOrder:
    """The pictures of each subject in the model's order, with their labels."""

    frame: pd.DataFrame
    """The labels, one row per picture: ``image_id``, ``subject``, ``set_id`` and the axes."""
    order: dict[str, NDArray[np.int64]]
    """For each subject the rows of ``frame``, the best first."""

    def top(self, subject: str, k: int) -> pd.DataFrame:
        """The labels of the subject's first ``k`` pictures."""
        return self.frame.iloc[self.order[subject][:k]]

    def shares(self, axes: Sequence[str], k: int) -> pd.DataFrame:
        """``subject, group, share, expected``: of the first ``k`` with a group, as audits count, and of all.

        >>> frame = pd.DataFrame({"image_id": [*"abc"], "subject": "cook", "gender": ["f", None, "m"]})
        >>> PictureOrder(frame, {"cook": np.array([1, 2, 0])}).shares(["gender"], 1)["share"].tolist()
        [0.0, 1.0]
        """
        labels = self.frame[list(axes)]
        joint = labels.apply(lambda row: " & ".join(map(str, row)), axis=1).where(labels.notna().all(axis=1))
        groups = sorted(joint.dropna().unique())
        usual = without_twins(self.frame)
        rows = []
        for subject, order in self.order.items():
            every = joint[(self.frame["subject"] == subject).to_numpy() & usual].dropna()
            first = joint.iloc[order].dropna()[:k]
            for group in groups:
                rows.append(
                    {
                        "subject": subject,
                        "group": group,
                        "share": float((first == group).mean()) if len(first) else 0.0,
                        "expected": float((every == group).mean()) if len(every) else 0.0,
                    }
                )
        return pd.DataFrame(rows)


def read_ranking(series: Series, problems: list[str]) -> PictureOrder | None:
    """The ranking behind an audit's numbers; ``None`` for other suites, or with a sentence in ``problems``."""
    home, name = series.source.path, series.source.path.name
    if series.source.kind != "audit" or not ((home / FILE).is_file() or series.source.settings.get("suite") == _RANKED):
        return None
    ranks = _read(home, FILE, problems)
    labels = None if ranks is None else _read(home, "_evidence/frame.parquet", problems)
    if ranks is None or labels is None:
        return None
    try:
        best_first = ranks.sort_values(["query", "rank"], kind="stable")
        rows = pd.Index(labels["image_id"]).get_indexer(pd.Index(best_first["image_id"]))
        queries = best_first["query"].astype(str).to_numpy()
        order = {subject: rows[queries == subject].astype(np.int64) for subject in dict.fromkeys(queries)}
    except (KeyError, TypeError, ValueError) as error:
        problems.append(f"{name}/{FILE} is not what an audit writes ({error}): no retrieved pictures can be shown")
        return None
    if (rows < 0).any():
        problems.append(f"{name}/{FILE} is not of the same pictures as its labels: no retrieved pictures can be shown")
        return None
    if not order:
        why = "the model gives all pictures of a subject the same score"
        problems.append(f"{name}: no retrieved pictures can be shown, because {why}")
        return None
    return PictureOrder(labels.reset_index(drop=True), order)


def _read(home: Path, file: str, problems: list[str]) -> pd.DataFrame | None:
    loss = "no retrieved pictures can be shown"
    if not (home / file).is_file():
        problems.append(f"{home.name}/{file} is missing: {loss}; measure the audit again")
        return None
    try:
        return pd.read_parquet(home / file)
    except (OSError, ValueError, TypeError) as error:
        problems.append(f"{home.name}/{file} is damaged or cut short ({one_line(error, 80)}): {loss}")
        return None
