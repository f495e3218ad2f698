"""Where an export writes: a new folder that appears whole or not at all.

What an export reads: the rows of a table that stay, and their images as files.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from glob import escape
from itertools import chain, count
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import pyarrow as pa

from equipoise.data.atomic import clear_after_kill, lock_of, locked
from equipoise.data.images import image_bytes, refuse_outside
from equipoise.errors import InputError

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
    """Arrow batches of the ``columns``; ``rows="kept"`` leaves out what a filter dropped or could not judge.

    A row that a balancing layer takes more than once is there as often; its copies have ids of their own.
    """
    if rows not in _ROWS:
        raise InputError(f"rows={rows!r} is not known; use 'kept' or 'all'")
    judged = rows == "kept" and "keep" in table.columns
    repeated = judged and any("balance" in layer.config for layer in getattr(table, "layers", ()))
    mark = _copy_mark(table) if repeated and "image_id" in columns else ""
    asked = list(dict.fromkeys([*columns, *(["keep"] if judged else []), *(["copies"] if repeated else [])]))
    for batch in table.batches(columns=asked):
        kept = batch.filter(batch.column(batch.schema.get_field_index("keep"))) if judged else batch
        for part in _repeated(kept, mark) if repeated else [kept]:
            if part.num_rows:
                yield part.select(list(columns))


def _repeated(batch: Any, mark: str) -> Iterator[Any]:
    """The rows as often as ``copies`` says, in batches no longer than this one: images are large."""
    taken = [(i, k) for i, n in enumerate(batch.column("copies").to_pylist()) for k in range(1 if n is None else n)]
    for start in range(0, len(taken), max(1, batch.num_rows)):
        part = taken[start : start + batch.num_rows]
        copies = batch.take(pa.array([i for i, _ in part], pa.int64()))
        if mark:
            names = copies.column("image_id").to_pylist()
            own = [f"{name}{mark}{k + 1}" if k else name for name, (_, k) in zip(names, part, strict=True)]
            copies = copies.set_column(
                copies.schema.get_field_index("image_id"), "image_id", pa.array(own, pa.string())
            )
        yield copies


def _copy_mark(table: Exportable) -> str:
    """What stands between the id of a repeated row and the number of the copy; no id of the table has it."""
    mark = "~copy"
    while any(mark in name for batch in table.batches(columns=["image_id"]) for name in batch.column(0).to_pylist()):
        mark = "~" + mark
    return mark


def kept_rows(table: Exportable, columns: Sequence[str], rows: str) -> Iterator[dict[str, Any]]:
    """The same, row by row."""
    for batch in kept_batches(table, columns, rows):
        yield from batch.to_pylist()


def split_names(table: Exportable, rows: str) -> dict[str | None, str]:
    """The splits of the rows, and the name of each as a file or folder.

    A table without splits has one, ``train``, as Hugging Face calls it; rows without one beside others that have
    one are :func:`unassigned`. Names are such as Hugging Face takes, and no two splits have the same.
    """
    if "split" not in table.columns:
        return {None: "train"}
    splits = {
        split for batch in kept_batches(table, ["split"], rows) for split in batch.column("split").unique().to_pylist()
    }
    if splits <= {None}:
        return {None: "train"}
    names: dict[str | None, str] = {}
    for split in sorted(splits - {None}, key=lambda name: (_legal(name) != name, name)):  # a legal name stays as it is
        names[split] = _unlike(_legal(split), names.values())
    return {split: names.get(split, unassigned(names.values())) for split in sorted(splits, key=str)}


def unassigned(names: Collection[str | None]) -> str:
    """The name of the split of rows that have none beside these ``names``.

    >>> unassigned(["train"]), unassigned(["train", "unassigned"])
    ('unassigned', 'unassigned_2')
    """
    return _unlike("unassigned", names)


def _legal(split: str) -> str:
    """The name of a split as Hugging Face takes it; the ``-`` after it in a file's name then ends it for sure.

    >>> _legal("test-hard"), _legal("val/1"), _legal("all")
    ('test_hard', 'val_1', 'all_')
    """
    name = re.sub(r"\W", "_", split) or "_"
    if name.lower() == "all":  # there it means the union of all splits
        return f"{name}_"
    if len(name.encode()) <= 160:
        return name
    return f"{name[:40]}_{hashlib.sha256(split.encode()).hexdigest()[:16]}"


def _unlike(name: str, names: Collection[str | None]) -> str:
    """``name``, or with the first number that makes it none of these ``names``."""
    numbered = (f"{name}_{k}" for k in count(2))
    return next(own for own in chain([name], numbered) if own not in names)


def file_of(table: Exportable, row: dict[str, Any]) -> tuple[str, bytes]:
    """A file name without folder, and the encoded image, of a row with ``image_id`` and ``image``."""
    try:
        root = getattr(table, "image_root", table.path)
        refuse_outside(row["image"], table.path, root)
        data = image_bytes(row["image"], root=root)
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


def free(out: str | os.PathLike[str]) -> Path:
    """``out`` as a Path, if nothing is there and its parent can hold it."""
    path = Path(out)
    if path.exists() or path.is_symlink():
        clear_after_kill(lock_of(path))
        raise InputError(f"{path} exists already; give another name or remove it first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent} cannot be made: {error.strerror or error}") from error
    return path


@contextmanager
def alone(out: str | os.PathLike[str]) -> Iterator[None]:
    """While the block runs no other process exports to ``out``; what a killed one left there is cleared away."""
    path = Path(out)
    if path.exists() or path.is_symlink():  # refused by :func:`free`, or a folder that gets a card
        yield
        return
    free(path)
    with locked(lock_of(path), what=str(path)):
        for left in path.parent.glob(f".{escape(path.name)}.*.tmp"):
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink(missing_ok=True)
        yield


@contextmanager
def new_folder(out: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``out`` that takes its name when the block ends without an error.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "set"
    >>> with new_folder(target) as folder:
    ...     _ = (folder / "a.txt").write_text("all of it")
    ...     print(target.exists())
    False
    >>> (target / "a.txt").read_text()
    'all of it'
    """
    path = free(out)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for folder, _, files in os.walk(temporary):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    os.fsync(file.fileno())
        try:
            os.rename(temporary, path)
        except OSError as error:
            raise InputError(f"{path} appeared while it was being written; nothing was changed there") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
