"""The rows of a table that are learnt from: labels in memory, images read when a batch wants them.

What a filter dropped (``keep``) is not used, a row stands as often as ``copies`` says, and ``split`` decides what is
learnt from and what the learning is judged by. No subject, no counterfactual set and no source image is on both sides.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from equipoise.data import Table
from equipoise.data.images import decode
from equipoise.data.labels import set_numbers
from equipoise.data.sampling import split
from equipoise.errors import InputError, UnknownNameError

HELD_BYTES = 1_000_000_000
"""Encoded images that are kept in memory; a larger table is gone through in windows of about this size."""
DECODED_BYTES = 250_000_000
"""Decoded images that are kept in memory beside them: all of a small table, so that later epochs decode nothing."""
TRAIN = ("train", "training")
VALIDATION = ("val", "validation", "valid", "dev")
_TOGETHER = ("subject", "set_id", "source_id")
_COMPARED = 20
"""Of two tables with the same ids so many pictures are compared."""
_LARGEST_CHANGE = 40
"""Of a grey level of 255, in a picture of 16 by 16: more than compression changes."""


class TrainingRows:
    """The kept rows of a table: ``labels`` has one line for each, and :meth:`images` reads their pictures."""

    def __init__(self, table: Table, columns: Sequence[str] = (), *, held_bytes: int = HELD_BYTES) -> None:
        for name in columns:
            if name not in table.types:
                raise UnknownNameError(f"column of {table.path}", name, table.columns)
        self.table = table
        self.held_bytes = held_bytes
        wanted = ["image_id", *columns, *(c for c in (*_TOGETHER, "split", "copies") if c in table.columns)]
        self.labels = _labels(table, list(dict.fromkeys(wanted)))
        if not len(self.labels):
            raise InputError(f"{table.path}: no row is left to learn from; every one was dropped by a filter")
        self._held: OrderedDict[int, Any] = OrderedDict()
        self._decoded: dict[int, Any] = {}
        self._decoded_room = DECODED_BYTES
        self._lock = threading.Lock()
        self._root = table.image_root

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def name(self) -> str:
        """The table's folder."""
        return str(self.table.path)

    @property
    def copies(self) -> NDArray[np.int64]:
        """(n,) how often each row is taken in an epoch."""
        if "copies" not in self.labels:
            return np.ones(len(self), dtype=np.int64)
        return self.labels["copies"].fillna(1).to_numpy(dtype=np.int64)

    def rows(self, places: Sequence[int], *, images: bool = True) -> list[dict[str, Any]]:
        """The rows at ``places``: their labels, and their RGB images if wanted."""
        rows = [{name: _plain(values[place]) for name, values in self._columns.items()} for place in places]
        if images:
            for place, row in zip(places, rows, strict=True):
                row["image"] = self._image(place, row)
        return rows

    @cached_property
    def _columns(self) -> dict[str, NDArray[Any]]:
        """The labels column by column, for a row of a frame costs more than its picture."""
        return {str(name): self.labels[name].to_numpy() for name in self.labels}

    def windows(self) -> list[NDArray[np.int64]] | None:
        """The rows of each group of shards whose images fit into memory together; ``None`` where all fit."""
        sizes = [(self.table.path / shard.file).stat().st_size for shard in self.table.shards]
        if sum(sizes) <= self.held_bytes:
            return None
        window, held, windows = 0, 0, []
        for size in sizes:
            if held and held + size > self.held_bytes:
                window, held = window + 1, 0
            windows.append(window)
            held += size
        mine = np.array(windows)[self.labels["_shard"].to_numpy()]
        return [np.flatnonzero(mine == number) for number in range(window + 1) if (mine == number).any()]

    def _image(self, place: int, row: dict[str, Any]) -> Any:
        """The RGB image of a row; the first ones stay decoded, as far as there is room, for the next epoch."""
        if place in self._decoded:
            return self._decoded[place]
        cell = self._cells(row["_shard"])[row["_row"]].as_py()
        try:
            image = decode(cell, root=self._root)
        except InputError as error:
            raise InputError(f"{self.table.path}: image {row['image_id']!r}: {error}") from None
        size = 4 * image.width * image.height  # as Pillow keeps it
        with self._lock:
            if size <= self._decoded_room and place not in self._decoded:
                self._decoded_room -= size
                self._decoded[place] = image
        return image

    def _cells(self, shard: int) -> Any:
        """The encoded images of a shard, kept as long as there is room."""
        with self._lock:
            if shard not in self._held:
                self._held[shard] = self.table.own_columns(shard, ["image"]).column("image")
                while len(self._held) > 2 and sum(cells.nbytes for cells in self._held.values()) > self.held_bytes:
                    self._held.popitem(last=False)
            self._held.move_to_end(shard)
            return self._held[shard]


