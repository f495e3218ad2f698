"""Work: run a function over the shards of a table, here or on Ray, and keep what is dear to compute.

:func:`map` runs a function or a model over a table: shard by shard, in batches, resumable after any kill, with
failed rows kept beside the result. :class:`EmbeddingStore` remembers embeddings by encoder and content, so that an
image is encoded once in its life.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use

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


# Imported on first use, as in the data room: pyarrow must not slow down `equipoise --help`.
__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
