"""From a table and a model to evidence: vectors of the images and texts, or scores, in the table's order.

Vectors pass in batches, are brought to unit length, and go straight to disk when there is a folder for them, so that
memory holds a batch and not the whole.
"""

from __future__ import annotations

import atexit
import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise import engine
from equipoise.array_types import AnyVectors
from equipoise.audit.evidence import EVIDENCE, Evidence
from equipoise.data import Table
from equipoise.data.importing import import_table
from equipoise.data.labels import with_joined_labels
from equipoise.data.layers import unread_axes
from equipoise.data.schema import AXES
from equipoise.errors import InputError
from equipoise.measure.arrays import unit_vectors
from equipoise.models import Encoder, Precomputed

Batch = tuple[NDArray[np.int64], AnyVectors]
"""Row numbers of images, and their vectors."""

_ROWS = 8192
_NOT_LABELS = {"image", "captions", "people", "params"}


def labels_of(table: Table, reads: Sequence[str] = (), axes: Sequence[str] = ()) -> pd.DataFrame:
    """Everything of a table that is no image: ids, subject, sets, axes, and what ``reads`` names. Images are not read.

    What a filter dropped is left out. Groups on the table's axes, and on further ``axes``, come in one spelling
    (:mod:`equipoise.data.labels`); the frame's attribute ``label_notes`` says what was joined or taken for unknown.
    """
    names = [c for c in table.columns if c not in _NOT_LABELS or c in reads]
    frame = table.to_pandas(names, only_kept="keep" in table.columns)
    frame.attrs["axes"] = list(table.axes)
    frame.attrs["axes_of_layers"] = {
        axis: f"{table.path} has a layer {name!r} with {axis}: add --layer {name}"
        for axis, name in unread_axes(table).items()
    }
    return joined(frame.reset_index(drop=True), axes)


def joined(frame: pd.DataFrame, axes: Sequence[str] = ()) -> pd.DataFrame:
    """``frame`` with the groups on its axes in one spelling, and notes on that in its attributes."""
    labelled, notes = with_joined_labels(frame, [*AXES, *frame.attrs.get("axes", ()), *axes])
    labelled.attrs["label_notes"] = list(dict.fromkeys([*frame.attrs.get("label_notes", ()), *notes]))
    return labelled


def from_model(
    model: Encoder | Precomputed,
    table: Table,
    frame: pd.DataFrame,
    texts: Sequence[str],
    folder: Path | None,
    how: engine.Asking | None = None,
) -> Evidence:
    """Ask ``model`` for the vectors of every image and text; with a ``folder``, the images' are kept there.

    ``how``: in which batches, on which engine, and whether through the cache (see :class:`equipoise.engine.Asking`).
    An image that cannot be read is left out, and the frame's notes say which; too many of them are refused.
    """
    ids, name = frame["image_id"], name_of(model)
    unreadable = engine.Unreadable(table.path, len(ids), (how or engine.Asking()).max_broken)
    vectors = np.asarray(engine.vectors(model, list(texts), how)) if texts else None
    if vectors is not None and (vectors.ndim != 2 or len(vectors) != len(texts)):
        raise InputError(f"{name} gave vectors of shape {vectors.shape} for {len(texts)} texts; one each is expected")
    batches = engine.vector_batches(model, table, ids.tolist(), how, unreadable=unreadable)
    units = _units(batches, ids, name, unreadable)
    path = None if folder is None else folder / EVIDENCE / "images.npy"
    images = _in_memory(units, len(ids)) if path is None else _on_disk(units, len(ids), path)
    if unreadable.reasons:
        read = ~ids.isin(list(unreadable.reasons)).to_numpy(dtype=bool)
        images, frame = _some_rows(images, np.flatnonzero(read), path), _some_labels(frame, read, unreadable.notes())
    scale = getattr(model, "logit_scale", None)
    return Evidence(frame, texts, model=name, image_vectors=images, text_vectors=vectors, logit_scale=scale)


def _some_labels(frame: pd.DataFrame, read: NDArray[np.bool_], notes: list[str]) -> pd.DataFrame:
    """The labels of the images that could be read, and notes on the others."""
    some = frame[read].reset_index(drop=True)
    some.attrs.update(frame.attrs)
    some.attrs["label_notes"] = [*frame.attrs.get("label_notes", ()), *notes]
    return some


