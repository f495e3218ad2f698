"""webdataset shards: tar files with ``<key>.jpg`` (or another image), ``<key>.json`` and ``<key>.txt`` a sample.

``<out>/<split>-000000.tar`` ...; the key is the image id with everything but letters, digits, ``-`` and ``_``
escaped, because a dot ends a key. The same table gives the same bytes: no times, no owners.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

from equipoise.data.exports.card import write_card
from equipoise.data.exports.source import Exportable, file_of, kept_rows, new_folder, split_names
from equipoise.errors import InputError


def export(
    table: Exportable, out: str | os.PathLike[str], *, rows: str = "kept", samples: int = 1000, **about: Any
) -> Path:
    """Write tar shards of at most ``samples`` samples by split, and the dataset card; return the folder."""
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise InputError(f"samples must be a whole number from 1 up, not {samples!r}")
    columns = [name for name in table.columns if name != "image"]
    splits = split_names(table, rows)
    with new_folder(out) as folder:
        open_shards: dict[str | None, tarfile.TarFile] = {}
        counts: dict[str | None, int] = {}
        try:
            for row in kept_rows(table, ["image", *columns], rows):
                split = row.get("split")
                number = counts.get(split, 0)
                if number % samples == 0:
                    if split in open_shards:
                        open_shards.pop(split).close()
                    path = folder / f"{splits[split]}-{number // samples:06d}.tar"
                    open_shards[split] = tarfile.open(path, "w", format=tarfile.GNU_FORMAT)  # noqa: SIM115
                counts[split] = number + 1
                _add_sample(open_shards[split], table, row, columns)
        finally:
            for shard in open_shards.values():
                shard.close()
        data_files = {name: f"{name}-*.tar" for name in splits.values()}
        write_card(table, folder / "README.md", rows=rows, data_files=data_files, **about)
    return Path(out)


def _add_sample(shard: tarfile.TarFile, table: Exportable, row: dict[str, Any], columns: list[str]) -> None:
    name, data = file_of(table, row)
    key = name.partition(".")[0]
    metadata = json.dumps({column: row[column] for column in columns}, ensure_ascii=False, sort_keys=True)
    files = [(name, data), (f"{key}.json", metadata.encode())]
    if row.get("caption"):
        files.append((f"{key}.txt", row["caption"].encode()))
    for file_name, content in files:
        info = tarfile.TarInfo(file_name)
        info.size = len(content)
        info.mode = 0o644
        shard.addfile(info, io.BytesIO(content))
