"""The embedding stores that are kept: which there are, and how to remove them."""

from __future__ import annotations

from pathlib import Path

from equipoise.engine.cache import StoreInfo, default_store_root, read_marker, refuse_strange_files
from equipoise.engine.store import EmbeddingStore
from equipoise.errors import InputError, closest

__all__ = ["chosen_stores", "clear_stores", "stores"]


def stores(root: str | Path | None = None) -> list[StoreInfo]:
    """The embedding stores below ``root`` (default: the cache), by key."""
    place = Path(root) if root is not None else default_store_root()
    folders = sorted(place.iterdir()) if place.is_dir() else []
    infos = [
        EmbeddingStore.in_folder(folder).info()
        for folder in folders
        if read_marker(folder) is not None and not folder.is_symlink()
    ]
    return sorted(infos, key=lambda info: info.key)


def chosen_stores(root: str | Path | None = None, *, key: str | None = None) -> list[StoreInfo]:
    """The stores below ``root``, or the one of ``key``; an unknown key is answered with the closest ones."""
    infos = stores(root)
    if key is None:
        return infos
    if key not in [info.key for info in infos]:
        place = root if root is not None else default_store_root()
        if not infos:
            raise InputError(f"no embeddings of {key!r} are kept in {place}; nothing is kept there")
        near = closest(key, [info.key for info in infos], n=1) or [info.key for info in infos]
        hint = f"did you mean {near[0]!r}?" if len(near) == 1 else f"kept are: {', '.join(near)}"
        raise InputError(f"no embeddings of {key!r} are kept in {place}; {hint}")
    return [info for info in infos if info.key == key]


def clear_stores(root: str | Path | None = None, *, key: str | None = None) -> list[StoreInfo]:
    """Delete the embedding stores below ``root`` (or the one of ``key``) and return what they were.

    Only folders that say that they are a store are touched, and one that holds anything else is refused whole.
    """
    infos = chosen_stores(root, key=key)
    for info in infos:
        refuse_strange_files(info.path)
    for info in infos:
        EmbeddingStore.in_folder(info.path).delete()
    return infos
