"""What an export reads: the rows of a table that stay, and their images as files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from equipoise.data.images import image_bytes
from equipoise.errors import InputError

__all__ = ["UNASSIGNED", "Exportable", "file_of", "kept_batches", "kept_rows", "safe_name", "split_names", "suffix_of"]

UNASSIGNED = "unassigned"
"""The name of the split of rows that have none, in a table where others have one."""

_ROWS = ("kept", "all")
_MAGIC = (
    (b"\xff\xd8\xff", ".jpg"),
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tif"),
    (b"MM\0*", ".tif"),
    (b"P6", ".ppm"),
)


class Exportable(Protocol):
    """What an export needs of a table; :class:`equipoise.data.Table` has it."""

    @property
    def path(self) -> Path:
        """Where the table is."""

    @property
    def fingerprint(self) -> str:
        """The table's name for its descendants."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that groups are shown on."""

    @property
    def columns(self) -> list[str]:
        """The column names."""

    def __len__(self) -> int: ...

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow batches with these columns."""


def kept_batches(table: Exportable, columns: Sequence[str], rows: str) -> Iterator[Any]:
    """Arrow batches of the ``columns``; ``rows="kept"`` leaves out what a filter dropped or could not judge."""
    if rows not in _ROWS:
        raise InputError(f"rows={rows!r} is not known; use 'kept' or 'all'")
    judged = rows == "kept" and "keep" in table.columns
    asked = list(dict.fromkeys([*columns, *(["keep"] if judged else [])]))
    for batch in table.batches(columns=asked):
        made = batch.filter(batch.column(batch.schema.get_field_index("keep"))) if judged else batch
        if made.num_rows:
            yield made.select(list(columns))


def kept_rows(table: Exportable, columns: Sequence[str], rows: str) -> Iterator[dict[str, Any]]:
    """The same, row by row."""
    for batch in kept_batches(table, columns, rows):
        yield from batch.to_pylist()


def split_names(table: Exportable, rows: str) -> dict[str | None, str]:
    """The splits of the rows, and the name of each as a file or folder.

    A table without splits has one, ``train``, as Hugging Face calls it; rows without one beside others that have
    one are ``unassigned``.
    """
    if "split" not in table.columns:
        return {None: "train"}
    found = {
        split for batch in kept_batches(table, ["split"], rows) for split in batch.column("split").unique().to_pylist()
    }
    if found <= {None}:
        return {None: "train"}
    return {split: UNASSIGNED if split is None else safe_name(split) for split in sorted(found, key=str)}


def file_of(table: Exportable, row: dict[str, Any]) -> tuple[str, bytes]:
    """A file name without folder, and the encoded image, of a row with ``image_id`` and ``image``."""
    try:
        data = image_bytes(row["image"], root=getattr(table, "image_root", table.path))
        return safe_name(row["image_id"]) + suffix_of(data), data
    except InputError as error:
        raise InputError(f"{table.path}: image {row['image_id']!r} cannot be exported: {error}") from None


def suffix_of(data: bytes) -> str:
    """The suffix that fits an encoded image, by its first bytes.

    >>> suffix_of(b"\\xff\\xd8\\xff\\xe0...")
    '.jpg'
    """
    for magic, suffix in _MAGIC:
        if data.startswith(magic):
            return suffix
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    if data[4:12] in (b"ftypavif", b"ftypavis"):
        return ".avif"
    raise InputError(f"its first bytes {data[:8]!r} are of no image format that is known")


def safe_name(image_id: str) -> str:
    """A file name that only this id has, on any system: no folder, no dot, not too long.

    >>> safe_name("val/1.jpg"), len(safe_name("x" * 500))
    ('val%2F1%2Ejpg', 157)
    """
    name = quote(image_id, safe="").replace(".", "%2E").replace("~", "%7E")
    if len(name) <= 160:
        return name
    return f"{name[:140]}-{hashlib.sha256(image_id.encode()).hexdigest()[:16]}"