@dataclass(frozen=True)
class Parts:
    """Which rows are learnt from and which the learning is judged by, by their places in ``labels``."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    n_left_out: int = 0
    """Rows of the table's own validation split that share a subject, a set or a source with training."""


def parted(rows: TrainingRows, val_share: float, seed: int) -> Parts:
    """Rows to learn from and rows to judge by.

    Where the table has a ``split``, its ``train`` rows are learnt from and its ``val`` rows judge, without those that
    share a subject, a set or a source image with training; else a share of the subjects, drawn by ``seed``, judges.
    """
    labels = rows.labels
    given = labels["split"].astype("string").str.lower() if "split" in labels else pd.Series(pd.NA, index=labels.index)
    if given.notna().any():
        train, judges = (np.flatnonzero(given.isin(names).to_numpy(dtype=bool)) for names in (TRAIN, VALIDATION))
        if not len(train):
            there = ", ".join(sorted(given.dropna().unique()))
            raise InputError(f"{rows.name}: no row is of the split train (there are: {there}); nothing to learn from")
        if len(judges) and val_share:
            clean = judges[~sharing(labels.iloc[judges], labels.iloc[train])]
            if not len(clean):
                raise InputError(
                    f"{rows.name}: every row of its validation split shares a subject, a set or a source image with "
                    "training; leave the split layer out, and a share of the subjects is held back (--val-share)"
                )
            return Parts(train, clean, len(judges) - len(clean))
    else:
        train = np.arange(len(labels))
    if not val_share:
        return Parts(train, np.zeros(0, dtype=np.int64))
    frame = labels.iloc[train]
    by = next((c for c in ("subject", "set_id") if c in frame and frame[c].notna().any()), "image_id")
    try:
        drawn = split(frame, by=by, fractions={"train": 1 - val_share, "val": val_share}, seed=seed).to_numpy()
    except InputError as error:
        raise InputError(f"{rows.name}: {error}; give another val_share (--val-share), or 0 to judge by none") from None
    return Parts(train[drawn == "train"], train[drawn == "val"])


def places_apart(rows: TrainingRows, judges: pd.DataFrame) -> NDArray[np.int64]:
    """The rows of a further table to learn from, where ``judges`` are the rows of the main table that judge.

    They are its ``train`` rows, or all where it has no ``split``, without those that share a subject, a set or a source
    image with the judges.
    """
    train = parted(rows, 0.0, 0).train
    apart = train[~sharing(rows.labels.iloc[train], judges)]
    if not len(apart):
        raise InputError(
            f"{rows.name}: no row is left to mix in, for each shares a subject, a set or a source image with the rows "
            "that judge; give another table, or judge by none (--val-share 0)"
        )
    return apart


def note_on_left_out(rows: TrainingRows, places: NDArray[np.int64], judges: pd.DataFrame) -> str:
    """How many rows of a further table are mixed in, at ``places``, and why the others are not; empty where all are."""
    n, train = len(rows), parted(rows, 0.0, 0).train
    if len(places) == n:
        return ""
    reasons = [f"{n - len(train):,} outside its training split"] if len(train) < n else []
    if len(train) > len(places):
        shared = _shared_by(rows.labels.iloc[train], judges)
        by = ", ".join(f"{what}: {mask.sum():,}" for what, mask in shared.items() if mask.any())
        reasons.append(
            f"{len(train) - len(places):,} with the name of something that judges ({by}); if that is chance, rename it "
            "in one of the two tables, or judge by none (--val-share 0)"
        )
    return f"{rows.name}: {len(places):,} of {n:,} images are mixed in; left out: {', '.join(reasons)}"


