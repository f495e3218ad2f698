"""Work: run a function over the shards of a table, here or on Ray, and keep what is dear to compute.

:func:`map` runs a function or a model over a table: shard by shard, in batches, resumable after any kill, with
failed rows kept beside the result. :class:`EmbeddingStore` remembers embeddings by encoder and content, so that an
image is encoded once in its life.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.engine.embedding import embed_images
    from equipoise.engine.job import Interrupted, JobError
    from equipoise.engine.mapping import map, map_layer
    from equipoise.engine.notes import read_notes
    from equipoise.engine.store import EmbeddingStore

__all__ = ["EmbeddingStore", "Interrupted", "JobError", "embed_images", "map", "map_layer", "read_notes"]

_HOMES = {
    "EmbeddingStore": "store",
    "Interrupted": "job",
    "JobError": "job",
    "embed_images": "embedding",
    "map": "mapping",
    "map_layer": "mapping",
    "read_notes": "notes",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, as in the data room: pyarrow must not slow down `equipoise --help`.
    if name in _HOMES:
        return getattr(import_module(f"equipoise.engine.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'equipoise.engine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
