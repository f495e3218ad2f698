"""Where the numbers come from: runs with their settings, versions and hashes, and the tables that were asked about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.data.atomic import sha256_of
from equipoise.data.runs import Run
from equipoise.errors import InputError
from equipoise.report.page.method import public
from equipoise.report.sources import Given, ResultFolder

__all__ = ["about_remedies", "about_runs", "about_tables", "files_of"]

_HASHED = ("run.json", "results.parquet")
_SOURCES = 6


def about_runs(sources: Sequence[ResultFolder]) -> list[dict[str, Any]]:
    """What every run says of itself, without the folders of the machine, and the hashes of its files."""
    return [
        {
            "run": source.path.name,
            "kind": source.kind,
            "suites": sorted(map(str, source.results["suite"].dropna().unique())),
            "models": sorted(map(str, source.results["model"].dropna().map(public).unique())),
            "of": public(source.settings.get("of") or {}),
            "settings": public(source.settings.get("settings") or {}),
            "parents": public(source.settings.get("parents") or {}),
            "versions": source.settings.get("versions") or {},
            "sha256": files_of(source.path),
            "notes": [public(note) for note in source.notes],
        }
        for source in sources
    ]


def files_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of what says most of a folder."""
    return {name: sha256_of(folder / name) for name in _HASHED if (folder / name).is_file()}


def about_tables(sources: Sequence[ResultFolder], given: Given) -> list[dict[str, Any]]:
    """Every table that a run asked about: its size, groups and origin; of one that was not found its fingerprint."""
    runs: dict[str, list[ResultFolder]] = {}
    for source in sources:
        if source.fingerprint is not None:
            runs.setdefault(source.fingerprint, []).append(source)
    return [_table(mark, some, given.table_of(some[0])) for mark, some in runs.items()]


def _table(mark: str, sources: Sequence[ResultFolder], table: Table | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "fingerprint": mark,
        "runs": [source.path.name for source in sources],
        "found": table is not None,
    }
    if table is None:
        return told
    counts: dict[str, dict[str, int]] = {}
    for axis in table.axes:
        try:
            counts[axis] = {
                "unknown" if group is None else str(group): n for group, n in table.group_counts(axis).items()
            }
        except InputError:  # an axis that lists several groups per image
            continue
    return told | {
        "name": table.path.name,
        "images": len(table),
        "axes": list(table.axes),
        "groups": counts,
        "label_source": _values(table, "label_source"),
        "generator": _values(table, "generator"),
        "sets": _distinct(table, "set_id"),
        "parents": list(table.parents),
    }


def _values(table: Table, column: str) -> list[str]:
    if column not in table.columns:
        return []
    names = table.to_pandas([column])[column].dropna().astype(str).value_counts().index.tolist()
    return names[:_SOURCES]


def _distinct(table: Table, column: str) -> int:
    return int(table.to_pandas([column])[column].nunique()) if column in table.columns else 0


def about_remedies(folders: Sequence[Run]) -> list[dict[str, Any]]:
    """What remedies say of themselves: how they were set, and on what they were fitted."""
    told = []
    for run in folders:
        fitted = run.about.get("fitted_on")
        on = fitted if isinstance(fitted, dict) else {}
        told.append(
            {
                "remedy": str(run.of.get("remedy", run.folder.name)),
                "folder": run.folder.name,
                "settings": public(run.settings),
                "model": public(on.get("model") or ""),
                "images": on.get("n"),
                "subjects": len(on.get("subjects") or ()),
                "table": str(on.get("table") or ""),
            }
        )
    return told
