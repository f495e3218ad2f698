"""From a table and a model to evidence: vectors of the images and texts, or scores, in the table's order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.audit.evidence import FOLDER, Evidence, unit
from equipoise.data import Table
from equipoise.data.atomic import atomic_file
from equipoise.errors import InputError
from equipoise.models import Encoder, Precomputed

__all__ = ["from_model", "from_scores", "labels_of"]

_BATCH = 64
_NOT_LABELS = {"image", "captions", "people", "params"}
_CHUNK = 65_536


def labels_of(table: Table) -> pd.DataFrame:
    """Everything of a table that is no image: ids, subject, sets, axes. Images are not read."""
    kept = "keep" in table.columns
    names = [c for c in table.columns if c not in _NOT_LABELS]
    frame = table.to_pandas(names, only_kept=kept)
    frame.attrs["axes"] = list(table.axes)
    return frame.reset_index(drop=True)


def from_model(
    model: Encoder | Precomputed, table: Table, frame: pd.DataFrame, texts: Sequence[str], folder: Path | None
) -> Evidence:
    """Ask ``model`` for the vectors of every image and text; with a ``folder``, the images' are kept there."""
    name = model.name
    scale = getattr(model, "logit_scale", None)
    if isinstance(model, Precomputed):
        images = model.image_vectors(frame["image_id"].tolist())
        vectors = model.text_vectors(list(texts)) if texts else None
    else:
        images = _encode(model, table, frame)
        vectors = model.encode_texts(list(texts)) if texts else None
    images = unit(images, name) if folder is None else _to_disk(images, folder / FOLDER / "images.npy", name)
    return Evidence(frame, texts, model=name, image_vectors=images, text_vectors=vectors, logit_scale=scale)


def _to_disk(vectors: np.ndarray[Any, Any], path: Path, name: str) -> np.ndarray[Any, Any]:
    """Unit vectors, a chunk at a time into one file; returns them memory-mapped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        _write_header(file, vectors.shape)
        for start in range(0, len(vectors), _CHUNK):
            part = vectors[start : start + _CHUNK]
            try:
                file.write(unit(part, name).tobytes())
            except InputError as error:
                raise InputError(f"{error}; counted from row {start} of the images") from None
    return np.asanyarray(np.load(path, mmap_mode="r"))


def _encode(model: Encoder, table: Table, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    from tqdm import tqdm

    wanted = set(frame["image_id"])
    images = ((i, image) for i, image in table.images(batch_size=_BATCH) if i in wanted)
    place = pd.Index(frame["image_id"])
    vectors: np.ndarray[Any, Any] | None = None
    with tqdm(total=len(frame), desc=f"encoding with {model.name}", unit="image", disable=None) as bar:
        while some := list(islice(images, _BATCH)):
            made = model.encode_images([image for _, image in some])
            if vectors is None:
                vectors = np.empty((len(frame), made.shape[1]), dtype=np.float32)
            vectors[place.get_indexer(pd.Index([i for i, _ in some]))] = made
            bar.update(len(some))
    if vectors is None:
        raise InputError(f"{table.path}: no image to encode")
    return vectors


def _write_header(file: Any, shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_2_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})


def from_scores(scores: Table, frame: pd.DataFrame, texts: Sequence[str], name: str) -> Evidence:
    """Scores computed before: one row for each image and text; ``text_id`` is the text itself."""
    if scores.kind != "scores":
        raise InputError(f"{scores.path}: holds {scores.kind}, not scores")
    rows, columns = pd.Index(list(texts)), pd.Index(frame["image_id"])
    matrix = np.full((len(rows), len(columns)), np.nan, dtype=np.float32)
    for batch in scores.batches(["image_id", "text_id", "score"]):
        at = rows.get_indexer(pd.Index(batch.column("text_id").to_pandas()))
        image = columns.get_indexer(pd.Index(batch.column("image_id").to_pandas()))
        known = (at >= 0) & (image >= 0)
        matrix[at[known], image[known]] = batch.column("score").to_numpy(zero_copy_only=False)[known]
    missing = np.argwhere(np.isnan(matrix))
    if len(missing):
        text, image = missing[0]
        raise InputError(
            f"{scores.path}: {len(missing)} of {matrix.size} scores are missing or not a number, for example text "
            f"{rows[text]!r} with image {columns[image]!r}"
        )
    return Evidence(frame, texts, model=name, scores=matrix)
