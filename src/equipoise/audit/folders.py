"""Where an audit writes: never over what is not its own, and nothing at all when it is refused."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data.locks import locked
from equipoise.errors import InputError

__all__ = ["CONFIG", "Stage", "check_for_comparison", "check_same", "folder_for", "read_settings", "staged"]

CONFIG = "audit.json"
EVIDENCE = "_evidence"
_STAGE = ".audit-"
_LOCK = ".audit-lock"


def folder_for(out: str | Path) -> Path:
    """The folder ``out``: a new or an empty one, or that of an audit; anything else is refused.

    >>> folder_for("")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the folder for the results has no name; give one with -o
    """
    if not str(out).strip():
        raise InputError("the folder for the results has no name; give one with -o")
    folder = Path(out)
    if folder.is_dir():
        names = {path.name for path in folder.iterdir() if not path.name.startswith(_STAGE)}
        if names - {EVIDENCE} and CONFIG not in names:
            raise InputError(f"{folder}: holds files but no audit ({CONFIG}); give a new or an empty folder with -o")
        return folder
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: is a file; give a folder with -o")
    return folder


def check_for_comparison(out: str | Path) -> None:
    """Refuse a file, no name, and the folder of an audit, whose results a comparison would replace."""
    if Path(out).is_dir() and str(out).strip():
        if (Path(out) / CONFIG).exists():
            raise InputError(f"{out}: holds an audit; give another folder for the comparison with -o")
        return
    folder_for(out)


def check_same(folder: Path, suite: str, of: Mapping[str, Any]) -> None:
    """Refuse the folder of an audit of another suite, model, remedy, table or caption file; its own it may replace."""
    if not (folder / CONFIG).exists():
        return
    about = read_settings(folder)
    there = {"suite": about["suite"], **about["of"]}
    for name, mine in {"suite": suite, **of}.items():
        if _plain(name, there.get(name)) != _plain(name, mine):
            told = f"another {name}" if name in ("table", "remedy") else f"another {name} ({there.get(name)})"
            raise InputError(f"{folder}: holds the audit of {told}; give another folder with -o")


def _plain(name: str, value: Any) -> Any:
    return str(Path(value).resolve()) if name == "captions" and isinstance(value, str) else value


def read_settings(folder: Path) -> dict[str, Any]:
    """What ``audit.json`` in ``folder`` says."""
    try:
        about: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{folder}: no audit here ({CONFIG} is missing)") from None
    except ValueError as error:
        raise InputError(f"{folder / CONFIG}: damaged ({error}); run the audit again in a new folder") from None
    for name in ("suite", "settings", "of", "axes"):
        if not isinstance(about, dict) or name not in about:
            raise InputError(f"{folder / CONFIG}: damaged ({name!r} is missing); run the audit again in a new folder")
    return about


@dataclass
class Stage:
    """A hidden folder inside the audit's, where evidence lies until everything is measured."""

    folder: Path
    path: Path
    costly: bool = False
    """Whether a model spent time on the evidence, so that it is kept even if nothing could be measured from it."""

    def keep_evidence(self) -> None:
        """Move the evidence to its place; that of an earlier run goes."""
        home = self.folder / EVIDENCE
        if home.exists():
            shutil.rmtree(home)
        os.replace(self.path / EVIDENCE, home)


@contextmanager
def staged(folder: Path | None) -> Iterator[Stage | None]:
    """A stage in ``folder`` (``None`` without one); if what is done there fails, all that was created goes again.

    One audit at a time writes into a folder, so that the stage of one that was killed can be cleared away.
    """
    if folder is None:
        yield None
        return
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    stage = Stage(folder, folder / f"{_STAGE}{secrets.token_hex(6)}")
    try:
        stage.path.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({(error.strerror or 'error').lower()})") from None
    try:
        with locked(folder / _LOCK, what=f"the audit in {folder}"):
            for left in folder.glob(f"{_STAGE}*"):
                if left.is_dir() and left != stage.path:
                    shutil.rmtree(left, ignore_errors=True)
            try:
                yield stage
            except InputError as error:
                if not stage.costly or (folder / CONFIG).exists():
                    raise
                stage.keep_evidence()
                raise InputError(f"{error} (what the model gave is kept in {folder / EVIDENCE})") from None
    finally:
        shutil.rmtree(stage.path, ignore_errors=True)
        for path in created:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
