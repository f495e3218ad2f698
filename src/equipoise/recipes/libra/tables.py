"""What the study of LIBRA shows: before and after, the change with its interval, ablations, and the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data import read_results
from equipoise.recipes.studies.common import paper_table
from equipoise.recipes.studies.frame import StudyHome
from equipoise.report.study import StudyPart, StudyTable, measured_cells

METRICS = {
    "lic_m": "LIC_M (fast)",
    "lic": "LIC (fast)",
    "error": "Error",
    "bleu_4": "BLEU-4",
    "cider": "CIDEr",
    "meteor_approximate": "METEOR (approximate)",
    "clip_score": "CLIPScore",
}
_HEAD = ["reviser", "captioner", "pictures", "seed", "metric"]
_POINTS = ("lic_m", "lic")
"""Metrics that are in points already; the others are shares, shown times 100."""


def parts_of(home: StudyHome) -> list[StudyPart]:
    """Everything that the study shows."""
    changes = _changes(home, "change")
    if not len(changes):
        return []
    tuned = changes["captioner"].isin(["plain"])
    main = changes[changes["reviser"].isin(["libra", "shipped"]) & ~tuned]
    others, equalized = changes[~changes["reviser"].isin(["libra", "shipped"]) & ~tuned], changes[tuned]
    several = main["seed"].map(_is_together)
    text = (
        "Each row is the revised captions less those as written, paired image by image (LIC split by split; BLEU-4 and "
        "METEOR as if independent). Seeds have other pictures, and libra another reviser. Captions lean less where LIC "
        "and Error fall; they say as much where CIDEr and CLIPScore do not. libra is the study's own, shipped mini:dcg."
    )
    parts = [
        StudyPart(
            "Table 3.2",
            "Captions before and after",
            (text,),
            (
                StudyTable("T3.2-fell", "Seeds in which LIC and Error fell", _fell(main[~several]), digits=2),
                StudyTable("T3.2-all", "After less before, several seeds together", main[several], digits=2),
                StudyTable("T3.2", "After less before, seed by seed", main[~several], digits=2),
                StudyTable("T3.2-before", "Before", _before(home), digits=2),
            ),
            (),
            f"{main[_HEAD].drop_duplicates().shape[0]} comparisons",
        )
    ]
    if len(equalized):
        about = (
            "The captioner of strength 2 taught on by cross-entropy alone, and by the Gender Equalizer's losses on the "
            "same pictures for as many steps. Both rows are changes from the first: by the Equalizer, and by LIBRA."
        )
        table = StudyTable("T3.3", "The Equalizer and LIBRA: the change", equalized.drop(columns="seed"), digits=2)
        parts.append(StudyPart("Table 3.3", "The Gender Equalizer", (about,), (table,), (), ""))
    if len(others):
        versus = _changes(home, "versus")
        tables = tuple(
            StudyTable(
                f"{name}{ending}", f"{title}, {which}", table[table["seed"].map(_is_together) == is_all], digits=2
            )
            for ending, which, is_all in (("-all", "three seeds together", True), ("", "seed by seed", False))
            for name, title, table in (
                ("T3.6", "Other revisers: after less before", others),
                ("T3.6-versus", "LIBRA less each other reviser", versus),
            )
        )
        about = "Revisers that learnt from other pairs, from the same editor for as many steps; three seeds."
        parts.append(StudyPart("Tables 3.4 to 3.11", "What makes the difference?", (about,), tables, (), ""))
    counts = _counts(home)
    if len(counts):
        about = "Pairs that were found and those that each reviser takes; the paper's counts are of COCO."
        tables = (StudyTable("T3.1", "Pairs by kind", counts, digits=0), paper_table("libra", "T3.1", "As published"))
        parts.append(StudyPart("Table 3.1", "Biased captions", (about,), tables, (), "pairs"))
    published = tuple(
        paper_table("libra", f"T3.{n}", f"Table 3.{n} as published", digits=1) for n in (2, 3, 4, 5, 6, 9)
    )
    note = "On COCO, by the paper's LSTM classifier: for comparison of directions, not of numbers."
    parts.append(StudyPart("Published", "The paper's tables", (note,), published, (), "published"))
    return parts


def together(seeds: Sequence[int]) -> str:
    """What a row of several seeds says in place of its seed.

    >>> together([0, 1, 2])
    '0to2'
    """
    return f"{min(seeds)}to{max(seeds)}"


def _is_together(seed: str) -> bool:
    return "to" in seed


def audit_folder(home: StudyHome, step: str) -> Path:
    """Where a step left its audit: those of several seeds have what they read beside it."""
    return home.step(step) / "audit" if _is_together(step.rsplit("-", 1)[-1]) else home.step(step)


def _changes(home: StudyHome, kind: str) -> pd.DataFrame:
    """What each comparison of a kind found, with the values before (or of the other reviser) and after."""
    rows: list[dict[str, Any]] = []
    for step in home.done(f"{kind}-*"):
        name, captioner, shown, seed = step.removeprefix(f"{kind}-").rsplit("-", 3)
        results = read_results(home.step(step) / "comparison" / "results.parquet")
        keys = {"reviser": name, "captioner": captioner, "pictures": shown, "seed": seed}
        rows += [keys | row for row in _cells(results)]
    changes = pd.DataFrame(rows)
    if kind == "change" and len(changes):
        of = ["captioner", "pictures", "seed", "metric"]
        before = _before(home).set_index(of)["measured"]
        keyed = pd.MultiIndex.from_frame(changes[of])
        changes.insert(5, "before", before.reindex(keyed).to_numpy())
        changes.insert(6, "after", changes["before"] + changes["measured"])
    return changes


def _fell(changes: pd.DataFrame) -> pd.DataFrame:
    """For each captioner and kind of pictures: in how many seeds LIC, Error and both fell with intervals below 0."""
    rows = []
    for (reviser, captioner, shown), some in changes.groupby(["reviser", "captioner", "pictures"], sort=True):
        below = {
            metric: dict(zip(of_metric["seed"], of_metric["high"] < 0, strict=True))
            for metric, of_metric in some[some["metric"].isin([METRICS["lic"], METRICS["error"]])].groupby("metric")
        }
        lic, error = below.get(METRICS["lic"], {}), below.get(METRICS["error"], {})
        row = {"reviser": reviser, "captioner": captioner, "pictures": shown, "seeds": str(len(lic))}
        counts = {"LIC fell": sum(lic.values()), "Error fell": sum(error.values())}
        counts["both fell"] = sum(lic[seed] and error.get(seed, False) for seed in lic)
        rows.append(row | {name: str(n) for name, n in counts.items()})
    return pd.DataFrame(rows)


def _before(home: StudyHome) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for step in home.done("before-*"):
        captioner, shown, seed = step.removeprefix("before-").rsplit("-", 2)
        results = read_results(audit_folder(home, step) / "results.parquet")
        rows += [{"captioner": captioner, "pictures": shown, "seed": seed} | row for row in _cells(results)]
    return pd.DataFrame(rows)


def _cells(results: pd.DataFrame) -> list[dict[str, Any]]:
    whole = results[results["group"].isna() & results["subject"].isna() & results["pool"].isna()]
    cells = []
    for metric, head in METRICS.items():
        for row in whole[whole["metric"] == metric].drop_duplicates("metric").to_dict("records"):
            cells.append({"metric": head} | measured_cells(row, 1.0 if metric in _POINTS else 100.0))
    return cells


def _counts(home: StudyHome) -> pd.DataFrame:
    """How many pairs of each kind there were, and how many each reviser learnt from."""
    rows = []
    for path in sorted((home.folder / "steps").glob("*/counts.json")):
        counts = json.loads(path.read_text(encoding="utf-8"))
        what, _, name = path.parent.name.partition("-")
        taken = counts["taken"] if what == "reviser" else counts["found"]
        rows += [{"step": what, "of": name, "kind": kind, "pairs": n} for kind, n in taken.items()]
    return pd.DataFrame(rows)
