"""The files of an embedding store: segments of sorted ids and their vectors, written once and memory-mapped.

A segment is two files: ``<name>.vectors.npy`` of shape ``(n, d)`` and then ``<name>.ids.npy`` of shape ``(2, n)``,
the ids as pairs of unsigned 64-bit numbers, sorted. The second file makes the segment exist. The name holds a number
that grows and a hash of the ids, so that no two segments ever have the same name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.atomic import atomic_file, reached, write_whole
from equipoise.engine.content import Ids

Words = NDArray[np.uint64]
"""Ids as an array of shape ``(2, n)``: the first and the last eight bytes, big-endian, as numbers."""

_FILE = re.compile(r"(seg-(\d{8})-[0-9a-f]{8})\.(ids|vectors)\.npy\Z")
_ROWS_AT_ONCE = 65_536

MERGE_NOTE = "merge.json"
"""What is being merged into what, while it is."""


@dataclass(frozen=True)
class Segment:
    """One segment, memory-mapped."""

    name: str
    words: Any
    vectors: Any

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    def find(self, words: Words) -> NDArray[np.int64]:
        """The row of each id, -1 where it is not here."""
        high, low = words
        rows = np.full(high.size, -1, np.int64)
        place = np.searchsorted(self.words[0], high)
        asked = np.arange(high.size)
        while asked.size:  # a second round only if two ids share their first eight bytes
            asked = asked[place[asked] < len(self)]
            here = self.words[0][place[asked]] == high[asked]
            asked = asked[here]
            same = self.words[1][place[asked]] == low[asked]
            rows[asked[same]] = place[asked[same]]
            asked = asked[~same]
            place[asked] += 1
        return rows


def words_of(ids: Ids) -> Words:
    """Ids of shape ``(n, 16)`` as ``(2, n)`` numbers, which sort as the ids do.

    >>> words_of(np.arange(16, dtype=np.uint8)[None])[0, 0] == 0x0001020304050607
    np.True_
    """
    pairs = np.ascontiguousarray(ids).view(">u8").astype(np.uint64)
    return np.ascontiguousarray(pairs.T)


def ids_of(words: Words) -> Ids:
    """The inverse of :func:`words_of`."""
    return np.ascontiguousarray(words.T).astype(">u8").view(np.uint8).reshape(-1, 16)


def sorted_order(words: Words) -> NDArray[np.int64]:
    """The order in which ids are sorted."""
    return np.lexsort((words[1], words[0]))


def first_of_each(words: Words) -> NDArray[np.int64]:
    """Where each different id stands for the first time, in the order of the sorted ids.

    >>> first_of_each(np.array([[7, 3, 7], [0, 0, 0]], np.uint64)).tolist()
    [1, 0]
    """
    order = sorted_order(words)
    first = np.ones(order.size, bool)
    first[1:] = (words[:, order[1:]] != words[:, order[:-1]]).any(axis=0)
    return order[first]


def segment_names(folder: Path) -> list[str]:
    """The names of the segments that exist, oldest first; those that were merged into another do not count."""
    matches = (_FILE.match(path.name) for path in folder.glob("seg-*.ids.npy"))
    names = {match[1] for match in matches if match}
    return sorted(names - _merged_away(folder, names))


def _merged_away(folder: Path, names: set[str]) -> set[str]:
    try:
        note = json.loads((folder / MERGE_NOTE).read_bytes())
    except FileNotFoundError:
        return set()
    return set(note["from"]) if note["into"] in names else set()


def open_segment(folder: Path, name: str) -> Segment | None:
    """The segment, or ``None`` if it is torn; ``FileNotFoundError`` if it does not exist (any more)."""
    try:
        words = np.load(_path(folder, name, "ids"), mmap_mode="r", allow_pickle=False)
        vectors = np.load(_path(folder, name, "vectors"), mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        if not _path(folder, name, "ids").exists():
            raise FileNotFoundError(name) from None
        return None
    fits = words.ndim == vectors.ndim == 2 and words.shape == (2, vectors.shape[0])
    typed = words.dtype == np.uint64 and vectors.dtype == np.float32
    return Segment(name, words, vectors) if fits and typed and len(vectors) else None


def write_segment(folder: Path, words: Words, vectors: Iterable[Any], dim: int) -> None:
    """Write a segment; ``words`` are sorted and ``vectors`` are pieces of shape ``(m, dim)`` in the same order."""
    _write_segment(folder, _new_name(folder, words), words, vectors, dim)


def merge_segments(folder: Path, segments: Sequence[Segment]) -> None:
    """Put one segment in the place of several.

    A note says what is merged into what before it is done, so that wherever this is killed every vector counts once:
    the old segments until the new one exists, and from then on the new one.
    """
    words, pieces = merged(segments)
    name = _new_name(folder, words)
    note = {"into": name, "from": [segment.name for segment in segments]}
    write_whole(folder / MERGE_NOTE, json.dumps(note).encode())
    reached("store.after_note")
    _write_segment(folder, name, words, pieces, int(segments[0].vectors.shape[1]))


def clean_up(folder: Path, keep: Iterable[str]) -> None:
    """Remove all but the segments of ``keep``: temporary files, torn and half-written segments, and merged ones."""
    kept = set(keep)
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)
    # First the ids, without which a segment does not exist.
    for path in sorted(folder.glob("seg-*.npy"), key=lambda path: ".vectors." in path.name):
        match = _FILE.match(path.name)
        if match and match[1] not in kept:
            with suppress(OSError):  # on Windows a file that someone reads stays until the next time
                path.unlink()
    (folder / MERGE_NOTE).unlink(missing_ok=True)


def _new_name(folder: Path, words: Words) -> str:
    numbers = (_FILE.match(path.name) for path in folder.glob("seg-*.npy"))
    number = max((int(match[2]) for match in numbers if match), default=0) + 1
    return f"seg-{number:08d}-{hashlib.blake2b(words.tobytes(), digest_size=4).hexdigest()}"


def _write_segment(folder: Path, name: str, words: Words, vectors: Iterable[Any], dim: int) -> None:
    _write_npy(_path(folder, name, "vectors"), (words.shape[1], dim), "<f4", vectors)
    reached("store.after_vectors")
    _write_npy(_path(folder, name, "ids"), words.shape, "<u8", [words])
    reached("store.after_ids")


def merged(segments: Sequence[Segment]) -> tuple[Words, Iterator[Any]]:
    """The sorted ids of several segments together, and their vectors in that order, in pieces."""
    words = np.concatenate([segment.words for segment in segments], axis=1)
    source = np.repeat(np.arange(len(segments)), [len(segment) for segment in segments])
    row = np.concatenate([np.arange(len(segment)) for segment in segments])
    order = sorted_order(words)

    def pieces() -> Iterator[Any]:
        for start in range(0, order.size, _ROWS_AT_ONCE):
            part = order[start : start + _ROWS_AT_ONCE]
            piece = np.empty((part.size, segments[0].vectors.shape[1]), np.float32)
            for i in np.unique(source[part]):
                mine = source[part] == i
                piece[mine] = segments[i].vectors[row[part[mine]]]
            yield piece

    return words[:, order], pieces()


def _path(folder: Path, name: str, part: str) -> Path:
    return folder / f"{name}.{part}.npy"


def _write_npy(path: Path, shape: tuple[int, ...], dtype: str, pieces: Iterable[Any]) -> None:
    with atomic_file(path) as file:
        head = {"descr": dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, head)
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, dtype).tobytes())
