"""``table:<folder>``: embeddings computed before, looked up by image id and by text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.models.protocols import Vectors

__all__ = ["EmbeddingTable"]


class EmbeddingTable:
    """One or several ``embeddings`` tables; an ``id`` is an image's id or a text itself.

    Vectors are read in a stream into one array in the order asked for, so memory holds what was asked and no more.
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
        return self._vectors(ids, "image ids")

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """(m, d) the vectors of these texts."""
        return self._vectors(texts, "texts")

    def _vectors(self, wanted: Sequence[str], what: str) -> Vectors:
        place = pd.Index(list(wanted))
        if not place.is_unique:
            twice = place[place.duplicated()][0]
            raise InputError(f"{twice!r} is asked for twice among the {what}")
        out: Vectors | None = None
        found = np.zeros(len(place), dtype=bool)
        for table in self.tables:
            for batch in table.batches(["id", "vector"]):
                at = place.get_indexer(pd.Index(batch.column("id").to_pandas()))
                rows = np.flatnonzero(at >= 0)
                if not len(rows):
                    continue
                column = batch.column("vector")
                values = column.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
                if out is None:
                    out = np.empty((len(place), values.shape[1]), dtype=np.float32)
                if values.shape[1] != out.shape[1]:
                    raise InputError(f"{table.path}: vectors of length {values.shape[1]}, elsewhere {out.shape[1]}")
                out[at[rows]] = values[rows]
                found[at[rows]] = True
        if out is None or not found.all():
            missing = place[~found]
            raise InputError(
                f"{self.name} lacks {len(missing)} of {len(place)} {what}, for example {missing[0]!r}; "
                "compute their embeddings and add them to the table"
            )
        return out
