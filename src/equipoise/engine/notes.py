"""What a reader should know about how a shard was made, kept beside the table in ``_notes/<shard>.json``.

So far one thing is noted: a batch that was made smaller because memory ran out. Such a shard may differ in the last
digits from one made with whole batches, and is therefore exempt from "the same bytes again".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from equipoise.data.atomic import write_whole
from equipoise.data.shards import shard_name

__all__ = ["NOTES_FOLDER", "read_notes", "write_notes"]

NOTES_FOLDER = "_notes"


def write_notes(folder: Path, index: int, notes: list[dict[str, Any]]) -> None:
    """Write the notes of a shard, or remove old ones where there are none."""
    path = folder / NOTES_FOLDER / f"{shard_name(index)}.json"
    if notes:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, (json.dumps(notes, sort_keys=True, indent=1) + "\n").encode())
    else:
        path.unlink(missing_ok=True)


def read_notes(folder: str | Path) -> dict[str, list[dict[str, Any]]]:
    """The notes of a table by shard file name; empty for a table that was made without incident.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_notes(folder, 2, [{"row": 0, "out_of_memory_with": 32, "batch_size": 16}])
    >>> read_notes(folder)["part-00002.parquet"][0]["batch_size"]
    16
    """
    paths = sorted((Path(folder) / NOTES_FOLDER).glob("part-*.parquet.json"))
    return {path.name.removesuffix(".json"): json.loads(path.read_bytes()) for path in paths}
