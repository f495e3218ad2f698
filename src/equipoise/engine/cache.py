"""Where Equipoise keeps what is dear to compute, what lies there, and how to remove it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, closest

__all__ = ["CACHE_VARIABLE", "StoreInfo", "cache_root", "chosen_stores", "clear_stores", "default_store_root", "stores"]

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


def stores(root: str | Path | None = None) -> list[StoreInfo]:
    """The embedding stores below ``root`` (default: the cache), by key."""
    from equipoise.engine.store import EmbeddingStore

    place = Path(root) if root is not None else default_store_root()
    found = []
    for folder in sorted(place.iterdir()) if place.is_dir() else ():
        if read_marker(folder) is not None and not folder.is_symlink():
            found.append(EmbeddingStore.in_folder(folder).info())
    return sorted(found, key=lambda info: info.key)


def chosen_stores(root: str | Path | None = None, *, key: str | None = None) -> list[StoreInfo]:
    """The stores below ``root``, or the one of ``key``; an unknown key is answered with the closest ones."""
    found = stores(root)
    if key is None:
        return found
    if key not in [info.key for info in found]:
        place = root if root is not None else default_store_root()
        if not found:
            raise InputError(f"no embeddings of {key!r} are kept in {place}; nothing is kept there")
        near = closest(key, [info.key for info in found], n=1) or [info.key for info in found]
        hint = f"did you mean {near[0]!r}?" if len(near) == 1 else f"kept are: {', '.join(near)}"
        raise InputError(f"no embeddings of {key!r} are kept in {place}; {hint}")
    return [info for info in found if info.key == key]


def clear_stores(root: str | Path | None = None, *, key: str | None = None) -> list[StoreInfo]:
    """Delete the embedding stores below ``root`` (or the one of ``key``) and return what they were.

    Only folders that say that they are a store are touched, and one that holds anything else is refused whole.
    """
    from equipoise.engine.store import EmbeddingStore

    found = chosen_stores(root, key=key)
    for info in found:
        refuse_strange_files(info.path)
    for info in found:
        EmbeddingStore.in_folder(info.path).delete()
    return found


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
