"""The folder of a run over captions: it appears whole, never over somebody else's, and keeps finished work."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

from equipoise import __version__
from equipoise.audit.folders import Stage
from equipoise.errors import InputError

__all__ = ["CONFIG", "captions_folder", "check_same_captions", "publish", "versions", "work_of"]

CONFIG = "config.json"
COMMAND = "captions"
WORK = "_work"
OWN_FILES = frozenset(
    "results.parquet results.json dropped.csv captions.csv words.csv words.html log_odds.csv runs.csv report.txt "
    "lic_vs_quality.csv lic_vs_quality.svg".split()
)
PAGE = frozenset({"report.html", "report_files"})
"""What a report in the folder leaves there; the next run's replaces it."""
_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch", "transformers")


def captions_folder(out: str | Path) -> Path:
    """The folder ``out``: a new or an empty one, or one that such a run wrote or began; anything else is refused."""
    if not str(out).strip():
        raise InputError("the folder for the results has no name; give one with -o")
    folder = Path(out)
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: is a file; give a folder with -o")
    if folder.is_dir():
        names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        if names - OWN_FILES - PAGE - {WORK, CONFIG} or (CONFIG in names and _config(folder).get("command") != COMMAND):
            raise InputError(f"{folder}: holds files of another kind; give a new or an empty folder with -o")
    return folder


def check_same_captions(folder: Path, of: Mapping[str, Any]) -> None:
    """Refuse the folder of a run over other files; the same files may be measured again, with other settings too."""
    if not (folder / CONFIG).exists():
        return
    there = _config(folder).get("of")
    for name, mine in of.items():
        if not isinstance(there, dict) or there.get(name) != mine:
            raise InputError(f"{folder}: holds a run over other {name}; give another folder with -o")


def _config(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / CONFIG}: damaged ({error}); give another folder with -o") from None
    return about if isinstance(about, dict) else {}


def work_of(folder: Path | None) -> Path | None:
    """Where finished classifier runs are kept, each under a name made of all that it depends on."""
    return None if folder is None else folder / WORK


def publish(stage: Stage) -> None:
    """Move what lies on the stage into the folder, the settings last: a folder that has them is whole."""
    (stage.folder / CONFIG).unlink(missing_ok=True)
    made = {path.name for path in stage.path.iterdir()}
    for name in OWN_FILES - made:
        (stage.folder / name).unlink(missing_ok=True)  # what an earlier run wrote and this one did not
    for name in sorted(made, key=lambda n: (n == CONFIG, n)):
        os.replace(stage.path / name, stage.folder / name)


def versions() -> dict[str, str]:
    """The versions of everything that numbers can depend on."""
    found = {"equipoise": __version__, "python": python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
