"""Whom a model ranked first, read back from the evidence that an audit keeps: the top pictures of every subject."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.labels import without_twins
from equipoise.report.sources import Series

__all__ = ["Ranking", "read_ranking"]

SUITES = ("intersectional", "marginal")
"""The suites whose queries are subjects over the subject's own pictures."""


@dataclass(frozen=True)
class Ranking:
    """The pictures of each subject in the model's order, with their labels."""

    frame: pd.DataFrame
    """The labels, one row a picture: ``image_id``, ``subject``, ``set_id`` and the axes."""
    order: dict[str, NDArray[np.int64]]
    """For each subject the rows of ``frame``, the best first."""

    def top(self, subject: str, k: int) -> pd.DataFrame:
        """The labels of the subject's first ``k`` pictures."""
        return self.frame.iloc[self.order[subject][:k]]

    def shares(self, axes: Sequence[str], k: int) -> pd.DataFrame:
        """``subject, group, share, expected``: of the first ``k``, and of all the subject's pictures."""
        labels = self.frame[list(axes)]
        joint = labels.apply(lambda row: " & ".join(map(str, row)), axis=1).where(labels.notna().all(axis=1))
        groups = sorted(joint.dropna().unique())
        rows = []
        for subject, order in self.order.items():
            every = joint.iloc[order].dropna()
            first = joint.iloc[order[:k]].dropna()
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


def read_ranking(one: Series, problems: list[str]) -> Ranking | None:
    """The ranking behind an audit's numbers; ``None`` for other suites, or with a sentence in ``problems``."""
    if one.source.kind != "audit" or one.source.settings.get("suite") not in SUITES:
        return None
    home = one.source.path / "_evidence"
    name = f"{one.source.path.name}/_evidence"
    if not (home / "evidence.json").is_file():
        problems.append(f"{name} is missing: no retrieved pictures can be shown; run the audit again")
        return None
    try:
        about = json.loads((home / "evidence.json").read_text(encoding="utf-8"))
        frame = pd.read_parquet(home / "frame.parquet").reset_index(drop=True)
        texts = [str(text) for text in about["texts"]]
        arrays = {
            n: np.load(p, mmap_mode="r") for n in ("images", "texts", "scores") if (p := home / f"{n}.npy").exists()
        }
        if "subject" not in frame:
            return None
        asked = _asked(texts, [str(s) for s in frame["subject"].dropna().unique()])
        kept = _kept(one, asked)
        raw = one.source.settings.get("settings", {}).get("prompt_pool") == "embed_mean_raw"
        order = {s: _order(frame, s, rows, arrays, raw) for s, rows in asked.items() if s in kept}
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError) as error:
        problems.append(f"{name} is damaged or cut short ({_first(error)}): no retrieved pictures can be shown")
        return None
    return Ranking(frame, order) if order else None


def _first(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 80 else text[:79] + "…"


def _kept(one: Series, asked: dict[str, list[int]]) -> set[str]:
    measured = set(one.results["subject"].dropna())
    return measured or set(asked)


def _asked(texts: list[str], subjects: Sequence[str]) -> dict[str, list[int]]:
    """Which texts ask for which subject: those that name it, and name no longer subject around it.

    >>> _asked(["A photo of a developer", "A photo of a web developer"], ["developer", "web developer"])
    {'developer': [0], 'web developer': [1]}
    """
    longest = sorted(subjects, key=lambda s: (-len(s), s))
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(s)}(?!\w)" for s in longest), re.IGNORECASE)
    place = {subject.lower(): subject for subject in subjects}
    found: dict[str, list[int]] = {subject: [] for subject in sorted(subjects)}
    for number, text in enumerate(texts):
        match = pattern.search(text)
        if match:
            found[place[match[0].lower()]].append(number)
    return {subject: rows for subject, rows in found.items() if rows}


def _order(frame: pd.DataFrame, subject: str, texts: list[int], arrays: dict[str, Any], raw: bool) -> NDArray[np.int64]:
    rows = np.flatnonzero((frame["subject"] == subject).to_numpy() & without_twins(frame))
    if "scores" in arrays:
        scores = np.asarray(arrays["scores"][np.ix_(np.array(texts), rows)], dtype=np.float64).mean(axis=0)
    else:
        asked = np.asarray(arrays["texts"][texts], dtype=np.float64)
        if not raw:
            asked = asked / np.linalg.norm(asked, axis=1, keepdims=True)
        scores = np.asarray(arrays["images"][rows], dtype=np.float64) @ asked.mean(axis=0)
    return np.asarray(rows[np.argsort(-scores, kind="stable")], dtype=np.int64)
