"""A folder that ``datasets.load_dataset`` and the Hugging Face hub open as it is: Parquet shards and a card.

``<out>/data/<split>-00000-of-00003.parquet`` with the images inside, and ``README.md``. A table is already a folder
of Parquet files that ``datasets`` opens; this one holds the joined layers, only the rows that stay, and no pointer to
a file elsewhere.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from equipoise.data.exports.card import write_card
from equipoise.data.exports.source import Exportable, file_of, kept_batches, new_folder, split_names
from equipoise.errors import InputError

ROW_GROUP = 100
"""Images in a row group: what a reader must hold to show one of them."""

_IMAGE = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])


def export(
    table: Exportable,
    out: str | os.PathLike[str],
    *,
    rows: str = "kept",
    shard_bytes: int = 500_000_000,
    **about: Any,
) -> Path:
    """Write Parquet shards by split and the dataset card; return the folder.

    ``shard_bytes``: begin a new shard when one holds so many bytes of images. ``about``: title, licence, ... of the
    card.
    """
    if isinstance(shard_bytes, bool) or not isinstance(shard_bytes, int) or shard_bytes < 1:
        raise InputError(f"shard_bytes must be a whole number from 1 up, not {shard_bytes!r}")
    splits = split_names(table, rows)
    with new_folder(out) as folder:
        (folder / "data").mkdir()
        shards = _Shards(folder / "data", shard_bytes)
        try:
            for batch in kept_batches(table, table.columns, rows):
                for split, part in _by_split(batch):
                    for start in range(0, part.num_rows, ROW_GROUP):
                        shards.write(splits[split], _embedded(table, part.slice(start, ROW_GROUP)))
        finally:
            shards.close()
        shards.say_how_many()
        data_files = {name: f"data/{name}-*" for name in splits.values()}
        write_card(table, folder / "README.md", rows=rows, data_files=data_files, **about)
    return Path(out)


class _Shards:
    """Open shards by split, and how many bytes the last one of each holds."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._writers: dict[str, Any] = {}
        self._bytes: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def write(self, split: str, batch: Any) -> None:
        if split in self._writers and self._bytes[split] >= self._limit:
            self._writers.pop(split).close()
        if split not in self._writers:
            number = self._counts.get(split, 0)
            self._counts[split], self._bytes[split] = number + 1, 0
            features = {field.name: _feature(field.type) for field in batch.schema}
            schema = batch.schema.with_metadata({b"huggingface": json.dumps({"info": {"features": features}}).encode()})
            path = self._folder / f"{split}-{number:05d}"
            self._writers[split] = pq.ParquetWriter(path, schema, write_page_checksum=True)
        self._writers[split].write_batch(batch.replace_schema_metadata(None), row_group_size=ROW_GROUP)
        self._bytes[split] += batch.nbytes

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def say_how_many(self) -> None:
        """Give every shard its last name, which tells how many there are."""
        for split, count in self._counts.items():
            for number in range(count):
                last = f"{split}-{number:05d}-of-{count:05d}.parquet"
                (self._folder / f"{split}-{number:05d}").rename(self._folder / last)


def _by_split(batch: Any) -> list[tuple[str | None, Any]]:
    if "split" not in batch.schema.names:
        return [(None, batch)]
    splits = batch.column("split").to_pylist()
    order = dict.fromkeys(splits)
    return [(split, batch.filter(pa.array([s == split for s in splits]))) for split in order]


def _embedded(table: Exportable, batch: Any) -> Any:
    """The batch with every image as bytes."""
    if "image" not in batch.schema.names:
        return batch
    cells: list[dict[str, Any] | None] = []
    ids = batch.column("image_id").to_pylist()
    for image_id, image in zip(ids, batch.column("image").to_pylist(), strict=True):
        if image is None or not (image["bytes"] or image["path"]):
            cells.append(None)
        else:
            name, data = file_of(table, {"image_id": image_id, "image": image})
            cells.append({"bytes": data, "path": name})
    position = batch.schema.get_field_index("image")
    return batch.set_column(position, pa.field("image", _IMAGE), pa.array(cells, _IMAGE))


def _feature(arrow: Any) -> Any:
    if arrow.equals(_IMAGE):
        return {"_type": "Image"}
    if pa.types.is_fixed_size_list(arrow):
        return {"_type": "Sequence", "length": arrow.list_size, "feature": _feature(arrow.value_type)}
    if pa.types.is_list(arrow):
        return {"_type": "Sequence", "feature": _feature(arrow.value_type)}
    names = {pa.float64(): "float64", pa.float32(): "float32", pa.bool_(): "bool"}
    return {"_type": "Value", "dtype": names.get(arrow, str(arrow))}