def _some_rows(images: AnyVectors, rows: NDArray[np.intp], path: Path | None) -> AnyVectors:
    """Some rows of the vectors: in memory, or in the file ``path``, where they take the place of all."""
    if path is None:
        return np.asarray(images[rows])
    places = (np.arange(start, min(start + _ROWS, len(rows))) for start in range(0, len(rows), _ROWS))
    return _on_disk(((at, images[rows[at]]) for at in places), len(rows), path)


def _units(batches: Iterator[Batch], ids: pd.Series[Any], name: str, unreadable: engine.Unreadable) -> Iterator[Batch]:
    """The batches with vectors of unit length; refuses vectors that cannot be, and too few or too many of them."""
    count = 0
    for at, vectors in batches:
        if vectors.ndim != 2 or len(vectors) != len(at):
            raise InputError(f"{name} gave vectors of shape {vectors.shape} for {len(at)} images; one each is expected")
        count += len(at)
        yield at, unit_vectors(vectors, name, ids.iloc[at].tolist())
    if not count:
        raise InputError(f"{unreadable.where}: no image can be read: {'; '.join(unreadable.notes())}")
    if count + len(unreadable.reasons) != len(ids):
        raise InputError(f"{name} gave vectors of {count} images where {len(ids)} were asked for")


def _in_memory(batches: Iterator[Batch], n: int) -> AnyVectors:
    out: AnyVectors | None = None
    for at, vectors in batches:
        if out is None:
            out = np.empty((n, vectors.shape[1]), dtype=np.float32)
        out[at] = vectors
    assert out is not None
    return out


def _on_disk(batches: Iterator[Batch], n: int, path: Path) -> AnyVectors:
    """The same in a file that appears whole or not at all; returns it memory-mapped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    out: np.memmap[Any, Any] | None = None
    try:
        for at, vectors in batches:
            if out is None:
                out = _new_file(temporary, (n, vectors.shape[1]))
            out[at] = vectors
        assert out is not None
        out.flush()
        del out
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return np.asanyarray(np.load(path, mmap_mode="r"))


def _new_file(path: Path, shape: tuple[int, int]) -> np.memmap[Any, Any]:
    """An array in a file whose room on disk is taken at once: a mapped file that outgrows the disk ends the process."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype="<f4", shape=shape)
    if hasattr(os, "posix_fallocate"):
        try:
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                size = path.stat().st_size / 1e9
                raise InputError(f"{path.parent}: no room for vectors of {size:.1f} GB; make room there") from None
            # A file system that cannot take room in advance: write and hope.
    return out


def name_of(model: Any) -> str:
    """What results call a model: its name, or that of its class."""
    return str(getattr(model, "name", "") or type(model).__name__)


def scores_table(place: str | Path) -> Table:
    """The table of scores at ``place``; a file of scores (CSV, Parquet, npz) becomes one in a temporary folder."""
    if not Path(place).is_file():
        return Table.open(place)
    folder = tempfile.mkdtemp(prefix="equipoise-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return import_table("scores", place, f"{folder}/scores").table


def from_scores(scores: Table, frame: pd.DataFrame, texts: Sequence[str], name: str) -> Evidence:
    """Scores computed before: one row for each image and text; ``text_id`` is the text itself."""
    if scores.kind != "scores":
        raise InputError(f"{scores.path}: holds {scores.kind}, not scores; for vectors use --from-embeddings")
    rows, columns = pd.Index(list(texts)), pd.Index(frame["image_id"])
    matrix = np.full((len(rows), len(columns)), np.nan, dtype=np.float32)
    for batch in scores.batches(["image_id", "text_id", "score"]):
        at = rows.get_indexer(pd.Index(batch.column("text_id").to_pandas()))
        image = columns.get_indexer(pd.Index(batch.column("image_id").to_pandas()))
        known = (at >= 0) & (image >= 0)
        matrix[at[known], image[known]] = batch.column("score").to_numpy(zero_copy_only=False)[known]
    missing = np.argwhere(~np.isfinite(matrix))
    if len(missing):
        text, image = missing[0]
        raise InputError(
            f"{scores.path}: {len(missing):,} of {matrix.size:,} scores are missing or not a number, for example text "
            f"{rows[text]!r} with image {columns[image]!r}; 'equipoise suites SUITE --table TABLE' lists the texts"
        )
    return Evidence(frame, texts, model=name, scores=matrix)
