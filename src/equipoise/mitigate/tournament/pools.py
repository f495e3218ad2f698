"""The images and texts of a tournament, encoded once: afterwards everything is arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise import engine
from equipoise.audit.asking import neutral_prompts
from equipoise.audit.captions import captions_of, known_captions
from equipoise.audit.gather import labels_of
from equipoise.data import Table
from equipoise.data.labels import without_twins
from equipoise.errors import InputError
from equipoise.measure.arrays import unit_vectors


@dataclass(frozen=True)
class EncodedPool:
    """Images with their labels and vectors."""

    frame: pd.DataFrame
    vectors: NDArray[np.float32]


class KnownVectors:
    """Vectors that are there already, as a model: remedies are fitted on it, and only new texts reach the encoder."""

    def __init__(self, model: Any, how: engine.Asking | None) -> None:
        self.model, self.name, self.key, self.how = model, model.name, model.key, how
        self._images: dict[str, NDArray[np.float32]] = {}
        self._texts: dict[str, NDArray[np.float32]] = {}

    def keep_images(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Take what was encoded."""
        self._images |= dict(zip(ids, vectors, strict=True))

    def image_vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) those of some images."""
        return np.stack([self._images[name] for name in ids])

    def text_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(m, d) those of some texts; new ones are encoded."""
        new = [text for text in dict.fromkeys(texts) if text not in self._texts]
        if new:
            self._texts |= dict(zip(new, np.asarray(engine.vectors(self.model, new, self.how)), strict=True))
        return np.stack([self._texts[text] for text in texts])


@dataclass(frozen=True)
class Encoded:
    """Everything that one model is asked in a tournament."""

    sets: EncodedPool
    natural: EncodedPool | None
    stored: KnownVectors
    prompt: str

    @property
    def utility(self) -> EncodedPool:
        """The images by which usefulness is judged: natural ones, where there are any."""
        return self.natural if self.natural is not None else self.sets

    def prompts(self, subjects: Sequence[str]) -> list[str]:
        """The neutral text of each subject."""
        return [some[0] for some in neutral_prompts(subjects, [self.prompt])]


def encoded(
    model: Any,
    table: Table,
    natural: Table | None,
    prompt: str,
    axis: str,
    how: engine.Asking | None,
    *,
    subjects: Sequence[str] | None = None,
) -> Encoded:
    """Ask ``model`` for all images and texts, or for those of some ``subjects``."""
    stored = KnownVectors(model, how)
    sets = _pool(stored, table, how, "set_id", "subject", axis, subjects=None if subjects is None else set(subjects))
    beside = None
    if natural is not None:
        shown = set(sets.frame["subject"].dropna())
        # no remedy is fitted on natural images, and one may have the id of an image in the sets, whose vector stays
        beside = _pool(stored, natural, how, "subject", axis, subjects=shown, keep=False)
        if not len(beside.frame):
            raise InputError(
                f"{natural.path}: has no subject that {table.path} has, so that the two cannot be compared"
            )
    pools = Encoded(sets, beside, stored, prompt)
    stored.text_vectors(pools.prompts(sorted(map(str, sets.frame["subject"].dropna().unique()))))
    known = known_captions(pools.utility.frame)
    if any(known):
        captions = captions_of(pools.utility.frame["image_id"].tolist(), known, "tournament")
        stored.text_vectors(captions.texts)
    return pools


def some_subjects(pool: EncodedPool, subjects: Sequence[str]) -> EncodedPool:
    """The images of some subjects alone."""
    return _rows(pool, pool.frame["subject"].isin(list(subjects)).to_numpy(dtype=bool))


def _rows(pool: EncodedPool, keep: NDArray[np.bool_]) -> EncodedPool:
    frame = pool.frame[keep].reset_index(drop=True)
    frame.attrs.update(pool.frame.attrs)
    return replace(pool, frame=frame, vectors=pool.vectors[keep])


def _pool(
    stored: KnownVectors,
    table: Table,
    how: engine.Asking | None,
    *columns: str,
    subjects: set[str] | None = None,
    keep: bool = True,
) -> EncodedPool:
    """The images of a table; ``keep`` puts their vectors where remedies find what they are fitted on."""
    for name in columns:
        if name not in table.columns:
            raise InputError(f"{table.path}: has no column {name!r}, which a tournament needs")
    frame = labels_of(table, ("captions",))
    if subjects is not None:  # the others are not encoded at all
        frame = frame[frame["subject"].isin(subjects)].reset_index(drop=True)
    frame.attrs["axes"] = list(table.axes)
    ids = frame["image_id"].tolist()
    vectors = unit_vectors(engine.vectors(stored.model, table, how, ids=ids), stored.model.name, ids)
    if keep:
        stored.keep_images(ids, vectors)  # remedies are fitted on placebo twins too, as by 'mitigate', judged on none
    pool = EncodedPool(frame, vectors)
    return _rows(pool, np.asarray(without_twins(frame), dtype=bool)) if len(frame) else pool