def refuse_other_pictures(rows: TrainingRows, judges: NDArray[np.int64], other: TrainingRows) -> None:
    """Refuse a further table in which the id of an image that judges names another picture.

    The same picture must not be learnt from, and is left out. With another one the ids of the two tables agree by
    chance, or one holds edits under the ids of their sources: which it is only the user knows. Some ids are looked at.
    """
    place_of = {name: place for place, name in zip(judges.tolist(), rows.labels["image_id"].iloc[judges], strict=True)}
    both = [(name, place) for place, name in enumerate(other.labels["image_id"]) if name in place_of]
    for name, place in both[:_COMPARED]:
        if not _alike(rows, place_of[name], other, place):
            raise InputError(
                f"the id {name!r} is one picture in {rows.name} and another in {other.name}, so that it cannot be told "
                "which images must not be learnt from; import one of the two with other ids (--id-column COLUMN), or "
                "judge by none (--val-share 0)"
            )


def _alike(rows: TrainingRows, place: int, other: TrainingRows, others_place: int) -> bool:
    """Whether two rows show the same picture, as far as can be read; a size or a compression does not matter."""
    small = []
    for table, at in ((rows, place), (other, others_place)):
        try:
            [row] = table.rows([at])
        except InputError:
            return True
        small.append(np.asarray(row["image"].convert("L").resize((16, 16), Image.Resampling.BOX), dtype=np.int64))
    return bool(np.abs(small[0] - small[1]).max() <= _LARGEST_CHANGE)


def sharing(labels: pd.DataFrame, others: pd.DataFrame) -> NDArray[np.bool_]:
    """(n,) which rows share a subject, a set or a source with one of ``others``; an image is a source of its own."""
    return np.asarray(np.stack(list(_shared_by(labels, others).values())).any(axis=0), dtype=np.bool_)


def _shared_by(labels: pd.DataFrame, others: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
    """The same by what is shared."""
    shared = {}
    for what, columns in (("subject", ("subject",)), ("image or source", ("source_id", "image_id"))):
        seen: set[Any] = set().union(*(others[c].dropna() for c in columns if c in others))
        there = [c for c in columns if c in labels]
        shared[what] = labels[there].isin(seen).any(axis=1).to_numpy(dtype=bool)
    sets = set_numbers(pd.concat([labels, others], ignore_index=True))
    mine, theirs = sets[: len(labels)], sets[len(labels) :]
    return shared | {"set": (mine >= 0) & np.isin(mine, theirs)}


def _labels(table: Table, columns: list[str]) -> pd.DataFrame:
    """The kept rows, with the shard and the row of the shard where each image lies."""
    frames = []
    read = [*columns, "keep"] if "keep" in table.columns else columns
    for shard in range(len(table.shards)):
        start = 0
        for batch in table.shard_batches(shard, read):
            frame = batch.to_pandas()
            frame["_shard"], frame["_row"] = shard, np.arange(start, start + len(frame))
            start += len(frame)
            frames.append(frame)
    if not frames:
        raise InputError(f"{table.path}: the table is empty; there is nothing to learn from")
    labels: pd.DataFrame = pd.concat(frames, ignore_index=True)
    if "keep" in read:
        labels = labels[labels["keep"].fillna(False).astype(bool)].drop(columns="keep")
    if "copies" in labels:
        labels = labels[labels["copies"].fillna(1) > 0]
    return labels.reset_index(drop=True)


def _plain(value: Any) -> Any:
    """A cell as Python has it; what is missing is ``None``."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if value is None or (not isinstance(value, list | dict) and pd.isna(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value
