"""Work: run a function over the shards of a table, here or on Ray, and keep what is dear to compute.

:func:`map` runs a function or a model over a table: shard by shard, in batches, resumable after any kill, with
failed rows kept beside the result. :func:`vectors` asks an encoder about the images of a table or about texts, through
the :class:`EmbeddingStore`, which remembers embeddings by encoder and content: an image is encoded once in its life.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use

if TYPE_CHECKING:
    from equipoise.engine.answers import captions
    from equipoise.engine.asking import Asking, vector_batches, vectors
    from equipoise.engine.embedding import embed, embed_images
    from equipoise.engine.job import Interrupted, JobError
    from equipoise.engine.mapping import map, map_layer
    from equipoise.engine.progress import read_notes
    from equipoise.engine.store import EmbeddingStore
    from equipoise.engine.unreadable import Unreadable

__all__ = [
    "Asking",
    "EmbeddingStore",
    "Interrupted",
    "JobError",
    "Unreadable",
    "captions",
    "embed",
    "embed_images",
    "map",
    "map_layer",
    "read_notes",
    "vector_batches",
    "vectors",
]

_BY_HOME = {
    "answers": ("captions",),
    "asking": ("Asking", "vector_batches", "vectors"),
    "embedding": ("embed", "embed_images"),
    "job": ("Interrupted", "JobError"),
    "mapping": ("map", "map_layer"),
    "progress": ("read_notes",),
    "store": ("EmbeddingStore",),
    "unreadable": ("Unreadable",),
}


# Imported on first use, as in the package data: pyarrow must not slow down `equipoise --help`.
__getattr__ = on_first_use(__name__, {name: home for home, names in _BY_HOME.items() for name in names})


def __dir__() -> list[str]:
    return sorted(__all__)
