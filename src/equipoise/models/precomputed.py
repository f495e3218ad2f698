"""``table:<folder or file>``: embeddings computed before, looked up by image id and by text."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Vectors
from equipoise.data import Table
from equipoise.data.atomic import sha256_of
from equipoise.data.importing import import_table
from equipoise.data.readers import read
from equipoise.data.readers.files.values import IMAGE_SUFFIXES
from equipoise.data.readers.files.vectors import ARRAY_SUFFIXES, named_vectors
from equipoise.data.schema import Rejected
from equipoise.errors import InputError, like_it
from equipoise.formatting import plural

_BATCH = 8192


class EmbeddingTable:
    """One or several ``embeddings`` tables, or files that hold vectors; an ``id`` is an image's id or a text itself.

    The vectors of tables are read in a stream: :meth:`image_batches` holds one batch at a time, the others what was
    asked. Files (npz, npy and ids, Parquet, safetensors, CSV) are read whole.
    """

    def __init__(self, *folders: str | Path) -> None:
        if not folders:
            raise InputError("table: needs a folder with an embeddings table, as in table:embeddings/clip")
        self.sources = [_opened(folder) for folder in folders]
        _refuse_several_models(self.sources)
        self.name = "table:" + ",".join(str(folder) for folder in folders)
        self.key = "+".join(source.fingerprint for source in self.sources)
        self.asked_by = ("SUITE", "TABLE")
        """The suite that asks and the table that it asks about, for the line to type where something is missing."""

    @cached_property
    def tables(self) -> list[Table]:
        """The same as tables, for whoever reads them shard by shard; a file becomes one in a temporary folder."""
        return [source.table for source in self.sources]

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
        for source, at, vectors in self._read(place):
            width = width or vectors.shape[1]
            if vectors.shape[1] != width:
                raise InputError(f"{source.path}: vectors of length {vectors.shape[1]}, elsewhere {width}")
            again = seen[at] | pd.Index(at).duplicated()
            if again.any():
                raise InputError(
                    f"{source.path}: {place[at[again][0]]!r} has two vectors; keep those of one model in one table"
                )
            seen[at] = True
            yield at, vectors
        if not seen.all():
            missing = place[~seen]
            raise InputError(
                f"{self.name} lacks {len(missing):,} of {len(place):,} {what}, for example {missing[0]!r} (it has "
                f"{self._some_of(what, place)}); {self._advice(what)}"
            )

    def _read(self, place: pd.Index[Any]) -> Iterator[tuple[Any, NDArray[np.int64], Vectors]]:
        for source in self.sources:
            for names, vectors in source.parts():
                at = place.get_indexer(pd.Index(names, dtype=object))
                rows = np.flatnonzero(at >= 0)
                if len(rows):
                    yield source, at[rows], vectors[rows]

    def _some_of(self, what: str, place: pd.Index[Any]) -> str:
        """Two of the names that are there, so that a reader sees how they differ from what was asked.

        Images and texts stand in one list; a name of several words that is no picture's file is taken for a text.
        """
        if what == "texts":
            names = (name for source in self.sources for names, _ in source.parts() for name in names)
            found = [name for name in names if _TEXT.search(name) or name in place]
            texts = [name for name in found if name not in place]
            if not texts:
                return "no other texts" if found else "no texts"
            told = f"{plural(len(texts), 'other text')}, such as {' and '.join(map(repr, texts[:2]))}"
            how = "ask for these with --suite prompts --prompts FILE"
            return told if self.asked_by[0] == "prompts" else f"{told}: {how}"
        names_there = next((names for source in self.sources for names, _ in source.parts()), [])
        return " and ".join(repr(name) for name in names_there[:2]) or "nothing"

    def _advice(self, what: str) -> str:
        suite, table = self.asked_by
        if what == "image ids":
            return f"the id of an image's vector is the table's image_id (equipoise table head {table} -c image_id)"
        embed = "embed them too, each with the text itself as its id"
        return embed if suite == "prompts" else f"{embed}: equipoise suites {suite} --table {table} lists them"


_TEXT = re.compile(r"^(?!.*\.(?:jpe?g|png|webp|gif|bmp|tiff?)$)\S.*\s", re.IGNORECASE | re.DOTALL)


class _OnDisk:
    """A table of embeddings, a batch at a time."""

    def __init__(self, folder: str | Path) -> None:
        self.table = Table.open(folder)
        if self.table.kind != "embeddings":
            raise InputError(f"{self.table.path}: holds {self.table.kind}, not embeddings; {_HOW}")
        self.path, self.fingerprint = self.table.path, self.table.fingerprint
        told = self.table.config.get("model")
        self.model = told if isinstance(told, str) else ""
        """The model that was asked, where 'equipoise embed' wrote the table."""

    def parts(self) -> Iterator[tuple[list[str], Vectors]]:
        for batch in self.table.batches(["id", "vector"], batch_size=_BATCH):
            values = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
            yield batch.column("id").to_pylist(), values.reshape(len(batch), -1)


class _InFile:
    """A file of vectors, read whole."""

    model = ""  # a file's column may say anything

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fingerprint = sha256_of(path)
        self._parts: list[tuple[list[str], Vectors]] | None = None

    @property
    def table(self) -> Table:
        folder = tempfile.mkdtemp(prefix="equipoise-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return import_table("embeddings", self.path, f"{folder}/vectors").table

    def parts(self) -> Iterator[tuple[list[str], Vectors]]:
        if self._parts is None:
            self._parts = list(_vectors_of(self.path))
        yield from self._parts


_HOW = "vectors are made with 'equipoise embed', or imported with 'equipoise table import embeddings FILE OUT'"


def _opened(place: str | Path) -> _OnDisk | _InFile:
    path = Path(place)
    if not path.exists():
        raise InputError(f"there is neither a file nor a table of vectors at {place}{like_it(path) or '; ' + _HOW}")
    if path.is_file() and path.name.lower().endswith(IMAGE_SUFFIXES):
        kinds = ", ".join((*ARRAY_SUFFIXES, ".csv", ".tsv"))
        raise InputError(f"{place} is a picture, not a file of vectors; these are read: {kinds}; {_HOW}")
    return _InFile(path) if path.is_file() else _OnDisk(path)


def _refuse_several_models(sources: Sequence[_OnDisk | _InFile]) -> None:
    """Refuse images of one model beside texts of another: their cosines say nothing, and no number would look wrong.

    What ``equipoise embed`` wrote says which model it asked. Other tables and files name a model as they please, often
    by the name of the file, so that differing names are no evidence there. Half precision makes no other model.
    """
    asked = {re.sub(r"-b?float16(?=\+|$)", "", source.model): source.path for source in sources if source.model}
    if len(asked) > 1:
        (one, first), (other, second) = list(asked.items())[:2]
        raise InputError(
            f"{first} holds vectors of {one}, {second} those of {other}; vectors of two models cannot be compared: "
            "embed images and texts with the same model"
        )


def _vectors_of(path: Path) -> Iterator[tuple[list[str], Vectors]]:
    if path.suffix.lower() in ARRAY_SUFFIXES:
        yield from ((part.names, part.vectors) for part in named_vectors(path))
        return
    names, rows = [], []
    for row in read("embeddings", path):
        if isinstance(row, Rejected):
            raise InputError(f"{path}: {row.where}: {row.reason}; fix the line, or leave it out")
        names.append(row["id"])
        rows.append(row["vector"])
    if not rows:
        raise InputError(f"{path} holds no vector")
    yield names, np.asarray(rows, dtype=np.float32)


def _joined(batches: Iterator[tuple[NDArray[np.int64], Vectors]], n: int) -> Vectors:
    out: Vectors | None = None
    for at, vectors in batches:
        if out is None:
            out = np.empty((n, vectors.shape[1]), dtype=np.float32)
        out[at] = vectors
    if out is None:
        raise InputError("no vector was asked for")
    return out
