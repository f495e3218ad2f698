"""Where Equipoise keeps what is dear to compute, and how a folder says that it is an embedding store."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.errors import InputError

CACHE_VARIABLE = "EQUIPOISE_CACHE"
MARKER = "store.json"
FORMAT = "equipoise embedding store"
VERSION = 1


@dataclass(frozen=True)
class StoreInfo:
    """What is in one embedding store."""

    key: str
    path: Path
    n: int
    dim: int | None
    n_segments: int
    n_bytes: int


def cache_root(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """The cache folder: ``EQUIPOISE_CACHE``, or ``equipoise`` in the place the operating system has for caches.

    >>> cache_root({"EQUIPOISE_CACHE": "/data/cache"}).as_posix()
    '/data/cache'
    >>> cache_root({"XDG_CACHE_HOME": "/home/ann/.cache"}, "linux").as_posix()
    '/home/ann/.cache/equipoise'
    """
    variables = os.environ if environment is None else environment
    if variables.get(CACHE_VARIABLE):
        return Path(variables[CACHE_VARIABLE]).expanduser()
    if platform == "win32":
        return Path(variables.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "equipoise" / "Cache"
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "equipoise"
    return Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "equipoise"


def default_store_root() -> Path:
    """The folder of the embedding stores in the cache."""
    return cache_root() / "embeddings"


def read_marker(folder: Path, form: str = FORMAT) -> dict[str, Any] | None:
    """What ``store.json`` of ``folder`` says; ``None`` if the folder is no store of that ``form``."""
    try:
        content = json.loads((folder / MARKER).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("format") == form else None


def marker_bytes(key: str) -> bytes:
    """The content of ``store.json``."""
    return (json.dumps({"format": FORMAT, "key": key, "version": VERSION}, sort_keys=True) + "\n").encode()


def refuse_strange_files(folder: Path) -> None:
    """Refuse to delete a folder that holds anything but the files of an embedding store."""
    from equipoise.engine.segments import MERGE_NOTE

    if read_marker(folder) is None or folder.is_symlink():
        raise InputError(f"{folder} is not an embedding store; it is not deleted")
    for path in sorted(folder.iterdir()):
        known = path.name in (MARKER, MERGE_NOTE) or path.match("seg-*.npy") or path.match(".*.tmp")
        if not known or not path.is_file() or path.is_symlink():
            raise InputError(
                f"{folder} holds {path.name!r}, which is not part of an embedding store; move it away first"
            )
