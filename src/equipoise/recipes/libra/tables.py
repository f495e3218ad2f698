"""What the study of LIBRA shows: before and after, the change with its interval, ablations, and the paper's numbers."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from equipoise.data import read_results
from equipoise.recipes.studies.common import paper_table
from equipoise.recipes.studies.frame import StudyHome
from equipoise.report.study import StudyPart, StudyTable, measured_cells

__all__ = ["METRICS", "parts_of"]

METRICS = {
    "lic_m": "LIC_M (fast)",
    "lic": "LIC (fast)",
    "error": "Error",
    "bleu_4": "BLEU-4",
    "cider": "CIDEr",
    "meteor_approximate": "METEOR (approximate)",
    "clip_score": "CLIPScore",
}
_POINTS = ("lic_m", "lic")
"""Metrics that are in points already; the others are shares, shown times 100."""


def parts_of(home: StudyHome) -> list[StudyPart]:
    """Everything that the study shows."""
    changes = _changes(home)
    if not len(changes):
        return []
    main, others = changes[changes["reviser"] == "libra"], changes[changes["reviser"] != "libra"]
    text = (
        "Each row is the revised captions less those as written, paired image by image (LIC split by split). Captions "
        "lean less where LIC and Error fall; they say as much where CIDEr and CLIPScore do not."
    )
    head = ["strength", "pictures", "seed", "metric"]
    parts = [
        StudyPart(
            "Table 3.2",
            "Captions before and after",
            (text,),
            (
                StudyTable("T3.2", "After less before", main.drop(columns="reviser"), digits=2),
                StudyTable("T3.2-before", "Before", _before(home), digits=2),
            ),
            (),
            f"{main[head].drop_duplicates().shape[0]} comparisons",
        )
    ]
    if len(others):
        table = StudyTable("T3.6", "Other revisers: after less before", others.drop(columns="seed"), digits=2)
        about = "Revisers that learnt from other pairs, on the captioner of strength 2 and on grainy pictures."
        parts.append(StudyPart("Tables 3.4 to 3.11", "What makes the difference?", (about,), (table,), (), ""))
    counts = _counts(home)
    if len(counts):
        about = "Pairs that were found and those that the mix takes; the paper's counts are of COCO."
        tables = (StudyTable("T3.1", "Pairs by kind", counts, digits=0), paper_table("libra", "T3.1", "As published"))
        parts.append(StudyPart("Table 3.1", "Biased captions", (about,), tables, (), "pairs"))
    published = (
        paper_table("libra", "T3.2", "Table 3.2 as published", digits=1),
        *(paper_table("libra", f"T3.{n}", f"Table 3.{n} as published", digits=1) for n in (4, 5, 6, 9)),
    )
    note = "On COCO, by the paper's LSTM classifier: for comparison of directions, not of numbers."
    parts.append(StudyPart("Published", "The paper's tables", (note,), published, (), "published"))
    return parts


def _changes(home: StudyHome) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for mark in sorted((home.folder / "steps").glob("change-*.json")):
        name, seed, strength, shown = mark.stem.removeprefix("change-").rsplit("-", 3)
        results = read_results(home.step(mark.stem) / "comparison" / "results.parquet")
        keys = {"reviser": name, "strength": strength, "pictures": shown, "seed": int(seed)}
        rows += [keys | row for row in _cells(results)]
    return pd.DataFrame(rows)


def _before(home: StudyHome) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for mark in sorted((home.folder / "steps").glob("before-*.json")):
        strength, shown = mark.stem.removeprefix("before-").rsplit("-", 1)
        results = read_results(home.step(mark.stem) / "results.parquet")
        rows += [{"strength": strength, "pictures": shown} | row for row in _cells(results)]
    return pd.DataFrame(rows)


def _cells(results: pd.DataFrame) -> list[dict[str, Any]]:
    whole = results[results["group"].isna() & results["subject"].isna() & results["pool"].isna()]
    cells = []
    for metric, head in METRICS.items():
        for row in whole[whole["metric"] == metric].drop_duplicates("metric").to_dict("records"):
            cells.append({"metric": head} | measured_cells(row, 1.0 if metric in _POINTS else 100.0))
    return cells


def _counts(home: StudyHome) -> pd.DataFrame:
    rows = []
    for path in sorted((home.folder / "steps").glob("reviser-*/counts.json")):
        counts = json.loads(path.read_text(encoding="utf-8"))
        for kind, n in counts.get("found", {}).items():
            name = path.parent.name.removeprefix("reviser-")
            rows.append({"reviser": name, "kind": kind, "found": n, "taken": counts["taken"][kind]})
    return pd.DataFrame(rows)
