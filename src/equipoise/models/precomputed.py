"""``table:<folder>``: embeddings computed before, looked up by image id and by text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Vectors
from equipoise.data import Table
from equipoise.errors import InputError

__all__ = ["EmbeddingTable"]

_BATCH = 8192


class EmbeddingTable:
    """One or several ``embeddings`` tables; an ``id`` is an image's id or a text itself.

    Vectors are read in a stream: :meth:`image_batches` holds one batch at a time, the others what was asked.
    """

    def __init__(self, *folders: str | Path) -> None:
        if not folders:
            raise InputError("table: needs a folder with an embeddings table, as in table:embeddings/clip")
        self.tables = [Table.open(folder) for folder in folders]
        for table in self.tables:
            if table.kind != "embeddings":
                raise InputError(f"{table.path}: holds {table.kind}, not embeddings")
        self.name = "table:" + ",".join(str(folder) for folder in folders)
        self.key = "+".join(table.fingerprint for table in self.tables)

    def image_vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, d) the vectors of these image ids."""
        return _joined(self._batches(ids, "image ids"), len(ids))

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """(m, d) the vectors of these texts."""
        return _joined(self._batches(texts, "texts"), len(texts))

    def image_batches(self, ids: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
        """Places in ``ids`` (b,) and their vectors (b, d), batch after batch in the order of the table.

        Every id comes once; that some are missing is said at the end.
        """
        return self._batches(ids, "image ids")

    def _batches(self, wanted: Sequence[str], what: str) -> Iterator[tuple[NDArray[np.int64], Vectors]]:
        place = pd.Index(list(wanted), dtype=object)
        if not place.is_unique:
            twice = place[place.duplicated()][0]
            raise InputError(f"{twice!r} is asked for twice among the {what}")
        width: int | None = None
        seen = np.zeros(len(place), dtype=bool)
        for table, at, vectors in self._read(place):
            width = width or vectors.shape[1]
            if vectors.shape[1] != width:
                raise InputError(f"{table.path}: vectors of length {vectors.shape[1]}, elsewhere {width}")
            again = seen[at] | pd.Index(at).duplicated()
            if again.any():
                raise InputError(
                    f"{table.path}: {place[at[again][0]]!r} has two vectors; keep those of one model in one table"
                )
            seen[at] = True
            yield at, vectors
        if not seen.all():
            missing = place[~seen]
            raise InputError(
                f"{self.name} lacks {len(missing)} of {len(place)} {what}, for example {missing[0]!r}; "
                "compute their embeddings and add them to the table"
            )

    def _read(self, place: pd.Index[Any]) -> Iterator[tuple[Table, NDArray[np.int64], Vectors]]:
        for table in self.tables:
            for batch in table.batches(["id", "vector"], batch_size=_BATCH):
                at = place.get_indexer(pd.Index(batch.column("id").to_pylist(), dtype=object))
                rows = np.flatnonzero(at >= 0)
                if len(rows):
                    values = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
                    yield table, at[rows], values.reshape(len(batch), -1)[rows]


def _joined(batches: Iterator[tuple[NDArray[np.int64], Vectors]], n: int) -> Vectors:
    out: Vectors | None = None
    for at, vectors in batches:
        if out is None:
            out = np.empty((n, vectors.shape[1]), dtype=np.float32)
        out[at] = vectors
    if out is None:
        raise InputError("no vector was asked for")
    return out
