"""``_table.json``: what makes a folder of shards a table. It is written last, and its hash names the table."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.data.schema import SCHEMA_VERSION, TableSchema, arrow_type, schema_for
from equipoise.data.shards import ERRORS_FOLDER, ShardInfo, existing_shards
from equipoise.errors import InputError, like_it

MANIFEST = "_table.json"
UNFINISHED = "_writing.json"
TABLE_AT = "table_at"
"""The entry of a run that says where its table of images lies, as a path from the run's own folder."""
LISTS = (".csv", ".tsv", ".jsonl", ".parquet")
"""Files that a table can be made of in one command."""
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


@dataclass(frozen=True)
class Manifest:
    """The content of ``_table.json``: no times and no host names, so that equal tables have equal fingerprints."""

    schema: TableSchema
    shards: tuple[ShardInfo, ...] = ()
    parents: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    def head(self) -> dict[str, Any]:
        """What is known before the first shard is written."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": self.schema.kind,
            "axes": list(self.schema.axes),
            "columns": [{"name": name, "type": kind} for name, kind in self.schema.columns],
            "parents": list(self.parents),
            "config": dict(self.config),
        }

    def to_bytes(self) -> bytes:
        """The file's content; the same manifest gives the same bytes."""
        shards = [{"file": s.file, "rows": s.rows, "bytes": s.bytes, "sha256": s.sha256} for s in self.shards]
        errors = [
            {"file": f"{ERRORS_FOLDER}/{s.file}", "rows": s.n_errors, "sha256": s.errors_sha256}
            for s in self.shards
            if s.n_errors
        ]
        return dumped({**self.head(), "shards": shards, "errors": errors})

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read ``_table.json`` of ``folder``; every way in which it can be wrong has its own sentence."""
        path = folder / MANIFEST
        try:
            content = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(_why_no_table(folder)) from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON ({error}); write the table again") from None
        if not isinstance(content, dict):
            raise InputError(f"{path} is not a JSON object; write the table again")
        _check_version(path, content.get("schema_version"))
        try:
            parents = tuple(str(parent) for parent in list(content["parents"]))
            return cls(_schema(content), _shards(content), parents, dict(content["config"].items()))
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InputError(f"{path} lacks or garbles an entry ({error}); write the table again") from None


def dumped(content: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys, as the project stores it; what JSON cannot hold is named."""
    try:
        text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        return (text + "\n").encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"config cannot be stored as JSON: {error}; use text, numbers, lists and mappings") from None


def path_between(folder: str | Path, other: str | Path) -> str:
    """The path from ``folder`` to ``other``: the same wherever both are moved together, and without the machine's own.

    >>> path_between("runs/clip", "tables/sets")
    '../../tables/sets'
    """
    try:
        return Path(os.path.relpath(Path(other).resolve(), Path(folder).resolve())).as_posix()
    except ValueError:  # on two drives of one machine no path leads from one to the other
        return Path(other).resolve().as_posix()


def fingerprint_of(folder: Path) -> str:
    """The name of the table in ``folder``: the SHA-256 of its ``_table.json``."""
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def _check_version(path: Path, version: object) -> None:
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"{path}: schema_version is {version!r}, expected a number from 1 to {SCHEMA_VERSION}")
    if version > SCHEMA_VERSION:
        from equipoise import __version__

        raise InputError(
            f"{path} has table schema version {version}, but equipoise {__version__} reads versions up to "
            f"{SCHEMA_VERSION}; upgrade it with: pip install -U equipoise"
        )


def _schema(content: Mapping[str, Any]) -> TableSchema:
    columns = tuple((str(c["name"]), str(c["type"])) for c in content["columns"])
    axes = tuple(str(axis) for axis in content["axes"])
    for _, kind in columns:
        arrow_type(kind)
    schema = TableSchema(str(content["kind"]), axes, columns)
    dim = int(schema.types["vector"][len("vector<") : -1]) if schema.kind == "embeddings" else None
    expected = schema_for(schema.kind, axes=axes, dim=dim)
    for name, kind in expected.columns:
        if schema.types.get(name) != kind:
            raise InputError(f"column {name!r} is {schema.types.get(name, 'missing')}, expected {kind}")
    return schema


def _shards(content: Mapping[str, Any]) -> tuple[ShardInfo, ...]:
    errors = {entry["file"]: entry for entry in content["errors"]}
    shards = []
    for index, entry in enumerate(content["shards"]):
        failed = errors.get(f"{ERRORS_FOLDER}/{entry['file']}", {"rows": 0, "sha256": ""})
        shard = ShardInfo(
            index,
            int(entry["rows"]),
            int(entry["bytes"]),
            str(entry["sha256"]),
            int(failed["rows"]),
            str(failed["sha256"]),
        )
        if entry["file"] != shard.file:
            raise InputError(f"shard {index} is named {entry['file']!r}, expected {shard.file!r}")
        shards.append(shard)
    return tuple(shards)


def _why_no_table(folder: Path) -> str:
    if not folder.exists():
        hint = "; check the path, or make one with: equipoise table import"
        return f"there is no table at {folder}{like_it(folder) or hint}"
    if not folder.is_dir():
        listed = folder.suffix.lower() in LISTS
        hint = f"; make one of it: equipoise table import csv {folder} OUT" if listed else ""
        return f"{folder} is a file, but a table is a folder that holds {MANIFEST}{hint}"
    if (folder / UNFINISHED).exists():
        return f"the table at {folder} is not finished; run the command that was writing it again"
    if (folder / "run.json").exists():
        return f"{folder} holds a run, not a table; look at it with: equipoise report, or: equipoise compare"
    if existing_shards(folder) or any(folder.glob("*.parquet")):
        return f"{folder} holds Parquet files but no {MANIFEST}; make a table of it with: equipoise table import"
    if any(path.suffix.lower() in PICTURES for path in islice(folder.rglob("*"), 1000)):
        for root, where in ((folder, "in"), (folder.parent, "beside")):
            files = sorted((root / "annotations").glob("captions_*.json"))
            splits = [path.stem.removeprefix("captions_") for path in files]
            if splits:
                split = folder.name if folder.name in splits else splits[0]
                return (
                    f"{folder} is a folder of pictures, not a table, and has COCO's annotations {where} it; type: "
                    f"equipoise table import coco {root} OUT --option split={split}"
                )
        return (
            f"{folder} is a folder of pictures, not a table; list them in a CSV file with the groups that they show, "
            "and type: equipoise table import csv LIST OUT"
        )
    return f"{folder} is not a table: it holds no {MANIFEST}"
